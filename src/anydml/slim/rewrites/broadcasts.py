"""Values that are not repeated for nodes that broadcast them: what Expand makes, and matrices in grouped attention.

For MatMul, the batch gets an axis for the repetitions, which has size 1 in the second factor. Element by element nodes
between the repeated matrices and the product, such as a scale, are computed once.
"""

from __future__ import annotations

import contextlib

import numpy as np

from anydml.proving.elementwise import ELEMENTWISE_OPERATORS
from anydml.slim.graph import Op
from anydml.slim.pieces import as_box
from anydml.slim.rewrites.rewrite import Rewrite


class Broadcasting(Rewrite):
    """Finds nodes that read repeated values."""

    title = "what repeats is broadcast"

    def new_nodes(self) -> list[Op] | None:
        """See `Rewrite.new_nodes`."""
        is_found = False
        for op in self._graph.ops:
            is_candidate = op.op_type in ELEMENTWISE_OPERATORS | {"MatMul"} and self._are_known(*op.inputs, *op.outputs)
            if is_candidate and op.op_type == "MatMul" and self._write_product(op):
                is_found = True
                continue
            new_op = self._without_expand(op) if is_candidate else op
            is_found = is_found or new_op is not op
            self._ops.append(new_op)
        return self._ops if is_found else None

    def _without_expand(self, op: Op) -> Op:
        """Return a node that reads values before they are expanded, if the node itself can broadcast them."""
        values = self._values
        matrix_axes = 2 if op.op_type == "MatMul" else 0
        inputs = [*op.inputs]
        for k, name in enumerate(op.inputs):
            maker = self._graph.maker(name)
            if maker is None or maker.op_type != "Expand" or not self._are_known(maker.inputs[0]):
                continue
            sizes = values[maker.inputs[0]].sizes
            other_shapes = [values[name].sizes for i, name in enumerate(inputs) if name and i != k]
            shapes = [sizes, *other_shapes, values[op.outputs[0]].sizes]
            if min(map(len, shapes)) < matrix_axes or (matrix_axes and sizes[-2:] != values[name].sizes[-2:]):
                continue
            *batches, result = (shape[: len(shape) - matrix_axes] for shape in shapes)
            with contextlib.suppress(ValueError):
                if np.broadcast_shapes(*batches) == tuple(result):
                    inputs[k] = maker.inputs[0]
        return op.copy_with(inputs)

    def _write_product(self, op: Op) -> bool:
        """Rewrite a product whose matrices repeat; return whether that was done."""
        first, second, result = (self._values[name].sizes for name in (*op.inputs, *op.outputs))
        if not len(first) == len(second) == len(result) > 2 or not first[:-2] == second[:-2] == result[:-2]:
            return False
        root, chain = self._root(op.inputs[1])
        axes_and_batch = self._repeated_axes(root)
        if axes_and_batch is None:
            return False
        batch, repeated = axes_and_batch
        left_shape = self._stand_ins.shape(first, (*batch, *first[-2:]))
        right_shape = self._stand_ins.shape(second, (*batch, *second[-2:]))
        result_shape = self._stand_ins.shape((*batch, first[-2], second[-1]), result)
        if left_shape is None or right_shape is None or result_shape is None:
            return False
        first_factor, second_factor = self._reshape(op.inputs[0], left_shape, ""), self._reshape(root, right_shape, "")
        bounds = [(0,) * len(repeated), (1,) * len(repeated), repeated]
        second_factor = self._add(
            "Slice", [second_factor, *(self._integers(second_factor, bound) for bound in bounds)], ""
        )
        for chain_op, name in chain:
            new_name = self._graph.new_name(chain_op.outputs[0], "shared")
            self._ops.append(
                chain_op.copy_with([second_factor if read == name else read for read in chain_op.inputs], [new_name])
            )
            second_factor = new_name
        new_name, (output,) = self._graph.new_name(op.outputs[0], "shared"), op.outputs
        self._ops.append(op.copy_with([first_factor, second_factor], [new_name]))
        self._reshape(new_name, result_shape, output)
        return True

    def _root(self, name: str) -> tuple[str, list[tuple[Op, str]]]:
        """Walk back over element-wise nodes of one large tensor; return its name, and the nodes with their inputs."""
        chain: list[tuple[Op, str]] = []
        while self._graph.is_read_once(name):
            op = self._graph.maker(name)
            if op is None or op.op_type not in ELEMENTWISE_OPERATORS:
                break
            large = [name for name in op.inputs if name and not self._is_single(name)]
            if len(large) != 1 or large[0] not in self._values:
                break
            chain.append((op, large[0]))
            name = large[0]
        return name, chain[::-1]

    def _repeated_axes(self, name: str) -> tuple[tuple[int, ...], tuple[int, ...]] | None:
        """Return the batch of matrices, split where they repeat, and its repeated axes; None if there are none."""
        value = self._values[name]
        pieces = value.pieces_of_sources
        box = as_box(pieces[0], value.sizes) if pieces is not None and len(pieces) == 1 else None
        if box is None or pieces is None or pieces[0].source < 0:
            return None
        batch: list[int] = []
        repeated: list[int] = []
        for axis, size in enumerate(value.sizes):
            digits = sorted(
                (digit for digit_axis, digit in box.digits if digit_axis == axis), key=lambda digit: -digit.step
            )
            if axis >= len(value.sizes) - 2:
                if any(digit.size > 1 and not digit.stride for digit in digits):
                    return None
                continue
            repeated += [len(batch) + k for k, digit in enumerate(digits) if not digit.stride]
            batch += [digit.size for digit in digits] or [size]
        return (tuple(batch), tuple(repeated)) if repeated else None
