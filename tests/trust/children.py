"""The environment of processes that end in other ways than others do: coverage would write files while they do.

And what they find in a cache that is empty else.
"""

import contextlib
import os
import shutil
from pathlib import Path

from anydml.engines.cpu.kernels import kept

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


SHARING = ("share", "serve", "rouse")
"""Functions whose kernels every process needs that shares work."""


def give_kernels(cache: Path, *functions: str) -> None:
    """Let those processes for which NUMBA_CACHE_DIR names a cache find some kernels of this machine's.

    What a test is not about need not be compiled again. Kernels that have never been compiled are compiled there.
    """
    given = cache / "anydml"
    given.mkdir()
    for folder, _ in kept.held():
        for function in functions:
            for path in folder.glob(f"{function}-*{kept.SUFFIX}"):
                # Another process may tidy up.
                with contextlib.suppress(FileNotFoundError):
                    shutil.copy(path, given)
