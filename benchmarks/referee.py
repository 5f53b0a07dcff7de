"""Keep what engines make of one folder of cases, for the page of the referee.

anydml cases --count 10000 --seed 2026 -o cases
anydml judge cases --engine onnxruntime --json > onnxruntime.json    # and so on
python -m benchmarks.referee cases onnxruntime.json reference.json …
"""

from __future__ import annotations

import argparse
import datetime
import json
import sys
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parent / "results" / "referee.json"


def kept(index: dict[str, Any], judged: list[dict[str, Any]], date: str) -> dict[str, Any]:
    """What is kept: the counts of each engine by operator, and the readings that it takes.

    Args:
        index: what `cases.json` says.
        judged: what `anydml judge --json` printed, one per engine.
        date: the day of the run.
    """
    whose = f"{index['cases']:,} cases of ONNX, by anydml {index['anydml']} with onnx {index['onnx']}"
    command = f"anydml cases --count {index['cases']} --seed {index['seed']}; anydml judge cases --engine ENGINE"
    fields = ("engine", "counts", "operators", "readings")
    return {
        "date": date,
        "cases": whose,
        "command": command,
        "engines": [{field: each[field] for field in fields} for each in judged],
    }


def main() -> None:
    """Write the results of some engines."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.referee", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("cases", type=Path, help="the folder of the cases")
    parser.add_argument("judged", type=Path, nargs="+", help="what anydml judge --json printed")
    options = parser.parse_args()
    index = json.loads((options.cases / "cases.json").read_text(encoding="utf-8"))
    judged = [json.loads(path.read_text(encoding="utf-8")) for path in options.judged]
    if any(sum(each["counts"].values()) > index["cases"] for each in judged):
        sys.exit(f"more cases were judged than {options.cases} has")
    today = datetime.datetime.now(datetime.UTC).date().isoformat()
    RESULTS.write_text(json.dumps(kept(index, judged, today), indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
