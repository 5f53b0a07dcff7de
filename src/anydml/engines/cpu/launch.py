"""Calls that are one step of compiled code: their blocks of words.

Small work never waits for a compiler. A small call that comes again and again asks for its kernels (see `loader`), and
from then on a call takes a tenth of a microsecond for the checks of its arrays and its tables together.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Container, Sequence
from functools import partial
from itertools import accumulate
from typing import TYPE_CHECKING

import numpy as np

from anydml.arrays.quick import QUICK
from anydml.engines.cpu import compiler
from anydml.engines.cpu.kernel_call import KernelCall
from anydml.engines.cpu.large import say_pool
from anydml.engines.cpu.loader import LOADER
from anydml.engines.cpu.pool import ALL, Pool, rounds_of
from anydml.engines.cpu.together import grouped, several_driver, several_table
from anydml.engines.protocol import Array, ArrayLayout, Launch, Start, Whole
from anydml.memory.dlpack_struct import clear_address, dtype_word, reader_of
from anydml.memory.host import address_of
from anydml.memory.numpy_struct import IS_KNOWN
from anydml.moves.move import Lookup

if TYPE_CHECKING:
    from anydml.engines.cpu.kernels.loading import Kernel

OFTEN, OFTEN_WITH_COMPILER = 1000, 16
"""Calls of all plans together after which kernels' modules pay, which take as long to import as thousands of calls;
calls of one plan after which a kernel does, which takes some milliseconds to load."""

_counted = [0]
"""Calls of plans that asked whether kernels pay, about: threads that count at once may lose some."""

MOST_CHECKED = 1 << 14
"""Indices that are looked at while no other thread of Python can go on, at most."""

MOST_FREE = 4
"""Tables that are kept for the next call of a plan, at most."""


def often(calls: int) -> int:
    """Calls of one plan after which it should have kernels, or ask again; 0 where it cannot have them.

    Args:
        calls: how many there were: `OFTEN_WITH_COMPILER`, or what was answered last.
    """
    if not IS_KNOWN:
        return 0
    if not compiler.is_imported():
        _counted[0] += calls if calls <= OFTEN_WITH_COMPILER else calls // 2
        if _counted[0] < OFTEN:
            return 2 * calls
    return OFTEN_WITH_COMPILER


def launch_of(
    steps: Sequence[KernelCall],
    kernels: Sequence[Kernel],
    layouts: Sequence[ArrayLayout],
    inputs: int,
    constants: Sequence[Array],
    checks: Sequence[tuple[Lookup, tuple[int, ...]]],
    is_small: bool,
    pays: Callable[[int], bool],
    pool: Pool,
) -> Launch | None:
    """What does these steps on arrays of these layouts, or None where they are more than it can hold.

    Args:
        steps: kernel calls.
        kernels: theirs.
        layouts: of the operands, inputs first.
        inputs: how many of them are inputs.
        constants: operands that follow those, the same in every call.
        checks: lookups whose indices must lie inside their axis, and the sizes of their moves.
        is_small: whether other threads of Python can wait for all of it.
        pays: whether so much effort is worth sharing between threads.
        pool: whose threads those are.

    Raises:
        NoCompilerError: there is no compiler.
    """
    from anydml.engines.cpu.kernels import launch

    is_too_large = len(layouts) > launch.MOST_OPERANDS
    checked = _checked(checks, inputs)
    if checked is None or not IS_KNOWN or is_too_large or any(step.template.size > launch.MOST_WORDS for step in steps):
        return None
    from anydml.engines.cpu import whole_calls
    from anydml.engines.cpu.tensors import reading

    operands: list[int] = []
    spans: list[int] = []
    for shape, strides, dtype in layouts:
        reach = [(size - 1) * stride for size, stride in zip(shape, strides, strict=True)] if 0 not in shape else []
        low, high = sum(step for step in reach if step < 0), sum(step for step in reach if step > 0)
        spans.append(high + (0 if 0 in shape else dtype.itemsize))
        operands += [len(shape), id(dtype), -low, spans[-1], *shape, *strides]
    groups = [] if is_small else grouped(steps, pays)
    calls = _calls(steps, kernels, len(layouts), constants, {group.start for group, is_shared in groups if is_shared})
    places = [0, *accumulate(-(-8 * step.template.size // launch.TABLE_UNIT) * launch.TABLE_UNIT for step in steps)]
    works = [_work(steps, kernels, places, pool, *group) for group in groups]
    is_whole = not is_small and all(len(group) == 1 for group, _ in groups)
    longest = max([step.template.size for step in steps], default=0)
    space = launch.KEPT * len(layouts) + launch.TABLE_UNIT + 8 * longest
    run = (launch.launch() if is_small else launch.prepare()).run
    whole_calls.prepare()

    def variant(arguments: Sequence[object], kind: type | None) -> Launch | None:
        described = operands if kind is None else _described(layouts, operands)
        read = None if kind is None else reading(kind)
        reader = 0 if kind is None else read.reader if read else reader_of(kind)
        if described is None or (kind is not None and not reader):
            return None
        head = [0] * launch.OPERANDS
        head[launch.COUNT], head[launch.OUTPUTS], head[launch.KIND] = len(layouts), inputs, id(kind or np.ndarray)
        head[launch.STEPS], head[launch.FIRST] = len(steps), launch.OPERANDS + len(operands)
        head[launch.WORDS] = len(arguments)
        head[launch.KINDS] = launch.OPERANDS + len(operands) + len(calls) + len(checked)
        head[launch.TUPLE], head[launch.INTEGER], head[launch.FLOAT] = id(tuple), id(int), id(float)
        head[launch.READER], head[launch.CLEAR] = reader, clear_address()
        head[launch.ALIKE] = id((QUICK[kind].alike if kind in QUICK else None) or kind or np.ndarray)
        head[launch.STRUCTURE] = read.words if read else 0
        if is_whole:
            say_pool(head, pool, any(is_shared for _, is_shared in groups))
        head[launch.CHECKS], head[launch.FIRST_CHECK] = len(checks), launch.OPERANDS + len(operands) + len(calls)
        every = [*head, *described, *calls, *checked]
        for each in arguments:
            every += [id(type(each)), _told_apart(each)]
        block = np.array([word & (1 << 64) - 1 for word in every], np.uint64)
        begin = partial(run, address_of(block))
        kept = block, tuple(kernels), [layout[2] for layout in layouts], constants, kind, pool
        start = begin if is_small else _large(begin, works, places[-1])
        whole = None
        if kind is None or read is not None:
            whole = Whole(whole_calls.WholeCalls, address_of(block), space, None if is_small else start, kept)
        return Launch(start, kept, 1024 + block.nbytes + 32 * len(every), tuple(spans), variant, _is_ready, whole)

    # Nobody waits here: later somebody would.
    for each in [*QUICK.values()]:
        reading(each.kind)
    return variant((), None)


def _calls(
    steps: Sequence[KernelCall],
    kernels: Sequence[Kernel],
    count: int,
    constants: Sequence[Array],
    shared: Container[int],
) -> list[int]:
    """The words of kernel calls on so many operands, and constants; and which of them threads share, by number."""
    calls: list[int] = []
    for number, (step, kernel) in enumerate(zip(steps, kernels, strict=True)):
        is_bound = (step.operands >= 0) & (step.operands < count)
        places = [int(place) for place in np.flatnonzero(is_bound)]
        # The operands of a call add nothing to the constants' addresses.
        known = [*[0] * count, *map(address_of, constants)]
        calls += [kernel.entry, step.template.size, len(places)]
        calls += [rounds_of(step.claim_bytes) if number in shared else 0, step.effort]
        calls += step.table(known).tolist()
        for place in places:
            calls += [place, int(step.operands[place])]
    return calls


def _is_ready(kind: type | None) -> bool:
    from anydml.engines.cpu.tensors import is_tried, reading

    if kind is None or is_tried(kind):
        return True
    LOADER.ask(partial(reading, kind))
    return False


def _checked(checks: Sequence[tuple[Lookup, tuple[int, ...]]], inputs: int) -> list[int] | None:
    """The words of lookups that refuse; None where one is looked up itself, or is of too many indices."""
    from anydml.engines.cpu.kernels.refusing import DTYPES

    words: list[int] = []
    for lookup, sizes in checks:
        box = [(size, stride) for size, stride in zip(sizes, lookup.strides, strict=True) if stride]
        many = math.prod(size for size, _ in box) > MOST_CHECKED
        if lookup.lookups or lookup.dtype not in DTYPES or lookup.operand >= inputs or many:
            return None
        words += [lookup.operand, lookup.offset, DTYPES[lookup.dtype], lookup.size, len(box)]
        words += [*[size for size, _ in box], *[stride for _, stride in box]]
    return words


def _described(layouts: Sequence[ArrayLayout], operands: Sequence[int]) -> list[int] | None:
    """The words of operands as DLPack describes them: dtypes above the dimensions, and strides in elements."""
    words, at = [*operands], 0
    for shape, strides, dtype in layouts:
        found = dtype_word(dtype)
        if found is None or any(stride % dtype.itemsize for stride in strides):
            return None
        words[at + 1] = found | len(shape)
        at += 4 + len(shape)
        words[at : at + len(strides)] = [stride // dtype.itemsize for stride in strides]
        at += len(strides)
    return words


def _told_apart(argument: object) -> int:
    """What tells an argument from others that are equal and of its type: 0.0 equals −0.0."""
    if isinstance(argument, float):
        return int(np.float64(argument).view(np.uint64))
    return len(argument) if isinstance(argument, tuple) else 0


Work = Callable[[int], "tuple[Callable[[], object], object]"]
"""Given where a call's tables are, what does a part of its work, and what that needs to be kept alive."""


def _work(
    steps: Sequence[KernelCall],
    kernels: Sequence[Kernel],
    offsets: Sequence[int],
    pool: Pool,
    group: range,
    is_shared: bool,
) -> Work:
    """The work of some steps, given where the table of each of all steps lies."""
    these = slice(group.start, group.stop)
    places = offsets[these]
    if len(group) > 1:
        driver, effort = several_driver(steps[these]), sum(step.effort for step in steps[these])

        def together(tables: int) -> tuple[Callable[[], object], object]:
            table = several_table(kernels[these], [tables + place for place in places], effort)
            return partial(driver, address_of(table)), table

        return together
    (place,), (step,), (kernel,) = places, steps[these], kernels[these]
    if is_shared:
        driver = pool.driver(kernel, step.claim_bytes, step.effort)
        return lambda tables: (partial(driver, tables + place), None)
    alone = kernel.run
    return lambda tables: (partial(alone, tables + place, 0, ALL), None)


def _large(prepare: Callable[[int, int], int], works: Sequence[Work], size: int) -> Start:
    """Work that other threads of Python go on beside: so each call has tables of its own, of `size` bytes."""
    free: list[tuple[int, list[Callable[[], object]], object]] = []

    def start(operands: int) -> int:
        try:
            at, calls, kept = free.pop()
        except IndexError:
            tables = np.empty(size, np.uint8)
            at = address_of(tables)
            parts = [work(at) for work in works]
            calls, kept = [call for call, _ in parts], (tables, [each for _, each in parts])
        if prepare(operands, at):
            return 1
        for call in calls:
            call()
        if len(free) < MOST_FREE:
            free.append((at, calls, kept))
        return 0

    return start
