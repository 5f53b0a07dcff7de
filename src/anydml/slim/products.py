"""Products by constant matrices, and who reads what is computed of them."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from onnx import ModelProto, NodeProto

from anydml.onnx.graph import plain_domain
from anydml.slim.following import Following
from anydml.slim.parts import Part, Run
from anydml.slim.pushing import ELEMENTWISE
from anydml.slim.walking import captured

OUTSIDE = -1
"""The number of whoever reads a graph's outputs, and of graphs inside of nodes."""


@dataclass(frozen=True)
class Product:
    """MatMul or Gemm by a constant matrix.

    Attributes:
        number: of the node.
        given: what is multiplied.
        weights: the matrix.
        bias: what is added to each row; empty where nothing is.
        is_turned: whether the matrix is given the other way around.
        leading: the axes of what is multiplied before its last one.
        depth: the last one.
        columns: of the result.
    """

    number: int
    given: str
    weights: str
    bias: str
    is_turned: bool
    leading: tuple[int, ...]
    depth: int
    columns: int

    @property
    def rows(self) -> int:
        """All rows that are multiplied."""
        return math.prod(self.leading)


@dataclass(frozen=True)
class Reader:
    """A node that reads what a value is moved to.

    Attributes:
        number: of the node.
        name: under which it reads it.
        part: where its elements are in the value; None where they come from several places.
    """

    number: int
    name: str
    part: Part | None


class Reading:
    """Who computes of which computed value.

    Args:
        model: a model whose movement is composed.
        following: its values.

    Attributes:
        following: the same.
        nodes: of the main graph.
        makers: the numbers of the nodes that make values.
        readers: of what is not moved, by name.
    """

    def __init__(self, model: ModelProto, following: Following) -> None:
        self.following = following
        self.nodes: list[NodeProto] = [*model.graph.node]
        self.makers = {name: number for number, node in enumerate(self.nodes) for name in node.output if name}
        self.readers: dict[str, list[Reader]] = {}
        for number, node in enumerate(self.nodes):
            if not self.moves(node):
                self._read(number, node.input)
            self._read(OUTSIDE, captured(node))
        self._read(OUTSIDE, (output.name for output in model.graph.output))

    def moves(self, node: NodeProto) -> bool:
        """Whether a node is movement."""
        values = self.following.values
        made = next((values[name] for name in node.output if name in values), None)
        return made is not None and made.node is not None

    def source(self, name: str) -> tuple[str, Part] | None:
        """The one value that a value is moved from, and how; None where there are several, or more is not known."""
        value = self.following.values.get(name)
        if value is None or value.tensor is None:
            return None
        if value.node is None:
            count = math.prod(value.sizes)
            return name, Part(0, 0, 0, (Run(count, 1, 1),) if count != 1 else ())
        parts = self.following.parts(value.forms[0]) if value.forms else None
        if parts is None or len(parts) != 1 or parts[0].source < 0:
            return None
        return self.following.names[parts[0].source], parts[0]._replace(source=0)

    def sources(self, name: str) -> set[str]:
        """All values that a value is moved from; empty where that is not known."""
        value = self.following.values.get(name)
        if value is None or value.tensor is None:
            return set()
        if value.node is None:
            return {name}
        parts = self.following.parts(value.forms[0]) if value.forms else None
        return {self.following.names[part.source] if part.source >= 0 else "" for part in parts or ()}

    def product(self, number: int) -> Product | None:
        """A node, if it is such a product, of sizes that are known."""
        node, values = self.nodes[number], self.following.values
        if node.op_type not in ("MatMul", "Gemm") or plain_domain(node.domain):
            return None
        names = [*node.input[:2], node.output[0]]
        if any(name not in values or values[name].tensor is None for name in names):
            return None
        given, weights, result = (values[name] for name in names)
        if given.is_constant or not weights.is_constant or len(weights.sizes) != 2 or len(given.sizes) < 2:
            return None
        numbers = {each.name: each.f or each.i for each in node.attribute}
        turned = bool(numbers.get("transB", 0))
        if numbers.get("transA", 0) or numbers.get("alpha", 1) != 1 or numbers.get("beta", 1) != 1:
            return None
        *leading, depth = given.sizes
        columns = weights.sizes[0 if turned else 1]
        bias = node.input[2] if len(node.input) > 2 else ""
        if bias and not (values[bias].is_constant and values[bias].sizes in ((columns,), (1, columns))):
            return None
        if not result.tensor or not result.tensor.size:
            return None
        return Product(number, node.input[0], node.input[1], bias, turned, tuple(leading), depth, columns)

    def products(self) -> Iterator[Product]:
        """All of a model."""
        for number in range(len(self.nodes)):
            found = self.product(number)
            if found is not None:
                yield found

    def is_elementwise(self, number: int) -> bool:
        """Whether a node computes element by element."""
        if number == OUTSIDE:
            return False
        node = self.nodes[number]
        return node.op_type in ELEMENTWISE and not plain_domain(node.domain) and len(node.output) == 1

    def size(self, name: str) -> int:
        """Elements of a value."""
        value = self.following.values[name]
        return math.prod(value.sizes) if value.tensor is not None else 0

    def bytes(self, name: str) -> int:
        """Of a value."""
        tensor = self.following.values[name].tensor
        return 0 if tensor is None else tensor.nbytes

    def sizes(self, name: str) -> Sequence[int]:
        """A value's shape."""
        return self.following.values[name].sizes

    def _read(self, number: int, names: Iterator[str] | Sequence[str]) -> None:
        for name in names:
            if not name or name not in self.following.values:
                continue
            one = self.source(name)
            if one is not None:
                self.readers.setdefault(one[0], []).append(Reader(number, name, one[1]))
                continue
            for source in self.sources(name):
                self.readers.setdefault(source, []).append(Reader(number, name, None))
