"""Commands over checkpoints of every format: killed at random moments, over inputs that change, and twice at once."""

import errno
import importlib
import json
import os
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest
from stores.killing_formats_child import CASES
from stores.test_opening import written

from anydml import stores
from anydml.errors import BindingError, ModelError
from anydml.stores.running import file_blocks, journal

TENSORS = {f"layers.{k}.up_proj.weight": np.arange(k, k + 3000, dtype="f4").reshape(60, 50) for k in range(16)}

LARGE = {f"layers.{k}.up_proj.weight": np.arange(k, k + 120_000, dtype="f4").reshape(240, 500) for k in range(10)}
"""4.8 MB, whose blocks are read and written by several requests."""


def write_input(folder, case, tensors=TENSORS):
    source = folder / CASES[case][0]
    if source.name in ("x.npz", "plain.npz"):
        (np.savez_compressed if source.name == "x.npz" else np.savez)(source, **tensors)
    elif source.name == "x.safetensors":
        written(source, tensors)
    elif source.name == "folder":
        source.mkdir()
        written(source / "model.safetensors", tensors)
        (source / "config.json").write_text("{}")
    elif source.name in RESHARDED:
        written(folder / "made.safetensors", tensors)
        stores.reshard(folder / "made.safetensors", source, extras=False, **RESHARDED[source.name]).run()
        (folder / "made.safetensors").unlink()
    elif source.name == "hf":
        source.mkdir()
        for k in range(2):
            said = {name: {"saved_offsets": [30 * k, 0]} for name in tensors}
            own = {name: np.ascontiguousarray(each[30 * k : 30 * k + 30]) for name, each in tensors.items()}
            metadata = {"DCP_SHARDING_INFO": json.dumps(said), "DCP_VERSION": "1.0"}
            written(source / f"shard-{k:05}-model-00001-of-00001.safetensors", own, metadata)
    else:
        torch = pytest.importorskip("torch", reason="PyTorch is not installed")
        folders = importlib.import_module("stores.trained_folders")
        tensors = {name: torch.from_numpy(array) for name, array in tensors.items()}
        if case == "torch":
            torch.save(tensors, source)
        elif case == "old torch":
            torch.save(tensors, source, _use_new_zipfile_serialization=False)
        elif case == "bin":
            source.mkdir()
            files = {name: f"pytorch_model-{k % 2 + 1:05}-of-00002.bin" for k, name in enumerate(tensors)}
            for file in {*files.values()}:
                torch.save({name: each for name, each in tensors.items() if files[name] == file}, source / file)
            (source / "pytorch_model.bin.index.json").write_text(json.dumps({"weight_map": files}))
        elif case in ("zero", "zero2"):
            folders.write_zero(source, tensors, 3, 3 if case == "zero" else 2)
        elif case == "meta":
            source.mkdir()
            meta = {f"layers.{k}.feed_forward.w1.weight": each for k, each in enumerate(tensors.values())}
            folders.write_consolidated(source, meta, 2)
        else:
            name = "decoder.layers.{}.self_attention.linear_qkv.weight"
            folders.write_megatron(source, {name.format(k): each for k, each in enumerate(tensors.values())}, 2, 2)
    return source


RESHARDED = {"dcp": {"ranks": {"fsdp": 2}, "dcp": True}, "ranks": {"ranks": 2}, "x.gguf": {}, "indexed": {"shards": 3},
             "sharded": {"ranks": {"fsdp": 2}}}  # fmt: skip
"""Inputs that are made by reshard, and its options."""


def plan_of(folder, case, **more):
    source, name, options = CASES[case]
    return stores.reshard(folder / source, folder / name, memory="15kB", extras=False, **options, **more)


@pytest.mark.skipif(sys.platform != "linux", reason="processes are forked and killed")
@pytest.mark.parametrize(
    "case, tensors, memory",
    [
        *((case, TENSORS, "15kB") for case in CASES),
        *((case, LARGE, "1200kB") for case in ("dcp", "gguf", "of fsdp", "from npz")),
    ],
)
def test_killed_at_random_moments_it_goes_on(tmp_path, case, tensors, memory):
    write_input(tmp_path, case, tensors)
    child = Path(__file__).with_name("killing_formats_child.py")
    result = subprocess.run(
        [sys.executable, str(child), str(tmp_path), case, memory],
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    counts = [int(line) for line in result.stdout.splitlines()]
    assert len(counts) == 8
    assert sum(count > 0 for count in counts) > 0, "it was killed in the midst of it"
    assert sorted(os.listdir(tmp_path)) == sorted(CASES[case][:2])


@pytest.mark.parametrize("cut", range(1, 4))
def test_a_line_of_a_journal_that_does_not_fit_on_the_disk_counts_for_nothing(tmp_path, cut, monkeypatch):
    def opened():
        return journal.Journal(tmp_path / "journal", "digest", lambda: None)

    write, left = os.write, [cut]

    def short(file, content):
        if not left[0]:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        count = write(file, content[: left[0]])
        left[0] -= count
        return count

    first = opened()
    first.add(5, 1)
    with monkeypatch.context() as patched:
        patched.setattr(os, "write", short)
        with pytest.raises(OSError, match="No space left"):
            first.add(123, 1)
    # Another thread finds room, or the process is killed.
    for block in (7, 89) if cut % 2 else ():
        first.add(block, 1)
    first.close(False)
    again = opened()
    expected = {5, 7, 89} if cut % 2 else {5}
    assert again.finished == expected
    again.add(40, 1)
    again.close(False)
    assert opened().finished == expected | {40}


@pytest.mark.skipif(sys.platform != "linux", reason="processes are forked and killed")
@pytest.mark.parametrize("seed", [0, 10])
def test_random_arrays_are_rechunked_after_kills_interrupts_and_full_disks(tmp_path, seed):
    pytest.importorskip("zarr", reason='zarr-python is not installed: pip install "anydml[stores]"')
    child = Path(__file__).with_name("killing_arrays_child.py")
    command = [sys.executable, "-W", "ignore", str(child), str(tmp_path), str(seed), "10"]
    result = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    assert result.returncode == 0, result.stderr
    ends = json.loads(result.stdout)
    assert min(ends["killed"], ends["refused"], ends["interrupted"]) > 0
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("case", CASES)
def test_an_input_that_changes_meanwhile_is_refused_and_nothing_is_kept(tmp_path, case, monkeypatch):
    source = write_input(tmp_path, case)
    plan, write = plan_of(tmp_path, case), file_blocks.FileBlocks._block
    file = plan.inputs[0].path

    def block(self, number, finished):
        write(self, number, finished)
        os.utime(file, ns=(1, number + 1))

    with monkeypatch.context() as patched:
        patched.setattr(file_blocks.FileBlocks, "_block", block)
        with pytest.raises(BindingError, match="has changed since it was opened"):
            plan.run()
    assert os.listdir(tmp_path) == [source.name]
    plan_of(tmp_path, case).run()
    assert sorted(os.listdir(tmp_path)) == sorted(CASES[case][:2])


def describing(folder, kind):
    """A checkpoint, one of its files whose tensors are not read, and a name that is read elsewhere."""
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    folders = importlib.import_module("stores.trained_folders")
    tensors = {name: torch.from_numpy(array) for name, array in TENSORS.items()}
    if kind == "zero":
        folders.write_zero(folder / "in", tensors, 2, 3)
        return folder / "in" / "zero_pp_rank_0_mp_rank_00_model_states.pt", "layers.0.up_proj.weight"
    if kind == "zero2":
        folders.write_zero(folder / "in", tensors, 2, 2)
        return folder / "in" / "mp_rank_00_model_states.pt", "layers.0.up_proj.weight"
    if kind == "megatron":
        name = "decoder.layers.{}.self_attention.linear_qkv.weight"
        folders.write_megatron(folder / "in", {name.format(k): each for k, each in enumerate(tensors.values())}, 2, 2)
        return folder / "in" / "mp_rank_00_000" / "model_optim_rng.pt", name.format(15)
    written(folder / "x.safetensors", TENSORS)
    stores.reshard(folder / "x.safetensors", folder / "in", ranks={"fsdp": 2}, dcp=True).run()
    return folder / "in" / ".metadata", "layers.0.up_proj.weight"


DOORS = {
    "reshard": lambda folder, name: stores.reshard(folder / "in", folder / "y", only=name, memory="15kB").run,
    "load": lambda folder, name: stores.plan_load(folder / "in").load,
    "verify": lambda folder, name: lambda: stores.compare(folder / "in", folder / "in", only=name),
    "manifest": lambda folder, name: lambda: stores.manifest(folder / "in", only=name),
}


@pytest.mark.parametrize("kind", ["zero", "zero2", "megatron", "dcp"])
@pytest.mark.parametrize("door", DOORS)
def test_a_file_that_says_where_elements_lie_is_watched(tmp_path, kind, door, monkeypatch):
    file, name = describing(tmp_path, kind)
    run, write = DOORS[door](tmp_path, name), file_blocks.FileBlocks._block

    def block(self, number, finished):
        write(self, number, finished)
        os.utime(file, ns=(1, number + 1))

    with monkeypatch.context() as patched:
        patched.setattr(file_blocks.FileBlocks, "_block", block)
        with pytest.raises(BindingError, match=rf"{file.name} has changed since it was opened"):
            run()
    assert not (tmp_path / "y").exists()
    run = DOORS["reshard"](tmp_path, name)
    os.utime(file, ns=(1, 5))
    with pytest.raises(BindingError, match="has changed since it was opened"):
        run()
    for _ in range(2):
        # What was written of the file before its change is not a reason to stop.
        os.utime(file)
        plan = stores.reshard(tmp_path / "in", tmp_path / "y", only=name, overwrite=True)
        plan.run()
        assert not plan.already_complete


@pytest.mark.parametrize("case", CASES)
def test_of_two_at_once_one_writes_and_the_other_says_so(tmp_path, case, monkeypatch):
    write_input(tmp_path, case)
    first, second, write = plan_of(tmp_path, case), plan_of(tmp_path, case), file_blocks.FileBlocks._block
    begun, may_go_on = threading.Event(), threading.Event()

    def block(self, number, finished):
        begun.set()
        assert may_go_on.wait(60)
        write(self, number, finished)

    monkeypatch.setattr(file_blocks.FileBlocks, "_block", block)
    running = threading.Thread(target=first.run)
    running.start()
    assert begun.wait(60)
    with pytest.raises(ModelError, match="another process"):
        second.run()
    may_go_on.set()
    running.join()
    assert sorted(os.listdir(tmp_path)) == sorted(CASES[case][:2])
    again = plan_of(tmp_path, case)
    again.run()
    assert again.already_complete
