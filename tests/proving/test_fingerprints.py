"""Sums of products whose terms are in another order: proved by fingerprints, unless one factor is another."""

from __future__ import annotations

import numpy as np
import onnx.parser
import pytest
from onnx import numpy_helper

from anydml.proving import prove
from anydml.proving.running import error_of, run


def model(count, body, **constants):
    text = f'<ir_version: 9, opset_import: ["": 18]> g (float[2,3,{count}] x) => (float[2,3,4] y) {{ {body} }}'
    found = onnx.parser.parse_model(text)
    found.graph.initializer.extend(numpy_helper.from_array(array, name) for name, array in constants.items())
    return found


@pytest.mark.parametrize("count", [2, 7, 64, 5000])
def test_terms_of_sums_may_be_in_any_order(count):
    random = np.random.default_rng(count)
    order = random.permutation(count)[::-1] if count > 2 else np.array([1, 0])
    weights = random.standard_normal((count, 4)).astype(np.float32)
    plain = model(count, "y = MatMul (x, w)", w=weights)
    moved = "g = Gather <axis = 2> (x, order) y = MatMul (g, w)"
    given = {"x": random.standard_normal((2, 3, count)).astype(np.float32)}
    other = model(count, moved, w=weights[order], order=order)
    assert prove(plain, other, runs=False).verdict == "proved"
    assert error_of(run(plain, given)[0], run(other, given)[0]) < 64
    for _ in range(20):
        wrong = weights[order]
        column = random.integers(4)
        # One bit is another, or two factors are exchanged.
        if random.integers(2):
            wrong.view(np.uint32)[random.integers(count), column] ^= np.uint32(1 << random.integers(31))
        else:
            first = random.integers(count)
            second = (first + random.integers(1, count)) % count
            wrong[[first, second], column] = wrong[[second, first], column]
        assert prove(plain, model(count, moved, w=wrong, order=order), runs=False).verdict == "undecided"
