"""Rewrites of nodes that compute, after which less needs to be moved."""

from __future__ import annotations

from collections.abc import Sequence

from anydml.slim.rewrites.broadcasts import Broadcasting
from anydml.slim.rewrites.columns import ColumnSplitting
from anydml.slim.rewrites.product_orders import ProductOrdering
from anydml.slim.rewrites.reshapes import ReshapePushing
from anydml.slim.rewrites.rewrite import Rewrite
from anydml.slim.rewrites.signs import SignFolding
from anydml.slim.rewrites.transposes import TransposePushing

REWRITES: Sequence[type[Rewrite]] = (
    Broadcasting,
    ColumnSplitting,
    TransposePushing,
    SignFolding,
    ProductOrdering,
    ReshapePushing,
    # The first pass removes axes, which allows others to be removed.
    ReshapePushing,
)
"""All rewrites in order; each sees what the ones before have made."""
