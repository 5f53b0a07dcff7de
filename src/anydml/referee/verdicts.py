"""Verdicts: comparisons of an engine's outputs for a case with the outputs by the text."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from anydml.errors import ModelError
from anydml.referee.case_folders import StoredCase
from anydml.referee.cases import are_equal
from anydml.referee.engines import Engine
from anydml.referee.external_engines import CrashError, ExternalEngineError, MissingError, NotRunError, OutputError
from anydml.referee.schema_texts import name_of
from anydml.text import count_noun

AGREES, DIFFERS, REFUSES, CRASHES, HANGS, ACCEPTS, NOT_RUN = (
    "agrees", "differs", "refuses", "crashes", "hangs", "accepts", "not run",
)  # fmt: skip
"""Verdicts: `refuses` a legal case, `accepts` an illegal one; `not run` does not judge the engine."""

UNREADABLE = "unreadable case"
"""The kind of cases that are not run because a file cannot be read."""

MISSING = "no outputs"
"""The kind of cases without outputs of another machine."""

VERDICTS = (AGREES, DIFFERS, REFUSES, CRASHES, HANGS, ACCEPTS, NOT_RUN)
FAILURES = (DIFFERS, REFUSES, CRASHES, HANGS, ACCEPTS)
"""Verdicts that make `anydml judge` end with 1."""

MAX_WORDS = 160
"""Maximum number of characters of an engine's message in the name of a cause."""


class Verdict(NamedTuple):
    """The verdict on an engine's run of a case.

    Attributes:
        case: the case's name.
        operator: the operator of the case.
        verdict: one of `VERDICTS`.
        kind: the kind of difference, or the message without names and numbers; verdicts of one kind may have one cause.
        detail: the actual and the expected values, or the engine's message.
        reading: the engine's reading of an ambiguous text; empty for the first one, or if there is only one.
        question: the question that the text leaves open; empty if there is none.
        way: how the engine ran the case, or why not in another way; empty if the engine has only one way.
    """

    case: str
    operator: str
    verdict: str
    kind: str = ""
    detail: str = ""
    reading: str = ""
    question: str = ""
    way: str = ""


def verdict_of(stored: StoredCase, engine: Engine) -> Verdict:
    """Run an engine on a case, and compare.

    Raises:
        ModelError: a file of the case cannot be read.
    """
    verdict = _verdict_of(stored, engine)
    return verdict._replace(way=getattr(engine, "way", ""))


def _verdict_of(stored: StoredCase, engine: Engine) -> Verdict:
    try:
        stored.check()
        inputs, expected, readings = stored.inputs(), stored.outputs(), stored.readings()
        base = Verdict(stored.name, stored.operator, AGREES, question=readings[0][0]["question"] if readings else "")
    except (OSError, AttributeError, LookupError, TypeError, ValueError) as error:
        # Errors in the case's files are not the engine's fault.
        reason = f"{stored.folder}: {stored.name!r} cannot be read: {type(error).__name__}: {error}"
        raise ModelError(reason, rule="`anydml cases` writes such files") from None
    try:
        results = [as_array(value) for value in stored.outputs_by(engine, inputs)]
    except NotRunError as error:
        kind = MISSING if isinstance(error, MissingError) else str(error)
        return base._replace(verdict=NOT_RUN, kind=kind, detail=str(error))
    except CrashError as error:
        return base._replace(verdict=CRASHES, kind=kind_of(str(error)), detail=str(error))
    except OutputError as error:
        if stored.is_valid:
            return base._replace(verdict=DIFFERS, kind=kind_of(str(error)), detail=str(error))
        results = []
    # Engines raise errors of any type.
    except Exception as error:
        reason = str(error) if isinstance(error, ExternalEngineError) else f"{type(error).__name__}: {error}"
        if not stored.is_valid:
            return base._replace(kind=kind_of(reason), detail=reason)
        if refusing := [reading for reading, outputs in readings if outputs is None]:
            return base._replace(kind=kind_of(reason), detail=reason, reading=refusing[0]["words"])
        return base._replace(verdict=REFUSES, kind=kind_of(reason), detail=reason)
    if not stored.is_valid:
        return base._replace(verdict=ACCEPTS, kind=f"breaks {stored.about['broken']}", detail=stored.about["sentence"])
    kind, detail = difference(results, expected, stored.is_exact)
    if not kind:
        return base
    for other_reading, outputs in readings:
        if outputs is not None and not difference(results, outputs, stored.is_exact)[0]:
            return base._replace(reading=other_reading["words"])
    return base._replace(verdict=DIFFERS, kind=kind, detail=detail)


def as_array(value: Any) -> Any:
    """Return an output as an array, with strings of dtype object; lists and None (an empty optional value) are kept."""
    if value is None:
        return None
    if isinstance(value, (list, tuple)):
        return [as_array(item) for item in value]
    array = np.asarray(value)
    if array.dtype.kind in "USO":
        words = [
            element.decode("utf-8", "replace") if isinstance(element, bytes) else str(element)
            for element in array.reshape(-1)
        ]
        array = np.array([*words, None], object)[:-1].reshape(array.shape)
    return array


def difference(outputs: list[Any], expected: list[Any], is_exact: bool) -> tuple[str, str]:
    """Return the kind of a difference and its details; two empty texts if there is none."""
    if len(outputs) != len(expected):
        return "number of outputs", f"{len(outputs)} outputs, not {len(expected)}"
    for k, (actual, expected_output) in enumerate(zip(outputs, expected, strict=True)):
        kind, detail = _difference(actual, expected_output, f"output {k}", is_exact)
        if kind:
            return kind, detail
    return "", ""


def _difference(actual: Any, expected: Any, name: str, is_exact: bool) -> tuple[str, str]:
    """Return the difference of one named value from the expected one, in the same form."""
    if actual is None or expected is None:
        message = f"{name} has {'no' if actual is None else 'an'} element"
        return ("", "") if actual is expected else ("optional values", message)
    if isinstance(actual, list) or isinstance(expected, list):
        if not isinstance(actual, list) or not isinstance(expected, list):
            return "sequences", f"{name} is {'a sequence' if isinstance(actual, list) else 'a tensor'}"
        if len(actual) != len(expected):
            return "length of a sequence", f"{name} has {count_noun(len(actual), 'tensor')}, not {len(expected)}"
        parts = (
            _difference(*pair, f"tensor {k} of {name}", is_exact)
            for k, pair in enumerate(zip(actual, expected, strict=True))
        )
        return next((part for part in parts if part[0]), ("", ""))
    if actual.shape != expected.shape:
        return "shape", f"{name} has sizes {[*actual.shape]}, not {[*expected.shape]}"
    if actual.dtype != expected.dtype:
        return "type", f"{name} is of {name_of(actual.dtype)}, not {name_of(expected.dtype)}"
    if are_equal(actual, expected) or (not is_exact and _is_near(actual, expected)):
        return "", ""
    wrong = [
        at
        for at in np.ndindex(*actual.shape)
        if not are_equal(np.asarray(actual[at], actual.dtype), np.asarray(expected[at], actual.dtype))
    ]
    kind = "elements"
    if actual.dtype.kind in "fc" and all(actual[at] == expected[at] == 0 for at in wrong):
        kind = "the sign of zeros"
    at = wrong[0]
    first = f"the first at {[*map(int, at)]}: {actual[at]}, not {expected[at]}"
    return kind, f"{len(wrong)} of {actual.size} elements of {name}, {first}"


def _is_near(actual: Any, expected: Any) -> bool:
    """Whether onnx's own runner considers two arrays equal."""
    if actual.dtype.hasobject:
        return False
    try:
        np.testing.assert_allclose(actual.astype(np.float64), expected.astype(np.float64), rtol=1e-3, atol=1e-7)
    except (AssertionError, TypeError, ValueError):
        return False
    return True


def kind_of(reason: str) -> str:
    """Return an engine's message without places, names and numbers."""
    line = " ".join(reason.partition("Stack backtrace")[0].split())
    # The innermost of chained errors.
    line = line.rpartition("Caused by:")[2].strip() or line
    line = re.sub(r"(/[\w.+-]+)+(:\d+)*|0x[0-9a-f]+", "…", line)
    before = ""
    while before != line:
        before, line = line, re.sub(r"'[^']*'|\"[^\"]*\"|\{[^{}]*\}|\[[^\[\]]*\]|\([^()]*\)", "…", line)
    line = re.sub(r"-?\d+(\.\d+)?", "#", line)
    return re.sub(r"(…[\s,:]*)+", "… ", line)[:MAX_WORDS].strip()


def without_excuses(verdicts: Sequence[Verdict]) -> tuple[Verdict, ...]:
    """Return verdicts in which an engine's error agrees with the text only if legal cases do not raise the same error.

    An engine that lacks an operator or a type takes no reading of an ambiguous text, and does not notice why a case is
    illegal.
    """
    refusals = {(verdict.operator, verdict.kind) for verdict in verdicts if verdict.verdict == REFUSES}
    return tuple(
        verdict
        if verdict.verdict != AGREES or (verdict.operator, verdict.kind) not in refusals
        else verdict._replace(verdict=REFUSES, reading="")
        if verdict.reading
        else verdict._replace(verdict=NOT_RUN, kind=f"refused as legal cases are: {verdict.kind}")
        for verdict in verdicts
    )


def unreadable(stored: StoredCase, error: ModelError) -> Verdict:
    """Return the verdict on a case whose files cannot be read."""
    return Verdict(stored.name, str(stored.about.get("operator", "")), NOT_RUN, UNREADABLE, str(error))
