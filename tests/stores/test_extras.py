"""Small files beside a checkpoint's tensors are copied with them; links that lead out of its folder are not."""

import codecs
import json
import os

import numpy as np
import pytest
from stores.test_commands import anydml
from stores.test_opening import written
from stores.test_resharding import assert_equal, hugging_face, llama

from anydml import stores
from anydml.errors import BindingError, ModelError
from anydml.stores import reshard
from anydml.stores.checkpoints import extras

SMALL = {"config.json": b"{}", "tokenizer.json": b"[1]", "tokenizer.model": bytes(range(256)), "merges.txt": b"a b\n",
         "chat_template.jinja": b"{{ x }}", "README.md": b"", "modeling_own.py": b"pass"}  # fmt: skip

LEFT = ("pytorch_model.bin", "pytorch_model.bin.index.json", "model.gguf", "large.json")
"""Of which all but the last have weights."""


@pytest.fixture
def tensors():
    return llama(1)


@pytest.fixture
def source(tmp_path, tensors, monkeypatch):
    """A folder as Hugging Face's hub has them."""
    monkeypatch.setattr(extras, "MAX_BYTES", 1000)
    folder = hugging_face(tmp_path / "in", tensors)
    for name, content in SMALL.items():
        (folder / name).write_bytes(content)
    for name in LEFT:
        (folder / name).write_bytes(bytes(2000))
    (folder / ".gitattributes").write_text("hidden")
    (folder / "original").mkdir()
    (folder / "original" / "params.json").write_text("{}")
    return folder


def small(folder):
    return {each.name: each.read_bytes() for each in folder.iterdir() if "safetensors" not in each.name}


@pytest.mark.parametrize("options", [[], ["--shard-size", "5KB"], ["--tp", "2"]], ids=str)
def test_small_files_come_along(tmp_path, source, tensors, capsys, options):
    code, out, _ = anydml(capsys, "reshard", source, tmp_path / "out", *options)
    assert code == 0
    assert small(tmp_path / "out") == SMALL
    size = sum(map(len, SMALL.values()))
    copied = ", ".join(json.dumps(name) for name in sorted(SMALL))
    assert f"  copies {copied}, {size} B\n" in out
    assert '  leaves out 2 other files in the folder: "model.gguf", "pytorch_model.bin"\n' in out
    assert '  leaves behind "large.json", "original/"\n' in out
    # And once more from there, over itself.
    assert anydml(capsys, "reshard", tmp_path / "out", tmp_path / "back")[0] == 0
    assert small(tmp_path / "back") == SMALL
    assert_equal(stores.open(tmp_path / "back"), tensors)
    assert anydml(capsys, "reshard", source, tmp_path / "back", "--overwrite")[0] == 0
    assert small(tmp_path / "back") == SMALL


def test_they_stay_behind_where_that_is_asked_for_or_there_is_no_folder(tmp_path, source, capsys):
    code, out, _ = anydml(capsys, "reshard", source, tmp_path / "out", "--no-extras")
    assert (code, "config.json" in out) == (0, False)
    assert small(tmp_path / "out") == {}
    code, out, _ = anydml(capsys, "reshard", source, tmp_path / "out.safetensors")
    assert (code, 'leaves behind "README.md"' in out, "copies" in out) == (0, True, False)
    # A file is a checkpoint of its own; an index stands for its folder.
    file = next(source.glob("*.safetensors"))
    assert "config.json" not in str(reshard([file], tmp_path / "one"))
    assert "config.json" in str(reshard([source / "model.safetensors.index.json"], tmp_path / "one"))
    # What is not written again is not replaced.
    assert anydml(capsys, "reshard", source, tmp_path / "with", "-q")[0] == 0
    code, _, err = anydml(capsys, "reshard", source, tmp_path / "with", "--no-extras", "--overwrite")
    assert (code, "beside files of tensors, so the folder is not replaced" in err) == (2, True)


@pytest.mark.parametrize("moment", ["before", "meanwhile"])
def test_small_files_that_change_are_noticed(tmp_path, source, monkeypatch, moment):
    from anydml.stores.running.file_blocks import FileBlocks

    plan = reshard([source], tmp_path / "out")
    if moment == "before":
        (source / "config.json").write_text("other")
    else:
        write = FileBlocks.write
        monkeypatch.setattr(
            FileBlocks, "write", lambda *given: (write(*given), (source / "config.json").write_text("other"))
        )
    with pytest.raises(BindingError, match=r"config\.json has changed since it was opened"):
        plan.run()
    assert sorted(os.listdir(tmp_path)) == ["in"]


@pytest.mark.skipif(os.name != "posix", reason="links need rights on Windows")
def test_links_out_of_the_folder_are_not_published(tmp_path, source, capsys):
    (tmp_path / "secret").write_text("of this machine")
    for name, target in (("vocab.json", "../secret"), ("absolute.txt", tmp_path / "secret"), ("none.txt", "nowhere")):
        (source / name).symlink_to(target)
    (source / "alias.json").symlink_to("config.json")
    code, out, _ = anydml(capsys, "reshard", source, tmp_path / "out")
    assert code == 0
    assert small(tmp_path / "out") == {**SMALL, "alias.json": SMALL["config.json"]}
    said = next(line for line in out.splitlines() if "leaves behind" in line)
    assert all(f'"{name}"' in said for name in ("vocab.json", "absolute.txt", "none.txt"))


@pytest.mark.skipif(os.name != "posix", reason="links need rights on Windows")
def test_links_into_the_cache_of_a_hub_are_copied(tmp_path, capsys):
    snapshot = tmp_path / "models--a" / "snapshots" / "1234"
    snapshot.mkdir(parents=True)
    blobs = tmp_path / "models--a" / "blobs"
    blobs.mkdir()
    x = {"w": np.arange(6, dtype=np.float32)}
    written(blobs / "abcd", x)
    (blobs / "ef01").write_text("{}")
    (snapshot / "model.safetensors").symlink_to("../../blobs/abcd")
    (snapshot / "config.json").symlink_to("../../blobs/ef01")
    assert anydml(capsys, "reshard", snapshot, tmp_path / "out", "--no-follow")[0] == 0
    assert small(tmp_path / "out") == {"config.json": b"{}"}
    assert not (tmp_path / "out" / "config.json").is_symlink()
    assert_equal(stores.open(tmp_path / "out"), x)


@pytest.mark.skipif(os.name != "posix", reason="links need rights on Windows")
@pytest.mark.parametrize("kind", ["plain", "ranks", "pieces", "index"])
def test_shards_that_are_links_out_of_their_folder(tmp_path, capsys, kind):
    """Whoever names a folder means what lies in it; what an index names, somebody else has written."""
    x = {"w": np.arange(6, dtype=np.float32)}
    metadata = {
        "ranks": {"anydml_rank": "0", "anydml_ranks": "1", "anydml_parts": '{"w": [[[0, 6]]]}'},
        "pieces": {"DCP_SHARDING_INFO": '{"w": {"saved_offsets": [0]}}'},
    }.get(kind)
    written(tmp_path / "elsewhere.safetensors", x, metadata)
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "model.safetensors").symlink_to(tmp_path / "elsewhere.safetensors")
    if kind == "index":
        said = {"metadata": {}, "weight_map": {"w": "model.safetensors"}}
        (tmp_path / "in" / "model.safetensors.index.json").write_text(json.dumps(said))
        with pytest.raises(ModelError, match="which leaves the folder"):
            stores.open(tmp_path / "in")
    else:
        assert_equal(stores.open(tmp_path / "in"), x)
        assert anydml(capsys, "reshard", tmp_path / "in", tmp_path / "out")[0] == 0
        assert_equal(stores.open(tmp_path / "out"), x)
    for command in (["stores", tmp_path / "in"], ["reshard", tmp_path / "in", tmp_path / "strict"]):
        code, _, err = anydml(capsys, *command, "--no-follow")
        assert (code, err.count("\n")) == (2, 1)
        assert "which leaves the folder" in err
    assert not (tmp_path / "strict").exists()
    # A link that the user names, and one within the folder, are followed.
    assert anydml(capsys, "stores", tmp_path / "in" / "model.safetensors", "--no-follow")[0] == 0
    os.replace(tmp_path / "elsewhere.safetensors", tmp_path / "in" / "there.hidden")
    (tmp_path / "in" / "model.safetensors").unlink()
    (tmp_path / "in" / "model.safetensors").symlink_to("there.hidden")
    assert anydml(capsys, "stores", tmp_path / "in", "--no-follow")[0] == 0


@pytest.mark.parametrize(
    "stem", ["adapter_model", "diffusion_pytorch_model", "pytorch_lora_weights", "consolidated", "model", "other"]
)
def test_files_keep_the_names_that_peft_and_diffusers_look_for(tmp_path, tensors, stem):
    folder = tmp_path / "in"
    folder.mkdir()
    (written(tmp_path / "one.safetensors", tensors)).rename(folder / f"{stem}.safetensors")
    kept = "model" if stem == "other" else stem
    reshard(folder, tmp_path / "one").run()
    assert [each.name for each in (tmp_path / "one").iterdir()] == [f"{kept}.safetensors"]
    reshard(folder, tmp_path / "ranks", ranks={"fsdp": 2}).run()
    reshard(tmp_path / "ranks", tmp_path / "back").run()
    assert [each.name for each in (tmp_path / "back").iterdir()] == [f"{kept}.safetensors"]
    if reader := {"adapter_model": "PEFT", "pytorch_lora_weights": "diffusers"}.get(stem):
        with pytest.raises(ModelError, match=f"would get 2 files, of which {reader} reads none"):
            reshard(folder, tmp_path / "two", shards=2)
        return
    reshard(folder, tmp_path / "two", shards=2).run()
    names = {f"{kept}-0000{k}-of-00002.safetensors" for k in (1, 2)} | {f"{kept}.safetensors.index.json"}
    assert {each.name for each in (tmp_path / "two").iterdir()} == names
    assert_equal(stores.open(tmp_path / "two"), tensors)


def test_another_layout_is_not_what_reads_consolidated_files(tmp_path):
    written(tmp_path / "in.safetensors", {"a.w": np.zeros(3)}).rename(tmp_path / "consolidated.safetensors")
    (tmp_path / "layout.toml").write_text('[[rules]]\nmatch = "a.w"\nrename = "b.w"\n')
    reshard(tmp_path / "consolidated.safetensors", tmp_path / "out", tmp_path / "layout.toml").run()
    assert [each.name for each in (tmp_path / "out").iterdir()] == ["model.safetensors"]


def test_files_that_name_the_last_step_are_left_behind(tmp_path, tensors):
    folder = hugging_face(tmp_path / "in", tensors)
    for name in ("latest", "latest_checkpointed_iteration.txt"):
        (folder / name).write_text("1")
    plan = reshard(folder, tmp_path / "out")
    assert any(each.startswith('leaves behind "latest", "latest_checkpointed_iteration.txt"') for each in plan.remarks)


def test_what_a_cut_vocabulary_changes_elsewhere_is_changed_or_said(tmp_path, capsys):
    words, width, table = 29, 8, np.arange(32 * 8, dtype="f4").reshape(32, 8)
    folder = tmp_path / "in"
    folder.mkdir()
    tensors = {"model.embed_tokens.weight": table, "lm_head.qweight": np.arange(32, dtype="i4")[None],
               "shared.weight": -table, "model.norm.weight": np.ones(width, "f4")}  # fmt: skip
    written(folder / "model.safetensors", tensors)
    config = {"vocab_size": 32, "hidden_size": width, "text_config": {"vocab_size": 32}, "audio": {"vocab_size": 64}}
    (folder / "config.json").write_text(json.dumps(config))
    code, said, _ = anydml(capsys, "reshard", folder, tmp_path / "out", "--vocab-size", words)
    assert code == 0
    assert "keeps 2 tensors of as many rows or columns as the vocabulary has" in said
    assert '"lm_head.qweight", "shared.weight"; slice' in said
    assert f'sets vocab_size to {words} in config.json: "vocab_size", "text_config.vocab_size"' in said
    assert json.loads((tmp_path / "out/config.json").read_text()) == {
        "vocab_size": words, "hidden_size": width, "text_config": {"vocab_size": words}, "audio": {"vocab_size": 64},
    }  # fmt: skip
    found = stores.open(tmp_path / "out/model.safetensors")
    for name, tensor in tensors.items():
        assert np.array_equal(found[name].read(), tensor[:words] if "embed" in name else tensor), name
    # Nothing is cut: the file is copied as it is.
    assert anydml(capsys, "reshard", folder, tmp_path / "same", "--vocab-size", 32)[0] == 0
    assert (tmp_path / "same/config.json").read_bytes() == (folder / "config.json").read_bytes()


@pytest.mark.parametrize(
    ("config", "changed", "is_said"),
    [
        ({"vocab_size": 32}, {"vocab_size": 29}, ["sets vocab_size to 29 in config.json"]),
        (
            {"audio_config": {"vocab_size": 32, "text_config": {"vocab_size": 32}}, "llm_config": {"vocab_size": 32}},
            {"audio_config": {"vocab_size": 32, "text_config": {"vocab_size": 32}}, "llm_config": {"vocab_size": 29}},
            [
                'sets vocab_size to 29 in config.json: "llm_config.vocab_size"',
                'keeps "audio_config.vocab_size", "audio_config.text_config.vocab_size" of config.json, as many words '
                "as the vocabulary had, but of another part",
            ],
        ),
        (
            {"thinker_config": {"text_config": {"vocab_size": 32}}, "codecs": [{"vocab_size": 32}, 32]},
            {"thinker_config": {"text_config": {"vocab_size": 29}}, "codecs": [{"vocab_size": 32}, 32]},
            [
                'sets vocab_size to 29 in config.json: "thinker_config.text_config.vocab_size"',
                'keeps "codecs.0.vocab_size" of config.json, as many words as the vocabulary had, but of another part',
            ],
        ),
        (
            {"vocab_size": 30, "language_config": {"vocab_size": 29}, "audio_config": {"vocab_size": 30}},
            {"vocab_size": 30, "language_config": {"vocab_size": 29}, "audio_config": {"vocab_size": 30}},
            ['keeps "vocab_size" of config.json, which is neither the old number of rows, 32, nor 29'],
        ),
        ({"vocab_size": None, "text_config": {"vocab_size": True}}, None, []),
    ],
)
@pytest.mark.parametrize("mark", [b"", codecs.BOM_UTF8])
def test_only_the_sizes_of_the_model_of_text_are_those_of_its_cut_vocabulary(tmp_path, config, changed, is_said, mark):
    folder = tmp_path / "in"
    folder.mkdir()
    written(folder / "model.safetensors", {"model.embed_tokens.weight": np.ones((32, 8), "f4")})
    (folder / "config.json").write_bytes(mark + json.dumps(config).encode())
    plan = reshard(folder, tmp_path / "out", vocab_size=29)
    assert [remark for remark in plan.remarks if "vocab_size" in remark] == is_said
    plan.run()
    assert json.loads((tmp_path / "out/config.json").read_bytes()) == (config if changed is None else changed)
    # Without a change, the file is copied as it is.
    reshard(folder, tmp_path / "same").run()
    assert (tmp_path / "same/config.json").read_bytes() == (folder / "config.json").read_bytes()


def test_a_config_that_repeats_a_size_is_refused(tmp_path):
    written(tmp_path / "model.safetensors", {"model.embed_tokens.weight": np.ones((32, 8), "f4")})
    (tmp_path / "config.json").write_text('{"vocab_size": 32, "vocab_size": 64}')
    with pytest.raises(ModelError, match='has "vocab_size" twice in its text'):
        reshard(tmp_path, tmp_path / "out", vocab_size=29)
