"""Sizes that no memory holds: of arrays that are broadcast, and of what is asked for. All are refused, in a child."""

import os
import subprocess
import sys

import numpy as np
import pytest
from trust.children import environment

import anydml as dml

CASES = 60
HANG = 600

NAMES = (
    *("join", "stack", "concat_training", "split", "split_training", "slice", "slice1", "tile", "pad", "repeat"),
    *("broadcast_to", "gather", "gather_nd", "one_hot", "upsample", "unfold", "slice_grad", "roll"),
    *("depth_to_space", "space_to_depth", "gather_elements", "reverse_subsequences"),
)

CHILD = """
import sys
import numpy as np
import anydml as dml
from call_ways import FUNCTIONS
from drawn_calls import call_of
from function_cases import called, some

HUGE = [(1 << k) + d for k in (31, 32, 59, 60, 62, 63) for d in (-1, 0, 1)]
NUMPYS = "negative allocate big;".split()
# Words of NumPy's own errors.


def grown(rng, value):
    # The same with one axis as long as 64 bits can say; no more memory is taken.
    array = np.zeros(value.shape or (1,), "u1" if value.dtype.hasobject else value.dtype)
    axis = int(rng.integers(0, array.ndim))
    shape = [*array.shape]
    shape[axis] = min(some(rng, *HUGE), (1 << 62) // max(1, array.itemsize))
    try:
        one = array[tuple(slice(0, 1) if d == axis else slice(None) for d in range(array.ndim))]
        return np.broadcast_to(one, shape)
    except ValueError:
        return array


def huge(rng, value):
    if isinstance(value, np.ndarray):
        return grown(rng, value)
    if isinstance(value, list) and value and isinstance(value[0], np.ndarray):
        return [grown(rng, value[0])] * int(rng.integers(1, 40)) + value[:1]
    if isinstance(value, (list, tuple)) and value:
        if rng.random() < 0.2:
            return some(rng, range(1 << 59), np.broadcast_to(np.int64(some(rng, 0, 1, -1)), (1 << 59,)))
        return [some(rng, *HUGE, *value) for _ in value]
    return some(rng, *HUGE) if type(value) is int else value


def refused(name, cases):
    rng = np.random.default_rng([11, *name.encode()])
    count = 0
    for _ in range(cases):
        given, _ = call_of(rng, name)
        at = int(rng.integers(0, len(given)))
        given = (*given[:at], huge(rng, given[at]), *given[at + 1 :])
        try:
            called(FUNCTIONS[name], given)
        except (dml.DescError, dml.BindingError, MemoryError, IndexError, ValueError, OverflowError) as error:
            count += 1
            assert type(error) is not OverflowError, (name, given, error)
            assert str(error) and not set(NUMPYS).intersection(str(error).split()), (name, given, error)
    return count


for name in sys.argv[2:]:
    print(name, refused(name, int(sys.argv[1])), flush=True)
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="memory is limited in Linux' way")
@pytest.mark.skipif("asan" in os.environ.get("LD_PRELOAD", ""), reason="AddressSanitizer needs terabytes of addresses")
def test_huge_sizes_are_refused():
    # More than 1.5 GiB is refused by the system, whatever it would promise else.
    limited = ["sh", "-c", 'ulimit -v 1572864 && exec "$@"', "sh", sys.executable, "-X", "faulthandler"]
    done = subprocess.run([*limited, "-c", CHILD, str(CASES), *NAMES], env=environment(ANYDML_NUM_THREADS="1"),
                          capture_output=True, text=True, timeout=HANG, check=False)  # fmt: skip
    assert done.returncode == 0, (done.stdout, done.stderr[-3000:])
    counts = dict(line.split() for line in done.stdout.splitlines())
    assert [*counts] == [*NAMES]
    assert all(int(count) > CASES // 10 for count in counts.values()), counts


def test_joined_lengths_that_wrap_are_refused():
    """2⁶⁴ + 5 elements are not 5."""
    script = """
import numpy as np, anydml as dml
x = np.broadcast_to(np.uint8(0), (1 << 60,))
for function in (dml.join, dml.concat_training):
    for out in (None, np.zeros(5, np.uint8)):
        try:
            function([x] * 16 + [np.zeros(5, np.uint8)], out=out)
        except (dml.DescError, dml.BindingError) as error:
            assert "18446744073709551621" in str(error) or "shape" in str(error), error
        else:
            raise AssertionError("it was joined")
try:
    dml.split(x, [1 << 60] * 17)
except (dml.DescError, dml.BindingError):
    print("well")
"""
    command = [sys.executable, "-c", script]
    done = subprocess.run(command, env=environment(), capture_output=True, text=True, timeout=HANG, check=False)
    assert (done.returncode, done.stdout) == (0, "well\n"), done.stderr


BROADCAST = {
    "a mask": "dml.where(np.broadcast_to(True, many.shape), x[:1], x[:1])",
    "numbers": "dml.nonzero_coordinates(many)",
    "a condition": "dml.compress(np.broadcast_to(True, many.shape), many)",
    "texts": "dml.nonzero_coordinates(np.broadcast_to('a', many.shape))",
    "traced indices": "dml.fuse(lambda x, i: x[i])(x, many)",
    "known indices": "dml.fuse(lambda x: x[many])(x)",
    "a known mask": "dml.fuse(lambda x: x[np.broadcast_to(True, many.shape)])(x)",
    "indices known to gather": "dml.fuse(lambda x: dml.gather(x, many))(x)",
    "known ends": "dml.fuse(lambda x: np.split(x, many))(x)",
    "known counts": "dml.fuse(lambda x: np.repeat(x, many))(x)",
    "parts": "dml.split(many, len(many))",
    "many parts": "dml.split(many[: 1 << 25], 1 << 25)",
    "traced parts": "dml.fuse(lambda y: np.array_split(y, len(many)))(many)",
    "arrays": "dml.join(many)",
    "a constant": "dml.fuse(lambda x: np.concatenate([x, np.broadcast_to(np.float64(1), many.shape)]))(x)",
}


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="memory is limited in Linux' way")
@pytest.mark.skipif("asan" in os.environ.get("LD_PRELOAD", ""), reason="AddressSanitizer needs terabytes of addresses")
def test_broadcast_arrays_are_refused_at_once():
    """Or a process that looks at each element would be here for years."""
    script = """
import sys
import numpy as np, anydml as dml
x = np.arange(4.0)
for power in (40, 59):
    many = np.broadcast_to(np.int64(1), (1 << power,))
    for call in sys.argv[1:]:
        try:
            eval(call)
        except (dml.DescError, dml.FuseError, dml.BindingError, MemoryError) as error:
            assert str(error) and "allocate" not in str(error), (call, error)
        else:
            raise AssertionError(call)
    # Along the axis, each index is where the one before it was: the last update stays.
    updates = np.broadcast_to(5.0, many.shape)
    for found in (
        dml.scatter(x, many, updates),
        dml.scatter_nd(x, many[:, None], updates),
        dml.scatter(x, many, updates, out=x.copy()),
    ):
        assert found.tolist() == [0, 5, 2, 3]
    outside = np.broadcast_to(np.int64(4), many.shape)
    for call in (lambda: dml.scatter(x, outside, updates), lambda: dml.scatter_nd(x, outside[:, None], updates)):
        try:
            call()
        except IndexError as error:
            assert "index 4" in str(error)
        else:
            raise AssertionError
print("well")
"""
    limited = ["sh", "-c", 'ulimit -v 1572864 && exec "$@"', "sh", sys.executable, "-X", "faulthandler"]
    command = [*limited, "-c", script, *BROADCAST.values()]
    given = environment(ANYDML_NUM_THREADS="1")
    done = subprocess.run(command, env=given, capture_output=True, text=True, timeout=HANG, check=False)
    assert (done.returncode, done.stdout) == (0, "well\n"), done.stderr


def test_of_objects_that_are_written_to_one_place_only_the_last_is_moved():
    indices, updates = (np.broadcast_to(np.array(*given), (1, 1 << 46)) for given in ((0, np.int64), (7, object)))
    assert dml.scatter(np.zeros((1, 2), object), indices, updates, 1).tolist() == [[7, 0]]
