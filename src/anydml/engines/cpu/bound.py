"""Bound small work: NumPy's views at first, kernels once it was done often; the outputs are looked at either way."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from anydml.engines.cpu.kernel_call import KernelCall
from anydml.engines.cpu.launch import often
from anydml.engines.cpu.loader import LOADER
from anydml.engines.protocol import Array
from anydml.memory.host import address_of
from anydml.memory.numpy_struct import WRITEABLE_BIT, watching, writeable_bytes

if TYPE_CHECKING:
    from anydml.engines.cpu.kernels.loading import Kernel

Load = Callable[[], tuple[Sequence[KernelCall] | None, Sequence["Kernel"]]]

ASKED = 16
"""Dispatches after which it is asked how many are often."""


class SmallCall:
    """Work that NumPy does.

    Args:
        views: does it.
        operands: whose memory it moves.
        load: kernels for the same, or None; raises NoCompilerError.
        explain: says of the kernels that do it, or of None for NumPy, what is moved.
    """

    __slots__ = ("_explain", "_load", "_operands", "_steps", "_views")

    def __init__(
        self,
        views: Callable[[], object],
        operands: Sequence[Array],
        load: Load,
        explain: Callable[[Sequence[KernelCall] | None], str],
    ) -> None:
        self._views = views
        self._operands = operands
        self._load = load
        self._explain = explain
        self._steps: Sequence[KernelCall] | None = None

    def __str__(self) -> str:
        return self._explain(self._steps)

    def __call__(self) -> None:
        """Do it."""
        self._views()

    def watched(self, arrays: tuple[Array, ...], refuse: Callable[[], object]) -> Callable[[], None]:
        """The same, but that it refuses where one of some arrays is read-only (see `watching`)."""
        views, flags = self._views, writeable_bytes(arrays)
        if flags is None:
            return watching(views, arrays, refuse)
        start: Callable[[], int] | None = None
        calls, wait = 0, ASKED

        def ready() -> None:
            nonlocal start
            start = self._start(arrays)

        def dispatch() -> None:
            nonlocal calls, wait
            if start is not None:
                if start():
                    refuse()
                return
            for flag in flags:
                if not flag[0] & WRITEABLE_BIT:
                    refuse()
            views()
            calls += 1
            if calls == wait and (enough := often(calls)):
                wait = enough
                if calls >= enough:
                    LOADER.ask(ready)

        return dispatch

    def _start(self, arrays: tuple[Array, ...]) -> Callable[[], int] | None:
        """The work by kernels, as one step; None where there are none for it."""
        steps, kernels = self._load()
        if steps is None:
            return None
        from anydml.engines.cpu.kernels.launch import repeat

        addresses = [*map(address_of, self._operands)]
        tables = [step.table(addresses) for step in steps]
        words = [len(arrays), len(steps), *map(id, arrays)]
        for table, kernel in zip(tables, kernels, strict=True):
            words += [kernel.entry, address_of(table)]
        block = np.array(words, np.uint64)
        self._steps = steps
        return _Kept(repeat().run, address_of(block), kept=(block, tables, kernels, arrays, self._operands))


class _Kept(partial[int]):
    """A call that keeps alive what it needs."""

    def __new__(cls, *arguments: Any, kept: tuple[Any, ...]) -> _Kept:
        made = super().__new__(cls, *arguments)
        made.kept = kept
        return made

    kept: tuple[Any, ...]
