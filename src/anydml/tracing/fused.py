"""`fuse`: a function that moves elements, run once on traced arrays; its calls are one program each."""

from __future__ import annotations

import contextlib
import functools
import importlib.util
import os
import threading
import weakref
from collections.abc import Callable, Hashable, Sequence
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from anydml.arrays.quick import BRIDGES, RECORDS
from anydml.arrays.receive import check_place, guest_of
from anydml.core import fusing
from anydml.engines import array_engine
from anydml.engines.program_cache import ProgramCache
from anydml.functions.traced import lazy_functions
from anydml.moves import Program
from anydml.tensor import Layout
from anydml.tracing.bridging import MISSED, bridged
from anydml.tracing.call import MOST_OPEN, Call
from anydml.tracing.donating import Pairs
from anydml.tracing.fixed import Fixed
from anydml.tracing.ndarray import TracedNdarray
from anydml.tracing.open_builtins import opened
from anydml.tracing.plan import Plan
from anydml.tracing.refusing import broken
from anydml.tracing.results import Traced, results_of
from anydml.tracing.scope import INFINITE
from anydml.tracing.structure import argument_names, rebuilt
from anydml.tracing.tensor import TracedTensor
from anydml.tracing.trace import Trace, check_dtype

Array = np.ndarray[Any, Any]

MOST_PLANS, MOST_BYTES = 64, 32 << 20
"""Traces that are kept of one kind of arguments, and bytes of all of a function's, about."""


def fuse(function: Callable[..., Any]) -> Fused:
    """Make every call of a function that only moves elements one pass over memory.

    The function may index, split, join, pad, repeat, transpose and look up, with Python's indexing, functions and
    methods that move elements (NumPy's, and for tensors PyTorch's), and anydml's own. It runs once for each combination
    of dtypes, dimensions, devices and other arguments, on traced arrays, which do not know their elements. What it does
    becomes one program, which is kept. What the function does beside that, such as printing, is not repeated.

    Sizes, and integers among the arguments, stay open: calls with others run the same program. The function runs again
    where it would go another way (``if x.shape[0] > 8:``), or where it needs a number, as in ``range(x.shape[0])`` and
    ``len(x)``: `explain` says where.

    Indices that are arguments are INT32, INT64, UINT32 or UINT64; those out of range raise IndexError before anything
    is written, but only those that the results need are looked at.

    Args:
        function: takes arrays, structures (tuples, lists, dicts) of arrays, and hashable arguments; returns an array
            or a structure of arrays. Arrays that it uses without being given them are constants.

    Returns:
        The function for arrays of any library: of one library and on one device in each call. Results are new arrays of
        that library, or ``out``'s, a structure like the result's.

    Raises:
        FuseError: when it is called: the function computes, decides by elements, writes, or calls what is unknown.
        BindingError: when it is called: `out` does not fit, or arrays are of several libraries or devices.

    Examples:
        >>> import anydml as dml
        >>> import numpy as np
        >>> @dml.fuse
        ... def halves(x):
        ...     first, second = np.split(x, 2, axis=-1)
        ...     return np.concatenate([second, first], axis=-1)
        >>> halves(np.arange(6))
        array([3, 4, 5, 0, 1, 2])
    """
    if not callable(function):
        raise TypeError(f"fuse takes a function, such as lambda x: x.T, not {type(function).__name__}")
    return Fused(function)


_PLAN: list[Callable[..., Any]] = []
"""What `planned_by` was given."""


def planned_by(plan: Callable[..., Any]) -> None:
    """Have `Fused.plan` done by a function: what reads and writes files stands above this package."""
    _PLAN[:] = [plan]


class _Slow:
    """A function that is called where there is no compiled code."""

    slowly: Callable[..., Any]
    """What does a call: a method of subclasses."""

    def __init__(self, *_: Any) -> None:
        pass

    def __call__(self, *arguments: Any, out: Any = None, **keywords: Any) -> Any:
        """Results as the function's."""
        return self.slowly(arguments, keywords, out)

    def take(self, arguments: tuple[Any, ...], keywords: dict[str, Any], out: Any) -> Any:
        """What compiled code gives for a call; None where it does nothing."""

    def keep(self, arguments: tuple[Any, ...], keywords: dict[str, Any], call: Any) -> None:
        """Have compiled code do such calls."""


if TYPE_CHECKING or fusing is None:  # noqa: SIM108  types are checked of what Python has
    _Calls = _Slow
else:
    _Calls = fusing.Calls


class Fused(_Calls):
    """A function that `fuse` made.

    Examples:
        >>> last = dml.fuse(lambda x: x[..., -1])
        >>> last(np.arange(6).reshape(2, 3))
        array([2, 5])
    """

    def __new__(cls, function: Callable[..., Any]) -> Self:
        """With what says whether calls are recorded."""
        # Compiled classes take what they are made of here.
        return super().__new__(cls, *(() if fusing is None else (RECORDS,)))

    def __init__(self, function: Callable[..., Any]) -> None:
        functools.update_wrapper(self, function)
        self._function = function
        self._name = getattr(function, "__name__", type(function).__name__)
        self._plans: dict[Hashable, list[Plan]] = {}
        self._kept = 0
        self._fixed = ProgramCache()
        self._turn = threading.RLock()
        _ALL.add(self)

    def slowly(self, arguments: tuple[Any, ...], keywords: dict[str, Any], out: Any) -> Any:
        """A call that compiled code does not do: the first of its kind, and what is unusual."""
        if BRIDGES and out is None:
            found = bridged(self, arguments, keywords)
            if found is not MISSED:
                return found
        call = Call(self._name)
        key = call.key(arguments, keywords)
        if call.is_traced:
            return self._function(*arguments, **keywords)
        if call.is_lazy:
            functions = lazy_functions()
            functions.check_out(self._name, out)
            return functions.lazily(self._function, self._name, arguments, keywords)
        plan, registers, is_new = self._plan(key, call, arguments, keywords)
        if is_new and (done := plan.in_core(call.adapters)) is not None:
            self.keep(arguments, keywords, done)
            found = self.take(arguments, keywords, out)
            if found is not None:
                return found
        fixed = self._fixed_by(plan, registers)
        if out is None:
            return fixed.run(call.inputs, call.adapters)

        def strided(strides: Sequence[Any], donations: Pairs) -> Fixed:
            return self._fixed_by(plan, registers, tuple(strides), donations)

        return fixed.run_to(out, call.inputs, call.adapters, strided)

    def __repr__(self) -> str:
        return f"<fused {self._name}>"

    def lower(self, *arguments: Any, **keywords: Any) -> Program:
        """The program that a call with these arguments runs."""
        return self._fixed_by(*self._asked(arguments, keywords)).program

    def lowered(self, *arguments: Any, **keywords: Any) -> tuple[Program, list[Array], list[tuple[Any, Any]]]:
        """As `lower`, with the arrays that are its inputs, and the shapes and dtypes of its outputs."""
        fixed, call = self._fixed_by(*self._asked(arguments, keywords)), Call(self._name)
        call.key(arguments, keywords)
        return fixed.program, call.inputs, [*fixed.shapes]

    def explain(self, *arguments: Any, **keywords: Any) -> str:
        """What a call with these arguments moves: operands, scratch and why, moves, bytes.

        Where the function runs again for other sizes, since it needed numbers, the last lines say where.
        """
        plan, registers = self._asked(arguments, keywords)
        return "\n  ".join([str(self._fixed_by(plan, registers)), *plan.pins])

    def plan(self, inputs: Any, outputs: Any, memory: int | str = "256MB", overwrite: bool = False) -> Any:
        """Plan a call over files that may be larger than memory.

        Args:
            inputs: the arguments, with a store (see `anydml.stores.open`) for each array; one, or a tuple or list.
            outputs: a structure like the result's, with a target (see `anydml.stores.create`) for each array.
            memory: bytes for all buffers together, or a text such as ``"256MB"``.
            overwrite: whether files that exist may be replaced.

        Returns:
            An `anydml.stores.Plan`, which says what it will read and write, and does so by its ``run``.

        Raises:
            FuseError: as for a call.
            BindingError: targets do not fit the results, the memory is too small, or an output is an input.
        """
        return _PLAN[0](self._function, self._name, inputs, outputs, memory, overwrite)

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        """A method: the instance is an argument that is hashed."""
        return self if instance is None else functools.partial(self, instance)

    def _asked(self, arguments: Any, keywords: dict[str, Any]) -> tuple[Plan, Sequence[int]]:
        call = Call(self._name)
        key = call.key(arguments, keywords)
        if call.is_traced:
            raise broken("a call on traced arrays is part of the program around it")
        if call.is_lazy:
            raise broken("a call on Dask arrays is a program for each chunk: call the function, and look at its graph")
        plan, registers, _ = self._plan(key, call, arguments, keywords)
        return plan, registers

    def _fixed_by(self, plan: Plan, registers: Sequence[int], strides: Any = None, donations: Pairs = ()) -> Fixed:
        """A plan for one call's numbers, made once as long as it is kept."""
        key = plan, tuple(registers), strides, donations
        found: Fixed | None = self._fixed.get(key)
        if found is None:
            found = plan.fixed(registers, strides, donations)
            self._fixed.keep(key, found)
        return found

    def _plan(
        self, key: Hashable, call: Call, arguments: Any, keywords: dict[str, Any]
    ) -> tuple[Plan, Sequence[int], bool]:
        """The plan whose guards let a call through, what it knows of the call, and whether it is new."""
        with self._turn:
            plans = self._plans.get(key, [])
            for plan in plans:
                registers = plan.registers(call.numbers)
                if registers is not None:
                    return plan, registers, False
            try:
                plan = self._traced(arguments, keywords, call, is_open=True)
            except Exception:
                # Functions in C take integers alone; and errors name numbers.
                plan = self._traced(arguments, keywords, call, is_open=False)
            self._kept += plan.weight
            if len(plans) >= MOST_PLANS or self._kept > MOST_BYTES:
                self._plans.clear()
                self._kept, plans = plan.weight, []
            self._plans[key] = [plan, *plans]
            registers = plan.registers(call.numbers)
            if registers is None:
                raise AssertionError(f"{self._name}: a trace is not right for the call that it was made of")
            return plan, registers, True

    def _traced(self, arguments: Any, keywords: dict[str, Any], call: Call, is_open: bool) -> Plan:
        inputs, adapters = call.inputs, call.adapters
        if not inputs:
            raise broken(f"{self._name} was called without arrays: pass some, for it is compiled for their shapes")
        first = adapters[0]
        is_pytorchs = first is not None and first.LIBRARY == "a PyTorch tensor"
        trace = Trace(
            self._name, TracedTensor if is_pytorchs else TracedNdarray, None if first is None else first.device
        )
        names: list[str] = []

        def number(value: int, least: float = -INFINITE) -> Any:
            if len(inputs) > MOST_OPEN:
                return value
            size = trace.scope.variable(value, least)
            return size if is_open else trace.scope.pinned(size, "a function that is called takes no open sizes")

        def traced(leaf: Any, path: str) -> Any:
            if type(leaf) is int:
                return number(leaf)
            if guest_of(leaf) is None and not isinstance(leaf, np.ndarray):
                return leaf
            place = len(names)
            array, adapter = inputs[place], adapters[place]
            if place:
                check_place(self._name, path, adapter, adapters[0], names[0])
            names.append(path)
            check_dtype(array.dtype, path)
            shape = [number(size, 0) for size in array.shape]
            strides: Any = Layout.packed(tuple(shape), array.itemsize).strides
            if not array.flags.c_contiguous:
                strides = [number(stride) for stride in array.strides]
            return trace.made(trace.composer.input(path, shape, strides, array.itemsize), array.dtype, place)

        places = argument_names(self._function, len(arguments))
        given = [rebuilt(tree, traced, path) for tree, path in zip(arguments, places, strict=True)]
        named = {path: rebuilt(tree, traced, path) for path, tree in keywords.items()}
        engine = array_engine(self._name, inputs)
        _offer_to_einops()
        try:
            returned = opened(self._function)(*given, **named)
            tree, results = results_of(trace, returned, adapters, inputs)
        finally:
            trace.is_over = True
        return Plan(trace, Traced(self._name, tree, results, engine, names, trace.unsigned))


@functools.cache
def _offer_to_einops() -> None:
    """Let einops know traced arrays, where it is installed."""
    if importlib.util.find_spec("einops") is not None:
        with contextlib.suppress(ImportError):
            importlib.import_module("anydml.tracing.einops_backend")


_ALL: weakref.WeakSet[Fused] = weakref.WeakSet()
"""All fused functions: a child of a fork gets new locks, as the threads that held the old ones are not there."""


def _after_fork() -> None:
    for fused in _ALL:
        fused._turn = threading.RLock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
