"""Constants that are off by rounding, or by more beside huge numbers, and empty ones."""

from __future__ import annotations

import numpy as np
import onnx.parser
import pytest
from onnx import numpy_helper

from anydml.proving import prove
from anydml.proving.rounding import constant_ulps, nearest
from anydml.proving.running import run

HUGE = [-1e4, -1e9, float(np.finfo(np.float32).min), -np.inf]
EXPONENTS = np.array([[-1, -2, -3]], np.float32)


def model(body, **arrays):
    found = onnx.parser.parse_model(
        f'<ir_version: 9, opset_import: ["": 18]> g (float[2,3] x) => (float y) {{ {body} }}'
    )
    found.graph.output[0].type.tensor_type.ClearField("shape")
    found.graph.initializer.extend(numpy_helper.from_array(array, name) for name, array in arrays.items())
    return found


def exponentials():
    """As ONNX Runtime computes them."""
    return run(model("y = Exp (e)", e=EXPONENTS), {"x": np.zeros((2, 3), np.float32)})[0]


@pytest.mark.parametrize("huge", HUGE)
@pytest.mark.parametrize("form", ["joined", "in two"])
def test_small_numbers_beside_huge_ones_are_off_by_rounding_only(form, huge):
    row, joined = np.full((1, 3), huge, np.float32), "s = Exp (e) t = Concat <axis = 0> (m, s)"
    for off, is_equal in ((0, True), (1, True), (1e3, False), (1e5, False), (1e8, False)):
        small = exponentials()
        small[0, 0] += np.spacing(small[0, 0]) * np.float32(off)
        if form == "joined":
            first = model(f"{joined} u = Add (x, t) y = Softmax (u)", e=EXPONENTS, m=row)
            second = model("u = Add (x, t) y = Softmax (u)", t=np.concatenate([row, small]))
        else:
            first = model(f"{joined} v = Transpose (t) y = MatMul (x, v)", e=EXPONENTS, m=row)
            body = "a = MatMul (x, p) b = MatMul (x, q) y = Concat <axis = 1> (a, b)"
            second = model(body, p=row.T.copy(), q=small.T.copy())
        for pair in ((first, second), (second, first)):
            verdict = prove(*pair, runs=False).verdict
            assert (verdict in ("proved", "rounded")) == is_equal, (off, verdict)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_no_number_beside_a_huge_one_is_near_if_it_is_off_by_more_than_rounding(dtype):
    random, eps = np.random.default_rng(11), float(np.finfo(dtype).eps)
    for _ in range(200):
        small = random.uniform(0.1, 1, 9)
        # The huge number is equal in both, or differs in its last place.
        huge = dtype(random.choice([2e4, -6e4, float(np.finfo(dtype).max) / 4]))
        other_huge = random.choice([huge, np.nextafter(huge, dtype(0))])
        amount = 10 ** random.uniform(-1, 8) * eps
        wrong = small * (1 + amount)
        first, second = (
            np.append(part, number).astype(dtype)
            for part, number in ((small, huge), (wrong.clip(-100, 100), other_huge))
        )
        a, b = (array.astype(np.float64)[:9] for array in (first, second))
        # At most what a number near 1 may be off by, and all but the last quarter of the digits.
        allowed = 8 * eps * np.maximum(1, np.minimum(a, b) * eps**-0.25)
        is_off = np.abs(a - b) > allowed
        assert (constant_ulps(first, second) > 8) >= is_off.any()
        for others in ([second], [second[:9], second[9:]]):
            result, ulps = nearest(first, others, 8)
            moved = np.abs(result.astype(np.float64)[:9] - a)
            assert (moved <= allowed).all()
            assert ulps <= 8
        if huge == other_huge and (np.abs(a - b) > 16 * eps).any():
            assert constant_ulps(first, second) > 8


def test_sines_near_zero_are_off_by_units_of_one():
    angles = np.linspace(-4 * np.pi, 4 * np.pi, 97, dtype=np.float32)
    first, second = np.sin(angles), np.sin(angles.astype(np.float64)).astype(np.float32)
    second += np.float32(2**-23) * np.float32([1, -1, 0])[np.arange(97) % 3]
    assert 1 <= constant_ulps(first, second) <= 4
    result, off = nearest(first, [second], 8)
    assert np.isin(np.abs(result), np.abs(second)).all()
    assert off <= 4


def test_numbers_that_are_not_finite_are_equal_to_themselves_only():
    first, second = np.float32([1, np.inf, np.nan]), np.float32([1, np.inf, np.nan])
    assert constant_ulps(first, second) == 0
    assert constant_ulps(first, np.float32([1, -np.inf, np.nan])) == np.inf
    assert constant_ulps(first, np.float32([1, np.inf, 2])) == np.inf


def test_no_number_is_near_those_of_empty_arrays():
    array = np.float32([1, 2])
    for others in ([], [np.zeros(0, np.float32)], [np.float32([np.nan, np.inf])]):
        result, off = nearest(array, others, 8)
        assert (result.tolist(), off) == ([1, 2], 0)


def test_a_resize_with_an_empty_region_is_compared():
    sizes = {"s": np.array([1, 1, 2, 3]), "k": np.array([1, 1, 1, 2], np.float32), "t": np.array([2, 6])}
    body = "p = Reshape (x, s) q = Resize (p, {}, k) e = Exp (c) r = Mul (q, e) y = Reshape (r, t)"
    first = model(body.format("roi"), roi=np.zeros(0, np.float32), c=np.float32([1]), **sizes)
    second = model(body.format(""), c=np.float32([1.5]), **sizes)
    for pair in ((first, second), (second, first)):
        assert prove(*pair, runs=False).verdict == "undecided"
