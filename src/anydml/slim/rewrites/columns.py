"""Products whose result is split into columns, as queries, keys and values are: their matrices are split instead."""

from __future__ import annotations

from collections.abc import Iterator

from anydml.slim.graph import OUTSIDE_GRAPH, Op
from anydml.slim.operators import is_elementwise
from anydml.slim.pieces import FlatPiece
from anydml.slim.products import Product, Readers, products_of
from anydml.slim.rewrites.rewrite import Rewrite

MIN_COLUMNS = 16
"""Fewest columns of a part: products with fewer take more than their share of the time."""

Span = tuple[int, int]


class ColumnSplitting(Rewrite):
    """Splits the constant of a product whose columns are split afterwards."""

    title = "products are cut where their results are"
    is_exact = False

    def new_nodes(self) -> list[Op] | None:
        """See `Rewrite.new_nodes`."""
        self._readers = Readers(self._analysis)
        splits = {}
        for product in products_of(self._analysis):
            chain = self._chain(product)
            spans = self._spans(self._graph.ops[chain[-1]].outputs[0], product.columns)
            if len(spans) > 1:
                splits.update(dict.fromkeys(chain, (product, chain, spans)))
        for node_number, op in enumerate(self._graph.ops):
            if node_number not in splits:
                self._ops.append(op)
            elif node_number == splits[node_number][1][-1]:
                self._ops += self._split(*splits[node_number])
        return self._ops if splits else None

    def _chain(self, product: Product) -> list[int]:
        """Return a product and the nodes behind it that combine all of its elements with constants."""
        chain = [product.number]
        while True:
            name = self._graph.ops[chain[-1]].outputs[0]
            readers = self._readers.of.get(name, [])
            if len(readers) != 1 or readers[0].name != name or readers[0].number == OUTSIDE_GRAPH:
                return chain
            (reader,) = readers
            op = self._graph.ops[reader.number]
            other_values = [self._values.get(operand) for operand in op.inputs if operand != name]
            if not is_elementwise(op) or not all(value is not None and value.is_constant for value in other_values):
                return chain
            (result,) = op.outputs
            if not self._are_known(result) or self._values[result].sizes != self._values[name].sizes:
                return chain
            chain.append(reader.number)

    def _spans(self, name: str, columns: int) -> list[Span]:
        """Return the columns that the readers of a value read; none unless they are disjoint and complete."""
        spans: set[Span] = set()
        for reader in self._readers.of.get(name, []):
            span = None if reader.piece is None else _span(reader.piece, columns)
            if span is None:
                return []
            spans.add(span)
        ordered = sorted(spans)
        bounds = [0, *(end for _, end in ordered)]
        is_complete = [first for first, _ in ordered] == bounds[:-1] and bounds[-1] == columns
        return ordered if is_complete and all(end - first >= MIN_COLUMNS for first, end in ordered) else []

    def _split(self, product: Product, chain: list[int], spans: list[Span]) -> Iterator[Op]:
        parts = []
        for span in spans:
            # The results for these columns, by the names of the whole results.
            names: dict[str, str] = {}
            for node_number in chain:
                op = self._graph.ops[node_number]
                inputs = []
                for k, name in enumerate(op.inputs):
                    is_given = node_number == product.number and k == 0
                    axis = -2 if node_number == product.number and k == 1 and product.is_transposed else -1
                    part = name if is_given else self._columns(name, span, axis, product.columns)
                    inputs.append(names.get(name, part))
                (result,) = op.outputs
                names[result] = self._graph.new_name(result, "columns")
                label = self._graph.new_name(op.proto.name or result, "columns")
                yield op.copy_with(inputs, [names[result]], label)
            parts.append(names[result])
        yield Op.make("Concat", parts, [result], self._graph.new_name(result, "Concat"), axis=-1)

    def _columns(self, name: str, span: Span, axis: int, columns: int) -> str:
        """Return the name of some columns of a constant, or the constant's name if all columns are equal."""
        value = self._values.get(name)
        if value is None or not value.is_constant or value.sizes[axis:][:1] != (columns,):
            return name
        array = self._graph.constants.read(name)
        index = [slice(None)] * array.ndim
        index[axis] = slice(*span)
        return self._graph.constant(name, array[tuple(index)])


def _span(piece: FlatPiece, columns: int) -> Span | None:
    """Return the columns that a piece takes from each row; None if the columns are not adjacent."""
    first = piece.offset % columns
    count, end = 1, first + 1
    for digit in piece.digits:
        if digit.stride >= columns:
            if digit.stride % columns:
                return None
            continue
        if digit.stride <= 0 or digit.size * digit.stride > columns:
            return None
        count, end = count * digit.size, end + (digit.size - 1) * digit.stride
    return (first, end) if count == end - first and end <= columns else None
