"""Products that are computed in the order in which they are read, so that nothing need be transposed.

The numbers of a product by a constant matrix are the same dot products wherever they stand: by heads, if the matrix is
given as one for each head; transposed, if it stands on the left, or Gemm takes what it is multiplied by as it lies.
What is done to them element by element goes along. Each node that changes its order reads what was there put into the
new order, and is followed by what puts it back, all of which composition removes where it can.
"""

from __future__ import annotations

from collections.abc import Sequence

from anydml.slim.graph import Op
from anydml.slim.grouping import FLIP, Grouping
from anydml.slim.layouts import Layout, flipped
from anydml.slim.products import Product, Reading, product_of, row_added
from anydml.slim.rewriting import Rewriting


class Laying(Rewriting):
    """Looks for such products."""

    def rewritten(self) -> list[Op] | None:
        """The nodes with all such products; None where there is none."""
        self._reading = Reading(self._following)
        groups = Grouping(self._reading, self._stand_ins).groups()
        if not groups:
            return None
        of_op = {number: group for group in groups for number in group.nodes}
        sinks = {number: group for group in groups for number in group.sinks}
        roots = {self._graph.makers[group.root]: group for group in groups if group.entry is None}
        skipped: set[int] = set()
        for number, op in enumerate(self._graph.ops):
            product = product_of(self._following, number) if number in roots or number in sinks else None
            if number in roots:
                assert product is not None, "it was one when it was found"
                group, row = roots[number], row_added(self._following, product)
                # Gemm adds it, too.
                row = row if row and group.layout.perm == FLIP and row[0] in group.nodes else None
                skipped.update(row[:1] if row else ())
                self._product(op, product, group.layout, number in sinks, row)
            elif number in skipped:
                continue
            elif product is not None:
                self._sink(op, product)
            elif number in of_op:
                self._elementwise(op, of_op[number].layout)
            else:
                self._ops.append(op)
        return self._ops

    def _product(
        self, op: Op, product: Product, layout: Layout, reads_transposed: bool, row: tuple[int, str] | None
    ) -> None:
        """A product in the new order, and what puts it back."""
        read, constant = self._graph.constants.read, self._graph.constant
        weights = read(product.weights)
        weights = weights.T if product.is_transposed else weights
        bias_name = row[1] if row else product.bias
        bias = read(bias_name).reshape(-1) if bias_name else None
        output = self._graph.ops[row[0]].outputs[0] if row else op.outputs[0]
        label = op.proto.name or op.outputs[0]
        added: list[str] = []
        if layout.perm == FLIP:
            left = constant(product.weights, weights.T)
            if bias is not None:
                added = [constant(bias_name, bias.reshape(-1, 1))]
            if self._is_transposed(product) or reads_transposed:
                transposed = self._moved(product.given, Layout((product.rows, product.depth), FLIP))
                made = self._add("Gemm" if added else "MatMul", [left, transposed, *added], "", label)
            else:
                flat = self._shaped(product.given, (product.rows, product.depth))
                made = self._add("Gemm", [left, flat, *added], "", label, transB=1)
        else:
            batch, rows, heads, width = layout.sizes
            split = weights.reshape(1, product.depth, heads, width).transpose(0, 2, 1, 3)
            sizes = (batch, rows, product.depth) if batch == 1 else (batch, 1, rows, product.depth)
            factors = [self._shaped(product.given, sizes), constant(product.weights, split)]
            made = self._add("MatMul", factors, "", label)
            if bias is not None:
                added = [made, constant(bias_name, bias.reshape(1, heads, 1, width))]
                made = self._add("Add", added, "", self._graph.new_name(label, "bias"))
        self._back(made, layout, output)

    def _is_transposed(self, product: Product) -> bool:
        found = self._reading.source(product.given)
        return found is not None and flipped(found[1]) == (product.rows, product.depth)

    def _sink(self, op: Op, product: Product) -> None:
        """A product of what lies the other way around."""
        transposed = self._moved(product.given, Layout((product.rows, product.depth), FLIP))
        names = [transposed, product.weights, *([product.bias] if product.bias else [])]
        label = op.proto.name or op.outputs[0]
        made = self._add("Gemm", names, "", label, transA=1, transB=int(product.is_transposed))
        self._reshape(made, self._values[op.outputs[0]].sizes, op.outputs[0])

    def _elementwise(self, op: Op, layout: Layout) -> None:
        (output,) = op.outputs
        sizes = self._values[output].sizes
        fine = layout.cut(sizes)
        assert fine is not None, "it fits"
        inputs = [*op.inputs]
        for k, name in enumerate(inputs):
            value = self._values.get(name)
            if value is None or value.tensor is None or value.tensor.size == 1:
                continue
            if value.is_constant:
                array = fine.of_constant(self._graph.constants.read(name), sizes)
                assert array is not None, "it fits"
                inputs[k] = self._graph.constant(name, array)
            else:
                inputs[k] = self._moved(name, fine)
        made = self._graph.new_name(output, "laid")
        self._ops.append(op.replaced(inputs, [made]))
        self._back(made, fine, output)

    def _moved(self, name: str, layout: Layout) -> str:
        """A value in the new order."""
        return self._add("Transpose", [self._shaped(name, layout.sizes)], "", perm=layout.perm)

    def _back(self, made: str, layout: Layout, name: str) -> None:
        """Put a result back into the old order, under its old name."""
        transposed = self._add("Transpose", [self._shaped(made, layout.transposed)], "", perm=layout.back)
        self._reshape(transposed, self._values[name].sizes, name)

    def _shaped(self, name: str, sizes: Sequence[int]) -> str:
        return self._reshape(name, sizes, self._graph.new_name(name, "shape"))
