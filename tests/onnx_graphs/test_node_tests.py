"""The onnx package's own tests of Split, Slice, Gather and Concat, run against anydml's backend by onnx's runner."""

from __future__ import annotations

import unittest
import warnings

import onnx
import pytest
from onnx.backend.test import BackendTest
from onnx.backend.test.loader import load_model_tests

from anydml.onnx import backend

OURS = {"Split", "Slice", "Gather", "Concat", "Identity", "Constant"}
WANTED = {"Split", "Slice", "Gather", "Concat"}
NEEDS_OTHER_VALUES = {"test_identity_sequence", "test_identity_opt"}
"""They pass sequences and optionals; anydml moves tensors."""


def model_of(case):
    """Newer versions of onnx make a case's model, older ones have it in a file."""
    return case.model or onnx.load(f"{case.model_dir}/model.onnx")


@pytest.fixture(scope="module")
def every_node_case():
    """All of onnx's node tests; most others' models warn while they are made."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return {case.name: model_of(case) for case in load_model_tests(kind="node")}


@pytest.fixture(scope="module")
def cases(every_node_case):
    """The models of the cases made of our operators alone, by name."""
    kinds = ("pytorch-converted", "pytorch-operator", "simple")
    others = {case.name: model_of(case) for kind in kinds for case in load_model_tests(kind=kind)}
    every = {**every_node_case, **others}
    return {name: model for name, model in every.items() if {node.op_type for node in model.graph.node} <= OURS}


def test_every_case_passes(cases, record_property):
    names = sorted(cases.keys() - NEEDS_OTHER_VALUES)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        runner = BackendTest(backend)
    suite = unittest.TestSuite()
    for case in runner.test_cases.values():
        suite.addTests(case(f"{name}_cpu") for name in names if hasattr(case, f"{name}_cpu"))
    assert suite.countTestCases() == len(names)
    result = unittest.TestResult()
    suite.run(result)
    assert not [(test.id(), trace) for test, trace in (*result.errors, *result.failures)]
    assert not result.skipped
    record_property("in summary", f"ONNX node tests: {result.testsRun} of {len(names)} passed, none skipped")


def test_no_case_of_the_four_is_left_out(every_node_case, cases):
    of_the_four = {name for name, model in every_node_case.items() if model.graph.node[0].op_type in WANTED}
    named = {name for name in every_node_case if name.split("_")[1] in {"split", "slice", "gather", "concat"}}
    others = {name for name in named if name.startswith(("test_split_to_sequence", "test_gather_elements"))}
    assert of_the_four <= cases.keys()
    assert len(of_the_four) >= 39
    assert named - others <= of_the_four


@pytest.mark.parametrize("name", sorted(NEEDS_OTHER_VALUES))
def test_what_needs_other_values_is_refused_with_a_reason(cases, name):
    with pytest.raises(ValueError, match="anydml moves tensors"):
        backend.prepare(cases[name])
