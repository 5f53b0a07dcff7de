from __future__ import annotations

import ctypes
import ctypes.util

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from anydml.dxdispatch.printing import format_elements, format_verbose


def c_text(value: float) -> str:
    """What C prints for a double with six significant digits: the text of a C++ stream."""
    buffer = ctypes.create_string_buffer(64)
    ctypes.CDLL(ctypes.util.find_library("c")).snprintf(buffer, 64, b"%g", ctypes.c_double(value))
    return buffer.value.decode()


@pytest.mark.skipif(not ctypes.util.find_library("c"), reason="there is no C library to compare with")
@given(st.floats(width=32))
def test_floats_are_printed_as_c_prints_them(value):
    bits = np.array([value], np.float32)
    assert format_elements(bits) == c_text(float(bits[0]))


@pytest.mark.parametrize(
    ("dtype", "values", "text"),
    [
        ("f4", [1, 2.5, 0.1, 1e10, 123456789, 1e-5, -0.0], "1, 2.5, 0.1, 1e+10, 1.23457e+08, 1e-05, -0"),
        ("f8", [0.1, 1 / 3, 1e100], "0.1, 0.333333, 1e+100"),
        ("f2", [65504, -65504, 0.1], "65504, -65504, 0.0999756"),
        ("f4", [np.nan, np.inf, -np.inf], "nan, inf, -inf"),
        ("i1", [-128, 65, 127], "-128, 65, 127"),
        ("u1", [0, 27, 255], "0, 27, 255"),
        ("u8", [2**64 - 1], "18446744073709551615"),
        ("i8", [-(2**63)], "-9223372036854775808"),
        ("i4", [], ""),
    ],
)
def test_known_texts(dtype, values, text):
    assert format_elements(np.array(values, dtype)) == text


def test_a_negative_nan_keeps_its_sign():
    assert format_elements(np.array([0x7FC00000, 0xFFC00000], np.uint32).view(np.float32)) == "nan, -nan"


def test_verbose_lines():
    # fmt's "{:8X}" fills up with spaces on the left.
    assert format_verbose(np.array([0, 1], np.float32)) == "[0] 0 (0x       0)\n[1] 1 (0x3F800000)\n"
    assert format_verbose(np.array([-1], np.int8)) == "[0] -1 (0xFF)\n"
    lines = format_verbose(np.arange(11, dtype=np.uint16)).splitlines()
    assert lines[0] == "[ 0] 0 (0x   0)"
    assert lines[10] == "[10] 10 (0x   A)"


def test_texts_cannot_command_a_terminal():
    assert format_elements(np.array(["a\nb\u202ec", "é"])) == r"a\nb\u202ec, é"
