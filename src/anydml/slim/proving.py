"""Whether two models read the same: for each input of a node that does not move, and for each output of the graph.

Pieces are compared where both models have them in their normal form. Otherwise every element gets a label, which says
where it comes from, and the labels are moved as the nodes say.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterator, Mapping, Sequence

import numpy as np

from anydml.errors import ModelError
from anydml.onnx.budget import Budget
from anydml.onnx.operators import run_node
from anydml.onnx.values import Array
from anydml.slim.fingerprints import of_array
from anydml.slim.followed import Followed
from anydml.slim.following import Following
from anydml.slim.parts import Part, Parts, parts_of, places

FEW = 1 << 20
"""Elements of a tensor up to which each is compared, where its parts differ."""

MOST_LABELS = 1 << 23
"""Elements that are compared one by one, in all."""

PLACES = 1 << 40
"""Labels of the elements of a source."""


def differing(before: Following, after: Following) -> Iterator[str]:
    """Names in the first graph for which other elements, or those of another value, are read in the second.

    Args:
        before: the graph as it was, followed for some sizes.
        after: the other graph, for the same sizes.
    """
    labels = _Labels()
    for old, new in dict.fromkeys(_pairs(before, after)):
        if not _same(before, old, after, new, labels):
            yield old


def _pairs(before: Following, after: Following) -> Iterator[tuple[str, str]]:
    """What the same node reads in both, and what is given out."""
    for op in before.graph.ops:
        if before.moves(op):
            continue
        other = after.graph.maker(next((name for name in op.outputs if name), ""))
        if other is None or other.kind != op.kind:
            # What nobody needs any more is gone.
            continue
        yield from zip(op.inputs, other.inputs, strict=True)
        yield from ((each, each) for each in op.captured if each in before.values)
    yield from ((name, name) for name in before.graph.outputs)


def _same(before: Following, old: str, after: Following, new: str, labels: _Labels) -> bool:
    if not old or not new:
        return old == new
    first, second = before.values.get(old), after.values.get(new)
    if first is None or second is None:
        return first is None and second is None and old == new
    if old == new and (first is second or (first.op is None and second.op is None)):
        return True
    if first.tensor is None or second.tensor is None or first.sizes != second.sizes:
        return False
    if first.tensor.array is not None and second.tensor.array is not None:
        return bool(np.array_equal(first.tensor.array, second.tensor.array))
    ours, theirs = _parts(before, old), _parts(after, new)
    if ours is not None and theirs is not None:
        named = _named(before, ours)
        if named is not None and named == _named(after, theirs):
            return True
        known = labels.constant(before, ours), labels.constant(after, theirs)
        if known[0] is not None and known[1] is not None:
            return known[0].tobytes() == known[1].tobytes()
    left, right = labels.of(before, old), labels.of(after, new)
    return left is not None and right is not None and np.array_equal(left, right)


def _parts(following: Following, name: str) -> Parts | None:
    value = following.values[name]
    if value.op is not None and not value.forms:
        return None
    return value.parts[0] if value.forms else parts_of(following.operand(name))


def _named(following: Following, parts: Sequence[Part]) -> list[tuple[str, Part]] | None:
    """Parts with the names of their sources; None where one of these is itself moved from others."""
    found = []
    for part in parts:
        name = following.names.get(part.source, "")
        if name and following.values[name].op is not None:
            return None
        found.append((name, part._replace(source=min(0, part.source))))
    return found


def _moved_sources(following: Following, parts: Parts) -> list[str]:
    """Names of those sources that are themselves moved from others."""
    names = {following.names[part.source]: None for part in parts if part.source >= 0}
    return [name for name in names if following.values[name].op is not None]


class _Labels:
    """Numbers for elements: the same where they come from one place, or are the same constant."""

    def __init__(self) -> None:
        self._numbers: dict[Hashable, int] = {}
        self._known: dict[str, Array] = {}
        self._left = MOST_LABELS

    def constant(self, following: Following, parts: Parts) -> Array | None:
        """The elements of a value that is one part of a constant; None where it is not."""
        name = following.names.get(parts[0].source, "") if len(parts) == 1 else ""
        if not name or not following.values[name].is_constant:
            return None
        array = np.ascontiguousarray(following.graph.constants.read(name)).reshape(-1)
        part = parts[0]
        if part.size > array.size or any(run.stride < 0 for run in part.runs):
            return None
        flat = array[part.offset :]
        sizes, strides = [run.size for run in part.runs], [run.stride * flat.itemsize for run in part.runs]
        # Runs are by falling steps, and the part is all there is.
        return np.ascontiguousarray(np.lib.stride_tricks.as_strided(flat, sizes, strides, writeable=False))

    def of(self, following: Following, name: str) -> Array | None:
        """The labels of a value's elements, in its shape; None where there are too many, or they cannot be moved."""
        found: dict[str, Array | None] = {}
        stack = [name]
        while stack:
            value, parts = following.values[stack[-1]], _parts(following, stack[-1])
            needed = value.data if parts is None else _moved_sources(following, parts)
            missing = [each for each in needed if each not in found]
            if missing:
                stack += missing
                continue
            name = stack.pop()
            is_possible = value.tensor is not None and value.tensor.size <= min(FEW, self._left)
            if not is_possible or any(found[each] is None for each in needed):
                found[name] = None
                continue
            self._left -= math.prod(value.sizes)
            labels = self._moved(following, value, found) if parts is None else self._put(following, parts, found)
            found[name] = None if labels is None else labels.reshape(value.sizes)
        return found[name]

    def _moved(self, following: Following, value: Followed, labels: Mapping[str, Array | None]) -> Array | None:
        """Labels moved by a node; None where that is not possible."""
        node = None if value.op is None else following.node(value.op)
        if node is None or node.operator in ("Pad", "CenterCropPad"):
            return None
        given = [labels[each] for each in value.data]
        for each in node.inputs[len(given) :]:
            tensor = following.values[each].tensor if each else None
            given.append(None if tensor is None else tensor.array)
        try:
            return np.asarray(run_node(node, given, Budget())[value.output])
        except ModelError:
            return None

    def _put(self, following: Following, parts: Parts, labels: Mapping[str, Array | None]) -> Array:
        """The labels of all parts."""
        found = np.full(sum(part.size for part in parts), -1, np.int64)
        for part in parts:
            to, there = places(part)
            name = following.names.get(part.source, "")
            moved = labels.get(name)
            if part.source < 0:
                found[to] = self._number(part.fill) * PLACES
            elif moved is not None:
                found[to] = moved.reshape(-1)[there]
            elif following.values[name].is_constant:
                found[to] = self._constants(following, name)[there]
            else:
                found[to] = self._number(name) * PLACES + there
        return found

    def _constants(self, following: Following, name: str) -> Array:
        """The labels of a constant's elements."""
        if name not in self._known:
            self._known[name] = of_array(following.graph.constants.read(name)).reshape(-1).view(np.int64)
        return self._known[name]

    def _number(self, key: Hashable) -> int:
        return self._numbers.setdefault(key, len(self._numbers))
