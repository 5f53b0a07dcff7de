"""What is read of a folder in which several programs have left files: what transformers, PEFT and diffusers read."""

import json
import os
import pickle
from itertools import combinations

import numpy as np
import pytest
from stores.test_commands import anydml

from anydml import stores
from anydml.errors import ModelError

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
safetensors = pytest.importorskip("safetensors.torch")


def tensor(value):
    """One tensor, by whose only element a file is known again."""
    return {"w": torch.full((1,), float(value))}


def indexed(folder, stem, suffix, value):
    """An index and its only file."""
    file = f"{stem}-00001-of-00002{suffix}"
    write = safetensors.save_file if suffix == ".safetensors" else torch.save
    write(tensor(value), folder / file)
    (folder / f"{stem}{suffix}.index.json").write_text(json.dumps({"weight_map": {"w": file}}))
    return [file]


def one(name):
    """A writer of one file."""

    def write(folder, value):
        if name.endswith(".safetensors"):
            safetensors.save_file(tensor(value), folder / name)
        elif name.endswith(".npz"):
            np.savez(folder / name, w=np.full(1, value, np.float32))
        elif name.endswith((".h5", ".msgpack", ".pkl")):
            (folder / name).write_bytes(pickle.dumps(value))
        else:
            torch.save(tensor(value), folder / name)
        return [name]

    return write


def distributed(folder, value):
    safetensors.save_file(tensor(value), folder / "one.safetensors")
    stores.reshard(folder / "one.safetensors", folder / "dcp", dcp=True).run()
    (folder / "one.safetensors").unlink()
    for file in [*(folder / "dcp").iterdir()]:
        file.rename(folder / file.name)
    (folder / "dcp").rmdir()
    return [".metadata"]


OTHERS = (
    *("weights.npz", "optimizer.pt", "training_args.bin", "random_states_0.pkl", "tf_model.h5", "flax_model.msgpack"),
)
"""Files that are not read but by their own names."""

KINDS = {
    "model": one("model.safetensors"),
    "index": lambda folder, value: indexed(folder, "model", ".safetensors", value),
    "numbered": one("model-00001-of-00001.safetensors"),
    "fp16": one("model.fp16.safetensors"),
    "bin": one("pytorch_model.bin"),
    "bin index": lambda folder, value: indexed(folder, "pytorch_model", ".bin", value),
    "bin fp16": one("pytorch_model.fp16.bin"),
    "adapter": one("adapter_model.safetensors"),
    "adapter bin": one("adapter_model.bin"),
    "mistral": one("consolidated.safetensors"),
    "meta": one("consolidated.00.pth"),
    "other": one("other.safetensors"),
    "dcp": distributed,
    "others": lambda folder, value: [name for file in OTHERS for name in one(file)(folder, value)],
}
"""Writers of what may lie in a folder, which return the names of the files."""

ORDER = ("model", "index", "bin", "bin index")
"""In which transformers looks for a model."""

LAST = ("adapter", "adapter bin")
"""In which PEFT looks for an adapter."""


def expected(kinds):
    """What is read, unless it is refused: what transformers reads, or else the only kind that some program reads."""
    if by_transformers := [kind for kind in ORDER if kind in kinds]:
        return by_transformers[0]
    by_others = [kind for kind in ("numbered", "fp16", "bin fp16", "mistral", "meta", "dcp", "other") if kind in kinds]
    if "fp16" in by_others and "bin fp16" in by_others:
        # diffusers and transformers look for a variant as for a model: in safetensors files first.
        by_others.remove("bin fp16")
    all_of = by_others + [kind for kind in LAST if kind in kinds][:1]
    return all_of[0] if len(all_of) == 1 else None


CASES = [*combinations(KINDS, 2), *combinations(KINDS, 3)]


def test_nothing_is_read_that_other_programs_would_not_read(tmp_path):
    """Or it is refused; what is left out is named."""
    read, wrong = 0, []
    for number, kinds in enumerate(CASES):
        folder = tmp_path / str(number)
        folder.mkdir()
        files = {kind: KINDS[kind](folder, value) for value, kind in enumerate(kinds)}
        try:
            plan = stores.reshard(folder, tmp_path / f"{number}.safetensors")
        except ModelError as error:
            if "name" not in str(error):
                wrong.append((kinds, str(error)))
            continue
        read += 1
        plan.run()
        taken = kinds[int(stores.open(tmp_path / f"{number}.safetensors")["w"].read()[0])]
        unnamed = [name for kind in kinds if kind != taken for name in files[kind] if name not in str(plan)]
        if unnamed or taken != expected(kinds):
            wrong.append((kinds, taken, unnamed))
    assert wrong == []
    assert read > 130


@pytest.mark.parametrize("stems", [("model", "pytorch_model"), ("diffusion_pytorch_model",) * 2], ids=str)
def test_a_variant_is_read_beside_its_own_file_of_torch_save_alone(tmp_path, stems):
    one(f"{stems[0]}.fp16.safetensors")(tmp_path, 1)
    one(f"{stems[1]}.fp16.bin")(tmp_path, 2)
    assert stores.open(tmp_path)["w"].read()[0] == 1
    one(f"{stems[1]}.bf16.bin")(tmp_path, 3)
    with pytest.raises(ModelError, match=rf'"{stems[0]}\.fp16\.safetensors" beside "{stems[1]}\.bf16\.bin", which'):
        stores.open(tmp_path)


def test_the_usual_file_is_named_where_its_variants_are_refused(tmp_path):
    for name in "model.safetensors", "model.fp16.safetensors", "pytorch_model.bin", "pytorch_model.fp16.bin":
        one(name)(tmp_path, 1)
    with pytest.raises(ModelError, match=r'has "model\.fp16\.safetensors" beside "model\.safetensors", which may'):
        stores.open(tmp_path)


def test_what_is_refused_is_read_by_its_name(tmp_path, capsys):
    for value, kind in enumerate(("dcp", "index", "bin", "adapter bin")):
        KINDS[kind](tmp_path, value)
    (tmp_path / "config.json").write_text("{}")
    for value, name in enumerate((".metadata", "model.safetensors.index.json", "pytorch_model.bin")):
        assert anydml(capsys, "reshard", tmp_path / name, tmp_path / f"out{value}")[0] == 0
        out = stores.open(tmp_path / f"out{value}")
        assert (out["w"].read()[0], (out.path / "config.json").exists()) == (value, value < 2)
        assert "float32  [1]" in anydml(capsys, "stores", tmp_path / name)[1]
    with pytest.raises(ModelError, match=r"\.metadata: is a distributed checkpoint of PyTorch's: anydml reshard"):
        stores.open(tmp_path / ".metadata")


def test_small_files_come_with_an_index_of_any_kind(tmp_path):
    KINDS["bin index"](tmp_path, 1)
    (tmp_path / "config.json").write_text("{}")
    stores.reshard(tmp_path / "pytorch_model.bin.index.json", tmp_path / "out").run()
    assert (tmp_path / "out" / "config.json").read_text() == "{}"


@pytest.mark.parametrize("command", ["stores", "verify", "manifest"])
def test_files_that_are_left_out_are_named_by_every_command(tmp_path, capsys, command):
    for value, kind in enumerate(("index", "adapter", "bin fp16", "others")):
        KINDS[kind](tmp_path, value)
    second = {"verify": [tmp_path], "manifest": [tmp_path / "sums.json"]}.get(command, [])
    code, out, error = anydml(capsys, command, tmp_path, *second)
    names = ("adapter_model.safetensors", "optimizer.pt", "pytorch_model.fp16.bin", "tf_model.h5")
    assert (code, [name for name in names if f'"{name}"' not in out + error]) == (0, [])


@pytest.mark.parametrize("name", ["adapter_model.bin", "pytorch_lora_weights.bin", "diffusion_pytorch_model.bin"])
def test_single_files_of_peft_and_diffusers_are_read(tmp_path, name):
    one(name)(tmp_path, 3)
    (tmp_path / "adapter_config.json").write_text("{}")
    plan = stores.reshard(tmp_path, tmp_path / "out")
    plan.run()
    assert [file.path.name for file in plan.files] == [name.replace(".bin", ".safetensors")]
    assert stores.open(tmp_path / "out")["w"].read()[0] == 3


def test_a_pipeline_of_several_models_is_refused(tmp_path, capsys):
    (tmp_path / "model_index.json").write_text("{}")
    one("flux1-dev.safetensors")(tmp_path, 1)
    for folder, name in ("vae", "diffusion_pytorch_model.safetensors"), ("text_encoder", "pytorch_model.bin"):
        (tmp_path / folder).mkdir()
        one(name)(tmp_path / folder, 2)
    (tmp_path / "scheduler").mkdir()
    for command in ["stores", tmp_path], ["reshard", tmp_path, tmp_path / "out"]:
        code, _, error = anydml(capsys, *command)
        said = 'has model_index.json of a pipeline of several models: name one of "text_encoder/", "vae/", or a file'
        assert (code, said in error) == (2, True)
    assert stores.open(tmp_path / "vae")["w"].read()[0] == 2


@pytest.mark.parametrize("kind", ["index", "bin index", "adapter bin index"])
def test_wrong_sizes_in_indexes_of_any_name_are_said(tmp_path, kind):
    stem, suffix = {
        "index": ("diffusion_pytorch_model", ".safetensors"),
        "bin index": ("pytorch_model", ".bin"),
        "adapter bin index": ("other", ".bin"),
    }[kind]
    indexed(tmp_path, stem, suffix, 1)
    index = tmp_path / f"{stem}{suffix}.index.json"
    for size, is_right in (4, True), (5, False):
        index.write_text(json.dumps({**json.loads(index.read_text()), "metadata": {"total_size": size}}))
        for path in tmp_path, index:
            said = f"{index}: total_size is 5, but the tensors have 4 bytes"
            assert (said in stores.compare(path, path).remarks) is not is_right


def test_tensors_that_share_elements_may_be_counted_once(tmp_path):
    x = torch.arange(4.0)
    torch.save({"a": x, "b": x}, tmp_path / "pytorch_model-00001-of-00001.bin")
    index = tmp_path / "pytorch_model.bin.index.json"
    files = dict.fromkeys("ab", "pytorch_model-00001-of-00001.bin")
    for size in 16, 24, 32:
        index.write_text(json.dumps({"metadata": {"total_size": size}, "weight_map": files}))
        assert any("total_size" in remark for remark in stores.compare(index, index).remarks) is (size == 24)


@pytest.mark.skipif(os.name != "posix", reason="links need rights on Windows")
def test_a_link_to_nothing_is_not_left_out(tmp_path):
    one("pytorch_model.bin")(tmp_path, 1)
    (tmp_path / "model.safetensors").symlink_to("nowhere")
    with pytest.raises(ModelError, match=r"model\.safetensors"):
        stores.open(tmp_path)
