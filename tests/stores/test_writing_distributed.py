"""Distributed checkpoints of PyTorch that are written: what its own functions read is what was there."""

import json
import warnings
import zipfile

import numpy as np
import pytest

from anydml import stores
from anydml.cli import main
from anydml.errors import ModelError

torch = pytest.importorskip("torch", reason="PyTorch is not installed")

LAYOUT = """
[[axes]]
match = "*.gate_up_proj.weight"
axis = 0
parts = 2
[[axes]]
match = "*.n"
replicate = true
"""
TYPES = ("float32", "bfloat16", "float16", "float64", "float8_e4m3fn", "int8", "uint16", "bool")
SHAPES = {"self_attn.q_proj.weight": (16, 12), "self_attn.o_proj.weight": (16, 12), "mlp.gate_up_proj.weight": (24, 8),
          "input_layernorm.weight": (12,), "n": ()}  # fmt: skip


def tensors():
    torch.manual_seed(0)
    made = {}
    for k, name in enumerate(TYPES):
        for own, shape in SHAPES.items():
            made[f"model.layers.{k}.{own}"] = torch.randn(shape).mul(5).to(getattr(torch, name))
    return made


def assert_same(found, wanted):
    assert {*found} == {*wanted}
    for name, each in wanted.items():
        assert found[name].dtype == each.dtype
        assert torch.equal(found[name].reshape(-1).view(torch.uint8), each.reshape(-1).view(torch.uint8)), name


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("ranks", [None, 2, {"tp": 2, "pp": 2, "fsdp": 2}, {"fsdp": 5}, {"tp": 4}])
def test_pytorch_reads_what_was_written(tmp_path, ranks):
    import torch.distributed.checkpoint as dcp
    from safetensors.torch import save_file
    from torch.distributed.checkpoint.format_utils import dcp_to_torch_save

    wanted, layout, out = tensors(), tmp_path / "layout.toml", tmp_path / "out"
    layout.write_text(LAYOUT)
    save_file(wanted, tmp_path / "in.safetensors")
    stores.reshard([tmp_path / "in.safetensors"], out, layout, ranks, dcp=True).run()
    count = int(np.prod([*ranks.values()])) if isinstance(ranks, dict) else ranks or 1
    assert sorted(each.name for each in out.iterdir()) == [".metadata", *(f"__{k}_0.distcp" for k in range(count))]
    found = {name: torch.zeros_like(each) for name, each in wanted.items()}
    dcp.load(found, checkpoint_id=out, no_dist=True)
    assert_same(found, wanted)
    dcp_to_torch_save(out, tmp_path / "out.pt")
    assert_same(torch.load(tmp_path / "out.pt"), wanted)
    assert stores.verify(out, tmp_path / "in.safetensors") is None
    # What ranks have several times is written once.
    for name, each in dcp.FileSystemReader(out).read_metadata().state_dict_metadata.items():
        assert sum(chunk.sizes.numel() for chunk in each.chunks) == each.size.numel() == wanted[name].numel()


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("before", [{}, {"fsdp": 2}, {"tp": 2}])
@pytest.mark.parametrize("after", [{}, {"fsdp": 2}, {"tp": 2}, {"tp": 4}])
def test_what_lies_between_tensors_is_written_whatever_lay_between_those_that_are_read(tmp_path, before, after):
    import torch.distributed.checkpoint as dcp

    wanted = {f"layers.{k}.up_proj.weight": torch.randn(64, 40 + k) for k in range(12)}
    dcp.save(wanted, checkpoint_id=tmp_path / "first", no_dist=True)
    for source, out, ranks in ("first", "second", before), ("second", "third", after):
        stores.reshard(tmp_path / source, tmp_path / out, ranks=ranks, dcp=True).run()
        found = {name: torch.zeros_like(each) for name, each in wanted.items()}
        dcp.load(found, checkpoint_id=tmp_path / out, no_dist=True)
        assert_same(found, wanted)


def test_it_is_resharded_by_the_bytes_that_are_needed(tmp_path):
    from safetensors.torch import save_file

    save_file({"model.layers.0.self_attn.q_proj.weight": torch.randn(256, 64)}, tmp_path / "in.safetensors")
    with pytest.raises(SystemExit) as ended:
        main(["reshard", str(tmp_path / "in.safetensors"), str(tmp_path / "out"), "--tp", "4", "--dcp", "-q"])
    assert not ended.value.code
    for rank in range(2):
        plan = stores.plan_load(tmp_path / "out", rank, 2)
        assert next(iter(plan.load().values())).shape == (128, 64)
        ranges = plan.ranges()
        assert [path.name for path in ranges] == [f"__{2 * rank + k}_0.distcp" for k in range(2)]
        assert sum(int(stop - start) for each in ranges.values() for start, stop in each) == 128 * 64 * 4


def test_an_existing_one_is_replaced_only_if_asked(tmp_path):
    from safetensors.torch import save_file

    save_file({"w": torch.arange(5.0)}, tmp_path / "a.safetensors")
    save_file({"w": torch.arange(6.0)}, tmp_path / "b.safetensors")
    stores.reshard([tmp_path / "a.safetensors"], tmp_path / "out", dcp=True).run()
    with pytest.raises(ModelError, match="exists already"):
        stores.reshard([tmp_path / "b.safetensors"], tmp_path / "out", dcp=True).run()
    assert stores.verify(tmp_path / "out", tmp_path / "a.safetensors") is None
    stores.reshard([tmp_path / "b.safetensors"], tmp_path / "out", dcp=True, overwrite=True).run()
    assert stores.verify(tmp_path / "out", tmp_path / "b.safetensors") is None


def test_a_tensor_beyond_32_bits_has_the_fields_of_zip64(tmp_path):
    size = (1 << 32) + 4096
    header = json.dumps({"w": {"dtype": "U8", "shape": [size], "data_offsets": [0, size]}}).encode()
    with (tmp_path / "in.safetensors").open("wb") as file:
        file.write(len(header).to_bytes(8, "little") + header)
        file.truncate(8 + len(header) + size)
    plan = stores.reshard([tmp_path / "in.safetensors"], tmp_path / "out", dcp=True)
    # The file is as it will be, but for the elements, which are zeros.
    (made,) = plan.files
    with (tmp_path / "x.pt").open("wb") as file:
        file.truncate(made.size)
        for at, content in made.known_bytes:
            file.seek(at)
            file.write(content)
    with zipfile.ZipFile(tmp_path / "x.pt") as archive:
        assert archive.getinfo("archive/data/0").file_size == size
        assert archive.read("archive/version") == b"3\n"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = torch.load(tmp_path / "x.pt", mmap=True)
    assert (found.shape, found.dtype) == ((size,), torch.uint8)
    assert stores.open(tmp_path / "x.pt")[""].shape == (size,)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("memory", ["10KB", "40KB", "256MB"])
@pytest.mark.parametrize("kind", ["same", "odd", "transposed"])
def test_small_tensors_share_blocks_with_what_lies_between_them(kind, memory, tmp_path):
    """The bytes between tensors, which are zip files' headers, are those of a block, however it is cut."""
    import torch.distributed.checkpoint as dcp
    from safetensors.torch import save_file

    rng = np.random.default_rng(1)
    sizes = (
        [(6, 5)] * 60 if kind == "same" else [(int(rng.integers(1, 40)), int(rng.integers(0, 9))) for _ in range(60)]
    )
    types = [torch.float32] if kind == "same" else [torch.float32, torch.int8, torch.float64]
    wanted = {f"{k:02}.w": torch.randint(-99, 99, each).to(types[k % len(types)]) for k, each in enumerate(sizes)}
    save_file(wanted, tmp_path / "in.safetensors")
    layout = None
    if kind == "transposed":
        layout = tmp_path / "layout.toml"
        layout.write_text('rules = [{match = "*", permute = [1, 0]}]')
        wanted = {name: each.T.contiguous() for name, each in wanted.items()}
    for ranks in None, {"fsdp": 3}:
        out = tmp_path / f"{ranks}"
        plan = stores.reshard([tmp_path / "in.safetensors"], out, layout, ranks, memory=memory, dcp=True)
        plan.run()
        assert len(plan.blocks) < len(plan.outputs)
        found = {name: torch.zeros_like(each) for name, each in wanted.items()}
        dcp.load(found, checkpoint_id=out, no_dist=True)
        assert_same(found, wanted)
        for file in out.glob("*.distcp"):
            # Every byte is that of a piece, or of what was known before.
            content = np.fromfile(file, np.uint8)
            target = next(each.file for each in plan.outputs if each.path == file)
            for at, some in target.known_bytes:
                assert content[at : at + len(some)].tobytes() == some
    plan = stores.reshard([tmp_path / "in.safetensors"], tmp_path / "x.npz", layout, memory=memory)
    plan.run()
    with zipfile.ZipFile(tmp_path / "x.npz") as archive:
        assert archive.testzip() is None
    for name, each in np.load(tmp_path / "x.npz").items():
        np.testing.assert_array_equal(each, wanted[name].numpy())


def test_plans_of_many_pieces_have_few_blocks(tmp_path):
    tensors = {f"model.layers.{k}.mlp.up_proj.weight": torch.zeros(16, 4) for k in range(2000)}
    from safetensors.torch import save_file

    save_file(tensors, tmp_path / "in.safetensors")
    plan = stores.reshard([tmp_path / "in.safetensors"], tmp_path / "out", ranks={"fsdp": 4}, dcp=True)
    assert (len(plan.outputs), len(plan.blocks)) == (8000, 1)
