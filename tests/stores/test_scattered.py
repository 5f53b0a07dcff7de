"""Requests of several runs: what is joined or cut along a last axis goes where it belongs without being moved."""

import os

import numpy as np
import pytest
from safetensors.numpy import load_file
from stores.test_opening import written

import anydml as dml
from anydml import stores
from anydml.stores.planning import transfers
from anydml.stores.running import files as plain_file
from anydml.stores.running import scattered_io as scattered
from anydml.stores.running.files import PlainFile

pytestmark = pytest.mark.skipif(not scattered.can_scatter(), reason="the system has no preadv")

BLOCKS = {
    "joined": (lambda a, b: np.concatenate([a, b], 1), 1),
    "joined upside down": (lambda a, b: np.concatenate([a[::-1], b], 1), 1),
    "turned": (lambda a, b: a.reshape(5, 64, 1000).transpose(1, 0, 2), 1),
    "cut": (lambda a, b: np.split(np.concatenate([a, b], 1), [300, 700], 1), 3),
}


PIECES = {"pieces": {}, "ranks": {}, "pieces that are cast": {"dtype": "float64"}}
"""Checkpoints whose tensors several files share, each with parts of several tensors one after the other."""


@pytest.fixture
def asked(monkeypatch):
    """How many runs each request of several has had."""
    found = []

    def request(descriptor, buffer, starts, lengths, at, is_read):
        found.append((is_read, starts.size))
        return scattered.request(descriptor, buffer, starts, lengths, at, is_read)

    monkeypatch.setattr(plain_file, "request", request)
    return found


def planned(folder, name, memory="1MB"):
    """A plan, and what it is to write."""
    if name in PIECES:
        return planned_pieces(folder, name, memory)
    function, count = BLOCKS[name]
    rng = np.random.default_rng(2)
    arrays = [rng.integers(0, 255, (200, n, 4), np.uint8) for n in (400, 500)]
    for k, array in enumerate(arrays):
        np.save(folder / f"in{k}.npy", array)
    wanted = function(*arrays)
    wanted = wanted if count > 1 else [wanted]
    targets = [
        stores.create(
            folder / f"{k}.npy",
            like=array,
        )
        for k, array in enumerate(wanted)
    ]
    inputs = [stores.open(folder / f"in{k}.npy") for k in range(2)]
    return dml.fuse(function).plan(inputs, targets if count > 1 else targets[0], memory), wanted


def planned_pieces(folder, name, memory):
    rng = np.random.default_rng(6)
    shapes = [(16, 4000), (7,), (16, 300), (16, 2), (16, 4000), (1, 9), (0, 3), (16, 5000)] * 2
    wanted = {f"{k:02}": rng.standard_normal(shape).astype("f4") for k, shape in enumerate(shapes)}
    written(folder / "x.safetensors", wanted)
    stores.reshard(folder / "x.safetensors", folder / "in", ranks={"fsdp": 4}, dcp="pieces" in name).run()
    wanted = {key: each.astype(PIECES[name].get("dtype", "f4")) for key, each in wanted.items()}
    return stores.reshard(folder / "in", folder / "out.safetensors", memory=memory, **PIECES[name]), wanted


def check(folder, wanted):
    if isinstance(wanted, dict):
        found = load_file(folder / "out.safetensors")
        assert {*found} == {*wanted}
        assert all(found[name].tobytes() == each.tobytes() for name, each in wanted.items())
        return
    for k, array in enumerate(wanted):
        np.testing.assert_array_equal(np.load(folder / f"{k}.npy"), array)


@pytest.mark.parametrize("memory", ["60kB", "1MB"])
@pytest.mark.parametrize("name", [*BLOCKS, *PIECES])
def test_it_is_what_numpy_gives(tmp_path, asked, name, memory):
    plan, wanted = planned(tmp_path, name, memory)
    plan.run()
    check(tmp_path, wanted)
    assert asked or memory == "60kB" or "cast" in name


@pytest.mark.parametrize("name", PIECES)
def test_what_lies_together_in_files_is_read_together(tmp_path, name):
    plan, _ = planned(tmp_path, name, "64MB")
    assert plan.totals.reads <= 4 * len(plan.blocks) <= 8
    assert plan.totals.bytes_read < 1.02 * sum(store.nbytes for store in plan.inputs)


@pytest.mark.parametrize("name", [*BLOCKS, *PIECES])
def test_and_so_it_is_where_the_system_takes_one_run_at_a_time(tmp_path, monkeypatch, name):
    for module in (plain_file, transfers):
        monkeypatch.setattr(module, "can_scatter", lambda: False)
    monkeypatch.setattr(plain_file, "request", None)
    plan, wanted = planned(tmp_path, name)
    plan.run()
    check(tmp_path, wanted)


@pytest.mark.parametrize("name", [*BLOCKS, *PIECES])
def test_and_where_it_stops_within_a_run(tmp_path, monkeypatch, name):
    rng = np.random.default_rng(3)

    def request(descriptor, buffer, starts, lengths, at, is_read):
        ends = np.cumsum(lengths)
        size = int(rng.integers(1, ends[-1] + 1))
        # What was not done is what is asked for next, and what is done twice does no harm.
        assert scattered.request(descriptor, buffer, starts, lengths, at, is_read) == ends[-1]
        run = int(np.searchsorted(ends, size, "right"))
        if is_read and size < ends[-1] and starts[run] != scattered.LEFT_OUT:
            last = int(starts[run] + lengths[run])
            buffer[last - int(ends[run]) + size : last] ^= 0xFF
        return size

    monkeypatch.setattr(plain_file, "request", request)
    plan, wanted = planned(tmp_path, name)
    plan.run()
    check(tmp_path, wanted)


def test_a_checkpoint_along_its_last_axis_is_not_moved_at_all(tmp_path, asked):
    plan, wanted = planned(tmp_path, "joined")
    buffer = plan.totals.block_bytes
    assert buffer <= wanted[0].nbytes + transfers.LINE
    assert plan.totals.reads == 2 * len(plan.blocks)
    plan.run()
    assert sum(count for is_read, count in asked if is_read) == 2 * 200
    assert not [count for is_read, count in asked if not is_read]


def test_requests_have_no_more_runs_than_the_system_takes(tmp_path, asked):
    runs = 2 * scattered.MAX_RUNS_AT_ONCE + 5
    data = np.random.default_rng(4).integers(0, 255, (runs, 64), np.uint8)
    starts = np.random.default_rng(5).permutation(runs) * 64
    (tmp_path / "x").write_bytes(data.tobytes())
    buffer, lengths = np.empty(data.size, np.uint8), np.full(runs, 64)
    with PlainFile(tmp_path / "x", True) as file:
        file.read_runs(buffer, starts, lengths, 0)
        np.testing.assert_array_equal(buffer.reshape(-1, 64)[starts // 64], data)
        assert asked == [(True, scattered.MAX_RUNS_AT_ONCE), (True, scattered.MAX_RUNS_AT_ONCE), (True, 5)]
        file.write_runs(buffer, starts, lengths, 64 * runs)
        with pytest.raises(dml.ModelError, match="has become shorter"):
            file.read_runs(buffer, starts, lengths, 64 * runs + 1)
    assert (tmp_path / "x").read_bytes() == 2 * data.tobytes()


def test_runs_outside_of_the_buffer_are_refused(tmp_path):
    (tmp_path / "x").write_bytes(bytes(1000))
    with PlainFile(tmp_path / "x") as file:
        for starts, lengths, is_read in (
            ([0, 95], [10, 10], True), ([-2, 5], [10, 10], True), ([], [], True), ([-1, 5], [10, 10], False),
            ([-1, 5], [scattered.NEAR + 1, 10], True),
        ):  # fmt: skip
            with pytest.raises(AssertionError):
                scattered.request(
                    file.descriptor, np.empty(100, np.uint8), np.array(starts, np.int64), np.array(lengths, np.int64),
                    0, is_read,
                )  # fmt: skip


def test_what_the_system_refuses_is_an_error(tmp_path):
    (tmp_path / "x").write_bytes(bytes(1000))
    with PlainFile(tmp_path / "x") as file, pytest.raises(OSError) as caught:
        file.write_runs(np.zeros(100, np.uint8), np.array([0, 50]), np.array([10, 10]), 0)
    assert os.strerror(caught.value.errno) == caught.value.strerror
