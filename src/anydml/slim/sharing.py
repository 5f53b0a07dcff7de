"""What nodes broadcast themselves need not be repeated before: matrices in grouped attention, and what is expanded.

For MatMul, the batch is written with an axis of its own for what repeats, which has size 1 where the same matrix is
meant. What is computed from the repeated matrices element by element, as a scale is, is computed once.
"""

from __future__ import annotations

import contextlib

import numpy as np

from anydml.slim.computing import ELEMENTWISE
from anydml.slim.graph import Op
from anydml.slim.parts import boxed
from anydml.slim.rewriting import Rewriting


class Sharing(Rewriting):
    """Looks for such products."""

    def rewritten(self) -> list[Op] | None:
        """The nodes with all such products; None where there is none."""
        is_found = False
        for op in self._graph.ops:
            is_candidate = (op.kind == "MatMul" or op.kind in ELEMENTWISE) and self._is_known(op)
            if is_candidate and op.kind == "MatMul" and self._product(op):
                is_found = True
                continue
            plain = self._plain(op) if is_candidate else op
            is_found = is_found or plain is not op
            self._ops.append(plain)
        return self._ops if is_found else None

    def _is_known(self, op: Op) -> bool:
        """Whether all sizes are known that a node reads and makes."""
        values = (self._values.get(name) for name in (*op.inputs, *op.outputs) if name)
        return all(value is not None and value.tensor is not None for value in values)

    def _plain(self, op: Op) -> Op:
        """The node reading what was there before it was expanded, where it broadcasts that itself."""
        values = self._values
        kept = 2 if op.kind == "MatMul" else 0
        inputs = [*op.inputs]
        for k, name in enumerate(op.inputs):
            maker = self._graph.maker(name)
            given = values.get(maker.inputs[0]) if maker is not None and maker.kind == "Expand" else None
            if maker is None or given is None or given.tensor is None:
                continue
            others = [values[each].sizes for i, each in enumerate(inputs) if each and i != k]
            shapes = [given.sizes, *others, values[op.outputs[0]].sizes]
            if min(map(len, shapes)) < kept or (kept and given.sizes[-2:] != values[name].sizes[-2:]):
                continue
            *batches, result = (sizes[: len(sizes) - kept] for sizes in shapes)
            with contextlib.suppress(ValueError):
                if np.broadcast_shapes(*batches) == tuple(result):
                    inputs[k] = maker.inputs[0]
        return op.replaced(inputs)

    def _product(self, op: Op) -> bool:
        """Write a product by matrices that repeat; whether it is one."""
        first, second, result = (self._values[name].sizes for name in (*op.inputs, *op.outputs))
        if not len(first) == len(second) == len(result) > 2 or not first[:-2] == second[:-2] == result[:-2]:
            return False
        root, chain = self._root(op.inputs[1])
        found = self._repeated(root)
        if found is None:
            return False
        batch, repeats = found
        left_shape = self._stand_ins.shape(first, (*batch, *first[-2:]))
        right_shape = self._stand_ins.shape(second, (*batch, *second[-2:]))
        behind = self._stand_ins.shape((*batch, first[-2], second[-1]), result)
        if left_shape is None or right_shape is None or behind is None:
            return False
        left, right = self._reshape(op.inputs[0], left_shape, ""), self._reshape(root, right_shape, "")
        bounds = [(0,) * len(repeats), (1,) * len(repeats), repeats]
        right = self._add("Slice", [right, *(self._integers(right, each) for each in bounds)], "")
        for each, name in chain:
            made = self._graph.new_name(each.outputs[0], "shared")
            self._ops.append(each.replaced([right if read == name else read for read in each.inputs], [made]))
            right = made
        made, (output,) = self._graph.new_name(op.outputs[0], "shared"), op.outputs
        self._ops.append(op.replaced([left, right], [made]))
        self._reshape(made, behind, output)
        return True

    def _root(self, name: str) -> tuple[str, list[tuple[Op, str]]]:
        """What repeats before it is scaled, and the nodes that do it, in order, each with the name that it reads."""
        chain: list[tuple[Op, str]] = []
        while self._graph.is_read_once(name):
            op = self._graph.maker(name)
            if op is None or op.kind not in ELEMENTWISE:
                break
            large = [each for each in op.inputs if not self._is_single(each)]
            if len(large) != 1 or large[0] not in self._values:
                break
            chain.append((op, large[0]))
            name = large[0]
        return name, chain[::-1]

    def _is_single(self, name: str) -> bool:
        value = self._values.get(name)
        return not name or (value is not None and value.tensor is not None and value.tensor.size == 1)

    def _repeated(self, name: str) -> tuple[tuple[int, ...], tuple[int, ...]] | None:
        """The sizes of a batch, cut where it repeats, and which of them repeat; None where it does not."""
        value = self._values[name]
        parts = value.parts[0] if value.forms else None
        box = boxed(parts[0], value.sizes) if parts is not None and len(parts) == 1 else None
        if box is None or parts is None or parts[0].source < 0:
            return None
        batch: list[int] = []
        repeats: list[int] = []
        for axis, size in enumerate(value.sizes):
            runs = sorted((run for own, run in box.runs if own == axis), key=lambda run: -run.step)
            if axis >= len(value.sizes) - 2:
                if any(run.size > 1 and not run.stride for run in runs):
                    return None
                continue
            for run in runs or ():
                if not run.stride:
                    repeats.append(len(batch))
                batch.append(run.size)
            if not runs:
                batch.append(size)
        return (tuple(batch), tuple(repeats)) if repeats else None
