"""`convert` against transformers: what it writes is what from_pretrained and save_pretrained make of the same model."""

import json
import math
import os
import random
import re
import shutil
import struct
import subprocess
import sys

import pytest
from documents import ROOT

from anydml import stores
from anydml.cli import main
from anydml.errors import ModelError

transformers = pytest.importorskip("transformers", minversion="5.0", reason="transformers is not installed")
torch = pytest.importorskip("torch", reason="PyTorch is not installed")

from safetensors.torch import save_file  # noqa: E402
from stores import tiny_models  # noqa: E402  # it takes both

pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.fixture(autouse=True)
def silent():
    transformers.utils.logging.disable_progress_bar()
    transformers.utils.logging.set_verbosity_error()


def tensors(path):
    """Dtypes, shapes and bytes by name."""
    found = stores.open(path)
    return {name: (each.dtype.name, each.shape, each.read().tobytes()) for name, each in found.items()}


def saved(model, folder):
    """The model in both layouts, by transformers."""
    model.save_pretrained(folder / "original")
    model.save_pretrained(folder / "transformers", save_original_format=False)


def check(kind, folder):
    """Convert a tiny model there and back."""
    saved(tiny_models.tiny_model(kind), folder)
    loaded, said = kind.from_pretrained(folder / "original", output_loading_info=True)
    loaded.save_pretrained(folder / "loaded", save_original_format=False)
    if drawn := said["missing_keys"]:
        for to in ("transformers", "original"):
            with pytest.raises(ModelError, match=f"is without {len(drawn)} tensors? of .*fill with random numbers"):
                stores.convert(folder / "original", folder / "there", to)
        return
    stores.convert(folder / "original", folder / "there").run()
    assert tensors(folder / "loaded") == tensors(folder / "there")
    stores.convert(folder / "transformers", folder / "back", to="original").run()
    stores.convert(folder / "original", folder / "again", to="original").run()
    assert tensors(folder / "original") == tensors(folder / "back") == tensors(folder / "again")


@pytest.fixture
def mixtral(tmp_path):
    saved(tiny_models.tiny_model(transformers.MixtralForCausalLM), tmp_path)
    return tmp_path


@pytest.mark.parametrize("name", ["MixtralForCausalLM", "Qwen3VLMoeForConditionalGeneration", "LlamaForCausalLM",
                                  "Inkling2ForCausalLM"])  # fmt: skip
def test_there_and_back_is_what_transformers_gives(name, tmp_path):
    if not hasattr(transformers, name):
        pytest.skip(f"this transformers has no {name}")
    check(getattr(transformers, name), tmp_path)


def test_a_flat_parameter_of_fsdp_is_refused_by_name(mixtral):
    save_file({"model.layers.0._flat_param": torch.zeros(6)}, mixtral / "original" / "model.safetensors")
    with pytest.raises(ModelError, match=r"_flat_param.*is a flat parameter of FSDP.*SHARDED_STATE_DICT"):
        stores.convert(mixtral / "original", mixtral / "out")


@pytest.mark.skipif("ANYDML_ALL_MAPPINGS" not in os.environ, reason="ANYDML_ALL_MAPPINGS=1 tries all mappings: minutes")
def test_all_mappings_of_the_installed_transformers(tmp_path):
    asked = tiny_models.mapped(tiny_models.classes())
    equal, refused, not_made = [], {}, {}
    for number, (key, kind) in enumerate(sorted(asked.items())):
        folder = tmp_path / str(number)
        folder.mkdir()
        shutil.rmtree(tmp_path / str(number - 1), ignore_errors=True)
        try:
            model = tiny_models.tiny_model(kind)
            model.save_pretrained(folder / "made")
            kind.from_pretrained(folder / "made", output_loading_info=True)
        except Exception as error:  # transformers' own
            not_made[key] = f"{type(error).__name__}: {error}"[:200]
            continue
        try:
            check(kind, folder)
            equal.append(key)
        except ModelError as error:
            refused[key] = str(error)
    print(json.dumps({"equal": len(equal), "refused": refused, "not made": not_made}, indent=1))
    assert all("which transformers" in why or "does more than move" in why for why in refused.values())
    said = re.search(r"(\d+) of (\d+) mappings of transformers ([\d.]+)", (ROOT / "docs/convert.md").read_text())
    if said[3].rstrip(".") == transformers.__version__:
        assert (len(equal), len(asked)) == (int(said[1]), int(said[2]))


@pytest.mark.parametrize("name", ["Qwen3MoeForCausalLM", "GptOssForCausalLM", "NemotronHForCausalLM"])
def test_experts_apart_are_what_each_computes_with(name, tmp_path):
    kind = getattr(transformers, name)
    model = tiny_models.tiny_model(kind)
    saved(model, tmp_path)
    stores.convert(tmp_path / "original", tmp_path / "apart", to="per-expert").run()
    found, split = stores.open(tmp_path / "apart"), 0
    for prefix, module in kind.from_pretrained(tmp_path / "original").named_modules():
        if not hasattr(module, "is_transposed"):
            continue
        for own, parameter in module.named_parameters(recurse=False):
            for k, each in enumerate(parameter.detach()):
                turned = each.T if module.is_transposed and each.ndim == 2 else each
                what, kind_of = own.removesuffix("_bias"), "bias" if own.endswith("_bias") else "weight"
                if what == "gate_up_proj":
                    halves = turned.chunk(2) if module.is_concatenated else (turned[::2], turned[1::2])
                    wanted = dict(zip(("gate_proj", "up_proj"), halves, strict=True))
                else:
                    wanted = {what: turned}
                for part, tensor in wanted.items():
                    store = found[f"{prefix}.{k}.{part}.{kind_of}"]
                    assert store.read().tobytes() == tensor.contiguous().view(torch.uint8).numpy().tobytes()
                    split += 1
    assert split
    assert {*found} - {*stores.open(tmp_path / "transformers")}
    stores.convert(tmp_path / "apart", tmp_path / "back").run()
    assert stores.verify(tmp_path / "back", tmp_path / "transformers") is None


def test_experts_of_which_transformers_does_not_say_how_they_lie_are_refused(tmp_path):
    saved(tiny_models.tiny_model(transformers.Llama4ForCausalLM), tmp_path)
    with pytest.raises(
        ModelError, match=r'experts.\w+" has all experts of a layer, and transformers does not state their order'
    ):
        stores.convert(tmp_path / "original", tmp_path / "apart", to="per-expert")


def test_a_model_loads_that_was_converted_from_nothing_but_files(mixtral):
    stores.convert(mixtral / "transformers", mixtral / "out", to="original", shard_size="100kB").run()
    assert len([*(mixtral / "out").glob("*.safetensors")]) > 1
    before, after = (transformers.MixtralForCausalLM.from_pretrained(mixtral / name) for name in ("original", "out"))
    for name, each in before.state_dict().items():
        assert torch.equal(each, after.state_dict()[name]), name


def test_tensors_of_no_model_are_kept(mixtral):
    from safetensors.numpy import load_file, save_file

    path = mixtral / "original" / "model.safetensors"
    everything = load_file(path)
    save_file({**everything, "extra.weight": everything["model.norm.weight"]}, path, {"format": "pt"})
    plan = stores.convert(mixtral / "original", mixtral / "out")
    assert 'keeps 1 tensor that MixtralForCausalLM does not have: "extra.weight"' in plan.remarks
    plan.run()
    assert {*stores.open(mixtral / "out")} == {*stores.open(mixtral / "transformers"), "extra.weight"}


SIZES = {"vocab_size": 16, "hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2,
         "num_key_value_heads": 1}  # fmt: skip


@pytest.mark.parametrize("is_tied", [False, True])
def test_what_from_pretrained_would_draw_at_random_is_refused(is_tied, tmp_path):
    from safetensors.numpy import load_file, save_file

    config = transformers.LlamaConfig(**SIZES, tie_word_embeddings=is_tied)
    saved(transformers.LlamaForCausalLM(config), tmp_path)
    path = tmp_path / "original" / "model.safetensors"
    everything = load_file(path)
    ends = ("lm_head.weight", "model.embed_tokens.weight")
    everything |= {ends[0]: everything[ends[1]]} if is_tied else {}
    rng = random.Random(4)
    for gone in ([], ends[:1], ends[1:], ends, *(rng.sample([*everything], k) for k in range(1, 12))):
        save_file({name: each for name, each in everything.items() if name not in gone}, path, {"format": "pt"})
        _, said = transformers.LlamaForCausalLM.from_pretrained(tmp_path / "original", output_loading_info=True)
        missing = said["missing_keys"]
        if missing:
            with pytest.raises(ModelError) as refused:
                stores.convert(tmp_path / "original", tmp_path / "out", "original")
            tensor = "tensor" if len(missing) == 1 else "tensors"
            assert f"is without {len(missing)} {tensor} of LlamaForCausalLM, which from_pretrained" in str(
                refused.value
            )
            assert len(missing) > 10 or all(f'"{name}"' in str(refused.value) for name in missing)
        else:
            stores.convert(tmp_path / "original", tmp_path / "out", "original")


def test_the_layout_of_another_library_is_no_model_of_transformers(tmp_path):
    saved(transformers.LlamaForCausalLM(transformers.LlamaConfig(**SIZES)), tmp_path)
    stores.convert(tmp_path / "original", tmp_path / "vllm", "vllm").run()
    said = (
        r"is without 10 tensors of LlamaForCausalLM.*; it has 4 tensors that LlamaForCausalLM does not have.*qkv_proj"
    )
    for to in stores.converting.LAYOUTS:
        with pytest.raises(ModelError, match=said):
            stores.convert(tmp_path / "vllm", tmp_path / "out", to)
    with pytest.raises(ModelError, match=said):
        stores.verify(tmp_path / "vllm", tmp_path / "original", to="original")
    with pytest.raises(ModelError, match=said):
        stores.plan_load(tmp_path / "vllm", to="transformers")


@pytest.mark.parametrize("layout", ["original", "per-expert"])
@pytest.mark.parametrize("gone", [("3.up",), ("3.gate", "3.up"), ("1.down",), ("0.gate", "2.up"), ("3.down", "1.down")])
def test_members_of_experts_that_are_missing_are_named(layout, gone, mixtral):
    from safetensors.numpy import load_file, save_file

    source = mixtral / "original"
    if layout == "per-expert":
        stores.convert(source, mixtral / layout, layout).run()
        source = mixtral / layout
    path = source / "model.safetensors"
    everything = load_file(path)
    names = {"gate": "w1", "up": "w3", "down": "w2"} if layout == "original" else {}
    ends = [f".experts.{k}.{names.get(part, f'{part}_proj')}.weight" for k, part in (each.split(".") for each in gone)]
    missing = [name for name in everything if ".layers.1." in name and name.endswith(tuple(ends))]
    assert len(missing) == len(gone)
    save_file({name: each for name, each in everything.items() if name not in missing}, path, {"format": "pt"})
    with pytest.raises(ModelError) as refused:
        stores.convert(source, mixtral / "out")
    assert all(f'"{name}"' in str(refused.value) for name in missing)
    assert f"{len(gone)} tensor" in str(refused.value)
    assert not (mixtral / "out").exists()


@pytest.mark.parametrize("to", ["transformers", "original", "per-expert"])
def test_a_layout_that_a_model_has_already_is_said(to, mixtral):
    stores.convert(mixtral / "original", mixtral / "once", to).run()
    plan = stores.convert(mixtral / "once", mixtral / "twice", to)
    assert plan.remarks[0] == f"changes no tensor: the model is in the layout {to} already"
    plan.run()
    assert tensors(mixtral / "once") == tensors(mixtral / "twice")
    others = {"transformers", "original", "per-expert"} - {to}
    for other in others:
        assert "changes no tensor" not in str(stores.convert(mixtral / "once", mixtral / "other", other))


def test_models_of_any_size_are_planned(tmp_path):
    """384 experts of the sizes of the largest models, 34 GB of holes in a file."""
    config = transformers.Qwen3MoeConfig(
        vocab_size=160, hidden_size=7168, moe_intermediate_size=2048, num_hidden_layers=1, num_attention_heads=64,
        num_key_value_heads=8, num_experts=384, architectures=["Qwen3MoeForCausalLM"],
    )  # fmt: skip
    config.save_pretrained(tmp_path / "in")
    header, end = {}, 0
    shapes = {"gate_proj": [2048, 7168], "up_proj": [2048, 7168], "down_proj": [7168, 2048]}
    own = {f"model.layers.0.mlp.experts.{k}.{part}.weight": shapes[part] for k in range(384) for part in shapes}
    with torch.device("meta"):
        others = transformers.Qwen3MoeForCausalLM(config).state_dict()
    own |= {name: [*each.shape] for name, each in others.items() if ".experts." not in name}
    for name, shape in own.items():
        begin, end = end, end + 2 * math.prod(shape)
        header[name] = {"dtype": "BF16", "shape": shape, "data_offsets": [begin, end]}
    content = json.dumps(header).encode()
    with open(tmp_path / "in" / "model.safetensors", "wb") as file:
        file.write(struct.pack("<Q", len(content)) + content)
        file.truncate(8 + len(content) + end)
    plan = stores.convert(tmp_path / "in", tmp_path / "out")
    found = {target.name.rpartition(".")[2]: target.shape for target in plan.outputs if ".experts." in target.name}
    assert found == {
        "gate_up_proj": (384, 4096, 7168),
        "down_proj": (384, 7168, 2048),
    }
    assert plan.totals.bytes_written == end


class Doubled(transformers.core_model_loading.ConversionOps):
    def convert(self, input_dict, source_patterns, target_patterns, **named):
        return {target_patterns[0]: next(iter(input_dict.values()))[0] * 2}


class Turned(Doubled):
    """One that tells real tensors from traced ones."""

    def convert(self, input_dict, source_patterns, target_patterns, **named):
        given = next(iter(input_dict.values()))[0]
        return {target_patterns[0]: given.T if type(given) is torch.Tensor else given.contiguous()}


@pytest.mark.parametrize(
    ("operation", "message"),
    [
        (Doubled(), r"the converter of .* \(Doubled\) does more than move elements: .*mul"),
        (Turned(), r"the converter of .* \(Turned\) differs when traced"),
    ],
)
def test_what_computes_or_is_traced_wrongly_is_refused(operation, message, tmp_path, monkeypatch):
    from transformers import conversion_mapping

    saved(tiny_models.tiny_model(transformers.LlamaForCausalLM), tmp_path)
    converter = transformers.core_model_loading.WeightConverter("o_proj.weight", "o_proj.weight", [operation])
    monkeypatch.setattr(conversion_mapping, "get_model_conversion_mapping", lambda model, **_: [converter])
    with pytest.raises(ModelError, match=message):
        stores.convert(tmp_path / "original", tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (None, "there is no such file or folder; it names the architecture"),
        ({"architectures": ["NoSuchModel"]}, 'has architecture "NoSuchModel", which transformers .* does not have'),
        ({"quantization_config": {"quant_method": "fp8"}}, "has a quantization_config: its tensors are computed"),
        ({"model_type": "nothing"}, "is not a model that transformers can make"),
        ({"hidden_size": 128}, "config.json is of another model"),
    ],
)
def test_models_that_are_refused(change, message, mixtral):
    path = mixtral / "original" / "config.json"
    if change is None:
        path.unlink()
    else:
        path.write_text(json.dumps({**json.loads(path.read_text()), **change}))
    with pytest.raises(ModelError, match=message):
        stores.convert(mixtral / "original", mixtral / "out")
    assert not (mixtral / "out").exists()


def run(*arguments):
    with pytest.raises(SystemExit) as ended:
        main([*map(str, arguments)])
    assert not ended.value.code


def test_the_command(mixtral, capsys):
    run("convert", mixtral / "original", mixtral / "out", "--dry-run", "-v")
    assert "mlp.experts.gate_up_proj: float32 [4, " in capsys.readouterr().out
    assert not (mixtral / "out").exists()
    for said in ("written to", "is complete: this command wrote it before"):
        run("convert", mixtral / "original", mixtral / "out")
        assert said in capsys.readouterr().out
    assert tensors(mixtral / "out") == tensors(mixtral / "transformers")
    assert (mixtral / "out" / "config.json").read_bytes() == (mixtral / "original" / "config.json").read_bytes()


def in_another_process(folder, code, *arguments, path=()):
    """What Python prints, the last line of its errors, and its exit code; it has not imported transformers."""
    search = os.pathsep.join([*map(str, path), *sys.path])
    done = subprocess.run(
        [sys.executable, "-P", "-c", code, *map(str, arguments)], cwd=folder, env={**os.environ, "PYTHONPATH": search},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    return done.stdout, [*done.stderr.splitlines(), ""][-2 if done.stderr else -1], done.returncode


def test_a_process_without_transformers_converts_without_importing_it(mixtral):
    code = (
        "import sys; from anydml import stores\n"
        "plan = stores.convert(*sys.argv[1:3], to=sys.argv[3], ranks={'tp': 2}); plan.run()\n"
        "assert not {'torch', 'transformers'} & {*sys.modules}, sys.modules; print(plan)"
    )
    for to in "transformers", "original", "per-expert", "vllm", "megatron":
        plan = stores.convert(mixtral / "transformers", mixtral / f"{to} here", to, {"tp": 2})
        plan.run()
        printed, error, _ = in_another_process(mixtral, code, "transformers", f"{to} there", to)
        assert (printed, error) == (f"{plan}\n", "")
        for path in (mixtral / f"{to} here").iterdir():
            assert path.read_bytes() == (mixtral / f"{to} there" / path.name).read_bytes()


def test_the_answer_is_kept_for_the_same_model_and_what_is_installed(mixtral, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(mixtral / "caches"))
    code = (
        "import subprocess, sys; from anydml import stores\n"
        "begun, start = [], subprocess.Popen\n"
        "subprocess.Popen = lambda *a, **k: begun.append(a) or start(*a, **k)\n"
        "stores.convert(*sys.argv[1:3], to=sys.argv[3], overwrite=True).run(); print(len(begun))"
    )
    for to in "original", "transformers":
        for folder, count in (("here", 1), ("there", 0)):
            assert in_another_process(mixtral, code, "transformers", folder, to) == (f"{count}\n", "", 0)
        for path in (mixtral / "here").iterdir():
            assert path.read_bytes() == (mixtral / "there" / path.name).read_bytes()
    config = json.loads((mixtral / "transformers" / "config.json").read_text())
    (mixtral / "transformers" / "config.json").write_text(json.dumps({**config, "num_local_experts": 1}))
    printed, error, ended = in_another_process(mixtral, code, "transformers", "there", "original")
    assert (printed, ended) == ("", 1)
    assert "config.json is of another model" in error


def test_modules_in_the_folder_of_a_model_are_not_imported(mixtral):
    """They may have come with the model."""
    for name in "pickle", "struct", "numpy", "anydml":
        (mixtral / "transformers" / f"{name}.py").write_text("import os; os._exit(9)")
    code = "from anydml import stores; stores.convert('.', '../out', to='original').run()"
    assert in_another_process(mixtral / "transformers", code) == ("", "", 0)
    assert tensors(mixtral / "out") == tensors(mixtral / "original")


@pytest.mark.parametrize(
    ("transformers_there", "message"),
    [
        (None, '.*has architecture "NoSuchModel", which transformers .* does not have'),
        (
            "raise ImportError('not whole')",
            r"convert: transformers' mappings cannot be read \(not whole\): pip install .*",
        ),
        (
            "raise OSError('libtorch.so: cannot open shared object file')",
            r"convert: transformers' mappings cannot be read \(libtorch.so: .*\): pip install .*",
        ),
        ("import os; print('x'); os._exit(7)", "convert: the process that reads transformers' mappings ended with 7"),
    ],
)
def test_errors_of_the_other_process_are_lines_as_any(transformers_there, message, mixtral):
    there = mixtral / "first"
    there.mkdir()
    if transformers_there is not None:
        (there / "transformers.py").write_text(transformers_there)
    path = mixtral / "original" / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "architectures": ["NoSuchModel"]}))
    code = "import sys; from anydml.cli import main; main(['convert', *sys.argv[1:]])"
    printed, error, exit_code = in_another_process(mixtral, code, "original", "out", path=[there])
    assert re.fullmatch(f"anydml: {message}", error), error
    assert (printed, exit_code) == ("", 2)
    assert not (mixtral / "out").exists()


def test_a_second_conversion_asks_nobody_again(tmp_path, monkeypatch):
    monkeypatch.setenv("ANYDML_CACHE", str(tmp_path / "kept"))
    tiny_models.tiny_model(transformers.MixtralForCausalLM).save_pretrained(tmp_path / "model")
    code = (
        "import sys; from anydml import stores; from anydml.stores.checkpoints import model_layouts as layouts\n"
        "if sys.argv[2] != 'first': layouts.subprocess = None\n"
        "stores.convert('model', sys.argv[2], sys.argv[1], 2).run()"
    )
    for to in ("transformers", "original", "per-expert", "vllm", "megatron"):
        for out in ("first", "second"):
            subprocess.run([sys.executable, "-c", code, to, out], cwd=tmp_path, check=True)
        first, second = tmp_path / "first", tmp_path / "second"
        assert len([*(tmp_path / "kept" / "layouts").iterdir()]) == 1
        assert {each.name: each.read_bytes() for each in first.iterdir() if each.is_file()} == {
            each.name: each.read_bytes() for each in second.iterdir() if each.is_file()
        }
        for folder in (first, second, tmp_path / "kept"):
            shutil.rmtree(folder)
