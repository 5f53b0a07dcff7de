"""Arrays of libraries that nothing is known of, and what is never imported."""

import subprocess
import sys

import numpy as np
import pytest
from array_libraries import Speaker

import anydml as dml


class Mute(Speaker):
    """From a library that can take no arrays of others."""

    __module__ = "unheard_of.arrays"


class Elsewhere(Speaker):
    """On a device that DLPack knows as number 8 (Metal)."""

    def __dlpack_device__(self):
        return (8, 0)


def test_a_library_that_takes_nothing_back_needs_out():
    x = np.arange(6.0)
    with pytest.raises(dml.BindingError, match="split: x is an array of unheard_of whose library has no from_dlpack"):
        dml.split(Mute(x), 2)
    if not np.from_dlpack(x).flags.writeable:
        pytest.skip("to this NumPy all arrays that come by DLPack are read-only")
    out = Mute(np.zeros(6))
    assert dml.join([Mute(x)], out=out) is out
    assert out.array.tolist() == x.tolist()


def test_a_library_with_a_namespace_is_asked_by_it():
    class Namespaced(Mute):
        def __array_namespace__(self):
            return Library

    class Library:
        from_dlpack = staticmethod(lambda array: Namespaced(np.from_dlpack(array)))

    result = dml.slice1(Namespaced(np.arange(4)), [0], [4], [-1])
    assert type(result) is Namespaced
    assert result.array.tolist() == [3, 2, 1, 0]


def test_other_devices_are_refused():
    with pytest.raises(dml.BindingError, match=r"split: x is an array of .* on device 0 of DLPack's kind 8"):
        dml.split(Elsewhere(np.arange(4)), 2)
    with pytest.raises(dml.BindingError, match=r"arrays\[1\] is an array of .*, but arrays\[0\] is an array of"):
        dml.join([Speaker(np.arange(4)), Elsewhere(np.arange(4))])


@pytest.mark.parametrize("place", ["x", ("x", "y"), (1,), None])
def test_a_device_that_is_none_is_refused(place):
    class Lost(Speaker):
        def __dlpack_device__(self):
            return place

    lost = Lost(np.arange(4))
    for call in (
        lambda: dml.flip(lost),
        lambda: dml.gather(np.arange(4), lost),
        lambda: dml.flip(np.arange(4), out=lost),
        lambda: dml.fuse(lambda x: x[::-1])(lost),
    ):
        with pytest.raises(dml.BindingError, match=r"a Lost whose __dlpack_device__\(\) returns .*two integers"):
            call()


def test_what_numpy_cannot_read_is_refused():
    class Broken(Speaker):
        def __dlpack__(self, **arguments):
            raise BufferError("not today")

    with pytest.raises(dml.BindingError, match=r"x is an array of .* that NumPy cannot read \(not today\)"):
        dml.split(Broken(np.arange(4)), 2)


def test_a_read_only_out_is_refused():
    frozen = np.zeros(4)
    frozen.flags.writeable = False
    with pytest.raises(dml.BindingError, match="out is read-only"):
        dml.join([Speaker(np.ones(4))], out=Speaker(frozen))
    assert dml.split(Speaker(frozen), 2)[0].array.tolist() == [0, 0]


def test_devices_of_one_library_are_told_apart():
    library = pytest.importorskip("array_api_strict")

    there = library.Device("device1")
    x, y = library.asarray([1, 2]), library.asarray([3, 4], device=there)
    assert dml.split(y, 2)[0].device == there
    with pytest.raises(
        dml.BindingError, match=r"arrays\[1\] is an array of array_api_strict on .*device1.*convert or move"
    ):
        dml.join([x, y])


def test_what_numpy_reads_is_numpys():
    class Subclass(np.ndarray):
        pass

    for x in ([1, 2], (1, 2), np.arange(2).view(Subclass), memoryview(b"ab"), range(2)):
        assert type(dml.join([x])) is np.ndarray
    assert type(dml.split(np.ma.array([1, 2]), 2)[0]) is np.ndarray


def test_no_library_is_imported_for_the_caller():
    code = """
import sys, numpy as np, anydml as dml
class Speaker:
    def __init__(self, array): self.array = array
    def __dlpack__(self, **arguments): return self.array.__dlpack__(**arguments)
    def __dlpack_device__(self): return (1, 0)
    @staticmethod
    def __array_namespace__(): return Speaker
    from_dlpack = staticmethod(lambda array: Speaker(np.from_dlpack(array)))
print(dml.split(Speaker(np.arange(4)), 2)[1].array.tolist(), {"torch", "jax", "cupy", "numba"} & set(sys.modules))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[2, 3] set()\n"


@pytest.mark.parametrize("arange", ["numpy.arange", "torch.arange"])
def test_arrays_of_known_libraries_import_no_other(arange):
    pytest.importorskip(arange.partition(".")[0])
    imports = f"import sys, numpy, {arange.partition('.')[0]}, anydml"
    code = f"{imports}; anydml.split({arange}(4), 2); print('array_api_compat' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"
