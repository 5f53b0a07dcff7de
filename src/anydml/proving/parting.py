"""The first place where two models part, and what both compute there."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from anydml.files.json_path import show
from anydml.proving.reading import Read
from anydml.proving.terms import Term
from anydml.slim.marks import Marks

DEPTH = 3
"""How many terms inside each other are printed."""


@dataclass(frozen=True)
class Parting:
    """A place where two models part.

    Attributes:
        output: the output that is computed from it.
        nodes: the node in either model that computes it, as a text; empty if no node does.
        terms: what it is in either model, as a text.
    """

    output: str
    nodes: tuple[str, str]
    terms: tuple[str, str]


def parting(first: Read, second: Read, output: str, marks: Mapping[int, Marks | None]) -> Parting:
    """Return the first place where what an output is computed from differs.

    Args:
        first: a model.
        second: the other one.
        output: name of an output that differs.
        marks: fingerprints of terms by number, by which other terms may be equal; empty if there are none.
    """
    a, b = first.outputs[output], second.outputs[output]
    while (pair := _inner(a, b, marks)) is not None:
        a, b = pair
    return Parting(output, (_node(first, a), _node(second, b)), (text(a), text(b)))


def same(first: Term, second: Term, marks: Mapping[int, Marks | None]) -> bool:
    """Whether two terms are equal: one, or with equal fingerprints."""
    one, other = marks.get(first.number), marks.get(second.number)
    if first is second or one is None or other is None:
        return first is second
    return bool((first.dtype, first.shape) == (second.dtype, second.shape) and (one == other).all())


def _inner(first: Term, second: Term, marks: Mapping[int, Marks | None]) -> tuple[Term, Term] | None:
    """Return the inputs in which two terms differ; None if they differ in more."""
    if (first.kind, _form(first), len(first.inputs)) != (second.kind, _form(second), len(second.inputs)):
        return None
    # Those of operators whose inputs are in any order are compared without those that are in both.
    pair = [[each for each in term.inputs if each is not None] for term in (first, second)]
    own, other = (
        [each for each in given if not any(same(each, one, marks) for one in others)]
        for given, others in (pair, pair[::-1])
    )
    return (own[0], other[0]) if len(own) == len(other) > 0 else None


def _form(term: Term) -> object:
    return None if term.is_constant else term.detail


def _node(read: Read, term: Term) -> str:
    return next(iter(read.nodes.get(term.number, ())), "")


def text(term: Term, depth: int = DEPTH) -> str:
    """Return a term as a text."""
    return " ".join("".join(_text(term, depth)).split())


def _text(term: Term, depth: int) -> Iterator[str]:
    shape = "" if term.shape is None else f"[{', '.join(map(str, term.shape))}]"
    if term.kind == "input":
        yield show(term.detail[0])  # type: ignore[index]
    elif term.is_constant:
        array = term.array
        assert array is not None, "it is a constant"
        yield f"{array.reshape(-1)[:4].tolist()}{'…' if array.size > 4 else ''}{shape if array.size > 4 else ''}"
    elif term.kind == "sizes":
        yield str(term.array)
    elif not depth:
        yield f"…{shape}"
    else:
        yield f"{term.kind.partition('@')[0]}{_details(term)}("
        yield ", ".join("" if each is None else "".join(_text(each, depth - 1)) for each in term.inputs)
        yield f"){shape}"


def _details(term: Term) -> str:
    if term.kind == "moved":
        order = term.detail[0]  # type: ignore[index]
        return "" if order is None else f"<{list(order.factors)}, perm {list(order.perm)}>"
    if term.kind in ("slice", "concat", "gather", "tile"):
        return f"<{term.detail}>"
    return ""
