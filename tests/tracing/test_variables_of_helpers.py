"""Variables of functions and methods that are traced: read as they are, and left as they were."""

import sys
import time

import numpy as np
import pytest

import anydml as dml

X = np.arange(12.0).reshape(3, 4)
LIMIT, TABLE, ASSIGNED = 3, None, 3


@pytest.fixture(autouse=True)
def _fresh_variables():
    _reset()


def set_limit():
    global LIMIT  # noqa: PLW0603
    LIMIT = 1


def load_table():
    global TABLE  # noqa: PLW0603
    TABLE = [1, 2]


def after_a_global(x):
    set_limit()
    return x[: min(LIMIT, 3)]


def after_loading(x):
    load_table()
    return x[: len(TABLE)]


def after_an_attribute(x):
    sys.modules[__name__].ASSIGNED = 1
    return x[: min(ASSIGNED, 3)]


def after_a_nonlocal(x):
    def helper(y):
        return y[: max(1, len(y) - 1)]

    def change():
        nonlocal helper

        def helper(y):
            return y[: max(1, len(y) - 2)]

    change()
    return helper(x)


FUNCTIONS = [after_a_global, after_loading, after_an_attribute, after_a_nonlocal]


class Helper:
    def __init__(self, function):
        self.function = function

    def run(self, x):
        return self.function(x)


@pytest.fixture(params=["", "under a debugger"])
def is_debugged(request):
    """Where a debugger watches, methods are not followed."""
    before = sys.gettrace()
    if request.param:
        sys.settrace(lambda *_: None)
    yield bool(request.param)
    sys.settrace(before)


@pytest.mark.parametrize("way", ["itself", "by its name", "by a method"])
@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda function: function.__name__)
def test_variables_that_change_while_a_function_runs(function, way, is_debugged):
    def by_its_name(x):
        return function(x)

    called = {"itself": function, "by its name": by_its_name, "by a method": Helper(function).run}[way]
    wanted = function(X)
    _reset()
    fused = dml.fuse(called)
    for _ in range(2):
        np.testing.assert_array_equal(fused(X), wanted)


def _reset():
    global LIMIT, TABLE, ASSIGNED
    LIMIT, TABLE, ASSIGNED = 3, None, 3


def test_a_closure_that_functions_change(is_debugged):
    def new():
        def helper(y):
            return y[: max(1, len(y) - 1)]

        def change():
            nonlocal helper

            def helper(y):
                return y[: max(1, len(y) - 2)]

        def run(x):
            change()
            return helper(x)

        return run

    wanted, run = new()(X), new()
    fused = dml.fuse(run)
    for _ in range(2):
        np.testing.assert_array_equal(fused(X), wanted)
    assert type(run(X)) is np.ndarray


def test_a_closure_that_methods_change(is_debugged):
    def helper(y):
        return y[: max(1, len(y) - 1)]

    class Changing:
        def change(self):
            nonlocal helper

            def helper(y):
                return y[: max(1, len(y) - 2)]

        def run(self, x):
            self.change()
            return helper(x)

    assert dml.fuse(lambda x: Changing().run(x))(X).shape == (1, 4)
    assert helper(X).shape == (1, 4)


def test_variables_assigned_by_text_stay():
    class Writing:
        def run(self, x):
            globals()["WRITTEN"] = 1
            exec("import json as WRITTEN_TOO", globals())
            return x[::-1]

    dml.fuse(lambda x: Writing().run(x))(X)
    assert globals().pop("WRITTEN") == 1
    assert globals().pop("WRITTEN_TOO").__name__ == "json"


class Keeping:
    """Keeps a function that its first call creates."""

    kept = None

    def run(self, x):
        if self.kept is None:
            self.kept = self.new()
        return self.kept(x)


class Joining(Keeping):
    def new(self):
        return lambda y: np.concatenate([np.zeros((1, *y.shape[1:]), y.dtype), y])


class Assigning(Keeping):
    def new(self):
        def ends(y):
            a = np.zeros((2, y.shape[1]))
            a[0], a[1] = y[0], y[-1]
            return a

        return ends


class Importing(Keeping):
    def new(self):
        def ends(y):
            import numpy

            a = numpy.zeros((2, y.shape[1]))
            a[0], a[1] = y[0], y[-1]
            return a

        return ends


class Enclosing(Keeping):
    def new(self):
        import numpy as library

        def ends(y):
            a = library.zeros((2, y.shape[1]))
            a[0], a[1] = y[0], y[-1]
            return a

        return ends


class Limiting(Keeping):
    def new(self):
        return lambda y: y[:LIMIT]


@pytest.mark.parametrize("kind", [Joining, Assigning, Importing, Enclosing, Limiting], ids=lambda kind: kind.__name__)
def test_functions_that_a_trace_has_created_are_plain_ones_afterwards(kind):
    helper = kind()
    fused, wanted = dml.fuse(helper.run), kind().run(X)
    np.testing.assert_array_equal(fused(X), wanted)
    plain = helper.kept(X)
    assert type(plain) is np.ndarray
    np.testing.assert_array_equal(plain, wanted)
    for x in (X[:2], X, np.arange(20.0).reshape(5, 4)):
        np.testing.assert_array_equal(fused(x), kind().run(x))
    set_limit()
    np.testing.assert_array_equal(fused(X), kind().run(X))


def test_classes_that_a_trace_has_created_may_read_clocks_afterwards():
    class Holder:
        made = None

        def run(self, x):
            class Timed:
                def now(self):
                    return time.time()

            self.made = Timed
            return x[::-1]

    holder = Holder()
    dml.fuse(holder.run)(X)
    assert holder.made().now() > 0


def test_a_generator_that_runs_before_and_after_a_trace():
    limit = [5]

    def stream():
        while True:
            yield np.zeros(2)
            yield min(limit[0], 5)

    numbers = stream()
    next(numbers), next(numbers)

    class Drawing:
        def run(self, x):
            next(numbers)
            return x[::-1]

    dml.fuse(lambda x: Drawing().run(x))(X)
    limit[0] = 4
    assert next(numbers) == 4
    assert type(next(numbers)) is np.ndarray


class Model:
    """Has methods named like functions that read variables."""

    def eval(self):
        return self

    def exec(self):
        return self


def pad_all(rows):
    MODEL.eval().exec()
    out = np.zeros((len(rows), max(len(row) for row in rows), 4))
    for i, row in enumerate(rows):
        out[i, : len(row)] = row
    return out


MODEL = Model()


def test_methods_of_such_names_are_no_reason_not_to_trace():
    rows = [X, X[:2], X[:1]]
    np.testing.assert_array_equal(dml.fuse(pad_all)(rows), pad_all(rows))


def with_class(rows):
    class Unused:
        pass

    out = np.zeros((2, 3, 4))
    out[0] = rows[0]
    return out


def with_eval(rows):
    out = np.zeros((eval("1 + 1"), 3, 4))
    out[0] = rows[0]
    return out


def with_global(rows):
    global LIMIT  # noqa: PLW0603
    LIMIT = 2
    out = np.zeros((2, 3, 4))
    out[0] = rows[0]
    return out


@pytest.mark.parametrize("function", [with_class, with_eval, with_global], ids=lambda function: function.__name__)
def test_functions_that_reach_variables_otherwise_say_why_they_fill_no_arrays(function):
    with pytest.raises(dml.FuseError, match="in a function without global, class, globals, eval and exec"):
        dml.fuse(function)([X, X])
