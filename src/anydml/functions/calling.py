"""One path for every function and engine: a call's plan is looked up by its layouts, or made; then bytes move.

All that depends on shapes, strides, dtypes and numbers alone is decided, and refused, when the plan is made. What is
left for each call: memory for the results, or the checks of `out`'s addresses; and the work.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from functools import lru_cache, partial
from itertools import repeat
from typing import Any

import numpy as np

from anydml.arrays import ArrayAdapter, target_array
from anydml.binding import check_overlap, check_strides, check_writeable
from anydml.engines import array_engine
from anydml.engines.protocol import ArrayEngine
from anydml.errors import BindingError
from anydml.functions.arguments import is_movable, joined_dtype
from anydml.functions.operations import Inferred, Operation, constant_operands
from anydml.functions.steps import PLANS, Plan, keep_step
from anydml.memory.warm import CACHE
from anydml.moves import Operand, Program
from anydml.tensor import Layout
from anydml.text import counted

Array = np.ndarray[Any, Any]
Sizes = tuple[int, ...]

FEW_BYTES = 4 << 10
"""Results of numbers up to here are made by NumPy at once: to bind a program would take longer than that."""

FEW_OPERANDS = 32
"""Inputs and results that programs are remembered for to have."""

_NUMBERS = "biufc"
"""NumPy's kinds of dtypes whose elements are numbers."""

empty = np.empty


OFTEN = 16
"""Calls of a plan after which it is asked whether they should become a single step."""


def call(
    name: str,
    operation: Operation,
    inputs: Sequence[Array],
    arguments: tuple[Any, ...],
    out: Sequence[Any] | None,
    adapter: ArrayAdapter | None,
    engine: ArrayEngine | None = None,
    asked: tuple[Hashable, ...] | None = None,
    plain: int = 0,
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
        plain: how many arguments, before the last word of `asked`, follow the arrays in such a step's tuple.

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
                    keep_step(asked, plan, plain)
                return results
            # The long way makes its own.
            del results, given
    return _call(name, operation, inputs, arguments, out, adapter, engine, quick)


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
        operands = _targets(name, _out_names(operation, out), out, adapter, engine)
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
) -> list[Any]:
    """The long way, which says what is wrong; `quick` is where to keep the short one."""
    if engine is None:
        engine = array_engine(name, inputs)
    if out is not None:
        fields = _out_names(operation, out)
        targets = _targets(name, fields, out, adapter, engine)
    else:
        targets = None
    layouts = tuple([(array.shape, array.strides, array.dtype) for array in inputs])
    places = None if targets is None else tuple([(array.shape, array.strides, array.dtype) for array in targets])
    # An unaligned array is copied as a whole, too.
    key = engine.key, operation, arguments, layouts, places, operation.copies_all and inputs[0].flags.aligned
    plan = PLANS.get(key)
    if plan is None:
        plan = _plan(name, operation, inputs, arguments, targets, engine)
        PLANS.keep(key, plan)
    elif quick is not None:
        _hasten(name, operation, plan, key, quick, inputs, targets, engine)
    if targets is None:
        return _new(name, operation, plan, inputs, adapter, engine)
    assert out is not None
    for field, target in zip(fields, targets, strict=True):
        check_writeable(name, field, target)
    names = operation.input_names or [f"arrays[{i}]" for i in range(len(inputs))]
    check_overlap(name, [*names, *fields], [*inputs, *targets], first_output=len(inputs))
    if plan.compiled is not None:
        plan.compiled.run((*inputs, *targets))
    elif not plan.is_empty:
        operation.by_numpy(inputs, plan.inferred, targets)
    if adapter is not None:
        _say_written(out, adapter)
    return [*out]


def _hasten(
    name: str,
    operation: Operation,
    plan: Plan,
    key: Hashable,
    quick: Hashable,
    inputs: Sequence[Array],
    targets: Sequence[Array] | None,
    engine: ArrayEngine,
) -> None:
    """Ask for a step for a plan that is called often; when it has come, keep it where it is found at once."""
    if plan.start is not None:
        PLANS.quick[quick] = plan
        return
    plan.calls += 1
    if plan.calls != plan.wait:
        return
    launches = engine.launches
    if launches is None or not (often := launches.often()):
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
    program = _program(name, operation, inputs, targets, plan.inferred, plan.dtype)
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
        if operation.new is not None and plan.dtype.kind in _NUMBERS:
            return operation.new(inputs, plan.inferred)
    given, operands = engine.results(name, inputs[0], plan.inferred.shapes, plan.dtype, adapter)
    if plan.compiled is not None:
        plan.compiled.run((*inputs, *operands))
    elif not plan.is_empty:
        operation.by_numpy(inputs, plan.inferred, operands)
    return given if adapter is None else [engine.give(adapter, result) for result in given]


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


def _out_names(operation: Operation, out: Sequence[Any] | None) -> list[str]:
    return [f"out[{i}]" for i in range(0 if out is None else len(out))] if operation.has_parts else ["out"]


def _plan(
    name: str,
    operation: Operation,
    inputs: Sequence[Array],
    arguments: tuple[Any, ...],
    targets: Sequence[Array] | None,
    engine: ArrayEngine,
) -> Plan:
    inferred = operation.infer(name, [array.shape for array in inputs], arguments)
    dtype = inputs[0].dtype
    is_joined = False
    if not operation.input_names and any(array.dtype != dtype for array in inputs):
        # Strings of several lengths, which NumPy pads.
        dtype, is_joined = joined_dtype(inputs) or dtype, True
    if targets is not None:
        _check_targets(name, _out_names(operation, targets), inferred.shapes, dtype, targets)
    written = sum(map(math.prod, inferred.shapes)) * dtype.itemsize
    if not written:
        return Plan(inferred, dtype, None, is_empty=True, wait=0)
    is_numpys_own = is_joined or not is_movable(dtype)
    wait = 0 if is_numpys_own or engine.launches is None else OFTEN
    if engine.is_numpys and (is_numpys_own or _is_few(operation, inputs, inferred, written)):
        return Plan(inferred, dtype, None, is_empty=False, wait=wait)
    program = _program(name, operation, inputs, targets, inferred, dtype)
    compiled = engine.compile_call(program, None if targets is not None else inferred.shapes, dtype.itemsize)
    return Plan(inferred, dtype, compiled, is_empty=False, wait=wait)


def _program(
    name: str,
    operation: Operation,
    inputs: Sequence[Array],
    targets: Sequence[Array] | None,
    inferred: Inferred,
    dtype: np.dtype[Any],
) -> Program:
    layouts = [Layout.of(array) for array in inputs]
    results = [Layout.of(array) for array in targets or ()]
    results = results or [Layout.packed(shape, dtype.itemsize) for shape in inferred.shapes]
    is_packed = all(array.flags.c_contiguous for array in (*inputs, *(targets or ())))
    moves = operation.lower(layouts, results, inferred.parameters, is_packed)
    make = _few_operands if len(inputs) + len(results) <= FEW_OPERANDS else _operands
    operands = make(operation.input_names, len(inputs), len(results))
    if operation.constants is not None:
        operands = (*operands, *constant_operands(operation.constants(layouts, results, inferred.parameters)))
    return Program(name, operands, moves)


def _operands(names: tuple[str, ...], inputs: int, results: int) -> tuple[Operand, ...]:
    """Operands by the names of inputs, or by their numbers where they have none."""
    fields = names or [f"arrays[{i}]" for i in range(inputs)]
    outputs = [Operand("output", f"result {k}") for k in range(results)]
    return (*[Operand("input", field) for field in fields], *outputs)


_few_operands = lru_cache(64)(_operands)


def _is_few(operation: Operation, inputs: Sequence[Array], inferred: Inferred, written: int) -> bool:
    """Whether the results are so few numbers that NumPy should make them."""
    first = inputs[0]
    if first.dtype.kind not in _NUMBERS or written > operation.few * FEW_BYTES:
        return False
    if not operation.copies_all:
        return True
    # Without dimensions it would be a scalar, which has no byte order.
    is_read_in_place = first.nbytes <= FEW_BYTES or (first.flags.c_contiguous and first.flags.aligned)
    return is_read_in_place and inferred.shapes[0] != ()


def _check_targets(
    name: str, fields: Sequence[str], shapes: Sequence[Sizes], dtype: np.dtype[Any], targets: Sequence[Array]
) -> None:
    if len(targets) != len(shapes):
        message = f"{name}: out has {counted(len(targets), 'array')} for {counted(len(shapes), 'part')}"
        raise BindingError(message, name, "out", "one array a part")
    for field, target, shape in zip(fields, targets, shapes, strict=True):
        if target.shape != shape or target.dtype != dtype:
            message = f"{name}: {field} is {target.dtype} {target.shape}, but the result is {dtype} {shape}"
            raise BindingError(message, name, field, "out has the result's shape and dtype")
        check_strides(name, field, target)
