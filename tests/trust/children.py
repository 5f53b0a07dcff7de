"""The environment of processes that end in other ways than others do: coverage would write files while they do."""

import os
from pathlib import Path

import anydml

TESTS = Path(__file__).resolve().parents[1]
PACKAGE = Path(anydml.__file__).parents[1]
"""Where the package under test lies; another one may be installed."""


def environment(**more: str) -> dict[str, str]:
    """This process's environment, with tests and the package under test first on the path, and without coverage."""
    variables = {name: value for name, value in os.environ.items() if not name.startswith("COVERAGE_PROCESS")}
    path = os.pathsep.join([str(TESTS), str(PACKAGE), *filter(None, [variables.get("PYTHONPATH")])])
    return {**variables, "PYTHONPATH": path, **more}


def forking(**more: str) -> dict[str, str]:
    """The same for processes that fork: NumPy starts its threads for linear algebra, as it does for users."""
    return environment(OPENBLAS_NUM_THREADS="", **more)
