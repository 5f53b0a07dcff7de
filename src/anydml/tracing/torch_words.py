"""The table of PyTorch's functions and methods that move, with PyTorch's parameters."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from anydml.tracing import axes, images, indexing, making, padding, parts, picking, putting, replacing, selecting, verbs
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


def _transpose(x: TracedArray, dim0: int, dim1: int, others: Sequence[int]) -> TracedArray:
    # All dimensions are accepted, too, as by NumPy.
    return axes.transpose(x, (dim0, dim1, *others)) if others else axes.swapaxes(x, dim0, dim1)


def _new(x: TracedArray, size: Any, dtype: Any, number: Any = None) -> TracedArray:
    return verbs.fill(x, size, number, dtype)


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
    **lines("transpose_copy swapaxes swapdims", axes.swapaxes, f"{_X} dim0|axis0 dim1|axis1"),
    **lines("transpose", _transpose, f"{_X} dim0 dim1 **others"),
    **lines("t t_copy", axes.t, _X),
    **lines("T", axes.transpose, _X),
    **lines("mT", axes.swapaxes, _X, axis1=-1, axis2=-2),
    **lines("H", axes.h, _X),
    **lines("mH adjoint", lambda x: axes.swapaxes(axes.conjugate(x), -1, -2), _X),
    **lines("movedim moveaxis", axes.moveaxis, f"{_X} source destination"),
    **lines("reshape", axes.reshape, f"{_X} *shape|size"),
    **lines("view view_copy", making.view, f"{_X} *shape|size|dtype"),
    **lines("view_as reshape_as", lambda x, other: axes.reshape(x, other.shape), f"{_X} @other"),
    **lines("ravel", axes.ravel, _X),
    **lines("flatten", axes.flatten, f"{_X} start_dim=0 end_dim=-1"),
    **lines("unflatten", axes.unflatten, f"{_X} dim sizes"),
    **lines("squeeze squeeze_copy", axes.squeeze, f"{_X} dim|axis=None", is_strict=False),
    **lines("unsqueeze unsqueeze_copy", axes.expand_dims, f"{_X} dim|axis"),
    **{f"atleast_{rank}d": Word(axes.atleast, "**tensors", rank=rank) for rank in (1, 2, 3)},
    **lines("flip", axes.flip, f"{_X} *dims|dim|axis|axes"),
    **lines("fliplr", axes.flip, _X, axis=1),
    **lines("flipud", axes.flip, _X, axis=0),
    **lines("rot90", axes.rot90, f"{_X} k=1 dims=(0,1)"),
    **lines("roll", axes.roll_dims, f"{_X} shifts dims|dim|axis=None"),
    **lines("fft_fftshift", axes.shift, f"{_X} dim=None"),
    **lines("fft_ifftshift", axes.shift, f"{_X} dim=None", by=-1),
    # Joining and splitting
    **lines("cat concat concatenate", parts.cat, "@@tensors dim|axis=0"),
    **lines("stack", parts.stack, "@@tensors dim|axis=0"),
    **lines("hstack", parts.stack_along, "@@tensors", rank=1, axis=1),
    **lines("vstack row_stack", parts.stack_along, "@@tensors", rank=2, axis=0),
    **lines("dstack", parts.stack_along, "@@tensors", rank=3, axis=2),
    **lines("column_stack", parts.column_stack, "@@tensors"),
    **lines("block_diag", parts.block_diag, "@*tensors"),
    **lines("_chunk_cat", parts.chunk_cat, "@@tensors dim num_chunks"),
    **lines("chunk unsafe_chunk", parts.chunk, f"{_X} chunks dim|axis=0"),
    **lines("split unsafe_split", parts.split_sizes, f"{_X} split_size_or_sections|split_size dim|axis=0"),
    **lines(
        "split_with_sizes split_with_sizes_copy unsafe_split_with_sizes",
        parts.split_sizes,
        f"{_X} split_sizes dim|axis=0",
    ),
    **lines(
        "tensor_split",
        parts.array_split,
        f"{_X} indices_or_sections|indices|sections|tensor_indices_or_sections dim|axis=0",
        kind=tuple,
    ),
    **lines("hsplit", parts.split_along, f"{_X} indices_or_sections|indices|sections", axis=1, kind=tuple),
    **lines("vsplit", parts.split_along, f"{_X} indices_or_sections|indices|sections", axis=0, kind=tuple),
    **lines("dsplit", parts.split_along, f"{_X} indices_or_sections|indices|sections", axis=2, kind=tuple),
    **lines("unbind unbind_copy", parts.unstack, f"{_X} dim|axis=0"),
    **lines("pad", padding.pad_last, f"{_X} pad mode='constant' value=None"),
    **lines("constant_pad_nd", lambda x, pad, value: padding.pad_last(x, pad, "constant", value), f"{_X} pad value=0"),
    # Repetition
    **lines("expand expand_copy broadcast_to", parts.expand, f"{_X} *size|sizes|shape -implicit"),
    **lines("expand_as", lambda x, other: parts.expand(x, other.shape), f"{_X} @other"),
    **lines("broadcast_tensors", verbs.broadcast_all, "@*tensors"),
    **lines("repeat", parts.tile_dims, f"{_X} *repeats|sizes"),
    **lines("tile", parts.tile, f"{_X} *dims"),
    **lines("repeat_interleave", parts.repeat, f"{_X} repeats dim|axis=None -output_size"),
    **lines("meshgrid", parts.meshgrid, "@*tensors indexing='ij'"),
    **lines("cartesian_prod", parts.cartesian_prod, "@*tensors"),
    **lines("combinations", parts.combinations, f"{_X} r=2 with_replacement=False"),
    # Selection
    **lines("__getitem__", indexing.indexed, f"{_X} key"),
    **lines("narrow narrow_copy", selecting.narrow, f"{_X} dim|axis start length"),
    **lines("select select_copy", selecting.select, f"{_X} dim|axis index"),
    **lines(
        "slice slice_copy slice.Tensor slice_copy.Tensor",
        selecting.slice_dim,
        f"{_X} dim=0 start=None end=None step=1",
    ),
    **lines("index_select", selecting.index_select, f"{_X} dim|axis index"),
    **lines("gather", selecting.select_along, f"{_X} dim|axis index -sparse_grad"),
    **lines("take_along_dim", selecting.take_along_dim, f"{_X} indices dim|axis=None"),
    **lines("take", lambda x, by: picking.pick(axes.ravel(x), by, 0), f"{_X} index"),
    **lines(
        "embedding",
        selecting.embedding,
        "input|self @weight padding_idx=None max_norm=None -norm_type -scale_grad_by_freq -sparse",
    ),
    **lines("unfold unfold_copy", verbs.windows, f"{_X} dimension size step"),
    **lines("where", selecting.where, "@condition input|self=None other=None"),
    **lines("diagonal diagonal_copy", selecting.diagonal, _MATRIX),
    **lines("linalg_diagonal", selecting.diagonal, "@A offset=0 dim1=-2 dim2=-1"),
    # Replacement of elements
    **lines("scatter", replacing.scatter, f"{_X} dim|axis index src|value reduce=None"),
    **lines("index_copy", replacing.index_copy, f"{_X} dim|axis index @source"),
    **lines("index_fill", replacing.index_fill, f"{_X} dim|axis index value"),
    **lines("index_put", replacing.index_put, f"{_X} indices @values accumulate=False"),
    **lines("put", replacing.put_flat, f"{_X} index @source accumulate=False"),
    **lines("slice_scatter", replacing.slice_scatter, f"{_X} @src dim=0 start=None end=None step=1"),
    **lines("select_scatter", replacing.select_scatter, f"{_X} @src dim index"),
    **lines("diagonal_scatter", replacing.diagonal_scatter, f"{_X} @src offset=0 dim1=0 dim2=1"),
    **lines("masked_fill", lambda x, mask, value: putting.choose(mask, verbs.cast(x, value), x), f"{_X} @mask value"),
    **lines("masked_scatter", replacing.masked_scatter, f"{_X} mask @source"),
    # Matrices
    **lines("diag", replacing.diag, f"{_X} diagonal=0"),
    **lines("diagflat", lambda x, k: replacing.diag_embed(axes.ravel(x), k), f"{_X} offset=0"),
    **lines("diag_embed", replacing.diag_embed, f"{_X} offset=0 dim1=-2 dim2=-1"),
    **lines("tril", putting.triangle, f"{_X} diagonal=0"),
    **lines("triu", putting.triangle, f"{_X} diagonal=0", is_upper=True),
    **lines("one_hot", replacing.one_hot, f"{_X} num_classes=-1"),
    # Images
    **lines("pixel_shuffle", images.pixel_shuffle, f"{_X} upscale_factor"),
    **lines("pixel_unshuffle", images.pixel_unshuffle, f"{_X} downscale_factor"),
    **lines("channel_shuffle native_channel_shuffle", images.channel_shuffle, f"{_X} groups"),
    **lines(f"{FUNCTIONAL}unfold im2col", images.unfold, f"{_X} kernel_size dilation=1 padding=0 stride=1"),
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
    **lines("new_zeros new_empty", _new, f"{_X} *size {_LIKE}"),
    **lines("new_ones", _new, f"{_X} *size {_LIKE}", number=1),
    **lines("new_empty_strided", _new, f"{_X} size -stride {_LIKE}"),
    **lines("new_full", verbs.fill, f"{_X} size fill_value {_LIKE}"),
    **lines("fill", lambda x, value: verbs.fill(x, None, value), f"{_X} value"),
    # Identities
    **lines("clone contiguous detach cpu alias_copy lift_fresh_copy detach_copy", lambda x: x, f"{_X} -memory_format"),
    **lines("resolve_conj resolve_neg positive", lambda x: x, _X),
    **lines("conj conj_physical", axes.conjugate, _X),
    **lines("real", axes.real, _X),
    **lines("to", making.to, f"{_X} **given dtype=None device=None other=None -non_blocking -copy -memory_format"),
    **lines("type_as", making.to, f"{_X} *other"),
    **{name: Word(making.as_dtype, f"{_X} -memory_format", name=name) for name in _DTYPES.split()},
    **lines("numel nelement", lambda x: x.count, _X),
    **lines("dim ndimension", lambda x: x.ndim, _X),
    **lines("element_size", lambda x: x.itemsize, _X),
    # Unsupported, with the reason
    **{name: Undecided(name) for name in _DECIDED.split()},
}
"""PyTorch's functions and methods by name."""
