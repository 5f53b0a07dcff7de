"""Checkpoints of torch.distributed.checkpoint, read without PyTorch: what its own loading gives."""

import shutil
import subprocess
import sys
import warnings

import numpy as np
import pytest

from anydml import stores
from anydml.cli import main
from anydml.errors import ModelError

torch = pytest.importorskip("torch", reason="PyTorch is not installed")

RANKS = """
import sys, torch, torch.distributed as dist, torch.distributed.checkpoint as dcp
from torch.distributed.tensor import Replicate, Shard, distribute_tensor, init_device_mesh
folder, rank = sys.argv[1], int(sys.argv[2])
dist.init_process_group("gloo", init_method=f"file://{folder}.turn", rank=rank, world_size=2)
mesh = init_device_mesh("cpu", (2,))
whole = torch.arange(7 * 12, dtype=torch.float32).reshape(7, 12)
made = {"rows": distribute_tensor(whole, mesh, [Shard(0)]), "columns": distribute_tensor(whole + 1, mesh, [Shard(1)]),
        "same": distribute_tensor(whole.bfloat16(), mesh, [Replicate()]), "plain": torch.ones(3), "step": 4}
dcp.save({"model": made}, checkpoint_id=folder)
dist.destroy_process_group()
"""


@pytest.fixture
def saved(tmp_path):
    """A checkpoint of one process, and its tensors."""
    import torch.distributed.checkpoint as dcp

    model = {"w": torch.arange(600.0).reshape(20, 30), "b": torch.ones(5, dtype=torch.bfloat16), "n": torch.tensor(3)}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        dcp.save({"model": model, "epoch": 2}, checkpoint_id=tmp_path / "in", no_dist=True)
    return tmp_path / "in", {f"model.{name}": each for name, each in model.items()}


def assert_equal(path, wanted):
    found = stores.open(path)
    assert {*found} == {*wanted}
    for name, each in wanted.items():
        assert found[name].shape == tuple(each.shape)
        assert found[name].read().tobytes() == each.contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()


def test_of_one_process(saved, tmp_path):
    folder, wanted = saved
    stores.reshard([folder], tmp_path / "out.safetensors").run()
    assert_equal(tmp_path / "out.safetensors", wanted)
    assert stores.verify(folder, tmp_path / "out.safetensors") is None
    with pytest.raises(ModelError, match="is a distributed checkpoint of PyTorch's: anydml reshard"):
        stores.open(folder)


def test_it_is_listed(saved, capsys):
    folder, wanted = saved
    with pytest.raises(SystemExit) as ended:
        main(["stores", str(folder)])
    assert not ended.value.code
    output = capsys.readouterr().out
    lines = {line.split()[0]: line for line in output.splitlines()}
    for name, each in wanted.items():
        assert str([*each.shape]) in lines[name]
        assert str(each.dtype).removeprefix("torch.") in lines[name]
        assert lines[name].endswith("1 piece")
    *_, total, left_out = output.splitlines()
    assert total.endswith(": 3 arrays, 2418 B")
    assert left_out == '  leaves out 1 object that is not a tensor: "epoch"'


@pytest.mark.slow
def test_of_two_ranks(tmp_path):
    ranks = [subprocess.Popen([sys.executable, "-c", RANKS, str(tmp_path / "in"), str(k)]) for k in range(2)]
    assert [each.wait(120) for each in ranks] == [0, 0]
    assert len([*(tmp_path / "in").glob("*.distcp")]) == 2
    stores.reshard([tmp_path / "in"], tmp_path / "out").run()
    whole = torch.arange(84.0).reshape(7, 12)
    wanted = {"rows": whole, "columns": whole + 1, "same": whole.bfloat16(), "plain": torch.ones(3)}
    assert_equal(tmp_path / "out", {f"model.{name}": each for name, each in wanted.items()})


def tried(folder, out):
    """The error of a plan, if there is one."""
    try:
        stores.reshard([folder], out)
    except ModelError as error:
        return str(error)
    return ""


def test_broken_checkpoints(saved, tmp_path):
    folder, _ = saved
    rng = np.random.default_rng(4)
    refused = 0
    for number in range(250):
        copy = tmp_path / str(number)
        shutil.copytree(folder, copy)
        path = copy / (".metadata" if number % 2 else "__0_0.distcp")
        content = bytearray(path.read_bytes())
        content[rng.integers(len(content))] = rng.integers(256)
        path.write_bytes(content if rng.random() < 0.8 else content[: rng.integers(len(content))])
        said = tried(copy, tmp_path / "out.safetensors")
        refused += said != ""
        assert "\n" not in said
        shutil.rmtree(copy)
    assert refused > 50


def test_files_outside_the_folder_are_refused(saved):
    folder, _ = saved
    (folder / "__0_0.distcp").rename(folder.parent / "0_.distcp")
    content = (folder / ".metadata").read_bytes()
    (folder / ".metadata").write_bytes(content.replace(b"__0_0.distcp", b"../0_.distcp"))
    with pytest.raises(ModelError, match="which leaves the folder"):
        stores.reshard([folder], folder.parent / "out.safetensors")
