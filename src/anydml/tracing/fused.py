"""`fuse`: a function that moves elements, run once on traced arrays; its calls are one program each."""

from __future__ import annotations

import contextlib
import functools
import importlib.util
import os
import threading
import weakref
from collections.abc import Callable, Hashable
from typing import Any

import numpy as np

from anydml.arrays.quick import BRIDGES, TRACED, is_recorded
from anydml.arrays.receive import check_place, guest_of
from anydml.core import fusing
from anydml.engines import array_engine
from anydml.engines.program_cache import ProgramCache
from anydml.functions.traced import lazy_functions
from anydml.moves import Program
from anydml.tracing.bridging import MISSED, bridged
from anydml.tracing.call import Call
from anydml.tracing.ndarray import TracedNdarray
from anydml.tracing.plan import Plan, results_of
from anydml.tracing.refusing import broken
from anydml.tracing.structure import argument_names, rebuilt
from anydml.tracing.tensor import TracedTensor
from anydml.tracing.trace import Trace, check_dtype

Array = np.ndarray[Any, Any]


def fuse(function: Callable[..., Any]) -> Fused:
    """Make every call of a function that only moves elements one pass over memory.

    The function may index, split, join, pad, repeat, transpose and look up, with Python's indexing, functions and
    methods that move elements (NumPy's, and for tensors PyTorch's), and anydml's own. It runs once for each combination
    of shapes, dtypes, strides, devices and other arguments, on traced arrays, which know their shapes and dtypes but
    not their elements. What it does becomes one program, which is kept. What the function does beside that, such as
    printing, is not repeated.

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


class Fused:
    """A function that `fuse` made.

    Examples:
        >>> last = dml.fuse(lambda x: x[..., -1])
        >>> last(np.arange(6).reshape(2, 3))
        array([2, 5])
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        functools.update_wrapper(self, function)
        self._function = function
        self._name = getattr(function, "__name__", type(function).__name__)
        self._plans = ProgramCache()
        self._calls: Any = None if fusing is None else fusing.Calls()
        self._last: tuple[Hashable, Plan] | None = None
        self._turn = threading.RLock()
        _ALL.add(self)

    def __call__(self, *arguments: Any, out: Any = None, **keywords: Any) -> Any:
        """Results as the function's."""
        # What traces Python must not meet compiled code.
        is_seen = self._calls is not None and not (TRACED and is_recorded())
        if is_seen:
            found = self._calls.take(arguments, keywords, out)
            if found is not None:
                return found
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
        plan = self._plan(key, call, arguments, keywords)
        if is_seen and (done := plan.in_core(call.adapters)) is not None:
            self._calls.keep(arguments, keywords, done)
        if out is None:
            return plan.run(call.inputs, call.adapters)

        def kept(strides: Hashable, make: Callable[[], Any]) -> Any:
            compiled = self._plans.get((key, strides))
            if compiled is None:
                with self._turn:
                    compiled = self._plans.get((key, strides)) or make()
                    if compiled is not None:
                        self._plans.keep((key, strides), compiled)
            return compiled

        return plan.run_to(out, call.inputs, call.adapters, kept)

    def __repr__(self) -> str:
        return f"<fused {self._name}>"

    def lower(self, *arguments: Any, **keywords: Any) -> Program:
        """The program that a call with these arguments runs."""
        return self._asked(arguments, keywords).program

    def lowered(self, *arguments: Any, **keywords: Any) -> tuple[Program, list[Array], list[tuple[Any, Any]]]:
        """As `lower`, with the arrays that are its inputs, and the shapes and dtypes of its outputs."""
        plan, call = self._asked(arguments, keywords), Call(self._name)
        call.key(arguments, keywords)
        return plan.program, call.inputs, [*plan.shapes]

    def explain(self, *arguments: Any, **keywords: Any) -> str:
        """What a call with these arguments moves: operands, scratch and why, moves, bytes."""
        return str(self._asked(arguments, keywords))

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

    def _asked(self, arguments: Any, keywords: dict[str, Any]) -> Plan:
        call = Call(self._name)
        key = call.key(arguments, keywords)
        if call.is_traced:
            raise broken("a call on traced arrays is part of the program around it")
        if call.is_lazy:
            raise broken("a call on Dask arrays is a program for each chunk: call the function, and look at its graph")
        return self._plan(key, call, arguments, keywords)

    def _plan(self, key: Hashable, call: Call, arguments: Any, keywords: dict[str, Any]) -> Plan:
        plan: Plan | None = self._plans.get(key)
        return plan or self._planned(key, arguments, keywords, call.inputs, call.adapters)

    def _planned(self, key: Hashable, arguments: Any, keywords: dict[str, Any], inputs: Any, adapters: Any) -> Plan:
        """The plan under a key, made once, however many threads ask for it."""
        with self._turn:
            plan: Plan | None = self._plans.get(key)
            if plan is None and self._last is not None and self._last[0] == key:
                plan = self._last[1]
            if plan is None:
                plan = self._traced(arguments, keywords, inputs, adapters)
                self._plans.keep(key, plan)
                # One that is too large to be kept among others is kept until the next one comes.
                self._last = key, plan
            return plan

    def _traced(self, arguments: Any, keywords: dict[str, Any], inputs: Any, adapters: Any) -> Plan:
        if not inputs:
            raise broken(f"{self._name} was called without arrays: pass some, for it is compiled for their shapes")
        first = adapters[0]
        is_pytorchs = first is not None and first.LIBRARY == "a PyTorch tensor"
        trace = Trace(
            self._name, TracedTensor if is_pytorchs else TracedNdarray, None if first is None else first.device
        )
        names: list[str] = []

        def traced(leaf: Any, path: str) -> Any:
            if guest_of(leaf) is None and not isinstance(leaf, np.ndarray):
                return leaf
            number = len(names)
            array, adapter = inputs[number], adapters[number]
            if number:
                check_place(self._name, path, adapter, adapters[0], names[0])
            names.append(path)
            check_dtype(array.dtype, path)
            value = trace.composer.input(path, array.shape, array.strides, array.itemsize)
            return trace.made(value, array.dtype, number)

        places = argument_names(self._function, len(arguments))
        given = [rebuilt(tree, traced, path) for tree, path in zip(arguments, places, strict=True)]
        named = {path: rebuilt(tree, traced, path) for path, tree in keywords.items()}
        engine = array_engine(self._name, inputs)
        _offer_to_einops()
        try:
            returned = self._function(*given, **named)
            tree, results = results_of(trace, returned, adapters, inputs)
        finally:
            trace.is_over = True
        return Plan(trace, tree, results, engine, names)


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
