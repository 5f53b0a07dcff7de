"""Rules and checks of operators, compiled from their text: all are, and what 64 bits cannot count is refused."""

import ast

import numpy as np
import pytest
from documents import ROOT
from numpy.lib.stride_tricks import as_strided

import anydml as dml
from anydml.core import native

rules = pytest.importorskip("anydml.core.rules")
X = np.arange(6, dtype=np.int16).reshape(2, 3)


def fronts():
    """The functions on arrays whose checks are marked."""
    for path in [*(ROOT / "src/anydml/operators").glob("*.py"), ROOT / "src/anydml/functions/copying.py"]:
        tree = ast.parse(path.read_text("utf-8"))
        marked = {
            each.name for each in tree.body if "call_check" in map(ast.unparse, getattr(each, "decorator_list", ()))
        }
        for each in tree.body:
            for mark in getattr(each, "decorator_list", ()):
                if isinstance(mark, ast.Call) and mark.args and ast.unparse(mark.args[0]) in marked:
                    yield each.name


def test_all_marked_checks_are_compiled():
    found = [*fronts()]
    assert len(found) >= 9
    assert all(native(name) is getattr(rules, name) for name in found)


@pytest.mark.parametrize("arrays, axis", [(4, None), (4, 0), (1 << 4, None), (3, 0)])
def test_sizes_that_64_bits_cannot_add_are_left_to_python(arrays, axis):
    huge = as_strided(np.zeros(1, np.int8), (1 << 62,), (0,))
    assert native("join")([huge] * arrays, axis, None) is None
    with pytest.raises(dml.DescError, match="2⁶³"):
        dml.join([huge] * arrays, axis)


def test_elements_that_64_bits_cannot_count_are_left_to_python():
    wide = as_strided(np.zeros(1, np.int8), (1 << 31, 1 << 31), (0, 0))
    assert native("join")([wide, wide], None, None) is None
    with pytest.raises(dml.DescError, match="2⁶³"):
        dml.join([wide, wide], None)


@pytest.mark.parametrize("big", [1 << 31, -(1 << 31), 1 << 62, (1 << 63) - 1, 1 << 64, True])
@pytest.mark.parametrize("name", ["split", "slice", "slice1", "broadcast_to", "permute_dims", "flip", "stack"])
def test_integers_of_any_size_are_checked(name, big):
    given = {
        "split": (X, [big, 2], 0),
        "slice": (X, [0, 0], [1, 1], [big, big]),
        "slice1": (X, [0, 0], [1, 2], [big, -1]),
        "broadcast_to": (X, [big, 2, 3]),
        "permute_dims": (X, [big, 0]),
        "flip": (X, big),
        "stack": ([X, X], big),
    }[name]
    made = native(name)(*given, *{"slice1": (None, None)}.get(name, (None,)))
    try:
        wanted = getattr(dml, name)(*given)
    except Exception:
        assert made is None
    else:
        assert made is None or np.array_equal(made, wanted)


def test_many_sizes_take_memory_of_their_own():
    x = np.arange(5000, dtype=np.int16)
    for count in (1, 511, 512, 513, 5000):
        sizes = [1] * (count - 1) + [5000 - count + 1]
        parts = native("split")(x, sizes, 0, None)
        assert np.array_equal(np.concatenate(parts), x)
        assert [len(part) for part in parts] == sizes
        assert np.array_equal(native("join")(parts, 0, None), x)
        assert np.array_equal(native("join")(parts, None, None), x)


def test_nothing_is_written_unless_all_of_out_fits():
    out = [np.full((2, 1), 7, np.int16), np.full((2, 2), 7, np.int16)]
    for wrong in (
        [out[0]],
        [*out, out[0]],
        [out[0], out[0]],
        out[::-1],
        [out[0], X[:, 1:]],
        [out[0], out[1].astype(int)],
    ):
        assert native("split")(X, [1, 2], 1, wrong) is None
        assert all((each == 7).all() for each in out)
    assert native("split")(X, [1, 2], 1, tuple(out))[1] is out[1]
    assert np.array_equal(np.concatenate(out, 1), X)
    whole = np.zeros((4, 3), np.int16)
    assert native("join")([X, whole[1:3]], 0, whole) is None
    assert not whole.any()
