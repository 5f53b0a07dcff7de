"""The lists of operators that have cases and of those that have none, and of ambiguities: none is out of date."""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import onnx.defs
import pytest

from anydml.errors import ModelError
from anydml.onnx.table import NODES
from anydml.referee import make_cases
from anydml.referee.directml.page_sentences import QUESTIONS
from anydml.referee.no_cases import REASONS, reason_of
from anydml.referee.operators import OPERATORS
from anydml.referee.readings import readings
from anydml.referee.schema_texts import LAST

DOCS = Path(__file__).parents[2] / "docs"


def schemas() -> Iterator[Any]:
    """All of ONNX's own domain, up to the last opset of cases."""
    for each in onnx.defs.get_all_schemas_with_history():
        if not each.domain and each.since_version <= LAST:
            yield each


def tables() -> Any:
    """The module that fills the pages."""
    spec = importlib.util.spec_from_file_location("referee_tables", DOCS / "tables.py")
    module = importlib.util.module_from_spec(spec)
    with pytest.MonkeyPatch.context() as patch:
        # It imports a file beside it.
        patch.syspath_prepend(DOCS)
        spec.loader.exec_module(module)
    return module


def test_every_operator_of_onnx_has_cases_or_a_reason():
    assert {each.name for each in schemas()} == OPERATORS.keys() | REASONS.keys()
    assert not OPERATORS.keys() & REASONS.keys()


MOVES_STRINGS = ("Col2Im", "GridSample", "If", "Loop", "Scan", "Scatter", "SequenceMap", "StringConcat", "Upsample")
"""Operators without cases that give the strings that they are given, or others: each has a reason of its own."""


def test_operators_that_take_strings_have_cases_or_a_reason_of_their_own():
    """What gives strings computes no numbers of them, so that it moves them, or says what else it does."""
    some = {
        each.name for each in schemas() for output in each.outputs if any("string" in kind for kind in output.types)
    }
    left = some - OPERATORS.keys()
    assert left == {*MOVES_STRINGS, "StringNormalizer", "StringSplit", "Unique"}
    assert not any(
        reason_of(name) in ("it computes numbers", "it compares elements, and gives booleans") for name in left
    )


def test_what_anydml_runs_has_cases_or_is_arithmetic_of_sizes():
    ours = {name for domain, name in NODES if not domain and reason_of(name) and "opset" not in reason_of(name)}
    assert ours - OPERATORS.keys() == {
        "Abs", "Add", "And", "Ceil", "Div", "Equal", "Floor", "Greater", "GreaterOrEqual", "Less", "LessOrEqual", "Max",
        "Min", "Mod", "Mul", "Neg", "Not", "Or", "ReduceProd", "Scatter", "Sub", "Upsample",
    }  # fmt: skip


@pytest.mark.parametrize(
    "name, reason",
    [
        ("softmax", "no cases of Softmax: it computes numbers"),
        ("MaxUnpool", "does not say in which tensor its indices count"),
        ("Col2Im", "it adds elements where blocks overlap"),
        ("BitCast", "it is of opset 26, and cases are of opsets 11 to 25"),
        ("Nothing", "no cases of 'Nothing'.*Gather"),
    ],
)
def test_a_refusal_says_why(name, reason):
    with pytest.raises(ModelError, match=reason):
        next(make_cases([name], 1))


def test_pages_have_no_table_by_hand_and_every_question():
    source = (DOCS / "referee.md").read_text("utf-8").partition("## Ambiguities in documents")[2]
    assert not re.search(r"^\|", tables().TABLE.sub("", source), re.M)
    page = tables().filled((DOCS / "referee.md").read_text("utf-8"))
    for operator in OPERATORS.values():
        for each in operator.ambiguities:
            assert f"| {operator.name} | {each.question} |" in page
        for left in operator.left_out:
            assert left.words in page
    for each in QUESTIONS:
        assert each["question"] in page
    for name in REASONS:
        assert name in tables().cases()


def test_the_page_has_the_questions_that_cases_are_marked_with():
    page = tables().filled((DOCS / "referee.md").read_text("utf-8"))
    marked = {(case.operator, each.question) for case in make_cases(count=2400, seed=7) for each in case.alternatives}
    assert len(marked) > 10
    for operator, question in marked:
        assert f"| {operator} | {question} |" in page


def test_who_takes_which_reading_is_known_of_the_readings_there_are():
    known = {
        (operator.name, each.question): [reading.words for reading in each.readings]
        for operator in OPERATORS.values()
        for each in operator.ambiguities
    }
    assert {key: [*taken] for key, taken in readings().items()} == known
