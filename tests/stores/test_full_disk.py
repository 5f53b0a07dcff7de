"""A disk that fills while a plan is written: nothing has the final name, and with more room the command goes on."""

import importlib
import json
import os
import subprocess
import sys

import numpy as np
import pytest
from stores.killing_formats_child import CASES
from stores.test_kills_and_races import write_input
from stores.test_opening import written

from anydml import stores
from anydml.cli import main
from anydml.errors import ModelError
from anydml.stores.running import file_blocks as running
from anydml.stores.running import grid_blocks as grid_running

pytestmark = pytest.mark.skipif(sys.platform != "linux" or os.geteuid() != 0, reason="only root mounts file systems")

ARRAY = np.random.default_rng(3).integers(0, 1 << 30, (512, 1024)).astype(np.int32)
"""2 MiB that no codec makes much smaller."""


def mount(folder, size, *options):
    return subprocess.run(
        ["mount", "-t", "tmpfs", "-o", ",".join([f"size={size}k", *options]), "tmpfs", folder], check=False,
        capture_output=True,
    )  # fmt: skip


@pytest.fixture
def small(tmp_path):
    """A disk of 1 MiB beside the inputs."""
    folder = tmp_path / "small"
    folder.mkdir()
    if mount(folder, 1024).returncode:
        pytest.skip("nothing can be mounted here")
    yield folder
    subprocess.run(["umount", folder], check=True)


@pytest.fixture
def inputs(tmp_path):
    np.save(tmp_path / "x.npy", ARRAY)
    written(tmp_path / "x.safetensors", {f"l.{k}.up_proj.weight": each for k, each in enumerate(np.split(ARRAY, 16))})
    return tmp_path


def packed(path):
    np.savez_compressed(path, **{f"{k:02}": each for k, each in enumerate(np.split(ARRAY, 16))})


def parts():
    """The array as tensors of floats with its bytes."""
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    return [torch.from_numpy(each.view(np.float32)) for each in np.split(ARRAY, 16)]


def zero(path):
    tensors = {f"layers.{k}.weight": each for k, each in enumerate(parts())}
    importlib.import_module("stores.trained_folders").write_zero(path, tensors, 3, 3)


def megatron(path):
    name = "decoder.layers.{}.self_attention.linear_qkv.weight"
    tensors = {name.format(k): each for k, each in enumerate(parts())}
    importlib.import_module("stores.trained_folders").write_megatron(path, tensors, 2, 2)


MADE = {"packed.npz": packed, "zero": zero, "megatron": megatron}
"""What writes further inputs."""


def run(capsys, *arguments):
    with pytest.raises(SystemExit) as ended:
        main([*map(str, arguments)])
    return ended.value.code or 0, capsys.readouterr().err


def arrays(path):
    found = stores.open(path)
    return np.concatenate([each.read() for each in found.values()]) if isinstance(found, dict | stores.Checkpoint) \
        else found.read()  # fmt: skip


@pytest.mark.parametrize("is_reserved", [True, False])
@pytest.mark.parametrize(
    "command, source, target",
    [
        (["rechunk", "--permute", "1,0", "--memory", "150kB"], "x.npy", "y.npy"),
        (["rechunk", "--permute", "1,0", "--chunks", "64,64", "--memory", "150kB"], "x.npy", "y.zarr"),
        (["rechunk", "--chunks", "64,64", "--codec", "zstd", "--memory", "150kB"], "x.npy", "y.zarr"),
        (["reshard", "--memory", "150kB"], "x.safetensors", "y.safetensors"),
        (["reshard", "--memory", "150kB", "--shard-size", "300kB"], "x.safetensors", "y"),
        (["reshard", "--memory", "150kB", "--tp", "2"], "x.safetensors", "y"),
        (["reshard", "--memory", "150kB"], "packed.npz", "y.safetensors"),
        (["reshard", "--memory", "150kB"], "zero", "y.safetensors"),
        (["reshard", "--memory", "150kB"], "megatron", "y.safetensors"),
    ],
)
def test_a_disk_that_fills(inputs, small, capsys, monkeypatch, command, source, target, is_reserved):
    if source == "x.npy" and target.endswith("zarr"):
        pytest.importorskip("zarr", reason='zarr-python is not installed: pip install "anydml[stores]"')
    if source in MADE:
        MADE[source](inputs / source)
    if not is_reserved:
        # As on file systems that reserve nothing: the disk is full in the midst of it.
        monkeypatch.delattr(os, "posix_fallocate")
    whole = [*command, inputs / source, small / target]
    code, err = run(capsys, *whole)
    assert (code, len([line for line in err.splitlines() if line.startswith("anydml:")])) == (2, 1)
    assert not (small / target).exists()
    done = finished(small)
    assert f"No space left on device; {'repeat the command to resume' if done else 'nothing is kept'}" in err
    assert bool(done) == bool(os.listdir(small))
    code, err = run(capsys, *whole)
    assert code == 2, "there is still no room"
    assert finished(small) >= done, "what was finished is kept"
    done = finished(small)
    assert done or is_reserved
    assert not mount(small, 8192, "remount").returncode
    again = blocks_written(monkeypatch)
    code, err = run(capsys, *whole)
    assert code == 0, err
    assert not done & {*again}, "no finished block is written again"
    wanted = ARRAY.T if "--permute" in command else ARRAY
    if "--tp" in command:
        stores.reshard([small / target], small / "back").run()
        target = "back"
    np.testing.assert_array_equal(arrays(small / target).view(np.int32), wanted)
    assert not [name for name in os.listdir(small) if name.startswith(".")]


@pytest.mark.parametrize("is_reserved", [True, False])
@pytest.mark.parametrize("case", CASES)
def test_a_disk_that_fills_in_every_format(tmp_path, small, monkeypatch, case, is_reserved):
    (tmp_path / "in").mkdir()
    source, (_, name, options) = write_input(tmp_path / "in", case), CASES[case]
    if not is_reserved:
        monkeypatch.delattr(os, "posix_fallocate")

    def plan():
        return stores.reshard(source, small / name, memory="15kB", extras=False, **options)

    assert not mount(small, 136, "remount").returncode
    done = set()
    for _ in range(2):
        with pytest.raises(ModelError, match="No space left on device; ") as raised:
            plan().run()
        assert not (small / name).exists()
        assert finished(small) >= done
        done = finished(small)
        assert str(raised.value).endswith("repeat the command to resume" if done else "nothing is kept")
        assert bool(done) == bool(os.listdir(small))
    # The headers between pieces alone fill it.
    assert done or is_reserved or "dcp" in options
    assert not mount(small, 1024, "remount").returncode
    again = blocks_written(monkeypatch)
    plan().run()
    assert not done & {*again}, "no finished block is written again"
    assert os.listdir(small) == [name]
    # What was read, and written where there was room, is the same.
    stores.reshard(source, tmp_path / name, extras=False, **options).run()
    assert stores.verify(tmp_path / name, small / name) is None
    if "dtype" not in options:
        assert stores.verify(source, small / name) is None


def test_a_manifest_on_a_full_disk_leaves_nothing(inputs, small):
    (small / "full").write_bytes(bytes(4096))
    assert not mount(small, 4, "remount").returncode
    for _ in range(2):
        with pytest.raises(ModelError, match="No space left on device"):
            stores.manifest(inputs / "x.safetensors", small / "x.json")
        assert os.listdir(small) == ["full"]
    assert not mount(small, 1024, "remount").returncode
    stores.manifest(inputs / "x.safetensors", small / "x.json")
    assert stores.verify(small / "x.json", inputs / "x.safetensors") is None


def finished(folder):
    """The blocks that a journal has."""
    journals = [each for each in folder.iterdir() if each.name.endswith("-journal")]
    lines = journals[0].read_bytes().split(b"\n")[:-1] if journals else []
    assert not lines or json.loads(lines[0])["plan"]
    return {int(line) for line in lines[1:] if line.isdigit()}


def blocks_written(monkeypatch):
    """The numbers of the blocks that are written from here on."""
    numbers = []
    for kind in (grid_running.GridBlocks, running.FileBlocks):

        def write(self, waiting, done, before=kind.write):
            before(self, waiting, lambda number, size: (numbers.append(number), done(number, size)))

        monkeypatch.setattr(kind, "write", write)
    return numbers
