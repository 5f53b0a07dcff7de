"""The table of NumPy's functions that move, with NumPy's parameters.

An `order` of copies is ignored, since results are packed.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from numpy.lib.array_utils import normalize_axis_tuple

from anydml.tracing import axes, joins, making, masks, padding, picks, placing, repeating, shaping
from anydml.tracing.trace import Trace, TracedArray
from anydml.tracing.words import Table, Undecided, Word, call_word, lines


def called(trace: Trace, function: Any, arguments: Sequence[Any], keywords: dict[str, Any]) -> Any:
    """Call one of NumPy's functions on traced arrays.

    Raises:
        FuseError: the function computes, or its arguments do not fit.
    """
    module, own = getattr(function, "__module__", "numpy"), getattr(function, "__name__", str(function))
    key = f"{module}.{own}".removeprefix("numpy.")
    return call_word(NUMPY, key, f"{module}.{own}", trace, arguments, keywords)


def _size(x: TracedArray, axis: Any = None) -> int:
    along = range(x.ndim) if axis is None else normalize_axis_tuple(axis, x.ndim)
    return math.prod(x.shape[k] for k in along)


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
    **{f"atleast_{rank}d": Word(axes.atleast, "@*arys", rank=rank) for rank in (1, 2, 3)},
    **lines("flip", axes.flip, "@m axis=None"),
    **lines("fliplr", axes.flip, "@m", axis=1),
    **lines("flipud", axes.flip, "@m", axis=0),
    **lines("rot90", axes.rot90, "@m k=1 axes=(0,1)"),
    **lines("roll", axes.roll, "@a shift axis=None"),
    **lines("fft.fftshift", axes.shifted, "@x axes=None"),
    **lines("fft.ifftshift", axes.shifted, "@x axes=None", by=-1),
    # Joining and splitting
    **lines("concatenate", joins.concatenate, "@@arrays axis=0 -out dtype=None -casting"),
    **lines("stack", joins.stack, "@@arrays axis=0 -out dtype=None -casting"),
    **lines("hstack", joins.stacked, "@@tup dtype=None -casting", rank=1, axis=1),
    **lines("vstack", joins.stacked, "@@tup dtype=None -casting", rank=2, axis=0),
    **lines("dstack", joins.stacked, "@@tup dtype=None -casting", rank=3, axis=2),
    **lines("column_stack", joins.column_stack, "@@tup"),
    **lines("append", joins.append, "arr values axis=None"),
    **lines("block", joins.block, "arrays"),
    **lines("array_split", joins.array_split, "@ary indices_or_sections axis=0"),
    **lines("split", joins.split, "@ary indices_or_sections axis=0"),
    **lines("hsplit", joins.split_along, "@ary indices_or_sections", axis=1),
    **lines("vsplit", joins.split_along, "@ary indices_or_sections", axis=0),
    **lines("dsplit", joins.split_along, "@ary indices_or_sections", axis=2),
    **lines("unstack", joins.unstack, "@x axis=0"),
    **lines(
        "pad",
        padding.pad,
        "@array pad_width mode='constant' constant_values=None reflect_type=None end_values=None stat_length=None",
    ),
    **lines("insert", placing.insert, "@arr obj values axis=None"),
    **lines("delete", picks.delete, "@arr obj axis=None"),
    # Repetition
    **lines("tile", repeating.tile, "@A reps"),
    **lines("repeat", repeating.repeat, "@a repeats axis=None"),
    **lines("resize", placing.resize, "@a new_shape"),
    **lines("broadcast_to", shaping.broadcast_to, "@array shape -subok"),
    **lines("broadcast_arrays", repeating.broadcast_arrays, "@*args -subok"),
    **lines("meshgrid", repeating.meshgrid, "@*xi indexing='xy' sparse=False -copy"),
    # Selection
    **lines("take", picks.take, "@a indices axis=None -out mode='raise'"),
    **lines("take_along_axis", picks.take_along_axis, "@arr indices axis=-1"),
    **lines("compress", picks.compress, "condition @a axis=None -out"),
    **lines("extract", picks.extract, "condition @arr"),
    **lines("choose", masks.choose, "a choices -out mode='raise'"),
    **lines("select", masks.select, "condlist choicelist default=0"),
    **lines("where", masks.where, "@condition x=None y=None"),
    **lines("diagonal", picks.diagonal, "@a offset=0 axis1=0 axis2=1"),
    **lines("linalg.diagonal", picks.diagonal, "@x offset=0", axis1=-2, axis2=-1),
    **lines(
        "lib.stride_tricks.sliding_window_view",
        picks.sliding_window_view,
        "@x window_shape axis=None -subok -writeable",
    ),
    # Matrices
    **lines("diag", placing.diag, "@v k=0"),
    **lines("diagflat", placing.diagflat, "@v k=0"),
    **lines("tril", masks.triangle, "@m k=0"),
    **lines("triu", masks.triangle, "@m k=0", is_upper=True),
    # Constants. Nothing can be written into an empty array, so it may be zeros.
    **lines("zeros_like", making.like, "@a dtype=None -order -subok shape=None -device"),
    **lines("empty_like", making.like, "@prototype dtype=None -order -subok shape=None -device"),
    **lines("ones_like", making.like, "@a dtype=None -order -subok shape=None -device", number=1),
    **lines("full_like", making.full_like, "@a fill_value dtype=None -order -subok shape=None -device"),
    **lines("copy", axes.same, "@a -order -subok"),
    **lines("ascontiguousarray", making.contiguous, "@a dtype=None"),
    **lines("real", axes.real, "@val"),
    **lines("astype", lambda x, dtype: x.astype(dtype), "@x dtype -copy -device"),
    # Sizes
    **lines("shape", lambda x: x.shape, "@a"),
    **lines("ndim", lambda x: x.ndim, "@a"),
    **lines("size", _size, "@a axis=None"),
    # Unsupported, with the reason
    **{name: Undecided(name) for name in ("nonzero", "flatnonzero", "argwhere", "unique")},
}
"""NumPy's functions by name, including the submodule's."""

METHODS = frozenset(["swapaxes", "ravel", "squeeze", "repeat", "take", "diagonal", "choose"])
"""Functions that are also methods of arrays, with the same parameters."""
