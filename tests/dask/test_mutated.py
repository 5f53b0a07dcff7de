"""Random calls on Dask arrays in random chunks, right and spoiled: what NumPy makes of them, or one error."""

import itertools

import numpy as np
import pytest
from drawn_calls import DRAW, DTYPES, spoiled
from function_cases import called, some
from how_many import how_many
from odd_arrays import content

import anydml as dml

da = pytest.importorskip("dask.array", reason='Dask is not installed: pip install "anydml[dask]"')

CALLS = how_many(12)
MAX_BYTES = 1 << 20
"""Of results that are computed; what is spoiled may be lazy, and larger than any memory."""

IN_CHUNKS = (
    *(
        "copy",
        "split",
        "split_training",
        "join",
        "concat_training",
        "slice",
        "slice1",
        "gather",
        "stack",
        "pad",
        "tile",
    ),
    *("flip", "roll", "permute_dims", "broadcast_to"),
)
"""Functions that need no chunk of their result to be stored on the way; others may refuse that, in one line."""

NUMBERS = [dtype for dtype in DTYPES if dtype.kind in "biuf" and dtype.isnative]
REFUSED = (
    dml.DescError,
    dml.BindingError,
    dml.FuseError,
    IndexError,
    TypeError,
    ValueError,
    AttributeError,
    MemoryError,
    DeprecationWarning,  # of older NumPys, for a boolean as an integer; newer ones raise TypeError
)


def cut(rng, array):
    """The same as a Dask array, in chunks of any sizes."""
    chunks = []
    for n in array.shape:
        ends = sorted({0, n, *rng.integers(0, n + 1, int(rng.integers(0, 3))).tolist()})
        chunks.append(tuple(b - a for a, b in itertools.pairwise(ends)) or (0,))
    return da.from_array(np.array(array), chunks=tuple(chunks))


def lazy(rng, name, arguments):
    """The arguments with the arrays that move as Dask arrays."""
    x = arguments[0]
    if isinstance(x, (list, tuple)):
        return ([cut(rng, each) if isinstance(each, np.ndarray) else each for each in x], *arguments[1:])
    return (cut(rng, x), *arguments[1:]) if isinstance(x, np.ndarray) else arguments


def outcome(function, arguments):
    """What a call comes to: the contents of its results, or None where it is refused."""
    try:
        result = called(function, arguments)
        results = result if isinstance(result, (list, tuple)) else [result]
        if sum(each.nbytes for each in results) > MAX_BYTES:
            return None
        done = [each.compute(scheduler="sync") if isinstance(each, da.Array) else np.asarray(each) for each in results]
    except REFUSED:
        return None
    return [content(np.array(each)) for each in done]


# Indices of Dask arrays have to be known before they are looked up: those are given as NumPy's.
@pytest.mark.parametrize("name", sorted({*DRAW} - {"where", "one_hot"}))
def test_calls(name):
    rng = np.random.default_rng([21, *name.encode()])
    same = refused = 0
    for number in range(2 * CALLS):
        arguments, _ = DRAW[name](rng, some(rng, *NUMBERS))
        arguments = tuple(
            each if not isinstance(each, np.ndarray) or each.flags.writeable else each.copy() for each in arguments
        )
        if number % 2:
            arguments = spoiled(rng, arguments)
        mine = outcome(getattr(dml, name), arguments)
        lazy_outcome = outcome(getattr(dml, name), lazy(rng, name, arguments))
        if lazy_outcome is None:
            refused += 1
            continue
        assert lazy_outcome == mine, (name, arguments)
        same += 1
    assert same >= CALLS // 2 or name not in IN_CHUNKS, (same, refused)
