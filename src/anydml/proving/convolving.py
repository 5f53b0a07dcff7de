"""Sizes of what windows leave of images: convolutions and pools, for all sizes."""

from __future__ import annotations

from collections.abc import Sequence

from anydml.proving.calls import Call, Type
from anydml.proving.sizes import Size, quotient

WINDOWED = frozenset(("AveragePool", "Conv", "ConvTranspose", "LpPool", "MaxPool"))
"""Operators of windows, whose results have the rank of their first input."""


def sized(call: Call, types: list[Type]) -> list[Type]:
    """Return the types of a node's results with the sizes that its windows leave, where they are known.

    Args:
        call: the node.
        types: what onnx infers, which is no size where that of an image is not a number.
    """
    sizes = None if call.domain or call.operator not in WINDOWED else _sizes(call)
    if sizes is None:
        return types
    return [
        (dtype, shape if shape is None or len(shape) != len(sizes) + 2 else (*shape[:2], *sizes))
        for dtype, shape in types
    ]


def _sizes(call: Call) -> Sequence[Size] | None:
    image, weights = call.term(0), call.term(1)
    if image is None or image.shape is None or call.get("auto_pad", b"NOTSET") != b"NOTSET":
        return None
    if call.get("ceil_mode", 0) or call.get("output_shape") is not None:
        return None
    own = None if weights is None or weights.shape is None else [*weights.shape[2:]]
    rank, kernel = len(image.shape) - 2, call.get("kernel_shape", own)
    ones, zeros = [1] * rank, [0] * rank
    steps, gaps = call.get("strides", ones), call.get("dilations", ones)
    pads, more = call.get("pads", [*zeros, *zeros]), call.get("output_padding", zeros)
    if kernel is None or [len(each) for each in (kernel, steps, gaps, pads, more)] != [rank] * 3 + [2 * rank, rank]:
        return None
    reaches = [gap * (size - 1) + 1 for size, gap in zip(kernel, gaps, strict=True)]
    if call.operator == "ConvTranspose":
        return [
            step * (size - 1) + reach + end - first - last
            for size, step, reach, end, first, last in zip(
                image.shape[2:], steps, reaches, more, pads[:rank], pads[rank:], strict=True
            )
        ]
    return [
        quotient(size + first + last - reach, step) + 1
        for size, step, reach, first, last in zip(
            image.shape[2:], steps, reaches, pads[:rank], pads[rank:], strict=True
        )
    ]
