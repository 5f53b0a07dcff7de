"""Where onnx infers shapes, or computes constants, otherwise than ONNX Runtime does, nothing is known of them."""

from __future__ import annotations

import sys
import types
import warnings

import numpy as np
import pytest
from how_many import how_many
from onnx import ModelProto, numpy_helper, parser
from onnx.backend.test.loader import load_model_tests

from anydml.proving import prove
from anydml.proving.constants import Constants
from anydml.proving.model_terms import Reader
from anydml.proving.running import error_of, random_inputs, run
from anydml.proving.sizes import evaluate

for pooling in ("averagepool", "lppool", "maxpool"):
    # Their cases take onnx four fifths of the time for all.
    sys.modules.setdefault(f"onnx.backend.test.case.node.{pooling}", types.ModuleType(pooling))

POOLED = "g (float[1,4,9,7] x) => (float[A,B,C,D] y) { y = "


def _windows(random):
    """A random convolution or pool, as a text."""
    given = [f"strides = [{random.integers(1, 4)}, {random.integers(1, 4)}]"]
    if random.integers(2):
        given.append(f"dilations = [{random.integers(1, 4)}, {random.integers(1, 3)}]")
    if random.integers(2):
        mode = random.choice(["SAME_UPPER", "SAME_LOWER", "VALID"])
        given.append(f'auto_pad = "{mode}"')
    elif random.integers(2):
        given.append(f"pads = [{', '.join(str(random.integers(2)) for _ in range(4))}]")
    operator = random.choice(["MaxPool", "AveragePool", "LpPool", "Conv", "ConvTranspose"])
    if operator.startswith("Conv"):
        weights = "<float[4,4,2,3] w = {" + ", ".join(["1"] * 96) + "}>"
        return POOLED.replace("{", weights + " {") + f"{operator} <{', '.join(given)}> (x, w) }}"
    given += ["kernel_shape = [2, 3]"] + ["ceil_mode = 1"] * int(random.integers(2))
    return POOLED + f"{operator} <{', '.join(given)}> (x) }}"


TEXTS = [
    "g (float[N,S,E] x) => (float[A,B,C] y) { y = Attention <q_num_heads = 3, kv_num_heads = 3> (x, x, x) }",
    "g (float[N,H,S,E] x) => (float[A,B,C,D] y) { y = Attention (x, x, x) }",
    "g (float[1,128,1] x) => (float[A,B,C,D] y) <int64 step = {8}, int64 length = {16}> "
    "{ y = STFT (x, step, '', length) }".replace("''", ""),
    *(_windows(np.random.default_rng(seed)) for seed in range(60)),
]


@pytest.mark.parametrize("text", TEXTS, ids=range(len(TEXTS)))
def test_shapes_that_are_known_are_those_that_runtimes_make(text):
    model = parser.parse_model(f'<ir_version: 10, opset_import: ["": 23]> {text}')
    shape = Reader("floats").read(model, Constants(model, None), {}).outputs["y"].shape
    for sizes in ({"N": 2, "S": 3, "E": 12, "H": 3}, {"N": 1, "S": 5, "E": 6, "H": 2}):
        try:
            (result,) = run(model, random_inputs(model, sizes))
        except Exception:  # ONNX Runtime raises errors of several types
            continue
        known = [None if size is None else evaluate(size, sizes) for size in shape or result.shape]
        assert len(known) == result.ndim
        assert all(size in (None, found) for size, found in zip(known, result.shape, strict=True))


def _named(model):
    """The model with a name for each size of its inputs; sizes of outputs are left out."""
    copy = ModelProto()
    copy.CopyFrom(model)
    for value in copy.graph.input:
        for axis, dim in enumerate(value.type.tensor_type.shape.dim):
            dim.Clear()
            dim.dim_param = f"{value.name}.{axis}"
    return copy


def _with_constants(model, arrays):
    """The model with its inputs as constants."""
    copy = ModelProto()
    copy.CopyFrom(model)
    copy.ir_version = max(4, model.ir_version)
    copy.graph.initializer.extend(numpy_helper.from_array(array, name) for name, array in arrays.items())
    del copy.graph.input[:]
    return copy


def test_what_is_known_of_onnxs_own_cases_is_what_they_expect():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        cases = load_model_tests(kind="node")
    random, count = np.random.default_rng(0), 0
    for number in random.permutation(len(cases)):
        case = cases[number]
        inputs, expected = case.data_sets[0] if case.data_sets else ([], [])
        names = [value.name for value in case.model.graph.input] if case.model else []
        if len(names) != len(inputs) or not all(isinstance(array, np.ndarray) for array in (*inputs, *expected)):
            continue
        arrays = dict(zip(names, inputs, strict=True))
        sizes = {f"{name}.{axis}": size for name, array in arrays.items() for axis, size in enumerate(array.shape)}
        for model in (case.model, _named(case.model), _with_constants(case.model, arrays)):
            terms = Reader("floats").read(model, Constants(model, None), {}).outputs
            for term, result in zip(terms.values(), expected, strict=True):
                values = [None if n is None else evaluate(n, sizes) for n in term.shape or ()]
                shape = result.shape if term.shape is None else values
                assert len(shape) == result.ndim, case.name
                assert all(n in (None, size) for n, size in zip(shape, result.shape, strict=True)), case.name
                assert term.dtype in (None, result.dtype) or term.dtype.hasobject, case.name
                if term.is_constant and not term.dtype.hasobject:
                    assert error_of(term.array.astype(term.dtype), result) <= 64, case.name
        count += 1
        if count == how_many(100):
            break
    assert count > 50


CONSTANT = "g (float[1] z) => (float[A,B,C] y) <float[2,2,3] x = {1, 5, 2, 0, 3, 1, 4, 4, 2, 6, 0, 2}> "


@pytest.mark.parametrize("operator", ["Softmax", "LogSoftmax", "Hardmax"])
def test_constants_of_old_opsets_mean_what_they_did(operator):
    new, old = (
        parser.parse_model(
            f'<ir_version: 8, opset_import: ["": {opset}]> {CONSTANT} {{ c = {operator} (x) y = Add (c, z) }}'
        )
        for opset in (13, 12)
    )
    z = {"z": np.zeros(1, np.float32)}
    assert not np.array_equal(run(new, z)[0], run(old, z)[0])
    assert prove(new, old, runs=False).verdict == "undecided"
    for model in (new, old):
        assert prove(model, model, runs=False).verdict == "proved"


def test_flags_other_than_0_and_1_mean_nothing():
    one, other = (
        parser.parse_model(
            f'<ir_version: 8, opset_import: ["": 18]> g (float[1,1,4,4] x) => (float[A,B,C,D] y) '
            f"{{ y = MaxPool <kernel_shape = [3, 3], strides = [2, 2], ceil_mode = {flag}> (x) }}"
        )
        for flag in (1, 2)
    )
    assert prove(one, other, runs=False).verdict == "undecided"
    assert Reader("floats").read(other, Constants(other, None), {}).outputs["y"].shape is None
