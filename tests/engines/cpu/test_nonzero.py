"""Coordinates of what is not zero: NumPy's rows, by any number of threads, and no byte beside them."""

import sys
import threading
from dataclasses import replace

import numpy as np
import pytest
from random_family import FAMILY
from trust.guarded import PAGE, Arena

import anydml as dml
from anydml.engines.common import HostKernelProgram
from anydml.engines.cpu import nonzero
from anydml.engines.cpu.engine import CpuEngine
from anydml.engines.numpy.engine import NumpyEngine

SHAPES = [(1,), (8193,), (4095, 2), (2, 4097, 3), (10, 1, 7, 11, 3), (0, 4), (64, 0), (1, 1, 5), (3, 2, 1, 1, 2, 500)]
SHAPES += [(600_011,), (50_000, 3, 2)]
DTYPES = ["?", "i1", "<u2", ">u2", "f2", "f4", ">f4", "f8", "<i8", "c8", "c16", "g"]


@pytest.fixture(params=[1, 3])
def threads(request):
    """So many threads."""
    before = dml.get_num_threads()
    dml.set_num_threads(request.param)
    yield
    dml.set_num_threads(before)


@pytest.mark.parametrize("shape", SHAPES)
def test_rows_are_numpys(shape, threads):
    rng = np.random.default_rng(1)
    for dtype in DTYPES:
        x = (rng.random(shape) < rng.choice([0, 0.01, 0.3, 1])).astype(dtype)
        if x.dtype.kind in "fc" and x.size > 3:
            x.flat[0], x.flat[1], x.flat[2] = -0.0, np.nan, -3
        for view in (x, x.T, x[::-1], x[..., ::2]):
            for coordinates in ("<i8", "<u4"):
                found = nonzero.argwhere(view, np.dtype(coordinates))
                assert found.dtype == coordinates
                assert np.array_equal(found, np.argwhere(view))
            assert np.array_equal(dml.nonzero_coordinates(view), np.argwhere(view))


def test_every_bit_pattern_of_a_small_float_is_zero_or_not_as_numpy_says(threads):
    for dtype in ("<f2", ">f2"):
        x = np.arange(1 << 16, dtype=np.uint16).view(dtype)
        with np.errstate(invalid="ignore"):
            assert np.array_equal(nonzero.argwhere(x), np.argwhere(x))


@pytest.mark.skipif(sys.platform == "win32", reason="there is no mprotect")
def test_nothing_beside_the_elements_is_read(threads):
    arena = Arena(8)
    for size in (1, 2, 4, 8):
        for count in (PAGE, PAGE - 1):
            for at_end in (False, True):
                memory = arena.take(count * size, at_end)
                memory[...] = np.random.default_rng(2).integers(0, 2, memory.size)
                x = memory.view(f"u{size}")
                assert np.array_equal(nonzero.argwhere(x), np.argwhere(x))


@pytest.mark.skipif(nonzero.nonzero_search is None, reason="there is no compiled core")
def test_elements_that_somebody_writes_meanwhile_find_no_rows_that_are_not_there(threads):
    # A piece that is all 0, or not 0 at all, whenever it is looked at.
    x, over, around = np.zeros(1 << 20, np.uint8), threading.Event(), []

    def change():
        while not over.is_set():
            x[:4096] ^= 1
            x[-4096:] ^= 1

    changing = threading.Thread(target=change)
    changing.start()
    try:
        for _ in range(300):
            found = nonzero.argwhere(x)
            around.append(np.full(found.nbytes, 77, np.uint8))
            assert len(found) <= 8192
            assert len(found) == 0 or (found.min() >= 0 and found.max() < x.size)
    finally:
        over.set()
        changing.join()
    assert all((each == 77).all() for each in around)


@pytest.mark.parametrize("compiler", [CpuEngine(), NumpyEngine()], ids=["cpu", "numpy"])
def test_the_host_kernel_equals_the_moves(compiler, threads):
    rng = np.random.default_rng(3)
    for _ in range(12):
        desc = FAMILY["nonzero_coordinates"](rng)
        program = desc.program()
        x, *outputs = (
            rng.integers(0, 256, tensor.size_in_bytes, np.uint8) for _, tensor in (*desc.inputs, *desc.outputs)
        )
        x[rng.random(x.size) < 0.7] = 0
        ways = [compiler.compile(program), compiler.compile(replace(program, host_kernel=None))]
        assert [isinstance(way, HostKernelProgram) for way in ways] == [True, False]
        results = [[each.copy() for each in outputs] for _ in ways]
        for way, result in zip(ways, results, strict=True):
            way.bind([x, *result])()
        assert [each.tobytes() for each in results[0]] == [each.tobytes() for each in results[1]]


def test_it_says_how():
    tensor = dml.TensorDesc
    desc = dml.NonzeroCoordinatesOperatorDesc(tensor("INT8", [4]), tensor("UINT32", [1]), tensor("UINT32", [4, 1]))
    assert "on cpu: nonzero elements are counted" in str(dml.Device("cpu").compile_operator(desc))
