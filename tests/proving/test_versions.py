"""Versions of operators that compute the same: by their documents, and by ONNX Runtime for onnx's own cases."""

from __future__ import annotations

import warnings
from collections import Counter

import numpy as np
import onnx
import pytest
from onnx import ModelProto
from onnx.backend.test.case.node import collect_testcases
from onnx.defs import OpSchema

from anydml.proving import prove
from anydml.proving.elementwise import ELEMENTWISE_OPERATORS
from anydml.proving.running import error_of, run
from anydml.proving.versions import FIRST_MEANINGS, meaning_of

SCHEMAS: dict[str, dict[int, object]] = {}
for _schema in onnx.defs.get_all_schemas_with_history():
    if not _schema.domain and not _schema.deprecated:
        SCHEMAS.setdefault(_schema.name, {})[_schema.since_version] = _schema

MOST = 8
"""Units in the last place by which sums in another order may be off."""

OLDEST = 11
"""The first opset in which axes may be counted from the end."""

NEWEST = 23
"""The newest opset of which ONNX Runtime has most operators."""


def classes(operator):
    """The versions of an operator, by what they mean."""
    found = {}
    for version in sorted(SCHEMAS[operator]):
        found.setdefault(meaning_of(operator, version, version), []).append(version)
    return found


@pytest.mark.parametrize("operator", sorted(FIRST_MEANINGS))
def test_versions_of_one_meaning_differ_by_types_and_attributes_with_defaults(operator):
    for first, versions in classes(operator).items():
        oldest = SCHEMAS[operator][versions[0]]
        assert first == versions[0]
        for version in versions[1:]:
            schema = SCHEMAS[operator][version]
            for name, attribute in oldest.attributes.items():
                assert schema.attributes[name].default_value == attribute.default_value, name
                assert schema.attributes[name].type == attribute.type, name
            for name in schema.attributes.keys() - oldest.attributes.keys():
                assert not schema.attributes[name].required, name
            assert len(schema.inputs) >= len(oldest.inputs), version
            for old, new in zip(oldest.inputs, schema.inputs, strict=False):
                assert old.option in (new.option, OpSchema.FormalParameterOption.Single), version


def cases():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = collect_testcases(None)
    for case in found:
        model = case.model
        if len(model.graph.node) == 1 and not model.graph.node[0].domain and not model.functions and case.data_sets:
            yield case


def test_cases_give_the_same_in_all_versions_of_one_meaning():
    compared, random = Counter(), np.random.default_rng(0)
    for case in cases():
        node = case.model.graph.node[0]
        if node.op_type not in FIRST_MEANINGS and node.op_type not in ELEMENTWISE_OPERATORS:
            continue
        own = next(each.version for each in case.model.opset_import if not each.domain)
        own = onnx.defs.get_schema(node.op_type, own).since_version
        versions = [
            version
            for version in range(OLDEST, NEWEST)
            if _meaning(node.op_type, version) == _meaning(node.op_type, own)
        ]
        if len(versions) < 2:
            continue
        models = [_with_opset(case.model, int(version)) for version in random.choice(versions, 2, replace=False)]
        try:
            for model in models:
                onnx.checker.check_model(model, full_check=True)
            inputs = dict(zip([each.name for each in case.model.graph.input], case.data_sets[0][0], strict=True))
            results = [run(model, inputs) for model in models]
        except Exception:  # onnx and ONNX Runtime raise errors of several types for types that a version lacks
            continue
        for a, b in zip(*results, strict=True):
            pairs = zip(a, b, strict=True) if isinstance(a, list) else [(a, b)]
            assert all(error_of(*pair) <= MOST for pair in pairs), case.name
        compared[node.op_type] += 1
        assert prove(*models, runs=False).verdict == "proved", case.name
        compared["all"] += 1
    assert compared["all"] > 100, compared
    assert len(compared) > 40


def _meaning(operator, opset):
    try:
        return meaning_of(operator, onnx.defs.get_schema(operator, opset).since_version, opset)
    except onnx.defs.SchemaError:
        return None


def _with_opset(model, version):
    copy = ModelProto()
    copy.CopyFrom(model)
    for each in copy.opset_import:
        each.version = version if not each.domain else each.version
    copy.ir_version = min(copy.ir_version, 10)
    return copy
