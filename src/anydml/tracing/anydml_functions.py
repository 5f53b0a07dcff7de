"""anydml's functions on traced arrays; `out` must be None."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, NoReturn

import numpy as np

from anydml.functions import argument_conversion as own_arguments
from anydml.functions.call_plans import check_size
from anydml.infer import axis_of
from anydml.moves.accesses import strided
from anydml.moves.arithmetic_sequences import is_arithmetic_sequence
from anydml.moves.composer import SCRATCH
from anydml.moves.move import Access, OutOfRange, all_lookups
from anydml.moves.value import Value
from anydml.moves.value_maker import ValueMaker, ValueView
from anydml.moves.verbs import View
from anydml.operators.function import Function
from anydml.operators.registry import FUNCTIONS
from anydml.tracing import axes, refusing
from anydml.tracing.constants import constant_array, trace_of
from anydml.tracing.indexing import indexed
from anydml.tracing.picking import check_dtype_of, pick
from anydml.tracing.refusing import refusal
from anydml.tracing.trace import Trace, TracedArray


def check_out(name: str, out: Any) -> None:
    """Check that `out` is None.

    Raises:
        FuseError: `out` is given.
    """
    if out is not None:
        raise refusal(f"{name} with out", "use the result instead")


def __getattr__(name: str) -> Any:
    """Return any other function of `anydml.functions`."""
    if name not in FUNCTIONS:
        raise AttributeError(name)
    return partial(_call_function, FUNCTIONS[name])


def _call_function(function: Function, *arguments: Any, **named: Any) -> Any:
    """Call a function of anydml: compose the function's results."""
    by_name = {**dict(zip([parameter.name for parameter in function.parameters], arguments, strict=False)), **named}
    values = [by_name.get(parameter.name, parameter.default) for parameter in function.parameters]
    label = function.name
    trace, arrays, indices = _inputs(function, values)
    converted: list[Any] = []
    for parameter, value in zip(function.parameters, values, strict=True):
        if parameter.is_array:
            continue
        if isinstance(value, TracedArray):
            raise refusal(f"{label} by a traced {parameter.name}", "shapes would depend on elements: pass numbers")
        converted.append(own_arguments.convert_argument(label, parameter, value, arrays[0].element))
    converted += [np.dtype(view.dtype) for view in indices]
    shapes = [*[array.shape for array in arrays], *[view.sizes for view in indices]]
    dtype = arrays[0].element
    with refusing.named_errors(label):
        parameters = function.check(label, shapes, tuple(converted))
        make = _TracedMaker(function, trace, dtype)
        function.apply(make, [ValueView(array.value) for array in arrays] + indices, parameters)
        results = [_own(trace.new_array(value, dtype, _like(arrays))) for value in make.values()]
    if function.lengths is not None:
        return results[0], np.array(function.lengths(label, shapes, *parameters), np.int64)
    return results if function.has_parts else results[0]


class _ConstantIndices(ValueView):
    """A view of constant indices; the indices become a constant of the program only if a lookup reads them."""

    __slots__ = ("_trace", "numbers")

    def __init__(self, trace: Trace, numbers: np.ndarray[Any, Any]) -> None:
        self._trace, self.numbers = trace, numbers
        self.sizes, self.dtype, self.name, self.parts = numbers.shape, numbers.dtype.name, "", 0

    @property
    def value(self) -> Value:  # type: ignore[override]
        """The constant."""
        return self._trace.array(self.numbers).value


class _TracedMaker(ValueMaker):
    """Makes the results of a call of a function.

    Args:
        function: the function.
        trace: the trace.
        dtype: dtype of the results.
    """

    def __init__(self, function: Function, trace: Trace, dtype: np.dtype[Any]) -> None:
        reason = f"{function.name} reads and writes memory"
        super().__init__(trace.composer, dtype.itemsize, lambda sizes: check_size(trace.name, sizes, dtype), reason)
        self._function, self._trace, self._dtype = function, trace, dtype

    def pick(self, x: Any, indices: Any, axis: int, outside: OutOfRange) -> Any:
        """Pick by indices; constant ones are checked now."""
        if isinstance(x, View) or not isinstance(indices, _ConstantIndices):
            return super().pick(x, indices, axis, outside)
        return ValueView(pick(self._trace.new_array(x.value, self._dtype), indices.numbers, axis, outside).value)

    def check_refused(self, indices: ValueView, is_place: bool) -> None:
        """Check that indices that may be out of range are an argument of the traced function.

        Raises:
            FuseError: they are computed from an argument, so that they would move before they are checked.
        """
        pieces = indices.value.pieces
        plain = [
            piece.source
            for piece in pieces
            if isinstance(piece.source, Access) and not is_arithmetic_sequence(piece.source)
        ]
        read = [source.operand for source in plain]
        read += [lookup.operand for source in plain for lookup in all_lookups(source.lookups)]
        is_read_at_once = not plain or not is_place or strided(indices.value) is not None
        if is_read_at_once and all(operand < SCRATCH for operand in read):
            return
        function = self._function
        field = next(parameter.name for parameter in function.arrays if parameter.is_index)
        hint = f"pass {field} as an argument"
        if any(parameter.name == "out_of_range" for parameter in function.parameters):
            hint += f", or out_of_range={function.parameter('out_of_range').words[-1]!r}"
        raise refusing.fuse_error(f"{function.name}: indices are checked before anything moves: {hint}")


def _like(arrays: Sequence[TracedArray]) -> int | None:
    return next((array.like for array in arrays if array.like is not None), None)


def _inputs(function: Function, values: Sequence[Any]) -> tuple[Trace, list[TracedArray], list[ValueView]]:
    """Return the trace, the data arrays, and the indices and masks of a call."""
    by_name = {x.name: value for x, value in zip(function.parameters, values, strict=True)}
    names = [x.name for x in function.arrays]
    inputs = [by_name[name] for name in names]
    inputs = [*inputs[0]] if function.is_of_lists else inputs
    trace = trace_of(inputs)
    label, count = function.name, function.data_count(len(inputs))
    with refusing.named_errors(label):
        arrays = [trace.array(x) for x in inputs[:count]]
        indices = [
            _mask(trace, label, parameter.name, x)
            if parameter.kind == "Mask"
            else _indices(trace, function, parameter.name, x)
            for parameter, x in zip((p for p in function.arrays if p.is_index), inputs[count:], strict=True)
        ]
    fields = [f"{function.arrays[0].name}[{k}]" for k in range(count)] if function.is_of_lists else names
    own_arguments.check_data(label, fields[:count], arrays)
    return trace, arrays, indices


def _indices(trace: Trace, function: Function, field: str, value: Any) -> ValueView:
    """Return the view of indices, traced or constant."""
    indices: Any = value if isinstance(value, TracedArray) else constant_array(value)
    if indices is not value and not indices.size and not isinstance(value, np.ndarray):
        indices = indices.astype(np.int64)
    dtype = indices.element if isinstance(indices, TracedArray) else indices.dtype
    if dtype.kind not in "iu":
        raise own_arguments.index_dtype_error(function.name, field, dtype)
    if isinstance(indices, TracedArray):
        check_dtype_of(indices)
        return ValueView(trace.array(indices).value, dtype.name)
    return _ConstantIndices(
        trace, indices.astype(np.uint64 if dtype.kind == "u" and indices.itemsize == 8 else np.int64)
    )


def _mask(trace: Trace, label: str, field: str, value: Any) -> ValueView:
    mask = trace.array(value)
    own_arguments.check_mask(label, field, mask.element)
    return ValueView(mask.value, mask.element.name)


def compress(condition: Any, x: TracedArray, axis: int | None = None) -> TracedArray:
    """Select elements, or slices along an axis, by a constant condition.

    Raises:
        FuseError: the condition is traced.
    """
    flags = constant_array(condition) != 0
    if axis is None and flags.shape != x.shape:
        x = axes.ravel(x)
    first = 0 if axis is None else axis_of("compress", x.ndim, axis)
    return indexed(x, (slice(None),) * first + (flags,))


def nonzero_coordinates(x: TracedArray) -> NoReturn:
    """Refuse: the result's shape depends on elements.

    Raises:
        FuseError: always.

    Examples:
        >>> dml.nonzero_coordinates(np.array([[0, 5], [7, 0]]))
        array([[0, 1],
               [1, 0]])
    """
    raise refusal("nonzero_coordinates", "shapes would depend on elements: call it outside and pass the result")


def copy(x: TracedArray) -> TracedArray:
    """Return x: the results of a fused function are copies anyway."""
    array = x.trace.array(x)
    return _own(array.new_array(array.value))


def _own(x: TracedArray) -> TracedArray:
    """Return a result as an array that the function may assign into."""
    return x if x.trace.assignable_arrays is None else x.trace.assignable_arrays.as_assignable(x)
