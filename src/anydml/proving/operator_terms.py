"""Terms of nodes that move elements, or that equal other nodes for all sizes."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from anydml.onnx.budget import Budget
from anydml.onnx.tensor_protos import to_array
from anydml.proving.casts import cast_rule
from anydml.proving.elementwise import permutation_of
from anydml.proving.movement_terms import Mover
from anydml.proving.operator_calls import OperatorCall
from anydml.proving.padding import center_rule, pad_rule
from anydml.proving.sizes import (
    Size,
    Sizes,
    are_sizes,
    axis_of,
    broadcast,
    differ,
    exact_quotient,
    lower_bound,
    may_fit,
    product,
)
from anydml.proving.slice_split_gather import slice_rule, split_rule, take_rule
from anydml.proving.terms import Term, elements_of, vector_of

Rule = Callable[[Mover, OperatorCall], Sequence[Term] | None]
"""Returns the terms of a node's outputs; None if the rule does not apply."""


def _identity(mover: Mover, call: OperatorCall) -> Sequence[Term] | None:
    return [term] if (term := call.term(0)) is not None else None


def _dropout(mover: Mover, call: OperatorCall) -> Sequence[Term] | None:
    """Return the input, and the mask if the node has one; None if the node may be for training."""
    term = call.term(0)
    is_inference = call.version >= 7 and (call.version < 12 or call.term(2) is None or call.numbers_of(2) is False)
    if term is None or not is_inference:
        return None
    has_mask = len([*filter(None, call.proto.output)]) > 1
    if has_mask and term.shape is not None and call.version >= _MASKS_OF_ONES:
        return [term, mover.expand(mover.terms.constant(np.array(True)), term.shape)]
    return [term, mover.terms.make("mask", [term], call.version, np.dtype(bool), term.shape)] if has_mask else [term]


_MASKS_OF_ONES = 12
"""First opset that defines the mask of a Dropout that drops nothing."""


def _shape(mover: Mover, call: OperatorCall) -> Sequence[Term] | None:
    term = call.term(0)
    if term is None or term.shape is None:
        return None
    rank = len(term.shape)
    first, end = call.get("start", 0), call.get("end", rank)
    elements = np.empty(len(term.shape[slice(first, end)]), object)
    elements[:] = term.shape[slice(first, end)]
    return [mover.terms.integers(elements, np.dtype(np.int64))]


def _size(mover: Mover, call: OperatorCall) -> Sequence[Term] | None:
    term = call.term(0)
    if term is None or term.shape is None:
        return None
    element = np.empty((), object)
    element[()] = product(term.shape)
    return [mover.terms.integers(element, np.dtype(np.int64))]


def _reshape(mover: Mover, call: OperatorCall) -> Sequence[Term] | None:
    term, target = call.term(0), vector_of(call.term(1))
    if term is None or term.shape is None or target is None or call.version < 5:
        return None
    shape: list[Size] = []
    open_axis = None
    for axis, size in enumerate(target):
        old = term.shape[axis] if axis < len(term.shape) else None
        if size == -1:
            open_axis = axis
            shape.append(1)
        elif size == 0 and not call.get("allowzero", 0):
            if old is None:
                return None
            shape.append(old)
        elif size == old or mover.terms.bounds.is_positive(size) or (size == 0 and call.get("allowzero", 0)):
            shape.append(size)
        else:
            # A size may be 0, which would stand for another size.
            return None
    if open_axis is not None:
        open_size = _quotient(term.shape, shape)
        if open_size is None:
            return None
        shape[open_axis] = open_size
    return _reshape_term(mover, term, shape)


def _reshape_term(mover: Mover, term: Term, shape: Sequence[Size]) -> Sequence[Term] | None:
    """Return a term in another shape; None if the number of elements may differ."""
    return [mover.reshape(term, tuple(shape))] if product(shape) == product(term.sizes) else None


def _quotient(sizes: Sizes, others: Sequence[Size]) -> Size | None:
    """Return the quotient of two products; None if it is not a polynomial."""
    above, below = [*sizes], list[Size]()
    for size in others:
        if size in above:
            above.remove(size)
        else:
            below.append(size)
    quotient: Size | None = product(above)
    for size in below:
        quotient = None if quotient is None else exact_quotient(quotient, size)
    return quotient


def _axes(call: OperatorCall, k: int, rank: int) -> list[int] | None:
    """Return the axes in an attribute or input k, sorted; None if they are unknown or left out."""
    listed_axes = call.axes(k)
    axes = [axis_of(axis, rank) for axis in listed_axes or ()]
    distinct = sorted(axis for axis in axes if axis is not None)
    return None if listed_axes is None or len({*distinct}) < len(axes) else distinct


def _squeeze(mover: Mover, call: OperatorCall) -> Sequence[Term] | None:
    term = call.term(0)
    if term is None or term.shape is None:
        return None
    axes = _axes(call, 1, max(1, len(term.shape)))
    if axes is None:
        is_given = call.term(1) is not None or call.get("axes") is not None
        if is_given or any(size != 1 and not differ(size, 1) for size in term.shape):
            return None
        axes = [axis for axis, size in enumerate(term.shape) if size == 1]
    return _reshape_term(mover, term, [size for axis, size in enumerate(term.shape) if axis not in axes])


def _unsqueeze(mover: Mover, call: OperatorCall) -> Sequence[Term] | None:
    term = call.term(0)
    new_axes = call.axes(1)
    if term is None or term.shape is None or new_axes is None:
        return None
    rank = len(term.shape) + len(new_axes)
    axes = _axes(call, 1, rank)
    if axes is None:
        return None
    remaining = iter(term.shape)
    return _reshape_term(mover, term, [1 if axis in axes else next(remaining) for axis in range(rank)])


def _flatten(mover: Mover, call: OperatorCall) -> Sequence[Term] | None:
    term = call.term(0)
    if term is None or term.shape is None:
        return None
    axis = call.get("axis", 1)
    axis = axis + len(term.shape) if axis < 0 and call.version >= _AXES_FROM_THE_END else axis
    if not 0 <= axis <= len(term.shape):
        return None
    return _reshape_term(mover, term, [product(term.shape[:axis]), product(term.shape[axis:])])


_AXES_FROM_THE_END = 11
"""First opset in which Flatten takes negative axes."""


def _transpose(mover: Mover, call: OperatorCall) -> Sequence[Term] | None:
    term = call.term(0)
    if term is None or term.shape is None:
        return None
    perm = call.get("perm", range(len(term.shape))[::-1])
    return [mover.transpose(term, perm)] if sorted(perm) == [*range(len(term.shape))] else None


def _depth_to_space(mover: Mover, call: OperatorCall) -> Sequence[Term] | None:
    term, block, mode = call.term(0), call.get("blocksize", 0), call.get("mode", b"DCR")
    if term is None or term.shape is None or len(term.shape) != 4 or block < 1 or mode not in (b"DCR", b"CRD"):
        return None
    images, channels, rows, columns = term.shape
    depth = exact_quotient(channels, block * block)
    if depth is None:
        return None
    axes, perm = (
        ((block, block, depth), (0, 3, 4, 1, 5, 2)) if mode == b"DCR" else ((depth, block, block), (0, 1, 4, 2, 5, 3))
    )
    split = mover.reshape(term, (images, *axes, rows, columns))
    return [mover.reshape(mover.transpose(split, perm), (images, depth, rows * block, columns * block))]


def _space_to_depth(mover: Mover, call: OperatorCall) -> Sequence[Term] | None:
    term, block, mode = call.term(0), call.get("blocksize", 0), call.get("mode", b"DCR")
    if term is None or term.shape is None or len(term.shape) != 4 or block < 1 or mode not in (b"DCR", b"CRD"):
        return None
    images, channels, *image = term.shape
    rows, columns = (exact_quotient(size, block) for size in image)
    if rows is None or columns is None:
        return None
    split = mover.reshape(term, (images, channels, rows, block, columns, block))
    moved = mover.transpose(split, (0, 3, 5, 1, 2, 4) if mode == b"DCR" else (0, 1, 3, 5, 2, 4))
    return [mover.reshape(moved, (images, channels * block * block, rows, columns))]


def _einsum(mover: Mover, call: OperatorCall) -> Sequence[Term] | None:
    """Return the transposed input of an equation with one input; None if it sums elements, or takes a diagonal."""
    term = call.term(0)
    perm = permutation_of(call.get("equation", b"").decode()) if len(call.inputs) == 1 else None
    if term is None or term.shape is None or perm is None or len(perm) != len(term.shape):
        return None
    return [mover.transpose(term, perm)]


def _concat(mover: Mover, call: OperatorCall) -> Sequence[Term] | None:
    terms = [term for term in call.inputs if term is not None and term.shape]
    if len(terms) < len(call.inputs) or not terms or call.version < 4:
        return None
    axis = axis_of(call.get("axis"), len(terms[0].sizes))
    rests = {(term.dtype, len(term.sizes), term.sizes[:axis], term.sizes[(axis or 0) + 1 :]) for term in terms}
    return [mover.concat(terms, axis)] if axis is not None and len(rests) == 1 else None


def _expand(mover: Mover, call: OperatorCall) -> Sequence[Term] | None:
    term, target = call.term(0), vector_of(call.term(1))
    if term is None or term.shape is None or target is None or not are_sizes(target):
        return None
    shape = tuple(target)
    return [mover.expand(term, broadcast(term.shape, shape))] if may_fit(term.shape, shape) else None


def _constant_of_shape(mover: Mover, call: OperatorCall) -> Sequence[Term] | None:
    sizes, value = vector_of(call.term(0)), call.get("value")
    if sizes is None or not are_sizes(sizes):
        return None
    fill = np.zeros((), np.float32) if value is None else to_array(value, Budget()).reshape(())
    return [mover.expand(mover.terms.constant(fill), tuple(sizes))]


def _range(mover: Mover, call: OperatorCall) -> Sequence[Term] | None:
    bounds = [elements_of(call.term(k)) for k in range(3)]
    first, end, step = (None if array is None or array.ndim else array.item() for array in bounds)
    if first is None or end is None or step != 1 or (low := lower_bound(end - first)) is None or low < 0:
        return None
    if isinstance(first, int) and isinstance(end, int):
        return None
    dtype = call.inputs[0].dtype if call.inputs[0] is not None else None
    return [mover.terms.make("range", call.inputs, None, dtype, (end - first,))]


def _tile(mover: Mover, call: OperatorCall) -> Sequence[Term] | None:
    term, repeats = call.term(0), vector_of(call.term(1))
    if term is None or term.shape is None or repeats is None or term.array is not None or call.version < 6:
        return None
    times = repeats
    if len(times) != len(term.shape) or not are_sizes(times):
        return None
    return [mover.tile(term, times)]


def _resize(mover: Mover, call: OperatorCall) -> Sequence[Term] | None:
    """Return an image that is resized to its own size, if every pixel then keeps its place."""
    term, scales, sizes = call.term(0), call.numbers_of(2), vector_of(call.term(3))
    if term is None or term.shape is None or call.version < 11 or call.get("axes") is not None:
        return None
    if call.get("coordinate_transformation_mode", b"half_pixel") not in _PIXELS_THAT_STAY:
        return None
    if call.get("nearest_mode", b"floor") not in (b"round_prefer_floor", b"round_prefer_ceil", b"floor", b"ceil"):
        # Runtimes refuse names that ONNX does not define.
        return None
    is_same = scales == [1.0] * len(term.shape) if call.term(3) is None else sizes == [*term.shape]
    if not is_same or call.get("keep_aspect_ratio_policy", b"stretch") != b"stretch":
        return None
    # ONNX Runtime refuses other ranks, and these attributes for some modes.
    ranks = {b"nearest": range(9), b"linear": range(2, 6), b"cubic": (2, 4)}
    mode = call.get("mode", b"nearest")
    if len(term.shape) not in ranks.get(mode, ()) or call.get("exclude_outside", 0) or call.get("antialias", 0):
        return None
    if mode != b"nearest" and not _adds_nothing(call, term):
        if not mover.is_real:
            return None
        mover.rounded.add("an image is resized to its own size, which may add 0 times a pixel beside")
    return [term]


_PIXELS_THAT_STAY = (b"half_pixel", b"half_pixel_symmetric", b"pytorch_half_pixel", b"align_corners", b"asymmetric")
"""Ways to place pixels by which those of an image of the same size stay where they are."""


def _adds_nothing(call: OperatorCall, term: Term) -> bool:
    """Whether all elements stay the same if 0 times a pixel beside is added: numbers without −0, infinity and NaN."""
    is_exact = call.get("mode") == b"linear" or call.get("cubic_coeff_a") in _EXACT_COEFFICIENTS
    array = term.array if term.is_constant else None
    if array is None or not is_exact or array.dtype.kind not in "fiu":
        return False
    return bool(np.isfinite(array).all()) and not bool(np.signbit(array[array == 0]).any())


_EXACT_COEFFICIENTS = (-0.5, -0.75)
"""Coefficients of cubic interpolation, for which weights at a pixel are 1 and 0, without rounding."""


RULES: dict[tuple[str, str], Rule] = {
    ("", operator): rule
    for operator, rule in {
        "Cast": cast_rule, "CenterCropPad": center_rule, "Concat": _concat,
        "ConstantOfShape": _constant_of_shape, "DepthToSpace": _depth_to_space,
        "Dropout": _dropout, "Einsum": _einsum,
        "Expand": _expand, "Flatten": _flatten, "Gather": take_rule, "Identity": _identity, "Pad": pad_rule,
        "Range": _range, "Reshape": _reshape, "Resize": _resize,
        "Shape": _shape, "Size": _size, "Slice": slice_rule, "SpaceToDepth": _space_to_depth, "Split": split_rule,
        "Squeeze": _squeeze, "Tile": _tile, "Transpose": _transpose, "Unsqueeze": _unsqueeze,
    }.items()
}  # fmt: skip
"""Rules of movement and shapes by domain and operator."""
