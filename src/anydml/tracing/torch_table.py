"""The table of PyTorch's functions and methods that move, with PyTorch's parameters."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from anydml.tracing import array_verbs, axes, constants, indexing, join_split
from anydml.tracing.library_functions import (
    ElementDependentFunction,
    LazyModule,
    LibraryFunction,
    Table,
    call_library_function,
    lines,
)
from anydml.tracing.refusing import fuse_error, not_created, refusal
from anydml.tracing.trace import Trace, TracedArray

assignable_arrays = LazyModule("assignable_arrays")
if TYPE_CHECKING:
    from anydml.tracing import images, new_arrays, padding, picking, putting, replacing, selecting
else:
    images, new_arrays, padding, picking, putting, replacing, selecting = map(
        LazyModule, ("images", "new_arrays", "padding", "picking", "putting", "replacing", "selecting")
    )

FUNCTIONAL = "nn.functional."


def call_torch(trace: Trace, name: str, arguments: Sequence[Any], keywords: dict[str, Any]) -> Any:
    """Call one of PyTorch's functions or methods on traced tensors.

    Raises:
        FuseError: the function computes, or its arguments do not fit.
    """
    if name == "__setitem__":
        raise not_created(arguments[-1], "PyTorch")
    return call_library_function(TORCH, name, f"torch's {name.removeprefix(FUNCTIONAL)}", trace, arguments, keywords)


def name_of(function: Any) -> str:
    """Return a PyTorch function's name in the table, with the module's name if a method of that name differs."""
    name: str = getattr(function, "__name__", str(function))
    is_functional = getattr(function, "__module__", "") == "torch.nn.functional"
    return FUNCTIONAL + name if is_functional and FUNCTIONAL + name in TORCH else name


def methods(
    names: str, operation: Callable[..., Any], parameters: str = "", **fixed: Any
) -> dict[str, LibraryFunction]:
    """Return the entries of a word that may be a method, because the first parameter is a tensor."""
    return lines(names, operation, f"{_SELF} {parameters}", **fixed)


def _new_tensor(x: TracedArray, size: Any, dtype: Any, number: Any = None) -> TracedArray:
    return array_verbs.fill(x, size, number, dtype)


def _positive(x: TracedArray) -> TracedArray:
    if x.element.kind == "b":
        raise refusal("positive of a bool tensor", "PyTorch does not support it")
    return x


def _triangle(x: TracedArray, diagonal: Any, is_upper: bool = False) -> TracedArray:
    if x.ndim < 2:
        raise fuse_error(f"{x!r} must have at least two dimensions")
    return putting.triangle(x, diagonal, is_upper)


def _meshgrid(tensors: Sequence[TracedArray], indexing: Any) -> tuple[TracedArray, ...]:
    if len({tensor.element for tensor in tensors}) > 1:
        raise fuse_error("all tensors must have the same dtype")
    return join_split.meshgrid(tensors, indexing)


def _split_with_sizes(x: TracedArray, sizes: Any, dim: int) -> tuple[TracedArray, ...]:
    if not constants.is_list(sizes):
        raise TypeError(f"'split_sizes' must be a tuple or list of integers, not {type(sizes).__name__}")
    return join_split.split_sizes(x, sizes, dim)


def _new_full(x: TracedArray, size: Any, fill_value: Any, dtype: Any) -> TracedArray:
    if not constants.is_list(size):
        raise TypeError(f"'size' must be a tuple or list of integers, not {type(size).__name__}")
    return array_verbs.fill(x, size, fill_value, dtype)


def _where(condition: TracedArray, x: Any, y: Any) -> Any:
    for value in (x, y):
        if isinstance(value, (list, tuple)):
            raise TypeError(f"a value must be a tensor or a number, not {type(value).__name__}")
    return selecting.where(condition, x, y)


def _pad(x: TracedArray, pad: Sequence[int], mode: str, value: Any) -> TracedArray:
    # This function takes a float, so that −1 does not count from the end of unsigned integers.
    return padding.pad_like_torch(x, pad, mode, None if value is None else float(value))


_SELF = "@input|self"
_CREATION_PARAMETERS = "* dtype=None -layout -device -requires_grad -memory_format -pin_memory"
_UNPOOL_PARAMETERS = f"{_SELF} indices kernel_size stride=None padding=0 output_size=None"
_DTYPES = "float double half bfloat16 int long short bool byte char"
_ELEMENT_DEPENDENT = "nonzero argwhere masked_select unique unique_consecutive item tolist bincount"

TORCH: Table = {
    # Dimensions
    **methods("permute permute_copy", axes.transpose, "*dims"),
    **methods("transpose transpose_copy swapaxes swapdims", axes.swapaxes, "dim0|axis0 dim1|axis1"),
    **methods("t t_copy", axes.t),
    **methods("T", axes.transpose),
    **methods("mT", axes.swapaxes, axis1=-1, axis2=-2),
    **methods("H", axes.hermitian_transpose),
    **methods("mH adjoint", lambda x: axes.swapaxes(axes.conjugate(x), -1, -2)),
    **methods("movedim moveaxis", axes.moveaxis, "source destination"),
    **methods("reshape", axes.reshape, "*shape|size"),
    **methods("view view_copy", new_arrays.view, "*shape|size|dtype"),
    **methods("view_as reshape_as", lambda x, other: axes.reshape(x, other.shape), "@other"),
    **methods("ravel", axes.ravel),
    **methods("flatten", axes.flatten, "start_dim=0 end_dim=-1"),
    **methods("unflatten", axes.unflatten, "dim sizes"),
    **methods("squeeze squeeze_copy", axes.squeeze, "dim|axis=None", is_strict=False),
    **methods("unsqueeze unsqueeze_copy", lambda x, dim: axes.expand_dims(x, constants.whole_number(dim)), "dim|axis"),
    **{f"atleast_{rank}d": LibraryFunction(axes.at_least_each, "**tensors", rank=rank) for rank in (1, 2, 3)},
    **methods("flip", axes.flip, "*dims|dim|axis|axes"),
    **methods("fliplr", axes.flip_axis, axis=1),
    **methods("flipud", axes.flip_axis, axis=0),
    **methods("rot90", axes.rot90, "k=1 dims=(0,1)"),
    **methods("roll", axes.roll_like_torch, "shifts dims|dim|axis=None"),
    **methods("fft_fftshift", axes.shift_middle, "dim=None"),
    **methods("fft_ifftshift", axes.shift_middle, "dim=None", by=-1),
    # Joining and splitting
    **lines("cat concat concatenate", join_split.cat, "@@tensors dim|axis=0"),
    **lines("stack", join_split.stack, "@@tensors dim|axis=0"),
    **lines("hstack", join_split.stack_named_axis, "@@tensors", rank=1, axis=1),
    **lines("vstack row_stack", join_split.stack_named_axis, "@@tensors", rank=2, axis=0),
    **lines("dstack", join_split.stack_named_axis, "@@tensors", rank=3, axis=2),
    **lines("column_stack", join_split.column_stack, "@@tensors"),
    **lines("block_diag", join_split.block_diag, "@*tensors"),
    **lines("_chunk_cat", join_split.chunk_cat, "@@tensors dim num_chunks"),
    **methods("chunk unsafe_chunk", join_split.chunk, "chunks dim|axis=0"),
    **methods("split unsafe_split", join_split.split_sizes, "split_size_or_sections|split_size dim|axis=0"),
    **methods(
        "split_with_sizes split_with_sizes_copy unsafe_split_with_sizes",
        _split_with_sizes,
        "split_sizes dim|axis=0",
    ),
    **methods(
        "tensor_split",
        join_split.array_split,
        "indices_or_sections|indices|sections|tensor_indices_or_sections dim|axis=0",
        container=tuple,
    ),
    **methods("hsplit", join_split.split_named_axis, "indices_or_sections|indices|sections", axis=1, container=tuple),
    **methods("vsplit", join_split.split_named_axis, "indices_or_sections|indices|sections", axis=0, container=tuple),
    **methods("dsplit", join_split.split_named_axis, "indices_or_sections|indices|sections", axis=2, container=tuple),
    **methods("unbind unbind_copy", join_split.unstack, "dim|axis=0"),
    **methods("pad", _pad, "pad mode='constant' value=None"),
    **methods(
        "constant_pad_nd", lambda x, pad, value: padding.pad_like_torch(x, pad, "constant", value), "pad value=0"
    ),
    **lines(
        "pad_sequence",
        padding.pad_sequence,
        "@@sequences batch_first=False padding_value=0.0 padding_side='right'",
    ),
    # Repetition
    **methods("expand expand_copy broadcast_to", join_split.expand, "*size|sizes|shape * -implicit"),
    **methods("expand_as", lambda x, other: join_split.expand(x, other.shape), "@other"),
    **lines("broadcast_tensors", array_verbs.broadcast_all, "@*tensors"),
    **methods("repeat", join_split.tile_like_torch, "*repeats|sizes"),
    **methods("tile", join_split.tile, "*dims"),
    **methods("repeat_interleave", join_split.repeat, "repeats dim|axis=None * -output_size"),
    **lines("meshgrid", _meshgrid, "@*tensors indexing='ij'"),
    **lines("cartesian_prod", join_split.cartesian_prod, "@*tensors"),
    **methods("combinations", join_split.combinations, "r=2 with_replacement=False"),
    # Selection
    **methods("__getitem__", indexing.indexed, "key"),
    **methods("narrow narrow_copy", selecting.narrow, "dim|axis start length"),
    **methods("select select_copy", selecting.select, "dim|axis index"),
    **methods(
        "slice slice_copy slice.Tensor slice_copy.Tensor", selecting.slice_dim, "dim=0 start=None end=None step=1"
    ),
    **methods("index_select", selecting.index_select, "dim|axis index"),
    **methods("gather", selecting.select_along, "dim|axis index * -sparse_grad"),
    **methods("take_along_dim", selecting.take_along_dim, "indices dim|axis=None"),
    **methods("take", lambda x, by: picking.pick(axes.ravel(x), constants.torch_indices(by, ("int64",)), 0), "index"),
    **lines(
        "embedding",
        selecting.embedding,
        "input|self @weight padding_idx=None max_norm=None -norm_type -scale_grad_by_freq -sparse",
    ),
    **methods("unfold unfold_copy", array_verbs.windows, "dimension size step"),
    **lines("where", _where, "@condition input|self=None other=None"),
    **methods("diagonal diagonal_copy", selecting.diagonal, "offset=0 dim1=0 dim2=1"),
    **lines("linalg_diagonal", selecting.diagonal, "@A offset=0 dim1=-2 dim2=-1"),
    # Replacement of elements
    **methods("scatter", replacing.scatter, "dim|axis index src|value reduce=None"),
    **methods("index_copy", replacing.index_copy, "dim|axis index @source"),
    **methods("index_fill", replacing.index_fill, "dim|axis index value"),
    **methods("index_put", replacing.index_put, "indices @values accumulate=False"),
    **methods("put", replacing.put_flat, "index @source accumulate=False"),
    **methods("slice_scatter", replacing.slice_scatter, "@src dim=0 start=None end=None step=1"),
    **methods("select_scatter", replacing.select_scatter, "@src dim index"),
    **methods("diagonal_scatter", replacing.diagonal_scatter, "@src offset=0 dim1=0 dim2=1"),
    **methods("masked_fill", replacing.masked_fill, "@mask value"),
    **methods("masked_scatter", replacing.masked_scatter, "mask @source"),
    # Matrices
    **methods("diag", replacing.diag, "diagonal=0"),
    **methods("diagflat", lambda x, k: replacing.diag_embed(axes.ravel(x), k), "offset=0"),
    **methods("diag_embed", replacing.diag_embed, "offset=0 dim1=-2 dim2=-1"),
    **methods("tril", _triangle, "diagonal=0"),
    **methods("triu", _triangle, "diagonal=0", is_upper=True),
    **methods("one_hot", replacing.one_hot, "num_classes=-1"),
    # Images
    **methods("pixel_shuffle", images.pixel_shuffle, "upscale_factor"),
    **methods("pixel_unshuffle", images.pixel_unshuffle, "downscale_factor"),
    **methods("channel_shuffle native_channel_shuffle", images.channel_shuffle, "groups"),
    **methods(f"{FUNCTIONAL}unfold im2col", images.unfold, "kernel_size dilation=1 padding=0 stride=1"),
    **methods(
        "interpolate",
        images.interpolate,
        "size=None scale_factor=None mode='nearest' -align_corners recompute_scale_factor=None -antialias",
    ),
    **methods("upsample", images.interpolate, "size=None scale_factor=None mode='nearest' -align_corners"),
    **methods("upsample_nearest", images.interpolate, "size=None scale_factor=None"),
    **{f"max_unpool{rank}d": LibraryFunction(images.max_unpool, _UNPOOL_PARAMETERS, rank=rank) for rank in (1, 2, 3)},
    # Constants. Nothing can be written into an empty tensor, so it may be zeros.
    **methods("zeros_like empty_like", new_arrays.like, _CREATION_PARAMETERS),
    **methods("ones_like", new_arrays.like, _CREATION_PARAMETERS, fill_value=1),
    **methods("full_like", new_arrays.full_like, f"fill_value {_CREATION_PARAMETERS}"),
    **methods("new_zeros new_empty", _new_tensor, f"*size {_CREATION_PARAMETERS}"),
    **methods("new_ones", _new_tensor, f"*size {_CREATION_PARAMETERS}", number=1),
    **methods("new_empty_strided", _new_tensor, f"size -stride {_CREATION_PARAMETERS}"),
    **methods("new_full", _new_full, f"size fill_value {_CREATION_PARAMETERS}"),
    **methods("fill_", assignable_arrays.filled, "value"),
    **methods("zero_", assignable_arrays.filled, value=0),
    **methods("copy_", assignable_arrays.copied, "src|other -non_blocking"),
    **methods("fill", lambda x, value: array_verbs.fill(x, None, value), "value"),
    # Identities
    **methods("clone contiguous cpu", lambda x: x, "* -memory_format"),
    **methods("detach alias_copy lift_fresh_copy detach_copy", lambda x: x),
    **methods("resolve_conj resolve_neg", lambda x: x),
    **methods("positive", _positive),
    **methods("conj conj_physical", axes.conjugate),
    **methods("real", axes.real),
    **methods("to", new_arrays.to, "**given dtype=None device=None other=None -non_blocking -copy -memory_format"),
    **methods("type_as", lambda x, other: new_arrays.to(x, [other]), "@other"),
    **{name: LibraryFunction(new_arrays.as_dtype, f"{_SELF} * -memory_format", name=name) for name in _DTYPES.split()},
    **methods("numel nelement", lambda x: x.count),
    **methods("dim ndimension", lambda x: x.ndim),
    **methods("element_size", lambda x: x.itemsize),
    # Unsupported, with the reason
    **{name: ElementDependentFunction(name) for name in _ELEMENT_DEPENDENT.split()},
}
"""PyTorch's functions and methods by name."""
for _word in TORCH.values():
    _word.is_strict = True
