"""A case shrinks without the axes that do not matter, and without their entries in lists."""

from __future__ import annotations

import numpy as np
import pytest

from anydml.referee import make_cases
from anydml.referee.cases import are_equal, operator_named, valid_case
from anydml.referee.fewer_axes import LISTS
from anydml.referee.nodes import Node, TensorList, evaluate
from anydml.referee.smaller_nodes import cuts, lines_of, smaller_cases


def without_steps(node):
    return node._replace(inputs=node.inputs[:4])


def in_mode(**attributes):
    return lambda node: node._replace(attributes={**node.attributes, **attributes})


def once(node):
    return node.with_input(1, np.ones_like(node.array(1)))


def swapped(node):
    sizes = node.integers(1)
    return node.with_input(1, np.array(sizes[::-1], np.int64)) if sizes else node


def backwards(node):
    return node.with_input(1, node.array(1)[::-1].copy())


def last_first(node):
    value = node.inputs[0]
    return node.with_input(0, TensorList(value.dtype, value.tensors[::-1]))


def wrong(operator, change):
    """Whether an engine fails a case that takes it for another node."""

    def fails(case):
        try:
            found = evaluate(change(case.node), operator_named(operator).formula)
        except (IndexError, ValueError, TypeError, ZeroDivisionError):
            return False
        return len(found) != len(case.outputs) or not all(map(are_equal, found, case.outputs))

    return fails


@pytest.mark.parametrize(
    "operator, change, rank",
    [
        ("Slice", without_steps, 1),
        ("Pad", in_mode(mode="constant"), 1),
        ("Resize", in_mode(nearest_mode="ceil"), 1),
        ("Resize", in_mode(coordinate_transformation_mode="asymmetric"), 1),
        ("Tile", once, 1),
        ("Compress", backwards, 1),
        ("CenterCropPad", once, 1),
        ("Transpose", in_mode(perm=None), 2),
        ("Split", swapped, 1),
        ("SplitToSequence", swapped, 1),
        ("ConcatFromSequence", last_first, 1),
        ("SequenceConstruct", lambda node: node._replace(inputs=node.inputs[:1]), 1),
    ],
)
def test_axes_that_do_not_matter_are_gone(operator, change, rank):
    fails = wrong(operator, change)
    large = (
        case
        for case in make_cases([operator], 300, seed=4)
        if max(each.ndim for each in (case.node.tensors(0) or [np.zeros(())])) > 2
    )
    some = [case for case in large if not case.alternatives and fails(case)][:2]
    assert some
    for case in some:
        best = case
        while smaller := next((each for each in smaller_cases(best) if each and fails(each)), None):
            best = smaller
        node = best.node
        assert max(each.ndim for each in node.tensors(0)) <= rank, (case.node, node)
        lists = LISTS.get(operator)
        for number, times in lists.entries if lists else ():
            value = node.optional(number)
            assert value is None or value.size <= times * rank, node
        assert len(best.outputs) <= 2


def test_every_input_with_entries_of_axes_is_one_of_the_operator():
    for name, lists in LISTS.items():
        nodes = [case.node for case in make_cases([name], 60, seed=1)]
        for number, times in lists.entries:
            values = [node.optional(number) for node in nodes]
            assert any(value is not None and value.size and value.size % times == 0 for value in values)


def test_arrays_of_other_ranks_are_cut_together_along_their_last_axes():
    shapes = {
        tuple(None if each is None else each.shape for each in cut.arrays)
        for cut in cuts([np.zeros((5, 3, 7)), None, np.zeros((2, 7))])
    }
    assert {((5, 3, 1), None, (2, 1)), ((5, 3, 6), None, (2, 6)), ((5, 3, 1), None, (2, 7))} <= shapes


def test_a_constant_shrinks_and_is_one_line():
    value = np.arange(24).reshape(2, 3, 4)
    case = valid_case(operator_named("Constant"), Node("Constant", 13, (), {"value": value}), "Constant_0")
    while smaller := next((each for each in smaller_cases(case) if each and (each.outputs[0] == 23).any()), None):
        case = smaller
    assert case.outputs[0].tolist() == 23
    assert [*lines_of(case)] == ["Constant, opset 13, attributes {'value': 'int64 [] 23'}"]


def test_an_ambiguous_case_shrinks_too():
    fails = wrong("Resize", in_mode(nearest_mode="ceil"))
    some = [case for case in make_cases(["Resize"], 400, seed=4) if case.alternatives and case.node.array(0).ndim > 1]
    case = best = next(each for each in some if fails(each))
    while smaller := next((each for each in smaller_cases(best) if each and fails(each)), None):
        best = smaller
    assert best.node.array(0).ndim < case.node.array(0).ndim
