"""Functions' whole calls in compiled code: the tables of `kernels.whole`, and what Python calls."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from functools import cache
from itertools import count
from typing import Any

import numpy as np

from anydml.arrays.quick import QUICK
from anydml.engines.cpu.c_functions import FAST_CALL, MethodDef, address, builtin
from anydml.engines.cpu.kernels import arguments, call_table, whole
from anydml.engines.cpu.tensors import reading
from anydml.engines.protocol import Whole
from anydml.memory.host import address_of
from anydml.memory.numpy_struct import HEADER
from anydml.memory.results import NEW_ARRAY

MOST_RECIPES = 64
"""Calls of one function that are found in compiled code; others are found by Python."""

_CALLED = {
    call_table.INCREF: "Py_IncRef",
    call_table.DECREF: "Py_DecRef",
    call_table.LIST_SIZE: "PyList_Size",
    call_table.LIST_ITEM: "PyList_GetItem",
    call_table.LIST_NEW: "PyList_New",
    call_table.LIST_PUT: "PyList_SetItem",
    call_table.CALL: "PyObject_CallNoArgs",
    call_table.CALL_WITH: "PyObject_CallOneArg",
    call_table.NUMBER: "PyLong_FromUnsignedLongLong",
}


class WholeCalls:
    """Calls of one function that compiled code finds by their arguments, and does.

    Args:
        takes_lists: whether a list of integers is as good as a tuple.

    Attributes:
        function: takes the arrays or a list of them, what is no array, and `out`; gives the result, or a list of
            results, or None where nothing fits: then nothing was done.
    """

    def __init__(self, takes_lists: bool) -> None:
        self._table = np.zeros(call_table.FIRST_KEY + 2 * MOST_RECIPES, np.uint64)
        objects = {call_table.NONE: None, call_table.ARRAY: np.ndarray, call_table.LIST: list, call_table.ZERO: 0}
        for at, known in objects.items():
            self._table[at] = id(known)
        self._table[call_table.LISTS] = int(takes_lists)
        for at, name in _CALLED.items():
            self._table[at] = address(name)
        self._table[call_table.NEW_ARRAY] = NEW_ARRAY
        self._numbers = count()
        self._places: dict[Hashable, int] = {}
        self._kept: list[object] = [None] * MOST_RECIPES
        self._gone: list[object] = []
        self.function: Callable[..., Any] = builtin(_method(whole.SMALL), self._table)

    def keep(
        self,
        known_by: Hashable,
        call: Whole,
        first: Sequence[int],
        inputs: int,
        makers: Sequence[Callable[[], object]],
        plain: Sequence[object],
        is_list: bool,
        has_parts: bool,
        has_out: bool,
        guest: type | None = None,
    ) -> None:
        """Have a call found.

        Args:
            known_by: what tells it from others that are kept.
            call: what does it.
            first: shape of the first array.
            inputs: how many inputs there are.
            makers: what makes each result.
            plain: the arguments that are no arrays: numbers, words, None, tuples of integers.
            is_list: whether the inputs are given as a list.
            has_parts: whether the results are.
            has_out: whether the caller gives arrays for them.
            guest: the arrays' type, if not NumPy's: the same for all calls of a table, or it is not found.
        """
        if known_by in self._places or not self._is_known(guest):
            return
        words = [call.block, id(call.start) if call.start else 0, inputs, len(makers)]
        space = whole.TUPLE + 8 * (inputs + len(makers)) + call.space
        words += [int(is_list), int(has_parts), int(has_out), len(plain), space]
        if space > whole.SMALL:
            self._table[call_table.WIDE] = _method(whole.LARGE).code
        words += [0 if guest is None and NEW_ARRAY else id(make) for make in makers]
        for each in plain:
            words += _record(each)
        recipe = np.array(words, np.uint64)
        key = inputs * 2 * is_list + (not has_out)
        for size in first:
            key = (key ^ size) * whole.PRIME & whole.MASK
        place = next(self._numbers) % MOST_RECIPES
        for known, at in [*self._places.items()]:
            if at == place:
                self._places.pop(known, None)
        self._places[known_by] = place
        at = call_table.FIRST_KEY + 2 * place
        before, self._kept[place] = self._kept[place], (recipe, call, tuple(makers), tuple(plain), known_by)
        self._gone.append(before)
        self._table[at + 1] = address_of(recipe)
        self._table[at] = key ^ len(first)
        self._table[call_table.COUNT] = max(int(self._table[call_table.COUNT]), place + 1)
        self._forget()

    def _is_known(self, guest: type | None) -> bool:
        """Whether compiled code can tell such arrays: the first type of another library's is the one."""
        if guest is None:
            return True
        if not self._table[call_table.GUEST]:
            read = reading(guest)
            if read is None:
                return False
            self._table[call_table.READER], self._table[call_table.STRUCTURE] = read.reader, read.words
            self._table[call_table.GUEST], self._table[call_table.ALIKE] = id(guest), id(QUICK[guest].alike or guest)
        return int(self._table[call_table.GUEST]) == id(guest)

    def clear(self) -> None:
        """Let nothing be found."""
        self._table[call_table.COUNT] = 0
        self._places.clear()
        self._gone += self._kept
        self._kept[:] = [None] * MOST_RECIPES
        self._numbers = count()
        self._forget()

    def _forget(self) -> None:
        # What is not in the table any more is used by nobody, unless a call has begun before.
        if not self._table[call_table.UNDER_WAY]:
            self._gone.clear()


def _record(argument: Any) -> list[int]:
    """The words of an argument, and those of its items."""
    if type(argument) is tuple:
        items = [word for item in argument for word in _record(item)]
        return [id(argument), id(tuple), arguments.EACH, len(argument), *items]
    if type(argument) in (int, float):
        return [id(argument), id(type(argument)), arguments.BYTES, argument.__sizeof__() - HEADER]
    return [id(argument), id(type(argument)), arguments.SAME, 0]


_METHODS: list[tuple[MethodDef, object]] = []
"""What functions of C are made of, and their code, for as long as anybody may call one. Threads that ask for the first
at once make one each, of which `cache` keeps one."""


@cache
def _method(space: int) -> MethodDef:
    kernel = whole.whole(space)
    method = MethodDef(b"whole", kernel.entry, FAST_CALL, None)
    _METHODS.append((method, kernel))
    return method


def prepare() -> None:
    """Compile what such calls take, or load it.

    Raises:
        NoCompilerError: it cannot be compiled.
    """
    whole.whole(whole.SMALL)
