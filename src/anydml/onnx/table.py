"""The table of supported ONNX operators. Start here to read this package, or to add an operator.

    (domain, type): Entry(versions, run, describe, decided_by, signature)

Versions are those in which the operator changed according to onnx (Changelog.md); missing ones are refused. `run`
lowers a node to moves (`anydml.onnx.nodes`). `describe` translates it to a DirectML desc (`anydml.onnx.directml`); it
is None where ONNX Runtime's DirectML provider runs no operator, because it renames a buffer or works on the CPU.
"""

from __future__ import annotations

from collections.abc import Mapping

from anydml.onnx import custom
from anydml.onnx.directml import fill_descs as as_values
from anydml.onnx.directml import index_descs as by_index
from anydml.onnx.directml import layouts as as_layout
from anydml.onnx.directml import split_slice_pad as as_parts
from anydml.onnx.graph import MICROSOFT, Entry
from anydml.onnx.nodes import (
    computed_nodes,
    indexing,
    making,
    padding,
    pixel_blocks,
    resizing,
    scattering,
    sequences,
    shaping,
    split_slice_concat,
)
from anydml.onnx.signature import CONCAT_TRAINING, SPLIT_TRAINING

_RECENT = (21, 23, 24, 25)
_TENSORS_ONLY = (13, *_RECENT)
_ARITHMETIC = (7, 13, 14)
"""Versions that several operators have in common."""

NODES: Mapping[tuple[str, str], Entry] = {
    # Other axes, other shapes
    ("", "BitCast"): Entry((26,), shaping.bit_cast),
    ("", "Expand"): Entry((8, 13), shaping.expand, as_layout.expand, (1,)),
    ("", "Dropout"): Entry((1, 6, 7, 10, 12, 13, 22), shaping.dropout, None, (1, 2)),
    ("", "Flatten"): Entry((1, 9, 11, *_TENSORS_ONLY), shaping.flatten),
    ("", "Identity"): Entry((1, 13, 14, 16, 19, *_RECENT), shaping.identity),
    ("", "Reshape"): Entry((1, 5, 13, 14, 19, *_RECENT), shaping.reshape, None, (1,)),
    ("", "Squeeze"): Entry((1, 11, *_TENSORS_ONLY), shaping.squeeze, None, (1,)),
    ("", "Tile"): Entry((6, 13), shaping.tile, as_parts.tile, (1,)),
    ("", "Transpose"): Entry((1, *_TENSORS_ONLY), shaping.transpose, as_layout.transpose),
    ("", "Unsqueeze"): Entry((1, 11, *_TENSORS_ONLY), shaping.unsqueeze, None, (1,)),
    # Parts and wholes
    ("", "CenterCropPad"): Entry((18,), padding.center_crop_pad, None, (1,)),
    ("", "Compress"): Entry((9, 11, 28), indexing.compress, None, (1,)),
    ("", "Concat"): Entry((1, 4, 11, 13), split_slice_concat.concat, as_parts.join),
    ("", "Pad"): Entry((1, 2, 11, 13, 18, 19, *_RECENT), padding.pad, as_parts.pad, (1, 2, 3)),
    ("", "Slice"): Entry((1, 10, 11, 13), split_slice_concat.slice_, as_parts.slice_, (1, 2, 3, 4)),
    ("", "Split"): Entry((2, 11, 13, 18), split_slice_concat.split, as_parts.split, (1,)),
    (MICROSOFT, "ConcatTraining"): Entry((1,), split_slice_concat.concat, as_parts.join, (), CONCAT_TRAINING),
    (MICROSOFT, "SplitTraining"): Entry((1,), split_slice_concat.split, as_parts.split, (1,), SPLIT_TRAINING),
    # Indices
    ("", "Gather"): Entry((1, 11, 13), indexing.pick, by_index.pick),
    ("", "GatherElements"): Entry((11, 13), indexing.pick_along, by_index.pick_along),
    ("", "GatherND"): Entry((11, 12, 13), indexing.pick_points, by_index.pick_points),
    ("", "ReverseSequence"): Entry((10, 28), indexing.reverse_sequence, by_index.reverse_sequence),
    # What is written over
    ("", "EyeLike"): Entry((9, 22), scattering.eye_like, as_values.eye_like),
    ("", "OneHot"): Entry((9, 11, 28), scattering.one_hot, by_index.one_hot, (1,)),
    ("", "Scatter"): Entry((9, 11), scattering.scatter_elements, by_index.scatter_elements),
    ("", "ScatterElements"): Entry((11, 13, 16, 18), scattering.scatter_elements, by_index.scatter_elements),
    ("", "ScatterND"): Entry((11, 13, 16, 18), scattering.scatter_nd, by_index.scatter_nd),
    ("", "TensorScatter"): Entry((24,), scattering.tensor_scatter),
    ("", "Trilu"): Entry((14,), scattering.trilu, as_values.trilu, (1,)),
    ("", "Where"): Entry((9, 16), scattering.where, as_layout.element_wise_if),
    # Blocks of pixels
    ("", "DepthToSpace"): Entry((1, 11, 13, 28), pixel_blocks.depth_to_space, as_layout.depth_to_space),
    ("", "Resize"): Entry((10, 11, 13, 18, 19), resizing.resize, as_layout.upsample, (1, 2, 3)),
    ("", "SpaceToDepth"): Entry((1, 13, 28), pixel_blocks.space_to_depth, as_layout.space_to_depth),
    ("", "Upsample"): Entry((1, 7, 9, 10), resizing.resize, as_layout.upsample, (1,)),
    # Values
    ("", "Constant"): Entry((1, 9, 11, 12, 13, 19, *_RECENT), making.constant),
    ("", "ConstantOfShape"): Entry((9, 20, *_RECENT), making.constant_of_shape, as_values.constant_of_shape, (0,)),
    ("", "NonZero"): Entry((9, 13), making.non_zero, as_values.non_zero),
    ("", "Range"): Entry((11, 27), making.range_, as_values.range_, (0, 1, 2)),
    ("", "Shape"): Entry((1, 13, 15, 19, *_RECENT), making.shape),
    ("", "Size"): Entry((1, 13, 19, *_RECENT), making.size),
    # Sequences
    ("", "ConcatFromSequence"): Entry((11,), sequences.concat_from_sequence),
    ("", "SequenceAt"): Entry((11,), sequences.sequence_at, None, (1,)),
    ("", "SequenceConstruct"): Entry((11,), sequences.sequence_construct),
    ("", "SequenceEmpty"): Entry((11,), sequences.sequence_empty),
    ("", "SequenceErase"): Entry((11,), sequences.sequence_erase, None, (1,)),
    ("", "SequenceInsert"): Entry((11,), sequences.sequence_insert, None, (2,)),
    ("", "SequenceLength"): Entry((11,), sequences.sequence_length),
    ("", "SplitToSequence"): Entry((11, 24), sequences.split_to_sequence, None, (1,)),
    # Optional values
    ("", "Optional"): Entry((15, 28), sequences.optional_value),
    ("", "OptionalGetElement"): Entry((15, 18, 28), sequences.get_element),
    ("", "OptionalHasElement"): Entry((15, 18, 28), sequences.has_element),
    # Shape arithmetic, which is folded
    ("", "Cast"): Entry((1, 6, 9, 13, 19, *_RECENT, 28), computed_nodes.cast, as_values.cast),
    ("", "CastLike"): Entry((15, 19, *_RECENT), computed_nodes.cast_like, as_values.cast),
    ("", "ReduceProd"): Entry((1, 11, 13, 18), computed_nodes.reduce_prod, None, (1,)),
    **{("", name): Entry(_ARITHMETIC, computed_nodes.arithmetic) for name in ("Add", "Sub", "Mul", "Div")},
    **{("", name): Entry((1, 6, 8, 12, 13), computed_nodes.arithmetic) for name in ("Min", "Max")},
    **{("", name): Entry((1, 6, 13), computed_nodes.arithmetic) for name in ("Ceil", "Floor", "Neg", "Abs")},
    **{("", name): Entry((7, 9, 13), computed_nodes.arithmetic) for name in ("Greater", "Less")},
    **{("", name): Entry((7,), computed_nodes.arithmetic) for name in ("And", "Or")},
    **{("", name): Entry((12, 16), computed_nodes.arithmetic) for name in ("GreaterOrEqual", "LessOrEqual")},
    ("", "Equal"): Entry((7, 11, 13, 19), computed_nodes.arithmetic),
    ("", "Mod"): Entry((10, 13, 28), computed_nodes.arithmetic),
    ("", "Not"): Entry((1,), computed_nodes.arithmetic),
    # The functions of the operators' files
    **custom.NODES,
}
"""Operators by domain and type."""
