"""Products that are computed in the order in which they are read, so that nothing need be transposed.

The numbers of a product by a constant matrix are the same dot products wherever they stand: by heads, if the matrix is
given as one for each head; transposed, if it stands on the left, or Gemm takes what it is multiplied by as it lies.
What is done to them element by element goes along. Each node that changes its order reads what was there put into the
new order, and is followed by what puts it back, all of which composition removes where it can.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from onnx import ModelProto, NodeProto, helper, numpy_helper

from anydml.onnx.training_nodes import FreshNames
from anydml.onnx.values import Array
from anydml.slim.constants import Constants
from anydml.slim.following import Following
from anydml.slim.grouping import FLIP, Group, Grouping
from anydml.slim.layouts import Layout, flipped
from anydml.slim.products import Product, Reading
from anydml.slim.sizes import StandIns


class Laying:
    """Looks for such products in one model.

    Args:
        model: the model, whose movement is composed already.
        following: its values.
        stand_ins: the sizes of `following`.
        constants: reads its constants.
    """

    def __init__(self, model: ModelProto, following: Following, stand_ins: StandIns, constants: Constants) -> None:
        self._model, self._stand_ins, self._constants = model, stand_ins, constants
        self._reading = Reading(model, following)
        self._fresh = FreshNames(model)
        self._nodes: list[NodeProto] = []
        self._result = ModelProto()
        self._made: dict[tuple[object, ...], str] = {}

    def laid(self) -> ModelProto | None:
        """The model with all such products; None where there is none."""
        groups = Grouping(self._reading, self._stand_ins).groups()
        return self._written(groups) if groups else None

    def _written(self, groups: Sequence[Group]) -> ModelProto:
        result = self._result = ModelProto()
        result.CopyFrom(self._model)
        del result.graph.node[:]
        of_node = {number: group for group in groups for number in group.nodes}
        sinks = {number: group for group in groups for number in group.sinks}
        roots = {self._reading.makers[group.root]: group for group in groups if group.entry is None}
        skipped: set[int] = set()
        for number, node in enumerate(self._reading.nodes):
            self._nodes = []
            product = self._reading.product(number)
            if number in roots:
                assert product is not None, "it was one when it was found"
                group = roots[number]
                added = self._added(node, product, group)
                if added is not None:
                    of_node.pop(added[0])
                    skipped.add(added[0])
                self._product(node, product, group.layout, number in sinks, added)
            elif number in skipped:
                continue
            elif number in sinks:
                assert product is not None, "it was one when it was found"
                self._sink(node, product)
            elif number in of_node:
                self._elementwise(node, of_node[number].layout)
            else:
                self._nodes = [node]
            result.graph.node.extend(self._nodes)
        return result

    def _added(self, node: NodeProto, product: Product, group: Group) -> tuple[int, str] | None:
        """What is added to each row of a product that becomes Gemm, and by which node, if nothing else reads it."""
        name = node.output[0]
        readers = self._reading.readers.get(name, [])
        if group.layout.perm != FLIP or product.bias or len(readers) != 1 or readers[0].number not in group.nodes:
            return None
        other = self._reading.nodes[readers[0].number]
        biases = [each for each in other.input if each != name]
        if other.op_type != "Add" or readers[0].name != name or len(biases) != 1:
            return None
        value = self._reading.following.values[biases[0]]
        is_row = value.is_constant and value.tensor is not None and [*value.sizes] == [product.columns]
        return (readers[0].number, biases[0]) if is_row else None

    def _product(
        self, node: NodeProto, product: Product, layout: Layout, reads_turned: bool, row: tuple[int, str] | None
    ) -> None:
        """A product in the new order, and what puts it back."""
        weights = self._constants.read(product.weights)
        weights = weights.T if product.is_turned else weights
        bias_name = row[1] if row else product.bias
        bias = self._constants.read(bias_name).reshape(-1) if bias_name else None
        output = self._reading.nodes[row[0]].output[0] if row else node.output[0]
        label = node.name or node.output[0]
        given = product.given
        added: list[str] = []
        if layout.perm == FLIP:
            left = self._constant(product.weights, np.ascontiguousarray(weights.T))
            if bias is not None:
                added = [self._constant(bias_name, bias.reshape(-1, 1))]
            if self._is_turned(product) or reads_turned:
                turned = self._moved(given, Layout((product.rows, product.depth), FLIP))
                made = self._add("Gemm" if added else "MatMul", [left, turned, *added], label)
            else:
                flat = self._shaped(given, (product.rows, product.depth))
                made = self._add("Gemm", [left, flat, *added], label, transB=1)
        else:
            batch, rows, heads, width = layout.sizes
            split = weights.reshape(1, product.depth, heads, width).transpose(0, 2, 1, 3)
            right = self._constant(product.weights, np.ascontiguousarray(split))
            flat = self._shaped(given, (batch, rows, product.depth) if batch == 1 else (batch, 1, rows, product.depth))
            made = self._add("MatMul", [flat, right], label)
            if bias is not None:
                added = [made, self._constant(bias_name, bias.reshape(1, heads, 1, width))]
                made = self._add("Add", added, self._fresh.new(label, "bias"))
        self._back(made, layout, output)

    def _is_turned(self, product: Product) -> bool:
        found = self._reading.source(product.given)
        return found is not None and flipped(found[1]) == (product.rows, product.depth)

    def _sink(self, node: NodeProto, product: Product) -> None:
        """A product of what lies the other way around."""
        turned = self._moved(product.given, Layout((product.rows, product.depth), FLIP))
        names = [turned, product.weights, *([product.bias] if product.bias else [])]
        made = self._add("Gemm", names, node.name or node.output[0], transA=1, transB=int(product.is_turned))
        self._reshape(made, self._reading.sizes(node.output[0]), node.output[0])

    def _elementwise(self, node: NodeProto, layout: Layout) -> None:
        values = self._reading.following.values
        sizes = self._reading.sizes(node.output[0])
        fine = layout.cut(sizes)
        assert fine is not None, "it fits"
        copy = NodeProto()
        copy.CopyFrom(node)
        copy.output[0] = self._fresh.new(node.output[0], "laid")
        for k, name in enumerate(node.input):
            value = values.get(name)
            if value is None or value.tensor is None or value.tensor.size == 1:
                continue
            if value.is_constant:
                array = fine.of_constant(self._constants.read(name), sizes)
                assert array is not None, "it fits"
                copy.input[k] = self._constant(name, array)
            else:
                copy.input[k] = self._moved(name, fine)
        self._nodes.append(copy)
        self._back(copy.output[0], fine, node.output[0])

    def _moved(self, name: str, layout: Layout) -> str:
        """A value in the new order."""
        made = self._add("Transpose", [self._shaped(name, layout.sizes)], self._fresh.new(name, "turn"))
        self._nodes[-1].attribute.append(helper.make_attribute("perm", layout.perm))
        return made

    def _back(self, made: str, layout: Layout, name: str) -> None:
        """What was computed in the new order, under the name of what it was in the old one."""
        shaped = self._reshape(made, layout.turned, self._fresh.new(name, "cut"))
        turned = self._add("Transpose", [shaped], self._fresh.new(name, "turn"), perm=layout.back)
        self._reshape(turned, self._reading.sizes(name), name)

    def _shaped(self, name: str, sizes: Sequence[int]) -> str:
        return self._reshape(name, sizes, self._fresh.new(name, "shape"))

    def _reshape(self, name: str, sizes: Sequence[int], output: str) -> str:
        shape = self._constant("shape", np.array(sizes, np.int64))
        self._nodes.append(helper.make_node("Reshape", [name, shape], [output], self._fresh.new(output, "Reshape")))
        return output

    def _add(self, kind: str, inputs: Sequence[str], label: str, **attributes: Any) -> str:
        output = self._fresh.new(label, kind.lower())
        self._nodes.append(helper.make_node(kind, inputs, [output], label, **attributes))
        return output

    def _constant(self, base: str, array: Array) -> str:
        key = array.tobytes(), str(array.dtype), array.shape
        if key not in self._made:
            name = self._made[key] = self._fresh.new(base, "laid")
            self._result.graph.initializer.append(numpy_helper.from_array(array, name))
        return self._made[key]
