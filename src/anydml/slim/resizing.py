"""Resize to the size that an image has: every place is the middle of an element, whose weight is 1."""

from __future__ import annotations

import numpy as np

from anydml.slim.following import Following
from anydml.slim.graph import Op
from anydml.slim.rewriting import Rewriting


def is_identity(op: Op, following: Following) -> bool:
    """Whether a node is such a Resize."""
    if op.kind != "Resize" or len(op.inputs) < 3:
        return False
    before, after = (following.values.get(name) for name in (op.inputs[0], op.outputs[0]))
    if before is None or after is None or before.tensor is None or after.tensor is None:
        return False
    mode, policy = op.attribute("coordinate_transformation_mode"), op.attribute("keep_aspect_ratio_policy")
    if before.sizes != after.sizes or (mode is not None and mode.s == b"tf_crop_and_resize"):
        return False
    if len(op.inputs) > 3 and op.inputs[3]:
        return policy is None or bool(policy.s == b"stretch")
    # A size may stay the same though the scale is not 1.
    scales = following.values.get(op.inputs[2])
    known = None if scales is None or scales.tensor is None else scales.tensor.array
    return known is not None and bool(np.all(known == 1))


class Resizing(Rewriting):
    """Has Identity in the place of such ones."""

    def rewritten(self) -> list[Op] | None:
        """The new nodes; None where there is none such."""
        for op in self._graph.ops:
            is_one = is_identity(op, self._following)
            self._ops.append(Op.make("Identity", op.inputs[:1], op.outputs, op.proto.name) if is_one else op)
        return self._ops if self._ops != self._graph.ops else None
