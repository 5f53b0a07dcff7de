"""Products that are cut into columns afterwards, as queries, keys and values are: their matrices are cut instead.

Each column of a result is made of one column of the matrix, so that a part of the columns needs no others.
"""

from __future__ import annotations

from collections.abc import Iterator

from anydml.slim.graph import Op
from anydml.slim.parts import Part
from anydml.slim.products import Product, Reading, products_of
from anydml.slim.rewriting import Rewriting

FEWEST = 16
"""Columns of a part: products of fewer are slower than their share."""

Span = tuple[int, int]


class Cutting(Rewriting):
    """Looks for such products."""

    def rewritten(self) -> list[Op] | None:
        """The nodes with all such products; None where there is none."""
        self._reading = Reading(self._following)
        found = {}
        for product in products_of(self._following):
            chain = self._chain(product)
            spans = self._spans(self._graph.ops[chain[-1]].outputs[0], product.columns)
            if len(spans) > 1:
                found.update(dict.fromkeys(chain, (product, chain, spans)))
        for number, op in enumerate(self._graph.ops):
            if number not in found:
                self._ops.append(op)
            elif number == found[number][1][-1]:
                self._ops += self._written(*found[number])
        return self._ops if found else None

    def _chain(self, product: Product) -> list[int]:
        """A product, and what is done to all of its elements by constants alone."""
        reading, values = self._reading, self._values
        chain = [product.number]
        while True:
            name = self._graph.ops[chain[-1]].outputs[0]
            readers = reading.readers.get(name, [])
            if len(readers) != 1 or readers[0].name != name or not reading.is_elementwise(readers[0].number):
                return chain
            op = self._graph.ops[readers[0].number]
            others = [each for each in op.inputs if each != name]
            if not all(each in values and values[each].is_constant for each in others):
                return chain
            if values[op.outputs[0]].sizes != values[name].sizes:
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
        # Each begins where the one before ends, from the first column to the last.
        bounds = [0, *(end for _, end in found)]
        are_all = [first for first, _ in found] == bounds[:-1] and bounds[-1] == columns
        return found if are_all and all(end - first >= FEWEST for first, end in found) else []

    def _written(self, product: Product, chain: list[int], spans: list[Span]) -> Iterator[Op]:
        parts = []
        for span in spans:
            # What the nodes of the chain make of these columns, by the names of the whole.
            made: dict[str, str] = {}
            for number in chain:
                op = self._graph.ops[number]
                inputs = []
                for k, name in enumerate(op.inputs):
                    is_given = number == product.number and k == 0
                    axis = -2 if number == product.number and k == 1 and product.is_transposed else -1
                    part = name if is_given else self._part(name, span, axis, product.columns)
                    inputs.append(made.get(name, part))
                (whole,) = op.outputs
                made[whole] = self._graph.new_name(whole, "columns")
                label = self._graph.new_name(op.proto.name or whole, "columns")
                yield op.replaced(inputs, [made[whole]], label)
            parts.append(made[whole])
        yield Op.make("Concat", parts, [whole], self._graph.new_name(whole, "Concat"), axis=-1)

    def _part(self, name: str, span: Span, axis: int, columns: int) -> str:
        """The columns of a constant, which is itself where it is the same for all of them."""
        value = self._reading.following.values.get(name)
        if value is None or not value.is_constant or value.sizes[axis:][:1] != (columns,):
            return name
        array = self._graph.constants.read(name)
        index = [slice(None)] * array.ndim
        index[axis] = slice(*span)
        return self._graph.constant(name, array[tuple(index)])


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
