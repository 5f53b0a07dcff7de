"""Cases: a node, its results by the operator's text, and the sentence of the text that determines them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from anydml.errors import ModelError
from anydml.referee.case_selection import draw_missing, with_rules
from anydml.referee.drawing import Draw
from anydml.referee.features import features_of, reachable_features
from anydml.referee.no_cases import reason_of
from anydml.referee.nodes import Array, Node, OptionalValue, TensorList, Value, evaluate
from anydml.referee.operator_rules import Operator, Quote
from anydml.referee.operators import OPERATORS
from anydml.referee.schema_texts import document, first_versions, has_sentence, versions
from anydml.text import did_you_mean

TRIES = 200
"""Maximum number of successive draws without a case."""


ONLY_MOVE = "cases are of operators that only move elements, and whose results the text of ONNX decides"


class Alternative(NamedTuple):
    """Results of an ambiguous case by another reading.

    Attributes:
        question: the question that the text leaves open.
        words: the reading, as text.
        outputs: the results by this reading; None if it refuses the node.
        first: the reading by which the case's own results are computed, as text.
    """

    question: str
    words: str
    outputs: tuple[Value, ...] | None
    first: str


class Case(NamedTuple):
    """A node, its inputs, and the results that its operator's text determines.

    Attributes:
        name: the case's name, unique among those of one call.
        node: the node and its inputs.
        outputs: the results by the text; for an invalid case, the results of the valid node that it was made from,
            whose types they declare.
        document: the document that determines the results.
        sentence: the sentence that determines the outputs; for an invalid case, the rule that it breaks.
        alternatives: other readings of the text that give other results.
        features: the case's features, for coverage and causes.
        broken: the rule that an invalid case breaks; empty if it is valid.
    """

    name: str
    node: Node
    outputs: tuple[Value, ...]
    document: str
    sentence: str
    alternatives: tuple[Alternative, ...] = ()
    features: tuple[str, ...] = ()
    broken: str = ""

    @property
    def operator(self) -> str:
        """The operator's type."""
        return self.node.operator


def operator_named(name: str) -> Operator:
    """Return the operator of a name, in upper or lower case.

    Raises:
        ModelError: the referee has no such operator.
    """
    by_name = {name.lower(): name for name in OPERATORS}
    if name.lower() not in by_name:
        others = {name.lower(): name for name in first_versions()}
        if reason := reason_of(others.get(name.lower(), "")):
            raise ModelError(f"there are no cases of {others[name.lower()]}: {reason}", rule=ONLY_MOVE)
        raise ModelError(
            f"there are no cases of {name!r}{did_you_mean(name, OPERATORS)}",
            rule=f"the operators are {', '.join(sorted(OPERATORS))}",
        )
    return OPERATORS[by_name[name.lower()]]


COMPARED_BYTES = 1 << 24
"""Number of bytes that are compared at once."""


def engine_value(value: Any) -> Any:
    """Return a value as engines represent it: an array, a list of arrays, or None."""
    if isinstance(value, OptionalValue):
        value = value.element
    return [*value.tensors] if isinstance(value, TensorList) else value


def are_equal(first: Any, second: Any) -> bool:
    """Whether two values are equal.

    Arrays must have equal shapes, dtypes and elements, where NaN equals NaN, and −0 differs from 0. Sequences, which
    may be lists, must have equal tensors, and one type if both declare it. None is an empty optional value.
    """
    if isinstance(first, TensorList) and isinstance(second, TensorList) and first.dtype != second.dtype:
        return False
    first, second = engine_value(first), engine_value(second)
    if not isinstance(first, np.ndarray) or not isinstance(second, np.ndarray):
        are_lists = isinstance(first, list) and isinstance(second, list)
        return (first is None and second is None) or (
            are_lists and len(first) == len(second) and all(map(are_equal, first, second))
        )
    if first.shape != second.shape or first.dtype != second.dtype:
        return False
    if first.nbytes > COMPARED_BYTES and len(first) > 1:
        # In pieces, without copies of whole arrays.
        count = min(len(first), first.nbytes // COMPARED_BYTES + 1)
        return all(map(are_equal, np.array_split(first, count), np.array_split(second, count)))
    if first.dtype.hasobject:
        return bool((first == second).all()) if first.size else True
    bits = np.ascontiguousarray(first).tobytes() == np.ascontiguousarray(second).tobytes()
    if bits or first.dtype.kind in "iub":
        return bits
    equal = (
        (first == second) & (np.signbit(first.real) == np.signbit(second.real))
        if first.dtype.kind in "fc"
        else first == second
    )
    return bool((equal | (_is_nan(first) & _is_nan(second))).all())


def _is_nan(array: Array) -> Any:
    return array != array  # noqa: PLR0124  # also of types that NumPy does not have


def make_cases(names: Sequence[str] = (), count: int = 1000, seed: int = 0, is_valid: bool = True) -> Iterator[Case]:
    """Draw cases.

    Args:
        names: types of operators; all by default.
        count: the number of cases, shared among the operators.
        seed: gives the same cases again, with one version of onnx.
        is_valid: False for cases that break one rule each.

    Yields:
        Cases, operator by operator.

    Raises:
        ModelError: the referee has no such operator, or none of them has a rule to break.
    """
    named = [*dict.fromkeys(operator_named(name).name for name in names)] or [*OPERATORS]
    if not is_valid:
        named = with_rules(named, {name: operator.rules for name, operator in OPERATORS.items()})
    chosen = [OPERATORS[name] for name in named]
    for k, operator in enumerate(chosen):
        share = count * (k + 1) // len(chosen) - count * k // len(chosen)
        yield from _draw_cases(operator, share, seed, is_valid)


def _draw_cases(operator: Operator, count: int, seed: int, is_valid: bool) -> Iterator[Case]:
    missing = set(reachable_features(operator)) if is_valid else set()
    for k in range(count):
        draw = Draw(f"{seed} {operator.name} {k} {is_valid}")
        name = f"{operator.name}_{k:05d}"
        if is_valid:
            node = draw_missing(
                partial(draw_node, operator, draw), lambda node: features_of(operator, node), missing, k, count
            )
            yield valid_case(operator, node, name)
        else:
            yield _invalid(operator, draw, name)


def draw_node(operator: Operator, draw: Draw) -> Node:
    """Draw a valid node of an operator, in one of its opsets, with some inputs as initializers."""
    for _ in range(TRIES):
        draw.operator = operator.name
        draw.opset = draw.choice(draw.choice(versions(operator.name))[1])
        node = operator.draw(draw)
        if node is None:
            continue
        assert operator.is_case(node), node
        return with_initializers(node, draw)
    raise AssertionError(f"no case of {operator.name} in {TRIES} tries")


def with_initializers(node: Node, draw: Draw) -> Node:
    """Make some inputs of a node initializers: mostly those that control the operator, sometimes the data."""
    share = 0.1 if node.operator in ("Concat", "SequenceConstruct") else 0.55
    constant = {
        k
        for k, value in enumerate(node.inputs)
        if isinstance(value, np.ndarray) and draw.is_likely(share if k else 0.1)
    }
    return node._replace(constant=frozenset(constant))


def valid_case(operator: Operator, node: Node, name: str) -> Case:
    """Return the case of a valid node."""
    outputs = tuple(evaluate(node, operator.formula))
    alternatives: list[Alternative] = []
    for ambiguity in operator.ambiguities:
        if ambiguity.is_met is not None and not ambiguity.is_met(node):
            continue
        for reading in ambiguity.readings[1:]:
            others = None if reading.results is None else tuple(evaluate(node, reading.results))
            all_outputs = [
                outputs,
                *(alternative.outputs for alternative in alternatives if alternative.outputs is not None),
            ]
            if others is None or not any(all(map(are_equal, others, reading)) for reading in all_outputs):
                alternatives.append(Alternative(ambiguity.question, reading.words, others, ambiguity.readings[0].words))
    sentence = deciding_sentence(operator, node)
    where = document(node.operator, node.opset)
    return Case(name, node, outputs, where, sentence, tuple(alternatives), features_of(operator, node))


def deciding_sentence(operator: Operator, node: Node) -> str:
    """Return the sentence of the text that determines a node's results."""
    for applies, quote in operator.decides:
        if applies(node) and (sentence := first_quoted(node, quote)):
            return sentence
    raise AssertionError(f"no sentence of {document(node.operator, node.opset)} decides {node.attributes}")


def first_quoted(node: Node, quote: Quote) -> str:
    """Return the first of several sentences that is in the text of a node's version; empty if none is."""
    return next((sentence for sentence in quote if has_sentence(node.operator, node.opset, sentence)), "")


def _invalid(operator: Operator, draw: Draw, name: str) -> Case:
    for _ in range(TRIES):
        node = draw_node(operator, draw)
        rule = draw.choice(operator.rules)
        sentence = first_quoted(node, rule.quote)
        wrong = rule.broken(node, draw) if sentence else None
        if wrong is None:
            continue
        features = (f"opset {node.opset}", f"breaks {rule.name}")
        outputs = tuple(evaluate(node, operator.formula))
        return Case(name, wrong, outputs, document(node.operator, node.opset), sentence, (), features, rule.name)
    raise AssertionError(f"no invalid case of {operator.name} in {TRIES} tries")
