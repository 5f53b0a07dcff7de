"""Tracing of a call of a fused function, with traced arrays and open sizes in place of its arrays and integers."""

from __future__ import annotations

import contextlib
import dis
import importlib
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Any

import numpy as np

from anydml.arrays.receive import adapter_of, check_place
from anydml.engines import array_engine
from anydml.errors import FuseError
from anydml.moves.composer import INPUT
from anydml.tracing.arrays_as_numbers import number_of
from anydml.tracing.call_arguments import MAX_OPEN, CallArguments, strides_of
from anydml.tracing.executed_instructions import Follow
from anydml.tracing.open_builtins import FunctionCopier, traced_again
from anydml.tracing.random_draws import no_random_draws
from anydml.tracing.refusing import no_arrays_error
from anydml.tracing.short_integers import as_kind, kind_of
from anydml.tracing.structure import argument_names, map_leaves
from anydml.tracing.surroundings import Surroundings
from anydml.tracing.trace import Trace, check_dtype
from anydml.tracing.traced_ndarray import TracedNdarray
from anydml.tracing.traced_program import Path, TracedProgram
from anydml.tracing.traced_results import TracedFunction, results_of
from anydml.tracing.traced_tensor import TracedTensor


@traced_again(is_kept=True)
def trace_call(
    copier: FunctionCopier,
    function: Callable[..., Any],
    name: str,
    arguments: tuple[Any, ...],
    keywords: dict[str, Any],
    call: CallArguments,
    surroundings: Surroundings,
    is_open: bool,
    watched: Callable[[Follow], AbstractContextManager[None]],
) -> TracedProgram:
    """Trace a call.

    Args:
        copier: makes the copy of the function that runs on traced arrays.
        function: the function.
        name: the function's name in errors.
        arguments: positional arguments.
        keywords: keyword arguments.
        call: the arrays and numbers of these arguments.
        surroundings: everything that the function can reach.
        is_open: whether integers stay open; False for functions that accept only integers.
        watched: returns a context in which the function is run, and which calls `FunctionCopier.follow`.

    Raises:
        FuseError: there is no array, or the function does something that a trace does not support.
        BindingError: the arrays are of several libraries or devices.
    """
    copier.may_repeat = lambda: not surroundings.change()
    inputs, adapters = call.inputs, call.adapters
    if not inputs:
        raise no_arrays_error(name, (*arguments, *keywords.values()))
    first = adapters[0]
    array_class = TracedTensor if first is not None and first.LIBRARY == "a PyTorch tensor" else TracedNdarray
    trace = Trace(name, array_class, None if first is None else first.device, input_count=len(call.numbers))
    names = list[str]()
    numbers = _OpenNumbers(trace, is_open, len(inputs) > MAX_OPEN)
    argument: int | str = 0

    def traced_leaf(leaf: Any, path: str) -> Any:
        if (number_class := kind_of(leaf)) is not None:
            return numbers.integer(leaf, number_class, path)
        if adapter_of(leaf) is None and not isinstance(leaf, np.ndarray):
            return leaf
        leaf_number = len(names)
        array, adapter = inputs[leaf_number], adapters[leaf_number]
        if leaf_number:
            check_place(name, path, adapter, adapters[0], names[0])
        names.append(path)
        check_dtype(array.dtype, path)
        rank = array.ndim
        count = numbers.count
        known = call.numbers[count : count + 2 * rank] or (*array.shape, *strides_of(array))
        extents = numbers.open(known, path, rank)
        value = trace.composer.input(path, extents[:rank], extents[rank:], array.itemsize)
        if not array.ndim and number_of(leaf) is not None:
            trace.number_arguments[INPUT + leaf_number] = argument
        return trace.new_array(value, array.dtype, leaf_number)

    fields = argument_names(function, len(arguments))
    positional, named = [], {}
    for argument, (tree, path) in enumerate(zip(arguments, fields, strict=True)):  # noqa: B007  # `traced_leaf` reads it
        positional.append(map_leaves(tree, traced_leaf, path))
    for argument, tree in keywords.items():
        named[argument] = map_leaves(tree, traced_leaf, argument)
    numbers.note_types(call.are_long)
    engine = array_engine(name, inputs)
    _offer_to_libraries()
    try:
        with no_random_draws(name, surroundings):
            traced_function_copy = copier.copy_for_trace(function, trace)
            with watched(copier.follow), _named_classes():
                returned = traced_function_copy(*positional, **named)
        trace.scope.is_typed = False
        tree, results = results_of(trace, returned, adapters, inputs)
    finally:
        trace.is_over = True
        copier.end()
    traced_function = TracedFunction(name, tree, results, engine, names, trace.unsigned)
    return TracedProgram(trace, traced_function, surroundings.surrounding_values, numbers.paths)


@contextlib.contextmanager
def _named_classes() -> Iterator[None]:
    """In errors of compiled code that name a traced class, name the array class that it stands for."""
    try:
        yield
    except (TypeError, RuntimeError) as error:
        if isinstance(error, FuseError) or not any(
            kind.__name__ in str(error) for kind in (TracedNdarray, TracedTensor)
        ):
            raise
        last: Any = error.__traceback__
        while last.tb_next is not None:
            last = last.tb_next
        frame, line = last.tb_frame, last.tb_lineno
        if dis.opname[frame.f_code.co_code[last.tb_lasti]] == "RAISE_VARARGS":
            # The error is the code's own.
            raise
        raise FuseError(
            f"{frame.f_code.co_filename}:{line}: a function without traced arrays among its types was called with one "
            f"({error}): call it outside the fused function"
        ) from error


class _OpenNumbers:
    """The numbers of a call's arguments, open in its trace.

    Args:
        trace: the trace.
        is_open: whether they stay open.
        is_in_key: whether they are part of the call's key, and so never open.

    Attributes:
        count: the number of open numbers.
        paths: their meaning, in ascending order.
    """

    def __init__(self, trace: Trace, is_open: bool, is_in_key: bool) -> None:
        self._trace, self._is_open, self._is_in_key = trace, is_open, is_in_key
        self.count = 0
        self.paths = list[Path]()
        self._integers = list[tuple[Any, str]]()

    def open(self, values: Sequence[int], path: str, rank: int) -> list[Any]:
        """Open the numbers of an argument.

        Args:
            values: their values in the traced call.
            path: the argument's name.
            rank: the number of dimensions of an array, whose sizes come first; else −1.
        """
        if self._is_in_key:
            return [*values]
        scope, first = self._trace.scope, self.count
        self.paths.append((first, path, rank))
        # Sizes are 0 or more.
        sizes = [scope.variable(first + k, value, 0 if k < rank else None) for k, value in enumerate(values)]
        self.count += len(sizes)
        if self._is_open:
            return sizes
        return [scope.pin(size, "a called function does not support open sizes") for size in sizes]

    def integer(self, number: Any, kind: Any, path: str) -> Any:
        """Open an integer of a kind that `kind_of` returned."""
        (size,) = self.open([int(number)], path, -1)
        if kind is int:
            self._integers.append((size, path))
        return as_kind(size, kind) if self._is_open and not self._is_in_key else number

    def note_types(self, are_long: Sequence[bool]) -> None:
        """Add an open flag for each integer: whether it is NumPy's. If no integer is, do nothing."""
        if self._is_in_key or not any(are_long):
            return
        for (size, path), is_long in zip(self._integers, are_long, strict=True):
            (flag,) = self.open([is_long], f"isinstance({path}, numpy.int64)", -1)
            if self._is_open:
                self._trace.scope.longs[size.register] = flag
        self._trace.scope.is_typed = self._is_open


def _offer_to_libraries() -> None:
    """Register traced arrays with libraries that are imported; functions that import one are traced again."""
    for library, module in _REGISTRATIONS.items():
        if library in sys.modules:
            with contextlib.suppress(ImportError):
                importlib.import_module(module)


_REGISTRATIONS = {
    "einops": "anydml.tracing.einops_backend",
    "torch.utils.data._utils.collate": "anydml.tracing.collating",
}
"""The module that registers traced arrays, by a library's module."""
