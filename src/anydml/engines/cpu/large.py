"""Larger work that compiled code does to its end, as functions of C for Python: the words of `kernels.large`."""

from __future__ import annotations

from collections.abc import Callable, MutableSequence
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from anydml.engines.cpu.c_functions import NO_ARGUMENTS, MethodDef, address, builtin
from anydml.engines.protocol import Array
from anydml.memory.host import address_of
from anydml.memory.numpy_struct import IS_KNOWN

if TYPE_CHECKING:
    from anydml.engines.cpu.kernels.loading import Kernel
    from anydml.engines.cpu.pool import Pool


def say_pool(block: MutableSequence[int], pool: Pool, shares: bool) -> None:
    """Write into a block of words where compiled code finds the pool, and what it needs of Python beside it.

    Args:
        block: its words (see `kernels.launch`).
        pool: whose threads share it.
        shares: whether threads share a part of the work.
    """
    from anydml.engines.cpu.kernels import launch

    block[launch.POOL], block[launch.SHARES] = address_of(pool.place), int(shares)
    block[launch.SAVE], block[launch.RESTORE] = address("PyEval_SaveThread"), address("PyEval_RestoreThread")
    block[launch.SIGNALS] = address("PyErr_CheckSignals")


def quick_dispatch(
    dispatch: Callable[[], object],
    pool: Pool,
    kernel: Kernel,
    table: Array,
    rounds: int,
    effort: int,
    kept: object,
) -> Callable[[], object]:
    """What does one kernel's work on a table in compiled code, round by round.

    Args:
        dispatch: what does it in Python, where Python has a part in it.
        pool: whose threads share it.
        kernel: does it.
        table: its table.
        rounds: claims that a caller makes before it looks for signals; 0 where threads do not share it.
        effort: bytes that a plain copy writes in the time that one thread takes for it, about.
        kept: what the table's addresses point to.
    """
    if not IS_KNOWN:
        return dispatch
    from anydml.engines.cpu.kernels import large

    head = [0] * large.STEP
    say_pool(head, pool, rounds > 0)
    head[large.PYTHON], head[large.NONE] = id(dispatch), id(None)
    head[large.INCREF], head[large.CALL] = address("Py_IncRef"), address("PyObject_CallNoArgs")
    words = np.array([*head, kernel.entry, 0, 0, rounds, effort, address_of(table)], np.uint64)
    return builtin(_method(), (words, dispatch, kernel, table, kept, pool))


_METHODS: list[tuple[MethodDef, Any]] = []
"""What the function of C is made of, and its code, for as long as anybody may call it."""


@cache
def _method() -> MethodDef:
    from anydml.engines.cpu.kernels import large

    kernel = large.dispatch()
    _METHODS.append((MethodDef(b"dispatch", kernel.entry, NO_ARGUMENTS, None), kernel))
    return _METHODS[-1][0]
