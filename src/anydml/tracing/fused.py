"""`fuse`: traces a function that moves elements, and runs each of its calls as one program."""

from __future__ import annotations

import functools
import os
import sys
import threading
import warnings
import weakref
from collections.abc import Callable, Hashable, Sequence
from time import perf_counter
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, TypeVar, overload

import numpy as np

import anydml.engines.cpu.engine  # noqa: F401  # so that the first call does not wait for it
from anydml.arrays.native_arrays import BRIDGES, is_native
from anydml.engines.program_cache import ProgramCache
from anydml.errors import FuseError
from anydml.functions.traced_calls import lazy_functions
from anydml.hooks import HOOKS
from anydml.moves import Program
from anydml.tracing.arrays_as_numbers import Place, contains_arrays, with_arrays_as_numbers
from anydml.tracing.bridging import NO_VIEWS, call_on_views
from anydml.tracing.cached_traces import CachedTraces, LatestTrace
from anydml.tracing.call_arguments import CallArguments
from anydml.tracing.categories import GENERATOR_MAKERS
from anydml.tracing.counts import Counts
from anydml.tracing.random_draws import loaded_random_libraries
from anydml.tracing.refusing import fuse_error
from anydml.tracing.results_in_arguments import Pairs
from anydml.tracing.specialized_program import SpecializedProgram
from anydml.tracing.surroundings import Surroundings
from anydml.tracing.trace_call import trace_call
from anydml.tracing.traced_callable import TracedCallable
from anydml.tracing.traced_program import TracedProgram
from anydml.tracing.unfused_calls import MUST_TRACE, UnfusedCalls

Array = np.ndarray[Any, Any]
P = ParamSpec("P")
R = TypeVar("R")

MAX_TRACES_BY_NAME = 4
"""Maximum number of traces for different values of an argument such as a float or a string."""

CALLS_BEFORE_WARNING = 10
"""Number of calls without a trace after which there is a warning."""

MAX_DOUBTED_TRACES = 8
"""Maximum number of traces during which another thread may have drawn random numbers."""


def fuse(function: Callable[P, R]) -> Fused[P, R]:
    """Compile a function that only moves elements, so that each call is one pass over memory.

    The function may index, split, join, pad, repeat, transpose and pick, by Python's indexing, by functions and
    methods of NumPy (and, for tensors, PyTorch) that move elements, and by anydml's own. It runs once for each
    combination of dtypes, ranks, devices and other arguments, on traced arrays, whose elements are unknown. The
    recorded moves become one program, which is cached. Side effects, such as printing, are not repeated.

    Sizes, strides and integer arguments stay open, `len(x)` of an array included: calls with other values run the same
    program. The function is traced again if it would branch differently (``if x.shape[0] > 8:``), or if it needs a size
    as a number, as in ``range(x.shape[0])``; `Fused.explain` lists the lines. Where traces do not repeat, the function
    runs as plain Python.

    Indices among the arguments must be INT32, INT64, UINT32 or UINT64. Indices out of range raise IndexError before
    anything is written; only indices that the results need are checked.

    Args:
        function: takes arrays, structures (tuples, lists, dicts) of arrays, and hashable arguments; returns an array
            or a structure of arrays. Other arrays that it uses are constants.

    Returns:
        The function for arrays of any library; the arrays of one call must be of one library and on one device. Results
        are new arrays of that library, or the arrays of ``out``, a structure like the result's.

    Raises:
        FuseError: when called: the function computes, branches on elements, mutates, or calls an unsupported function.
        BindingError: when called: `out` does not fit, or arrays are of several libraries or devices.

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


class Fused(TracedCallable, Generic[P, R]):
    """A fused function, made by `fuse`.

    Examples:
        >>> last = dml.fuse(lambda x: x[..., -1])
        >>> last(np.arange(6).reshape(2, 3))
        array([2, 5])
    """

    if TYPE_CHECKING:

        @overload
        def __call__(self, *arguments: P.args, **keywords: P.kwargs) -> R: ...
        @overload
        def __call__(self, *arguments: Any, out: Any, **keywords: Any) -> R: ...
        def __call__(self, *arguments: Any, out: Any = None, **keywords: Any) -> Any:
            """Call the function."""

    def __init__(self, function: Callable[P, R]) -> None:
        functools.update_wrapper(self, function)
        # Attributes of the function must not hide these methods.
        for name in [name for name in vars(self) if not name.startswith("__") and hasattr(Fused, name)]:
            del self.__dict__[name]
        self._function = function
        self._name = getattr(function, "__name__", type(function).__name__)
        self._unfused_calls = UnfusedCalls(function)
        self._hits_before = self._traces = 0
        self._lock = threading.RLock()
        self._forget()
        self._has_warned = False
        _FUSED_FUNCTIONS.add(self)

    def _forget(self) -> None:
        """Forget all traces, and what they have shown of the function, but not how many there were."""
        with self._lock:
            calls = self._unfused_calls.calls
            self._unfused_calls = UnfusedCalls(self._function)
            self._unfused_calls.calls = calls
            self._cached, self._latest = CachedTraces(), LatestTrace(self._function)
            self._specializations = ProgramCache()
            self._unsteady: str | None = None
            self._min_traces, self._doubts = self._traces + 1, 0
            self._number_places: list[Place] = []
            self.watch_code(getattr(self._function, "__func__", self._function))

    def call_in_python(
        self, arguments: tuple[Any, ...], keywords: dict[str, Any], out: Any, pattern: bytes | None
    ) -> Any:
        """Run a call that compiled code does not support: the first call of each kind, and unusual calls.

        Args:
            arguments: positional arguments.
            keywords: keyword arguments.
            out: the caller's arrays, or None.
            pattern: the call's, if no trace is expected to help such calls.
        """
        if self.has_new_code():
            self._forget()
        if self._number_places and (converted := with_arrays_as_numbers(arguments, keywords, self._number_places)):
            return self(*converted[0], out=out, **converted[1])
        if BRIDGES and out is None:
            result = call_on_views(self, arguments, keywords)
            if result is not NO_VIEWS:
                return result
        result = MUST_TRACE if out is not None else self._without_trace(arguments, keywords, pattern)
        if result is not MUST_TRACE:
            self._warn_of_unsteady()
            return result
        call = CallArguments(self._name)
        key = call.key(arguments, keywords)
        if call.is_traced:
            return self._function(*arguments, **keywords)
        if call.is_lazy:
            functions = lazy_functions()
            functions.check_out(self._name, out)
            return functions.lazily(self._function, self._name, arguments, keywords)
        try:
            traced, registers, is_new = self._trace_for(key, call, arguments, keywords)
        except FuseError as error:
            self._note_number_place(arguments, keywords, error)
            return self(*arguments, out=out, **keywords)
        self._warn_of_unsteady()
        if is_new and (result := self.call_compiled(arguments, keywords, out)) is not None:
            return result
        specialized = self._specialize(traced, registers)
        if out is None:
            return specialized.run(call.inputs, call.adapters)

        def with_strides(strides: Sequence[Any], donations: Pairs) -> SpecializedProgram:
            return self._specialize(traced, registers, tuple(strides), donations)

        return specialized.run_to(out, call.inputs, call.adapters, with_strides)

    def _without_trace(self, arguments: tuple[Any, ...], keywords: dict[str, Any], pattern: bytes | None) -> Any:
        """Run the function without a trace; return `MUST_TRACE` if the call must be traced, or must use a trace."""
        is_unsteady = self._unsteady is not None
        # A function that fills a cache in its first run is traced a second time.
        if self._traces < self._min_traces or not self._unfused_calls.instructions.has_watched:
            return MUST_TRACE
        result = self._unfused_calls.run(pattern, arguments, keywords, is_unsteady)
        if result is not MUST_TRACE and self._unfused_calls.calls == CALLS_BEFORE_WARNING and not is_unsteady:
            self._warn(arguments, keywords)
        return result

    def __repr__(self) -> str:
        return f"<fused {self._name}>"

    def _repr_html_(self) -> str | None:
        """Draw the program of the latest traced call; return None before the first."""
        if (latest := self._latest.registers()) is None:
            return None
        drawn = HOOKS["explain"](self._specialize(*latest).program, device="")
        return drawn._repr_html_()  # type: ignore[no-any-return]

    def __reduce__(self) -> Any:
        """Pickle and copy like a function: by name, if the function's module has this object under that name."""
        module_value: Any = sys.modules.get(self.__module__)
        name = getattr(self, "__qualname__", "")
        for part in name.split("."):
            module_value = getattr(module_value, part, None)
        return name if module_value is self else (Fused, (self._function,))

    def lower(self, *arguments: Any, **keywords: Any) -> Program:
        """Return the program of a call with these arguments: moves between inputs, outputs, constants and scratch."""
        return self.lower_call(*arguments, **keywords)[0]

    def lower_call(self, *arguments: Any, **keywords: Any) -> tuple[Program, list[Array], list[tuple[Any, Any]]]:
        """Return the program of a call, its input arrays, and its outputs' shapes and dtypes."""
        traced, registers, call = self._program_of(arguments, keywords)
        specialized = self._specialize(traced, registers)
        return specialized.program, call.inputs, [*specialized.shapes]

    def explain(self, *arguments: Any, **keywords: Any) -> str:
        """Describe a call with these arguments: operands, scratch with reasons, moves, and bytes.

        The last lines name the sizes that were needed as numbers, for which the function is traced again, and, if it
        was traced several times, how often and for which arguments.
        """
        traced, registers, _ = self._program_of(arguments, keywords)
        lines = [str(self._specialize(traced, registers)), *traced.pins]
        if self._unsteady is not None:
            lines.append(f"no trace is cached, since the function reads {self._unsteady}, which changes between calls")
        if reasons := self._latest.reasons:
            lines.append(f"{self.counts}, lately since {', and since '.join(reasons)}")
        return "\n  ".join(lines)

    @property
    def counts(self) -> Counts:
        """The number of traces, of calls that used a trace, and of calls that ran without one.

        Examples:
            >>> last = dml.fuse(lambda x: x[..., -1])
            >>> [last(np.arange(n)).item() for n in (2, 3, 4)]
            [1, 2, 3]
            >>> print(last.counts)
            traced once; 3 calls used a trace, and 0 ran without one
        """
        return Counts(self._traces, self.hits, self._unfused_calls.calls)

    def plan(self, inputs: Any, outputs: Any, memory: int | str = "256MB", overwrite: bool = False) -> Any:
        """Plan a call over files that may be larger than memory.

        Args:
            inputs: the arguments, with a store (see `anydml.stores.open`) for each array; one, or a tuple or list.
            outputs: a structure like the result's, with a target (see `anydml.stores.create`) for each array.
            memory: limit of all buffers, in bytes or as a string, such as ``"256MB"``.
            overwrite: whether existing files may be replaced.

        Returns:
            An `anydml.stores.Plan`: print it for the bytes to read and write, and call its ``run``.

        Raises:
            FuseError: as for a call.
            BindingError: targets do not fit the results, `memory` is too small, or an output is an input.
        """
        return HOOKS["plan"](self._function, self._name, inputs, outputs, memory, overwrite)

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        """Bind as a method: the instance becomes a hashed argument."""
        return self if instance is None else functools.partial(self, instance)

    def _program_of(
        self, arguments: Any, keywords: dict[str, Any]
    ) -> tuple[TracedProgram, Sequence[int], CallArguments]:
        if self.has_new_code():
            self._forget()
        if self._number_places:
            arguments, keywords = with_arrays_as_numbers(arguments, keywords, self._number_places) or (
                arguments,
                keywords,
            )
        call = CallArguments(self._name)
        key = call.key(arguments, keywords)
        if call.is_traced:
            raise fuse_error("a call on traced arrays is part of the enclosing program")
        if call.is_lazy:
            raise fuse_error("a call on Dask arrays is one program per chunk: call the function and inspect its graph")
        try:
            traced, registers, _ = self._trace_for(key, call, arguments, keywords)
        except FuseError as error:
            self._note_number_place(arguments, keywords, error)
            return self._program_of(arguments, keywords)
        return traced, registers, call

    def _note_number_place(self, arguments: Any, keywords: dict[str, Any], error: FuseError) -> None:
        """Note that an argument's arrays are needed as numbers; any other error is raised again."""
        argument_name = error.argument
        replaced = None if argument_name is None else with_arrays_as_numbers(arguments, keywords, [argument_name])
        if argument_name is None or replaced is None or not contains_arrays(replaced):
            raise error
        if argument_name not in self._number_places:
            self._number_places.append(argument_name)

    def _specialize(
        self, traced: TracedProgram, registers: Sequence[int], strides: Any = None, donations: Pairs = ()
    ) -> SpecializedProgram:
        """Specialize a traced program to one call's registers; cached."""
        key = traced, tuple(registers), strides, donations
        return self._specializations.find(key, lambda: traced.specialize(registers, strides, donations))

    def _trace_for(
        self, key: Hashable, call: CallArguments, arguments: Any, keywords: dict[str, Any]
    ) -> tuple[TracedProgram, Sequence[int], bool]:
        """Return the traced program whose guards a call passes, the call's registers, and whether it is new."""
        with self._lock:
            if (find_trace := self._cached.find_trace(key, call)) is not None:
                self.hits += 1
                return *find_trace, False
            start = perf_counter()
            self._latest.note_reason(arguments, keywords, call)
            watched = loaded_random_libraries()
            traced, surroundings = self._trace(arguments, keywords, call)
            if loaded_random_libraries() != watched:
                # Draws from a library that the function itself loaded were not noticed.
                traced, surroundings = self._trace(arguments, keywords, call)
            self._unfused_calls.note(traced.is_assigning, traced.is_naming, traced.has_elements)
            self._unsteady = surroundings.change()
            self._doubts += surroundings.is_doubted
            is_tried_again = surroundings.is_doubted and self._doubts < MAX_DOUBTED_TRACES
            self._min_traces = self._traces + 2 if is_tried_again else 1 + (self._unsteady is not None)
            if self._unsteady is None:
                self._keep_trace(key, traced, call, arguments, keywords)
            is_naming = self._unfused_calls.is_naming
            patterns = [self.pattern(arguments, keywords, naming) for naming in ((2,) if is_naming else (0, 1))]
            self._unfused_calls.traced(patterns, perf_counter() - start, has_paid=self.hits > self._hits_before)
            self.hits += self._unsteady is not None
            self._hits_before = self.hits
            self._traces += 1
            self.naming = 2 if is_naming else int(self._traces < MAX_TRACES_BY_NAME)
            self._latest.note(traced, arguments, keywords, call)
            registers = traced.registers(call.numbers)
            if registers is None:
                raise AssertionError(f"{self._name}: the guards of a trace reject the call that was traced")
            return traced, registers, self._unsteady is None

    def _trace(
        self, arguments: Any, keywords: dict[str, Any], call: CallArguments
    ) -> tuple[TracedProgram, Surroundings]:
        """Trace a call; return the trace and the function's surroundings."""
        surroundings = Surroundings(self._function, (arguments, keywords))
        watched = self._unfused_calls.instructions.watched
        traced_arguments = self._function, self._name, arguments, keywords, call, surroundings
        try:
            return trace_call(*traced_arguments, is_open=True, watched=watched), surroundings
        except Exception:
            # Functions written in C, which may make generators, accept only integers, and errors must show numbers.
            if surroundings.change() not in (None, *GENERATOR_MAKERS):
                raise
            return trace_call(*traced_arguments, is_open=False, watched=watched), surroundings

    def _keep_trace(
        self, key: Hashable, traced: TracedProgram, call: CallArguments, arguments: Any, keywords: dict[str, Any]
    ) -> None:
        self._cached.add(key, traced)
        if call.adapters[0] is not None:
            # Compiled code reads PyTorch's tensors from the first such call on.
            is_native(call.adapters[0].array)
        if (result := traced.compiled_trace(call.adapters)) is not None:
            self.add_compiled(arguments, keywords, result)

    def _warn(self, arguments: Any, keywords: dict[str, Any]) -> None:
        call = CallArguments(self._name)
        call.key(arguments, keywords)
        difference = self._latest.difference(arguments, keywords, call)
        text = f"{self._name} runs without a trace in calls that differ from those that were traced: now {difference}"
        hint = "calls that share a trace may differ in elements, sizes, strides and integers"
        warnings.warn(f"{text}; {hint}", RuntimeWarning, stacklevel=4)

    def _warn_of_unsteady(self) -> None:
        if (
            self._unsteady is not None
            and not self._has_warned
            and self._traces + self._unfused_calls.calls >= CALLS_BEFORE_WARNING
        ):
            self._has_warned = True
            text = f"{self._name} is not fused, since it reads {self._unsteady}, which changes between calls"
            warnings.warn(f"{text}: pass what it reads as an argument", RuntimeWarning, stacklevel=3)


_FUSED_FUNCTIONS: weakref.WeakSet[Fused[..., Any]] = weakref.WeakSet()
"""All fused functions. After a fork, the child replaces their locks: threads that held them do not exist there."""


def _after_fork() -> None:
    for fused in _FUSED_FUNCTIONS:
        fused._lock = threading.RLock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
