"""Rules of an operator's text: requirements of a case, values at their limits, and ways to break one of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from anydml.referee.drawing import Draw
from anydml.referee.nodes import Array, Constant, Coordinate, Formula, Node, Result, Source

Quote = tuple[str, ...]
"""A sentence of the text in several wordings, of which a version of the text has one."""


class Rule(NamedTuple):
    """A rule for the inputs and attributes of a node.

    Attributes:
        name: the subject of the rule.
        quote: the sentence.
        holds: whether a node keeps it.
        broken: changes a valid node to one that breaks only this rule; returns None if there is no such node.
        edges: names of the first and last valid values that a node has.
    """

    name: str
    quote: Quote
    holds: Callable[[Node], bool]
    broken: Callable[[Node, Draw], Node | None]
    edges: Callable[[Node], list[str]] = lambda node: []


class Reading(NamedTuple):
    """One reading of a text that is silent or contradicts itself.

    Attributes:
        words: the reading, as text.
        results: the results by this reading; None if it refuses the node.
    """

    words: str
    results: Formula | None


class Ambiguity(NamedTuple):
    """A question that a text leaves open.

    Attributes:
        question: the question.
        is_met: whether a node's results depend on the answer; None to compare the results of all readings.
        readings: the answers; the formula uses the first one.
    """

    question: str
    is_met: Callable[[Node], bool] | None
    readings: tuple[Reading, ...]


class LeftOut(NamedTuple):
    """Valid nodes whose results no sentence of the text determines, and which are therefore not drawn.

    Attributes:
        words: a description of these nodes.
        has: returns whether a node is left out.
    """

    words: str
    has: Callable[[Node], bool]


class Operator(NamedTuple):
    """An operator of ONNX for the referee.

    Attributes:
        name: the operator's type.
        draw: draws a random valid node; returns None if the attempt failed.
        formula: the function that returns the results.
        decides: sentences that determine the results, with the nodes that they apply to, the most special ones first.
        rules: the rules of valid nodes.
        ambiguities: the questions that the text leaves open.
        left_out: nodes that are never drawn.
    """

    name: str
    draw: Callable[[Draw], Node | None]
    formula: Formula
    decides: tuple[tuple[Callable[[Node], bool], Quote], ...]
    rules: tuple[Rule, ...] = ()
    ambiguities: tuple[Ambiguity, ...] = ()
    left_out: tuple[LeftOut, ...] = ()

    def is_case(self, node: Node) -> bool:
        """Whether a node keeps the rules, and the text determines its results."""
        return all(rule.holds(node) for rule in self.rules) and not any(reason.has(node) for reason in self.left_out)


def is_any_node(node: Node) -> bool:
    """Return True: the rule applies to every node."""
    return True


def has(name: str, value: object) -> Callable[[Node], bool]:
    """Whether an attribute has a value."""
    return lambda node: bool(node.attribute(name) == value)


def axis_twice(axes: Callable[[Node], Sequence[int]]) -> LeftOut:
    """Return the nodes that name one axis of the first input twice."""

    def has(node: Node) -> bool:
        axis_list = axes(node)
        return len({axis % max(node.array(0).ndim, 1) for axis in axis_list}) < len(axis_list)

    return LeftOut("an axis twice: the text does not say what it does", has)


def is_reduced(node: Node) -> bool:
    """Whether elements are computed from several others."""
    return bool(node.attributes.get("reduction", "none") != "none")


REDUCTIONS = LeftOut("reductions, which compute", is_reduced)

Bound = Callable[[Node], int]


def attribute_between(name: str, low: Bound, high: Bound, quote: Quote) -> Rule:
    """Return the rule that an attribute is within inclusive bounds; an omitted attribute conforms."""

    def holds(node: Node) -> bool:
        return name not in node.attributes or low(node) <= node.attributes[name] <= high(node)

    def broken(node: Node, draw: Draw) -> Node | None:
        value = draw.choice([low(node) - 1, high(node) + 1])
        return node._replace(attributes={**node.attributes, name: value})

    def edges(node: Node) -> list[str]:
        value = node.attributes.get(name)
        ends = {"first": low, "last": high}
        return [f"{name} {end}" for end, bound in ends.items() if value is not None and value == bound(node)]

    return Rule(name, quote, holds, broken, edges)


Bounds = Callable[[Node], tuple[Array, Array]]


def input_between(name: str, input_number: int, bounds: Bounds, quote: Quote) -> Rule:
    """Return the rule that each element of an input is within inclusive bounds; an omitted input conforms.

    Args:
        name: the input.
        input_number: the number of the input.
        bounds: the lowest and the highest valid elements, which broadcast to the input.
        quote: the sentence.
    """

    def holds(node: Node) -> bool:
        value = node.optional(input_number)
        if value is None or not value.size:
            return True
        low, high = bounds(node)
        return bool(((value >= low) & (value <= high)).all())

    def broken(node: Node, draw: Draw) -> Node | None:
        value = node.optional(input_number)
        if value is None or not value.size:
            return None
        low, high = (np.broadcast_to(bound, value.shape).reshape(-1) for bound in bounds(node))
        changed = value.copy().reshape(-1)
        k = draw.randrange(changed.size)
        changed[k] = draw.choice([int(low[k]) - 1, int(high[k]) + 1])
        return node.with_input(input_number, changed.reshape(value.shape))

    def edges(node: Node) -> list[str]:
        value = node.optional(input_number)
        if value is None or not value.size:
            return []
        low, high = bounds(node)
        reached = {"first": (value == low).any(), "last": (value == high).any()}
        return [f"{name} {end}" for end, is_reached in reached.items() if is_reached]

    return Rule(name, quote, holds, broken, edges)


def one_of(name: str, values: Callable[[Node], list[object]], wrong: object, quote: Quote) -> Rule:
    """Return the rule that an attribute is one of some values."""

    def holds(node: Node) -> bool:
        return name not in node.attributes or node.attributes[name] in values(node)

    def broken(node: Node, draw: Draw) -> Node | None:
        return node._replace(attributes={**node.attributes, name: wrong})

    return Rule(name, quote, holds, broken)


def lowest_axis(node: Node) -> int:
    """Return minus the rank of the first input."""
    return -node.array(0).ndim


def highest_axis(node: Node) -> int:
    """Return the rank of the first input, minus one."""
    return node.array(0).ndim - 1


AXIS_IN_RANGE: Quote = (
    "Accepted range is [-r, r-1] where r = rank(data)",
    "Accepted range is [-r, r-1] where r = rank(inputs)",
    "Accepted range is [-rank, rank-1] where r = rank(input)",
    "Accepted range is [-r, r-1] where r = rank(input)",
    "Accepted range is [-r, r-1], where r = rank(data)",
)

AXIS = attribute_between("axis", lowest_axis, highest_axis, AXIS_IN_RANGE)


def zero_of_strings(formula: Callable[[Node], list[Result]]) -> Ambiguity:
    """Return the ambiguity of a text that sets strings to zero, without defining that string.

    Args:
        formula: the results with empty strings.
    """

    def named(node: Node) -> list[Result]:
        def other(result: Result) -> Result:
            def source(at: Coordinate) -> Source:
                element = result.source(at)
                return Constant("0") if isinstance(element, Constant) else element

            return result._replace(source=source)

        return [other(result) for result in formula(node)]

    return Ambiguity(
        "which string is zero",
        lambda node: node.array(0).dtype.hasobject,
        (
            Reading("the empty one", formula),
            Reading("the digit", named),
            Reading("none, so strings are refused", None),
        ),
    )
