"""Requests of several runs: what is joined or cut along a last axis goes where it belongs without being moved."""

import os

import numpy as np
import pytest

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


@pytest.fixture
def asked(monkeypatch):
    """How many runs each request of several has had."""
    found = []

    def request(descriptor, buffer, starts, length, at, is_read):
        found.append((is_read, starts.size))
        return scattered.request(descriptor, buffer, starts, length, at, is_read)

    monkeypatch.setattr(plain_file, "request", request)
    return found


def planned(folder, name, memory="1MB"):
    """A plan, and what it is to write."""
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


def check(folder, wanted):
    for k, array in enumerate(wanted):
        np.testing.assert_array_equal(np.load(folder / f"{k}.npy"), array)


@pytest.mark.parametrize("memory", ["60kB", "1MB"])
@pytest.mark.parametrize("name", BLOCKS)
def test_it_is_what_numpy_gives(tmp_path, asked, name, memory):
    plan, wanted = planned(tmp_path, name, memory)
    plan.run()
    check(tmp_path, wanted)
    assert asked or memory == "60kB"


@pytest.mark.parametrize("name", BLOCKS)
def test_and_so_it_is_where_the_system_takes_one_run_at_a_time(tmp_path, monkeypatch, name):
    for module in (plain_file, transfers):
        monkeypatch.setattr(module, "can_scatter", lambda: False)
    monkeypatch.setattr(plain_file, "request", None)
    plan, wanted = planned(tmp_path, name)
    plan.run()
    check(tmp_path, wanted)


@pytest.mark.parametrize("name", BLOCKS)
def test_and_where_it_stops_within_a_run(tmp_path, monkeypatch, name):
    rng = np.random.default_rng(3)

    def request(descriptor, buffer, starts, length, at, is_read):
        size = int(rng.integers(1, starts.size * length + 1))
        # What was not done is what is asked for next, and what is done twice does no harm.
        assert scattered.request(descriptor, buffer, starts, length, at, is_read) == starts.size * length
        buffer_end = (
            None if not is_read or size == starts.size * length else int(starts[size // length] + size % length)
        )
        if buffer_end is not None:
            buffer[buffer_end : int(starts[size // length]) + length] ^= 0xFF
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
    runs = 2 * scattered.MOST_RUNS + 5
    data = np.random.default_rng(4).integers(0, 255, (runs, 64), np.uint8)
    starts = np.random.default_rng(5).permutation(runs) * 64
    (tmp_path / "x").write_bytes(data.tobytes())
    buffer = np.empty(data.size, np.uint8)
    with PlainFile(tmp_path / "x", True) as file:
        file.read_runs(buffer, starts, 64, 0)
        np.testing.assert_array_equal(buffer.reshape(-1, 64)[starts // 64], data)
        assert asked == [(True, scattered.MOST_RUNS), (True, scattered.MOST_RUNS), (True, 5)]
        file.write_runs(buffer, starts, 64, 64 * runs)
        with pytest.raises(dml.ModelError, match="has become shorter"):
            file.read_runs(buffer, starts, 64, 64 * runs + 1)
    assert (tmp_path / "x").read_bytes() == 2 * data.tobytes()


def test_runs_outside_of_the_buffer_are_refused(tmp_path):
    (tmp_path / "x").write_bytes(bytes(1000))
    with PlainFile(tmp_path / "x") as file:
        for starts in ([0, 95], [-1, 5], []):
            with pytest.raises(AssertionError):
                scattered.request(file.descriptor, np.empty(100, np.uint8), np.array(starts, np.int64), 10, 0, True)


def test_what_the_system_refuses_is_an_error(tmp_path):
    (tmp_path / "x").write_bytes(bytes(1000))
    with PlainFile(tmp_path / "x") as file, pytest.raises(OSError) as caught:
        file.write_runs(np.zeros(100, np.uint8), np.array([0, 50]), 10, 0)
    assert os.strerror(caught.value.errno) == caught.value.strerror
