"""What other values of the core's tuned constants cost: ``python -m benchmarks.constants NAME=VALUE…``.

NAME is a constant of the C headers or of the typed Python in src/anydml/core, such as ANYDML_SINK. For each value, a
copy of the sources is built with it; all builds measure in turn, in a new process each round, and the least time of a
case counts. A value that turns a kernel off tells what that kernel gains.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from benchmarks.measure import machine
from benchmarks.report import geometric_mean
from benchmarks.size_cases import CASES, KIB, MIB
from benchmarks.thresholds import works

ROOT = Path(__file__).resolve().parents[1]
SOURCES = ("src", "build", "setup.py", "building.py", "rule_sources", "pyproject.toml", "README.md")
SIZES = (64 * KIB, MIB, 16 * MIB)

LEAST_SECONDS, LEAST_CALLS = 0.02, 3
"""For how long, and how often, a case is called at least in each round."""

SHOWN = 0.05
"""Cases that differ by less from the present value are not shown."""


def cases() -> Iterator[tuple[str, Callable[[], object]]]:
    """Yield names and calls: the grid of sizes, and the moves of the threshold of non-temporal stores."""
    for size in SIZES:
        for name, make in CASES.items():
            yield f"{name} {size >> 10}K", make(size).runs["out"]["anydml"]
        for name, run, _ in works(size):
            yield f"{name} {size >> 10}K", run


def measure() -> dict[str, float]:
    """Return the least seconds of a call of each case."""
    least: dict[str, float] = {}
    for name, run in cases():
        run()
        times: list[float] = []
        end = time.perf_counter() + LEAST_SECONDS
        while len(times) < LEAST_CALLS or time.perf_counter() < end:
            start = time.perf_counter()
            run()
            times.append(time.perf_counter() - start)
        least[name] = min(times)
    return least


def built(folder: Path, setting: str = "") -> Path:
    """Build a copy of the sources in a folder, with a setting such as ``ANYDML_SINK=2048``."""
    folder.mkdir()
    for source in SOURCES:
        copy = shutil.copytree if (ROOT / source).is_dir() else shutil.copy2
        copy(ROOT / source, folder / source)
    if setting:
        change(folder / "src/anydml/core", setting)
    subprocess.run([sys.executable, "setup.py", "-q", "build_ext", "--inplace"], cwd=folder, check=True)
    return folder


def change(core: Path, setting: str) -> None:
    """Change the value of a constant in the sources of a folder.

    Raises:
        SystemExit: no constant, or more than one, has this name.
    """
    name, _, value = setting.partition("=")
    pattern = re.compile(rf"(\b{name} = (?:cython\.declare\([\w.]+, )?)[^,;)}}\n/]+?(?=\s*[,;)}}\n/])")
    texts = {path: path.read_text(encoding="utf-8") for path in core.glob("*.[hp]*") if path.suffix != ".pyc"}
    found = [path for path, text in texts.items() if len(pattern.findall(text)) == 1]
    if len(found) != 1 or not value:
        raise SystemExit(f"{setting}: pass NAME=VALUE, with the name of a constant in src/anydml/core")
    found[0].write_text(pattern.sub(rf"\g<1>{value}", texts[found[0]]), encoding="utf-8")


def compared(folders: dict[str, Path], rounds: int) -> dict[str, dict[str, float]]:
    """Return the least seconds of each case by build."""
    least: dict[str, dict[str, float]] = {setting: {} for setting in folders}
    script = "import json; from benchmarks.constants import measure; print(json.dumps(measure()))"
    for _ in range(rounds):
        for setting, folder in folders.items():
            paths = os.pathsep.join(map(str, (folder / "src", ROOT)))
            environment = {**os.environ, "PYTHONPATH": paths}
            output = subprocess.check_output([sys.executable, "-c", script], cwd=folder, env=environment)
            for case, seconds in json.loads(output).items():
                least[setting][case] = min(seconds, least[setting].get(case, math.inf))
    return least


def main() -> None:
    """Build, compare, and print what each setting costs."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.constants", description=__doc__)
    parser.add_argument("settings", metavar="NAME=VALUE", nargs="+")
    parser.add_argument("--rounds", type=int, default=5)
    args = parser.parse_args()
    print(machine())
    with tempfile.TemporaryDirectory() as folder:
        present = built(Path(folder, "present"))
        folders = {setting: built(Path(folder, setting), setting) for setting in args.settings}
        least = compared({"": present} | folders, args.rounds)
    for setting in args.settings:
        ratios = {case: least[setting][case] / seconds for case, seconds in least[""].items()}
        print(f"{setting}: {geometric_mean([*ratios.values()]):.3f} times the present time")
        for case, ratio in sorted(ratios.items(), key=lambda item: item[1]):
            if abs(ratio - 1) >= SHOWN:
                print(f"  {ratio:.2f}  {case}")


if __name__ == "__main__":
    main()
