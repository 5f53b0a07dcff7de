"""The rules of a layout, applied to composed tensors."""

from __future__ import annotations

import difflib
import math
from collections.abc import Callable, Mapping, Sequence
from itertools import islice

from anydml.errors import ModelError
from anydml.files.location import Location, show
from anydml.moves.composer import Composer
from anydml.moves.value import Value
from anydml.stores.checkpoints.composed import (
    ComposedTensor,
    ComposedTensors,
    add_tensor,
    pick_indices,
    slice_value,
    together,
)
from anydml.stores.checkpoints.layout_rules import Action, Rule
from anydml.stores.checkpoints.patterns import Pattern
from anydml.stores.formats.block_types import elements_of

MAX_SEARCHED_NAMES = 200
"""Maximum number of tensors, and of characters of their names, in the search for a similar name."""


def apply_rule(composer: Composer, tensors: ComposedTensors, rule: Rule) -> ComposedTensors:
    """Return the tensors after a rule.

    Raises:
        ModelError: the rule matches no tensor, does not fit one, or gives a name that another tensor has.
    """
    try:
        if rule.action in (Action.JOIN, Action.STACK):
            return (_join if rule.action is Action.JOIN else _stack)(composer, tensors, rule)
        return _change_each(composer, tensors, rule)
    except ModelError as error:
        if error.field is not None:
            raise
        raise rule.location.error(str(error)) from None


def _change_each(composer: Composer, tensors: ComposedTensors, rule: Rule) -> ComposedTensors:
    """Return the tensors after a rule that changes each tensor by itself."""
    composed: ComposedTensors = {}
    values_by_kind: dict[int, list[Value]] = {}
    names = [Pattern(text) for text in rule.value] if rule.action is Action.SPLIT else []
    names += [Pattern(rule.value)] if rule.action in (Action.RENAME, Action.UNSTACK) else []
    match = rule.match.match
    for name, tensor in tensors.items():
        star_texts = match(name)
        if star_texts is None:
            add_tensor(composed, name, tensor, rule.location)
            continue
        values = values_by_kind.get(id(tensor.value))
        if values is None:
            values = values_by_kind[id(tensor.value)] = _change(composer, name, tensor, rule)
        if rule.action is Action.UNSTACK:
            number_name = _number_name(rule, rule.match.names, names[0].names)
            new_names = [names[0].fill_stars({**star_texts, number_name: str(k)}) for k in range(len(values))]
        else:
            new_names = [pattern.fill_stars(star_texts) for pattern in names] or [name] * len(values)
        for new_name, value in zip(new_names, values, strict=True):
            add_tensor(composed, new_name, tensor.with_value(value), rule.location)
    if not values_by_kind:
        raise _for_none(rule, tensors)
    return composed


def _for_none(rule: Rule, tensors: ComposedTensors) -> ModelError:
    """Return the error of a rule that matches no tensor, with a suggestion."""
    text = rule.match.text
    message = f"matches no tensor: no tensor has a name like {show(text)} after the rules before it"
    # Bounded, because a file may have a million names of a million characters.
    candidates = [name for name in islice(tensors, MAX_SEARCHED_NAMES) if len(name) <= MAX_SEARCHED_NAMES]
    similar = next((name for name in candidates if rule.match.is_nearly(name)), None)
    if similar is not None:
        message += f"; {show(similar)} is not, because {{…}} stands for one part of a name, without dots, and * for any"
    elif close_names := difflib.get_close_matches(text[:MAX_SEARCHED_NAMES], candidates, 1, 0.3):
        message += f"; the nearest name is {show(close_names[0])}"
    return rule.location.error(message)


def _change(composer: Composer, name: str, tensor: ComposedTensor, rule: Rule) -> list[Value]:
    """Return the results of a rule for a tensor; cached for other tensors with the same value."""
    location, fields, value = rule.location / rule.action, rule.fields, tensor.value
    if elements_of(tensor.dtype) > 1 and _cuts_blocks(name, tensor, rule):
        raise location.error(
            f"changes the last axis of {show(name)}, whose elements lie there in blocks of {elements_of(tensor.dtype)}"
        )
    if rule.action in CHANGES:
        return [CHANGES[rule.action](composer, name, tensor, rule)]
    if rule.action is Action.SPLIT:
        axis, count = _axis(fields["axis"], tensor, name, location), len(rule.value)
        sizes = fields.get("sizes")
        if not sizes and tensor.shape[axis] % count:
            raise location.error(
                f"cuts axis {axis} of {show(name)}, of shape {list(tensor.shape)}, into {count} equal parts, "
                f"but {tensor.shape[axis]} elements do not divide into these: give sizes"
            )
        sizes = sizes or [tensor.shape[axis] // count] * count
        if len(sizes) != count or min(sizes) < 0 or sum(sizes) != tensor.shape[axis]:
            problem = f"which add up to {sum(sizes)}, not {tensor.shape[axis]}"
            problem = "one of which is negative" if min(sizes) < 0 else problem
            problem = f"for {count} names" if len(sizes) != count else problem
            whole = f"{show(name)} of shape {list(tensor.shape)}"
            raise location.error(f"cuts {whole} along axis {axis} into sizes {sizes[:8]}, {problem}")
        return [slice_value(composer, value, axis, sum(sizes[:k]), sizes[k]) for k in range(count)]
    if rule.action is Action.UNSTACK:
        _axis(0, tensor, name, location)
        parts = (slice_value(composer, value, 0, k, 1) for k in range(tensor.shape[0]))
        return [composer.reshape(part, tensor.shape[1:]) for part in parts]
    return [] if rule.action is Action.DROP else [value]


def _cuts_blocks(name: str, tensor: ComposedTensor, rule: Rule) -> bool:
    """Whether a rule may change the last axis."""
    rank = len(tensor.shape)
    if rule.action is Action.PERMUTE:
        return len(rule.value) != rank or rule.value[-1] != rank - 1
    if rule.action in (Action.UNFLATTEN, Action.SLICE, Action.GATHER, Action.SPLIT):
        axis = rule.fields["axis"] if rule.action is Action.SPLIT else rule.value
        return _axis(axis, tensor, name, rule.location / rule.action) == rank - 1
    return rule.action is Action.FLATTEN or (rule.action is Action.UNSTACK and rank == 1)


def _axis(axis: int, tensor: ComposedTensor, name: str, location: Location) -> int:
    rank = len(tensor.shape)
    if not -rank <= axis < rank:
        raise location.error(
            f"is axis {axis}, but {show(name)} has shape {list(tensor.shape)}: axes are {-rank} to {rank - 1}"
        )
    return axis % rank


def _slice_of(composer: Composer, name: str, tensor: ComposedTensor, rule: Rule) -> Value:
    axis = _axis(rule.value, tensor, name, rule.location / "slice")
    step = rule.fields.get("step", 1)
    if not step:
        raise (rule.location / "step").error("is 0: a step must be 1 or more, or negative")
    covered = range(tensor.shape[axis])[slice(rule.fields.get("start"), rule.fields.get("stop"), step)]
    if not covered and tensor.shape[axis]:
        raise (rule.location / "slice").error(
            f"selects no element of axis {axis} of {show(name)}, whose elements are 0 to {tensor.shape[axis] - 1}"
        )
    return slice_value(
        composer, tensor.value, axis, covered[0] if covered else 0, len(covered), covered.step if covered else 1
    )


def _permute(composer: Composer, name: str, tensor: ComposedTensor, rule: Rule) -> Value:
    if sorted(rule.value) != [*range(len(tensor.shape))]:
        raise (rule.location / "permute").error(
            f"is {rule.value[:8]}, but {show(name)} has shape {list(tensor.shape)}: name each axis once"
        )
    return tensor.value.permute(rule.value)


def _unflatten(composer: Composer, name: str, tensor: ComposedTensor, rule: Rule) -> Value:
    axis = _axis(rule.value, tensor, name, rule.location / "unflatten")
    sizes, axis_size = [*rule.fields["sizes"]], tensor.shape[axis]
    known_count = math.prod(size for size in sizes if size != -1)
    if sizes.count(-1) == 1 and known_count > 0 and axis_size % known_count == 0:
        sizes[sizes.index(-1)] = axis_size // known_count
    if not sizes or min(sizes) < 0 or math.prod(sizes) != axis_size:
        raise (rule.location / "sizes").error(
            f"are {rule.fields['sizes'][:8]}, but axis {axis} of {show(name)} has size {axis_size}: their product must "
            "be this size, and one of them may be -1"
        )
    return composer.reshape(tensor.value, (*tensor.shape[:axis], *sizes, *tensor.shape[axis + 1 :]))


def _flatten(composer: Composer, name: str, tensor: ComposedTensor, rule: Rule) -> Value:
    location = rule.location / "flatten"
    if len(rule.value) != 2:
        raise location.error(f"must be a first and a last axis, not {rule.value[:8]}")
    first, last = (_axis(axis, tensor, name, location) for axis in rule.value)
    if first > last:
        raise location.error(f"is {rule.value}, whose last axis comes before the first")
    merged = math.prod(tensor.shape[first : last + 1])
    return composer.reshape(tensor.value, (*tensor.shape[:first], merged, *tensor.shape[last + 1 :]))


def _pick(composer: Composer, name: str, tensor: ComposedTensor, rule: Rule) -> Value:
    axis = _axis(rule.value, tensor, name, rule.location / rule.action)
    size, indices = tensor.shape[axis], rule.fields["indices"]
    for index in indices:
        if not -size <= index < size:
            raise (rule.location / "indices").error(f"have {index}, but axis {axis} of {show(name)} has size {size}")
    if not indices:
        return slice_value(composer, tensor.value, axis, 0, 0)
    return pick_indices(
        composer, f"the indices of {show(name)}", tensor.value, axis, [index % size for index in indices]
    )


CHANGES: Mapping[Action, Callable[[Composer, str, ComposedTensor, Rule], Value]] = {
    Action.SLICE: _slice_of,
    Action.PERMUTE: _permute,
    Action.UNFLATTEN: _unflatten,
    Action.FLATTEN: _flatten,
    Action.GATHER: _pick,
}
"""Actions that make one tensor of one."""


def _join(composer: Composer, tensors: ComposedTensors, rule: Rule) -> ComposedTensors:
    names = [Pattern(text) for text in rule.value]
    groups: dict[str, list[str]] = {}
    for name in tensors:
        parts = rule.match.match(name)
        if parts is not None:
            new = Pattern(rule.fields["to"]).fill_stars(parts)
            if new in groups:
                raise rule.location.error(
                    f"makes a second tensor of the name {show(new)}: give it another name, or drop one"
                )
            groups[new] = [pattern.fill_stars(parts) for pattern in names]
    return _merge(composer, tensors, rule, groups, composer.join)


def _stack(composer: Composer, tensors: ComposedTensors, rule: Rule) -> ComposedTensors:
    """Stack tensors whose names differ in a number, in the numbers' order, along a new first axis."""
    to = Pattern(rule.fields["to"])
    number_name = _number_name(rule, to.names, rule.match.names)
    groups: dict[str, list[str]] = {}
    order: dict[str, int] = {}
    for name in tensors:
        parts = rule.match.match(name)
        if parts is None:
            continue
        number = parts[number_name]
        if not (number.isascii() and number.isdigit() and len(number) < 10):
            raise rule.location.error(
                f"stacks by {{{number_name}}}, which must be a number, but is {show(number)} in {show(name)}"
            )
        order[name] = int(number)
        groups.setdefault(to.fill_stars(parts), []).append(name)
    for new, old_names in groups.items():
        old_names.sort(key=lambda name: order[name])
        if [order[name] for name in old_names] != [*range(len(old_names))]:
            raise rule.location.error(
                f"finds {len(old_names)} tensors for {show(new)}, whose numbers must be 0 to {len(old_names) - 1}"
            )

    def stacked(values: Sequence[Value], axis: int) -> Value:
        return composer.join([composer.reshape(value, (1, *value.sizes)) for value in values], 0)

    return _merge(composer, tensors, rule, groups, stacked)


def _number_name(rule: Rule, fewer: Sequence[str], more: Sequence[str]) -> str:
    """Return the number in a name that stacking removes and unstacking adds."""
    extra_names = [name for name in more if name not in fewer]
    if len(extra_names) != 1:
        raise rule.location.error(
            f"must have exactly one part in {{}} that numbers the tensors, but has {len(extra_names)}"
        )
    return extra_names[0]


def _merge(
    composer: Composer,
    tensors: ComposedTensors,
    rule: Rule,
    groups: Mapping[str, Sequence[str]],
    merge: Callable[[Sequence[Value], int], Value],
) -> ComposedTensors:
    """Merge groups of tensors; each result takes the place of its first tensor."""
    if not groups:
        raise _for_none(rule, tensors)
    first, merged_names = {}, set()
    values_by_sources: dict[tuple[int, ...], Value] = {}
    for new, group in groups.items():
        for name in group:
            if name not in tensors:
                raise rule.location.error(
                    f"needs {show(name)} for {show(new)}, but there is no such tensor after the rules before it"
                )
            if name in merged_names:
                raise rule.location.error(f"uses {show(name)} twice: name each tensor once")
            merged_names.add(name)
        members = [tensors[name] for name in group]
        key = tuple(id(member.value) for member in members)
        if key not in values_by_sources:
            values_by_sources[key] = merge(together(members)[0], _joined_axis(rule, group, members))
        sources = tuple(store for member in members for store in member.sources)
        first[group[0]] = new, ComposedTensor(values_by_sources[key], members[0].dtype, sources)
    merged_tensors: ComposedTensors = {}
    for name, tensor in tensors.items():
        if name in first:
            add_tensor(merged_tensors, *first[name], rule.location)
        elif name not in merged_names:
            add_tensor(merged_tensors, name, tensor, rule.location)
    return merged_tensors


def _joined_axis(rule: Rule, group: Sequence[str], members: Sequence[ComposedTensor]) -> int:
    """Return the axis along which tensors are joined; −1 if they are stacked.

    Raises:
        ModelError: the tensors do not fit each other.
    """
    axis = _axis(rule.fields["axis"], members[0], group[0], rule.location) if "axis" in rule.fields else -1
    for name, member in zip(group, members, strict=True):
        other_sizes = [
            [*shape[:axis], *shape[axis + 1 :]] if axis >= 0 else [*shape] for shape in (member.shape, members[0].shape)
        ]
        if other_sizes[0] != other_sizes[1] or member.dtype != members[0].dtype or not len(member.shape) > axis:
            raise rule.location.error(
                f"joins {show(group[0])}, {members[0].dtype} {list(members[0].shape)}, and {show(name)}, "
                f"{member.dtype} {list(member.shape)}"
            )
    return axis
