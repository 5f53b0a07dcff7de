"""Steps that are shared between threads: each by itself, or, where it is too small for that, whole steps in turn."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from anydml.engines.cpu.kernel_call import KernelCall, units_per_claim
from anydml.engines.cpu.pool import POOL
from anydml.engines.protocol import Array
from anydml.memory.host import address_of

if TYPE_CHECKING:
    from anydml.engines.cpu.kernels.loading import Kernel


def grouped(steps: Sequence[KernelCall], pays: Callable[[int], bool]) -> list[tuple[range, bool]]:
    """Steps in their order, one by one or several together, and whether threads share them.

    Args:
        steps: kernel calls; those of one stage do not depend on each other.
        pays: whether so much effort is worth sharing.
    """
    groups: list[tuple[range, bool]] = []
    start = 0
    while start < len(steps):
        stop, total = start, 0
        while stop < len(steps) and steps[stop].stage == steps[start].stage and not pays(steps[stop].effort):
            total += steps[stop].effort
            stop += 1
        if stop - start > 1 and pays(total):
            groups.append((range(start, stop), True))
        else:
            groups += [(range(k, k + 1), False) for k in range(start, stop)]
        if stop < len(steps) and pays(steps[stop].effort):
            groups.append((range(stop, stop + 1), True))
            stop += 1
        start = stop
    return groups


def several_table(kernels: Iterable[Kernel], tables: Iterable[int], effort: int) -> Array:
    """The table of work that consists of these kernels' on tables at these addresses."""
    pairs = [word for pair in zip((kernel.entry for kernel in kernels), tables, strict=True) for word in pair]
    units = len(pairs) // 2
    return np.array([units, units_per_claim(units, effort), 0, 0, 0, *pairs], np.uint64)


def several_driver(steps: Sequence[KernelCall]) -> Callable[[int], None]:
    """Does such a table's work.

    Raises:
        NoCompilerError: nothing can be compiled here.
    """
    from anydml.engines.cpu.kernels.several import several_kernel

    efforts = sum(step.effort for step in steps)
    return POOL.driver(several_kernel(), sum(step.bytes_written for step in steps) // len(steps), efforts)


def bind_several(
    steps: Sequence[KernelCall], kernels: Sequence[Kernel], addresses: Sequence[int], kept: object
) -> Callable[[], None]:
    """Does several steps' work on operands at these addresses, which `kept` keeps alive."""
    tables = [step.table(addresses) for step in steps]
    table = several_table(kernels, map(address_of, tables), sum(step.effort for step in steps))
    work, at = several_driver(steps), address_of(table)

    def dispatch() -> None:
        work(at)

    dispatch.kept = (tables, table, kernels, kept)  # type: ignore[attr-defined]
    return dispatch
