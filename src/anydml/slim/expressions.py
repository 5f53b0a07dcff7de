"""Expressions: how tensors are made of others by standard nodes, and what that costs."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from anydml.slim.costs import NOTHING, Cost, movement
from anydml.slim.graph import Op
from anydml.slim.operators import Window


@dataclass(frozen=True, eq=False)
class Expr:
    """A tensor and the node that makes it.

    Attributes:
        kind: the operator; "value" for an existing value, "output" for an output of a node of the graph that stays. The
            input of such an output, and of a "Split", has the kind "node": it stands for all outputs.
        inputs: what the node reads.
        sizes: the shape.
        detail: a value's name, or the node's other inputs and attributes.
        cost: cost of the node; that of an output is its node's.
    """

    kind: str
    inputs: tuple[Expr, ...]
    sizes: tuple[int, ...]
    detail: Any
    cost: Cost = NOTHING

    @property
    def count(self) -> int:
        """Number of elements."""
        return math.prod(self.sizes)


class Builder:
    """Builds expressions; equal ones are built once."""

    def __init__(self) -> None:
        self._built: dict[Hashable, Expr] = {}
        self._costs: dict[int, Cost] = {}

    def cost(self, expr: Expr) -> Cost:
        """Return the cost of one tensor."""
        if id(expr) not in self._costs:
            self._costs[id(expr)] = cost(expr)
        return self._costs[id(expr)]

    def value(self, name: str, sizes: Sequence[int]) -> Expr:
        """An existing value."""
        return self._build("value", (), sizes, name)

    def output(self, op: Op, output: int, inputs: Sequence[Expr], sizes: Sequence[int], cost: Cost) -> Expr:
        """An output of a node that stays."""
        return self._build("output", [self._build("node", inputs, (), (op,), cost)], sizes, (op, output))

    def constant(self, name: str, sizes: Sequence[int]) -> Expr:
        """A value that is computed now and becomes a constant of the model."""
        return self._build("Constant", (), sizes, name)

    def reshape(self, expr: Expr, sizes: Sequence[int]) -> Expr:
        """Reshape."""
        while expr.kind == "Reshape":
            (expr,) = expr.inputs
        return expr if expr.sizes == tuple(sizes) else self._move("Reshape", expr, sizes, None, 0)

    def transpose(self, expr: Expr, perm: Sequence[int], width: int) -> Expr:
        """Transpose; axis k of the result is axis ``perm[k]``."""
        if [*perm] == [*range(len(perm))]:
            return expr
        return self._move("Transpose", expr, [expr.sizes[axis] for axis in perm], tuple(perm), width, perm)

    def slice(self, expr: Expr, window: Window, width: int) -> Expr:
        """Slice."""
        sizes = tuple(count for _, count, _ in window)
        steps = [step for _, _, step in window]
        return expr if sizes == expr.sizes else self._move("Slice", expr, sizes, tuple(window), width, steps)

    def split(self, expr: Expr, axis: int, lengths: Sequence[int], width: int) -> list[Expr]:
        """Split; all parts are outputs of one node."""
        shapes = [(*expr.sizes[:axis], length, *expr.sizes[axis + 1 :]) for length in lengths]
        cost = movement("Split", [expr.sizes], shapes, width, [1] * len(expr.sizes))
        node = self._build("node", [expr], (), ("Split", axis, tuple(lengths)), cost)
        return self.parts(node)

    def parts(self, node: Expr) -> list[Expr]:
        """The outputs of a Split."""
        _, axis, lengths = node.detail
        (source,) = node.inputs
        shapes = [(*source.sizes[:axis], length, *source.sizes[axis + 1 :]) for length in lengths]
        return [self._build("Split", [node], sizes, (axis, lengths, k)) for k, sizes in enumerate(shapes)]

    def blocks(self, kind: str, expr: Expr, sizes: Sequence[int], block: int, mode: str, width: int) -> Expr:
        """DepthToSpace or SpaceToDepth."""
        return self._move(kind, expr, sizes, (block, mode), width)

    def expand(self, expr: Expr, sizes: Sequence[int], width: int) -> Expr:
        """Expand to a shape of the same rank."""
        return expr if expr.sizes == tuple(sizes) else self._move("Expand", expr, sizes, None, width)

    def gather(self, expr: Expr, axis: int, indices: Sequence[int], width: int) -> Expr:
        """Gather by 1-D indices."""
        sizes = (*expr.sizes[:axis], len(indices), *expr.sizes[axis + 1 :])
        return self._move("Gather", expr, sizes, (axis, tuple(indices)), width, axis)

    def concat(self, exprs: Sequence[Expr], axis: int, width: int) -> Expr:
        """Concat; tensors that are transposed alike are joined first."""
        perms = {expr.detail if expr.kind == "Transpose" else None for expr in exprs}
        if len(perms) == 1 and (perm := perms.pop()) is not None:
            return self.transpose(self.concat([each.inputs[0] for each in exprs], perm[axis], width), perm, width)
        sizes = [*exprs[0].sizes]
        sizes[axis] = sum(expr.sizes[axis] for expr in exprs)
        cost = movement("Concat", [expr.sizes for expr in exprs], [sizes], width)
        return self._build("Concat", exprs, sizes, axis, cost)

    def pad(self, expr: Expr, before: Sequence[int], after: Sequence[int], fill: bytes, dtype: np.dtype[Any]) -> Expr:
        """Pad by elements before and after each axis."""
        sizes = [n + a + b for n, a, b in zip(expr.sizes, before, after, strict=True)]
        return self._move("Pad", expr, sizes, ((*before, *after), fill, dtype), len(fill))

    def with_inputs(self, expr: Expr, inputs: Sequence[Expr]) -> Expr:
        """Return an expression with other inputs of the same shapes."""
        if all(a is b for a, b in zip(expr.inputs, inputs, strict=True)):
            return expr
        key = expr.kind, tuple(map(id, inputs)), expr.sizes, expr.detail
        return self._built.setdefault(key, replace(expr, inputs=tuple(inputs)))

    def _move(self, kind: str, expr: Expr, sizes: Sequence[int], detail: Any, width: int, along: Any = None) -> Expr:
        return self._build(kind, [expr], sizes, detail, movement(kind, [expr.sizes], [sizes], width, along))

    def _build(
        self, kind: str, inputs: Sequence[Expr], sizes: Sequence[int], detail: Any, cost: Cost = NOTHING
    ) -> Expr:
        key = kind, tuple(map(id, inputs)), tuple(sizes), detail
        if key not in self._built:
            self._built[key] = Expr(kind, tuple(inputs), tuple(sizes), detail, cost)
        return self._built[key]


def in_order(exprs: Iterable[Expr]) -> Iterator[Expr]:
    """Yield expressions and all that they need, each once and after its inputs."""
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
            stack += [(each, False) for each in reversed(expr.inputs)]


def cost(*exprs: Expr) -> Cost:
    """Return the cost of tensors; nodes that they share count once."""
    found: dict[int, Cost] = {}
    stack = [*exprs]
    while stack:
        expr = stack.pop()
        if id(expr) not in found:
            found[id(expr)] = expr.cost
            stack += expr.inputs
    return Cost.sum([each for each in found.values() if each is not NOTHING])


def operators_of(exprs: Iterable[Expr]) -> list[str]:
    """Return the operators of the nodes that expressions need, without constants."""
    found: dict[Op | Expr, str] = {}
    for expr in in_order(exprs):
        if expr.kind == "node" and isinstance(expr.detail[0], Op):
            found[expr.detail[0]] = expr.detail[0].kind
        elif expr.kind == "node":
            found[expr] = expr.detail[0]
        elif expr.kind not in ("value", "output", "Split", "Constant"):
            found[expr] = expr.kind
    return [*found.values()]


def with_splits(builder: Builder, results: Mapping[str, Expr]) -> dict[str, Expr]:
    """Replace adjacent Slices, which together take a whole tensor, by Splits."""
    new: dict[int, Expr] = {}
    for group, axis in _adjacent(results):
        source, lengths = group[0].inputs[0], [expr.sizes[axis] for expr in group]
        width = group[0].cost.moved // (2 * group[0].count)
        parts = builder.split(source, axis, lengths, width)
        new.update((id(expr), part) for expr, part in zip(group, parts, strict=True))
    if not new:
        return dict(results)
    for expr in in_order(results.values()):
        if id(expr) in new:
            # The source of the Split may be replaced, too.
            part = new[id(expr)]
            (node,) = part.inputs
            replaced = builder.with_inputs(node, [new.get(id(each), each) for each in node.inputs])
            new[id(expr)] = builder.with_inputs(part, [replaced])
        else:
            new[id(expr)] = builder.with_inputs(expr, [new.get(id(each), each) for each in expr.inputs])
    return {name: new[id(expr)] for name, expr in results.items()}


def _adjacent(results: Mapping[str, Expr]) -> Iterator[tuple[list[Expr], int]]:
    """Yield groups of Slices that together take a whole tensor, in order along an axis, and that axis."""
    found: dict[tuple[int, int], list[Expr]] = {}
    for expr in in_order(results.values()):
        if expr.kind == "Slice":
            sizes = expr.inputs[0].sizes
            cut = [k for k, (size, part) in enumerate(zip(sizes, expr.detail, strict=True)) if part != (0, size, 1)]
            if len(cut) == 1 and expr.detail[cut[0]][2] == 1:
                found.setdefault((id(expr.inputs[0]), cut[0]), []).append(expr)
    for (_, axis), group in found.items():
        group.sort(key=lambda expr: int(expr.detail[axis][0]))
        starts = [expr.detail[axis][0] for expr in group]
        ends = [0, *(expr.detail[axis][0] + expr.detail[axis][1] for expr in group)]
        if len(group) > 1 and starts == ends[:-1] and ends[-1] == group[0].inputs[0].sizes[axis]:
            yield group, axis
