"""Plans of calls of functions on arrays: looked up by the arrays' layouts, or made, and then run on an engine.

Decisions and errors that depend on shapes, strides, dtypes and numbers alone are part of making the plan. Each call
allocates the results, or checks the addresses of `out`, and moves the elements.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Hashable, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from anydml.arrays import ArrayAdapter, target_array
from anydml.binding import check_overlap, check_strides, check_writeable
from anydml.engines import array_engine
from anydml.engines.program_cache import ProgramCache
from anydml.engines.protocol import ArrayEngine, CompiledCall
from anydml.errors import BindingError, DescError
from anydml.functions.argument_conversion import check_count, is_movable, joined_dtype
from anydml.functions.function_lowering import lower_function, move_with_numpy
from anydml.infer import type_name
from anydml.memory.host import address_of
from anydml.operators.element import Element
from anydml.operators.function import Function, Inferred, Sizes
from anydml.tensor import Layout

Array = np.ndarray[Any, Any]

PLANS = ProgramCache()
"""Cached plans of the calls that compiled code does not handle."""


class CallPlan(NamedTuple):
    """The part of a call that all calls with the same layouts and arguments share.

    Attributes:
        inferred: parameters and shapes.
        dtype: dtype of the results.
        compiled: the compiled program; None if NumPy moves the elements, or there are none.
        is_empty: whether there are no elements to move.
    """

    inferred: Inferred
    dtype: np.dtype[Any]
    compiled: CompiledCall | None
    is_empty: bool

    @property
    def weight(self) -> int:
        """Approximate size in bytes."""
        if any(isinstance(parameter, Element) and not parameter.pattern for parameter in self.inferred.parameters):
            # The plan refers to a caller's object, which a cache would keep alive.
            return sys.maxsize
        return 1024 + 64 * len(self.inferred.shapes) + (self.compiled.weight if self.compiled else 0)


def call(
    name: str,
    function: Function,
    inputs: Sequence[Array],
    arguments: tuple[Any, ...],
    out: Sequence[Any] | None,
    adapter: ArrayAdapter | None,
    engine: ArrayEngine | None = None,
) -> list[Any]:
    """Call a function on arrays: find or make the plan for their layouts, and run it.

    Args:
        name: the function's name, for errors.
        function: the function, with its rules.
        inputs: arrays as the engines see them.
        arguments: the other arguments, hashable, of Python's own types.
        out: the caller's arrays to write to; None for new ones.
        adapter: the adapter of the inputs; None for NumPy arrays.
        engine: the engine to use; by default that of the inputs' memory.

    Returns:
        The caller's `out`, or new arrays of the adapter's library.

    Raises:
        DescError: the arguments break a rule of the function.
        BindingError: `out` does not fit, is read-only, or overlaps; or the inputs are on several devices.
        MemoryError: there is no memory for the results, or for NumPy's temporary arrays.
    """
    engine = engine or array_engine(name, inputs)
    fields = [f"out[{i}]" for i in range(0 if out is None else len(out))] if function.has_parts else ["out"]
    targets = None
    if out is not None:
        targets = [
            _target(name, field, result_array, adapter, engine) for field, result_array in zip(fields, out, strict=True)
        ]
    is_in_place = (
        function.may_update
        and targets is not None
        and _layout(inputs[0]) == _layout(targets[0])
        and address_of(inputs[0]) == address_of(targets[0])
    )
    places = None if targets is None else tuple(map(_layout, targets))
    key = engine.key, function, is_in_place, arguments, tuple(map(_layout, inputs)), places
    make = partial(_plan, name, function, inputs, arguments, targets, fields, engine, is_in_place)
    plan = PLANS.find(key, make)
    if targets is None:
        results, outputs = engine.results(name, inputs[0], plan.inferred.shapes, plan.dtype, adapter)
    else:
        for field, target in zip(fields, targets, strict=True):
            check_writeable(name, field, target)
        read = inputs[1:] if is_in_place else inputs
        names = function.input_names(len(inputs))[len(inputs) - len(read) :]
        check_overlap(name, [*names, *fields], [*read, *targets], first_output=len(read))
        outputs = targets
    if plan.compiled is not None:
        plan.compiled.run((*inputs, *outputs))
    elif not plan.is_empty:
        move_with_numpy(function, inputs, plan.inferred, outputs)
    if out is None:
        return results if adapter is None else [adapter.to_library(result) for result in results]
    if adapter is not None:
        for result_array in out:
            type(adapter)(result_array).mark_written()
    return [*out]


def _target(name: str, field: str, out: Any, adapter: ArrayAdapter | None, engine: ArrayEngine) -> Array:
    if adapter is None and type(out) is np.ndarray:
        return out
    uses_engine_array = adapter is None and not engine.is_numpys
    return engine.target(name, field, out if uses_engine_array else target_array(name, field, out, adapter))


def _layout(array: Array) -> Hashable:
    return array.shape, array.strides, array.dtype


def _plan(
    name: str,
    function: Function,
    inputs: Sequence[Array],
    arguments: tuple[Any, ...],
    targets: Sequence[Array] | None,
    fields: Sequence[str],
    engine: ArrayEngine,
    is_in_place: bool,
) -> CallPlan:
    """Make the plan of a call.

    Raises:
        DescError: the arguments break a rule of the function.
        BindingError: targets do not fit.
        MemoryError: the program's constants exceed the address space.
    """
    inferred = function.infer(name, [array.shape for array in inputs], arguments)
    dtype = joined_dtype(name, function.parameters[0].name, inputs) if function.is_of_lists else inputs[0].dtype
    if targets is not None:
        check_count(name, len(targets), len(inferred.shapes))
        for field, target, shape in zip(fields, targets, inferred.shapes, strict=True):
            if target.shape != shape or target.dtype != dtype:
                message = f"{name}: {field} is {target.dtype} {target.shape}, but the result is {dtype} {shape}"
                raise BindingError(message, name, field, "out must have the result's shape and dtype")
            check_strides(name, field, target)
    for shape in inferred.shapes:
        check_size(name, shape, dtype)
    if not sum(map(math.prod, inferred.shapes)) * dtype.itemsize:
        return CallPlan(inferred, dtype, None, is_empty=True)
    # NumPy pads strings of several lengths.
    is_joined = function.is_of_lists and any(array.dtype != dtype for array in inputs)
    if engine.is_numpys and (is_joined or not is_movable(dtype)):
        return CallPlan(inferred, dtype, None, is_empty=False)
    layouts = [Layout.of(array) for array in inputs]
    results = [Layout.of(array) for array in targets or ()]
    results = results or [Layout.packed(shape, dtype.itemsize) for shape in inferred.shapes]
    dtypes = [type_name(array.dtype) for array in inputs[function.data_count(len(inputs)) :]]
    program = lower_function(name, function, layouts, dtypes, results, inferred.parameters, is_in_place)
    if program.constant_bytes >= 1 << 63:
        raise MemoryError(f"{name}: its constants take {program.constant_bytes} bytes, 2⁶³ or more")
    compiled = engine.compile_program(program, None if targets is not None else inferred.shapes, dtype.itemsize)
    return CallPlan(inferred, dtype, compiled, is_empty=False)


def check_size(name: str, shape: Sizes, dtype: np.dtype[Any]) -> None:
    """Check that an array of this shape can exist.

    Raises:
        DescError: the array would have 2⁶³ or more bytes; dimensions of size 0 are not counted, as in NumPy.
    """
    if math.prod(filter(None, shape)) * max(dtype.itemsize, 1) >= 1 << 63:
        message = f"{name}: the result has shape {shape} and dtype {dtype}"
        raise DescError(message, name, None, "a result must have fewer than 2⁶³ bytes")
