"""Writing of a graph with the expressions of a plan in place of its movement nodes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from anydml.onnx.budget import Budget
from anydml.onnx.graph_values import Array
from anydml.onnx.run_node import run_node
from anydml.slim.expressions import Expr
from anydml.slim.graph import Graph, Op
from anydml.slim.planning import Plan


class Writer:
    """Writes a graph."""

    def __init__(self, plan: Plan) -> None:
        self._plan, self._analysis = plan, plan.analysis
        self._graph = plan.analysis.graph
        self._ops: list[Op] = []
        self._names: dict[int, str] = {}
        self._splits: dict[int, list[str]] = {}
        self._kept: dict[Op, Op] = {}
        self._results = {id(expr): name for name, expr in plan.chosen.items()}
        self._arrays: dict[str, Array] = {}
        self._made: set[str] = set()

    def write(self) -> Graph:
        """Return the graph."""
        for op in self._graph.ops:
            if self._plan.replaces(op):
                continue
            for name in op.captured:
                self._make(name)
            self._add(op.copy_with([self._read(name) for name in op.inputs]))
        for name in self._graph.outputs:
            self._make(name)
        return self._graph.with_ops(self._ops)

    def _add(self, op: Op) -> None:
        self._ops.append(op)
        self._made.update(op.outputs)

    def _add_node(self, op_type: str, inputs: Sequence[str], output: str, **attributes: Any) -> None:
        self._add(Op.make(op_type, inputs, [output], self._graph.new_name(output, op_type), **attributes))

    def _exists(self, name: str) -> bool:
        value = self._analysis.values.get(name)
        return name in self._made or value is None or value.op is None

    def _read(self, name: str) -> str:
        """Return the name of a value in the new graph."""
        if name and self._plan.is_folded(name):
            return self._graph.constant(name, self._array(name))
        return name if self._exists(name) else self._write_expression(self._plan.expr(name), name)

    def _make(self, name: str) -> None:
        """Write a value under its own name."""
        if not self._exists(name):
            written = self._write_expression(self._plan.expr(name), name)
            if written != name:
                self._add_node("Identity", [written], name)

    def _output_name(self, expr: Expr, base: str, purpose: str) -> str:
        """Return the name of an expression's output: the name of a result, or a new name."""
        result = self._results.get(id(expr), "")
        return result if result and result not in self._made else self._graph.new_name(base, purpose)

    def _write_expression(self, expr: Expr, base: str) -> str:
        """Write the nodes of an expression; return the name of its output: new names resemble `base`."""
        stack = [expr]
        while stack:
            missing = [expr for expr in stack[-1].inputs if id(expr) not in self._names]
            if missing:
                stack += reversed(missing)
                continue
            top = stack.pop()
            if id(top) not in self._names:
                self._names[id(top)] = self._name(top, base)
        return self._names[id(expr)]

    def _name(self, expr: Expr, base: str) -> str:
        match expr.kind:
            case "value":
                return str(expr.detail)
            case "node":
                # The node is written with its first output.
                return ""
            case "output":
                return self._kept_output(expr, base)
            case "Split":
                return self._part(expr, base)
            case "Constant":
                return self._graph.constant(expr.detail, self._array(expr.detail))
        inputs = [self._names[id(source)] for source in expr.inputs]
        output = self._output_name(expr, base, expr.kind.lower())
        inputs += [self._integers(output, numbers) for numbers in expr.numbers]
        if expr.kind == "Pad":
            fill, dtype = expr.detail
            inputs.append(self._graph.constant(output, np.frombuffer(fill, dtype).reshape(())))
        self._add_node(expr.kind, inputs, output, **dict(expr.attributes))
        return output

    def _part(self, expr: Expr, base: str) -> str:
        """Return the name of an output of a Split."""
        (node,) = expr.inputs
        if id(node) not in self._splits:
            inputs = [self._names[id(node.inputs[0])], self._integers(base, node.numbers[0])]
            outputs = [self._output_name(part, base, "part") for part in self._plan.builder.parts(node)]
            self._splits[id(node)] = outputs
            label = self._graph.new_name(base, "Split")
            self._add(Op.make("Split", inputs, outputs, label, **dict(node.attributes)))
        return self._splits[id(node)][int(expr.detail)]

    def _kept_output(self, expr: Expr, base: str) -> str:
        """Return the name of an output of a node that stays, whose inputs may change."""
        op, output = expr.detail
        if op not in self._kept:
            source_names = [self._names[id(source)] for source in expr.inputs[0].inputs]
            inputs = [*source_names, *map(self._read, op.inputs[len(source_names) :])]
            # Another expression may have the result's name already.
            outputs = [self._graph.new_name(base, "kept") if name in self._made else name for name in op.outputs]
            self._kept[op] = op.copy_with(inputs, outputs)
            self._add(self._kept[op])
        return str(self._kept[op].outputs[output])

    def _array(self, name: str) -> Array:
        """Return the elements of a value that is moved from constants."""
        stack = [name]
        while stack:
            array = self._analysis.values[stack[-1]].array
            if array is not None:
                self._arrays[stack[-1]] = array
            elif stack[-1] in self._graph.constants:
                self._arrays[stack[-1]] = self._graph.constants.read(stack[-1])
            op = self._graph.maker(stack[-1])
            if stack[-1] in self._arrays or op is None:
                stack.pop()
            elif missing := [name for name in op.inputs if name and name not in self._arrays]:
                stack += missing
            else:
                node = self._analysis.node(op)
                assert node is not None, "it moves"
                inputs = [self._arrays.get(name) for name in node.inputs]
                self._arrays.update(zip(node.outputs, run_node(node, inputs, Budget()), strict=False))
        return self._arrays[name]

    def _integers(self, base: str, numbers: Sequence[int]) -> str:
        return self._graph.constant(base, np.array(numbers, np.int64))
