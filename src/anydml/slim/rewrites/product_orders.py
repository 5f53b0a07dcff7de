"""Products that are computed in the order in which they are read, so that they need not be transposed.

The dot products of a product by a constant matrix are the same in any order: in a batch, if the matrix is split into
heads; transposed, if the matrix is on the left, or if Gemm transposes the other factor. Nodes that compute element by
element go along. Each node in the new order reads Transposes of its inputs, and is followed by a Transpose back;
composition removes these where it can.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from anydml.slim.analysis import Analysis
from anydml.slim.costs import CALL_BYTES, is_fast_batched, is_fast_transposed
from anydml.slim.graph import OUTSIDE_GRAPH, Op
from anydml.slim.operators import is_elementwise
from anydml.slim.orders import TRANSPOSED, Order, orders_of, transposed_matrix
from anydml.slim.pieces import FlatPiece
from anydml.slim.products import Product, Reader, Readers, bias_of, product_of, products_of
from anydml.slim.rewrites.rewrite import Rewrite
from anydml.slim.sizes import StandIns

MAX_GROUP_NODES = 64
"""Maximum number of nodes of a group."""


@dataclass
class Group:
    """Nodes that are computed in another order.

    Attributes:
        order: the new order.
        root: the value that all others are computed of.
        entry: a reader whose movement puts the root into the new order; None if the root is a product that is computed
            in that order.
        nodes: numbers of the nodes that compute element by element.
        sinks: numbers of the products that read their first factor transposed.
        gain: the number of moved bytes that are saved.
    """

    order: Order
    root: str
    entry: Reader | None
    nodes: list[int] = field(default_factory=list)
    sinks: list[int] = field(default_factory=list)
    gain: int = 0


class GroupSearch:
    """Finds the groups of a graph."""

    def __init__(self, analysis: Analysis, readers: Readers, stand_ins: StandIns) -> None:
        self._analysis, self._readers, self._stand_ins = analysis, readers, stand_ins
        self._graph, self._values = analysis.graph, analysis.values

    def groups(self) -> list[Group]:
        """Return groups that save bytes and have no node in common, the best first."""
        groups: list[Group] = []
        used: set[int] = set()
        for group in sorted(self._candidates(), key=lambda group: -group.gain):
            numbers = {*group.nodes, *group.sinks}
            if group.entry is None:
                numbers.add(self._graph.makers[group.root])
            if used.isdisjoint(numbers):
                used |= numbers
                groups.append(group)
        return groups

    def _candidates(self) -> Iterable[Group]:
        """Yield all groups that save bytes."""
        for product in products_of(self._analysis):
            name = self._graph.ops[product.number].outputs[0]
            for order in self._orders(name, product):
                if self._is_fast(product, order):
                    group = self._grown(Group(order, name, None), name)
                    if group.gain > (CALL_BYTES if order.perm == TRANSPOSED else 0):
                        yield group
        for root, readers in self._readers.of.items():
            tried = set()
            for reader in readers:
                sizes = None if reader.piece is None or reader.piece in tried else transposed_matrix(reader.piece)
                tried.add(reader.piece)
                if sizes is not None and self._stand_ins.is_constant(*sizes):
                    group = self._grown(Group(Order(sizes, TRANSPOSED), root, reader), reader.name)
                    if group.gain > CALL_BYTES and group.sinks:
                        yield group

    def _is_fast(self, product: Product, order: Order) -> bool:
        """Whether a product is known to be as fast in an order, for any size of the batch."""
        if order.perm == TRANSPOSED:
            return self._stand_ins.is_constant(product.rows) and is_fast_transposed(product.rows)
        sizes = self._values[product.first_factor].sizes
        return (
            self._stand_ins.is_constant(*order.sizes[1:])
            and is_fast_batched(order.sizes[1], product.depth)
            and self._stand_ins.can_reshape(sizes, _factor(product, order))
            and self._stand_ins.can_reshape(product.sizes, order.sizes)
        )

    def _orders(self, name: str, product: Product) -> list[Order]:
        """Return the orders in which a product is read, directly or behind nodes that compute element by element."""
        orders: dict[Order, None] = {}
        names, visited = [name], {name}
        while names and len(visited) < MAX_GROUP_NODES:
            for reader in self._readers.of.get(names.pop(), ()):
                if reader.piece is not None:
                    orders.update(dict.fromkeys(orders_of(reader.piece, product.leading, product.columns)))
                result = self._result(reader.number)
                if result and result not in visited and self._size(result) == self._size(name):
                    visited.add(result)
                    names.append(result)
        return [*orders]

    def _result(self, node_number: int) -> str:
        """Return the name of an element-wise node's result; empty for other nodes."""
        op = self._graph.ops[node_number]
        return op.outputs[0] if node_number != OUTSIDE_GRAPH and is_elementwise(op) else ""

    def _size(self, name: str) -> int:
        tensor = self._values[name].tensor
        return 0 if tensor is None else tensor.size

    def _piece(self, name: str) -> FlatPiece | None:
        piece = self._readers.piece(name)
        return None if piece is None else piece[1]

    def _grown(self, group: Group, first: str) -> Group:
        """Add all nodes that can be computed in the group's order, from a value on, and the gain."""
        entry, count = group.entry, self._size(first)
        # The elements of each value in the old order.
        before = {group.root: entry.piece if entry else self._piece(group.root)}
        names = [group.root] if len(self._readers.of.get(group.root, ())) <= MAX_GROUP_NODES else []
        while names and len(group.nodes) < MAX_GROUP_NODES:
            name = names.pop(0)
            for reader in self._readers.of.get(name, ()):
                if reader.number in group.nodes or (name == group.root and entry and reader.piece != entry.piece):
                    continue
                result = self._result(reader.number)
                if result and self._fits(reader.number, before, group, count):
                    group.nodes.append(reader.number)
                    before[result] = self._piece(result)
                    # Nodes that did not fit may fit now.
                    names += [*before]
        group.nodes.sort()
        times = sum(self._gain(group, name, piece) for name, piece in before.items())
        group.gain = 2 * times * self._values[first].bytes
        return group

    def _gain(self, group: Group, name: str, piece: FlatPiece | None) -> int:
        """Return how many transpositions of a value are saved, less the number that is added; note the sinks."""
        entry = group.entry if name == group.root else None
        is_moved = is_kept = False
        for reader in self._readers.of.get(name, ()):
            if reader.number in group.nodes or reader.piece is None or (entry and reader.piece != entry.piece):
                continue
            if reader.piece != piece:
                is_moved = is_moved or (group.entry is None and group.order.is_of(reader.piece))
            elif self._is_sink(reader, group.order):
                group.sinks.append(reader.number)
            else:
                is_kept = True
        return is_moved + (entry is not None) - is_kept

    def _fits(self, node_number: int, before: Mapping[str, FlatPiece | None], group: Group, count: int) -> bool:
        """Whether a node can be computed in the group's order, from values in that order and constants."""
        values = self._values
        op = self._graph.ops[node_number]
        (output,) = op.outputs
        if output not in values or self._size(output) != count:
            return False
        fine = group.order.split(values[output].sizes)
        if fine is None or not self._stand_ins.can_reshape(values[output].sizes, fine.sizes):
            return False
        for name in filter(None, op.inputs):
            value = values.get(name)
            if value is None or value.tensor is None:
                return False
            if value.is_constant or value.tensor.size == 1:
                if len(value.sizes) > len(values[output].sizes if value.tensor.size > 1 else fine.sizes):
                    return False
                continue
            sources = self._readers.sources(name)
            if value.tensor.size != count or not sources or not sources <= before.keys():
                return False
            if not self._stand_ins.can_reshape(value.sizes, fine.sizes):
                return False
            piece = self._readers.piece(name)
            is_in_order = piece is not None and piece[1] == before[piece[0]]
            if not is_in_order and not (group.entry is None and self._is_combined(output, before)):
                return False
        return True

    def _is_combined(self, result: str, inside: Mapping[str, FlatPiece | None]) -> bool:
        """Whether a value is combined with another one that is in the group's order."""
        return any(
            reader.name == result
            and self._result(reader.number)
            and not inside.keys().isdisjoint(self._graph.ops[reader.number].inputs)
            for reader in self._readers.of.get(result, ())
        )

    def _is_sink(self, reader: Reader, order: Order) -> bool:
        product = None if reader.number == OUTSIDE_GRAPH else product_of(self._analysis, reader.number)
        if product is None or order.perm != TRANSPOSED or product.first_factor != reader.name:
            return False
        return order.sizes == (product.rows, product.depth) and self._stand_ins.is_constant(*order.sizes)


class ProductOrdering(Rewrite):
    """Writes groups in their orders."""

    title = "products are computed as they are read"
    is_exact = False

    def new_nodes(self) -> list[Op] | None:
        """See `Rewrite.new_nodes`."""
        self._readers = Readers(self._analysis)
        groups = GroupSearch(self._analysis, self._readers, self._stand_ins).groups()
        if not groups:
            return None
        of_node = {node_number: group for group in groups for node_number in group.nodes}
        sinks = {node_number for group in groups for node_number in group.sinks}
        roots = {self._graph.makers[group.root]: group for group in groups if group.entry is None}
        skipped: set[int] = set()
        for node_number, op in enumerate(self._graph.ops):
            product = product_of(self._analysis, node_number) if node_number in sinks | roots.keys() else None
            if node_number in roots:
                assert product is not None, "the search has found it"
                group, row = roots[node_number], bias_of(self._analysis, product)
                # Gemm adds the bias, too.
                row = row if row and group.order.perm == TRANSPOSED and row[0] in group.nodes else None
                skipped.update(row[:1] if row else ())
                self._product(op, product, group.order, node_number in sinks, row)
            elif node_number in skipped:
                continue
            elif product is not None:
                self._sink(op, product)
            elif node_number in of_node:
                self._elementwise(op, of_node[node_number].order)
            else:
                self._ops.append(op)
        return self._ops

    def _product(
        self, op: Op, product: Product, order: Order, reads_transposed: bool, row: tuple[int, str] | None
    ) -> None:
        """Write a product in the new order, and a Transpose back.

        Args:
            op: the node.
            product: the node as a product.
            order: the new order.
            reads_transposed: whether its first factor is transposed.
            row: number of the Add that it replaces, and name of the bias.
        """
        read, constant = self._graph.constants.read, self._graph.constant
        weights = read(product.weights)
        weights = weights.T if product.is_transposed else weights
        bias_name = row[1] if row else product.bias
        bias = read(bias_name).reshape(-1) if bias_name else None
        output = self._graph.ops[row[0]].outputs[0] if row else op.outputs[0]
        label = op.proto.name or op.outputs[0]
        if order.perm == TRANSPOSED:
            weights_name, matrix = constant(product.weights, weights.T), (product.rows, product.depth)
            added = [] if bias is None else [constant(bias_name, bias.reshape(-1, 1))]
            piece = self._readers.piece(product.first_factor)
            if reads_transposed or (piece is not None and transposed_matrix(piece[1]) == matrix):
                transposed = self._order(product.first_factor, Order(matrix, TRANSPOSED))
                product_name = self._add("Gemm" if added else "MatMul", [weights_name, transposed, *added], "", label)
            else:
                flat = self._reshaped_name(product.first_factor, matrix)
                product_name = self._add("Gemm", [weights_name, flat, *added], "", label, transB=1)
        else:
            _, _, heads, width = order.sizes
            split = weights.reshape(1, product.depth, heads, width).transpose(0, 2, 1, 3)
            factors = [
                self._reshaped_name(product.first_factor, _factor(product, order)),
                constant(product.weights, split),
            ]
            product_name = self._add("MatMul", factors, "", label)
            if bias is not None:
                added = [product_name, constant(bias_name, bias.reshape(1, heads, 1, width))]
                product_name = self._add("Add", added, "", self._graph.new_name(label, "bias"))
        self._restore(product_name, order, output)

    def _sink(self, op: Op, product: Product) -> None:
        """Write a product whose first factor is transposed."""
        transposed = self._order(product.first_factor, Order((product.rows, product.depth), TRANSPOSED))
        names = [transposed, product.weights, *([product.bias] if product.bias else [])]
        label = op.proto.name or op.outputs[0]
        product_name = self._add("Gemm", names, "", label, transA=1, transB=int(product.is_transposed))
        self._shape(product_name, (product.rows, product.columns), product.sizes, op.outputs[0])

    def _elementwise(self, op: Op, order: Order) -> None:
        (output,) = op.outputs
        sizes = self._values[output].sizes
        fine = order.split(sizes)
        assert fine is not None, "the search has checked it"
        inputs = [*op.inputs]
        for k, name in enumerate(inputs):
            if self._is_single(name) or not self._are_known(name) or not name:
                continue
            if self._values[name].is_constant:
                array = fine.of_constant(self._graph.constants.read(name), sizes)
                assert array is not None, "the search has checked it"
                inputs[k] = self._graph.constant(name, array)
            else:
                inputs[k] = self._order(name, fine)
        permuted = self._graph.new_name(output, "laid")
        self._ops.append(op.copy_with(inputs, [permuted]))
        self._restore(permuted, fine, output)

    def _order(self, name: str, order: Order) -> str:
        """Write a value in the new order."""
        return self._add("Transpose", [self._reshaped_name(name, order.sizes)], "", perm=order.perm)

    def _restore(self, permuted: str, order: Order, name: str) -> None:
        """Write a result in the old order, under its old name."""
        transposed = self._add("Transpose", [permuted], "", perm=order.inverse)
        self._shape(transposed, order.sizes, self._values[name].sizes, name)

    def _reshaped_name(self, name: str, sizes: Sequence[int]) -> str:
        return self._shape(name, self._values[name].sizes, sizes, self._graph.new_name(name, "shape"))

    def _shape(self, name: str, before: Sequence[int], after: Sequence[int], output: str) -> str:
        """Write a Reshape from one shape to another."""
        shape = self._stand_ins.shape(before, after)
        assert shape is not None, "the search has checked it"
        return self._reshape(name, shape, output)


def _factor(product: Product, order: Order) -> tuple[int, ...]:
    """Return the shape of the first factor of a product by heads."""
    batch, rows, *_ = order.sizes
    return (batch, rows, product.depth) if batch == 1 else (batch, 1, rows, product.depth)
