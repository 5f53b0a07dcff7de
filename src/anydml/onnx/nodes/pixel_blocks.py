"""Blocks of pixels: DepthToSpace and SpaceToDepth."""

from __future__ import annotations

from anydml.onnx.graph import Node
from anydml.onnx.graph_values import Tensor
from anydml.onnx.lowering import LoweringContext
from anydml.operators.depth_space import blocks_rule
from anydml.text import count_noun
from anydml.tracing.array_verbs import apply_rule

WORDS = {"DCR": "depth_column_row", "CRD": "column_row_depth"}
"""The operators' names of the orders."""


def block_order(node: Node) -> str:
    """Return the order of the attribute `mode`; before version 11 of DepthToSpace and 28 of SpaceToDepth, it is DCR."""
    return WORDS[node.word("mode", (*WORDS,)) or "DCR"]


def _blocksize(node: Node, x: Tensor) -> int:
    size: int = node.get("blocksize")
    if len(x.shape) != 4:
        raise node.error(f"input has shape {list(x.shape)}", "input", "input must have 4 dimensions: N, C, H, W")
    if size < 1:
        raise node.error(f"blocksize is {size}", "blocksize", "blocksize must be 1 or more")
    return size


def depth_to_space(node: Node, ctx: LoweringContext, x: Tensor) -> Tensor:
    """DepthToSpace: rearrange channels into blocks of pixels."""
    size = _blocksize(node, x)
    c = x.shape[1]
    if c % size**2:
        message = f"data has {count_noun(c, 'channel')}, which blocksize² = {size**2} does not divide"
        raise node.error(message, "input", "blocksize² must divide the number of channels")
    return ctx.result(node, apply_rule(blocks_rule, ctx.array(x), size, block_order(node), True)[0])


def space_to_depth(node: Node, ctx: LoweringContext, x: Tensor) -> Tensor:
    """SpaceToDepth: rearrange blocks of pixels into channels."""
    size = _blocksize(node, x)
    height, width = x.shape[2:]
    if height % size or width % size:
        message = f"{count_noun(height, 'row')} and {count_noun(width, 'column')} do not divide by {size}"
        raise node.error(message, "input", "blocksize must divide both")
    return ctx.result(node, apply_rule(blocks_rule, ctx.array(x), size, block_order(node), False)[0])
