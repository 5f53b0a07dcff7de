"""Search for the cases of a folder, in any form."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from functools import lru_cache
from pathlib import Path

from anydml.errors import ModelError
from anydml.referee.case_folders import INDEX, MODEL, StoredCase, stored_onnx
from anydml.referee.directml.model_folders import StoredDirectml, stored_directml
from anydml.referee.webnn.test_files import StoredWebnn, tests_of

ONE_OF = (
    "a case is a folder with model.onnx and test_data_set_0, one with model.json, or a test of WebNN in a .json file"
)


def find_cases(folder: Path) -> list[StoredCase]:
    """Return the cases in or below a folder, or of a file of WebNN's tests.

    Raises:
        ModelError: there is no such folder, it has no cases, or a case is incomplete.
    """
    if not folder.exists():
        raise ModelError(f"there is no folder {folder}")
    is_other = folder.is_file() and folder.suffix != ".json"
    cases = [] if is_other else [*_cases(folder)]
    if not cases:
        raise ModelError(f"{folder} has no cases", rule=ONE_OF)
    counts = Counter(case.name for case in cases)
    return [case if counts[case.name] == 1 else replace(case, name=_long_name(case, folder)) for case in cases]


def _long_name(stored: StoredCase, folder: Path) -> str:
    """Return the name of a case, with its folder or file, so that no two cases have one name."""
    relative_path = stored.folder.relative_to(folder).as_posix() if stored.folder != folder else folder.name
    return f"{relative_path} {stored.number}: {stored.name}" if isinstance(stored, StoredWebnn) else relative_path


def number_in_file(stored: StoredCase) -> int:
    """Return the number of a case in its file; 0 for a folder."""
    return stored.number if isinstance(stored, StoredWebnn) else 0


def find_case(path: Path, case_number: int, name: str) -> StoredCase:
    """Return the case of a folder, or the case of a number in a file, under a name.

    Raises:
        ModelError: the case is incomplete.
    """
    stored = _cases_in_file(path)[case_number] if path.is_file() else find_cases(path)[0]
    return replace(stored, name=name)


@lru_cache(4)
def _cases_in_file(path: Path) -> tuple[StoredWebnn, ...]:
    return tuple(tests_of(path))


def _cases(folder: Path, above: frozenset[Path] = frozenset()) -> Iterator[StoredCase]:
    if folder.is_file():
        yield from tests_of(folder)
    elif (folder / MODEL).exists():
        yield stored_onnx(folder)
    elif (folder / StoredDirectml.MODEL).exists():
        yield stored_directml(folder)
    elif (real := folder.resolve()) not in above:  # a link to a folder above it would go round
        for path in sorted(folder.iterdir()):
            if path.is_dir() or (path.suffix == ".json" and path.name != INDEX):
                yield from _cases(path, above | {real})
