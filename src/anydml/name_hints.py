"""anydml's equivalents of functions of NumPy, PyTorch, JAX, TensorFlow and einops, by their names there."""

from __future__ import annotations

from collections.abc import Iterable

from anydml.text import did_you_mean

_VIEWS = "it moves nothing; call your array library's, or dml.fuse a function that does"
_COMPUTES = "it computes, and anydml moves elements only"

_OTHER_NAMES = {
    "dml.join(arrays, axis)": "concatenate concat cat append",
    "dml.join(arrays, axis=0), or dml.stack(arrays) for 1-D arrays": "vstack row_stack",
    "dml.join(arrays, axis=1), or axis=0 for 1-D arrays": "hstack",
    "dml.join(arrays, axis=2) for 3-D arrays": "dstack",
    "dml.stack(arrays, axis=1), or dml.join(arrays, axis=1) for 2-D arrays": "column_stack",
    "dml.stack(arrays, axis)": "pack",
    "dml.split(x, sections, axis)": "chunk",
    "dml.split(x, sizes, axis), by sizes and not by cut points": "tensor_split array_split split_with_sizes split_v",
    "dml.split(x, sections, axis=0)": "vsplit",
    "dml.split(x, sections, axis=1)": "hsplit",
    "dml.split(x, sections, axis=2)": "dsplit",
    "dml.split(x, x.shape[axis], axis), whose parts keep the axis": "unbind unstack",
    "dml.gather(x, indices, axis)": "take index_select embedding embedding_lookup",
    "dml.gather_elements(x, indices, axis)": "take_along_axis take_along_dim",
    "dml.scatter(x, indices, updates, axis)": "put_along_axis scatter_elements scatter_",
    "dml.scatter_nd(x, indices, updates)": "index_put scatter_update tensor_scatter_nd_update scatter_nd_update",
    "dml.slice(x, offsets, sizes, strides)": "narrow strided_slice dynamic_slice slice_in_dim crop",
    "dml.permute_dims(x, axes)": "transpose permute swapaxes swapdims moveaxis movedim rollaxis matrix_transpose",
    "dml.fuse(lambda x: einops.rearrange(x, pattern))(x)": "rearrange",
    "dml.fuse(lambda x: np.rot90(x))(x)": "rot90",
    "dml.flip(x, axis)": "reverse rev",
    "dml.flip(x, axis=0)": "flipud",
    "dml.flip(x, axis=1)": "fliplr",
    "dml.reverse_subsequences(x, lengths, axis)": "reverse_sequence",
    "dml.roll(x, shift, axis)": "circshift shift",
    "dml.repeat(x, repeats, axis)": "repeat_interleave",
    "dml.broadcast_to(x, shape)": "expand expand_as broadcast broadcast_arrays",
    "dml.copy(x)": "ascontiguousarray contiguous clone identity",
    "dml.fill(x, value), of x's shape and dtype": "full full_like zeros zeros_like ones ones_like fill_",
    "dml.sequence(x, start, delta), of x's shape and dtype": "arange range iota",
    "dml.diagonal_matrix(x, value, begin, end), which fills a band of diagonals": "eye band_part",
    "dml.where(condition, x, y)": "select masked_fill",
    "dml.nonzero_coordinates(x)": "argwhere nonzero flatnonzero",
    "dml.compress(condition, x)": "extract masked_select boolean_mask",
    'dml.depth_to_space(x, block_size, "column_row_depth")': "pixel_shuffle",
    'dml.space_to_depth(x, block_size, "column_row_depth")': "pixel_unshuffle",
    "dml.upsample(x, scales)": "interpolate resize upsample_nearest",
    "dml.unfold(x, window_sizes)": "im2col sliding_window_view extract_patches",
    "dml.pad(x, pads)": "padding constant_pad_nd zero_pad mirror_pad",
    "dml.fuse(f), which makes one pass of many": "jit compile",
    _VIEWS: "reshape view ravel flatten squeeze unsqueeze expand_dims newaxis atleast_1d atleast_2d T as_strided",
    _COMPUTES: (
        "reduce sum mean max min prod add sub subtract mul multiply div divide matmul dot einsum softmax relu exp log "
        "sqrt sort argsort topk cumsum clip abs cast astype argmax argmin unique linspace conv2d linear"
    ),
}

EQUIVALENTS = {name: answer for answer, names in _OTHER_NAMES.items() for name in names.split()}
"""anydml's equivalent, by the other library's name."""


def missing_attribute_message(module: str, name: str, candidates: Iterable[str]) -> str:
    """Return the message for a missing attribute of a module, with anydml's equivalent or a similar name."""
    message = f"module {module!r} has no attribute {name!r}"
    if answer := EQUIVALENTS.get(name):
        return f"{message}: {answer}" if answer in (_VIEWS, _COMPUTES) else f"{message}: it is {answer} here"
    return message if name.startswith("_") else f"{message}{did_you_mean(name, candidates)}"
