"""The first place where two models differ, and what both compute there."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from onnx import AttributeProto, helper

from anydml.files.location import show
from anydml.proving.fingerprint_arithmetic import Marks
from anydml.proving.model_terms import Read
from anydml.proving.operator_calls import attributes_in
from anydml.proving.terms import Term, with_ancestors

MAX_PRINTED_DEPTH = 3
"""Maximum depth of nested terms that are printed."""

MAX_PRINTED_NUMBERS = 8
"""Maximum number of an attribute's numbers that are printed."""


@dataclass(frozen=True)
class FirstDifference:
    """A place where two models differ.

    Attributes:
        output: the output that depends on it.
        nodes: for each model, the node that computes it, as a string; empty if no node does.
        terms: for each model, the term, as a string.
    """

    output: str
    nodes: tuple[str, str]
    terms: tuple[str, str]


def first_difference(first: Read, second: Read, output: str, marks: Mapping[int, Marks | None]) -> FirstDifference:
    """Return the first difference between the terms that an output is computed from.

    Args:
        first: a model.
        second: the other one.
        output: name of an output that differs.
        marks: fingerprints by the numbers of terms; terms with equal fingerprints are equal. Empty if there are none.
    """
    first_needed, second_needed = (with_ancestors([read.outputs[output]]) for read in (first, second))
    a, b = _first(first_needed, second_needed, marks), _first(second_needed, first_needed, marks)
    terms = [a or first_needed[-1], b or second_needed[-1]]
    texts = [term_text(term) + attributes for term, attributes in zip(terms, _differing(*terms), strict=True)]
    return FirstDifference(output, (first.node(terms[0]), second.node(terms[1])), (texts[0], texts[1]))


def _differing(first: Term, second: Term) -> tuple[str, str]:
    """Return the attributes in which two terms of one operator differ, as strings."""
    attributes_of_both = attributes_in(first.detail), attributes_in(second.detail)
    if first.kind != second.kind:
        return "", ""
    names = [
        name
        for name in sorted({*attributes_of_both[0], *attributes_of_both[1]})
        if attributes_of_both[0].get(name) != attributes_of_both[1].get(name)
    ]
    attribute_texts = [[_attribute(name, attributes.get(name)) for name in names] for attributes in attributes_of_both]
    return tuple(f", with {' and '.join(texts)}" if texts else "" for texts in attribute_texts)  # type: ignore[return-value]


def _attribute(name: str, attribute: AttributeProto | None) -> str:
    if attribute is None:
        return f"the default {name}"
    value = helper.get_attribute_value(attribute)
    if isinstance(value, list):
        ellipsis = ", …" if len(value) > MAX_PRINTED_NUMBERS else ""
        return f"{name} [{', '.join(map(_number, value[:MAX_PRINTED_NUMBERS]))}{ellipsis}]"
    return f"{name} {_number(value)}"


def _number(value: Any) -> str:
    if isinstance(value, float):
        return str(np.float32(value))
    return show(value.decode(errors="replace")) if isinstance(value, bytes) else str(value)


def _first(terms: Sequence[Term], other_terms: Sequence[Term], marks: Mapping[int, Marks | None]) -> Term | None:
    """Return the first of some terms that is not among other terms, preferably one that computes."""
    for is_sorted in (True, False):
        other_keys = {_key(term, marks, is_sorted) for term in other_terms} | {term.number for term in other_terms}
        unmatched = [
            term for term in terms if term.number not in other_keys and _key(term, marks, is_sorted) not in other_keys
        ]
        computing = [term for term in unmatched if term.kind not in _MOVING]
        if computing or (unmatched and not is_sorted):
            return (computing or unmatched)[0]
    return None


_MOVING = frozenset(("concat", "constant", "expand", "taken", "input", "moved", "sizes", "slice"))


def _key(term: Term, marks: Mapping[int, Marks | None], is_sorted: bool) -> object:
    """Return a key of a term: fingerprints in a normal form, or the term's number if there are no fingerprints."""
    marks_of_term = marks.get(term.number)
    if marks_of_term is None:
        return term.number
    return term.dtype, np.sort(marks_of_term, axis=None).tobytes() if is_sorted else (
        marks_of_term.shape,
        marks_of_term.tobytes(),
    )


def are_same(first: Term, second: Term, marks: Mapping[int, Marks | None]) -> bool:
    """Whether two terms are the same, or have equal fingerprints."""
    first_marks, second_marks = marks.get(first.number), marks.get(second.number)
    if first is second or first_marks is None or second_marks is None:
        return first is second
    return bool((first.dtype, first.shape) == (second.dtype, second.shape) and (first_marks == second_marks).all())


def term_text(term: Term) -> str:
    """Format a term."""
    return " ".join("".join(_text(term, MAX_PRINTED_DEPTH)).split())


def _text(term: Term, depth: int) -> Iterator[str]:
    shape = "" if term.shape is None else f"[{', '.join(map(str, term.shape))}]"
    if term.kind == "input":
        yield show(term.detail[0])
    elif term.is_constant:
        array = term.array
        assert array is not None, "it is a constant"
        yield f"{array.reshape(-1)[:4].tolist()}{'…' if array.size > 4 else ''}{shape if array.size > 4 else ''}"
    elif term.kind == "sizes":
        yield str(term.array)
    elif term.kind == "moved" and term.detail[0] is None and term.inputs[0] is not None:
        # A reshaped term has the elements of its source, in their order.
        yield from _text(term.inputs[0], depth)
    elif not depth:
        yield f"…{shape}"
    else:
        operator, _, version = term.kind.partition("@")
        yield f"{operator}{f' of opset {version}' if version else ''}{_details(term)}("
        yield ", ".join(
            "" if term_input is None else "".join(_text(term_input, depth - 1)) for term_input in term.inputs
        )
        yield f"){shape}"


def _details(term: Term) -> str:
    if term.kind == "moved":
        order = term.detail[0]
        return "" if order is None else f"<{list(order.factors)}, perm {list(order.perm)}>"
    if "@" not in term.kind and isinstance(term.detail, tuple) and len(term.inputs) == 1 and term.kind != "slice":
        # The axes of a normalization or reduction.
        return f"<{term.detail[0]}>"
    if term.kind in ("slice", "concat", "taken"):
        return f"<{term.detail}>"
    return ""
