"""Whether two models read the same: for each input of a node that does not move, and for each output of the graph.

Pieces are compared where both models have them in their normal form. Otherwise elements are, by fingerprints that say
where they come from. Two models that compute otherwise are compared by the fingerprints of their results.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from anydml.onnx.values import Array
from anydml.slim.fingerprints import Marks, NoFingerprintError, fingerprints, of_moved, of_source
from anydml.slim.following import Following
from anydml.slim.graph import Graph
from anydml.slim.parts import Part, Parts, parts_of

FEW = 1 << 20
"""Elements of a tensor up to which each is compared, where its parts differ."""

MOST_LABELS = 1 << 23
"""Elements that are compared one by one, in all."""

SIZES = (1, 2, 3, 5, 8)
"""What each named size is, from one comparison to the next; the second named size begins with the next, and so on."""


def sizes_of(names: Sequence[str]) -> list[Mapping[str, int]]:
    """Small sizes for names, several times."""
    if not names:
        return [{}]
    return [{name: SIZES[(k + n) % len(SIZES)] for n, name in enumerate(names)} for k in range(len(SIZES))]


def are_alike(before: Following, after: Following, names: Sequence[str]) -> bool:
    """Whether all fingerprints are the same; not where there are none, as with too many elements.

    Args:
        before: a graph as it was followed, constants of whose name are the same in both.
        after: the other one.
        names: of sizes; if there are any, both are followed for small sizes instead.
    """
    pairs = [(before, after)]
    if names:
        pairs = [(Following(before.graph, sizes), Following(after.graph, sizes)) for sizes in sizes_of(names)]
    first, second = _matrices(before.graph), _matrices(after.graph)
    shared = frozenset(name for name, *_ in first & second) - {name for name, *_ in first ^ second}
    try:
        return all(fingerprints(a, shared) == fingerprints(b, shared) for a, b in pairs)
    except NoFingerprintError:
        return False


def _matrices(graph: Graph) -> set[tuple[str, int, bool, str]]:
    """Constants that are multiplied by, and how."""
    found: set[tuple[str, int, bool, str]] = set()
    for op in graph.ops:
        names = [(k, name) for k, name in enumerate(op.inputs[:2]) if name in graph.constants]
        if names:
            flags = f"{[op.integer(flag, 0) for flag in ('transA', 'transB')]}"
            found.update((name, k, op.kind in ("MatMul", "Gemm"), flags) for k, name in names)
    return found


def differing(before: Following, after: Following) -> Iterator[str]:
    """Names in the first graph for which other elements, or those of another value, are read in the second."""
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


class _Labels:
    """Fingerprints of elements: the same where they come from one place, or are the same constant."""

    def __init__(self) -> None:
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

    def of(self, following: Following, name: str) -> Marks | None:
        """Those of a value, in its shape; None where there are too many, or they cannot be moved."""
        found: dict[str, Marks | None] = {}
        stack = [name]
        while stack:
            missing = [each for each in following.values[stack[-1]].data if each not in found]
            if missing:
                stack += missing
            elif (each := stack.pop()) not in found:
                found[each] = self._made(following, each, found)
        return found[name]

    def _made(self, following: Following, name: str, found: Mapping[str, Marks | None]) -> Marks | None:
        """The same of a value from those that it is moved from."""
        value = following.values[name]
        known = {each: marks for each in value.data if (marks := found[each]) is not None}
        if value.tensor is None or value.tensor.size > min(FEW, self._left) or len(known) < len({*value.data}):
            return None
        self._left -= value.tensor.size
        with np.errstate(over="ignore"), contextlib.suppress(NoFingerprintError):
            if value.op is None:
                return of_source(following, name)
            made = of_moved(following, value.op, known.__getitem__)
            return None if made is None else made[value.output]
        return None
