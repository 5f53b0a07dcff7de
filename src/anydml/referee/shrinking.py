"""Shrinking of a case that an engine fails to a smallest one that it fails in the same way."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from anydml.errors import ModelError
from anydml.referee import smaller_nodes
from anydml.referee.case_folders import StoredCase, check_new, write_case
from anydml.referee.causes import Cause, causes_of
from anydml.referee.directml import smaller_descs
from anydml.referee.find_cases import find_cases
from anydml.referee.judging import CASE_SECONDS, MEMORY, EngineReport, Worker
from anydml.referee.verdicts import ACCEPTS, NOT_RUN, REFUSES, Verdict, difference
from anydml.referee.webnn import smaller_calls

MAX_PROBES = 400
"""Maximum number of cases that are tried for one cause."""


class Shrinker(NamedTuple):
    """The functions that shrink cases of one form.

    Attributes:
        read: reads a valid case.
        smaller: yields cases that are slightly smaller than a given one; None in place of invalid ones.
        write: writes a case to a folder, and returns the folder in it that contains only the case.
        lines: yields the case as lines to paste.
    """

    read: Callable[[Any], Any]
    smaller: Callable[[Any], Iterable[Any]]
    write: Callable[[Any, Path], Path]
    lines: Callable[[Any], Iterable[str]]


def _write_case(case: Any, folder: Path) -> Path:
    write_case(case, folder)
    target: Path = folder / case.name
    return target


SHRINKERS: Mapping[str, Shrinker] = {
    "onnx": Shrinker(smaller_nodes.case_of, smaller_nodes.smaller_cases, _write_case, smaller_nodes.lines_of),
    "webnn": Shrinker(
        smaller_calls.case_of, smaller_calls.smaller_cases, smaller_calls.write_alone, smaller_calls.lines_of
    ),
    "dxdispatch": Shrinker(
        smaller_descs.case_of, smaller_descs.smaller_cases, smaller_descs.write_alone, smaller_descs.lines_of
    ),
}
"""Functions that make cases smaller, by the form of the cases."""


def shrunk(stored: StoredCase, fails: Callable[[Any], bool]) -> Any:
    """Return the smallest case found that still fails.

    Args:
        stored: a valid case that fails.
        fails: whether a case fails in the same way.
    """
    shrinker = SHRINKERS[stored.form]
    best = shrinker.read(stored)
    probes_left = MAX_PROBES
    while True:
        for case in shrinker.smaller(best):
            if probes_left == 0:
                return best
            if case is None:
                continue
            probes_left -= 1
            if fails(case):
                best = case
                break
        else:
            return best


def shrink_all(
    judged: EngineReport, engine: str, folder: Path, seconds: float = CASE_SECONDS, memory: int = MEMORY
) -> Iterator[str]:
    """Shrink the smallest case of each cause except refusals, and write it to a new folder, with lines to paste.

    Args:
        judged: the verdicts of an engine.
        engine: the engine's name.
        folder: the new folder.
        seconds: the limit of a case.
        memory: the limit of a case, in bytes.

    Yields:
        A line per cause.

    Raises:
        ModelError: the folder is not empty.
    """
    check_new(folder)
    worker: Worker | None = None
    for cause in causes_of(judged):
        if cause.verdict in (ACCEPTS, NOT_RUN, REFUSES) or not cause.example.about or not cause.example.is_valid:
            continue
        verdicts: dict[str, Verdict] = {}
        shrinker = SHRINKERS[cause.example.form]
        if not _is_readable(shrinker, cause.example):
            yield f"{cause.operator} {cause.verdict}: {cause.example.name} is not shrunk: `anydml cases` writes no such"
            continue

        def fails(
            case: Any, cause: Cause = cause, verdicts: dict[str, Verdict] = verdicts, shrinker: Shrinker = shrinker
        ) -> bool:
            nonlocal worker
            with tempfile.TemporaryDirectory() as scratch:
                shrinker.write(case, Path(scratch))
                if worker is not None and not worker.is_alive():
                    # Processes that the engine has started may be left.
                    worker.close()
                    worker = None
                worker = worker or Worker(engine, memory)
                verdict = worker.answer(find_cases(Path(scratch))[0], seconds)
            if (verdict.verdict, verdict.kind) != (cause.verdict, cause.kind):
                return False
            verdicts["last"] = verdict
            return True

        if not _is_expected(shrinker, cause.example):
            yield (
                f"{cause.operator} {cause.verdict}: {cause.example.name} is not shrunk: it expects other outputs than "
                "the text asks for"
            )
            continue
        case = shrunk(cause.example, fails)
        verdict = verdicts.get("last") or next(
            verdict for verdict in cause.verdicts if verdict.case == cause.example.name
        )
        target = shrinker.write(case, folder)
        (target / "paste.txt").write_text(
            as_lines(case, shrinker.lines(case), judged.engine, verdict), encoding="utf-8"
        )
        yield f"{cause.operator} {cause.verdict}: {target}: {' '.join(verdict.detail.split())[:200]}"
    if worker is not None:
        worker.close()


def _is_expected(shrinker: Shrinker, stored: StoredCase) -> bool:
    """Whether a case's outputs equal the computed ones, which smaller cases will expect."""
    with tempfile.TemporaryDirectory() as scratch:
        shrinker.write(shrinker.read(stored), Path(scratch))
        (anew,) = find_cases(Path(scratch))
        return not difference(stored.outputs(), anew.outputs(), is_exact=True)[0]


def _is_readable(shrinker: Shrinker, stored: StoredCase) -> bool:
    """Whether `anydml cases` may have written a case, since other cases have the same files."""
    try:
        shrinker.read(stored)
    except (ModelError, LookupError, TypeError, ValueError):
        return False
    return True


def as_lines(case: Any, described: Iterable[str], engine: str, verdict: Verdict) -> str:
    """Return a case as lines to paste into an issue."""
    lines = [*described]
    lines += [f"expected: {smaller_nodes.as_text(value)}" for value in case.outputs]
    for alternative in getattr(case, "alternatives", ()):
        outcome = (
            "; ".join(map(smaller_nodes.as_text, alternative.outputs))
            if alternative.outputs is not None
            else "an error"
        )
        lines.append(f"or, if read as {alternative.words}: {outcome}")
    lines.append(f"{engine} {verdict.verdict}: {' '.join(verdict.detail.split())[:300]}")
    lines.append(f"{case.document}: {case.sentence}")
    return "\n".join(lines) + "\n"
