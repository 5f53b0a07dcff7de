"""What the benchmark of images does, as NumPy's, OpenCV's, PyTorch's and torchvision's users write it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

import anydml as dml

Array = np.ndarray[Any, Any]

EDGE, CROP = 16, 24
"""Pixels of a border, and what a crop takes away on each side."""


@dataclass(frozen=True)
class Case:
    """Work on images whose last axes are rows, columns and channels, or channels, rows and columns.

    Attributes:
        name, about: which.
        numpy: as NumPy's users write it; fused, it is ours.
        cv2: of one image, into an array or a new one.
        torch: as PyTorch's users write it, if they can.
        torchvision: by its functions, on channels before rows.
        channels: of an image.
        has_planes: whether channels come first.
    """

    name: str
    about: str
    numpy: Callable[[Array], Any]
    cv2: Callable[[Array, Array | None], Any]
    torch: Callable[[Any], Any] | None = None
    torchvision: Callable[[Any], Any] | None = None
    channels: int = 3
    has_planes: bool = False

    @cached_property
    def ours(self) -> Callable[[Array], Any]:
        """NumPy's spelling, fused."""
        return dml.fuse(self.numpy)


def _color(code: str) -> Callable[[Array, Array | None], Any]:
    def convert(image: Array, to: Array | None) -> Any:
        import cv2

        return cv2.cvtColor(image, getattr(cv2, f"COLOR_{code}"), to)

    return convert


def _border(kind: str) -> Callable[[Array, Array | None], Any]:
    def pad(image: Array, to: Array | None) -> Any:
        import cv2

        return cv2.copyMakeBorder(image, EDGE, EDGE, EDGE, EDGE, getattr(cv2, f"BORDER_{kind}"), to)

    return pad


def _flip(code: int) -> Callable[[Array, Array | None], Any]:
    def flip(image: Array, to: Array | None) -> Any:
        import cv2

        return cv2.flip(image, code, to)

    return flip


def _planes(image: Array, to: Array | None) -> Any:
    import cv2

    out = np.empty((image.shape[-1], *image.shape[:-1]), image.dtype) if to is None else to
    cv2.split(image, [*out])
    return out


def _merged(planes: Array, to: Array | None) -> Any:
    import cv2

    return cv2.merge([*planes], to)


def _crop(image: Array, to: Array | None) -> Any:
    import cv2

    return cv2.copyTo(image[CROP:-CROP, CROP:-CROP], None, to)


def _turned(image: Array, to: Array | None) -> Any:
    import cv2

    return cv2.rotate(image, cv2.ROTATE_90_COUNTERCLOCKWISE, to)


def _prepared(image: Array, to: Array | None) -> Any:
    import cv2

    return _planes(cv2.flip(image[CROP:-CROP, CROP:-CROP], 1), to)


def _pad(mode: Any) -> Callable[[Array], Any]:
    return lambda x: np.pad(x, [(0, 0)] * (x.ndim - 3) + [(EDGE, EDGE), (EDGE, EDGE), (0, 0)], mode)


def _with_alpha(x: Array) -> Any:
    return np.concatenate([x[..., ::-1], np.full_like(x[..., :1], 255)], -1)


def _torch_alpha(x: Any) -> Any:
    import torch

    return torch.cat([x.flip(-1), torch.full_like(x[..., :1], 255)], -1)


def _torch_pad(x: Any) -> Any:
    import torch

    return torch.nn.functional.pad(x, (0, 0, EDGE, EDGE, EDGE, EDGE))


def _vision(name: str, *arguments: Any, **more: Any) -> Callable[[Any], Any]:
    def run(planes: Any) -> Any:
        from torchvision.transforms.v2 import functional

        return getattr(functional, name)(planes, *arguments, **more)

    return run


def _vision_crop(planes: Any) -> Any:
    height, width = planes.shape[-2:]
    return _vision("crop", CROP, CROP, height - 2 * CROP, width - 2 * CROP)(planes)


def _in_one_pass(x: Array) -> Any:
    return np.moveaxis(x[..., CROP:-CROP, CROP:-CROP, :][..., ::-1, :], -1, -3)


CASES = (
    Case("bgr", "RGB → BGR", lambda x: x[..., ::-1], _color("RGB2BGR"), lambda x: x.flip(-1)),
    Case("bgra", "RGBA → BGRA", lambda x: x[..., [2, 1, 0, 3]], _color("RGBA2BGRA"), lambda x: x[..., [2, 1, 0, 3]],
         channels=4),
    Case("drop-alpha", "RGBA → BGR", lambda x: x[..., 2::-1], _color("RGBA2BGR"), lambda x: x[..., :3].flip(-1),
         channels=4),
    Case("add-alpha", "RGB → BGRA", _with_alpha, _color("RGB2BGRA"), _torch_alpha),
    Case("planes", "height, width, channels → planes", lambda x: np.moveaxis(x, -1, -3), _planes,
         lambda x: x.movedim(-1, -3)),
    Case("pixels", "planes → height, width, channels", lambda x: np.moveaxis(x, -3, -1), _merged,
         lambda x: x.movedim(-3, -1), has_planes=True),
    Case("crop", "crop of the centre", lambda x: x[..., CROP:-CROP, CROP:-CROP, :], _crop,
         lambda x: x[..., CROP:-CROP, CROP:-CROP, :], _vision_crop),
    Case("flip", "left and right exchanged", lambda x: x[..., ::-1, :], _flip(1), lambda x: x.flip(-2),
         _vision("horizontal_flip")),
    Case("upside-down", "top and bottom exchanged", lambda x: x[..., ::-1, :, :], _flip(0), lambda x: x.flip(-3),
         _vision("vertical_flip")),
    Case("turn", "turned by 90°", lambda x: np.rot90(x, axes=(-3, -2)), _turned, lambda x: x.rot90(1, (-3, -2))),
    Case("border", "border of zeros", _pad("constant"), _border("CONSTANT"), _torch_pad,
         _vision("pad", [EDGE] * 4)),
    Case("edge", "border of the edge's pixels", _pad("edge"), _border("REPLICATE"),
         torchvision=_vision("pad", [EDGE] * 4, padding_mode="edge")),
    Case("mirror", "border of mirrored pixels", _pad("reflect"), _border("REFLECT_101"),
         torchvision=_vision("pad", [EDGE] * 4, padding_mode="reflect")),
    Case("prepare", "crop, flip and planes in one pass", _in_one_pass,
         _prepared, lambda x: x[..., CROP:-CROP, CROP:-CROP, :].flip(-2).movedim(-1, -3)),
)  # fmt: skip
