"""Overlaps blocks: idle threads read or write other blocks while the last tasks of one block are still running."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from functools import partial

from anydml.stores.formats.store import Array
from anydml.stores.running.files import Task

Begin = Callable[[int, Array], tuple[Iterator[Task], Iterator[Task]]]
"""Returns the tasks that read a block into a room, and those that write it from there."""


class BlockFlow:
    """Distributes the tasks of blocks among threads.

    Args:
        numbers: the numbers of the blocks.
        rooms: memory, each for one block.
        begin: a function that begins a block, given its number and its room.
        finished: called with the number of each block that was written.
        max_tasks: the maximum numbers of reading and of writing tasks at once.
        in_turn: whether a block is read only after the block before it was read.
        was_read: called with the number of each block that was read.
    """

    def __init__(
        self,
        numbers: Iterable[int],
        rooms: Iterable[Array],
        begin: Begin,
        finished: Callable[[int], None],
        max_tasks: tuple[int, int],
        in_turn: bool,
        was_read: Callable[[int], None] = lambda _: None,
    ) -> None:
        self._numbers, self._rooms, self._begin, self._finished = iter(numbers), [*rooms], begin, finished
        self._next = next(self._numbers, None)
        # If all blocks were read at once, all would then be written at once, and requests would wait in turn.
        self._reading, self._max_reading = 0, max(2, (len(self._rooms) + 1) // 2)
        self._most, self._in_turn, self._was_read, self._is_broken = max_tasks, in_turn, was_read, False
        self._changed = threading.Condition()
        # Each pair is for tasks that read, and tasks that write. One thread at a time takes a task of either kind.
        self._taking = threading.Lock(), threading.Lock()
        self._under_way = [0, 0]
        self._blocks: tuple[deque[_Block], deque[_Block]] = deque(), deque()

    def tasks(self) -> Iterator[Task]:
        """Yield tasks until all blocks are written; each does what is to be done next of reading or of writing."""
        while (writes := self._wait_for_work()) is not None:
            yield partial(self._run, writes)

    def stop(self) -> None:
        """Let no further task begin."""
        with self._changed:
            self._is_broken = True
            self._changed.notify_all()

    def _wait_for_work(self) -> bool | None:
        """Wait until there is something to do, and return whether that is to write; None at the end."""
        with self._changed:
            while not self._is_broken:
                has_some = self._has_reads(), bool(self._blocks[True])
                kinds = [k for k in (False, True) if has_some[k] and self._under_way[k] < self._most[k]]
                if kinds:
                    writes = min(kinds, key=self._under_way.__getitem__)
                    self._under_way[writes] += 1
                    return writes
                if not any(self._under_way):
                    return None
                self._changed.wait()
        return None

    def _has_reads(self) -> bool:
        """Whether there is a block to read, or room for another one."""
        waits = self._in_turn and self._under_way[False]
        has_room = self._rooms and self._next is not None and self._reading < self._max_reading
        return bool(self._blocks[False] or (has_room and not waits))

    def _run(self, writes: bool) -> None:
        try:
            with self._taking[writes]:
                block, task = self._take(writes)
            if task is not None:
                task()
            if block is not None:
                self._end(block, writes)
        except BaseException:
            self._is_broken = True
            raise
        finally:
            with self._changed:
                self._under_way[writes] -= 1
                self._changed.notify_all()

    def _take(self, writes: bool) -> tuple[_Block | None, Task | None]:
        """Take a task of the first block; None if there is none, or if another thread took the last task."""
        blocks = self._blocks[writes]
        if not blocks and not writes:
            with self._changed:
                # Another thread took the last task of the block before, after this one was told to read.
                if self._in_turn and self._under_way[False] > 1:
                    return None, None
                if not self._rooms or self._next is None or self._reading == self._max_reading:
                    return None, None
                block_number, room = self._next, self._rooms.pop()
                self._reading += 1
                self._next = next(self._numbers, None)
            blocks.append(_Block(block_number, room, self._begin(block_number, room)))
        if not blocks:
            return None, None
        block = blocks[0]
        with self._changed:
            # If the next line raises an error, the count stays, so that the block does not end.
            block.under_way += 1
        if (task := next(block.tasks[writes], None)) is None:
            block.is_all = True
            blocks.popleft()
        return block, task

    def _end(self, block: _Block, writes: bool) -> None:
        """End a task of a block."""
        with self._changed:
            block.under_way -= 1
            if block.under_way or not block.is_all:
                return
            block.is_all = False
        (self._finished if writes else self._was_read)(block.number)
        with self._changed:
            if writes:
                self._rooms.append(block.room)
            else:
                self._reading -= 1
                self._blocks[True].append(block)


class _Block:
    """A block that is held.

    Attributes:
        number: the number of the block.
        room: the memory of the block.
        tasks: the tasks that read the block, and the tasks that write it.
        under_way: tasks that were taken and have not ended.
        is_all: whether all tasks that read, or all that write, were taken.
    """

    def __init__(self, number: int, room: Array, tasks: tuple[Iterator[Task], Iterator[Task]]) -> None:
        self.number, self.room, self.tasks = number, room, tasks
        self.under_way, self.is_all = 0, False
