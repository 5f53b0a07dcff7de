"""The table of PyTorch's functions and methods that move, with PyTorch's parameters."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from anydml.tracing import axes, constants, indexing, parts, verbs
from anydml.tracing.trace import Trace, TracedArray
from anydml.tracing.words import Later, Table, Undecided, Word, call_word, lines

own_arrays = Later("own_arrays")
if TYPE_CHECKING:
    from anydml.tracing import images, making, padding, picking, putting, replacing, selecting
else:
    images, making, padding, picking, putting, replacing, selecting = map(
        Later, ("images", "making", "padding", "picking", "putting", "replacing", "selecting")
    )

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


def method(names: str, operation: Callable[..., Any], parameters: str = "", **fixed: Any) -> dict[str, Word]:
    """Return the entries of a word whose first parameter is a tensor, so that it may be a method."""
    return lines(names, operation, f"{_X} {parameters}", **fixed)


def _transpose(x: TracedArray, dim0: int, dim1: int, others: Sequence[int]) -> TracedArray:
    # All dimensions are accepted, too, as by NumPy.
    return axes.transpose(x, (dim0, dim1, *others)) if others else axes.swapaxes(x, dim0, dim1)


def _new(x: TracedArray, size: Any, dtype: Any, number: Any = None) -> TracedArray:
    return verbs.fill(x, size, number, dtype)


_X = "@input|self"
_LIKE = "dtype=None -layout -device -requires_grad -memory_format -pin_memory"
_UNPOOLED = f"{_X} indices kernel_size stride=None padding=0 output_size=None"
_DTYPES = "float double half bfloat16 int long short bool byte char"
_DECIDED = "nonzero argwhere masked_select unique unique_consecutive item tolist bincount"

TORCH: Table = {
    # Dimensions
    **method("permute permute_copy", axes.transpose, "*dims"),
    **method("transpose_copy swapaxes swapdims", axes.swapaxes, "dim0|axis0 dim1|axis1"),
    **method("transpose", _transpose, "dim0 dim1 **others"),
    **method("t t_copy", axes.t),
    **method("T", axes.transpose),
    **method("mT", axes.swapaxes, axis1=-1, axis2=-2),
    **method("H", axes.h),
    **method("mH adjoint", lambda x: axes.swapaxes(axes.conjugate(x), -1, -2)),
    **method("movedim moveaxis", axes.moveaxis, "source destination"),
    **method("reshape", axes.reshape, "*shape|size"),
    **method("view view_copy", making.view, "*shape|size|dtype"),
    **method("view_as reshape_as", lambda x, other: axes.reshape(x, other.shape), "@other"),
    **method("ravel", axes.ravel),
    **method("flatten", axes.flatten, "start_dim=0 end_dim=-1"),
    **method("unflatten", axes.unflatten, "dim sizes"),
    **method("squeeze squeeze_copy", axes.squeeze, "dim|axis=None", is_strict=False),
    **method("unsqueeze unsqueeze_copy", axes.expand_dims, "dim|axis"),
    **{f"atleast_{rank}d": Word(axes.atleast, "**tensors", rank=rank) for rank in (1, 2, 3)},
    **method("flip", axes.flip, "*dims|dim|axis|axes"),
    **method("fliplr", axes.flip_of, axis=1),
    **method("flipud", axes.flip_of, axis=0),
    **method("rot90", axes.rot90, "k=1 dims=(0,1)"),
    **method("roll", axes.roll_dims, "shifts dims|dim|axis=None"),
    **method("fft_fftshift", axes.shift, "dim=None"),
    **method("fft_ifftshift", axes.shift, "dim=None", by=-1),
    # Joining and splitting
    **lines("cat concat concatenate", parts.cat, "@@tensors dim|axis=0"),
    **lines("stack", parts.stack, "@@tensors dim|axis=0"),
    **lines("hstack", parts.stack_along, "@@tensors", rank=1, axis=1),
    **lines("vstack row_stack", parts.stack_along, "@@tensors", rank=2, axis=0),
    **lines("dstack", parts.stack_along, "@@tensors", rank=3, axis=2),
    **lines("column_stack", parts.column_stack, "@@tensors"),
    **lines("block_diag", parts.block_diag, "@*tensors"),
    **lines("_chunk_cat", parts.chunk_cat, "@@tensors dim num_chunks"),
    **method("chunk unsafe_chunk", parts.chunk, "chunks dim|axis=0"),
    **method("split unsafe_split", parts.split_sizes, "split_size_or_sections|split_size dim|axis=0"),
    **method(
        "split_with_sizes split_with_sizes_copy unsafe_split_with_sizes", parts.split_sizes, "split_sizes dim|axis=0"
    ),
    **method(
        "tensor_split",
        parts.array_split,
        "indices_or_sections|indices|sections|tensor_indices_or_sections dim|axis=0",
        kind=tuple,
    ),
    **method("hsplit", parts.split_along, "indices_or_sections|indices|sections", axis=1, kind=tuple),
    **method("vsplit", parts.split_along, "indices_or_sections|indices|sections", axis=0, kind=tuple),
    **method("dsplit", parts.split_along, "indices_or_sections|indices|sections", axis=2, kind=tuple),
    **method("unbind unbind_copy", parts.unstack, "dim|axis=0"),
    **method("pad", padding.pad_last, "pad mode='constant' value=None"),
    **method("constant_pad_nd", lambda x, pad, value: padding.pad_last(x, pad, "constant", value), "pad value=0"),
    # Repetition
    **method("expand expand_copy broadcast_to", parts.expand, "*size|sizes|shape -implicit"),
    **method("expand_as", lambda x, other: parts.expand(x, other.shape), "@other"),
    **lines("broadcast_tensors", verbs.broadcast_all, "@*tensors"),
    **method("repeat", parts.tile_dims, "*repeats|sizes"),
    **method("tile", parts.tile, "*dims"),
    **method("repeat_interleave", parts.repeat, "repeats dim|axis=None -output_size"),
    **lines("meshgrid", parts.meshgrid, "@*tensors indexing='ij'"),
    **lines("cartesian_prod", parts.cartesian_prod, "@*tensors"),
    **method("combinations", parts.combinations, "r=2 with_replacement=False"),
    # Selection
    **method("__getitem__", indexing.indexed, "key"),
    **method("narrow narrow_copy", selecting.narrow, "dim|axis start length"),
    **method("select select_copy", selecting.select, "dim|axis index"),
    **method(
        "slice slice_copy slice.Tensor slice_copy.Tensor", selecting.slice_dim, "dim=0 start=None end=None step=1"
    ),
    **method("index_select", selecting.index_select, "dim|axis index"),
    **method("gather", selecting.select_along, "dim|axis index -sparse_grad"),
    **method("take_along_dim", selecting.take_along_dim, "indices dim|axis=None"),
    **method("take", lambda x, by: picking.pick(axes.ravel(x), constants.torch_indices(by, ("int64",)), 0), "index"),
    **lines(
        "embedding",
        selecting.embedding,
        "input|self @weight padding_idx=None max_norm=None -norm_type -scale_grad_by_freq -sparse",
    ),
    **method("unfold unfold_copy", verbs.windows, "dimension size step"),
    **lines("where", selecting.where, "@condition input|self=None other=None"),
    **method("diagonal diagonal_copy", selecting.diagonal, "offset=0 dim1=0 dim2=1"),
    **lines("linalg_diagonal", selecting.diagonal, "@A offset=0 dim1=-2 dim2=-1"),
    # Replacement of elements
    **method("scatter", replacing.scatter, "dim|axis index src|value reduce=None"),
    **method("index_copy", replacing.index_copy, "dim|axis index @source"),
    **method("index_fill", replacing.index_fill, "dim|axis index value"),
    **method("index_put", replacing.index_put, "indices @values accumulate=False"),
    **method("put", replacing.put_flat, "index @source accumulate=False"),
    **method("slice_scatter", replacing.slice_scatter, "@src dim=0 start=None end=None step=1"),
    **method("select_scatter", replacing.select_scatter, "@src dim index"),
    **method("diagonal_scatter", replacing.diagonal_scatter, "@src offset=0 dim1=0 dim2=1"),
    **method("masked_fill", replacing.masked_fill, "@mask value"),
    **method("masked_scatter", replacing.masked_scatter, "mask @source"),
    # Matrices
    **method("diag", replacing.diag, "diagonal=0"),
    **method("diagflat", lambda x, k: replacing.diag_embed(axes.ravel(x), k), "offset=0"),
    **method("diag_embed", replacing.diag_embed, "offset=0 dim1=-2 dim2=-1"),
    **method("tril", putting.triangle, "diagonal=0"),
    **method("triu", putting.triangle, "diagonal=0", is_upper=True),
    **method("one_hot", replacing.one_hot, "num_classes=-1"),
    # Images
    **method("pixel_shuffle", images.pixel_shuffle, "upscale_factor"),
    **method("pixel_unshuffle", images.pixel_unshuffle, "downscale_factor"),
    **method("channel_shuffle native_channel_shuffle", images.channel_shuffle, "groups"),
    **method(f"{FUNCTIONAL}unfold im2col", images.unfold, "kernel_size dilation=1 padding=0 stride=1"),
    **method(
        "interpolate",
        images.interpolate,
        "size=None scale_factor=None mode='nearest' -align_corners recompute_scale_factor=None -antialias",
    ),
    **method("upsample", images.interpolate, "size=None scale_factor=None mode='nearest' -align_corners"),
    **method("upsample_nearest", images.interpolate, "size=None scale_factor=None"),
    **{f"max_unpool{rank}d": Word(images.max_unpool, _UNPOOLED, rank=rank) for rank in (1, 2, 3)},
    # Constants. Nothing can be written into an empty tensor, so it may be zeros.
    **method("zeros_like empty_like", making.like, _LIKE),
    **method("ones_like", making.like, _LIKE, number=1),
    **method("full_like", making.full_like, f"fill_value {_LIKE}"),
    **method("new_zeros new_empty", _new, f"*size {_LIKE}"),
    **method("new_ones", _new, f"*size {_LIKE}", number=1),
    **method("new_empty_strided", _new, f"size -stride {_LIKE}"),
    **method("new_full", verbs.fill, f"size fill_value {_LIKE}"),
    **method("fill_", own_arrays.copied_to, "value"),
    **method("zero_", own_arrays.copied_to, src=0),
    **method("copy_", own_arrays.copied_to, "src|other -non_blocking"),
    **method("fill", lambda x, value: verbs.fill(x, None, value), "value"),
    # Identities
    **method("clone contiguous detach cpu alias_copy lift_fresh_copy detach_copy", lambda x: x, "-memory_format"),
    **method("resolve_conj resolve_neg positive", lambda x: x),
    **method("conj conj_physical", axes.conjugate),
    **method("real", axes.real),
    **method("to", making.to, "**given dtype=None device=None other=None -non_blocking -copy -memory_format"),
    **method("type_as", making.to, "*other"),
    **{name: Word(making.as_dtype, f"{_X} -memory_format", name=name) for name in _DTYPES.split()},
    **method("numel nelement", lambda x: x.count),
    **method("dim ndimension", lambda x: x.ndim),
    **method("element_size", lambda x: x.itemsize),
    # Unsupported, with the reason
    **{name: Undecided(name) for name in _DECIDED.split()},
}
"""PyTorch's functions and methods by name."""
for _word in TORCH.values():
    _word.takes_flags = False
