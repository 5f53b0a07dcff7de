"""What is under the final name is whole, whatever happens; and what was stopped goes on."""

import errno
import os
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest
from stores.test_opening import written

import anydml as dml
from anydml import stores
from anydml.stores.running import file_blocks as running
from anydml.stores.running import files as plain_file


@pytest.fixture
def x(tmp_path):
    array = np.random.default_rng(0).integers(0, 60_000, (400, 300)).astype(np.uint16)
    np.save(tmp_path / "x.npy", array)
    return array


def plan_of(folder, function=lambda x: x.T, shape=(300, 400), **options):
    target = stores.create(folder / "y.npy", shape, np.uint16)
    return dml.fuse(function).plan(stores.open(folder / "x.npy"), target, 20_000, **options)


def stop_after(monkeypatch, count, error):
    """Let writing fail after so many requests; gives a list with the bytes that were read."""
    write, read, left, bytes_read = plain_file.PlainFile.write, plain_file.PlainFile.read, [count], []

    def failing(self, view, at):
        left[0] -= 1
        if left[0] < 0:
            raise error
        write(self, view, at)

    def counted(self, view, at):
        bytes_read.append(len(view))
        read(self, view, at)

    monkeypatch.setattr(plain_file.PlainFile, "write", failing)
    monkeypatch.setattr(plain_file.PlainFile, "read", counted)
    return bytes_read


@pytest.mark.skipif(sys.platform != "linux", reason="processes are forked and killed")
@pytest.mark.parametrize("seed", [1, 2])
def test_killed_at_random_moments_it_goes_on(tmp_path, x, seed):
    child = Path(__file__).with_name("killing_child.py")
    result = subprocess.run(
        [sys.executable, str(child), str(tmp_path), str(seed)], capture_output=True, text=True, timeout=600, check=False
    )
    assert result.returncode == 0, result.stderr
    assert sorted(os.listdir(tmp_path)) == ["s.npy", "t.npy", "x.npy"]
    counts = [int(line) for line in result.stdout.splitlines()]
    assert len(counts) == 20
    assert sum(count > 0 for count in counts) > 2, "it was killed in the midst of it"


@pytest.mark.skipif(sys.platform != "linux", reason="processes are forked and killed")
def test_a_checkpoint_killed_at_random_moments_goes_on(tmp_path):
    child = Path(__file__).with_name("killing_folder_child.py")
    written(tmp_path / "x.safetensors", {f"l.{k}": np.arange(k, k + 3000, dtype=np.int32) for k in range(20)})
    result = subprocess.run(
        [sys.executable, str(child), str(tmp_path), "safetensors"],
        capture_output=True, text=True, timeout=600, check=False,
    )  # fmt: skip
    assert result.returncode == 0, result.stderr
    counts = [int(line) for line in result.stdout.splitlines()]
    assert len(counts) == 25
    assert sum(count > 0 for count in counts) > 2, "it was killed in the midst of it"
    assert sorted(os.listdir(tmp_path)) == ["x.safetensors", "y"]


@pytest.mark.parametrize(
    "error", [OSError(errno.ENOSPC, "No space left on device"), KeyboardInterrupt(), dml.ModelError("broken")]
)
def test_after_an_error_it_goes_on_and_reads_no_finished_block_again(tmp_path, x, monkeypatch, error):
    plan = plan_of(tmp_path)
    with monkeypatch.context() as patched:
        stop_after(patched, plan.totals.writes // 2, error)
        with pytest.raises((dml.ModelError, KeyboardInterrupt)) as raised:
            plan.run()
    if isinstance(error, OSError):
        assert "No space left on device; repeat the command to resume" in str(raised.value)
    if isinstance(error, KeyboardInterrupt):
        lines, parts = (tmp_path / ".y.npy.anydml-journal").read_text().splitlines(), tmp_path / ".y.npy.anydml-part"
        assert f"interrupted; {len(lines) - 1} of {len(plan.blocks)} blocks" in str(raised.value)
        assert str(raised.value).endswith(f"are kept in {parts}; repeat the command to resume")
    assert not (tmp_path / "y.npy").exists()
    again = plan_of(tmp_path)
    with monkeypatch.context() as patched:
        bytes_read = stop_after(patched, 1 << 30, error)
        again.run()
    assert 0 < again.resumed < len(again.blocks)
    assert sum(bytes_read) < again.totals.bytes_read * (1 - again.resumed / len(again.blocks)) + 40_000
    np.testing.assert_array_equal(np.load(tmp_path / "y.npy"), x.T)
    assert sorted(os.listdir(tmp_path)) == ["x.npy", "y.npy"]


@pytest.mark.parametrize("most", [0, 1])
def test_fewer_threads_than_wanted_do_all_the_work(tmp_path, monkeypatch, most):
    x = np.random.default_rng(0).integers(0, 60_000, (2000, 900)).astype(np.uint16)
    np.save(tmp_path / "x.npy", x)
    start, started = threading.Thread.start, []

    def limited(thread):
        if len(started) == most:
            raise RuntimeError("can't start new thread")
        started.append(thread)
        start(thread)

    target = stores.create(tmp_path / "y.npy", (900, 2000), np.uint16)
    plan = dml.fuse(lambda x: x.T).plan(stores.open(tmp_path / "x.npy"), target, "4MB")
    monkeypatch.setattr(threading.Thread, "start", limited)
    if most:
        plan.run()
        np.testing.assert_array_equal(np.load(tmp_path / "y.npy"), x.T)
    else:
        with pytest.raises(MemoryError, match="thread"):
            plan.run()
        assert os.listdir(tmp_path) == ["x.npy"]


@pytest.fixture
def checkpoint(tmp_path):
    """A file of whole tensors, and a plan that writes it as files of some of them each."""
    rng = np.random.default_rng(0)
    tensors = {f"l.{k}.up_proj.weight": rng.integers(0, 99, (64, 40 + k)).astype(np.int32) for k in range(8)}
    written(tmp_path / "x.safetensors", tensors)

    def plan():
        return stores.reshard([tmp_path / "x.safetensors"], tmp_path / "y", None, None, "12kB", "20kB")

    return tensors, plan


def test_a_checkpoint_goes_on_and_reads_no_finished_block_again(tmp_path, checkpoint, monkeypatch):
    tensors, plan = checkpoint
    with monkeypatch.context() as patched:
        first = stop_after(patched, plan().totals.writes // 2, OSError(errno.EIO, "broken"))
        with pytest.raises(dml.ModelError):
            plan().run()
    again = plan()
    with monkeypatch.context() as patched:
        second = stop_after(patched, 1 << 30, None)
        again.run()
    assert 0 < again.resumed < len(again.blocks)
    done = sum(again.blocking.block_bytes(k) for k in range(len(again.blocks))) - sum(second)
    assert done > 0, "what was finished is not read again"
    # What was begun but not finished is read twice: a block for each buffer at most.
    assert sum(first) + sum(second) <= again.totals.bytes_read + again.threads * again.totals.block_bytes
    found = stores.open(tmp_path / "y")
    assert all(np.array_equal(found[name].read(), array) for name, array in tensors.items())


@pytest.mark.parametrize("moment", ["before", "stopped", "meanwhile"])
def test_a_checkpoint_that_changes_is_noticed(tmp_path, checkpoint, monkeypatch, moment):
    tensors, plan = checkpoint
    made = plan()

    def change():
        written(tmp_path / "x.safetensors", {name: array + 1 for name, array in tensors.items()})

    if moment == "stopped":
        with monkeypatch.context() as patched:
            stop_after(patched, made.totals.writes // 2, OSError(errno.EIO, "broken"))
            with pytest.raises(dml.ModelError):
                made.run()
    with monkeypatch.context() as patched:
        if moment == "meanwhile":
            write = running.FileBlocks.write
            patched.setattr(running.FileBlocks, "write", lambda *given: (write(*given), change()))
        else:
            change()
        with pytest.raises(dml.BindingError, match="has changed since it was opened"):
            made.run()
    assert not (tmp_path / "y").exists()
    fresh = plan()
    fresh.run()
    assert fresh.resumed == 0
    found = stores.open(tmp_path / "y")
    assert all(np.array_equal(found[name].read(), array + 1) for name, array in tensors.items())
    assert sorted(os.listdir(tmp_path)) == ["x.safetensors", "y"]


@pytest.mark.skipif(not hasattr(os, "posix_fallocate"), reason="the system reserves no space")
def test_a_disk_without_room_is_noticed_at_once(tmp_path, x, monkeypatch):
    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "posix_fallocate", full)
    with pytest.raises(dml.ModelError, match="No space left on device"):
        plan_of(tmp_path).run()
    assert not (tmp_path / "y.npy").exists()


def test_what_another_plan_began_is_not_taken_for_its_own(tmp_path, x, monkeypatch):
    plan = plan_of(tmp_path)
    with monkeypatch.context() as patched:
        stop_after(patched, plan.totals.writes // 2, OSError(errno.EIO, "broken"))
        with pytest.raises(dml.ModelError):
            plan.run()
    other = plan_of(tmp_path, lambda x: x.T[::-1])
    other.run()
    assert other.resumed == 0
    np.testing.assert_array_equal(np.load(tmp_path / "y.npy"), x.T[::-1])


def test_an_input_that_changed_is_noticed(tmp_path, x, monkeypatch):
    plan = plan_of(tmp_path)
    with monkeypatch.context() as patched:
        stop_after(patched, plan.totals.writes // 2, OSError(errno.EIO, "broken"))
        with pytest.raises(dml.ModelError):
            plan.run()
    np.save(tmp_path / "x.npy", x[::-1])
    with pytest.raises(dml.BindingError, match="has changed since it was opened"):
        plan.run()
    fresh = plan_of(tmp_path)
    fresh.run()
    assert fresh.resumed == 0
    np.testing.assert_array_equal(np.load(tmp_path / "y.npy"), x[::-1].T)


def test_an_input_that_changes_meanwhile_leaves_nothing(tmp_path, x, monkeypatch):
    plan = plan_of(tmp_path)
    write = running.FileBlocks.write

    def changing(self, numbers, finished):
        write(self, numbers, finished)
        np.save(tmp_path / "x.npy", x + 1)

    monkeypatch.setattr(running.FileBlocks, "write", changing)
    with pytest.raises(dml.BindingError, match="has changed"):
        plan.run()
    assert os.listdir(tmp_path) == ["x.npy"]


def test_an_output_that_exists_is_kept_unless_it_may_go(tmp_path, x):
    (tmp_path / "y.npy").write_bytes(b"mine")
    (tmp_path / "y.npy").chmod(0o640)
    with pytest.raises(dml.ModelError, match="exists already"):
        plan_of(tmp_path).run()
    assert (tmp_path / "y.npy").read_bytes() == b"mine"
    plan_of(tmp_path, overwrite=True).run()
    np.testing.assert_array_equal(np.load(tmp_path / "y.npy"), x.T)
    assert (tmp_path / "y.npy").stat().st_mode & 0o777 == 0o640
    assert sorted(os.listdir(tmp_path)) == ["x.npy", "y.npy"]


@pytest.mark.parametrize("way", ["same", "link", "hard"])
def test_an_output_that_is_its_own_input_is_refused(tmp_path, x, way):
    if way == "link":
        (tmp_path / "y.npy").symlink_to(tmp_path / "x.npy")
    elif way == "hard":
        (tmp_path / "y.npy").hardlink_to(tmp_path / "x.npy")
    name = "x.npy" if way == "same" else "y.npy"
    target = stores.create(tmp_path / name, (300, 400), np.uint16)
    with pytest.raises(dml.BindingError, match="is an input, too"):
        dml.fuse(lambda x: x.T).plan(stores.open(tmp_path / "x.npy"), target, overwrite=True)


def test_two_at_once_do_not_write_the_same(tmp_path, x):
    fcntl = pytest.importorskip("fcntl")
    with open(tmp_path / ".y.npy.anydml-journal", "w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        with pytest.raises(dml.ModelError, match="another process is writing"):
            plan_of(tmp_path).run()
    plan_of(tmp_path).run()
    np.testing.assert_array_equal(np.load(tmp_path / "y.npy"), x.T)


@pytest.mark.parametrize("content", [b"", b"{", b"[]\n1\n", b'{"plan": 1}\n', b"\xff\n\xff"])
def test_a_journal_that_is_none_begins_anew(tmp_path, x, content):
    (tmp_path / ".y.npy.anydml-journal").write_bytes(content)
    plan = plan_of(tmp_path)
    plan.run()
    assert plan.resumed == 0
    np.testing.assert_array_equal(np.load(tmp_path / "y.npy"), x.T)


def test_a_stop_while_names_are_given_is_made_good(tmp_path, x, monkeypatch):
    for name in ("first", "second"):
        with monkeypatch.context() as patched:
            patched.setattr("anydml.stores.running.staging.Staging.finish", lambda *_: 1 / 0)
            with pytest.raises(ZeroDivisionError):
                plan_of(tmp_path).run()
        if name == "second":
            (tmp_path / ".y.npy.anydml-part").unlink()
        plan_of(tmp_path).run()
        np.testing.assert_array_equal(np.load(tmp_path / "y.npy"), x.T)
        assert sorted(os.listdir(tmp_path)) == ["x.npy", "y.npy"]
        (tmp_path / "y.npy").unlink()


def test_after_the_machine_went_down_only_what_was_synced_counts(tmp_path, x, monkeypatch):
    monkeypatch.setattr("anydml.stores.running.journal.SYNC_BYTES", 50_000)
    plan = plan_of(tmp_path)
    with monkeypatch.context() as patched:
        stop_after(patched, plan.totals.writes // 2, OSError(errno.EIO, "broken"))
        with pytest.raises(dml.ModelError):
            plan.run()
    journal = (tmp_path / ".y.npy.anydml-journal").read_text().splitlines()
    synced = [int(line.split()[1]) for line in journal if line.startswith("synced")][-1]
    monkeypatch.setattr("anydml.stores.running.journal.boot_id", lambda: "another one")
    again = plan_of(tmp_path)
    again.run()
    assert 0 < again.resumed == synced < len(again.blocks)
    np.testing.assert_array_equal(np.load(tmp_path / "y.npy"), x.T)
