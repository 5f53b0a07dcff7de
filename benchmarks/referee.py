"""Keep what engines make of one folder of cases, for the page of the referee.

anydml cases --count 10000 --seed 2026 -o cases
anydml judge cases --engine onnxruntime --json --shrink onnxruntime > onnxruntime.json    # and so on
python -m benchmarks.referee cases onnxruntime.json reference.json …

What was shrunk is looked for beside each document, in the folder of its name.
"""

from __future__ import annotations

import argparse
import datetime
import json
import re
import sys
from pathlib import Path
from typing import Any

from anydml.referee.causes import FIRST_READING
from anydml.referee.operators import OPERATORS
from anydml.referee.readings import READINGS_FILE

RESULTS = Path(__file__).parent / "results" / "referee.json"
MOST = 240
"""Characters of a line that are kept."""
OF_ONE_RUN = re.compile(r" \(\d+\)(?= panicked)|/\S*/index\.crates\.io-\w+/")
"""Numbers of threads, and the folder that an engine was built in."""


def smallest(folder: Path) -> dict[str, list[str]]:
    """The lines to paste of what was shrunk to a folder, by the name of the case."""
    return {path.parent.name: path.read_text("utf-8").splitlines() for path in sorted(folder.glob("*/paste.txt"))}


def difference(cause: dict[str, Any], lines: list[str]) -> dict[str, Any]:
    """What is kept of a cause.

    Args:
        cause: one of the causes that `anydml judge --json` printed.
        lines: the smallest case as lines to paste, of which the last two are what the engine made of it and the text.
    """
    *given, made, text = (OF_ONE_RUN.sub("", line) for line in lines)
    short = [line if len(line) <= MOST else f"{line[:MOST]} …" for line in given]
    found = made.partition(f" {cause['verdict']}: ")[2]
    fields = {field: cause[field] for field in ("operator", "verdict", "common")}
    return {**fields, "cases": len(cause["cases"]), "smallest": short, "found": found[:MOST], "text": text}


def kept(
    index: dict[str, Any], judged: list[dict[str, Any]], date: str, shrunk: list[dict[str, list[str]]]
) -> dict[str, Any]:
    """What is kept: the counts of each engine by operator, its differences and crashes, and the readings that it takes.

    Args:
        index: what `cases.json` says.
        judged: what `anydml judge --json` printed, one per engine.
        date: the day of the run.
        shrunk: the smallest case of each cause of these.
    """
    whose = f"{index['cases']:,} cases of ONNX, by anydml {index['anydml']} with onnx {index['onnx']}"
    command = f"anydml cases --count {index['cases']} --seed {index['seed']}; anydml judge cases --engine ENGINE"
    fields = ("engine", "counts", "operators", "readings")
    engines = []
    for each, cases in zip(judged, shrunk, strict=True):
        causes = [(cause, cases[cause["example"]]) for cause in each["causes"] if cause["example"] in cases]
        engines.append({field: each[field] for field in fields} | {"differences": [difference(*c) for c in causes]})
    return {"date": date, "cases": whose, "command": command, "engines": engines}


def taken(judged: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The engines that took each reading of what is ambiguous in at least one case.

    Args:
        judged: what `anydml judge --json` printed, one per engine.
    """
    found = []
    for name, operator in OPERATORS.items():
        for ambiguity in operator.ambiguities:
            counts = {
                engine["engine"]: reading["taken"]
                for engine in judged
                for reading in engine["readings"]
                if (reading["operator"], reading["question"]) == (name, ambiguity.question)
            }
            by_words = {}
            for k, reading in enumerate(ambiguity.readings):
                words = reading.words if k else FIRST_READING
                by_words[reading.words] = [engine for engine, those in counts.items() if words in those]
            found.append({"operator": name, "question": ambiguity.question, "taken": by_words})
    return found


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
    for path, each in zip(options.judged, judged, strict=True):
        failed = [cause["example"] for cause in each["causes"] if cause["verdict"] in ("differs", "crashes", "hangs")]
        if missing := {*failed} - smallest(path.with_suffix("")).keys():
            sys.exit(
                f"{path.with_suffix('')} has no smallest case of {', '.join(sorted(missing))}: judge with --shrink"
            )
    today = datetime.datetime.now(datetime.UTC).date().isoformat()
    RESULTS.write_text(
        json.dumps(
            kept(index, judged, today, [smallest(path.with_suffix("")) for path in options.judged]),
            indent=1,
            ensure_ascii=False,
        )
        + "\n",
        encoding="utf-8",
    )
    READINGS_FILE.write_text(json.dumps(taken(judged), indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
