"""What a traced function sees of its arguments: their classes, what objects among them hold, and their structures."""

import copy
import enum
import functools
import itertools
import random
import subprocess
import sys
import types
from collections import OrderedDict, defaultdict, namedtuple
from dataclasses import dataclass, field

import numpy as np
import pytest

import anydml as dml

torch = pytest.importorskip("torch")
tree_map_only = pytest.importorskip("torch.utils._pytree").tree_map_only


class Batch(dict):
    """A dict with an attribute."""

    start = 1


def same(found, expected):
    """Check a result's bytes, as 0 and -0 are equal."""
    assert (found.dtype, found.shape) == (expected.dtype, expected.shape)
    assert found.tobytes() == expected.tobytes()


@functools.singledispatch
def dispatched(x):
    return x[1:]


@dispatched.register
def _(x: np.ndarray):
    return x[::-1]


def matched(x):
    match x:
        case np.ndarray():
            return x[2:]
    return x[1:]


QUESTIONS = {
    "isinstance": lambda x: x[2:] if isinstance(x, (np.ndarray, torch.Tensor)) else x[1:],
    "union": lambda x: x[2:] if isinstance(x, np.ndarray | torch.Tensor) else x[1:],
    "not": lambda x: x[2:] if isinstance(x, (list, int, torch.nn.Parameter)) else x[1:],
    "type": lambda x: x[2:] if type(x) in (np.ndarray, torch.Tensor) else x[1:],
    "is_tensor": lambda x: x[2:] if torch.is_tensor(x) else x[1:],
    "a type": lambda x: x[2:] if isinstance(type(x), type) and issubclass(type, type) else x[1:],
    "a new type": lambda x: x[type("Start", (), {"at": 2}).at :],
    "a size": lambda x: x[2:] if type(x.shape[0]) is int and isinstance(x.shape[0], int) else x[1:],
}


@pytest.mark.parametrize("question", QUESTIONS)
@pytest.mark.parametrize("make", [np.arange, torch.arange])
def test_functions_may_ask_what_they_were_given(question, make):
    function = QUESTIONS[question]
    fused = dml.fuse(function)
    for count in (5, 7):
        same(np.asarray(fused(make(count))), np.asarray(function(make(count))))


@pytest.mark.parametrize("make", [np.arange, torch.arange])
@pytest.mark.parametrize("function", [dispatched, matched])
def test_functions_may_dispatch_by_class(function, make):
    same(np.asarray(dml.fuse(function)(make(5))), np.asarray(function(make(5))))


class Held:
    """A helper that no function calls by its name."""

    def __init__(self, helper):
        self.helper = helper
        self.items = [helper]

    def __call__(self, x):
        return self.helper(x)

    def method(self, x):
        return self(x)


class Module(torch.nn.Module):
    """A helper as a module of PyTorch."""

    def __init__(self, helper):
        super().__init__()
        self.helper = helper

    def forward(self, x):
        return self.helper(x)


def _through_tree(helper):
    return lambda x: tree_map_only((np.ndarray, torch.Tensor), helper, {"x": x})["x"]


WAYS = {
    "object": lambda held: held,
    "method": lambda held: held.method,
    "attribute": lambda held: lambda x: [held.helper(x)][0],
    "item": lambda held: lambda x: [held.items[0](x)][0],
    "map": lambda held: lambda x: [*map(held.method, [x, x])][1],
    "key": lambda held: lambda x: [{"f": held.helper}["f"](x)][0],
    "partial": lambda held: functools.partial(Held.method, held),
    "module": lambda held: Module(held.helper),
    "tree": lambda held: _through_tree(held.helper),
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("helper", [*QUESTIONS.values(), dispatched, matched])
@pytest.mark.parametrize("make", [np.arange, torch.arange])
def test_helpers_that_are_not_called_by_name_may_ask_what_they_were_given(helper, way, make):
    function = WAYS[way](Held(helper))
    fused = dml.fuse(function)
    for count in (5, 7):
        same(np.asarray(fused(make(count))), np.asarray(function(make(count))))


class Typed:
    """Methods that call `type`."""

    kinds = (torch.FloatTensor,)

    def of_itself(self, x, n):
        return x[len(type(self).__name__) - 4 :]

    def of_a_list(self, x, n):
        return type([])([x])[0][1:]

    def of_a_number(self, x, n):
        return x[1:] if type(n) is int else x[2:]

    def of_an_item(self, x, n):
        pair = [x, n]
        return x[1:] if type(pair[0]) in (np.ndarray, torch.Tensor) else x[2:]

    def in_a_list(self, x, n):
        return next(y[1:] if type(y) in (np.ndarray, torch.Tensor) else y for y in [x, x])

    def old(self, x, n):
        return x[1:] if isinstance(x, self.kinds) else x[2:]

    def old_by_name(self, x, n):
        return x[1:] if isinstance(x, torch.FloatTensor) else x[2:]

    def old_by_pattern(self, x, n):
        match x:
            case torch.FloatTensor():
                return x[1:]
        return x[2:]


@pytest.mark.parametrize("name", [name for name in vars(Typed) if name.startswith(("of", "in", "old"))])
@pytest.mark.parametrize("array", [np.arange(9.0), torch.arange(9.0)], ids=["numpy", "torch"])
def test_methods_are_told_the_right_class_or_refused(name, array):
    method = getattr(Typed(), name)
    fused = dml.fuse(lambda x, n: [method(x, n)][0])
    if name.startswith("old") and isinstance(array, torch.Tensor):
        with pytest.raises(dml.FuseError, match=r"use torch\.Tensor"):
            fused(array, 2)
    else:
        same(np.asarray(fused(array, 2)), np.asarray(method(array, 2)))


@pytest.mark.parametrize("kind", [int, np.int64, np.int16])
def test_methods_and_patterns_see_the_types_of_integers(kind):
    class Asking:
        def method(self, n):
            match n:
                case np.int64():
                    pattern = "int64"
                case int():
                    pattern = "int"
                case _:
                    pattern = "other"
            return isinstance(n, int), isinstance(n, np.integer), isinstance(n, np.int64), n.__class__, pattern

    asking = Asking()
    fused = dml.fuse(lambda x, n: (x[n:], asking.method(n), asking.method(n + 1)))
    assert fused(np.arange(5), kind(2))[1:] == (asking.method(kind(2)), asking.method(kind(2) + 1))


@pytest.mark.parametrize("kind", [int, np.int8, np.uint16, np.int64])
def test_integers_are_of_their_types(kind):
    def function(x, k):
        kinds = [int, np.integer, np.int64, int | np.int8, (str, np.uint16)]
        sums = k, k + 1, k * 2 + x.shape[0], x.shape[0]
        answers = k == 2, k != 2, k < 3, k <= 3, k > 3, k >= 3, k > 2.5, k == "2"
        return (
            x[k:],
            [isinstance(k, each) for each in kinds],
            sums,
            hasattr(k, "item"),
            answers,
            k > 3 or k < x.shape[0],
        )

    fused = dml.fuse(function)
    for number in (2, 4, 3):
        (part, *found), (expected_part, *expected) = (each(np.arange(5), kind(number)) for each in (fused, function))
        same(part, expected_part)
        assert repr(found) == repr(expected)


@pytest.mark.filterwarnings("ignore:function runs without a trace")
def test_integers_of_python_and_of_numpy_have_their_own_traces():
    def function(x, k):
        return x[: int(k * np.float32(0.7))] if isinstance(k, int) else x[int(k * np.float32(0.7)) :]

    fused = dml.fuse(function)
    for kind in (int, np.int64, np.int32, np.int64, int):
        for number in (10, 20):
            same(fused(np.arange(30), kind(number)), function(np.arange(30), kind(number)))


@pytest.mark.filterwarnings("ignore:function runs without a trace")
def test_each_integer_has_its_own_type():
    def function(x, k, m, pair):
        asked = [type(k), isinstance(m, np.int64), ~(k > 3), pair[0] + m, pair[1] / 2]
        return x[k if isinstance(m, int) else pair[0] :], asked

    fused = dml.fuse(function)
    for kinds in [*itertools.product((int, np.int64), repeat=4)] * 2:
        k, m, *pair = (kind(number) for kind, number in zip(kinds, (5, 2, 3, 4), strict=True))
        (part, found), (expected_part, expected) = fused(np.arange(9), k, m, pair), function(np.arange(9), k, m, pair)
        same(part, expected_part)
        assert repr(found) == repr(expected)


NAN = float("nan")
ASKED = [
    lambda x, n: ~(x.shape[0] == n),
    lambda x, n: ~(len(x) <= n),
    lambda x, n: ~(x.shape[0] < np.int64(9)),
    lambda x, n: ~(max(n, x.shape[0]) >= 5),
    lambda x, n: [type(min(n, x.shape[0])), type(max(x.shape[0], n) + 1)],
    lambda x, n: [n << 62, type(n & 1), type(n >> 1), type(2**n), n**2, type(n**0.5)],
    lambda x, n: [repr(n), str(n), f"{n!r} {n:>3}", type(n.item() if hasattr(n, "item") else n)],
    lambda x, n: [n >= NAN, n <= NAN, x.shape[0] >= NAN],
    lambda x, n: [*np.roll(np.pad(np.array([1, 2, 3]), (0, n > 2)), n > 2)],
]


@pytest.mark.filterwarnings("ignore:<lambda> runs without a trace")
@pytest.mark.parametrize("asked", ASKED)
def test_what_depends_on_a_type_is_as_without_fuse(asked):
    fused = dml.fuse(lambda x, n: (x[1:], asked(x, n)))
    for number in (3, 7, 4):
        for kind in (np.int64, int):
            assert repr(fused(np.arange(5), kind(number))[1]) == repr(asked(np.arange(5), kind(number)))


def test_types_of_integers_that_only_cut_need_no_trace():
    def function(images, at):
        return np.stack([image[max(y, 0) : max(y, 0) + 3, x : x + 3] for image, (y, x) in zip(images, at, strict=True)])

    fused, draw = dml.fuse(function), random.Random(0)
    images = [np.arange(100 * k).reshape(10, 10, k)[..., 0] for k in range(1, 9)]
    for _ in range(20):
        at = [[draw.choice((int, np.int64))(draw.randrange(-2, 7)) for _ in range(2)] for _ in images]
        at = [(y, max(0, x)) for y, x in at]
        same(fused(images, at), function(images, at))
    assert fused.counts.traces == 1


NAMES = sorted({name for kind in (np.ndarray, np.int16, int, torch.Tensor, dict, list, str) for name in dir(kind)})
NAMES += ["value", "name", "kind", *vars(enum.Enum)]
"""Attributes by which code tells objects apart."""


@pytest.mark.parametrize("kind", [int, np.int8, np.uint16, np.int32, np.int64])
def test_integers_have_the_attributes_of_their_types(kind):
    def function(x, k):
        numbers = {name: getattr(k, name, "none") for name in NAMES if not name.startswith("__")}
        return x, {
            name: None if callable(number) else str(number).partition(" at ")[0] for name, number in numbers.items()
        }

    fused = dml.fuse(function)
    for number in (2, 5, 3):
        assert fused(np.arange(9), kind(number))[1] == function(np.arange(9), kind(number))[1]


@pytest.mark.parametrize("make", [np.zeros, torch.zeros])
def test_hasattr_does_not_deny_what_arrays_have(make):
    x = make((2, 3))
    for name in [name for name in dir(type(x)) if not name.startswith("_")]:
        try:
            has = dml.fuse(lambda x, name=name: (x, hasattr(x, name)))(x)[1]
        except dml.FuseError as error:
            has = name in str(error)
        assert has, name


@pytest.mark.parametrize("kind", [int, np.int8, np.uint16, np.int32, np.int64])
def test_integers_are_written_as_texts(kind):
    def function(x, k):
        return x, str(k), f"{k:>3}", "%d of %s" % (k, k), format(k)  # noqa: UP031

    fused = dml.fuse(function)
    for number in (2, 5, 3):
        assert fused(np.arange(9), kind(number))[1:] == function(np.arange(9), kind(number))[1:]


@pytest.mark.parametrize("key", [len, np.shape, lambda row: (len(row), "rows")])
@pytest.mark.parametrize("kind", [dict, OrderedDict, functools.partial(defaultdict, list)])
def test_sizes_as_keys_are_integers(kind, key):
    def function(rows):
        rows_by_size = kind()
        for row in rows:
            rows_by_size.setdefault(key(row), []).append(row)
        return rows_by_size

    fused = dml.fuse(function)
    for sizes in ((3, 1, 3), (3, 1, 3), (1, 2, 5)):
        rows = [np.arange(size) for size in sizes]
        found, expected = fused(rows), function(rows)
        assert type(found) is type(expected)
        assert [*map(repr, found.items())] == [*map(repr, expected.items())]
        leaves = [part for each in found for part in (each if isinstance(each, tuple) else (each,))]
        assert {type(leaf) for leaf in leaves} <= {int, str}


@dataclass(frozen=True)
class Choice:
    value: object
    hidden: object = field(default=0, compare=False)


def filled(x, choice):
    number = choice.value.value if isinstance(choice.value, Choice) else choice.value
    return np.concatenate([x, np.full(1, number, np.float64)])[choice.hidden :], type(number)


def test_equal_objects_that_hold_other_values_have_their_own_traces():
    generator = np.random.default_rng(0)
    values = [0.0, -0.0, 0, False, 1, True, 1.0, np.float32(1), np.int8(1), Choice(1), Choice(True), Choice(-0.0)]
    fused = dml.fuse(filled)
    for _ in range(100):
        choice = Choice(values[generator.integers(len(values))], int(generator.integers(3)))
        (found, kind), (expected, of) = (each(np.arange(3.0), copy.deepcopy(choice)) for each in (fused, filled))
        same(found, expected)
        assert kind is of, choice


def test_equal_objects_with_arrays_are_told_apart():
    fused = dml.fuse(lambda x, choice: np.concatenate([x, choice.hidden]))
    for number in range(3):
        hidden = np.full(2, number)
        same(fused(np.arange(2), Choice("same", hidden)), np.array([0, 1, number, number]))


def test_equal_objects_share_a_trace():
    fused = dml.fuse(lambda x, choice: x[choice.value :])
    for _ in range(5):
        fused(np.arange(5), Choice(1, (2.0, {"a": [None]})))
    assert fused.counts.traces == 1


@pytest.mark.parametrize("kind", [dict, OrderedDict, functools.partial(defaultdict, list), Batch])
def test_dicts_of_any_class_stay_what_they_are(kind):
    def function(batch):
        return type(batch)(batch) if isinstance(batch, Batch) else batch, batch["x"][getattr(batch, "start", 1) :]

    given, fused = kind(), dml.fuse(function)
    for start in range(1, 5):
        given["x"] = np.arange(start, 9)
        found, part = fused(given)
        assert type(found) is type(given)
        same(found["x"], given["x"])
        same(part, given["x"][1:])
    assert fused.counts.traces == 1
    if kind is Batch:
        given.start = 2
        same(fused(given)[1], given["x"][2:])
    if isinstance(given, defaultdict):
        assert found.default_factory is list


class Record(dict):
    """A dict whose items are attributes, too."""

    def __init__(self, **items):
        super().__init__(items)
        self.__dict__ = self


class Slotted(dict):
    __slots__ = ("start",)


def test_attributes_of_dicts_are_those_of_each_call():
    fused = dml.fuse(lambda batch: batch["x"][batch.start :])
    for start in (1, 1, 2, 3, 2):
        batch = Batch(x=np.arange(start, 9))
        batch.start = start
        same(fused(batch), batch["x"][start:])
        same(fused(batch), batch["x"][start:])
    assert fused.counts.traces == 3


@pytest.mark.parametrize("library", [np.arange, torch.arange])
def test_arrays_as_attributes_of_dicts_are_refused(library):
    fused, batch, slotted = dml.fuse(lambda batch: batch["x"][1:]), Batch(x=library(3)), Slotted(x=library(3))
    assert fused(batch).tolist() == [1, 2]
    batch.mask, slotted.start = [library(3)], 1
    for refused in (Record(x=library(3)), batch, [batch], slotted):
        with pytest.raises(dml.FuseError, match=r"a \w+ has arrays or slots as attributes, .*: pass dict\(…\) of it"):
            dml.fuse(lambda batch: batch["x"])(refused)
    with pytest.raises(dml.FuseError, match="has arrays or slots as attributes"):
        fused(batch)


CONSTANTS = {
    "pad": lambda x, value: np.pad(x, 1, constant_values=value),
    "pad apart": lambda x, value: np.pad(x, 1, constant_values=(value, 0)),
    "insert": lambda x, value: np.insert(x, 1, value),
    "full_like": np.full_like,
}
NUMBERS = [200, 300, -1, 1.7, float("inf"), np.int64(300), np.int8(-1), True, 1 << 40]


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("name", CONSTANTS)
@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.uint32, np.int64, np.float16, np.bool_])
def test_constants_fit_or_are_refused_as_by_numpy(name, dtype):
    function, x = CONSTANTS[name], np.zeros(3, dtype)
    for number in NUMBERS:
        try:
            expected = function(x, number)
        except (OverflowError, ValueError):
            with pytest.raises((OverflowError, ValueError, dml.FuseError)):
                dml.fuse(lambda x, number=number: function(x, number))(x)
            continue
        if name == "insert" and isinstance(number, np.integer) and number == 300 and dtype is np.int8:
            continue  # NumPy's insert casts, where its assignment refuses.
        same(dml.fuse(lambda x, number=number: function(x, number))(x), expected)


@pytest.mark.parametrize("number", [300, 300.5, float("nan"), -300])
def test_constants_fit_or_are_refused_as_by_pytorch(number):
    def function(x):
        return torch.nn.functional.pad(x, (1, 0), value=number)

    x = torch.zeros(2, dtype=torch.uint8)
    for each in (function, dml.fuse(function)):
        with pytest.raises((RuntimeError, OverflowError, ValueError, dml.FuseError)):
            each(x)


def test_spans_of_time_are_no_integers():
    fused = dml.fuse(lambda x, span: (np.full_like(x, span), span))
    for unit in ("s", "ns", "ms", "s"):
        span, x = np.timedelta64(2000, unit), np.zeros(2, "m8[s]")
        found, given = fused(x, span)
        same(found, np.full_like(x, span))
        assert given == span
        assert type(given) is np.timedelta64


def test_code_of_helpers_that_is_replaced_is_noticed():
    """As by notebooks that reload modules."""

    def helper(x):
        return x[1:]

    other = types.FunctionType(compile("lambda x: x[2:]", "", "eval").co_consts[0], {})
    fused = dml.fuse(lambda x: helper(x)[::-1])
    same(fused(np.arange(5)), np.arange(5)[1:][::-1])
    helper.__code__ = other.__code__
    same(fused(np.arange(5)), np.arange(5)[2:][::-1])


@pytest.mark.filterwarnings("ignore:.* runs without a trace:RuntimeWarning")
@pytest.mark.parametrize("is_method", [False, True])
def test_code_of_its_own_that_is_replaced_is_noticed(is_method):
    class Owner:
        def part(self, x, name="a"):
            return x[1:]

    function = Owner.part
    fused = dml.fuse(Owner().part if is_method else lambda x, name="a": x[1:])
    if not is_method:
        function = fused.__wrapped__
    arrays = [np.arange(5), np.zeros((3, 2)), np.arange(7)]
    for x in arrays * 2:
        same(fused(x), x[1:])
    # Calls with other texts, which now run without a trace.
    for name in "abcdefgh":
        same(fused(arrays[0], name), arrays[0][1:])
    function.__code__ = (
        (lambda self, x, name="a": x[::-2]).__code__ if is_method else (lambda x, name="a": x[::-2]).__code__
    )
    for x in arrays * 2:
        same(fused(x), x[::-2])
    for name in "abcdefgh":
        same(fused(arrays[0], name), arrays[0][::-2])
    function.__code__ = (
        (lambda self, x, name="a": x + 1).__code__ if is_method else (lambda x, name="a": x + 1).__code__
    )
    with pytest.raises(dml.FuseError, match="compute"):
        fused(arrays[0])


class WithUnit(np.ndarray):
    """An array whose class joins such arrays otherwise."""

    def __array_function__(self, function, kinds, arguments, keywords):
        return "1 km"


def test_arrays_of_classes_that_define_functions_are_refused():
    x = np.arange(4).view(WithUnit)
    for call in (lambda: dml.join([x, x]), lambda: dml.copy(x), lambda: dml.fuse(lambda x: x[1:])(x)):
        with pytest.raises(dml.BindingError, match=r"pass numpy\.asarray"):
            call()
    same(dml.copy(np.asarray(x)), np.arange(4))


@pytest.mark.filterwarnings("ignore::PendingDeprecationWarning")
def test_matrices_are_no_arrays_to_functions():
    with pytest.raises(dml.FuseError, match=r"pass numpy\.asarray"):
        dml.fuse(lambda x: x[0])(np.matrix([[1, 2], [3, 4]]))
    same(dml.split(np.matrix([[1, 2], [3, 4]]), 2)[0], np.array([[1, 2]]))


class Backwards(np.ndarray):
    """An array whose rows are counted from its end."""

    def __getitem__(self, index):
        return np.ndarray.__getitem__(self, -1 - index)


def test_arrays_of_classes_that_index_otherwise_are_refused():
    for x in (np.arange(4).view(Backwards), np.char.array(["a ", "b "])):
        with pytest.raises(dml.FuseError, match=r"indexes otherwise: pass numpy\.asarray"):
            dml.fuse(lambda x: x[0:2])(x)


class FromTheEnd(list):
    """A list whose items are counted from its end."""

    def __getitem__(self, index):
        return list.__getitem__(self, -1 - index)


class Odd(tuple):
    """A tuple of every second item."""

    def __iter__(self):
        return iter([*super().__iter__()][::2])


@pytest.mark.parametrize("kind", [FromTheEnd, Odd])
def test_sequences_that_have_items_otherwise_are_refused(kind):
    base = kind.__base__.__name__
    with pytest.raises(dml.FuseError, match=rf"methods of its own: pass {base}\(…\) of it"):
        dml.fuse(lambda xs: xs[0])(kind([np.arange(2), np.arange(3)]))


class Pair(namedtuple("Pair", "x y")):
    start = 1


class Rows(list):
    start = 1


def test_attributes_of_sequences_are_refused():
    fused = dml.fuse(lambda pair: pair[0][pair.start :] if isinstance(pair, Pair) else pair[0])
    for kind, base in ((Pair, "tuple"), (Rows, "list")):
        pair = Pair(np.arange(4), 1) if kind is Pair else Rows([np.arange(4)])
        assert fused(pair).tolist() == [*range(base == "tuple", 4)]
        pair.start = 2
        for _ in range(2):
            with pytest.raises(dml.FuseError, match=rf"has attributes besides items: pass {base}\(…\) of it"):
                fused(pair)


def test_arrays_of_classes_that_index_as_numpys_are_not_refused(tmp_path):
    records = np.rec.array([(1, 2.0), (3, 4.0)], dtype=[("a", "i4"), ("b", "f8")])
    mapped = np.memmap(tmp_path / "x", "i4", "w+", shape=(2,))
    for x in (records, mapped):
        assert dml.fuse(lambda x: x[::-1])(x).tolist() == x[::-1].tolist()


class Guarded:
    """A transform that names the class of what it refuses."""

    table = (*range(100_000),)

    def crop(self, x):
        if not isinstance(x, torch.Tensor):
            raise TypeError(f"a {type(x).__name__} is no tensor")
        return x[1 + self.table[0] :]


def test_errors_may_name_a_class_in_a_method():
    guarded = Guarded()
    assert dml.fuse(lambda x: guarded.crop(x)[1:])(torch.arange(4)).tolist() == [2, 3]
    with pytest.raises(TypeError, match="is no tensor"):
        dml.fuse(lambda x: guarded.crop(x)[1:])(np.arange(4))


def test_old_classes_are_refused_only_where_they_are_asked_for():
    def picked(x):
        rows = torch.LongTensor([0, 2])
        return x[rows] if isinstance(x, torch.Tensor) else x

    assert dml.fuse(picked)(torch.arange(4)).tolist() == [0, 2]
    kinds = {"old": (int, torch.FloatTensor)}
    with pytest.raises(dml.FuseError, match="one of PyTorch's old classes"):
        dml.fuse(lambda x: x[1:] if isinstance(x, kinds["old"]) else x)(torch.arange(4))


def test_isinstance_needs_no_places_in_code():
    code = (
        "import torch, anydml as dml\n"
        "ask = lambda x: x[1:] if isinstance(x, torch.Tensor) else x\n"
        "asks = [ask]\n"
        "assert dml.fuse(ask)(torch.arange(3)).tolist() == [1, 2]\n"
        "assert dml.fuse(lambda x: asks[0](x))(torch.arange(3)).tolist() == [1, 2]\n"
        "ask = lambda x: x[1:] if isinstance(*(x, torch.Tensor)) else x\n"
        "assert dml.fuse(ask)(torch.arange(3)).tolist() == [1, 2]\n"
    )
    subprocess.run([sys.executable, "-X", "no_debug_ranges", "-c", code], check=True)


def test_the_tracer_itself_asks_for_no_class_of_pytorchs(monkeypatch):
    from anydml.tracing import class_queries

    def search(values):
        raise AssertionError("the values that code names were searched")

    xs = [torch.arange(3) for _ in range(3)]
    dml.fuse(lambda xs: [x[1:] for x in xs])(xs)
    monkeypatch.setattr(class_queries, "names_old_class", search)
    found = dml.fuse(lambda xs: {"parts": [x[1:] for x in xs], "all": (torch.stack(xs), xs[0].T)})(xs)
    assert found["all"][0].tolist() == [[0, 1, 2]] * 3
    assert [part.tolist() for part in found["parts"]] == [[1, 2]] * 3
