"""Sizes of the results of convolutions and pools, for images of all sizes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from onnx import NodeProto, helper

from anydml.proving.movement_terms import filled
from anydml.proving.operator_calls import OperatorCall, Type
from anydml.proving.sizes import Size, quotient

WINDOW_OPERATORS = frozenset(("AveragePool", "Conv", "ConvTranspose", "LpPool", "MaxPool"))
"""Operators that move a window over images; their results have the rank of the first input."""


def result_types(call: OperatorCall, types: list[Type]) -> list[Type]:
    """Return the types of a node's results, with the sizes of those of a convolution or pool.

    Args:
        call: the node.
        types: the types that onnx infers, in which sizes are unknown if those of the image are symbolic.
    """
    sizes = None if call.domain or call.operator not in WINDOW_OPERATORS else _sizes(call)
    if sizes is None:
        return types
    # A runtime refuses negative sizes.
    known_sizes = [None if isinstance(size, int) and size < 0 else size for size in sizes]
    return [
        (dtype, shape if shape is None or len(shape) != len(known_sizes) + 2 else (*shape[:2], *known_sizes))
        for dtype, shape in types
    ]


def with_explicit_pads(call: OperatorCall) -> OperatorCall:
    """Return a convolution or pool with `pads` in place of `auto_pad`; other nodes are returned unchanged."""
    mode = call.get("auto_pad", b"NOTSET")
    if call.domain or call.operator not in WINDOW_OPERATORS or mode == b"NOTSET" or any(call.get("pads", ())):
        return call
    proto = NodeProto()
    proto.CopyFrom(call.proto)
    for name in ("auto_pad", "pads"):
        for attribute in [attribute for attribute in proto.attribute if attribute.name == name]:
            proto.attribute.remove(attribute)
    plain = OperatorCall(proto, call.opsets, call.inputs)
    if mode == b"VALID":
        # With `ceil_mode`, sizes are rounded differently if `pads` are given.
        return call if call.get("ceil_mode", 0) else plain
    # Runtimes disagree on the padding of kernels with gaps.
    is_plain = call.operator != "ConvTranspose" and all(gap == 1 for gap in call.get("dilations", ()))
    windows = _windows(plain) if is_plain else None
    counts = [_same(size, reach, step) for size, reach, step, _, _ in windows or ()]
    known_counts = [count for count in counts if count is not None]
    if windows is None or mode not in (b"SAME_LOWER", b"SAME_UPPER") or len(known_counts) < len(counts):
        return call
    less, more = [count // 2 for count in known_counts], [-(-count // 2) for count in known_counts]
    pads = [*less, *more] if mode == b"SAME_UPPER" else [*more, *less]
    proto.attribute.append(helper.make_attribute("pads", pads))
    return OperatorCall(proto, call.opsets, call.inputs)


def _same(size: Size, reach: int, step: int) -> int | None:
    """Return the padding of an axis with which the result's size is ⌈image size / step⌉.

    None if it depends on the size, or is negative, which runtimes refuse, take for 0, or read from another place.
    """
    if isinstance(size, int):
        count = (-(-size // step) - 1) * step + reach - size
        return count if count >= 0 else None
    return reach - 1 if step == 1 else None


def nonnegative_sizes(call: OperatorCall) -> Iterator[Size]:
    """Yield sizes that are at least 0, because a convolution refuses images that are smaller than the kernel."""
    for size, reach, step, first, last in (
        (_windows(with_explicit_pads(call)) or ()) if (call.domain, call.operator) == ("", "Conv") else ()
    ):
        yield size + first + last - reach
        yield quotient(size + first + last - reach, step)


def without_zero_bias(call: OperatorCall) -> OperatorCall:
    """Remove a convolution's bias if it is all zeros; other nodes are returned unchanged."""
    bias = call.term(2)
    element = filled(bias) if bias is not None and call.operator in ("Conv", "ConvTranspose") else None
    if call.domain or element is None or element != 0:
        return call
    proto = NodeProto()
    proto.CopyFrom(call.proto)
    del proto.input[2:]
    return OperatorCall(proto, call.opsets, call.inputs[:2])


def _sizes(call: OperatorCall) -> Sequence[Size | None] | None:
    windows = _windows(call)
    if windows is None:
        return None
    if call.operator == "ConvTranspose":
        more = call.get("output_padding", [0] * len(windows))
        if len(more) != len(windows):
            return None
        return [
            step * (size - 1) + reach + end - first - last
            for (size, reach, step, first, last), end in zip(windows, more, strict=True)
        ]
    rooms = [(size + first + last - reach, step) for size, reach, step, first, last in windows]
    # If the kernel is larger than the image, some runtimes refuse the node, and others round the quotient up.
    return [None if isinstance(room, int) and room < 0 else quotient(room, step) + 1 for room, step in rooms]


def _windows(call: OperatorCall) -> list[tuple[Size, int, int, int, int]] | None:
    """Return, by axis, the size of the image, the extent of the kernel, its step, and the padding at both ends."""
    image, weights = call.term(0), call.term(1)
    if image is None or image.shape is None or call.get("auto_pad", b"NOTSET") != b"NOTSET":
        return None
    if call.get("ceil_mode", 0) or call.get("output_shape") is not None:
        return None
    window = None if weights is None or weights.shape is None else [*weights.shape[2:]]
    rank, kernel = len(image.shape) - 2, call.get("kernel_shape", window)
    ones = [1] * rank
    steps, gaps, pads = call.get("strides", ones), call.get("dilations", ones), call.get("pads", [0] * 2 * rank)
    if kernel is None or [len(values) for values in (kernel, steps, gaps, pads)] != [rank] * 3 + [2 * rank]:
        return None
    if min(*steps, *gaps, 1) < 1:
        return None
    reaches = [gap * (size - 1) + 1 for size, gap in zip(kernel, gaps, strict=True)]
    return [*zip(image.shape[2:], reaches, steps, pads[:rank], pads[rank:], strict=True)]
