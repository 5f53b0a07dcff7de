"""The lines with which a derived function begins: the call as one step, where there is one for what was given."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from anydml.operators.function import ARRAY, ARRAYS, INDICES, MASK, Function

_STEPPED = {ARRAY, ARRAYS, INDICES, MASK, "Literal", "Ints", "int", "Ints | None", "int | None"}
_STEPPED |= {"int | Ints", "int | Ints | None", "Scalar"}
"""Kinds of parameters whose types and values say all."""


def items(names: Iterable[str]) -> str:
    """Names as items of a tuple."""
    return "".join(f"{name}, " for name in names)


def plain_names(function: Function) -> list[str]:
    """The arguments of a step that are no arrays."""
    return [each.name for each in function.parameters if not each.is_array]


def has_steps(function: Function) -> bool:
    """Whether a function's calls may be one step."""
    is_first_data = function.arrays[0].kind in (ARRAY, ARRAYS)
    return is_first_data and not function.lengths and all(each.kind in _STEPPED for each in function.parameters)


def taken(function: Function) -> tuple[list[str], list[str]]:
    """The parameters that a whole call takes, in its order, and those that must be left at their default."""
    return [*[each.name for each in function.arrays], *plain_names(function), "out"], []


def step_lines(function: Function, of_numpy: bool = True, is_whole: bool = False) -> Iterator[str]:
    """The call as one step, where there is one for what was given (see `steps`).

    Of other libraries' arrays alone unless `of_numpy`, and then what compiled code does wholly alone if `is_whole`.

    Results that a step refused go before the long way makes its own: both together would be twice the memory.
    """
    if not has_steps(function):
        return
    first = function.arrays[0]
    x, plain = first.name, plain_names(function)
    arrays = [each.name for each in function.arrays]
    if function.is_of_lists:
        of_own = [f"(type({x}) is list or type({x}) is tuple) and {x} and type({x}[0]) is ndarray"]
        of_guest = [f"(type({x}) is list or type({x}) is tuple) and {x} and type({x}[0]) in QUICK"]
        of_guest += [f"not QUICK[type({x}[0])].is_traced()"]
        kind, shapes, given = f"type({x}[0])", [f"{x}[0].shape, len({x})"], f"*{x}, "
    else:
        of_own = [f"type({name}) is ndarray" for name in arrays]
        of_guest = [f"type({x}) in QUICK and not QUICK[type({x})].is_traced()"]
        of_guest += [f"type({name}) in QUICK" for name in arrays if name != x]
        kind, shapes, given = f"type({x})", [f"{name}.shape" for name in arrays], items(arrays)
    given_out = ["(out is None or type(out) is list)"] if function.has_parts else []

    if of_numpy:
        # What traces Python, as PyTorch's compiler does, must not meet compiled code on the way of tensors.
        yield f"    if {of_own[0]}:"
        yield from _wholly([*arrays, *plain], "        ")
        yield from _bridged(function)
    yield "    asked = None"
    if of_numpy:
        yield f"    if {' and '.join([*of_own, *given_out])}:"
        yield from _found(function, shapes, plain)
    if of_numpy and function.has_parts:
        yield "            results = [make() for make in step.makes] if out is None else [*out]"
        yield f"            given = ({given}*results, {items(plain)})"
        yield "            if not step.start(id(given)):"
        yield "                return results"
        yield "            del results, given"
    elif of_numpy:
        yield "            result = step.make() if out is None else out"
        yield f"            given = ({given}result, {items(plain)})"
        yield "            if not step.start(id(given)):"
        yield "                return result"
        yield "            del result, given"
    yield f"    {'elif' if of_numpy else 'if'} {' and '.join([*of_guest, *given_out])}:"
    yield from _wholly([*arrays, *plain], "        ")
    if is_whole:
        return
    yield from _found(function, [kind, *shapes], plain)
    out = "out" if function.has_parts else "None if out is None else (out,)"
    yield f"            taken = step.take(({given}), ({items(plain)}), {out})"
    yield "            if taken is not None:"
    yield f"                return {'taken' if function.has_parts else 'taken[0]'}"


def _bridged(function: Function) -> Iterator[str]:
    """The call on NumPy's arrays over the memory of others, where that is the shortest way."""
    x, code = function.arrays[0].name, function.stub.__code__
    if function.is_of_lists:
        yield f"    if BRIDGES and out is None and type({x}) in (list, tuple) and {x} and type({x}[0]) in BRIDGES:"
        yield f"        bridge, like = BRIDGES[type({x}[0])], {x}[0]"
        yield f"        views = bridge.views({x})"
    else:
        yield f"    if type({x}) in BRIDGES and out is None:"
        yield f"        bridge, like = BRIDGES[type({x})], {x}"
        yield f"        views = bridge.views(({items([each.name for each in function.arrays])}))"
    yield "        if views is not None:"
    names = {each.name: f"views[{k}]" for k, each in enumerate(function.arrays)}
    if function.is_of_lists:
        names = {x: "views"}
    given = [
        f"{'' if k < code.co_argcount else f'{each.name}='}{names.get(each.name, each.name)}"
        for k, each in enumerate(function.parameters)
    ]
    yield f"            found = {function.name}({', '.join(given)})"
    found = "found" if function.has_parts else "[found]"
    yield f"            return bridge.give({found}, like){'' if function.has_parts else '[0]'}"


def _wholly(names: Sequence[str], indent: str) -> Iterator[str]:
    """The call in compiled code, where that finds it."""
    yield f"{indent}found = whole({items(names)}out)"
    yield f"{indent}if found is not None:"
    yield f"{indent}    return found"


def _found(function: Function, shapes: Sequence[str], plain: Sequence[str]) -> Iterator[str]:
    """The look for steps, and the loop over those found."""
    for parameter in function.parameters:
        if "Ints" in parameter.kind:
            yield f"        if type({parameter.name}) is list:"
            yield f"            {parameter.name} = tuple({parameter.name})"
    # Lists cannot be looked for, and nested tensors have no shape.
    yield "        try:"
    yield f"            asked = OPERATION, {', '.join([*shapes, *plain])}, out is None"
    yield "            quick = PLANS.steps.get(asked, ())"
    yield "        except (TypeError, RuntimeError):"
    yield "            asked, quick = None, ()"
    yield "        for step in quick:"
