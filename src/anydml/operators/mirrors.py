"""Extension of a box of a tensor beyond its sides by its edge, its mirror image or itself.

Each dimension is extended in turn from elements that are already written, so that each element is written once and the
number of moves does not depend on the sizes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from anydml.core.mirrors import runs
from anydml.moves import Access, Move
from anydml.operators.enums import PaddingMode
from anydml.tensor import Layout

_WORDS = {
    PaddingMode.EDGE: "edge",
    PaddingMode.REFLECTION: "reflect",
    PaddingMode.SYMMETRIC: "symmetric",
    PaddingMode.WRAP: "wrap",
}


def extension_moves(
    operand: int, layout: Layout, starts: Sequence[int], sizes: Sequence[int], mode: PaddingMode
) -> Iterator[Move]:
    """Return the moves that write all elements outside a box from those inside.

    Args:
        operand: operand number of the tensor.
        layout: the tensor's layout.
        starts: the box's first coordinate.
        sizes: the box's sizes.
        mode: any but CONSTANT.
    """
    for d, (start, size, whole) in enumerate(zip(starts, sizes, layout.sizes, strict=True)):
        # Preceding dimensions are already extended, later ones are not.
        origin = sum(starts[k] * layout.strides[k] for k in range(d, len(sizes)))
        stride = layout.strides[d]
        others = (*layout.strides[:d], *layout.strides[d + 1 :])
        box = (*layout.sizes[:d], *sizes[d + 1 :])
        word = _WORDS[mode]
        for at, length, first, step, repeats, period in (
            *runs(word, size, -start, 0),
            *runs(word, size, size, whole - start),
        ):
            to = Access(operand, origin + at * stride, (*others, period * stride, stride))
            source = Access(operand, origin + first * stride, (*others, 0, step * stride))
            yield Move((*box, repeats, length), to, source, layout.element_size)
