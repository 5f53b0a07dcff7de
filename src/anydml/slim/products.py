"""Products by constant matrices, normalized sums, and the nodes that read values directly or through movement."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from anydml.slim.analysis import Analysis
from anydml.slim.graph import OUTSIDE_GRAPH
from anydml.slim.operators import is_plain_gemm
from anydml.slim.pieces import Digit, FlatPiece

FUSED_AXES = 3
"""Axes of the sums that ONNX Runtime fuses with a LayerNormalization."""


@dataclass(frozen=True)
class Product:
    """MatMul or Gemm by a constant matrix.

    Attributes:
        number: number of the node.
        first_factor: name of the first factor.
        weights: name of the matrix.
        bias: name of the row that a Gemm adds; empty if there is none.
        is_transposed: whether Gemm transposes the matrix.
        leading: sizes of the first factor's axes but the last.
        depth: size of its last axis.
        columns: size of the result's last axis.
    """

    number: int
    first_factor: str
    weights: str
    bias: str
    is_transposed: bool
    leading: tuple[int, ...]
    depth: int
    columns: int

    @property
    def rows(self) -> int:
        """Number of rows of the first factor."""
        return math.prod(self.leading)

    @property
    def sizes(self) -> tuple[int, ...]:
        """Shape of the result."""
        return (*self.leading, self.columns)


def product_of(analysis: Analysis, node_number: int) -> Product | None:
    """Return a node as a product; None if it is not one."""
    op, values = analysis.graph.ops[node_number], analysis.values
    if op.op_type not in ("MatMul", "Gemm") or op.get("transA", 0) or not is_plain_gemm(op):
        return None
    lhs, weights, result = (values.get(name) for name in (*op.inputs[:2], op.outputs[0]))
    if lhs is None or weights is None or result is None:
        return None
    if lhs.tensor is None or weights.tensor is None or not result.tensor or not result.tensor.size:
        return None
    if lhs.is_constant or not weights.is_constant or len(weights.sizes) != 2 or len(lhs.sizes) < 2:
        return None
    is_transposed = bool(op.get("transB", 0))
    *leading, depth = lhs.sizes
    columns = weights.sizes[0 if is_transposed else 1]
    bias = op.inputs[2] if len(op.inputs) > 2 else ""
    if bias and not (values[bias].is_constant and values[bias].sizes in ((columns,), (1, columns))):
        return None
    return Product(node_number, op.inputs[0], op.inputs[1], bias, is_transposed, tuple(leading), depth, columns)


def products_of(analysis: Analysis) -> Iterator[Product]:
    """Yield all products of a graph."""
    for node_number in range(len(analysis.graph.ops)):
        product = product_of(analysis, node_number)
        if product is not None:
            yield product


def bias_of(analysis: Analysis, product: Product) -> tuple[int, str] | None:
    """Return the number of the Add that is a product's only reader and adds a constant row, and the row's name."""
    graph = analysis.graph
    (name,) = graph.ops[product.number].outputs
    if product.bias or not graph.is_read_once(name):
        return None
    (node_number,) = graph.readers[name]
    row = next((operand for operand in graph.ops[node_number].inputs if operand != name), "")
    value = analysis.values.get(row)
    is_row = value is not None and value.is_constant and [*value.sizes] == [product.columns]
    return (node_number, row) if graph.ops[node_number].op_type == "Add" and is_row else None


def fused_products(analysis: Analysis) -> list[Product]:
    """Return the products that runtimes fuse with an Add to a Gemm."""
    return [product for product in products_of(analysis) if bias_of(analysis, product) is not None]


def normalized_sums(analysis: Analysis) -> dict[int, tuple[int, ...]]:
    """Return, by node number, the shapes of sums of two alike tensors whose only reader is a LayerNormalization."""
    graph, values, sums = analysis.graph, analysis.values, dict[int, tuple[int, ...]]()
    for op in graph.ops:
        maker = graph.maker(op.inputs[0]) if op.op_type == "LayerNormalization" else None
        if maker is None or maker.op_type != "Add" or not graph.is_read_once(op.inputs[0]):
            continue
        terms = [values.get(name) for name in (*maker.inputs, *maker.outputs)]
        shapes = {term.sizes if term is not None and term.tensor is not None else None for term in terms}
        if len(shapes) == 1 and (sizes := shapes.pop()) is not None:
            sums[graph.makers[op.inputs[0]]] = sizes
    return sums


@dataclass(frozen=True)
class Reader:
    """A node that reads elements of a value.

    Attributes:
        number: number of the node; `OUTSIDE_GRAPH` for subgraphs and the caller of the model.
        name: the name of its input.
        piece: the place of the input's elements in the value; None if they come from several places.
    """

    number: int
    name: str
    piece: FlatPiece | None


class Readers:
    """The nodes that read values directly or through movement.

    Attributes:
        of: readers by name of a value that no movement makes.
    """

    def __init__(self, analysis: Analysis) -> None:
        self._analysis = analysis
        self.of: dict[str, list[Reader]] = {}
        for node_number, op in enumerate(analysis.graph.ops):
            if not analysis.moves(op):
                self._add(node_number, op.inputs)
            self._add(OUTSIDE_GRAPH, op.captured)
        self._add(OUTSIDE_GRAPH, analysis.graph.outputs)

    def piece(self, name: str) -> tuple[str, FlatPiece] | None:
        """Return the source of all of a value's elements, by name and as a piece; None if there are several sources."""
        value = self._analysis.values.get(name)
        if value is None or value.tensor is None:
            return None
        if value.op is None:
            count = value.tensor.size
            return name, FlatPiece(0, 0, 0, (Digit(count, 1, 1),) if count != 1 else ())
        pieces = value.pieces_of_sources
        if pieces is None or len(pieces) != 1 or pieces[0].source < 0:
            return None
        return self._analysis.names[pieces[0].source], pieces[0]._replace(source=0)

    def sources(self, name: str) -> set[str]:
        """Return the names of all sources of a value's elements, "" for fills; empty if unknown."""
        value = self._analysis.values.get(name)
        if value is None or value.tensor is None:
            return set()
        if value.op is None:
            return {name}
        return {self._analysis.names.get(piece.source, "") for piece in value.pieces_of_sources or ()}

    def _add(self, node_number: int, names: Iterable[str]) -> None:
        for name in names:
            own_piece = self.piece(name)
            for source in self.sources(name) if own_piece is None else [own_piece[0]]:
                piece = None if own_piece is None else own_piece[1]
                self.of.setdefault(source, []).append(Reader(node_number, name, piece))
