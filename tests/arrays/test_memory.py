"""No copy in and none out: pointers, what NumPy allocates, and the most memory that a process ever had."""

import pathlib
import subprocess
import sys
import tracemalloc

import numpy as np
import pytest
from array_libraries import LIBRARIES, numpy_dtype, open_library

import anydml as dml
from anydml.arrays import read_argument


@pytest.fixture(params=LIBRARIES)
def library(request):
    return open_library(request.param)


@pytest.mark.parametrize(
    "library, dtype", [(name, dtype) for name in LIBRARIES for dtype in LIBRARIES[name].dtypes], indirect=["library"]
)
def test_inputs_are_read_where_they_lie(library, dtype):
    x = library.make(np.arange(24).reshape(4, 6).astype(numpy_dtype(dtype)))
    view, _ = read_argument("split", x)
    assert view.__array_interface__["data"][0] == library.address(x)
    assert view.nbytes == 24 * view.itemsize


def test_numpy_allocates_the_results_and_nothing_else(library):
    x = library.make(np.zeros((1 << 20, 3), np.float32))
    indices = library.make(np.zeros(1 << 18, np.int32))
    size = 12 << 20
    calls = [
        (size, lambda: dml.split(x, 3, 1)),
        (2 * size, lambda: dml.join([x, x], 1)),
        (size, lambda: dml.slice1(x, (0, 0), (1 << 20, 3), (-1, 1))),
        (size // 4, lambda: dml.gather(x, indices)),
    ]
    for expected, call in calls:
        call()
        peaks = []
        for _ in range(3):
            # What a library lets go of later counts in one of them at most.
            tracemalloc.start()
            results = call()
            peaks.append(tracemalloc.get_traced_memory()[1])
            tracemalloc.stop()
            del results
        allocated = expected if library.results_are_numpys else 0
        assert allocated <= min(peaks) < allocated + (1 << 20)


CHILD = """
import sys
sys.path[:0] = {path!r}
import numpy as np
from array_libraries import open_library
import anydml as dml

def peak():
    return int(next(line for line in open("/proc/self/status") if line.startswith("VmHWM")).split()[1]) << 10

library = open_library({name!r})
for rows in 1 << 14, 1 << 20:
    # Whatever compiles, or loads, what such calls take.
    x, indices = library.ones(rows, 16), library.make(np.arange(rows, dtype=np.int32))
    dml.join(dml.split(x, 2, 1), 1), dml.join([x]), dml.gather(x, indices)
x = library.ones(1 << 21, 16)
indices = library.make(np.arange(1 << 21, dtype=np.int32))
calls = lambda: dml.split(x, 2, 1), lambda: dml.join([x]), lambda: dml.gather(x, indices)
for call in calls:
    dml.empty_cache()
    # The peak becomes what is held now.
    open("/proc/self/clear_refs", "w").write("5")
    before = peak()
    result = call()
    print(peak() - before)
    del result
"""


def peaks_can_be_told():
    """Whether the system tells the most memory that a process had, and forgets it when asked to."""
    try:
        with open("/proc/self/clear_refs", "w") as file:
            file.write("5")
        return "VmHWM" in pathlib.Path("/proc/self/status").read_text()
    except OSError:
        return False


@pytest.mark.skipif(not peaks_can_be_told(), reason="the system does not tell the peak")
@pytest.mark.parametrize("name", sorted({"numpy", "torch", "jax"} & set(LIBRARIES)))
def test_the_peak_of_a_process_grows_by_the_results_alone(name):
    code = CHILD.format(path=sys.path, name=name)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    size = 128 << 20
    assert [0.8 * size < int(grown) < 1.2 * size for grown in done.stdout.split()] == [True] * 3, done.stdout


FAULTS = """
import resource, sys
sys.path[:0] = {path!r}
from array_libraries import open_library
import anydml as dml

def faults(name):
    library = open_library(name)
    dml.join([library.ones(1 << 14, 16)])
    x = library.ones(1 << 20, 16)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    dml.join([x])
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

print(faults("numpy"), faults({name!r}))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="the system is not asked for huge pages")
@pytest.mark.parametrize("name", sorted({"torch"} & set(LIBRARIES)))
def test_large_results_lie_in_pages_as_large_as_numpys(name):
    code = FAULTS.format(path=sys.path, name=name)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    numpys, others = map(int, done.stdout.split())
    assert others < 2 * numpys + 2000
