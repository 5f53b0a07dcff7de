"""What a benchmark leaves: a table for people, JSON for machines, and a chart."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Result:
    """One case.

    Attributes:
        name, about: which.
        bytes: read and written.
        seconds: median of ours and of every peer, by name.
        copy_seconds: median of the fastest plain copy of as many bytes; None for cases too small for one.
    """

    name: str
    about: str
    bytes: int
    seconds: dict[str, float]
    copy_seconds: float | None

    @property
    def ours(self) -> float:
        """Median seconds of ours."""
        return self.seconds["anydml"]

    def library(self, name: str) -> float | None:
        """Median seconds of a library's fastest way, None where it has none."""
        times = [seconds for run, seconds in self.seconds.items() if run.split()[0] == name]
        return min(times, default=None)

    @property
    def fastest_peer(self) -> tuple[str, float] | None:
        """The fastest way of all peers."""
        peers = [(seconds, name) for name, seconds in self.seconds.items() if name != "anydml"]
        return (min(peers)[1], min(peers)[0]) if peers else None

    @property
    def ratio(self) -> float | None:
        """How many times as fast as the fastest peer we are."""
        return self.fastest_peer[1] / self.ours if self.fastest_peer else None

    @property
    def share(self) -> float | None:
        """The copy limit's time over ours: 1 is as fast as a plain copy."""
        return None if self.copy_seconds is None else self.copy_seconds / self.ours


PEERS = ("numpy", "torch", "onnxruntime")


def table(results: Sequence[Result]) -> str:
    """The table that is printed: GB/s (or µs where the work is small), the ratio, the share of the copy limit."""
    header = f"{'case':8}{'work':44}{'ours':>9}" + "".join(f"{peer:>13}" for peer in PEERS)
    lines = [header + f"{'× fastest':>11}{'of copy':>9}"]
    for result in results:
        cells = [_speed(result, result.ours)]
        cells += [_speed(result, result.library(peer)) for peer in PEERS]
        ratio = "" if result.ratio is None else f"{result.ratio:.2f}"
        share = "" if result.share is None else f"{result.share:.0%}"
        line = f"{result.name:8}{result.about[:43]:44}{cells[0]:>9}" + "".join(f"{cell:>13}" for cell in cells[1:])
        lines.append(line + f"{ratio:>11}{share:>9}")
    return "\n".join(lines)


def _speed(result: Result, seconds: float | None) -> str:
    if seconds is None:
        return "–"
    return f"{seconds * 1e6:.2f} µs" if result.copy_seconds is None else f"{result.bytes / seconds / 1e9:.1f}"


def geometric_mean(values: Sequence[float]) -> float:
    """The mean that ratios have."""
    return math.exp(sum(map(math.log, values)) / len(values))


def as_json(results: Sequence[Result], machine: dict[str, object], **more: Any) -> str:
    """Everything measured, for machines."""
    cases = [{**asdict(r), "ratio": r.ratio, "share_of_copy": r.share} for r in results]
    return json.dumps({"machine": machine, **more, "cases": cases}, indent=1) + "\n"


def write_chart(path: Path, results: Sequence[Result], title: str, note: str) -> None:
    """An SVG chart: a pair of bars a case, ours and the fastest peer's speed as a share of the copy limit."""
    shown = [result for result in results if result.copy_seconds is not None]
    left, scale, row = 250, 420, 30
    most = max(1.0, *(result.share or 0 for result in shown))
    unit = scale / most
    height = 74 + row * len(shown)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {left + scale + 110} {height}" '
        'font-family="sans-serif" font-size="12">',
        f'<rect width="{left + scale + 110}" height="{height}" fill="#ffffff"/>',
        f'<text x="10" y="20" font-size="15" font-weight="bold" fill="#222222">{_text(title)}</text>',
        f'<text x="10" y="38" fill="#666666">{_text(note)}</text>',
        f'<text x="{left + unit}" y="54" text-anchor="middle" fill="#666666">plain copy</text>',
    ]
    for i, result in enumerate(shown):
        y = 60 + row * i
        share = result.share or 0
        _, seconds = result.fastest_peer or ("", math.inf)
        peer = (result.copy_seconds or 0) / seconds
        ratio = "" if result.ratio is None else f"{result.ratio:.2f} ×"
        parts += [
            f'<text x="{left - 8}" y="{y + 16}" text-anchor="end" fill="#222222">'
            f"{_text(result.name)}  {_text(result.about[:32])}</text>",
            f'<rect x="{left}" y="{y + 3}" width="{share * unit:.1f}" height="11" fill="#2b6cb0"/>',
            f'<rect x="{left}" y="{y + 15}" width="{peer * unit:.1f}" height="8" fill="#cbd5e0"/>',
            f'<text x="{left + max(share, peer) * unit + 6:.1f}" y="{y + 17}" fill="#222222">{ratio}</text>',
        ]
    parts.append(f'<path d="M{left + unit} 58V{height - 8}" stroke="#e53e3e" stroke-dasharray="4 3"/>')
    path.write_text("\n".join([*parts, "</svg>\n"]), encoding="utf-8")


def _text(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;")
