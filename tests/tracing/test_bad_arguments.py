"""Random calls of every word: fused functions raise where a library does, and return new arrays where it does."""

import copy
import functools
import random
import re
import warnings

import numpy as np
import pytest

import anydml as dml
from anydml.tracing.numpy_table import METHODS, NUMPY
from anydml.tracing.torch_table import TORCH

torch = pytest.importorskip("torch")

WITHOUT_RESULTS = {"empty_like", "new_empty", "new_empty_strided", "fill_", "zero_", "copy_", "copyto", "fill"}
"""Words with results of any elements, or that write."""

UNCHECKED = re.compile("not implemented for|cond must be a bool, but got <class 'numpy|truth value of an")
"""Errors of PyTorch's kernels, of numbers of NumPy's that it should take, and of arrays as flags without effect."""

PACKED_VIEWS = {"view"}
"""Words that raise for some strides, which fused functions do not know."""


def called(library, table, name):
    """Return the ways to call a word: a method, and functions of its name."""

    def method(x, *arguments):
        return getattr(x, name)(*arguments)

    array_class = torch.Tensor if library is torch else np.ndarray
    if callable(getattr(array_class, name, None)) and (library is torch or name in METHODS):
        yield method
    for owner in (torch, torch.nn.functional) if library is torch else (np,):
        try:
            function = functools.reduce(getattr, name.removeprefix("nn.functional.").split("."), owner)
        except AttributeError:
            continue
        if callable(function):
            yield function


def an_array(draw, library):
    shape = [draw.choice([0, 1, 2, 2, 3, 4, 6]) for _ in range(draw.choice([0, 1, 1, 2, 2, 2, 3, 3, 4]))]
    x = np.arange(np.prod(shape, dtype=int)).reshape(shape).astype(draw.choice(["i8", "i8", "f4", "?", "u1"]))
    x = x.swapaxes(0, -1) if x.ndim > 1 and draw.random() < 0.3 else x
    return torch.from_numpy(x) if library is torch else x


def an_integer(draw, library):
    return draw.choice([-5, -3, -2, -1, 0, 0, 1, 1, 2, 2, 3, 4, 6])


def an_argument(draw, library):
    array, integer = functools.partial(an_array, draw, library), functools.partial(an_integer, draw, library)
    makers = [integer] * 3 + [array] * 2
    makers += [lambda: [integer() for _ in range(draw.randrange(4))], lambda: (integer(),) * draw.randrange(1, 3)]
    makers += [
        lambda: [array() for _ in range(draw.randrange(4))],
        lambda: np.int64(integer()),
        lambda: slice(integer()),
    ]
    makers += [lambda value=value: value for value in (None, True, 1.5, "constant", "a", library.int64)]
    return draw.choice(makers)()


def outcome(function, *arguments):
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return function(*arguments), None
    except Exception as error:
        return None, error


def leaves(result):
    """Return the dtypes, shapes and bytes of the arrays in a result, and the texts of its other items."""
    if isinstance(result, (list, tuple)):
        return [leaf for item in result for leaf in leaves(item)]
    if isinstance(result, (np.ndarray, np.generic, torch.Tensor)):
        array = np.asarray(result)
        return [(array.dtype, array.shape, array.tobytes())]
    return [repr(result)]


CASES = [(torch, TORCH, name) for name in TORCH if name not in WITHOUT_RESULTS and "." not in name.removeprefix("nn.")]
CASES += [(np, {**NUMPY, **METHODS}, name) for name in {**NUMPY, **METHODS} if name not in WITHOUT_RESULTS]


@pytest.mark.parametrize(("library", "table", "name"), CASES, ids=[f"{case[0].__name__}.{case[2]}" for case in CASES])
def test_what_libraries_refuse_is_refused(library, table, name):
    draw = random.Random(name)
    for function in called(library, table, name):
        for _ in range(12):
            first = [an_array(draw, library) for _ in range(draw.randrange(1, 4))]
            arguments = (
                first[0] if draw.random() < 0.8 else first,
                *(an_argument(draw, library) for _ in range(draw.choice([0, 1, 1, 2, 2, 3]))),
            )
            if isinstance(arguments[0], list) and function.__name__ == "method":
                continue
            expected, error = outcome(function, *arguments)
            if error is None and not isinstance(expected, (np.ndarray, torch.Tensor, list, tuple)):
                continue
            if UNCHECKED.search(str(error)) or name in PACKED_VIEWS:
                continue
            found, refusal = outcome(dml.fuse(lambda *given, function=function: function(*given)), *arguments)
            if error is not None:
                assert refusal is not None, (arguments, error)
            elif refusal is None:
                assert leaves(found) == leaves(expected), arguments
            else:
                assert isinstance(refusal, dml.errors.AnydmlError), (arguments, refusal)


ARGUMENTS = [(), (0,), (1,), (0, 0), ((0, 1),), ((2, 3),), (2, 3), (-1,), "x", "dtype"]


@pytest.mark.parametrize(("library", "table", "name"), CASES, ids=[f"{case[0].__name__}.{case[2]}" for case in CASES])
def test_results_are_arguments_where_the_librarys_are(library, table, name):
    def asked(x, function, arguments):
        given = {"x": (x,), "dtype": (x.dtype,)}.get(arguments, arguments)
        result = function(x, *given)
        return x, result is x or (isinstance(result, (tuple, list)) and any(part is x for part in result))

    for function in called(library, table, name):
        for shape in ((2, 3), (3,), ()):
            x = library.ones(shape)
            for arguments in ARGUMENTS:
                expected, error = outcome(asked, x, function, arguments)
                fused = dml.fuse(lambda x, each=function, given=arguments: asked(x, each, given))
                found, refusal = outcome(fused, x)
                if error is None and refusal is None:
                    assert found[1] is expected[1], (shape, arguments)


@pytest.mark.parametrize("library", [np, torch], ids=["numpy", "torch"])
@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy])
def test_arrays_may_be_copied(copied, library):
    def function(x):
        parts = copied({"x": x, "again": copied(x)})
        part = copied(x)
        return parts["x"], parts["again"], part is x

    x = library.ones((2, 3))
    found, expected = dml.fuse(function)(x), function(x)
    assert leaves(found) == leaves(expected)


def test_deep_copies_may_be_filled():
    def function(x):
        part = copy.deepcopy(x)
        part[0] = 7
        return part, x

    for x in (np.zeros(3), torch.zeros(3)):
        assert leaves(dml.fuse(function)(x)) == leaves(function(x))


def test_tensors_are_sliced_forwards():
    x = torch.arange(4)
    for key in (slice(None, None, -1), slice(3, 0, -2), (slice(None, None, -1),)):
        with pytest.raises(dml.FuseError, match="step must be positive"):
            dml.fuse(lambda x, key=key: x[key])(x)
    with pytest.raises(dml.FuseError, match="step must be positive"):
        dml.fuse(lambda x, step: x[::step])(x, -1)


NUMBERS = {
    "roll": lambda x, numbers: np.roll(x, numbers, (0, 1)),
    "tile": np.tile,
    "pad": np.pad,
    "reshape": np.reshape,
    "shape": lambda x, numbers: np.zeros_like(x, shape=numbers),
    "broadcast_to": np.broadcast_to,
    "torch.roll": lambda x, numbers: torch.roll(x, numbers, (0, 1)),
    "torch.repeat": lambda x, numbers: x.repeat(numbers),
    "torch.view": lambda x, numbers: x.view(numbers),
    "torch.permute": lambda x, numbers: x.permute(numbers),
}


@pytest.mark.parametrize("name", NUMBERS)
def test_numbers_in_traced_arrays_are_refused_with_what_to_pass(name):
    arguments = np.ones((2, 3)), np.array([1, 0])
    if name.startswith("torch"):
        arguments = tuple(map(torch.from_numpy, arguments))
    with pytest.raises(dml.FuseError, match=r"numbers from a traced int64 .*: pass a tuple of integers"):
        dml.fuse(NUMBERS[name])(*arguments)


def test_random_orders_are_refused_with_what_to_pass():
    for function in (lambda x: [*np.random.permutation(x)], lambda x: np.random.default_rng(0).permutation(x)):
        with pytest.raises(dml.FuseError, match="draw an order outside the fused function"):
            dml.fuse(function)(np.arange(3))


@pytest.mark.parametrize(
    ("function", "call"),
    [
        (lambda x: np.r_[x, 0], "numpy.concatenate instead of numpy.r_"),
        (lambda x: np.c_[x, x], "numpy.column_stack instead of numpy.c_"),
    ],
)
def test_joins_by_an_index_are_refused_with_the_function_to_call(function, call):
    with pytest.raises(dml.FuseError, match=f"call {call}"):
        dml.fuse(function)(np.arange(3))
