"""Sizes: quotients, what they are never below, and what windows leave of images, beside Python's integers."""

from __future__ import annotations

import math

import numpy as np
import pytest
from onnx import parser

from anydml.proving import prove
from anydml.proving.sizes import Quotient, lower_bound, name, quotient


def value(size, given):
    """A size where names have values."""
    if isinstance(size, int):
        return size
    return sum(count * math.prod(_value(each, given) for each in names) for names, count in size.parts)


def _value(each, given):
    return value(each.above, given) // value(each.by, given) if isinstance(each, Quotient) else given[each]


def test_quotients_are_rounded_down():
    random, names = np.random.default_rng(0), [name("N"), name("M")]
    for _ in range(500):
        size = names[random.integers(2)]
        for _ in range(random.integers(1, 5)):
            other = names[random.integers(2)] if random.integers(3) == 0 else int(random.integers(-9, 10))
            size = [size + other, size * other, quotient(size, int(random.integers(1, 9)))][random.integers(3)]
        by = int(random.integers(1, 9))
        found = quotient(size, by)
        for _ in range(5):
            given = dict(zip("NM", random.integers(1, 30, 2).tolist(), strict=True))
            assert value(found, given) == value(size, given) // by
            assert (lower_bound(size) if lower_bound(size) is not None else -math.inf) <= value(size, given)


@pytest.mark.parametrize(("size", "parts"), [(224, (4, 8)), (7, (2, 3, 2)), (1, (5, 5))])
def test_a_quotient_of_a_quotient_is_one_quotient(size, parts):
    one = name("N")
    for each in parts:
        one = quotient(one - 1, each) + 1
    other = quotient(name("N") - 1, math.prod(parts)) + 1
    assert one == other
    assert value(one, {"N": size}) == (size - 1) // math.prod(parts) + 1


HEADER = '<ir_version: 9, opset_import: ["": 18]> g (float[N,3,H,W] x) => (float[A,B,C] y) '


@pytest.mark.parametrize("window", ["Conv <strides = [4, 4], pads = [0, 1, 2, 3]> (x, w)",
                                    "AveragePool <kernel_shape = [2, 3], pads = [1, 1, 1, 1], strides = [2, 1]> (x)",
                                    "MaxPool <kernel_shape = [2, 2], pads = [1, 1, 1, 1], dilations = [2, 2]> (x)",
                                    "ConvTranspose <strides = [2, 2], output_padding = [1, 1]> (x, v)"])  # fmt: skip
def test_what_windows_leave_has_sizes(window):
    """Flattened by its sizes, or by an open one, it is the same."""
    weights = "<float[2,3,1,1] w = {1, 2, 3, 4, 5, 6}, float[3,2,1,1] v = {1, 2, 3, 4, 5, 6}"
    first = f"{weights}, int64[3] s = {{0, 0, -1}}> {{ a = {window} y = Reshape (a, s) }}"
    second = f"""{weights}, int64[1] o = {{-1}}, int64 two = {{2}}, int64 three = {{3}}, int64[1] k = {{0}}> {{
        a = {window} h = Shape <start = 2, end = 3> (a) l = Shape <start = 3> (a) n = Mul (l, h)
        p = Shape <end = 2> (a) s = Concat <axis = 0> (p, n) y = Reshape (a, s) }}"""
    one, other = parser.parse_model(HEADER + first), parser.parse_model(HEADER + second)
    assert prove(one, other, runs=False).verdict == "proved"
