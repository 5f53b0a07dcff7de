"""The table of formats in docs/formats.md: each cell is tried with a model, and what is done is right or refused.

ANYDML_RENEW=1 writes what happens into the table.
"""

import importlib.util
import json
import os
import re
import shutil
import warnings

import numpy as np
import pytest
from documents import ROOT
from stores.killing_formats_child import CASES, FORMATS
from stores.test_commands import anydml
from stores.test_formats import gguf_file

from anydml import stores
from anydml.errors import BindingError, ModelError

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
from safetensors.numpy import load_file  # noqa: E402
from safetensors.torch import save_file  # noqa: E402
from stores.trained_folders import (  # noqa: E402
    megatron_tensors,
    meta_tensors,
    write_consolidated,
    write_megatron,
    write_zero,
)

PAGE = ROOT / "docs" / "formats.md"


def table():
    """The rows of the table, each with its cells by the names of columns."""
    text = PAGE.read_text("utf-8").partition("## Checkpoints\n")[2]
    rows = [line.strip("|").split("|") for line in re.split(r"\n###? ", text)[0].splitlines() if line.startswith("|")]
    header, _, *cells = [[cell.strip() for cell in row] for row in rows]
    return {row[0]: dict(zip(header[1:], row[1:], strict=True)) for row in cells}


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """The folder of a tiny Llama, and its tensors."""
    folder, example = tmp_path_factory.mktemp("model"), ROOT / "examples" / "llama"
    (folder / "whole").mkdir()
    shutil.copy(example / "config.json", folder / "whole")
    stores.reshard(example / "model.safetensors", folder / "whole" / "model.safetensors", dtype="float32").run()
    return folder, {
        name: torch.from_numpy(each) for name, each in load_file(folder / "whole/model.safetensors").items()
    }


def in_folder(folder, model, name):
    """A folder with the model's config.json."""
    (folder / name).mkdir()
    shutil.copy(model / "whole" / "config.json", folder / name)
    return folder / name


def of_torch(is_old):
    def write(folder, model, tensors):
        path = in_folder(folder, model, "in")
        torch.save(tensors, path / "pytorch_model.bin", _use_new_zipfile_serialization=not is_old)
        return path / "pytorch_model.bin"

    return write


def with_index(folder, model, tensors):
    path = in_folder(folder, model, "in")
    files = {name: f"pytorch_model-{k % 2 + 1:05}-of-00002.bin" for k, name in enumerate(tensors)}
    for file in sorted({*files.values()}):
        torch.save({name: tensors[name] for name in tensors if files[name] == file}, path / file)
    (path / "pytorch_model.bin.index.json").write_text(json.dumps({"weight_map": files}))
    return path


def distributed(folder, model, tensors):
    import torch.distributed.checkpoint as dcp

    path = in_folder(folder, model, "in")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        dcp.save(dict(tensors), checkpoint_id=path, no_dist=True)
    return path


def of_storage_writer(folder, model, tensors):
    import torch.distributed.checkpoint as dcp

    path = in_folder(folder, model, "in")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        writer = dcp.HuggingFaceStorageWriter(str(path), save_distributed=True)
        dcp.save(dict(tensors), storage_writer=writer, no_dist=True)
    return path


def resharded(name, **options):
    def write(folder, model, tensors):
        stores.reshard([model / "whole"], folder / name, **options).run()
        return folder / name

    return write


def unknown(folder, model, tensors):
    numbers = {name: each.numpy() for name, each in tensors.items()}
    gguf_file(folder / "in.gguf", numbers, kinds={"lm_head.weight": 99})
    return folder / "in.gguf"


def sparse(folder, model, tensors):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.save({**tensors, "lm_head.weight": tensors["lm_head.weight"].to_sparse()}, folder / "in.pt")
    return folder / "in.pt"


def compressed(folder, model, tensors):
    np.savez_compressed(folder / "in.npz", **{name: each.numpy() for name, each in tensors.items()})
    return folder / "in.npz"


def npy(folder, model, tensors):
    np.save(folder / "in.npy", tensors["lm_head.weight"].numpy())
    return folder / "in.npy"


def zarr(folder, model, tensors):
    stores.rechunk(npy(folder, model, tensors), folder / "in.zarr", chunks=[8, 8]).run()
    return folder / "in.zarr"


def zero(stage):
    def write(folder, model, tensors):
        write_zero(folder / "in", tensors, 3, stage)
        shutil.copy(model / "whole" / "config.json", folder / "in")
        return folder / "in"

    return write


def consolidated(folder, model, tensors):
    path = in_folder(folder, model, "in")
    write_consolidated(path, tensors, 2)
    return path


def megatron(folder, model, tensors):
    write_megatron(folder / "in", tensors, 2, 2)
    return folder / "in"


OTHER_NAMES = {
    "`consolidated.NN.pth` of Meta's Llama": meta_tensors,
    "`mp_rank_XX` and `mp_rank_XX_YYY` of Megatron": lambda _: megatron_tensors(),
}
"""Tensors of kinds that have other names, of those of the model."""


WRITERS = {
    "folder of safetensors with config.json": resharded("in"),
    "the same in several files with an index": resharded("in", shards=3),
    "one `.safetensors` file": resharded("in.safetensors"),
    "ranks of `--tp`": resharded("in", ranks=2),
    "ranks of `--fsdp`": resharded("in", ranks={"fsdp": 3}),
    "`torch.distributed.checkpoint`, also of `--dcp`": distributed,
    "shards of `HuggingFaceStorageWriter`": of_storage_writer,
    "`torch.save`": of_torch(False),
    "`torch.save` before PyTorch 1.6": of_torch(True),
    "`.bin` files with an index": with_index,
    "ZeRO's stages 1 and 2 of DeepSpeed": zero(2),
    "ZeRO's stage 3 of DeepSpeed": zero(3),
    "`consolidated.NN.pth` of Meta's Llama": consolidated,
    "`mp_rank_XX` and `mp_rank_XX_YYY` of Megatron": megatron,
    "`.npz`": resharded("in.npz"),
    "`.npz` that is compressed": compressed,
    "`.gguf`": resharded("in.gguf", extras=False),
    "`.gguf` with unknown types": unknown,
    "sparse and other tensors in `torch.save`": sparse,
    "one `.npy` file": npy,
    "one Zarr array": zarr,
}


def is_right(found, tensors):
    """Whether these are the tensors."""
    assert {*found} == {*tensors}
    return all(found[name].tobytes() == each.numpy().tobytes() for name, each in tensors.items())


def listed(path, tensors, tmp_path, capsys):
    code, out, err = anydml(capsys, "stores", path, "--json")
    if code:
        raise ModelError(err.strip())
    report = json.loads(out)
    shapes = {each["name"]: each["shape"] for each in report["arrays"]}
    if "" in shapes and shapes[""] == [*tensors["lm_head.weight"].shape]:
        return "yes"
    gone = {name for name in tensors if any("cannot read" in each and name in each for each in report["remarks"])}
    assert shapes.keys() | gone == tensors.keys()
    return "the others" if gone else "yes"


def read(path, tensors, tmp_path, capsys):
    if path.suffix in (".npy", ".zarr"):
        return "yes" if stores.open(path).read().tobytes() == tensors["lm_head.weight"].numpy().tobytes() else "wrong"
    return "yes" if is_right(stores.plan_load(path).load(), tensors) else "wrong"


def resharding(path, tensors, tmp_path, capsys):
    stores.reshard([path], tmp_path / "out.safetensors").run()
    return "yes" if is_right(load_file(tmp_path / "out.safetensors"), tensors) else "wrong"


def shared(path, tensors, tmp_path, capsys):
    stores.reshard([path], tmp_path / "ranks", ranks=2).run()
    files = [load_file(tmp_path / "ranks" / f"model-rank-0000{k}-of-00002.safetensors") for k in (0, 1)]
    up = np.concatenate([each["model.layers.0.mlp.up_proj.weight"] for each in files])
    down = np.concatenate([each["model.layers.0.mlp.down_proj.weight"] for each in files], 1)
    both = up, tensors["model.layers.0.mlp.up_proj.weight"], down, tensors["model.layers.0.mlp.down_proj.weight"]
    assert (both[0] == both[1].numpy()).all()
    assert (both[2] == both[3].numpy()).all()
    stores.reshard([tmp_path / "ranks"], tmp_path / "back.safetensors").run()
    return "yes" if is_right(load_file(tmp_path / "back.safetensors"), tensors) else "wrong"


def converted(path, tensors, tmp_path, capsys):
    stores.convert(path if path.is_dir() else path.parent, tmp_path / "converted").run()
    return "yes" if is_right(load_file(tmp_path / "converted" / "model.safetensors"), tensors) else "wrong"


def verified(path, tensors, tmp_path, capsys):
    save_file(tensors, tmp_path / "right.safetensors")
    changed = {name: each + (name == next(iter(tensors))) for name, each in tensors.items()}
    save_file(changed, tmp_path / "wrong.safetensors")
    for name, count in ("right", 0), ("wrong", 1):
        other = tmp_path / f"{name}.safetensors"
        assert len(stores.compare(path, other).differences) == len(stores.compare(other, path).differences) == count
    return "yes"


WITHOUT = () if importlib.util.find_spec("transformers") else ("convert",)
"""Columns that cannot be tried here."""

COLUMNS = {
    "list": listed, "read": read, "reshard": resharding, "`--tp`": shared, "convert": converted, "verify": verified,
}  # fmt: skip


@pytest.mark.parametrize("kind", WRITERS)
def test_each_cell_is_what_happens(kind, model, tmp_path, capsys):
    folder, tensors = model
    tensors = OTHER_NAMES[kind](tensors) if kind in OTHER_NAMES else tensors
    path, found = WRITERS[kind](tmp_path, folder, tensors), {}
    for column, tried in COLUMNS.items():
        if column in WITHOUT:
            continue
        (tmp_path / column).mkdir()
        try:
            found[column] = tried(path, tensors, tmp_path / column, capsys)
        except (ModelError, BindingError):
            found[column] = "no"
    if os.environ.get("ANYDML_RENEW") and not WITHOUT:
        row = f"| {kind} | {' | '.join(found.values())} |"
        text = re.sub(rf"^\| {re.escape(kind)} \|.*$", lambda _: row, PAGE.read_text("utf-8"), flags=re.MULTILINE)
        PAGE.write_text(text, encoding="utf-8")
    assert found == {column: said for column, said in table()[kind].items() if column not in WITHOUT}


def test_the_table_has_all_formats():
    assert [*table()] == [*WRITERS]


def test_commands_over_every_format_are_killed():
    killed = {FORMATS[source] for source, _, _ in CASES.values()} | {"one `.npy` file", "one Zarr array"}
    assert killed == {kind for kind, cells in table().items() if cells["read"] == "yes"}
