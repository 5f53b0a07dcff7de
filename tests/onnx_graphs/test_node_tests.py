"""The onnx package's own tests of every operator that anydml has, judged by the referee.

Node by node, which is no engine of the referee's, they are run by onnx's runner.
"""

from __future__ import annotations

import shutil
import sys
import types
import unittest
import warnings

import numpy as np
import onnx
import pytest
from onnx import TensorProto, numpy_helper
from onnx.backend.test import BackendTest
from onnx.backend.test.loader import load_model_tests

from anydml.onnx import backend
from anydml.onnx.program import Program
from anydml.onnx.table import NODES
from anydml.referee import judge
from anydml.referee.anydml_engine import DESC
from anydml.referee.case_folders import DATA, MODEL

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
    """The cases made of our operators alone, with their models, by name; most others' models warn while made."""
    kinds = ("node", "pytorch-converted", "pytorch-operator", "simple")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        every = [(case, model_of(case)) for kind in kinds for case in load_model_tests(kind=kind)]
    ours = [each for each in every if {node.op_type for node in each[1].graph.node} <= OURS]
    return {case.name: (case, model) for case, model in ours}


@pytest.fixture(scope="module")
def folders(cases, tmp_path_factory):
    """Two folders of cases as the referee reads them: those that pass, and those that are skipped."""
    passing, skipped = tmp_path_factory.mktemp("passing"), tmp_path_factory.mktemp("skipped")
    for name, (case, model) in cases.items():
        folder = (skipped if name in REASONS else passing) / name
        if case.data_sets is None:
            shutil.copytree(case.model_dir, folder)
        else:
            write(model, *case.data_sets, folder)
    return passing, skipped


def write(model, data_set, folder):
    (folder / DATA).mkdir(parents=True)
    (folder / MODEL).write_bytes(model.SerializeToString())
    given, expected = data_set
    for kind, infos, values in (("input", model.graph.input, given), ("output", model.graph.output, expected)):
        for k, (info, value) in enumerate(zip(infos, values, strict=True)):
            (folder / DATA / f"{kind}_{k}.pb").write_bytes(message_of(info.type, value).SerializeToString())


def message_of(kind, value):
    if isinstance(value, TensorProto):
        return value
    if kind.HasField("optional_type"):
        return numpy_helper.from_optional(value)
    return numpy_helper.from_list(value) if kind.HasField("sequence_type") else numpy_helper.from_array(np.array(value))


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


@pytest.mark.parametrize("engine", ["anydml", "anydml:cpu", "anydml:reference"])
def test_every_case_agrees(folders, engine, record_property):
    judged = judge(folders[0], engine, jobs=2)
    assert not [each for each in judged.verdicts if each.verdict != "agrees"]
    # onnx 1.19 has some fewer.
    assert len(judged.verdicts) >= 400
    described = judged.ways.get(DESC, 0)
    assert (described > 100) == (engine != "anydml")
    record_property("in summary", f"ONNX node tests by {engine}: {len(judged.verdicts)} agree, {described} by descs")


def test_every_case_passes_node_by_node(cases, record_property):
    names = cases.keys() - REASONS.keys()
    result = run(names, NodeByNode)
    assert not [(test.id(), trace) for test, trace in (*result.errors, *result.failures)]
    assert not result.skipped
    record_property("in summary", f"ONNX node tests, node by node: {result.testsRun} of {len(names)} passed")


def test_no_case_of_what_only_moves_is_skipped(cases):
    computing = {"Add", "Sub", "Mul", "Div", "Mod", "Min", "Max", "Ceil", "Floor", "Neg", "Abs", "ReduceProd", "Not",
                 "Equal", "Greater", "Less", "GreaterOrEqual", "LessOrEqual", "And", "Or"}  # fmt: skip
    only_some = {"Resize", "Dropout", "ScatterElements", "ScatterND", "Identity"}
    for name in REASONS.keys() & cases.keys():
        kinds = {node.op_type for node in cases[name][1].graph.node}
        assert kinds & (computing | only_some), name


def test_what_is_skipped_is_refused_for_its_reason(folders):
    judged = judge(folders[1], "anydml", jobs=2)
    # An older onnx does not have all of them.
    assert len(judged.verdicts) > len(REASONS) // 2
    for each in judged.verdicts:
        assert (each.verdict, REASONS[each.case] in each.detail) == ("refuses", True), each
