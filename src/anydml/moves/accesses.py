"""Values that one access reads."""

from __future__ import annotations

from anydml.moves.move import Access, Fill
from anydml.moves.pieces import on_strides, tidy
from anydml.moves.value import Value
from anydml.tensor import Layout


def operand_of(value: Value) -> tuple[int, Layout] | None:
    """Return the operand and layout of a value that is stored in one operand, from the first byte on; else None."""
    strided_value = strided(value)
    return None if strided_value is None or strided_value[0].offset else (strided_value[0].operand, strided_value[1])


def strided(value: Value) -> tuple[Access, Layout] | None:
    """Return the access and layout of a value that one access without lookups reads, else None."""
    if value.access is not None:
        return (value.access, Layout(value.sizes, value.access.strides, value.element_size)) if value.pieces else None
    if len(value.pieces) != 1 or not isinstance(access := value.pieces[0].source, Access):
        return None
    piece, strides = value.pieces[0], [0] * len(value.sizes)
    covered = [1] * len(value.sizes)
    for factor, stride in zip(piece.factors, access.strides, strict=True):
        strides[factor.axis] = stride
        covered[factor.axis] *= factor.size if factor.step == 1 and covered[factor.axis] == 1 else 0
    if access.lookups or any(piece.start) or tuple(covered) != value.sizes:
        return None
    return access, Layout(value.sizes, tuple(strides), value.element_size)


def single_access(value: Value) -> Access | None:
    """Return the one access that reads a value, with one stride per axis, or None."""
    if len(value.pieces) != 1:
        return None
    start, factors, source = tidy(value.pieces[0])
    if isinstance(source, Fill) or any(start):
        return None
    factor_of = {}
    for k, (axis, size, step) in enumerate(factors):
        if size > 1:
            if step != 1 or size != value.sizes[axis]:
                return None
            factor_of[axis] = k
    if any(size > 1 and axis not in factor_of for axis, size in enumerate(value.sizes)):
        return None
    axes = range(len(value.sizes))
    return on_strides(
        source, lambda strides: (0, tuple(strides[factor_of[axis]] if axis in factor_of else 0 for axis in axes))
    )
