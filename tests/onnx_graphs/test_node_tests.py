"""The onnx package's own tests of every operator that anydml has, run against its backend by onnx's runner."""

from __future__ import annotations

import sys
import types
import unittest
import warnings

import onnx
import pytest
from onnx.backend.test import BackendTest
from onnx.backend.test.loader import load_model_tests

from anydml.onnx import backend
from anydml.onnx.program import Program
from anydml.onnx.table import NODES

from .skipped_nodes import SKIPPED

OURS = {kind for domain, kind in NODES if not domain}
REASONS = {f"test_{name}": error for (_, error), names in SKIPPED.items() for name in names.split()}


for pooling in ("averagepool", "lppool", "maxpool"):
    # Their cases, which compute, take onnx four fifths of the time for all.
    sys.modules.setdefault(f"onnx.backend.test.case.node.{pooling}", types.ModuleType(pooling))


def model_of(case):
    """Newer versions of onnx make a case's model, older ones have it in a file."""
    return case.model or onnx.load(f"{case.model_dir}/model.onnx")


@pytest.fixture(scope="module")
def cases():
    """The models of the cases made of our operators alone, by name; most others' models warn while they are made."""
    kinds = ("node", "pytorch-converted", "pytorch-operator", "simple")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        every = {case.name: model_of(case) for kind in kinds for case in load_model_tests(kind=kind)}
    return {name: model for name, model in every.items() if {node.op_type for node in model.graph.node} <= OURS}


class NodeByNode(backend.AnydmlBackend):
    """The same, each node a program of its own."""

    @classmethod
    def prepare(cls, model, device="CPU", **_):
        prepared = super().prepare(model, device)
        prepared.program = Program(model, is_fused=False)
        return prepared


def run(names, tested):
    """Run cases by onnx's runner."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        runner = BackendTest(tested)
    suite = unittest.TestSuite()
    for case in runner.test_cases.values():
        suite.addTests(case(f"{name}_cpu") for name in sorted(names) if hasattr(case, f"{name}_cpu"))
    assert suite.countTestCases() == len(names)
    result = unittest.TestResult()
    suite.run(result)
    return result


@pytest.mark.parametrize("way", ["fused", "node by node"])
def test_every_case_passes(cases, way, record_property):
    names = cases.keys() - REASONS.keys()
    result = run(names, backend if way == "fused" else NodeByNode)
    assert not [(test.id(), trace) for test, trace in (*result.errors, *result.failures)]
    assert not result.skipped
    # onnx 1.19 has some fewer.
    assert len(names) >= 400
    record_property("in summary", f"ONNX node tests, {way}: {result.testsRun} of {len(names)} passed, none skipped")


def test_no_case_of_what_only_moves_is_skipped(cases):
    computing = {"Add", "Sub", "Mul", "Div", "Mod", "Min", "Max", "Ceil", "Floor", "Neg", "Abs", "ReduceProd", "Not",
                 "Equal", "Greater", "Less", "GreaterOrEqual", "LessOrEqual", "And", "Or"}  # fmt: skip
    only_some = {"Resize", "Dropout", "ScatterElements", "ScatterND", "Identity"}
    for name in REASONS.keys() & cases.keys():
        kinds = {node.op_type for node in cases[name].graph.node}
        assert kinds & (computing | only_some), name


def test_what_is_skipped_is_refused_for_its_reason(cases):
    # What is too old is refused before it runs; an older onnx does not have all of them.
    names = REASONS.keys() & cases.keys()
    assert len(names) > len(REASONS) // 2
    result = run(names, backend)
    found = {test.id().rsplit(".")[-1].removesuffix("_cpu"): trace for test, trace in result.errors}
    old = {test.id().rsplit(".")[-1].removesuffix("_cpu") for test, _ in result.skipped}
    assert found.keys() | old == names
    for name, trace in found.items():
        assert REASONS[name] in trace.strip().splitlines()[-1]
    for name in old:
        with pytest.raises(ValueError, match=REASONS[name]):
            backend.prepare(cases[name])
