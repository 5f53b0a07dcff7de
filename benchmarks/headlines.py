"""The figures of README's first screen, from the kept results: ``python -m benchmarks.headlines [--write]``.

Each row is the median, over all cases of a grid, of the time of the fastest alternative divided by anydml's, beside the
least. A plain copy of files (`cp`) is not an alternative. ``--write`` puts the table into README.md.
"""

from __future__ import annotations

import argparse
import json
import statistics
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "benchmarks" / "results"
BEGIN, END = "<!-- headlines -->\n", "<!-- end of headlines -->\n"
GRIDS = {
    "checkpoints": "shards of a checkpoint joined, 0.74 to 0.94 GB",
    "cpu": "arrays of one shape, bound once and moved again and again",
    "sizes": "each function and operator, 256 bytes to 64 MiB, called repeatedly",
    "permutations": "axes of an array in another order",
    "streams": "single functions, a different shape in every call",
    "images": "images cropped, mirrored, padded, and channels moved",
}
"""What a grid of `results` measures, by the name of its file."""
SECTIONS = {"sizes": "all-sizes", "permutations": "permuted-copies", "streams": "new-shapes"}
"""The section of docs/benchmarks.md with a grid's command, where it is not called like the file."""
LIBRARIES = {"torch": "PyTorch", "safetensors": "the safetensors library"}
"""What the alternatives of `headline` are called."""
NOT_ALTERNATIVES = {"anydml", "cp"}


def ratios(kept: dict[str, Any]) -> dict[str, float]:
    """How many times as long the fastest alternative takes, by case."""
    if "streams" in kept:
        names = {"case", "size", "door"}
        kept = {"cells": [
            {
                "about": f"{stream['case']} of {stream['size']} bytes",
                "seconds": {way: seconds for way, seconds in stream.items() if way not in names},
            }
            for stream in kept["streams"]
        ]}  # fmt: skip
    cases = kept.get("cases") or kept["cells"]
    named = cases.items() if isinstance(cases, dict) else ((str(number), case) for number, case in enumerate(cases))
    by_case = {}
    for name, case in named:
        others = [seconds for way, seconds in case["seconds"].items() if way not in NOT_ALTERNATIVES]
        if others and case.get("state", "hot") == "hot":
            # Where rounds are paired, the median of their ratios is kept.
            by_case[f"{name}: {case['about']}"] = case.get("ratio") or min(others) / case["seconds"]["anydml"]
    return by_case


def results(name: str) -> Any:
    """The kept results of a grid."""
    return json.loads((RESULTS / f"{name}.json").read_text(encoding="utf-8"))


def headline() -> str:
    """Sentences about the first grid and the table, or nothing if that grid has no results."""
    if not (RESULTS / "checkpoints.json").exists():
        return ""
    kept = results("checkpoints")
    by_case = ratios(kept).values()
    median, least = f"{statistics.median(by_case):.1f}", f"{min(by_case):.1f}"
    cases = [case["seconds"] for case in kept["cases"].values()]
    ways = {way for case in cases for way in case} - NOT_ALTERNATIVES
    names = " or ".join(LIBRARIES[way] for way in LIBRARIES if way in ways)
    copies = [case["cp"] / case["anydml"] for case in cases if "cp" in case]
    return (
        f"**Speed:** anydml joins the shards of a checkpoint {median} times as fast as {names} (median of "
        f"{len(by_case)} cases; the\nleast is {least}). A plain copy by `cp` takes {min(copies):.1f} to "
        f"{max(copies):.1f} times as long as anydml. In this table, × is the time of the\nfastest alternative "
        f"divided by anydml's: PyTorch, ONNX Runtime, OpenCV, safetensors or NumPy, on {machines()}.\n\n"
    )


def machines() -> str:
    """The machines and libraries of all grids."""
    kept = [results(name)["machine"] for name in GRIDS if (RESULTS / f"{name}.json").exists()]
    processors = {each["processor"].replace("(R)", "").removesuffix(" Processor") for each in kept}
    versions = [
        f"{label} {' or '.join(sorted({each[key].partition('+')[0] for each in kept if key in each}))}"
        for key, label in (("numpy", "NumPy"), ("torch", "PyTorch"))
    ]
    return f"2 cores of an\n{' or '.join(sorted(processors))}, {', '.join(versions)}"


def row(name: str) -> str:
    """The row of a grid."""
    kept = results(name)
    by_case = ratios(kept)
    least = min(by_case, key=by_case.__getitem__)
    run = kept["runs"][0] if "runs" in kept else kept
    cells = (
        GRIDS[name], str(len(by_case)), f"{statistics.median(by_case.values()):.2f}",
        f"{by_case[least]:.2f} ({least.partition(': ')[2]})",
        f"[{run['date']}](docs/benchmarks.md#{SECTIONS.get(name, name)})",
    )  # fmt: skip
    return f"| {' | '.join(cells)} |\n"


def table() -> str:
    """The sentence and the table."""
    head = "| work | cases | median × | least × (below 1: slower) | measured |\n|---|--:|--:|---|---|\n"
    return headline() + head + "".join(row(name) for name in GRIDS if (RESULTS / f"{name}.json").exists())


def with_table(readme: str) -> str:
    """README with the table of today's results."""
    before, _, rest = readme.partition(BEGIN)
    return f"{before}{BEGIN}{table()}{END}{rest.partition(END)[2]}"


def main() -> None:
    """Print the table, or put it into README.md."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.headlines", description=__doc__)
    parser.add_argument("--write", action="store_true", help="put the table into README.md")
    readme = ROOT / "README.md"
    if parser.parse_args().write:
        readme.write_text(with_table(readme.read_text(encoding="utf-8")), encoding="utf-8")
    else:
        print(table(), end="")


if __name__ == "__main__":
    main()
