"""Expressions: standard nodes that make tensors from others, and their costs."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from anydml.slim.costs import NO_COST, SHAPE_OPERATORS, Cost, movement
from anydml.slim.graph import Op
from anydml.slim.pieces import Window
from anydml.slim.sizes import StandIns

END_OF_AXIS = 2**63 - 1
"""End of a Slice that extends to the end of an axis."""

OPSET_OF_AXES = 13
"""First opset in which Squeeze and Unsqueeze take their axes as an input."""


@dataclass(frozen=True, eq=False)
class Expr:
    """A tensor and the node that makes it.

    Attributes:
        kind: the operator; "value" for an existing value, "output" for an output of a node of the graph that stays. The
            input of such an output, and of a "Split", has the kind "node": it stands for all outputs.
        inputs: what the node reads.
        sizes: the shape.
        numbers: the node's other inputs: INT64 vectors.
        attributes: the node's attributes.
        detail: everything else that identifies it, such as a value's name.
        cost: cost of the node; for an output, of its node.
    """

    kind: str
    inputs: tuple[Expr, ...]
    sizes: tuple[int, ...]
    numbers: tuple[Sequence[int], ...] = ()
    attributes: tuple[tuple[str, Any], ...] = ()
    detail: Any = None
    cost: Cost = NO_COST

    @property
    def count(self) -> int:
        """Number of elements."""
        return math.prod(self.sizes)


class Builder:
    """Builds expressions; equal ones are built once.

    Args:
        stand_ins: primes that stand for symbolic sizes.
        opset: opset of the graph.
    """

    def __init__(self, stand_ins: StandIns, opset: int) -> None:
        self._stand_ins, self._opset = stand_ins, opset
        self._built: dict[Hashable, Expr] = {}
        self._costs: dict[int, Cost] = {}

    def cost(self, expr: Expr) -> Cost:
        """Return the cost of one tensor."""
        if id(expr) not in self._costs:
            self._costs[id(expr)] = cost(expr)
        return self._costs[id(expr)]

    def value(self, name: str, sizes: Sequence[int]) -> Expr:
        """Return an existing value."""
        return self._build(Expr("value", (), tuple(sizes), detail=name))

    def output(self, op: Op, output: int, inputs: Sequence[Expr], sizes: Sequence[int], cost: Cost) -> Expr:
        """Return an output of a node that stays."""
        node = self._build(Expr("node", tuple(inputs), (), detail=op, cost=cost))
        return self._build(Expr("output", (node,), tuple(sizes), detail=(op, output)))

    def constant(self, name: str, sizes: Sequence[int]) -> Expr:
        """Return a value that is computed ahead and becomes a constant of the model."""
        return self._build(Expr("Constant", (), tuple(sizes), detail=name))

    def reshape(self, expr: Expr, sizes: Sequence[int]) -> Expr | None:
        """Reshape or another node that changes the shape; None if the symbolic sizes cannot be written."""
        while expr.kind in SHAPE_OPERATORS:
            (expr,) = expr.inputs
        if expr.sizes == tuple(sizes):
            return expr
        shape = self._stand_ins.shape(expr.sizes, sizes)
        if shape is not None:
            return self._move("Reshape", expr, sizes, 0, (shape,))
        ends = [math.prod(expr.sizes[:axis]) for axis in range(len(expr.sizes) + 1)]
        if len(sizes) == 2 and sizes[0] in ends:
            return self._move("Flatten", expr, sizes, 0, axis=ends.index(sizes[0]))
        if [size for size in expr.sizes if size != 1] == [size for size in sizes if size != 1]:
            return self._with_other_ones(expr, sizes)
        return None

    def _with_other_ones(self, expr: Expr, sizes: Sequence[int]) -> Expr:
        """Reshape by Squeeze and Unsqueeze, which need no shape, if shapes differ only in axes of size 1."""
        old, new = _ones(expr.sizes), _ones(sizes)
        removed, added = list[int](), list[int]()
        for before, after in zip(old, new, strict=True):
            common = min(len(before), len(after))
            removed += before[common:]
            added += after[common:]
        squeezed = [size for axis, size in enumerate(expr.sizes) if axis not in removed]
        for op_type, axes, shape in (("Squeeze", removed, squeezed), ("Unsqueeze", added, sizes)):
            if axes and self._opset >= OPSET_OF_AXES:
                expr = self._move(op_type, expr, shape, 0, (tuple(axes),))
            elif axes:
                expr = self._move(op_type, expr, shape, 0, axes=tuple(axes))
        return expr

    def transpose(self, expr: Expr, perm: Sequence[int], width: int) -> Expr:
        """Transpose by a permutation: axis k of the result is axis ``perm[k]``."""
        if [*perm] == [*range(len(perm))]:
            return expr
        sizes = [expr.sizes[axis] for axis in perm]
        return self._move("Transpose", expr, sizes, width, along=perm, perm=tuple(perm))

    def slice(self, expr: Expr, window: Window, width: int) -> Expr:
        """Return the Slice of a window."""
        sizes = tuple(count for _, count, _ in window)
        if sizes == expr.sizes:
            return expr
        cut = []
        for axis, (size, (first, count, step)) in enumerate(zip(expr.sizes, window, strict=True)):
            if (first, count, step) != (0, size, 1):
                last = first + (count - 1) * step
                end = END_OF_AXIS if last + step >= size else self._edge(last + 1, size)
                cut.append((self._edge(first, size), end, axis, step))
        steps = [step for _, _, step in window]
        return self._move("Slice", expr, sizes, width, tuple(zip(*cut, strict=True)), steps)

    def _edge(self, coordinate: int, size: int) -> int:
        """Return the start or end of a window, as a negative number if it is near the end of a symbolic size."""
        return coordinate if self._stand_ins.is_constant(size) or 2 * coordinate <= size else coordinate - size

    def split(self, expr: Expr, axis: int, lengths: Sequence[int], width: int) -> list[Expr]:
        """Return the parts of a Split, which are outputs of one node."""
        shapes = [(*expr.sizes[:axis], length, *expr.sizes[axis + 1 :]) for length in lengths]
        cost = movement("Split", [expr.sizes], shapes, width, [1] * len(expr.sizes))
        return self.parts(self._build(Expr("node", (expr,), (), (tuple(lengths),), (("axis", axis),), "Split", cost)))

    def parts(self, node: Expr) -> list[Expr]:
        """Return the outputs of a Split."""
        ((_, axis),), (lengths,), sizes = node.attributes, node.numbers, node.inputs[0].sizes
        shapes = [(*sizes[:axis], length, *sizes[axis + 1 :]) for length in lengths]
        return [self._build(Expr("Split", (node,), shape, detail=k)) for k, shape in enumerate(shapes)]

    def blocks(self, op_type: str, expr: Expr, sizes: Sequence[int], width: int, **attributes: Any) -> Expr:
        """Return a DepthToSpace or SpaceToDepth."""
        return self._move(op_type, expr, sizes, width, **attributes)

    def expand(self, expr: Expr, sizes: Sequence[int], width: int) -> Expr:
        """Expand to a shape of the same rank."""
        wide = tuple(1 if a == b else b for a, b in zip(expr.sizes, sizes, strict=True))
        return expr if expr.sizes == tuple(sizes) else self._move("Expand", expr, sizes, width, (wide,))

    def pick(self, expr: Expr, axis: int, indices: Sequence[int], width: int) -> Expr:
        """Return a Gather by 1-D indices."""
        sizes = (*expr.sizes[:axis], len(indices), *expr.sizes[axis + 1 :])
        return self._move("Gather", expr, sizes, width, (tuple(indices),), axis, axis=axis)

    def concat(self, exprs: Sequence[Expr], axis: int, width: int) -> Expr:
        """Return a Concat; if all tensors are transposed alike, one Transpose behind the Concat replaces theirs."""
        perms = {expr.attributes if expr.kind == "Transpose" else None for expr in exprs}
        if len(perms) == 1 and (common_perm := perms.pop()) is not None:
            ((_, perm),) = common_perm
            return self.transpose(self.concat([expr.inputs[0] for expr in exprs], perm[axis], width), perm, width)
        sizes = [*exprs[0].sizes]
        sizes[axis] = sum(expr.sizes[axis] for expr in exprs)
        cost = movement("Concat", [expr.sizes for expr in exprs], [sizes], width)
        return self._build(Expr("Concat", tuple(exprs), tuple(sizes), (), (("axis", axis),), None, cost))

    def pad(self, expr: Expr, before: Sequence[int], after: Sequence[int], fill: bytes, dtype: np.dtype[Any]) -> Expr:
        """Pad by elements before and after each axis."""
        sizes = [n + a + b for n, a, b in zip(expr.sizes, before, after, strict=True)]
        return self._move("Pad", expr, sizes, len(fill), ((*before, *after),), detail=(fill, dtype))

    def with_inputs(self, expr: Expr, inputs: Sequence[Expr]) -> Expr:
        """Return an expression with other inputs of the same shapes."""
        is_same = all(a is b for a, b in zip(expr.inputs, inputs, strict=True))
        return expr if is_same else self._build(replace(expr, inputs=tuple(inputs)))

    def _move(
        self,
        op_type: str,
        expr: Expr,
        sizes: Sequence[int],
        width: int,
        numbers: tuple[Sequence[int], ...] = (),
        along: Any = None,
        detail: Any = None,
        **attributes: Any,
    ) -> Expr:
        """Build a node that moves one tensor; `along` is passed to `movement` as `detail`."""
        cost = movement(op_type, [expr.sizes], [sizes], width, along)
        return self._build(Expr(op_type, (expr,), tuple(sizes), numbers, tuple(attributes.items()), detail, cost))

    def _build(self, expr: Expr) -> Expr:
        key = expr.kind, tuple(map(id, expr.inputs)), expr.sizes, expr.numbers, expr.attributes, expr.detail
        return self._built.setdefault(key, expr)


def _ones(sizes: Sequence[int]) -> list[list[int]]:
    """Return the axes of size 1 before each of the other axes, and after the last one."""
    ones: list[list[int]] = [[]]
    for axis, size in enumerate(sizes):
        if size == 1:
            ones[-1].append(axis)
        else:
            ones.append([])
    return ones


def in_order(exprs: Iterable[Expr]) -> Iterator[Expr]:
    """Yield expressions and all of their inputs, each once and after its own inputs."""
    done: set[int] = set()
    stack = [(expr, False) for expr in reversed([*exprs])]
    while stack:
        expr, is_ready = stack.pop()
        if id(expr) in done:
            continue
        if is_ready or not expr.inputs:
            done.add(id(expr))
            yield expr
        else:
            stack.append((expr, True))
            stack += [(operand, False) for operand in reversed(expr.inputs)]


def cost(*exprs: Expr) -> Cost:
    """Return the cost of tensors; shared nodes count once."""
    weight = nodes = moved = 0
    visited: set[Expr] = set()
    stack = [*exprs]
    while stack:
        expr = stack.pop()
        if expr not in visited:
            visited.add(expr)
            stack += expr.inputs
            if expr.cost is not NO_COST:
                weight, nodes, moved = weight + expr.cost[0], nodes + expr.cost[1], moved + expr.cost[2]
    return Cost(weight, nodes, moved)


def operators_of(exprs: Iterable[Expr]) -> list[str]:
    """Return the operators of the nodes that expressions need, without constants."""
    labels: dict[Op | Expr, str] = {}
    for expr in in_order(exprs):
        if expr.kind == "node" and isinstance(expr.detail, Op):
            labels[expr.detail] = expr.detail.op_type
        elif expr.kind == "node":
            labels[expr] = expr.detail
        elif expr.kind not in ("value", "output", "Split", "Constant"):
            labels[expr] = expr.kind
    return [*labels.values()]


def with_splits(builder: Builder, results: Mapping[str, Expr]) -> dict[str, Expr]:
    """Replace adjacent Slices that together cover a tensor by Splits."""
    new: dict[int, Expr] = {}
    for group, axis in _adjacent(results):
        source, lengths = group[0].inputs[0], [expr.sizes[axis] for expr in group]
        width = group[0].cost.bytes_moved // (2 * group[0].count)
        parts = builder.split(source, axis, lengths, width)
        new.update((id(expr), part) for expr, part in zip(group, parts, strict=True))
    if not new:
        return dict(results)
    for expr in in_order(results.values()):
        if id(expr) in new:
            # The source of the Split may be replaced, too.
            part = new[id(expr)]
            (node,) = part.inputs
            replaced = builder.with_inputs(node, [new.get(id(source), source) for source in node.inputs])
            new[id(expr)] = builder.with_inputs(part, [replaced])
        else:
            new[id(expr)] = builder.with_inputs(expr, [new.get(id(source), source) for source in expr.inputs])
    return {name: new[id(expr)] for name, expr in results.items()}


def _adjacent(results: Mapping[str, Expr]) -> Iterator[tuple[list[Expr], int]]:
    """Yield groups of Slices that together cover a tensor, in order along an axis, and that axis."""
    slices_of: dict[tuple[Expr, int], list[tuple[int, Expr]]] = {}
    for expr in in_order(results.values()):
        if expr.kind == "Slice":
            starts, _, axes, steps = expr.numbers
            if steps == (1,):
                slices_of.setdefault((expr.inputs[0], axes[0]), []).append((starts[0], expr))
    for (source, axis), slices in slices_of.items():
        slices.sort(key=lambda entry: entry[0])
        ends = [0, *(start + expr.sizes[axis] for start, expr in slices)]
        if len(slices) > 1 and [start for start, _ in slices] == ends[:-1] and ends[-1] == source.sizes[axis]:
            yield [expr for _, expr in slices], axis
