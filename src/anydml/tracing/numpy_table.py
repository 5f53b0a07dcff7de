"""The table of NumPy's functions that move, with NumPy's parameters.

An `order` of copies is ignored, since results are packed.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from anydml.tracing import array_verbs, axes, join_split
from anydml.tracing.library_functions import (
    ElementDependentFunction,
    LazyModule,
    LibraryFunction,
    Table,
    call_library_function,
    lines,
)
from anydml.tracing.trace import Trace, TracedArray

assignable_arrays = LazyModule("assignable_arrays")
if TYPE_CHECKING:
    from anydml.tracing import new_arrays, padding, putting, replacing, selecting
else:
    new_arrays, padding, putting, replacing, selecting = map(
        LazyModule, ("new_arrays", "padding", "putting", "replacing", "selecting")
    )


def call_numpy(trace: Trace, function: Any, arguments: Sequence[Any], keywords: dict[str, Any]) -> Any:
    """Call one of NumPy's functions on traced arrays.

    Raises:
        FuseError: the function computes, or its arguments do not fit.
    """
    module, function_name = getattr(function, "__module__", "numpy"), getattr(function, "__name__", str(function))
    key = f"{module}.{function_name}".removeprefix("numpy.")
    return call_library_function(NUMPY, key, f"{module}.{function_name}", trace, arguments, keywords)


def _size(x: TracedArray, axis: Any = None) -> int:
    return math.prod(x.shape[k] for k in array_verbs.axes_of(x, axis))


def _astype(x: TracedArray, dtype: Any) -> TracedArray:
    # NumPy converts to float64 where no dtype is given.
    return array_verbs.astype(x, float if dtype is None else dtype)


NUMPY: Table = {
    # Axes
    **lines("reshape", axes.reshape, "@a shape=None order='C' newshape=None copy=None"),
    **lines("ravel", axes.ravel, "@a order='C'"),
    **lines("transpose permute_dims", axes.transpose, "@a axes=None"),
    **lines("matrix_transpose linalg.matrix_transpose", axes.swapaxes, "@x", axis1=-1, axis2=-2),
    **lines("swapaxes", axes.swapaxes, "@a axis1 axis2"),
    **lines("moveaxis", axes.moveaxis, "@a source destination"),
    **lines("rollaxis", axes.rollaxis, "@a axis start=0"),
    **lines("squeeze", axes.squeeze, "@a axis=None"),
    **lines("expand_dims", axes.expand_dims, "@a axis"),
    **{f"atleast_{rank}d": LibraryFunction(axes.at_least_each, "@*arys", rank=rank) for rank in (1, 2, 3)},
    **lines("flip", axes.flip, "@m axis=None"),
    **lines("fliplr", axes.flip_axis, "@m", axis=1),
    **lines("flipud", axes.flip_axis, "@m", axis=0),
    **lines("rot90", axes.rot90, "@m k=1 axes=(0,1)"),
    **lines("roll", axes.roll, "@a shift axis=None"),
    **lines("fft.fftshift", axes.shift_middle, "@x axes=None"),
    **lines("fft.ifftshift", axes.shift_middle, "@x axes=None", by=-1),
    # Joining and splitting
    **lines("concatenate", join_split.concatenate, "@@arrays axis=0 -out dtype=None -casting"),
    **lines("stack", join_split.stack, "@@arrays axis=0 -out dtype=None -casting"),
    **lines("hstack", join_split.stack_named_axis, "@@tup dtype=None -casting", rank=1, axis=1),
    **lines("vstack", join_split.stack_named_axis, "@@tup dtype=None -casting", rank=2, axis=0),
    **lines("dstack", join_split.stack_named_axis, "@@tup dtype=None -casting", rank=3, axis=2),
    **lines("column_stack", join_split.column_stack, "@@tup"),
    **lines("append", join_split.append, "arr values axis=None"),
    **lines("block", join_split.block, "arrays"),
    **lines("array_split", join_split.array_split, "@ary indices_or_sections axis=0"),
    **lines("split", join_split.split, "@ary indices_or_sections axis=0"),
    **lines("hsplit", join_split.split_named_axis, "@ary indices_or_sections", axis=1),
    **lines("vsplit", join_split.split_named_axis, "@ary indices_or_sections", axis=0),
    **lines("dsplit", join_split.split_named_axis, "@ary indices_or_sections", axis=2),
    **lines("unstack", join_split.unstack, "@x axis=0"),
    **lines(
        "pad",
        padding.pad,
        "@array pad_width mode='constant' constant_values=None reflect_type=None end_values=None stat_length=None",
    ),
    **lines("insert", replacing.insert, "@arr obj values axis=None"),
    **lines("delete", selecting.delete, "@arr obj axis=None"),
    # Repetition
    **lines("tile", join_split.tile, "@A reps"),
    **lines("repeat", join_split.repeat, "@a repeats axis=None"),
    **lines("resize", replacing.resize, "@a new_shape"),
    **lines("broadcast_to", array_verbs.broadcast, "@array shape -subok"),
    **lines("broadcast_arrays", array_verbs.broadcast_all, "@*args -subok"),
    **lines("meshgrid", join_split.meshgrid, "@*xi indexing='xy' sparse=False -copy"),
    # Selection
    **lines("take", selecting.take, "@a indices axis=None -out mode='raise'"),
    **lines("take_along_axis", selecting.take_along_axis, "@arr indices axis=-1"),
    **lines("compress", selecting.compress, "condition @a axis=None -out"),
    **lines("extract", selecting.extract, "condition @arr"),
    **lines("choose", selecting.choose_from, "a choices -out mode='raise'"),
    **lines("select", selecting.select_first, "condlist choicelist default=0"),
    **lines("where", selecting.where, "@condition x=None y=None"),
    **lines("diagonal", selecting.diagonal, "@a offset=0 axis1=0 axis2=1"),
    **lines("linalg.diagonal", selecting.diagonal, "@x offset=0", axis1=-2, axis2=-1),
    **lines(
        "lib.stride_tricks.sliding_window_view",
        selecting.sliding_window_view,
        "@x window_shape axis=None -subok -writeable",
    ),
    # Matrices
    **lines("diag", replacing.diag, "@v k=0"),
    **lines("diagflat", lambda x, k: replacing.diag_embed(axes.ravel(x), k), "@v k=0"),
    **lines("tril", putting.triangle, "@m k=0"),
    **lines("triu", putting.triangle, "@m k=0", is_upper=True),
    # Constants. Nothing can be written into an empty array, so it may be zeros.
    **lines("zeros_like", new_arrays.like, "@a dtype=None -order -subok shape=None -device"),
    **lines("empty_like", new_arrays.like, "@prototype dtype=None -order -subok shape=None -device"),
    **lines("ones_like", new_arrays.like, "@a dtype=None -order -subok shape=None -device", fill_value=1),
    **lines("full_like", new_arrays.full_like, "@a fill_value dtype=None -order -subok shape=None -device"),
    **lines("copy", lambda x: x, "@a -order -subok"),
    **lines("array", new_arrays.as_array, "object dtype=None * -copy -order -subok ndmin=0 ndmax=0"),
    **lines("asarray asanyarray", new_arrays.as_array, "a dtype=None -order * -copy -device"),
    **lines("ascontiguousarray asfortranarray", new_arrays.as_array, "a dtype=None", ndmin=1),
    **lines("require", new_arrays.as_array, "a dtype=None -requirements"),
    **lines("copyto", assignable_arrays.copy_into, "dst src -casting where=True"),
    **lines("real", axes.real, "@val"),
    **lines("astype", _astype, "@x dtype * -copy -device"),
    # Sizes
    **lines("shape", lambda x: x.shape, "@a"),
    **lines("ndim", lambda x: x.ndim, "@a"),
    **lines("size", _size, "@a axis=None"),
    # Unsupported, with the reason
    **{name: ElementDependentFunction(name) for name in ("nonzero", "flatnonzero", "argwhere", "unique")},
}
"""NumPy's functions by name, including the submodule's."""

METHODS: Table = {
    **{name: NUMPY[name] for name in ("swapaxes", "ravel", "squeeze", "repeat", "take", "diagonal", "choose")},
    **lines("copy", lambda x: x, "@a -order"),
    **lines("astype", _astype, "@x dtype -order -casting -subok -copy"),
    **lines("reshape", axes.reshape, "@a *shape order='C' copy=None"),
    **lines("transpose", axes.transpose, "@a *axes=None"),
    **lines("flatten", axes.ravel, "@a order='C'"),
    **lines("fill", assignable_arrays.copy_into, "@a value"),
    **lines("view", new_arrays.view_as_dtype, "@a dtype=None"),
    **lines("T", axes.transpose, "@a"),
    **lines("mT", axes.swapaxes, "@a", axis1=-1, axis2=-2),
}
"""Methods and properties of arrays by name."""
