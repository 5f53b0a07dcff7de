"""NumPy's short integers as arguments of fused functions: NumPy's results, also where it wraps or refuses."""

from __future__ import annotations

import operator
import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import anydml as dml

KINDS: list[Any] = [
    *(np.int8, np.uint8, np.int16, np.uint16, np.int32, np.uint32, np.int64, np.uint64, np.intc, np.longlong, int),
]
NUMBERS = [0, 1, 2, 3, 5, 29, 60, 100, 120, 127, 128, 200, 250, 255]
OPERATORS = [operator.add, operator.sub, operator.mul, operator.floordiv, operator.mod, min, max]


def _expression(draw: random.Random, depth: int) -> str:
    """Return a random expression of two numbers and a size."""
    if not depth or draw.random() < 0.25:
        leaves = [
            "k",
            "k",
            "m",
            "x.shape[0]",
            "len(x)",
            *map(str, (0, 1, 2, 3, 48, 100, 127, 128, 200, 255, 300, -1, -50)),
        ]
        return draw.choice(leaves)
    a, b = (_expression(draw, depth - 1) for _ in range(2))
    forms = ["({a} + {b})", "({a} - {b})", "({a} * {b})", "({a} // {b})", "({a} % {b})", "(-{a})", "abs({a})"]
    forms += ["max({a}, {b})", "min({a}, {b})", "np.add({a}, {b})", "np.minimum({a}, {b})", "({a} >> 1)", "({a} & 7)"]
    forms += ["({a} if {a} < {b} else {b})", "divmod({a}, {b})[0]", "int({a})"]
    forms += ["int({a} * np.float32(0.7))", "int({a} / 2 * np.float32(1.4))"]
    return draw.choice(forms).format(a=a, b=b)


def _function(draw: random.Random) -> Callable[..., Any]:
    e, f = _expression(draw, draw.choice([0, 1, 1, 2, 2, 3])), _expression(draw, 1)
    bodies = [f"x[{e}:]", f"x[{e}:{e} + 5]", f"x[:{e}]", f"x[{e}]", f"np.pad(x, (0, int({e} % 7)))", f"np.roll(x, {e})"]
    bodies += [f"np.concatenate([x[:{e}], x[{f}:]])", f"x[::{e}]", f"np.repeat(x, {e} % 5)"]
    bodies += [f"(x[:1], np.full(2, {e}))[1]"]
    body = draw.choice(bodies)
    function: Callable[..., Any] = eval(f"lambda x, k, m: {body}", {"np": np})
    function.__name__ = body
    return function


def _number(draw: random.Random, kind: Any) -> Any:
    number = draw.choice(NUMBERS) * draw.choice([1, 1, 1, -1])
    if kind is int:
        return number
    limits = np.iinfo(kind)
    return kind(max(limits.min, min(limits.max, number)))


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("seed", range(120))
def test_random_arithmetic(seed: int) -> None:
    draw = random.Random(seed)
    function = _function(draw)
    fused, kinds = dml.fuse(function), (draw.choice(KINDS), draw.choice(KINDS))
    for _ in range(5):
        arguments = np.arange(draw.choice([0, 1, 2, 30, 250, 300])), *(_number(draw, kind) for kind in kinds)
        try:
            expected = function(*arguments)
        except Exception:
            with pytest.raises(Exception):  # noqa: B017  # NumPy's errors are of many classes
                fused(*arguments)
            continue
        np.testing.assert_array_equal(
            fused(*arguments), expected, err_msg=f"{function.__name__} of {arguments}", strict=True
        )


@pytest.mark.parametrize("kind", [np.int8, np.uint8, np.int16, np.uint16, np.int32, np.uint32, np.int64])
def test_one_trace_serves_all_values(kind: Any) -> None:
    fused = dml.fuse(lambda x, k: x[k : k + 20])
    x = np.arange(200)
    for k in (0, 1, 3, 90, 107, 100):
        np.testing.assert_array_equal(fused(x, kind(k)), x[k : k + 20])
    assert fused.counts.traces == 1


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_what_wraps_is_not_taken_for_what_does_not() -> None:
    fused = dml.fuse(lambda x, k: x[k + 20 :])
    x = np.arange(300)
    for k in (100, 240, 7):
        number = np.uint8(k)
        np.testing.assert_array_equal(fused(x, number), x[number + 20 :])
    assert len(fused(x, np.uint8(240))) == 296


@pytest.mark.parametrize("kind", [int, np.int64, np.int32])
def test_a_fused_function_inside_another_has_the_same_numbers(kind: Any) -> None:
    inner = dml.fuse(lambda x, k: x[k:])
    inner(np.arange(3), kind(1))
    by_place, by_name = dml.fuse(lambda k, x: inner(x, k)), dml.fuse(lambda k, x: inner(k=k, x=x[1:]))
    for k in range(6):
        np.testing.assert_array_equal(by_place(kind(k), np.arange(9)), np.arange(9)[k:])
        np.testing.assert_array_equal(by_name(kind(k), np.arange(9)), np.arange(1, 9)[k:])
    assert (by_place.counts.traces, by_name.counts.traces) == (1, 1)


def test_types_are_kept() -> None:
    seen = []

    def function(x: Any, k: Any) -> Any:
        seen.append((isinstance(k, np.integer), isinstance(k, int), k.dtype))
        return x[k:], k

    found, number = dml.fuse(function)(np.arange(5), np.int16(2))
    assert seen[0] == (True, False, np.dtype(np.int16))
    assert (type(number), number, len(found)) == (np.int16, 2, 3)


@pytest.mark.parametrize("function", OPERATORS)
def test_numbers_of_a_closure(function: Callable[[Any, Any], Any]) -> None:
    short = np.uint8(250)
    fused = dml.fuse(lambda x: x[function(short, x.shape[0]) :])
    for n in (3, 7):
        x = np.arange(n)
        with np.errstate(over="ignore"):
            np.testing.assert_array_equal(fused(x), x[function(short, n) :])


def test_a_division_by_zero_is_pythons_error() -> None:
    fused = dml.fuse(lambda x, k: x[128 // k :])
    x = np.arange(200)
    fused(x, 2)
    with pytest.raises(ZeroDivisionError):
        fused(x, 0)
