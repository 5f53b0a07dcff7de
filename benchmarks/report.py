"""What a benchmark leaves: a table for people, and JSON for machines."""

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


def keep(path: Path, results: Sequence[Result], machine: dict[str, object], order: Sequence[str], **more: Any) -> None:
    """Add cases to what a file keeps: those that it has are replaced, and so are entries of what else is kept by case.

    Args:
        path: the file, which need not be there.
        results: what was measured.
        machine: on which.
        order: the names of all cases.
        more: what else to keep.

    Raises:
        SystemExit: the file keeps what was measured on another machine, or with other versions.
    """
    kept = json.loads(as_json(results, machine, **more))
    if path.exists():
        old = json.loads(path.read_text(encoding="utf-8"))
        if old["machine"] != kept["machine"]:
            raise SystemExit(f"{path} keeps what was measured on {old['machine']}: give --json another file")
        names = {case["name"] for case in kept["cases"]}
        cases = [*kept["cases"], *(case for case in old["cases"] if case["name"] not in names)]
        kept["cases"] = sorted(cases, key=lambda case: order.index(case["name"]))
        for name in more:
            if isinstance(kept[name], dict):
                kept[name] = {**old.get(name, {}), **kept[name]}
    path.write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")
