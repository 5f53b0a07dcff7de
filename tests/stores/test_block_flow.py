"""The flow of blocks: each is read once, then written, and no more are held than there are rooms."""

import itertools
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import numpy as np
import pytest

from anydml.stores.running.block_flow import BlockFlow
from anydml.stores.running.buffers import Buffers
from anydml.stores.running.files import RunResources


class Recorded:
    """What was done, in order, with random durations."""

    def __init__(self, seed, reads, writes, fails=None):
        self.rng, self.lock, self.done = np.random.default_rng(seed), threading.Lock(), []
        self.reads, self.writes, self.fails, self.under_way, self.most = reads, writes, fails, 0, 0

    def do(self, *what):
        with self.lock:
            self.under_way += 1
            self.most = max(self.most, self.under_way)
            seconds = self.rng.exponential(2e-4)
        time.sleep(seconds)
        with self.lock:
            self.under_way -= 1
            self.done.append(what)
        if what == self.fails:
            raise OSError("no")

    def begin(self, number, room):
        self.do("begin", number, id(room))
        return self.tasks("read", number, self.reads[number]), self.tasks("write", number, self.writes[number])

    def tasks(self, kind, number, count):
        yield from (partial(self.do, kind, number, k) for k in range(count))

    def places(self, *what):
        return [at for at, each in enumerate(self.done) if each[: len(what)] == what]


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("in_turn", [False, True])
def test_blocks_are_read_then_written_in_rooms_of_their_own(seed, in_turn):
    rng = np.random.default_rng(seed)
    count, rooms, threads = int(rng.integers(1, 9)), int(rng.integers(1, 4)), int(rng.integers(1, 6))
    does = Recorded(seed, rng.integers(0, 9, count), rng.integers(0, 9, count))
    held = [np.empty(1) for _ in range(rooms)]
    with RunResources(threads, threads) as resources:
        flow = BlockFlow(range(count), held, does.begin, lambda number: does.do("finished", number), (32, 32), in_turn)
        resources.together(flow.tasks())
    for number in range(count):
        ((begun,), (finished,)) = does.places("begin", number), does.places("finished", number)
        reads, writes = does.places("read", number), does.places("write", number)
        assert (len(reads), len(writes)) == (does.reads[number], does.writes[number])
        assert max([begun, *reads]) < min([*writes, finished])
        assert max([begun, *writes]) < finished
    # A room is given to the next block when the one that had it is finished.
    for room in map(id, held):
        numbers = [each[1] for each in does.done if each[0] == "begin" and each[2] == room]
        for one, after in itertools.pairwise(numbers):
            assert does.places("finished", one)[0] < does.places("begin", after)[0]
    if in_turn:
        for number in range(1, count):
            assert max(does.places("read", number - 1), default=0) < does.places("begin", number)[0]
    assert does.most <= threads


def test_reads_and_writes_go_on_together():
    """With two rooms, the second block is read while the first is written."""
    meet = threading.Barrier(2, timeout=10)
    reads = {0: [], 1: [meet.wait]}
    with RunResources(2, 2) as resources:
        flow = BlockFlow(
            range(2),
            [np.empty(1), np.empty(1)],
            lambda number, _: (iter(reads[number]), iter([meet.wait] if number == 0 else [])),
            lambda _: None,
            (1, 1),
            False,
        )
        resources.together(flow.tasks())


@pytest.mark.parametrize("writes", [False, True])
def test_no_more_tasks_of_a_kind_than_allowed(writes):
    most, under_way, lock = [0], [0], threading.Lock()
    meet = threading.Barrier(6, timeout=10)

    def task():
        with lock:
            under_way[0] += 1
            most[0] = max(most[0], under_way[0])
        # Only as many at once as are allowed pass.
        meet.wait()
        with lock:
            under_way[0] -= 1

    tasks = [[], [task] * 36] if writes else [[task] * 36, []]
    with RunResources(12, 6) as resources:
        flow = BlockFlow(
            [0], [np.empty(1)], lambda *_: tuple(map(iter, tasks)), lambda _: None, (4, 6) if writes else (6, 4), False
        )
        resources.together(flow.tasks())
    assert most[0] == 6


def test_no_more_buffers_are_lent_than_allowed():
    buffers, meet, under_way, most = Buffers(3), threading.Barrier(3, timeout=10), itertools.count(1), []

    def use(_):
        with buffers.lent(8) as buffer:
            buffer[:] = next(under_way)
            mine = buffer.copy()
            # Fewer than three would wait for ever.
            meet.wait()
            most.append(bool((buffer == mine).all()))

    with ThreadPoolExecutor(9) as pool:
        list(pool.map(use, range(9)))
    assert most == [True] * 9
    assert len(buffers._free) == 3


@pytest.mark.parametrize("fails", [("read", 1, 2), ("write", 1, 2), ("finished", 1)])
@pytest.mark.parametrize("threads", [1, 4])
def test_a_block_that_fails_is_not_finished(fails, threads):
    does = Recorded(0, [4] * 6, [4] * 6, fails)
    with RunResources(threads, threads) as resources, pytest.raises(OSError, match="no"):
        flow = BlockFlow(
            range(6), [np.empty(1)] * 2, does.begin, lambda number: does.do("finished", number), (3, 2), False
        )
        with ThreadPoolExecutor(1) as pool:
            pool.submit(resources.together, flow.tasks()).result(10)
    assert fails[0] == "finished" or not does.places("finished", 1)
    assert not does.places("begin", 5)
