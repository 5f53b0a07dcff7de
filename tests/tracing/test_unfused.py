"""Calls whose traces do not repeat run the function as it stands, with a trace's results, errors and refusals."""

import collections
import contextlib
import dataclasses
import datetime
import enum
import gc
import operator
import os
import re
import signal
import sys
import warnings
import weakref
from typing import NamedTuple

import numpy as np
import pytest
from fuzz.loaders import check
from how_many import how_many

import anydml as dml
from anydml.core import fusing
from anydml.tracing import joinable

torch = pytest.importorskip("torch")

CHUNKS = 10
FUNCTIONS = how_many(300) // CHUNKS
CONSTANT = np.arange(6.0).reshape(2, 3)
X = np.arange(24.0).reshape(4, 6)

compiled = pytest.mark.skipif(fusing is None, reason="without the compiled core, every call is traced")


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_random_functions_of_loaders(chunk, monkeypatch):
    # Small arrays are joined by this package in every other chunk, as large ones always are.
    monkeypatch.setattr(joinable, "MIN_JOINABLE_BYTES", 0 if chunk % 2 else joinable.MIN_JOINABLE_BYTES)
    seen = collections.Counter()
    for number in range(FUNCTIONS):
        check([chunk, number], 10, seen, "torch" if number % 3 == 2 else "numpy")
    assert seen["calls"] > 9 * FUNCTIONS


def chosen(count, rng):
    return [bool(flag) for flag in rng.random(count) < 0.5]


def warmed(function, *first, count=8):
    """A fused function that has run without a trace, on flags that differ in every call."""
    fused, rng = dml.fuse(function), np.random.default_rng(3)
    for _ in range(count):
        fused(*first, chosen(12, rng))
    assert fused.counts.unfused > 0
    return fused


@compiled
@pytest.mark.parametrize("library", [np.asarray, torch.from_numpy], ids=["numpy", "torch"])
def test_flags_are_traced_once_and_noticed_once(library):
    def flipped(images, flags):
        return [x.T if flag else x[1:] for x, flag in zip(images, flags, strict=True)]

    fused, rng, images = dml.fuse(flipped), np.random.default_rng(1), [X + n for n in range(12)]
    given = [library(each) for each in images]
    with warnings.catch_warnings(record=True) as noticed:
        warnings.simplefilter("always")
        for _ in range(40):
            flags = chosen(12, rng)
            for found, right in zip(fused(given, flags), flipped(images, flags), strict=True):
                np.testing.assert_array_equal(found, right)
    (only,) = noticed
    assert (only.category, only.filename) == (RuntimeWarning, __file__)
    assert re.search(r"flipped runs without a trace.*flags\[\d+\] is (True|False), not", str(only.message))
    # On a busy machine, calls may take long enough for another trace to seem worthwhile.
    assert fused.counts.traces <= 2
    assert fused.counts.fused + fused.counts.unfused == 40
    assert re.search(r"traced [23] times", told := fused.explain(given, chosen(12, rng)))
    assert "flags[" in told


@compiled
def test_what_was_never_traced_is_refused():
    def brighter(x, flags, is_bright=False):
        x = x + 1 if is_bright else x
        return [x[::-1] if flag else x for flag in flags]

    fused = warmed(brighter, X)
    with pytest.raises(dml.FuseError, match="does not compute"):
        fused(X, [True, False] * 6, True)
    with pytest.raises(dml.FuseError, match="does not compute"):
        fused(X, [True, False] * 6, is_bright=True)


@compiled
def test_what_was_never_traced_is_not_executed():
    def emptied(x, flags):
        if all(flags):
            x[...] = 0
        return [x[::-1] if flag else x for flag in flags]

    x = X.copy()
    fused = warmed(emptied, x)
    with pytest.raises(dml.FuseError, match="cannot assign"):
        fused(x, [True] * 12)
    assert (x == X).all()


class Deleted:
    def __del__(self):
        CALLED.append("deletion")


CALLED = []


@compiled
@pytest.mark.skipif(not hasattr(signal, "SIGUSR1"), reason="Windows has no SIGUSR1")
def test_collections_deletions_and_signals_do_not_end_a_call():
    def views(x, flags):
        signal.raise_signal(signal.SIGUSR1)
        Deleted()
        alive = [[] for _ in range(64)]
        # Not asserted: what pytest makes of an assertion reads files when it fails.
        if len(alive) != 64:
            raise ValueError(alive)
        return [x[::-1] if flag else x for flag in flags]

    def collected(*_):
        CALLED.append("collection")

    before, threshold = signal.signal(signal.SIGUSR1, signal.SIG_IGN), gc.get_threshold()
    # Another test may have left it switched off.
    gc.enable()
    try:
        fused, rng = warmed(views, X), np.random.default_rng(4)
        signal.signal(signal.SIGUSR1, lambda *_: CALLED.append("signal"))
        gc.callbacks.append(collected)
        CALLED.clear()
        gc.set_threshold(1, 1, 1)
        unfused = fused.counts.unfused
        fused(X, chosen(12, rng))
    finally:
        gc.set_threshold(*threshold)
        gc.callbacks.remove(collected)
        signal.signal(signal.SIGUSR1, before)
    assert set(CALLED) == {"collection", "deletion", "signal"}
    assert fused.counts.unfused == unfused + 1


@compiled
@pytest.mark.filterwarnings("ignore:views runs without a trace")
def test_a_branch_that_was_not_traced_is_watched_for():
    def views(x, flags, turns=()):
        for turn in turns:
            x = x.T if turn else x
        return [x[::-1] if flag else x for flag in flags]

    fused, rng = dml.fuse(views), np.random.default_rng(6)
    for number in range(30):
        flags, turns = chosen(12, rng), chosen(3, rng) if number > 9 else ()
        for found, right in zip(fused(X, flags, turns), views(X, flags, turns), strict=True):
            np.testing.assert_array_equal(found, right)
    assert 1 < fused.counts.traces < 10


@compiled
def test_a_debugger_stays():
    def views(x, flags):
        return [x[::-1] if flag else x[1:] for flag in (flags or [True])]

    fused, rng, lines = dml.fuse(views), np.random.default_rng(7), []
    for _ in range(8):
        fused(X, chosen(12, rng))

    def debugger(frame, event, _):
        lines.append(frame.f_lineno)
        return debugger

    before = sys.gettrace()
    sys.settrace(debugger)
    try:
        for _ in range(4):
            fused(X, chosen(12, rng))
        assert sys.gettrace() is debugger
    finally:
        sys.settrace(before)
    assert lines


def shorter_if_all(x, flags):
    if flags.count(True) == 6:
        raise KeyError(flags)
    x = x[1:] if all(flags) else x
    return [x[::-1] if flag else x for flag in flags]


def caught(x, flags):
    try:
        return shorter_if_all(x, flags)
    except Exception:
        return [x]


def caught_whatever_it_is(x, flags):
    try:
        return shorter_if_all(x, flags)
    except:  # noqa: E722
        return [x]


def caught_by_its_base(x, flags):
    try:
        return shorter_if_all(x, flags)
    except BaseException:
        return [x]


def suppressed(x, flags):
    with contextlib.suppress(BaseException):
        return shorter_if_all(x, flags)
    return [x]


@compiled
@pytest.mark.parametrize("function", [caught, caught_whatever_it_is, caught_by_its_base, suppressed])
def test_functions_that_catch_errors_do_not_hide_what_was_never_traced(function):
    x, rng = X.copy(), np.random.default_rng(6)
    fused = dml.fuse(function)
    every = [[True, False] * 6, *[[bool(flag) for flag in rng.permutation(12) < 4] for _ in range(8)], [True] * 12]
    for flags in every:
        right = function(x, [*flags])
        for found, expected in zip(fused(x, flags), right, strict=True):
            np.testing.assert_array_equal(found, expected)
        # Errors that are raised later have no other as their context.
        assert sys.exc_info() == (None, None, None)
    assert fused.counts.unfused > 0


@compiled
def test_callbacks_of_weak_references_do_not_end_a_call():
    read, written = os.pipe()
    os.set_blocking(read, False)
    kept, is_late = {}, np.zeros(1, bool)

    def called(*_):
        if is_late[0]:
            os.write(written, b"late")
        else:
            os.write(written, b"soon")

    def views(x, flags):
        each = Referred()
        weakref.finalize(each, called)
        kept["reference"] = weakref.ref(each, called)
        each = None
        if all(flags):
            return []
        return [x[::-1] if flag else x for flag in flags]

    fused, rng = dml.fuse(views), np.random.default_rng(7)
    for number in range(8):
        unfused, is_late[0] = fused.counts.unfused, number == 7
        fused(X, chosen(12, rng))
        assert os.read(read, 99) == (b"latelate" if number == 7 else b"soonsoon")
    assert fused.counts.unfused == unfused + 1
    os.close(read)
    os.close(written)


class Referred:
    pass


def shortened(batch, flags):
    batch["rows"].pop()
    batch.pop("last")
    return [x.T if flag else x[1:] for x, flag in zip(batch["rows"], flags, strict=False)]


def shortened_if_lists(batch, flags):
    return shortened(batch, flags) if type(batch["rows"]) is list else []


@compiled
@pytest.mark.parametrize("function", [shortened, shortened_if_lists])
@pytest.mark.parametrize("library", [np.asarray, torch.from_numpy], ids=["numpy", "torch"])
def test_lists_and_dicts_of_the_caller_stay_unchanged(function, library):
    fused, rng, x = dml.fuse(function), np.random.default_rng(2), library(X)
    for _ in range(8):
        rows, flags = [x, x, x], chosen(2, rng)
        batch = {"rows": rows, "last": x}
        for result, flag in zip(fused(batch, flags), flags, strict=True):
            np.testing.assert_array_equal(result, X.T if flag else X[1:])
        assert (len(rows), batch.keys()) == (3, {"rows", "last"})
    assert fused.counts.unfused > 0


@compiled
def test_results_are_new_and_contiguous():
    def views(x, flags):
        return {"x": x, "t": x.T, "constant": CONSTANT, "n": x.shape[0], "twice": (x[0], x[0]), "flags": flags}

    fused, rng = dml.fuse(views), np.random.default_rng(2)
    for _ in range(8):
        flags = chosen(12, rng)
        found = fused(X, flags)
        assert (found["n"], found["flags"]) == (4, flags)
        for name, right in {"x": X, "t": X.T, "constant": CONSTANT}.items():
            np.testing.assert_array_equal(found[name], right)
            assert found[name].flags.c_contiguous
            assert found[name].flags.writeable
            assert not np.shares_memory(found[name], right)
        assert not np.shares_memory(*found["twice"])
    assert fused.counts.unfused > 0


@pytest.mark.filterwarnings("ignore:labelled runs without a trace")
def test_numbers_are_of_the_same_types_as_by_a_trace():
    def labelled(x, label, flags):
        return x, label + 1, label > 2, label * 0.5, {"next": -label}, flags

    fused, rng = dml.fuse(labelled), np.random.default_rng(4)
    for _ in range(12):
        label, flags = np.int32(rng.integers(5)), chosen(12, rng)
        found, expected = fused(X, label, flags), labelled(X, label, flags)
        assert repr(found[1:]) == repr(expected[1:])


JOINS = {
    "stack": np.stack,
    "stack last": lambda parts: np.stack(parts, axis=-1),
    "concatenate": lambda parts: np.concatenate(tuple(parts)),
    "concatenate columns": lambda parts: np.concatenate(parts, 1),
    "concatenate all": lambda parts: np.concatenate(parts, axis=None),
    "another dtype": lambda parts: np.concatenate(parts, dtype=parts[0].dtype.newbyteorder("=")),
    "hstack": np.hstack,
    "with a constant": lambda parts: np.stack([*parts, np.zeros_like(parts[0])]),
    "of stacks": lambda parts: np.concatenate([np.stack(parts), np.stack(parts[::-1])]),
    "one of a stack": lambda parts: np.stack(parts)[1],
    "a stack and its parts": lambda parts: [(stacked := np.stack(parts)), stacked[0], stacked.T, stacked],
    "by anydml": lambda parts: dml.stack([dml.flip(part, 0) for part in parts], 1),
}


@compiled
@pytest.mark.filterwarnings("ignore:joined runs without a trace")
@pytest.mark.parametrize("dtype", ["u1", "f4", ">f8", "c16", "?", "M8[s]", "S3", "i4,f4"])
@pytest.mark.parametrize("name", JOINS)
def test_joins_are_numpys(name, dtype):
    """Of large arrays, they are this package's: packed, new, of NumPy's own class, and of the same dtype."""

    def joined(images, flags):
        return JOINS[name]([x.T if flag else x for x, flag in zip(images, flags, strict=True)])

    side = 80
    images = [np.arange(k, k + side**2, dtype=np.int64).reshape(side, side) for k in range(4)]
    images = [image.view(dtype) if "," in dtype else image.astype(dtype) for image in images]
    fused, rng = dml.fuse(joined), np.random.default_rng(7)
    for _ in range(12):
        flags = chosen(4, rng)
        results, expected = fused(images, flags), joined(images, flags)
        if not isinstance(expected, list):
            results, expected = [results], [expected]
        for k, (result, right) in enumerate(zip(results, expected, strict=True)):
            np.testing.assert_array_equal(result, right, strict=True)
            assert type(result) is np.ndarray
            assert result.flags.c_contiguous
            assert result.flags.writeable
            assert not any(np.shares_memory(result, other) for other in [*images, *results[:k]])
    assert fused.counts.unfused > 0


ASKING = {
    "type": lambda x, y: (x, y)[{np.ndarray: 0}.get(type(x), 1)],
    "the type of a result": lambda x, y: (x, y)[type(np.stack([x, y])) is np.ndarray],
    "types": lambda x, y: (x, y)[list(map(type, [x, y])).count(np.ndarray) - 1],
    "__class__": lambda x, y: (x, y)[x.__class__ is np.ndarray],
    "a name of __class__": lambda x, y: (x, y)[{np.ndarray: 1}.get(getattr(x, "__class__"), 0)],  # noqa: B009
    "identity": lambda x, y: (x, y)[np.asarray(x) is x],
    "difference": lambda x, y: (x, y)[np.asarray(x) is not x],
    "identity by a function": lambda x, y: (x, y)[operator.is_(np.asarray(x), x)],
    "attributes": lambda x, y: (x, y)[hasattr(x, "__dict__")],
}


@compiled
@pytest.mark.filterwarnings("ignore:asking runs without a trace")
@pytest.mark.parametrize("name", ASKING)
def test_large_arrays_pass_for_numpys(name):
    """What asks for classes without branching sees NumPy's own."""
    ask = ASKING[name]

    def asking(x, y, flags):
        x, y = ask(x, y), ask(y, x)
        return [x.T if flag else y for flag in flags]

    x = np.arange(2 * joinable.MIN_JOINABLE_BYTES).reshape(2, -1)
    y, rng = -x, np.random.default_rng(11)
    fused = dml.fuse(asking)
    for _ in range(12):
        flags = chosen(4, rng)
        for result, right in zip(fused(x, y, flags), asking(x, y, flags), strict=True):
            np.testing.assert_array_equal(result, right)
    assert fused.counts.unfused > 0


@compiled
def test_tensors_are_new_and_contiguous():
    def views(x, flags):
        return x, x.T, x.detach(), torch.cat([x, x]), flags[0]

    given = torch.from_numpy(X.copy())
    fused = warmed(views, given)
    for found, right in zip(fused(given, [False] * 12), views(given, [False] * 12), strict=True):
        assert isinstance(found, bool) or found.is_contiguous()
        assert isinstance(found, bool) or found.untyped_storage().data_ptr() != given.untyped_storage().data_ptr()
        assert isinstance(found, bool) or torch.equal(found, right)


@compiled
def test_errors_are_those_of_a_trace():
    def third(x, flags, at=3):
        return [x[at] if flag else x for flag in flags]

    fused = warmed(third, X)
    with pytest.raises(dml.FuseError, match=r"index 3 is out of range for axis 0 of size 2: indices must be -2 to 1"):
        fused(X[:2], [True, False] * 6)


def test_numbers_that_differ_share_a_trace():
    """Offsets at the edges, of NumPy's type, empty and reversed arrays."""

    def crop(images, ys, steps):
        return [x[y : y + 2, ::s] for x, y, s in zip(images, ys, steps, strict=True)]

    fused, rng = dml.fuse(crop), np.random.default_rng(5)
    for number in range(40):
        images = [x[:, ::-1] if rng.random() < 0.5 else x for x in [X[:, : rng.integers(0, 7)] for _ in range(8)]]
        ys = [int(y) if number % 2 else y for y in rng.integers(0, 3, 8)]
        steps = [int(s) for s in rng.choice([-2, -1, 1, 2], 8)]
        for found, right in zip(fused(images, ys, steps), crop(images, ys, steps), strict=True):
            np.testing.assert_array_equal(found, right, strict=True)
    assert fused.counts.traces <= 2


@dataclasses.dataclass(frozen=True)
class Chance:
    value: float


class Way(enum.Enum):
    UP = 1
    LEFT = 2
    NONE = 3


CHOICES = {
    "floats": lambda rng: float(rng.random()),
    "NumPy's floats": lambda rng: rng.random(),
    "texts": lambda rng: str(rng.choice(["up", "left", "none"])),
    "enumerations": lambda rng: [*Way][rng.integers(3)],
    "None or a number": lambda rng: [None, 1][rng.integers(2)],
    "dates": lambda rng: datetime.date.fromordinal(int(rng.integers(1, 10**6))),
    "bytes": lambda rng: bytes(rng.integers(0, 256, 3, np.uint8)),
    "complex numbers": lambda rng: complex(rng.random()),
    "slices": lambda rng: slice(int(rng.integers(3)), None),
    "ranges": lambda rng: range(int(rng.integers(3)), 4),
    "objects": lambda rng: Referred(),
    "objects that compare what they hold": lambda rng: Chance(rng.random()),
}


@compiled
@pytest.mark.parametrize("name", CHOICES)
@pytest.mark.filterwarnings("ignore:turned runs without a trace")
def test_choices_of_any_type_are_traced_once(name):
    """Whatever chooses between images: a trace for each combination would take far longer than the calls."""

    def turned(images, choices):
        up = ("up", Way.UP, None)
        return np.stack([x[::-1] if c in up or hash(str(c)) % 2 else x for x, c in zip(images, choices, strict=True)])

    fused, rng = dml.fuse(turned), np.random.default_rng(4)
    images = [X + k for k in range(12)]
    for _ in range(30):
        choices = [CHOICES[name](rng) for _ in images]
        np.testing.assert_array_equal(fused(images, choices), turned(images, choices))
    # On a busy machine, calls may take long enough for another trace to seem worthwhile.
    assert fused.counts.traces <= 5


@compiled
@pytest.mark.parametrize("name", CHOICES)
@pytest.mark.filterwarnings("ignore:turned runs without a trace")
def test_arguments_that_come_again_have_traces_of_their_own(name):
    def turned(x, choice):
        return x[::-1] if choice in ("up", Way.UP, None) or hash(str(choice)) % 2 else x

    fused, rng = dml.fuse(turned), np.random.default_rng(8)
    values = [CHOICES[name](rng) for _ in range(30)]
    for value in values[:2] * 10:
        np.testing.assert_array_equal(fused(X, value), turned(X, value))
    assert fused.counts.unfused == 0
    for value in values:
        np.testing.assert_array_equal(fused(X, value), turned(X, value))
    assert fused.counts.traces <= 6


@compiled
@pytest.mark.filterwarnings("ignore:padded runs without a trace")
@pytest.mark.parametrize("names", [None, {"edge": "edge", "wrap": "wrap", "mean": "mean"}])
def test_texts_that_say_what_functions_do_are_traced(names):
    """NumPy's pad moves by some modes, and computes by others."""

    def padded(x, flags, mode):
        return [np.pad(x if flag else x[1:], 1, names[mode] if names else mode) for flag in flags]

    fused, rng = dml.fuse(padded), np.random.default_rng(6)
    for number in range(20):
        flags, mode = chosen(4, rng), ("edge", "wrap")[number % 2]
        for found, right in zip(fused(X, flags, mode), padded(X, flags, mode), strict=True):
            np.testing.assert_array_equal(found, right)
        with pytest.raises(dml.FuseError, match="mean"):
            fused(X, flags, "mean")


@compiled
def test_dtypes_by_texts_are_traced():
    def converted(x, names):
        return [x.astype(name) for name in names]

    fused = dml.fuse(converted)
    for number in range(12):
        fused(X, ["float64", "f8", "d"][: number % 3 + 1])
        with pytest.raises(dml.FuseError, match="float32"):
            fused(X, ["float64", "float32"][number % 2 :])


@compiled
@pytest.mark.filterwarnings("ignore:first runs without a trace")
def test_equal_arguments_of_other_types_have_traces_of_their_own():
    def first(x, key):
        return x.T if type(key) is Pair else x[::-1] if type(key) in (float, tuple) else x[1:]

    fused = dml.fuse(first)
    for _ in range(3):
        for key in (1, 1.0, True, np.float64(1), (1, 2), Pair(1, 2), [1, 2], None, "1", b"1", Way.UP, 0.0, -0.0):
            np.testing.assert_array_equal(fused(X, key), first(X, key))


class Pair(NamedTuple):
    a: int
    b: int


class Held:
    """An object that arguments refer to, with a number that may change."""

    def __init__(self, start):
        self.start = start

    @dml.fuse
    def cut(self, x):
        return x[self.start :].T


@pytest.mark.filterwarnings("ignore:cut runs without a trace")
def test_what_objects_hold_may_change():
    objects = [Held(k % 3) for k in range(6)]
    for number in range(60):
        one = objects[number % 6]
        if number % 7 == 0:
            one.start = (one.start + 1) % 3
        np.testing.assert_array_equal(one.cut(X), X[one.start :].T)
    # Another object may get the identity of one that is gone.
    for number in range(60):
        np.testing.assert_array_equal(Held(number % 4).cut(X), X[number % 4 :].T)


@compiled
@pytest.mark.filterwarnings("ignore:cut runs without a trace")
def test_records_that_change_are_read_anew():
    def cut(x, record):
        return x[int(record["a"]) :].T

    fused, records = dml.fuse(cut), np.array([(0, 2)], "i4,i4").view([("a", "i4"), ("b", "i4")])
    for number in range(20):
        records["a"] = number % 3
        np.testing.assert_array_equal(fused(X, records[0]), X[number % 3 :].T)
        same = records[0]
        for other in range(3):
            records["a"] = other
            np.testing.assert_array_equal(fused(X, same), X[other:].T)


def test_import_hooks_are_no_part_of_a_function(monkeypatch):
    class Finder:
        @staticmethod
        def find_spec(name, path=None, target=None):
            if name == "no such module":
                raise ImportError

    def function(x):
        import colorsys

        return x[colorsys.ONE_SIXTH > 0 :]

    monkeypatch.setattr(sys, "meta_path", [Finder, *sys.meta_path])
    monkeypatch.delitem(sys.modules, "colorsys", raising=False)
    fused = dml.fuse(function)
    assert fused(np.arange(3)).tolist() == [1, 2]
    assert fused._unfused_calls.instructions.is_complete
