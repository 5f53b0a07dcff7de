"""A graph written again, with the steps of a plan in the places of the movement that they are cheaper than."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from anydml.onnx.budget import Budget
from anydml.onnx.operators import run_node
from anydml.onnx.values import Array
from anydml.slim.graph import Graph, Op
from anydml.slim.planning import Plan
from anydml.slim.sizes import StandIns
from anydml.slim.steps import Step

LAST = 2**63 - 1
"""What Slice takes as "to the end"."""


class Writer:
    """Writes a graph."""

    def __init__(self, plan: Plan, stand_ins: StandIns) -> None:
        self._plan, self._stand_ins, self._following = plan, stand_ins, plan.following
        self._graph = plan.following.graph
        self._ops: list[Op] = []
        self._names: dict[int, str] = {}
        self._splits: dict[int, list[str]] = {}
        self._kept: dict[Op, Op] = {}
        self._wanted = {id(step): name for name, step in plan.chosen.items()}
        self._arrays: dict[str, Array] = {}
        self._made: set[str] = set()

    def written(self) -> Graph:
        """The graph."""
        for op in self._graph.ops:
            if self._plan.replaces(op):
                continue
            for name in op.captured:
                self._named(name)
            self._add(op.replaced([self._read(name) for name in op.inputs]))
        for name in self._graph.outputs:
            self._named(name)
        return self._graph.with_ops(self._ops)

    def _add(self, op: Op) -> None:
        self._ops.append(op)
        self._made.update(op.outputs)

    def _is_there(self, name: str) -> bool:
        """Whether a value need not be made, or was made."""
        value = self._following.values.get(name)
        return name in self._made or value is None or value.op is None

    def _read(self, name: str) -> str:
        """The name under which a value is read from now on."""
        if name and self._plan.is_folded(name):
            return self._graph.constant(name, self._array(name))
        return name if self._is_there(name) else self._step(self._plan.step(name), name)

    def _named(self, name: str) -> None:
        """Make a value under its own name."""
        if not self._is_there(name):
            found = self._step(self._plan.step(name), name)
            if found != name:
                self._make("Identity", [found], name)

    def _free(self, step: Step, base: str, what: str) -> str:
        """The name for what a step makes: a result's own if it is one, else a new one."""
        asked = self._wanted.get(id(step), "")
        return asked if asked and asked not in self._made else self._graph.new_name(base, what)

    def _step(self, step: Step, name: str) -> str:
        """Make a step; return the name of what it makes, which is like `name` if it is no result."""
        stack = [step]
        while stack:
            missing = [each for each in stack[-1].inputs if id(each) not in self._names]
            if missing:
                stack += reversed(missing)
                continue
            each = stack.pop()
            if id(each) not in self._names:
                # A node whose outputs are steps is made with the first of them.
                self._names[id(each)] = "" if each.is_node else self._new(each, name)
        return self._names[id(step)]

    def _new(self, step: Step, name: str) -> str:
        if step.kind == "":
            return str(step.numbers) if isinstance(step.numbers, str) else self._node(step)
        if step.kind == "Split":
            return self._part(step, name)
        if step.kind == "Constant":
            return self._graph.constant(step.numbers, self._array(step.numbers))
        inputs = [self._names[id(each)] for each in step.inputs]
        found = self._free(step, name, step.kind.lower())
        more, attributes = self._details(step, found)
        self._make(step.kind, [*inputs, *more], found, **attributes)
        return found

    def _part(self, step: Step, name: str) -> str:
        """An output of a Split, whose node is written with the first of them."""
        (node,) = step.inputs
        axis, lengths, number = step.numbers
        if id(node) not in self._splits:
            inputs = [self._names[id(node.inputs[0])], self._integers(name, lengths)]
            parts = [self._plan.steps.part(node, k) for k in range(len(lengths))]
            outputs = self._splits[id(node)] = [self._free(part, name, "part") for part in parts]
            self._add(Op.make("Split", inputs, outputs, self._graph.new_name(name, "Split"), axis=axis))
        return self._splits[id(node)][int(number)]

    def _node(self, step: Step) -> str:
        """A node that stays; its data may come from elsewhere."""
        op, output = step.numbers
        if op not in self._kept:
            moved = [self._names[id(each)] for each in step.inputs[0].inputs]
            inputs = [*moved, *map(self._read, op.inputs[len(moved) :])]
            # A name may have been given to a cheaper way to make the same.
            outputs = [self._graph.new_name(name, "kept") if name in self._made else name for name in op.outputs]
            self._kept[op] = op.replaced(inputs, outputs)
            self._add(self._kept[op])
        return str(self._kept[op].outputs[output])

    def _array(self, name: str) -> Array:
        """A constant, moved as the graph's nodes do."""
        stack = [name]
        while stack:
            tensor = self._following.values[stack[-1]].tensor
            if tensor is not None and tensor.array is not None:
                self._arrays[stack[-1]] = tensor.array
            elif stack[-1] in self._graph.constants:
                self._arrays[stack[-1]] = self._graph.constants.read(stack[-1])
            op = self._graph.maker(stack[-1])
            if stack[-1] in self._arrays or op is None:
                stack.pop()
            elif missing := [each for each in op.inputs if each and each not in self._arrays]:
                stack += missing
            else:
                node = self._following.node(op)
                assert node is not None, "it moves"
                inputs = [self._arrays.get(each) for each in node.inputs]
                self._arrays.update(zip(node.outputs, run_node(node, inputs, Budget()), strict=False))
        return self._arrays[name]

    def _make(self, kind: str, inputs: Iterable[str], output: str, **attributes: Any) -> None:
        self._add(Op.make(kind, inputs, [output], self._graph.new_name(output, kind), **attributes))

    def _details(self, step: Step, base: str) -> tuple[list[str], dict[str, Any]]:
        """A step's inputs that say how elements are moved, and its attributes."""
        (source, *_), numbers = step.inputs, step.numbers
        match step.kind:
            case "Reshape":
                shape = self._stand_ins.shape(source.sizes, step.sizes)
                assert shape is not None, "it was found before"
                return [self._integers(base, shape)], {}
            case "Transpose":
                return [], {"perm": numbers}
            case "DepthToSpace":
                return [], {"blocksize": numbers[0], "mode": numbers[1]}
            case "SpaceToDepth":
                return [], {"blocksize": numbers[0]}
            case "Concat":
                return [], {"axis": numbers}
            case "Gather":
                return [self._integers(base, numbers[1])], {"axis": numbers[0]}
            case "Expand":
                wide = [1 if a == b else b for a, b in zip(source.sizes, step.sizes, strict=True)]
                return [self._integers(base, wide)], {}
            case "Slice":
                return [self._integers(base, each) for each in _window(source.sizes, numbers)], {}
        pads, fill, dtype = numbers
        value = self._graph.constant(base, np.frombuffer(fill, dtype).reshape(()))
        return [self._integers(base, pads), value], {}

    def _integers(self, base: str, numbers: Sequence[int]) -> str:
        return self._graph.constant(base, np.array(numbers, np.int64))


def _window(sizes: Sequence[int], taken: Sequence[tuple[int, int, int]]) -> list[list[int]]:
    """What Slice is given: starts, ends, axes and steps, of the axes along which it does not take all."""
    cut = []
    for axis, (size, (first, count, by)) in enumerate(zip(sizes, taken, strict=True)):
        if (first, count, by) != (0, size, 1):
            last = first + (count - 1) * by
            cut.append((first, LAST if last + by >= size else last + 1, axis, by))
    return [list(column) for column in zip(*cut, strict=True)]
