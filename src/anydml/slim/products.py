"""Products by constant matrices, and the nodes that read their results, directly or through movement."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from anydml.slim.computing import ELEMENTWISE, is_plain_gemm
from anydml.slim.following import Following
from anydml.slim.graph import OUTSIDE
from anydml.slim.parts import Part, Run


@dataclass(frozen=True)
class Product:
    """MatMul or Gemm by a constant matrix.

    Attributes:
        number: of the node.
        given: what is multiplied.
        weights: the matrix.
        bias: what is added to each row; empty where nothing is.
        is_transposed: whether the matrix is given the other way around.
        leading: the axes of what is multiplied before its last one.
        depth: the last one.
        columns: of the result.
    """

    number: int
    given: str
    weights: str
    bias: str
    is_transposed: bool
    leading: tuple[int, ...]
    depth: int
    columns: int

    @property
    def is_of_matrices(self) -> bool:
        """Whether what is multiplied has two axes."""
        return len(self.leading) == 1

    @property
    def rows(self) -> int:
        """All rows that are multiplied."""
        return math.prod(self.leading)


def product_of(following: Following, number: int) -> Product | None:
    """A node, if it is such a product."""
    op, values = following.graph.ops[number], following.values
    if op.kind not in ("MatMul", "Gemm"):
        return None
    names = [*op.inputs[:2], op.outputs[0]]
    if any(name not in values or values[name].tensor is None for name in names):
        return None
    given, weights, result = (values[name] for name in names)
    if given.is_constant or not weights.is_constant or len(weights.sizes) != 2 or len(given.sizes) < 2:
        return None
    if op.integer("transA", 0) or not is_plain_gemm(op):
        return None
    transposed = bool(op.integer("transB", 0))
    *leading, depth = given.sizes
    columns = weights.sizes[0 if transposed else 1]
    bias = op.inputs[2] if len(op.inputs) > 2 else ""
    if bias and not (values[bias].is_constant and values[bias].sizes in ((columns,), (1, columns))):
        return None
    if not result.tensor or not result.tensor.size:
        return None
    return Product(number, op.inputs[0], op.inputs[1], bias, transposed, tuple(leading), depth, columns)


def products_of(following: Following) -> Iterator[Product]:
    """Yield all such products of a graph."""
    for number in range(len(following.graph.ops)):
        found = product_of(following, number)
        if found is not None:
            yield found


def row_added(following: Following, product: Product) -> tuple[int, str] | None:
    """The number of the Add that alone reads a product and adds a constant to each row, and the constant's name."""
    graph = following.graph
    (name,) = graph.ops[product.number].outputs
    if product.bias or not graph.is_read_once(name):
        return None
    (number,) = graph.users[name]
    row = next((each for each in graph.ops[number].inputs if each != name), "")
    value = following.values.get(row)
    is_row = value is not None and value.is_constant and [*value.sizes] == [product.columns]
    return (number, row) if graph.ops[number].kind == "Add" and is_row else None


def fusing(following: Following) -> list[Product]:
    """Products that runtimes compute by a Gemm, together with a row that is added to them."""
    return [each for each in products_of(following) if row_added(following, each) is not None]


@dataclass(frozen=True)
class Reader:
    """A node that reads what a value is moved to.

    Attributes:
        number: of the node; `OUTSIDE` of whoever runs the model, and of graphs inside of nodes.
        name: under which it reads it.
        part: where its elements are in the value; None where they come from several places.
    """

    number: int
    name: str
    part: Part | None


class Reading:
    """Which nodes read which computed values, directly or through movement.

    Attributes:
        following: the same.
        readers: of what is not moved, by name.
    """

    def __init__(self, following: Following) -> None:
        self.following = following
        self.readers: dict[str, list[Reader]] = {}
        for number, op in enumerate(following.graph.ops):
            if not following.moves(op):
                self._read(number, op.inputs)
            self._read(OUTSIDE, op.captured)
        self._read(OUTSIDE, following.graph.outputs)

    def source(self, name: str) -> tuple[str, Part] | None:
        """The one value that a value is moved from, and how; None where there are several, or more is not known."""
        value = self.following.values.get(name)
        if value is None or value.tensor is None:
            return None
        if value.op is None:
            count = math.prod(value.sizes)
            return name, Part(0, 0, 0, (Run(count, 1, 1),) if count != 1 else ())
        parts = value.parts[0] if value.forms else None
        if parts is None or len(parts) != 1 or parts[0].source < 0:
            return None
        return self.following.names[parts[0].source], parts[0]._replace(source=0)

    def sources(self, name: str) -> set[str]:
        """All values that a value is moved from; empty where that is not known."""
        value = self.following.values.get(name)
        if value is None or value.tensor is None:
            return set()
        if value.op is None:
            return {name}
        parts = value.parts[0] if value.forms else None
        return {self.following.names[part.source] if part.source >= 0 else "" for part in parts or ()}

    def is_elementwise(self, number: int) -> bool:
        """Whether a node computes element by element."""
        op = self.following.graph.ops[number]
        return number != OUTSIDE and op.kind in ELEMENTWISE and len(op.outputs) == 1

    def size(self, name: str) -> int:
        """Elements of a value."""
        tensor = self.following.values[name].tensor
        return 0 if tensor is None else tensor.size

    def _read(self, number: int, names: Iterable[str]) -> None:
        for name in names:
            if not name or name not in self.following.values:
                continue
            one = self.source(name)
            if one is not None:
                self.readers.setdefault(one[0], []).append(Reader(number, name, one[1]))
                continue
            for source in self.sources(name):
                self.readers.setdefault(source, []).append(Reader(number, name, None))
