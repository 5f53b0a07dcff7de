"""Resize to the size that an image already has is removed."""

from __future__ import annotations

from anydml.slim.graph import Op
from anydml.slim.operators import is_identity_resize
from anydml.slim.rewrites.rewrite import Rewrite


class ResizeRemoval(Rewrite):
    """Replaces such nodes by Identity."""

    title = "Resize to the same size is removed"

    def new_nodes(self) -> list[Op] | None:
        """See `Rewrite.new_nodes`."""
        for op in self._graph.ops:
            is_identity = is_identity_resize(op, self._analysis)
            self._ops.append(Op.make("Identity", op.inputs[:1], op.outputs, op.proto.name) if is_identity else op)
        return self._ops if self._ops != self._graph.ops else None
