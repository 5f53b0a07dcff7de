"""Resize to the size that an image has: every place is the middle of an element, whose weight is 1."""

from __future__ import annotations

import numpy as np
from onnx import ModelProto, NodeProto, helper

from anydml.onnx.graph import plain_domain
from anydml.slim.following import Following


def is_identity(node: NodeProto, following: Following) -> bool:
    """Whether a node is such a Resize."""
    if node.op_type != "Resize" or plain_domain(node.domain) or len(node.input) < 3:
        return False
    before, after = (following.values.get(name) for name in (node.input[0], node.output[0]))
    if before is None or after is None or before.tensor is None or after.tensor is None:
        return False
    attributes = {each.name: each for each in node.attribute}
    mode = attributes.get("coordinate_transformation_mode")
    if before.sizes != after.sizes or (mode is not None and mode.s == b"tf_crop_and_resize"):
        return False
    if len(node.input) > 3 and node.input[3]:
        policy = attributes.get("keep_aspect_ratio_policy")
        return policy is None or bool(policy.s == b"stretch")
    # A size may stay the same though the scale is not 1.
    scales = following.values.get(node.input[2])
    known = None if scales is None or scales.tensor is None else scales.tensor.array
    return known is not None and bool(np.all(known == 1))


def without_resizing(model: ModelProto, following: Following) -> ModelProto | None:
    """The model with Identity in the place of such nodes; None where there is none."""
    found = {k for k, node in enumerate(model.graph.node) if is_identity(node, following)}
    if not found:
        return None
    result = ModelProto()
    result.CopyFrom(model)
    del result.graph.node[:]
    for k, node in enumerate(model.graph.node):
        same = helper.make_node("Identity", node.input[:1], node.output, node.name)
        result.graph.node.append(same if k in found else node)
    return result
