"""The environment of processes that end in other ways than others do: coverage would write files while they do."""

import os
from pathlib import Path

TESTS = Path(__file__).resolve().parents[1]


def environment(**more: str) -> dict[str, str]:
    """This process's environment, with tests first on the path and without coverage."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("COVERAGE_PROCESS")}
    path = os.pathsep.join([str(TESTS), *filter(None, [kept.get("PYTHONPATH")])])
    return {**kept, "PYTHONPATH": path, **more}
