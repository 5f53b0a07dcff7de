"""Sizes that no memory holds: of arrays that are broadcast, and of what is asked for. All are refused, in a child."""

import os
import subprocess
import sys

import pytest
from trust.children import environment

CASES = 60
HANG = 600

NAMES = (
    *("join", "stack", "concat_training", "split", "split_training", "slice", "slice1", "tile", "pad", "repeat"),
    *("broadcast_to", "gather", "gather_nd", "one_hot", "upsample", "unfold", "slice_grad", "roll"),
    *("depth_to_space", "space_to_depth"),
)

CHILD = """
import sys
import numpy as np
import anydml as dml
from call_ways import FUNCTIONS
from drawn_calls import call_of
from function_cases import called, some

HUGE = [(1 << k) + d for k in (31, 32, 59, 60, 62, 63) for d in (-1, 0, 1)]
INDICES = {"gather": 1, "gather_elements": 1, "gather_nd": 1, "scatter": 1, "scatter_nd": 1, "one_hot": 0,
           "reverse_subsequences": 1}


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
        return [some(rng, *HUGE, *value) for _ in value]
    return some(rng, *HUGE) if type(value) is int else value


def refused(name, cases):
    rng = np.random.default_rng([11, *name.encode()])
    count = 0
    for _ in range(cases):
        given, _ = call_of(rng, name)
        # To look at 2⁶² indices takes years, before anything is made.
        places = [k for k in range(len(given)) if k != INDICES.get(name)]
        at = places[int(rng.integers(0, len(places)))]
        given = (*given[:at], huge(rng, given[at]), *given[at + 1 :])
        try:
            called(FUNCTIONS[name], given)
        except (dml.DescError, dml.BindingError, MemoryError, IndexError, ValueError, OverflowError) as error:
            count += 1
            assert type(error) is not OverflowError, (name, given, error)
            assert "negative dimensions" not in str(error), (name, given, error)
    return count


for name in sys.argv[2:]:
    print(name, refused(name, int(sys.argv[1])), flush=True)
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="memory is limited in Linux' way")
@pytest.mark.skipif("asan" in os.environ.get("LD_PRELOAD", ""), reason="AddressSanitizer needs terabytes of addresses")
def test_huge_sizes_are_refused():
    # More than 4 GiB is refused by the system, whatever it would promise else.
    limited = ["sh", "-c", 'ulimit -v 4194304 && exec "$@"', "sh", sys.executable, "-X", "faulthandler"]
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
