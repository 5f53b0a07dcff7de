"""Calls of functions on arrays, on every engine: a plan is looked up by the arrays' layouts, or made, and then run.

Decisions and errors that depend on shapes, strides, dtypes and numbers alone are part of making the plan. Each call
allocates the results, or checks the addresses of `out`, and moves the elements.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from anydml.arrays import ArrayAdapter, target_array
from anydml.binding import check_overlap, check_writeable
from anydml.engines import array_engine
from anydml.engines.protocol import ArrayEngine
from anydml.functions.lowering import by_numpy
from anydml.functions.planning import PLANS, CallPlan, make_plan, out_names
from anydml.memory.host import address_of
from anydml.operators.function import Function

Array = np.ndarray[Any, Any]
Sizes = tuple[int, ...]


def call(
    name: str,
    function: Function,
    inputs: Sequence[Array],
    arguments: tuple[Any, ...],
    out: Sequence[Any] | None,
    adapter: ArrayAdapter | None,
    engine: ArrayEngine | None = None,
) -> list[Any]:
    """Run a function.

    Args:
        name: the function's name, for errors.
        function: its rules.
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
    if engine is None:
        engine = array_engine(name, inputs)
    if out is not None:
        fields = out_names(function, out)
        targets = _targets(name, fields, out, adapter, engine)
    else:
        targets = None
    has_in_place = function.shortcuts.in_place is not None
    is_in_place = has_in_place and targets is not None and _is_same_array(inputs[0], targets[0])
    read = inputs[1:] if is_in_place else inputs
    layouts = tuple([(array.shape, array.strides, array.dtype) for array in inputs])
    places = None if targets is None else tuple([(array.shape, array.strides, array.dtype) for array in targets])
    key = engine.key, function, is_in_place, arguments, layouts, places
    plan = PLANS.get(key)
    if plan is None:
        plan = make_plan(name, function, inputs, arguments, targets, engine, is_in_place)
        PLANS.keep(key, plan)
    if targets is None:
        return _run_to_new(name, function, plan, inputs, adapter, engine)
    assert out is not None
    for field, target in zip(fields, targets, strict=True):
        check_writeable(name, field, target)
    names = function.input_names or [f"arrays[{i}]" for i in range(len(inputs))]
    check_overlap(name, [*names[-len(read) :], *fields], [*read, *targets], first_output=len(read))
    _run(name, function, plan, inputs, targets)
    if adapter is not None:
        kind = type(adapter)
        for each in out:
            kind(each).mark_written()
    return [*out]


def _is_same_array(x: Array, target: Array) -> bool:
    """Whether two arrays have the same elements at the same addresses."""
    layouts = [(each.shape, each.strides, each.dtype, address_of(each)) for each in (x, target)]
    return layouts[0] == layouts[1]


def _run_to_new(
    name: str,
    function: Function,
    plan: CallPlan,
    inputs: Sequence[Array],
    adapter: ArrayAdapter | None,
    engine: ArrayEngine,
) -> list[Any]:
    given, operands = engine.results(name, inputs[0], plan.inferred.shapes, plan.dtype, adapter)
    _run(name, function, plan, inputs, operands)
    return given if adapter is None else [engine.to_library(adapter, result) for result in given]


def _run(name: str, function: Function, plan: CallPlan, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
    if plan.compiled is not None:
        plan.compiled.run((*inputs, *outputs))
    elif not plan.is_empty:
        try:
            by_numpy(function, inputs, plan.inferred, outputs)
        except MemoryError:
            # NumPy's message would be about a temporary array.
            shapes = " and ".join([str(each.shape) for each in inputs])
            message = f"{name}: there is no memory to move {plan.dtype} elements of arrays of shapes {shapes}"
            raise MemoryError(message) from None


def _targets(
    name: str, fields: Sequence[str], out: Sequence[Any], adapter: ArrayAdapter | None, engine: ArrayEngine
) -> list[Array]:
    if adapter is None and all(type(each) is np.ndarray for each in out):
        return [*out]
    if adapter is None and not engine.is_numpys:
        return [engine.target(name, field, each) for field, each in zip(fields, out, strict=True)]
    return [
        engine.target(name, field, target_array(name, field, each, adapter))
        for field, each in zip(fields, out, strict=True)
    ]
