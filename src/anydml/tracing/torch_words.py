"""The table of PyTorch's functions and methods that move, with PyTorch's parameters."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from anydml.tracing import axes, images, joins, making, masks, padding, picks, placing, repeating
from anydml.tracing.refusing import broken
from anydml.tracing.structure import leaves
from anydml.tracing.trace import Trace, TracedArray
from anydml.tracing.words import Table, Undecided, Word, call_word, lines

FUNCTIONAL = "nn.functional."


def called(trace: Trace, name: str, arguments: Sequence[Any], keywords: dict[str, Any]) -> Any:
    """Call one of PyTorch's functions or methods on traced tensors.

    Raises:
        FuseError: the function computes, or its arguments do not fit.
    """
    return call_word(TORCH, name, f"torch's {name.removeprefix(FUNCTIONAL)}", trace, arguments, keywords)


def name_of(function: Any) -> str:
    """Return the table's name of one of PyTorch's functions: with its module's name if a method of the name differs."""
    name: str = getattr(function, "__name__", str(function))
    is_functional = getattr(function, "__module__", "") == "torch.nn.functional"
    return FUNCTIONAL + name if is_functional and FUNCTIONAL + name in TORCH else name


def trace_of(tree: Any) -> Trace:
    """Return the trace of the first traced array in a structure."""
    for leaf in leaves(tree):
        if isinstance(leaf, TracedArray):
            return leaf.trace
    raise broken("a call of traced arrays without one")


_X = "@input|self"
_LIKE = "dtype=None -layout -device -requires_grad -memory_format -pin_memory"
_MATRIX = f"{_X} offset=0 dim1=0 dim2=1"
_RESIZED = f"{_X} size=None scale_factor=None"
_UNPOOLED = f"{_X} indices kernel_size stride=None padding=0 output_size=None"
_DTYPES = "float double half bfloat16 int long short bool byte char"
_DECIDED = "nonzero argwhere masked_select unique unique_consecutive item tolist bincount"

TORCH: Table = {
    # Dimensions
    **lines("permute permute_copy", axes.transpose, f"{_X} *dims"),
    **lines("transpose transpose_copy swapaxes swapdims", axes.exchanged, f"{_X} dim0|axis0 dim1|axis1"),
    **lines("t t_copy", axes.t, _X),
    **lines("adjoint", axes.adjoint, _X),
    **lines("movedim moveaxis", axes.moveaxis, f"{_X} source destination"),
    **lines("reshape", axes.reshape, f"{_X} *shape|size"),
    **lines("view view_copy", making.viewed, f"{_X} *shape|size|dtype"),
    **lines("view_as reshape_as", axes.reshaped_as, f"{_X} @other"),
    **lines("ravel", axes.ravel, _X),
    **lines("flatten", axes.flatten, f"{_X} start_dim=0 end_dim=-1"),
    **lines("unflatten", axes.unflatten, f"{_X} dim sizes"),
    **lines("squeeze squeeze_copy", axes.dropped, f"{_X} dim|axis=None"),
    **lines("unsqueeze unsqueeze_copy", axes.unsqueeze, f"{_X} dim|axis"),
    **{f"atleast_{rank}d": Word(axes.raised_each, "**tensors", rank=rank) for rank in (1, 2, 3)},
    **lines("flip", axes.flip, f"{_X} *dims|dim|axis|axes"),
    **lines("fliplr", axes.flip, _X, axis=1),
    **lines("flipud", axes.flip, _X, axis=0),
    **lines("rot90", axes.rot90, f"{_X} k=1 dims=(0,1)"),
    **lines("roll", axes.rolled, f"{_X} shifts dims|dim|axis=None"),
    **lines("fft_fftshift", axes.shifted, f"{_X} dim=None"),
    **lines("fft_ifftshift", axes.shifted, f"{_X} dim=None", by=-1),
    # Joining and splitting
    **lines("cat concat concatenate", joins.cat, "@@tensors dim|axis=0"),
    **lines("stack", joins.stack, "@@tensors dim|axis=0"),
    **lines("hstack", joins.stacked, "@@tensors", rank=1, axis=1),
    **lines("vstack row_stack", joins.stacked, "@@tensors", rank=2, axis=0),
    **lines("dstack", joins.stacked, "@@tensors", rank=3, axis=2),
    **lines("column_stack", joins.column_stack, "@@tensors"),
    **lines("block_diag", joins.block_diag, "@*tensors"),
    **lines("_chunk_cat", joins.chunk_cat, "@@tensors dim num_chunks"),
    **lines("chunk unsafe_chunk", joins.chunk, f"{_X} chunks dim|axis=0"),
    **lines("split unsafe_split", joins.parts, f"{_X} split_size_or_sections|split_size dim|axis=0"),
    **lines(
        "split_with_sizes split_with_sizes_copy unsafe_split_with_sizes", joins.parts, f"{_X} split_sizes dim|axis=0"
    ),
    **lines(
        "tensor_split",
        joins.array_split,
        f"{_X} indices_or_sections|indices|sections|tensor_indices_or_sections dim|axis=0",
        kind=tuple,
    ),
    **lines("hsplit", joins.split_along, f"{_X} indices_or_sections|indices|sections", axis=1, kind=tuple),
    **lines("vsplit", joins.split_along, f"{_X} indices_or_sections|indices|sections", axis=0, kind=tuple),
    **lines("dsplit", joins.split_along, f"{_X} indices_or_sections|indices|sections", axis=2, kind=tuple),
    **lines("unbind unbind_copy", joins.unstack, f"{_X} dim|axis=0"),
    **lines("pad", padding.pad_last, f"{_X} pad mode='constant' value=None"),
    **lines("constant_pad_nd", padding.pad_constant, f"{_X} pad value=0"),
    # Repetition
    **lines("expand expand_copy broadcast_to", repeating.expand, f"{_X} *size|sizes|shape -implicit"),
    **lines("expand_as", repeating.expand_as, f"{_X} @other"),
    **lines("broadcast_tensors", repeating.broadcast_arrays, "@*tensors"),
    **lines("repeat", repeating.tiled, f"{_X} *repeats|sizes"),
    **lines("tile", repeating.tile, f"{_X} *dims"),
    **lines("repeat_interleave", repeating.repeat, f"{_X} repeats dim|axis=None -output_size"),
    **lines("meshgrid", repeating.meshgrid, "@*tensors indexing='ij'"),
    **lines("cartesian_prod", repeating.cartesian_prod, "@*tensors"),
    **lines("combinations", repeating.combinations, f"{_X} r=2 with_replacement=False"),
    # Selection
    **lines("__getitem__", picks.item, f"{_X} key"),
    **lines("narrow narrow_copy", picks.narrow, f"{_X} dim|axis start length"),
    **lines("select select_copy", picks.select, f"{_X} dim|axis index"),
    **lines("slice slice_copy slice.Tensor slice_copy.Tensor", picks.sliced, f"{_X} dim=0 start=None end=None step=1"),
    **lines("index_select", picks.index_select, f"{_X} dim|axis index"),
    **lines("gather", picks.picked_along, f"{_X} dim|axis index -sparse_grad"),
    **lines("take_along_dim", picks.take_along_dim, f"{_X} indices dim|axis=None"),
    **lines("take", picks.element, f"{_X} index"),
    **lines(
        "embedding",
        picks.embedding,
        "input|self @weight padding_idx=None max_norm=None -norm_type -scale_grad_by_freq -sparse",
    ),
    **lines("unfold unfold_copy", picks.windows, f"{_X} dimension size step"),
    **lines("where", masks.where, "@condition input|self=None other=None"),
    **lines("diagonal diagonal_copy", picks.diagonal, _MATRIX),
    **lines("linalg_diagonal", picks.diagonal, "@A offset=0 dim1=-2 dim2=-1"),
    # Replacement of elements
    **lines("scatter", placing.scatter, f"{_X} dim|axis index src|value reduce=None"),
    **lines("index_copy", placing.index_copy, f"{_X} dim|axis index @source"),
    **lines("index_fill", placing.index_fill, f"{_X} dim|axis index value"),
    **lines("index_put", masks.index_put, f"{_X} indices @values accumulate=False"),
    **lines("put", placing.put, f"{_X} index @source accumulate=False"),
    **lines("slice_scatter", placing.slice_scatter, f"{_X} @src dim=0 start=None end=None step=1"),
    **lines("select_scatter", placing.select_scatter, f"{_X} @src dim index"),
    **lines("diagonal_scatter", placing.diagonal_scatter, f"{_X} @src offset=0 dim1=0 dim2=1"),
    **lines("masked_fill", masks.masked_fill, f"{_X} @mask value"),
    **lines("masked_scatter", masks.masked_scatter, f"{_X} mask @source"),
    # Matrices
    **lines("diag", placing.diag, f"{_X} diagonal=0"),
    **lines("diagflat", placing.diagflat, f"{_X} offset=0"),
    **lines("diag_embed", placing.diag_embed, f"{_X} offset=0 dim1=-2 dim2=-1"),
    **lines("tril", masks.triangle, f"{_X} diagonal=0"),
    **lines("triu", masks.triangle, f"{_X} diagonal=0", is_upper=True),
    **lines("one_hot", placing.one_hot, f"{_X} num_classes=-1"),
    # Images
    **lines("pixel_shuffle", images.pixel_shuffle, f"{_X} upscale_factor"),
    **lines("pixel_unshuffle", images.pixel_unshuffle, f"{_X} downscale_factor"),
    **lines("channel_shuffle native_channel_shuffle", images.channel_shuffle, f"{_X} groups"),
    **lines(f"{FUNCTIONAL}unfold im2col", images.columns, f"{_X} kernel_size dilation=1 padding=0 stride=1"),
    **lines(
        "interpolate",
        images.interpolate,
        f"{_RESIZED} mode='nearest' -align_corners recompute_scale_factor=None -antialias",
    ),
    **lines("upsample", images.interpolate, f"{_RESIZED} mode='nearest' -align_corners"),
    **lines("upsample_nearest", images.interpolate, _RESIZED),
    **{f"max_unpool{rank}d": Word(images.max_unpool, _UNPOOLED, rank=rank) for rank in (1, 2, 3)},
    # Constants. Nothing can be written into an empty tensor, so it may be zeros.
    **lines("zeros_like empty_like", making.like, f"{_X} {_LIKE}"),
    **lines("ones_like", making.like, f"{_X} {_LIKE}", number=1),
    **lines("full_like", making.full_like, f"{_X} fill_value {_LIKE}"),
    **lines("new_zeros new_empty", making.new, f"{_X} *size {_LIKE}"),
    **lines("new_ones", making.new, f"{_X} *size {_LIKE}", number=1),
    **lines("new_empty_strided", making.new, f"{_X} size -stride {_LIKE}"),
    **lines("new_full", making.full, f"{_X} size fill_value {_LIKE}"),
    **lines("fill", making.fill, f"{_X} value"),
    # Identities
    **lines("clone contiguous detach cpu alias_copy lift_fresh_copy detach_copy", axes.same, f"{_X} -memory_format"),
    **lines("resolve_conj resolve_neg positive", axes.same, _X),
    **lines("conj conj_physical", axes.conjugate, _X),
    **lines("real", axes.real, _X),
    **lines("to", making.to, f"{_X} **given dtype=None device=None other=None -non_blocking -copy -memory_format"),
    **lines("type_as", making.to, f"{_X} *other"),
    **{name: Word(making.as_dtype, f"{_X} -memory_format", name=name) for name in _DTYPES.split()},
    **lines("numel nelement", lambda x: x.count, _X),
    # Unsupported, with the reason
    **{name: Undecided(name) for name in _DECIDED.split()},
}
"""PyTorch's functions and methods by name."""
