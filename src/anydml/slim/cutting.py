"""Products that are cut into columns afterwards, as queries, keys and values are: their matrices are cut instead.

Each column of a result is made of one column of the matrix, so that a part of the columns needs no others.
"""

from __future__ import annotations

import itertools

import numpy as np
from onnx import ModelProto, NodeProto, helper, numpy_helper

from anydml.onnx.training_nodes import FreshNames
from anydml.slim.constants import Constants
from anydml.slim.following import Following
from anydml.slim.parts import Part
from anydml.slim.products import Product, Reading

FEWEST = 16
"""Columns of a part: products of fewer are slower than their share."""

Span = tuple[int, int]


class Cutting:
    """Looks for such products in one model.

    Args:
        model: the model, whose movement is composed already.
        following: its values.
        constants: reads its constants.
    """

    def __init__(self, model: ModelProto, following: Following, constants: Constants) -> None:
        self._model, self._constants = model, constants
        self._reading = Reading(model, following)
        self._fresh = FreshNames(model)

    def cut(self) -> ModelProto | None:
        """The model with all such products; None where there is none."""
        found = {}
        for product in self._reading.products():
            chain = self._chain(product)
            spans = self._spans(self._reading.nodes[chain[-1]].output[0], product.columns)
            if len(spans) > 1:
                found.update(dict.fromkeys(chain, (product, chain, spans)))
        if not found:
            return None
        result = ModelProto()
        result.CopyFrom(self._model)
        del result.graph.node[:]
        for number, node in enumerate(self._reading.nodes):
            if number not in found:
                result.graph.node.append(node)
                continue
            product, chain, spans = found[number]
            if number == chain[-1]:
                result.graph.node.extend(self._written(product, chain, spans, result))
        return result

    def _chain(self, product: Product) -> list[int]:
        """A product, and what is done to all of its elements by constants alone."""
        reading = self._reading
        chain = [product.number]
        while True:
            name = reading.nodes[chain[-1]].output[0]
            readers = reading.readers.get(name, [])
            if len(readers) != 1 or readers[0].name != name or not reading.is_elementwise(readers[0].number):
                return chain
            node, values = reading.nodes[readers[0].number], reading.following.values
            others = [each for each in node.input if each != name]
            if not all(each in values and values[each].is_constant for each in others):
                return chain
            if reading.sizes(node.output[0]) != reading.sizes(name):
                return chain
            chain.append(readers[0].number)

    def _spans(self, name: str, columns: int) -> list[Span]:
        """The columns that each reader reads; none where they are not apart."""
        spans: set[Span] = set()
        for reader in self._reading.readers.get(name, []):
            span = None if reader.part is None else _span(reader.part, columns)
            if span is None:
                return []
            spans.add(span)
        found = sorted(spans)
        if any(a[1] > b[0] for a, b in itertools.pairwise(found)):
            return []
        whole = found and found[0][0] == 0 and found[-1][1] == columns
        joined = all(a[1] == b[0] for a, b in itertools.pairwise(found))
        return found if whole and joined and all(b - a >= FEWEST for a, b in found) else []

    def _written(self, product: Product, chain: list[int], spans: list[Span], result: ModelProto) -> list[NodeProto]:
        made: list[NodeProto] = []
        parts = []
        for span in spans:
            name = ""
            for number in chain:
                node = self._reading.nodes[number]
                copy = NodeProto()
                copy.CopyFrom(node)
                copy.output[0] = self._fresh.new(node.output[0], "columns")
                copy.name = self._fresh.new(node.name or node.output[0], "columns")
                for k, each in enumerate(node.input):
                    if number == product.number:
                        axis = -2 if k == 1 and product.is_turned else -1
                        copy.input[k] = each if k == 0 else self._part(each, span, axis, product.columns, result)
                    else:
                        before = each == self._reading.nodes[chain[chain.index(number) - 1]].output[0]
                        copy.input[k] = name if before else self._part(each, span, -1, product.columns, result)
                name = copy.output[0]
                made.append(copy)
            parts.append(name)
        last = self._reading.nodes[chain[-1]].output[0]
        made.append(helper.make_node("Concat", parts, [last], self._fresh.new(last, "Concat"), axis=-1))
        return made

    def _part(self, name: str, span: Span, axis: int, columns: int, result: ModelProto) -> str:
        """The columns of a constant, which is itself where it is the same for all of them."""
        if not name or self._reading.sizes(name)[axis:][:1] != (columns,):
            return name
        array = self._constants.read(name)
        index = [slice(None)] * array.ndim
        index[axis] = slice(*span)
        made = self._fresh.new(name, "columns")
        result.graph.initializer.append(numpy_helper.from_array(np.ascontiguousarray(array[tuple(index)]), made))
        return made


def _span(part: Part, columns: int) -> Span | None:
    """The columns that a part has, if they are side by side."""
    first = part.offset % columns
    count, end = 1, first + 1
    for run in part.runs:
        if run.stride >= columns:
            if run.stride % columns:
                return None
            continue
        if run.stride <= 0 or run.size * run.stride > columns:
            return None
        count, end = count * run.size, end + (run.size - 1) * run.stride
    return (first, end) if count == end - first and end <= columns else None
