"""Smaller cases of WebNN: calls with fewer options and sizes, and simpler numbers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from anydml.errors import AnydmlError
from anydml.referee.cases import are_equal
from anydml.referee.nodes import Array
from anydml.referee.operators import OPERATORS
from anydml.referee.smaller_nodes import as_text, cuts
from anydml.referee.webnn.calls_to_nodes import call_in, call_of
from anydml.referee.webnn.cases import WebnnCase, as_wpt_test, valid_case, write_webnn
from anydml.referee.webnn.operators import Call
from anydml.referee.webnn.run_graphs import run
from anydml.referee.webnn.steps import RULES
from anydml.referee.webnn.test_files import StoredWebnn


def case_of(stored: StoredWebnn) -> WebnnCase:
    """Return the case of a test."""
    call = call_in(stored.test)
    inputs = stored.test["graph"]["inputs"].values()
    constant = frozenset(k for k, array in enumerate(inputs) if array.get("constant"))
    return valid_case(stored.name, stored.operator, call, constant)


def write_alone(case: WebnnCase, folder: Path) -> Path:
    """Write a case to a file in a folder of its own; return the folder."""
    target = folder / case.name.replace(" ", "_")
    target.mkdir(parents=True)
    write_webnn([case], target)
    return target


def lines_of(case: WebnnCase) -> Iterator[str]:
    """Yield a case as lines to paste."""
    call = case.call
    yield f"{case.operator}, arguments {dict(call.arguments) or 'none'}, options {dict(call.options) or 'none'}"
    for name, input_number in call.tensors.items():
        origin = "constant" if input_number in case.constant else "input"
        yield f"{name} ({origin}): {as_text(call.node.array(input_number))}"


def smaller_cases(case: WebnnCase) -> Iterator[WebnnCase | None]:
    """Yield cases that are a little smaller than one; None for a call that is not valid."""
    if case.constant:
        yield _valid(case, case.call, frozenset())
    call = case.call
    arrays = {name: call.node.array(input_number) for name, input_number in call.tensors.items()}
    for parts in _smaller_parts(arrays, call.arguments, call.options):
        try:
            changed = call_of(case.operator, *parts)
            yield _valid(case, changed, case.constant & {*changed.tensors.values()})
        # A call that is not valid has no node, or no results.
        except (AnydmlError, ValueError, IndexError, TypeError, ZeroDivisionError, AssertionError):
            yield None


def _valid(case: WebnnCase, call: Call, constant: frozenset[int]) -> WebnnCase | None:
    """Return the case of a call if rules allow it, indices are in range and written once, and anydml agrees."""
    if not all(rule.holds(call) for rule in RULES[case.operator]):
        return None
    if not OPERATORS[call.node.operator].is_case(call.node):
        return None
    smaller = valid_case(case.name, case.operator, call, constant)
    if any(not tensor.size for tensor in (*smaller.outputs, *(call.node.array(k) for k in call.tensors.values()))):
        return None
    outputs = run(as_wpt_test(smaller)["graph"])
    return smaller if all(map(are_equal, outputs, smaller.outputs)) else None


Parts = tuple[dict[str, Array], Mapping[str, Any], Mapping[str, Any]]


def _smaller_parts(
    arrays: dict[str, Array], arguments: Mapping[str, Any], options: Mapping[str, Any]
) -> Iterator[Parts]:
    for name in options:
        yield arrays, arguments, {key: value for key, value in options.items() if key != name}
    if len(arrays) > 2 and "inputs[1]" in arrays:
        for name in arrays:
            remaining = [value for key, value in arrays.items() if key != name]
            yield {f"inputs[{k}]": value for k, value in enumerate(remaining)}, arguments, options
    for cut in cuts([*arrays.values()]):
        parts = {name: value for name, value in zip(arrays, cut.arrays, strict=True) if value is not None}
        yield from _with_lists(parts, arguments, options, cut.axis, cut.old, cut.new)
    for of_call, fields in ((True, arguments), (False, options)):
        for name, value in fields.items():
            for number in _simpler(value):
                changed = {**fields, name: number}
                yield (arrays, changed, options) if of_call else (arrays, arguments, changed)
    yield from _simplify_parts(arrays, arguments, options)


def _with_lists(
    arrays: dict[str, Array], arguments: Mapping[str, Any], options: Mapping[str, Any], axis: int, old: int,
    new: int | None,
) -> Iterator[Parts]:  # fmt: skip
    """Yield calls with shorter tensors. Lists with an item for the axis are kept, made shorter, or get the new size."""
    first = next(iter(arrays.values()))

    def adapted(fields: Mapping[str, Any], how: int) -> dict[str, Any]:
        lists = {}
        for name, value in fields.items():
            if name == "newShape" and how == 1:
                lists[name] = [first.size]
            elif name == "splits" and how == 1:
                lists[name] = [first.shape[min(axis, first.ndim - 1)] if first.ndim else 1]
            elif isinstance(value, list) and axis < len(value):
                lists[name] = _list(name, value, axis, old, new, how)
            elif name == "axis" and new is None and value > axis:
                lists[name] = value - 1
            else:
                lists[name] = value
        return lists

    for how in range(3):
        yield arrays, adapted(arguments, how), adapted(options, how)


def _list(name: str, value: list[Any], axis: int, old: int, new: int | None, how: int) -> list[Any]:
    if new is None and name in ("axes", "permutation"):
        return [item - (item > axis) for item in value if item != axis]
    if new is None:
        return [*value[:axis], *value[axis + 1 :]]
    if how == 0 or name in ("axes", "permutation"):
        return value
    number = min(value[axis], new if how == 1 or value[axis] == old else max(new - 1, 0))
    return [*value[:axis], number, *value[axis + 1 :]]


def _simpler(value: Any) -> Iterator[Any]:
    """Yield numbers nearer to 0, and shorter lists."""
    if isinstance(value, bool | str):
        return
    if isinstance(value, list):
        for k, item in enumerate(value):
            yield from ([*value[:k], number, *value[k + 1 :]] for number in _simpler(item))
            if len(value) > 1:
                yield [*value[:k], *value[k + 1 :]]
        return
    yield from (number for number in dict.fromkeys((0, 1, int(value) // 2)) if abs(number) < abs(value))


def _simplify_parts(
    arrays: dict[str, Array], arguments: Mapping[str, Any], options: Mapping[str, Any]
) -> Iterator[Parts]:
    """Yield calls with indices set to 0, and with elements replaced by 1, 2, 3 … in FLOAT32."""
    for name, value in arrays.items():
        if name in ("indices", "condition") and value.any():
            for at in np.argwhere(value != 0):
                changed = value.copy()
                changed[(*at,)] = 0
                yield {**arrays, name: changed}, arguments, options
    first = arrays.get("trueValue", next(iter(arrays.values())))
    if first.dtype != np.float32:
        same_type = [name for name, value in arrays.items() if value.dtype == first.dtype and name != "indices"]
        counted = {
            name: np.arange(1, arrays[name].size + 1, dtype=np.float32).reshape(arrays[name].shape)
            for name in same_type
        }
        yield {**arrays, **counted}, arguments, options
