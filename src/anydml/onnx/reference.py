"""SplitTraining and ConcatTraining for onnx's reference evaluator, which lacks com.microsoft's operators.

>>> from onnx.reference import ReferenceEvaluator
>>> from anydml.onnx import reference_ops
>>> evaluator = ReferenceEvaluator(model, new_ops=reference_ops)  # doctest: +SKIP

The evaluator does not pass `new_ops` to a model's functions; inline these first (`onnx.inliner`).
"""

from __future__ import annotations

from typing import Any

from onnx.reference.op_run import OpRun

from anydml.functions import concat_training, split_training
from anydml.onnx.graph import MICROSOFT
from anydml.onnx.tensor_protos import Array


class SplitTraining(OpRun):
    """com.microsoft SplitTraining, version 1: an empty `split` gives equal parts."""

    op_domain = MICROSOFT

    def _run(self, x: Array, split: Array | None = None, axis: int | None = None, **_: Any) -> tuple[Array, ...]:
        return tuple(split_training(x, split, axis or 0, len(self.onnx_node.output)))


class ConcatTraining(OpRun):
    """com.microsoft ConcatTraining, version 1: the joined tensor, and the inputs' sizes along the axis."""

    op_domain = MICROSOFT

    def _run(self, *inputs: Array, axis: int | None = None, **_: Any) -> tuple[Array, ...]:
        if axis is None:
            raise ValueError("ConcatTraining has no attribute axis")
        return concat_training(inputs, axis)[: len(self.onnx_node.output)]


reference_ops: list[type[OpRun]] = [SplitTraining, ConcatTraining]
"""Operators for `onnx.reference.ReferenceEvaluator(model, new_ops=reference_ops)`."""
