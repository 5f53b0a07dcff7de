"""Fused calls that compiled code does: with whatever beside arrays, and results of any structure."""

import collections

import numpy as np
import pytest

import anydml as dml
from anydml.engines.cpu.compiler import import_kernels
from anydml.engines.cpu.loader import LOADER
from anydml.memory import numpy_struct
from anydml.tracing.fused import Fused

pytestmark = pytest.mark.skipif(not numpy_struct.IS_KNOWN, reason="another Python keeps arrays elsewhere")

Pair = collections.namedtuple("Pair", "first second")

CALLS = 40


def arrays_of(tree):
    """The arrays of a structure, and what else stands in it, in order."""
    if isinstance(tree, dict):
        return [found for key, each in tree.items() for found in (key, *arrays_of(each))]
    if isinstance(tree, (list, tuple)):
        return [type(tree), *(found for each in tree for found in arrays_of(each))]
    return [tree if tree is None or isinstance(tree, (int, str)) else np.asarray(tree)]


def check(found, expected):
    found, expected = arrays_of(found), arrays_of(expected)
    assert len(found) == len(expected)
    for one, other in zip(found, expected, strict=True):
        assert type(one) is type(other)
        assert np.array_equal(one, other) if isinstance(one, np.ndarray) else one == other


def settled(call):
    """Call until compiled code does it."""
    import_kernels()
    for _ in range(CALLS):
        call()
    assert LOADER.settle(120)
    for _ in range(3):
        call()


def found_at_once(fused, monkeypatch):
    """Let calls that go the long way fail."""

    def long_way(*_):
        raise AssertionError("the long way")

    monkeypatch.setattr(Fused, "_plan", long_way)


X = np.arange(96, dtype=np.float32).reshape(6, 16)

STRUCTURES = {
    "dict": lambda x, y: {"a": x.T, "b": (y[0], [y[1:]]), "c": None, "d": "word"},
    "named": lambda x, y: Pair(x[::2], {"y": y.T}),
    "nested": lambda x, y: [(x.T,), [y]],
    "one of a tuple": lambda x, y: (x[:, 1:],),
    "one": lambda x, y: np.swapaxes(x, 0, 1),
}


@pytest.mark.parametrize("library", ["numpy", "torch"])
@pytest.mark.parametrize("name", STRUCTURES)
def test_structures_of_results(name, library, monkeypatch):
    given = pytest.importorskip("torch").from_numpy if library == "torch" else np.asarray
    function = STRUCTURES[name]
    if library == "torch":
        function = {"one": lambda x, y: x.swapaxes(0, 1), "named": lambda x, y: Pair(x[1:], {"y": y.T})}.get(
            name, function
        )
    x, y, fused = X.copy(), X[:3].copy(), dml.fuse(function)
    a, b = given(x), given(y)
    expected = function(x, y)
    settled(lambda: fused(a, b))
    out = fused(a, b)
    found_at_once(fused, monkeypatch)
    check(fused(a, b), expected)
    x[...] = x[::-1].copy()
    before = getattr(first_of(out), "_version", None)
    assert fused(a, b, out=out) is out
    check(out, function(x, y))
    if before is not None:
        assert first_of(out)._version == before + 1


def first_of(tree):
    while isinstance(tree, (dict, list, tuple)):
        tree = next(iter(tree.values())) if isinstance(tree, dict) else tree[0]
    return tree


ARGUMENTS = {
    "numbers": (np.roll, [((X, 3, 1), {}), ((X, 2, 0), {}), ((X, -3, 1), {})]),
    "equal numbers": (
        lambda x, n: np.full_like(x, 7) if n is True else x[n:],
        [((X, 1), {}), ((X, True), {}), ((X, 0), {}), ((X, 1), {})],
    ),
    "zeros": (np.full_like, [((X, 0.0), {}), ((X, -0.0), {}), ((X, float("inf")), {})]),
    "words": (lambda x, how: np.pad(x, 1, how), [((X, "edge"), {}), ((X, "wrap"), {})]),
    "a list": (np.concatenate, [(([X, X[:, ::-1]], 1), {}), (([X, X, X], 0), {})]),
    "a tuple": (np.stack, [(((X, X[::-1]),), {}), (((X,),), {})]),
    "a dict": (lambda d: np.concatenate([d["a"], d["b"]]), [(({"a": X, "b": X[:2]},), {}), (({"b": X, "a": X},), {})]),
    "keywords": (
        lambda x, y=None, n=0: x[n:] if y is None else np.concatenate([y, x[n:]]),
        [((X,), {"n": 2}), ((X,), {"y": X[:1]}), ((X,), {"n": 1, "y": X}), ((X,), {"y": X, "n": 1}), ((), {"x": X})],
    ),
    "later arrays": (lambda n, x: x[n:], [((1, X), {}), ((2, X), {})]),
    "structures by arguments": (lambda x, n: tuple(x[k] for k in range(n)), [((X, 2), {}), ((X, 3), {}), ((X, 1), {})]),
    "nothing": (lambda x, y: x.T if y is None else y, [((X, None), {}), ((X, X), {})]),
}


@pytest.mark.parametrize("name", ARGUMENTS)
def test_other_arguments(name):
    function, calls = ARGUMENTS[name]
    fused = dml.fuse(function)
    for _ in range(2):
        for arguments, keywords in calls:
            settled(lambda arguments=arguments, keywords=keywords: fused(*arguments, **keywords))
        for arguments, keywords in calls:
            expected = function(*arguments, **keywords)
            found = fused(*arguments, **keywords)
            check(found, expected)
            assert np.array_equal(np.signbit(first_of(found)), np.signbit(first_of(expected)))


@pytest.mark.parametrize("name", [name for name in ARGUMENTS if name != "structures by arguments"])
def test_other_arguments_take_no_long_way(name, monkeypatch):
    function, [(arguments, keywords), *_] = ARGUMENTS[name]
    fused = dml.fuse(function)
    settled(lambda: fused(*arguments, **keywords))
    found_at_once(fused, monkeypatch)
    check(fused(*arguments, **keywords), function(*arguments, **keywords))


def test_out_of_another_structure_is_refused():
    fused = dml.fuse(lambda x: {"a": x.T, "b": (x,)})
    settled(lambda: fused(X))
    out = fused(X)
    for wrong in ({"a": out["a"]}, {"a": out["a"], "b": out["b"][0]}, [out["a"], out["b"]], {**out, "c": 1}):
        with pytest.raises(dml.BindingError, match="structure"):
            fused(X, out=wrong)
    for wrong in ({**out, "a": out["b"][0]}, {**out, "a": X.T}, {**out, "b": (out["a"],)}):
        with pytest.raises(dml.BindingError):
            fused(X, out=wrong)


def test_tensors_of_the_caller_have_to_have_their_memory():
    torch = pytest.importorskip("torch")
    fused = dml.fuse(lambda x, n: (x[n:], x.T))
    x = torch.from_numpy(X.copy())
    settled(lambda: fused(x, 2))
    out = fused(x, 2)
    settled(lambda: fused(x, 2, out=out))
    short = torch.empty(16, 6)
    short.untyped_storage().resize_(8)
    recording = torch.empty(16, 6, requires_grad=True)
    for wrong in (short, recording):
        with pytest.raises(dml.BindingError):
            fused(x, 2, out=(out[0], wrong))
    check(out, (X[2:], X.T))
