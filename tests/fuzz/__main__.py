"""A long run: random cases until the time is over, or until one fails.

python -m tests.fuzz --minutes 10 --seed 1 [--engine cpu|reference|cuda] [--cases N]
"""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
import time
import warnings


def main() -> int:
    """Fuzz; 0 where nothing failed."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=1.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--cases", type=int, default=2**31, help="end after so many")
    parser.add_argument("--engine", choices=["cpu", "reference", "cuda"], action="append")
    options = parser.parse_args()
    engines = options.engine or ["cpu"]
    if "cuda" in engines:
        # Read when the kernel is imported; with a GPU it would take host arrays for the GPU's.
        os.environ["TRITON_INTERPRET"] = "1"
    warnings.simplefilter("error", RuntimeWarning)
    if "cuda" in engines:
        from ..interpreter import patched_once

        interpreting: contextlib.AbstractContextManager[None] = patched_once()
    else:
        interpreting = contextlib.nullcontext()
    with interpreting:
        return fuzz(options, engines)


def fuzz(options: argparse.Namespace, engines: list[str]) -> int:
    """Run cases as the command line has it."""
    from .check import Mismatch, check
    from .draw import Seeded
    from .forced import CPU_WAYS, OTHER_WAYS
    from .generate import random_case
    from .seen import Seen

    ways = [way for name in engines for way in (CPU_WAYS if name == "cpu" else [OTHER_WAYS[name]])]
    seen = Seen()
    end = time.monotonic() + 60 * options.minutes
    cases = number = outputs = 0
    while time.monotonic() < end and cases < options.cases:
        number += 1
        case = random_case(Seeded(options.seed * 2**32 + number), ways)
        try:
            check(case, seen)
        except Mismatch as error:
            print(f"case {number} of seed {options.seed}: {error}", file=sys.stderr)
            return 1
        cases += 1
        outputs += case.bytes
    print(f"{cases} cases of seed {options.seed}, {outputs >> 20} MiB compared, no mismatch")
    for what, count in sorted(seen.counts.items()):
        print(f"  {what}: {count}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
