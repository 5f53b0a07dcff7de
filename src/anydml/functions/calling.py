"""One path for every function and engine: a call's plan is looked up by its layouts, or made; then bytes move.

All that depends on shapes, strides, dtypes and numbers alone is decided, and refused, when the plan is made. What is
left for each call: memory for the results, or the checks of `out`'s addresses; and the work.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from functools import partial
from itertools import repeat
from typing import Any

import numpy as np

from anydml.arrays import ArrayAdapter, target_array
from anydml.binding import check_overlap, check_writeable
from anydml.engines import array_engine
from anydml.engines.protocol import ArrayEngine
from anydml.functions.operations import Operation
from anydml.functions.planning import NUMBERS, out_names, planned, program_of
from anydml.functions.steps import PLANS, Asked, Plan
from anydml.memory.warm import CACHE
from anydml.tensor import Layout

Array = np.ndarray[Any, Any]
Sizes = tuple[int, ...]

empty = np.empty


def call(
    name: str,
    operation: Operation,
    inputs: Sequence[Array],
    arguments: tuple[Any, ...],
    out: Sequence[Any] | None,
    adapter: ArrayAdapter | None,
    engine: ArrayEngine | None = None,
    asked: Asked | None = None,
) -> list[Any]:
    """Run a function.

    Args:
        name: what errors call it.
        operation: what it does.
        inputs: arrays as the engines see them.
        arguments: the others, hashable, each of Python's own types.
        out: the caller's arrays to write to; None for new ones.
        adapter: whose the inputs are, None for NumPy's.
        engine: where it runs; by default where the inputs lie.
        asked: by what the caller looks for a step before it calls this (see `steps`); None where it does not.

    Returns:
        The caller's `out`, or new arrays of the adapter's library.

    Raises:
        DescError: the arguments break a rule of the operation.
        BindingError: `out` does not fit, cannot be written, or overlaps; or the inputs lie in several places.
    """
    quick: Hashable = None
    if engine is None:
        # A few words of the key; whether the rest is the same is seen by the step itself.
        quick = operation, arguments, inputs[0].shape, out is None
        plan = PLANS.quick.get(quick)
        if plan is not None and adapter is not None:
            if (taken := _taken(name, operation, plan, inputs, out, adapter)) is not None:
                if asked is not None:
                    asked.keep(plan)
                return taken
        elif plan is not None:
            if out is None:
                dtype = plan.dtype
                if plan.sizes is None:
                    results: list[Any] = [empty(shape, dtype) for shape in plan.inferred.shapes]
                else:
                    results = [*map(CACHE.array, plan.inferred.shapes, repeat(dtype), plan.sizes)]
            else:
                results = [*out]
            given = (*inputs, *results)
            if not plan.start(id(given)):
                if asked is not None:
                    asked.keep(plan)
                return results
            # The long way makes its own.
            del results, given
    return _call(name, operation, inputs, arguments, out, adapter, engine, quick, asked)


def _taken(
    name: str,
    operation: Operation,
    plan: Plan,
    inputs: Sequence[Array],
    out: Sequence[Any] | None,
    adapter: ArrayAdapter,
) -> list[Any] | None:
    """What a call on another library's arrays gives in one step, or None where that does not fit."""
    engine = array_engine(name, inputs)
    if engine.launches is None or plan.start is None:
        return None
    if out is None:
        given, operands = engine.results(name, inputs[0], plan.inferred.shapes, plan.dtype, adapter)
    else:
        operands = _targets(name, out_names(operation, out), out, adapter, engine)
    arrays = (*inputs, *operands)
    if plan.start(id(arrays)):
        return None
    if out is None:
        return [engine.give(adapter, result) for result in given]
    _say_written(out, adapter)
    return [*out]


def _say_written(out: Sequence[Any], adapter: ArrayAdapter) -> None:
    kind = type(adapter)
    for each in out:
        kind(each).written()


def _call(
    name: str,
    operation: Operation,
    inputs: Sequence[Array],
    arguments: tuple[Any, ...],
    out: Sequence[Any] | None,
    adapter: ArrayAdapter | None,
    engine: ArrayEngine | None,
    quick: Hashable,
    asked: Asked | None,
) -> list[Any]:
    """The long way, which says what is wrong; `quick` and `asked` are where to keep the short one."""
    if engine is None:
        engine = array_engine(name, inputs)
    if out is not None:
        fields = out_names(operation, out)
        targets = _targets(name, fields, out, adapter, engine)
    else:
        targets = None
    layouts = tuple([(array.shape, array.strides, array.dtype) for array in inputs])
    places = None if targets is None else tuple([(array.shape, array.strides, array.dtype) for array in targets])
    # An unaligned array is copied as a whole, too.
    key = engine.key, operation, arguments, layouts, places, operation.copies_all and inputs[0].flags.aligned
    plan = PLANS.get(key)
    if plan is None:
        plan = planned(name, operation, inputs, arguments, targets, engine)
        PLANS.keep(key, plan)
    elif quick is not None and plan.start is None:
        _hasten(name, operation, plan, key, inputs, targets, engine)
    elif quick is not None:
        PLANS.quick[quick] = plan
        # Where calls take turns with others of these shapes, no short way would ever come to keep it.
        if asked is not None:
            asked.keep(plan)
    if targets is None:
        return _new(name, operation, plan, inputs, adapter, engine)
    assert out is not None
    for field, target in zip(fields, targets, strict=True):
        check_writeable(name, field, target)
    names = operation.input_names or [f"arrays[{i}]" for i in range(len(inputs))]
    check_overlap(name, [*names, *fields], [*inputs, *targets], first_output=len(inputs))
    _run(operation, plan, inputs, targets)
    if adapter is not None:
        _say_written(out, adapter)
    return [*out]


def _hasten(
    name: str,
    operation: Operation,
    plan: Plan,
    key: Hashable,
    inputs: Sequence[Array],
    targets: Sequence[Array] | None,
    engine: ArrayEngine,
) -> None:
    """Ask for a step for a plan that is called often."""
    plan.calls += 1
    if plan.calls != plan.wait:
        return
    launches = engine.launches
    if launches is None or not (often := launches.often(plan.calls)):
        return
    if plan.calls < often:
        plan.wait = often
        return
    layouts = [(array.shape, array.strides, array.dtype) for array in inputs]
    if targets is None:
        packed = [Layout.packed(shape, plan.dtype.itemsize) for shape in plan.inferred.shapes]
        layouts += [(layout.sizes, layout.strides, plan.dtype) for layout in packed]
    else:
        layouts += [(array.shape, array.strides, array.dtype) for array in targets]
    # Layouts, not arrays: what waits for the compiler keeps nobody's memory.
    program = program_of(name, operation, inputs, targets, plan.inferred, plan.dtype)
    launches.ask(program, layouts, len(inputs), partial(plan.ready, key))


def _new(
    name: str,
    operation: Operation,
    plan: Plan,
    inputs: Sequence[Array],
    adapter: ArrayAdapter | None,
    engine: ArrayEngine,
) -> list[Any]:
    if plan.compiled is None and adapter is None and not plan.is_empty:
        if plan.inferred.views:
            (x,) = inputs
            return [x[view].copy() for view in plan.inferred.views]
        if operation.new is not None and plan.dtype.kind in NUMBERS:
            return operation.new(inputs, plan.inferred)
    given, operands = engine.results(name, inputs[0], plan.inferred.shapes, plan.dtype, adapter)
    _run(operation, plan, inputs, operands)
    return given if adapter is None else [engine.give(adapter, result) for result in given]


def _run(operation: Operation, plan: Plan, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
    if plan.compiled is not None:
        plan.compiled.run((*inputs, *outputs))
    elif not plan.is_empty:
        operation.by_numpy(inputs, plan.inferred, outputs)


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
