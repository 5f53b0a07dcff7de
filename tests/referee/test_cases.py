"""Cases: their results are those of other implementations, each has its sentence, and the folders are onnx's."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx.reference import ReferenceEvaluator

from anydml.errors import AnydmlError, ModelError
from anydml.onnx import backend
from anydml.referee import find_cases, make_cases, write_cases
from anydml.referee.case_folders import MODEL
from anydml.referee.cases import are_equal, engine_value
from anydml.referee.coverage import Coverage
from anydml.referee.features import reachable_of
from anydml.referee.nodes import Node, OptionalValue, TensorList
from anydml.referee.operators import OPERATORS
from anydml.referee.protos import model_of
from anydml.referee.schema_texts import has_sentence, versions
from anydml.referee.smaller_nodes import node_of
from anydml.referee.verdicts import as_array, difference

INEXACT = (
    "CastLike", "CenterCropPad", "GatherElements", "OneHot", "Optional", "Pad", "Resize", "SequenceInsert", "Shape",
    "Slice", "Trilu", "Unsqueeze",
)  # fmt: skip
"""Operators in which onnx's own evaluator does not agree with its text."""
EXACT = sorted(OPERATORS.keys() - {*INEXACT})


def modelled(case):
    return model_of(case.node, case.outputs)


def run_inputs(case):
    return [*map(engine_value, case.node.run_inputs)]


@pytest.mark.parametrize("name", sorted(OPERATORS))
def test_anydml_agrees_with_every_case(name):
    for case in make_cases([name], 10, seed=3):
        known = [case.outputs, *(each.outputs for each in case.alternatives if each.outputs is not None)]
        try:
            found = [*map(as_array, backend.prepare(modelled(case)).run(run_inputs(case)))]
        except AnydmlError:
            assert len(known) <= len(case.alternatives), case
            continue
        assert any(all(map(are_equal, found, each)) for each in known), case


@pytest.mark.parametrize("name", EXACT)
def test_onnx_agrees_with_every_case(name):
    for case in make_cases([name], 6, seed=4):
        model = modelled(case)
        onnx.checker.check_model(model, full_check=True)
        if name in ("Flatten", "NonZero") and any(value.size == 0 for value in run_inputs(case)):
            continue
        if name == "Identity" and any(value is None for value in run_inputs(case)):
            continue
        made = ReferenceEvaluator(model)
        found = made.run(None, dict(zip(made.input_names, run_inputs(case), strict=True)))
        assert all(map(are_equal, map(as_array, found), case.outputs)), case


@pytest.mark.parametrize("name", ["Slice", "Gather", "Pad", "Resize", "OneHot", "Shape", "SplitToSequence", "Optional"])
def test_the_seed_gives_the_same_cases(name):
    one, other = (list(make_cases([name], 12, seed=9)) for _ in range(2))
    assert [case.sentence for case in one] == [case.sentence for case in other]
    for a, b in zip(one, other, strict=True):
        assert a.node.attributes.keys() == b.node.attributes.keys()
        assert all(map(are_equal, a.outputs, b.outputs))
    assert any(
        not np.array_equal(a.outputs[0], b.outputs[0]) for a, b in zip(one, make_cases([name], 12, seed=8), strict=True)
    )


def test_every_sentence_is_one_of_the_text():
    for case in make_cases(count=150, seed=2):
        assert has_sentence(case.node.operator, case.node.opset, case.sentence), case
    for case in make_cases(count=100, seed=2, is_valid=False):
        assert has_sentence(case.node.operator, case.node.opset, case.sentence), case


@pytest.mark.parametrize("name", sorted(OPERATORS))
def test_a_sentence_of_some_version_is_said_of_each_quote(name):
    operator = OPERATORS[name]
    every = [opsets[0] for _, opsets in versions(name)]
    for _, quote in operator.decides:
        assert any(has_sentence(name, opset, each) for each in quote for opset in every), quote
    for opset in every:
        assert any(has_sentence(name, opset, each) for each in operator.decides[-1][1]), opset


def test_an_invalid_case_breaks_its_rule_and_anydml_refuses_it():
    for case in make_cases(count=150, seed=5, is_valid=False):
        rules = {rule.name: rule for rule in OPERATORS[case.node.operator].rules}
        assert not rules[case.broken].holds(case.node), case


def test_folders_are_read_as_they_were_written(tmp_path):
    made = list(make_cases(count=144, seed=6))
    assert write_cases(made, tmp_path / "new") == 144
    found = find_cases(tmp_path / "new")
    by_name = {case.name: case for case in made}
    for stored in found:
        case = by_name[stored.name]
        assert stored.about["sentence"] == case.sentence
        node = node_of(stored)
        assert node.attributes.keys() == case.node.attributes.keys()
        assert all(map(are_equal, node.inputs, case.node.inputs))
        assert [type(each) for each in node.inputs] == [type(each) for each in case.node.inputs]
        assert all(map(are_equal, map(as_array, stored.outputs()), case.outputs))
        assert len(stored.readings()) == len(case.alternatives)
        assert all(each["words"] != each["instead_of"] for each, _ in stored.readings())


@pytest.mark.parametrize("name, sizes", [("Slice", [1]), ("Pad", [0]), ("Resize", [])], ids=["Slice", "Pad", "Resize"])
def test_what_is_ambiguous_has_readings(name, sizes):
    found = [case for case in make_cases([name], 150, seed=1) if case.alternatives]
    assert found
    for case in found:
        for each in case.alternatives:
            assert each.outputs is None or not all(map(are_equal, each.outputs, case.outputs))


def test_coverage_counts_what_is_reached():
    seen = Coverage(reachable_of)
    assert len(list(seen.counting(make_cases(["Gather", "Where"], 200, seed=1)))) == 200
    assert seen.count - len(seen.missing()) >= seen.count - 2
    few = Coverage(reachable_of)
    list(few.counting(make_cases(["Gather"], 1, seed=1)))
    assert any(line.startswith("Gather: axis ") for line in few.missing())


def test_other_operators_and_folders_are_refused(tmp_path):
    with pytest.raises(ModelError, match="there are no cases of Softmax: it computes numbers"):
        next(make_cases(["Softmax"], 1))
    with pytest.raises(ModelError, match="no rule of NonZero can be broken"):
        next(make_cases(["NonZero"], 1, is_valid=False))
    (tmp_path / "full").mkdir()
    (tmp_path / "full/a").write_text("")
    with pytest.raises(ModelError, match="is not an empty folder"):
        write_cases([], tmp_path / "full")
    with pytest.raises(ModelError, match="has no cases"):
        find_cases(tmp_path / "full")
    with pytest.raises(ModelError, match="there is no folder"):
        find_cases(tmp_path / "none")
    write_cases(make_cases(["Gather"], 1), tmp_path / "one")
    case = find_cases(tmp_path / "one")[0].folder
    (case / "test_data_set_0/output_0.pb").unlink()
    with pytest.raises(ModelError, match="has no outputs"):
        find_cases(tmp_path / "one")
    (case / "case.json").write_text("[]")
    with pytest.raises(ModelError, match="does not describe a case"):
        find_cases(tmp_path / "one")
    model = onnx.load(case / MODEL)
    model.graph.node.append(model.graph.node[0])
    onnx.save(model, case / MODEL)
    (case / "case.json").unlink()
    (case / "test_data_set_0/output_0.pb").write_bytes(b"")
    with pytest.raises(ModelError, match="has 2 nodes"):
        node_of(find_cases(tmp_path / "one")[0])


@pytest.mark.parametrize(
    "operator, opset, inputs, attributes",
    [
        ("Squeeze", 13, [[[1.0]], [0, 0]], {}),
        ("Slice", 13, [[1.0], [0, 0], [1, 1], [0, -1]], {}),
        ("ScatterElements", 13, [[1.0, 2.0], [1, -1], [3.0, 4.0]], {}),
        ("ScatterND", 13, [[1.0, 2.0], [[1], [-1]], [3.0, 4.0]], {}),
        ("ScatterND", 16, [[1.0, 2.0], [[1]], [3.0]], {"reduction": "add"}),
        ("Pad", 13, [[1.0], [-1, 1]], {"mode": "edge"}),
        ("Pad", 18, [[1.0], [0, 0, 1, 1], 0.0, [0, -1]], {}),
        ("CenterCropPad", 18, [[1.0], [1, 1]], {"axes": [0, -1]}),
        ("Reshape", 13, [np.zeros((0, 1)), [-1]], {}),
        ("Range", 11, [0.0, 1.0, 0.1], {}),
        ("NonZero", 13, [np.array(["a"], object)], {}),
        ("Cast", 13, [[1.0]], {"to": onnx.TensorProto.INT32}),
        ("CastLike", 19, [[1.0], [1]], {}),
        ("ConcatFromSequence", 13, [TensorList(np.dtype(int), ())], {"axis": 0, "new_axis": 1}),
        ("Dropout", 13, [[1.0], 0.5, True], {}),
        ("SplitToSequence", 13, [[1.0], 0], {}),
        ("Resize", 13, [np.zeros(0), None, np.float32([1])], {}),
        ("Resize", 13, [[1.0], None, np.float32([2])], {"mode": "linear"}),
    ],
)
def test_what_no_sentence_decides_is_no_case(operator, opset, inputs, attributes):
    """Neither drawn, which `make_cases` asserts, nor what a difference shrinks to."""
    arrays = tuple(each if each is None or isinstance(each, TensorList) else np.asarray(each) for each in inputs)
    node = Node(operator, opset, arrays, attributes)
    made = OPERATORS[operator]
    assert all(rule.holds(node) for rule in made.rules)
    assert not made.is_case(node)


@pytest.mark.parametrize(
    "found, expected, kind",
    [
        ([1.0], [1.0], ""),
        ([1.0], [1.0, 2.0], "length of a sequence"),
        ([1.0, [2.0]], [1.0, 2.0], "shape"),
        ([1.0, 3.0], [1.0, 2.0], "elements"),
        (1.0, [1.0], "sequences"),
        (None, None, ""),
        (None, [], "optional values"),
        ([], None, "optional values"),
    ],
)
def test_what_differs_in_sequences_and_optional_values(found, expected, kind):
    def value(given):
        return None if given is None else [*map(np.asarray, given)] if isinstance(given, list) else np.asarray(given)

    assert difference([value(found)], [value(expected)], True)[0] == kind
    assert are_equal(value(found), value(expected)) == (not kind)


def test_sequences_of_other_types_differ_where_both_say_it():
    one, other = (TensorList(np.dtype(kind), ()) for kind in (np.float32, np.int64))
    assert not are_equal(one, other)
    assert are_equal(one, [])
    assert are_equal([], other)
    assert are_equal(OptionalValue(one.dtype, True, one), [])


def test_a_file_of_another_kind_is_refused(tmp_path):
    write_cases(make_cases(["SequenceAt"], 1), tmp_path / "one")
    case = find_cases(tmp_path / "one")[0]
    (case.folder / "test_data_set_0/input_0.pb").write_bytes(b"\xff")
    with pytest.raises(ModelError, match=r"input_0.pb is not a sequence of ONNX"):
        case.inputs()


def test_nothing_is_left_of_an_operator_without_cases(tmp_path):
    with pytest.raises(ModelError, match="there are no cases of 'Slize'; did you mean Size"):
        write_cases(make_cases(["Slize"], 1, seed=1), tmp_path / "new")
    assert not (tmp_path / "new").exists()
