"""Screenshots compared with kept ones, small and with tolerance: fonts and smoothing differ from system to system."""

from __future__ import annotations

import io
import os
from typing import Any

import numpy as np
from documents import ROOT

KEPT = ROOT / "tests" / "golden" / "pictures"
SCALE = 4
"""Pixels of a screenshot along each side of a kept pixel."""

COLOURS = 32
"""Colours of a kept picture, so that it takes a few kilobytes."""

FAR = 48
"""Levels, of 256, by which a pixel differs that is another one: more than smoothing and the palette make."""

MAX_FAR = 0.02
"""Share of such pixels that may be: letters of another font, and lines that they move by a pixel."""


def small(shown: Any) -> Any:
    """A screenshot of a page or an element, as it is kept."""
    from PIL import Image

    whole = Image.open(io.BytesIO(shown.screenshot(animations="disabled"))).convert("RGB")
    return whole.resize((max(1, whole.width // SCALE), max(1, whole.height // SCALE)), Image.Resampling.BOX)


def far(first: Any, second: Any) -> float:
    """The share of pixels that differ; 1 where the sizes do by more than a fiftieth."""
    if any(abs(a - b) > max(2, a // 50) for a, b in zip(first.size, second.size, strict=True)):
        return 1.0
    width, height = map(min, first.size, second.size)
    one, other = (np.asarray(each.convert("RGB"), np.int16)[:height, :width] for each in (first, second))
    return float((np.abs(one - other).max(axis=2) > FAR).mean())


def check(shown: Any, name: str) -> None:
    """Compare with the kept picture of that name; ``ANYDML_RENEW=1`` keeps this one instead."""
    from PIL import Image

    path, now = KEPT / f"{name}.png", small(shown)
    if os.environ.get("ANYDML_RENEW"):
        path.parent.mkdir(exist_ok=True)
        now.quantize(COLOURS).save(path, optimize=True)
        return
    share = far(Image.open(path), now)
    assert share <= MAX_FAR, f"{name}: {share:.1%} of the picture differs: look, then ANYDML_RENEW=1 keeps the new one"
