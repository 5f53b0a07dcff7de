"""Functions that a fused function reaches otherwise than by their names, such as methods, are traced like itself."""

import functools
import operator
import sys
import threading
import types
from dataclasses import dataclass
from dataclasses import field as dataclass_field

import numpy as np
import pytest

import anydml as dml

torch = pytest.importorskip("torch")


def as_arrays(result):
    """Return the arrays of a result."""
    return [np.asarray(part) for part in (result if isinstance(result, (list, tuple)) else [result])]


def same(found, expected):
    """Check that two results have the same arrays."""
    for array, other in zip(as_arrays(found), as_arrays(expected), strict=True):
        assert (array.dtype, array.shape, array.tobytes()) == (other.dtype, other.shape, other.tobytes())


def numpy_padded(rows):
    out = np.full((len(rows), max(len(row) for row in rows)), -1, rows[0].dtype)
    for k, row in enumerate(rows):
        out[k, : len(row)] = row
    return out


def torch_padded(rows):
    out = torch.full((len(rows), max([row.shape[0] for row in rows])), -1, dtype=rows[0].dtype)
    for k, row in enumerate(rows):
        out[k, : row.size(0)] = row
    return out


def imported_padded(rows):
    if hasattr(rows[0], "numel"):
        import torch as library
    else:
        import numpy as library
    out = library.zeros((len(rows), max(map(len, rows))), dtype=rows[0].dtype)
    for k, row in enumerate(rows):
        out[k, -len(row) :] = row
    return out


def imported_names_padded(rows):
    if hasattr(rows[0], "numel"):
        from torch import zeros
    else:
        from numpy import zeros
    out = zeros((2, max(map(len, rows))), dtype=rows[0].dtype)
    out[1, : len(rows[0])] = rows[0]
    return out


def by_type(rows):
    kinds = [*map(type, rows)]
    ask = type
    return [
        row[1:] if kind in (np.ndarray, torch.Tensor) and kind is ask(row) else row
        for kind, row in zip(kinds, rows, strict=True)
    ]


def copied(rows):
    first = rows[0].clone() if type(rows[0]) is torch.Tensor else rows[0].copy()
    first[: len(rows[1])] = rows[1][: len(first)]
    return first


def nested(rows):
    def part(row):
        return row[: max(1, len(row) - 1)]

    return [part(row) for row in rows]


CASES = [(numpy_padded, "numpy"), (torch_padded, "torch")]
for _helper in (imported_padded, imported_names_padded, by_type, copied, nested):
    CASES += [(_helper, "numpy"), (_helper, "torch")]


def ways(helper):
    """Return functions that reach a helper in different ways."""

    class Base:
        def inherited(self, rows):
            return helper(rows)

        def extended(self, rows):
            return helper(rows)

        def __call__(self, rows):
            return self.method(rows)

        def method(self, rows):
            return helper(rows)

    # Its code is a method's own, unlike that of `helper`, which methods call by its name.
    method = types.FunctionType(helper.__code__, helper.__globals__, "method", None, helper.__closure__)

    class Collator(Base):
        own = staticmethod(method)
        of_class = classmethod(lambda cls, rows: cls.own(rows))
        partial = functools.partialmethod(lambda self, rows, flag: self.own(rows), flag=True)

        def __init__(self):
            self.held, self.items, self.by_name = method, [method], {"x": method}
            self.rows = None

        def extended(self, rows):
            return super().extended(rows)

        def yielded(self, rows):
            yield self.own(rows)

        @property
        def padded(self):
            return self.own(self.rows)

        def __getitem__(self, rows):
            return self.own(rows)

    collator = Collator()

    class Module(torch.nn.Module):
        def forward(self, rows):
            return collator.own(rows)

    @dataclass
    class Data:
        helper: object
        parts: list = dataclass_field(default_factory=list)

        def run(self, rows):
            return self.helper(rows)

    class Slotted:
        __slots__ = ("helper",)

        def __init__(self):
            self.helper = method

        def __call__(self, rows):
            return self.helper(rows)

    def holding(rows):
        other = Collator()
        other.rows = rows
        return other.padded

    module = types.ModuleType("helpers")
    module.helper = method

    def recursive(self, rows, depth):
        return self.own(rows) if not depth else self.recursive(rows, depth - 1)

    Collator.recursive = recursive
    return {
        "object": collator,
        "method": collator.inherited,
        "super": collator.extended,
        "static": lambda rows: [Collator.own(rows)][0],
        "class": lambda rows: [collator.of_class(rows)][0],
        "partial method": lambda rows: [collator.partial(rows)][0],
        "attribute": lambda rows: [collator.held(rows)][0],
        "item": lambda rows: [collator.items[0](rows)][0],
        "key": lambda rows: [collator.by_name["x"](rows)][0],
        "generator": lambda rows: next(collator.yielded(rows)),
        "property": holding,
        "getitem": lambda rows: collator[rows],
        "module of PyTorch": Module(),
        "data class": lambda rows: Data(method).run(rows),
        "slots": lambda rows: [Slotted()(rows)][0],
        "module": lambda rows: [module.helper(rows)][0],
        "reduce": lambda rows: functools.reduce(lambda _, each: each(rows), [collator.own, collator.own]),
        "map": lambda rows: [*map(collator.own, [rows, rows])][1],
        "key of max": lambda rows: [collator.own(max([rows, rows], key=lambda pair: len(collator.own(pair))))][0],
        "methodcaller": lambda rows: operator.methodcaller("own", rows)(collator),
        "recursive": lambda rows: collator.recursive(rows, 3),
        "default": lambda rows, each=method: each(rows),
        "argument": method,
    }


WAYS = [*ways(nested)]
SIZES = [(3, 1), (4, 2), (1, 5), (7, 7)]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(("helper", "library"), CASES)
def test_helpers_are_traced_however_they_are_reached(helper, library, way):
    make = np.arange if library == "numpy" else torch.arange
    function = ways(helper)[way]
    fused = dml.fuse(function)
    for sizes in SIZES:
        rows = [make(size) for size in sizes]
        same(fused(rows), function(rows))
    # `copied` asks which row is longer.
    assert fused.counts.traces == 1 or helper is copied


@pytest.mark.parametrize("library", [np, torch], ids=["numpy", "torch"])
def test_methods_may_fill_arrays_of_other_functions(library):
    class Filling:
        def write(self, out, rows):
            for k, row in enumerate(rows):
                out[k, : len(row)] = row

        def created(self, rows):
            out = library.zeros((len(rows), max(map(len, rows))), dtype=rows[0].dtype)
            self.write(out, rows)
            return out

        def joined(self, rows):
            out = library.stack([rows[0], rows[0]])
            self.write(out, [rows[0][:1]])
            return out

        def constant(self, rows):
            table = library.zeros(2, dtype=library.int64)
            self.write(table[None], [table[1:]])
            return rows[0][table]

    filling = Filling()
    for function in (filling.created, filling.joined, filling.constant, lambda rows: [filling.created(rows)][0]):
        fused = dml.fuse(function)
        for sizes in SIZES:
            rows = [library.arange(size) for size in sizes]
            same(fused(rows), function(rows))
        assert fused.counts.traces == 1


def test_state_of_objects_is_their_own():
    class Counting:
        calls = 0

        def part(self, x):
            self.calls += 1
            self.latest = self
            return np.concatenate([x, x])[: len(x)]

    counting = Counting()
    fused = dml.fuse(lambda x: [counting.part(x)][0])
    same(fused(np.arange(3)), np.arange(3))
    assert counting.calls == 1
    assert counting.latest is counting
    assert "part" not in vars(counting)


def test_generators_that_outlive_a_trace_go_on():
    started = []

    class Yielding:
        def parts(self, x):
            yield x[: max(1, len(x) - 1)]
            yield max(len(self.__dict__), 3)

    yielding = Yielding()

    def function(x):
        started.append(parts := yielding.parts(x))
        return next(parts)

    same(dml.fuse(function)(np.arange(5)), np.arange(4))
    for _ in range(100):
        [{} for _ in range(100)]
    assert next(started[0]) == 3
    assert next(started[0], None) is None


def test_other_threads_run_the_functions_themselves():
    class Held:
        def part(self, x):
            if threading.current_thread() is worker:
                started.set()
                asked.wait(10)
            out = np.zeros(len(x), x.dtype)
            out[:] = x
            return out

    held, started, asked, results = Held(), threading.Event(), threading.Event(), []
    fused = dml.fuse(lambda x: [held.part(x)][0])
    worker = threading.Thread(target=lambda: results.append(fused(np.arange(4))))
    worker.start()
    assert started.wait(10)
    assert type(held.part(np.arange(2))) is np.ndarray
    asked.set()
    worker.join()
    same(results[0], np.arange(4))


COUNT = 0


def writing_a_global(x):
    global COUNT  # noqa: PLW0603
    COUNT += 1
    ask = type
    return x[1:] if ask(x) in (np.ndarray, torch.Tensor) else x


@pytest.mark.parametrize("make", [np.arange, torch.arange])
def test_functions_that_write_global_variables_may_not_ask_for_types(make):
    with pytest.raises(dml.FuseError, match=r"functions with global, .*use isinstance"):
        dml.fuse(writing_a_global)(make(4))


@pytest.mark.parametrize("helper", [numpy_padded, imported_padded, by_type])
def test_plans_of_files_follow_methods(helper, tmp_path):
    class Held:
        method = staticmethod(helper)

    held = Held()
    function = lambda *rows: [held.method(rows)][0]  # noqa: E731
    for k, size in enumerate((3, 2)):
        np.save(tmp_path / f"{k}.npy", np.arange(size))
    stores = [dml.stores.open(tmp_path / f"{k}.npy") for k in range(2)]
    expected = as_arrays(function(np.arange(3), np.arange(2)))
    targets = [dml.stores.create(tmp_path / f"out{k}.npy", each.shape, each.dtype) for k, each in enumerate(expected)]
    dml.fuse(function).plan(stores, targets if helper is by_type else targets[0]).run()
    for k, each in enumerate(expected):
        same(np.load(tmp_path / f"out{k}.npy"), each)


BUFFERS = np.zeros((2, 9), np.int64), torch.zeros((2, 9), dtype=torch.int64)


@pytest.mark.parametrize("buffer", BUFFERS, ids=["numpy", "torch"])
def test_arrays_from_outside_may_not_be_filled(buffer):
    def function(x):
        buffer[0, : len(x)] = x
        return x

    with pytest.raises(
        dml.FuseError, match=r"cannot assign a traced int64 .* that the function has not created: create"
    ):
        dml.fuse(function)(type(buffer).__getitem__(buffer, (1, slice(3))))


def test_methods_are_not_followed_under_a_debugger():
    class Held:
        method = staticmethod(numpy_padded)

    held = Held()
    fused = dml.fuse(lambda rows: [held.method(rows)][0])
    trace = sys.gettrace()
    sys.settrace(lambda *_: None)
    try:
        with pytest.raises(dml.FuseError, match="methods are not followed under a debugger"):
            fused([np.arange(3), np.arange(2)])
    finally:
        sys.settrace(trace)
