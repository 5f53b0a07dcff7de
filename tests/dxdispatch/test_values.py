from __future__ import annotations

import fractions
import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from anydml.dxdispatch.json_numbers import array_of, fill_sequence, scalar_of
from anydml.errors import ModelError
from anydml.files.location import Location
from anydml.tensor import DataType

ROOT = Location("m.json", "v")
INTEGERS = [t for t in DataType if t.dtype.kind in "iu"]


def convert(values, data_type):
    return array_of(values, data_type, lambda i: ROOT / i)


def truncated_half(value: float) -> bytes:
    """The half nearest to zero of those around a float32, found by exact arithmetic over all halves."""
    exact = fractions.Fraction(float(np.float32(value)))
    low, high = 0, 0x7BFF
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if fractions.Fraction(half_of(middle)) <= abs(exact) else (low, middle - 1)
    return struct.pack("<H", low | (0x8000 if np.signbit(np.float32(value)) else 0))


def half_of(bits: int) -> float:
    return struct.unpack("<e", struct.pack("<H", bits))[0]


@given(st.floats(allow_nan=False, allow_infinity=False, width=32) | st.floats(-70000, 70000) | st.floats(-1e-6, 1e-6))
def test_halves_are_truncated_as_half_hpp_does(value):
    if abs(np.float32(value)) >= 65536:
        with pytest.raises(ModelError, match=r'v\[0\]: is too large for FLOAT16; write "inf" or "-inf"'):
            convert([value], DataType.FLOAT16)
    else:
        assert convert([value], DataType.FLOAT16).tobytes() == truncated_half(value)


def test_known_halves():
    # 1.2 lies between 0x3CCC and 0x3CCD, nearer to the second; 65519 is below 65520, where rounding would overflow.
    found = convert([1.2, -1.2, 65535, 65504, 4, "nan", "inf", "-INF"], DataType.FLOAT16)
    expected = [0x3CCC, 0xBCCC, 0x7BFF, 0x7BFF, 0x4400, 0x7E00, 0x7C00, 0xFC00]
    assert found.view(np.uint16).tolist() == expected


@given(st.lists(st.floats(allow_nan=False, allow_infinity=False) | st.integers(-(2**60), 2**60)))
def test_floats_are_rounded_to_nearest(values):
    doubles = [float(v) for v in values]
    assert convert(values, DataType.FLOAT64).tolist() == doubles
    with np.errstate(over="ignore"):
        singles = [np.float32(v) for v in doubles]
    if np.isinf(singles).any():
        with pytest.raises(ModelError, match=rf"v\[{int(np.isinf(singles).argmax())}\]: is too large for FLOAT32"):
            convert(values, DataType.FLOAT32)
    else:
        np.testing.assert_array_equal(convert(values, DataType.FLOAT32), np.array(singles, np.float32))


@pytest.mark.parametrize("data_type", [DataType.FLOAT16, DataType.FLOAT32, DataType.FLOAT64])
def test_only_words_become_infinities(data_type):
    """Halves are rounded towards zero, so that all below 65536 have a value; others are rounded to the nearest."""
    largest = {"FLOAT16": 65535.9, "FLOAT32": 3.4028235677973362e38, "FLOAT64": 1.7976931348623157e308}[data_type.name]
    assert np.isfinite(convert([largest, -largest], data_type)).all()
    assert convert(["inf", "-Inf"], data_type).tolist() == [np.inf, -np.inf]
    for value in (largest * 1.00001, 10**309, np.inf):
        for wrong in (value, -value):
            with pytest.raises(ModelError, match=rf"v\[1\]: is too large for {data_type}; write"):
                convert([1, wrong], data_type)


@pytest.mark.parametrize("data_type", INTEGERS)
def test_integers_up_to_their_bounds(data_type):
    bounds = np.iinfo(data_type.dtype)
    assert convert([bounds.min, bounds.max], data_type).tolist() == [bounds.min, bounds.max]
    for outside in (bounds.min - 1, bounds.max + 1):
        with pytest.raises(ModelError, match=rf"v\[1\]: {outside} does not fit {data_type}"):
            convert([0, outside], data_type)


@pytest.mark.parametrize("wrong", [None, True, "1", "none", [1], {}, 1e400, 10**400])
def test_what_is_no_number_is_named_by_its_location(wrong):
    for data_type in DataType:
        with pytest.raises(ModelError, match=r"^m.json: v\[2\]: "):
            convert([1, 2, wrong], data_type)


@pytest.mark.parametrize("data_type", INTEGERS)
@pytest.mark.parametrize("wrong", [1.0, "nan"])
def test_integers_are_never_read_from_floats(data_type, wrong):
    with pytest.raises(ModelError, match="must be an integer"):
        convert([wrong], data_type)


def test_a_scalar_is_its_own_location():
    with pytest.raises(ModelError, match=r"^m.json: v: must be a number"):
        scalar_of(None, DataType.FLOAT32, ROOT)


def sequence(start, delta, count, data_type):
    target = np.empty(count, data_type.dtype)
    fill_sequence(target, scalar_of(start, data_type, ROOT), scalar_of(delta, data_type, ROOT))
    return target


def test_sequences_add_in_their_own_type():
    expected = [np.float32(0)]
    for _ in range(99):
        expected.append(np.float32(expected[-1] + np.float32(0.1)))
    found = sequence(0, 0.1, 100, DataType.FLOAT32)
    assert found.tolist() == [float(v) for v in expected]
    assert found[99] != np.float32(9.9), "a product would be nearer, but is not what is asked for"
    assert sequence(250, 3, 4, DataType.UINT8).tolist() == [250, 253, 0, 3]
    assert sequence(126, 1, 3, DataType.INT8).tolist() == [126, 127, -128]
    assert sequence(1, 2.5, 4, DataType.FLOAT64).tolist() == [1, 3.5, 6, 8.5]
    assert sequence(7, 1, 1, DataType.INT64).tolist() == [7]


@given(st.floats(-100, 100), st.floats(-20, 20), st.integers(1, 40))
def test_half_sequences_truncate_every_sum(start, delta, count):
    found = sequence(start, delta, count, DataType.FLOAT16)
    value, step = truncated_half(start), struct.unpack("<e", truncated_half(delta))[0]
    for element in found:
        assert element.tobytes() == value or (element == 0 and half_of(int.from_bytes(value, "little")) == 0)
        value = truncated_half(struct.unpack("<e", value)[0] + step)


def test_a_half_sequence_that_no_longer_grows_stays():
    found = sequence(2046, 1, 5, DataType.FLOAT16)
    assert found.tolist() == [2046, 2047, 2048, 2048, 2048]
