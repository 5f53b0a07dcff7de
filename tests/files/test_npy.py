from __future__ import annotations

import io
import math
import pickle
import tracemalloc
from unittest import mock

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from anydml.errors import ModelError
from anydml.files import npy
from anydml.files.location import Location
from anydml.tensor import DataType

HERE = Location("m.json", "here")
DTYPES = [t.dtype.newbyteorder(order) for t in DataType for order in "<>"]


def saved(array, **options) -> bytes:
    file = io.BytesIO()
    np.save(file, array, **options)
    return file.getvalue()


def read(path):
    found = npy.read_header(path, HERE)
    target = np.empty(math.prod(found.shape), found.dtype.newbyteorder("="))
    npy.read_elements(found, target, HERE)
    return found, target


@given(data=st.data())
def test_what_numpy_writes_is_read_in_c_order(data, tmp_path_factory):
    dtype = data.draw(st.sampled_from(DTYPES))
    array = data.draw(hnp.arrays(dtype, hnp.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=4)))
    array = data.draw(st.sampled_from([array, np.asfortranarray(array)]))
    path = tmp_path_factory.mktemp("npy") / "x.npy"
    path.write_bytes(saved(array))
    found, elements = read(path)
    assert found.shape == array.shape
    assert elements.dtype == dtype.newbyteorder("=")
    assert elements.astype(dtype).tobytes() == array.tobytes(order="C")


@given(
    array=hnp.arrays(np.int16, hnp.array_shapes(min_dims=2, max_dims=5, max_side=5), elements=st.integers(-9, 9)),
    chunk=st.integers(1, 40),
    order=st.sampled_from("<>"),
)
def test_columns_are_turned_piece_by_piece(array, chunk, order, tmp_path_factory):
    path = tmp_path_factory.mktemp("npy") / "x.npy"
    path.write_bytes(saved(np.asfortranarray(array.astype(f"{order}i2"))))
    with mock.patch.object(npy, "CONVERTED_BYTES", chunk):
        assert read(path)[1].tolist() == array.reshape(-1).tolist()


def test_columns_take_no_second_copy(tmp_path):
    path = tmp_path / "x.npy"
    for shape in ((2, 4_000_000), (4_000_000, 2), (200, 200, 200)):
        np.save(path, np.asfortranarray(np.zeros(shape, np.uint8)))
        found = npy.read_header(path, HERE)
        target = np.empty(found.byte_count, np.uint8)
        tracemalloc.start()
        npy.read_elements(found, target, HERE)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < npy.CONVERTED_BYTES + io.DEFAULT_BUFFER_SIZE + 100_000


@pytest.mark.parametrize("fortran", [False, True])
@given(shape=hnp.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=3))
def test_a_file_is_mapped_as_it_is(fortran, shape, tmp_path_factory):
    path = tmp_path_factory.mktemp("npy") / "x.npy"
    array = np.arange(np.prod(shape, dtype=int), dtype=">i4").reshape(shape)
    path.write_bytes(saved(np.asarray(array, order="F" if fortran else "C")))
    found = npy.map_elements(npy.read_header(path, HERE), HERE)
    np.testing.assert_array_equal(found, array, strict=True)


def test_a_declared_header_is_not_read(tmp_path):
    path = tmp_path / "x.npy"
    for version, length, size in ((2, 1_500_000_000, 1_600_000_000), (3, 2**32 - 1, 100), (1, 65_535, 70_000)):
        with path.open("wb") as file:
            file.write(b"\x93NUMPY" + bytes([version, 0]) + length.to_bytes(2 if version == 1 else 4, "little"))
            file.truncate(size)
        tracemalloc.start()
        with pytest.raises(ModelError, match=f"its header declares {length} bytes, but the maximum is 10000"):
            npy.read_header(path, HERE)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < 1_000_000


@pytest.mark.parametrize("version", [(1, 0), (2, 0), (3, 0)])
def test_versions(version, tmp_path):
    path = tmp_path / "x.npy"
    with path.open("wb") as file:
        np.lib.format.write_array(file, np.array([1, 2], np.int16), version=version)
    assert read(path)[1].tolist() == [1, 2]


GOOD = saved(np.arange(6, dtype=np.float32))


class Bomb:
    """Raises when it is unpickled."""

    def __reduce__(self):
        return pytest.fail, ("unpickled",)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (GOOD[:-4], "shape (6,) of float32, 24 bytes, but 20 bytes follow it"),
        (GOOD + b"more", "but 28 bytes follow it"),
        (GOOD.replace(b"(6,)", b"(9,)"), "shape (9,) of float32, 36 bytes"),
        (GOOD.replace(b"(6,), }" + b" " * 20, b"(60000000000000000000,), } "), "shape (60000000000000000000,)"),
        (GOOD[:-24].replace(b"(6,), }" + b" " * 20, b"(0,9223372036854775808), } "), "shape (0, 9223372036854775808)"),
        (GOOD.replace(b"(6,), ", b"(-6,),"), "shape (-6,)"),
        (GOOD.replace(b"(6,)", b"(1+"), "is not a .npy file"),
        (GOOD[:8] + b"\xf6\x00" + GOOD[10:-24].replace(b"(6,)", b"(%s)" % (b"1," * 65)), "header with 65 dimensions"),
        (GOOD[:6] + b"\x09\x00" + GOOD[8:], "version 9 is not known"),
        (GOOD[:20], "is not a .npy file"),
        (b"\x93NUMPY", "is not a .npy file"),
        (b"\x08\x08:S\n\x01\x02", r"is not a .npy file: it begins with b'\x08"),
        (b"", "is not a .npy file"),
        (pickle.dumps(Bomb()), "is not a .npy file"),
        (saved(np.array([Bomb()]), allow_pickle=True), "elements of type object"),
        (saved(np.zeros(2, [("a", "f4")])), "elements of type"),
        (saved(np.zeros(2, [("a", "f4")])).replace(b"[('a', '<f4')]", b"'(2,)f4'       "), "elements of type"),
    ],
)
def test_files_that_lie(data, message, tmp_path):
    path = tmp_path / "x.npy"
    path.write_bytes(data)
    with pytest.raises(ModelError) as caught:
        read(path)
    assert str(caught.value).startswith(f"m.json: here: {path} ")
    assert message in str(caught.value)


@given(st.binary(max_size=200))
def test_any_bytes_after_the_magic_are_an_error(tmp_path_factory, data):
    path = tmp_path_factory.mktemp("npy") / "x.npy"
    path.write_bytes(b"\x93NUMPY" + data)
    with pytest.raises(ModelError):
        read(path)


@pytest.mark.parametrize("order", ["C", "F"])
def test_a_file_that_shrinks_while_it_is_read(order, tmp_path):
    path = tmp_path / "x.npy"
    path.write_bytes(saved(np.ones((2, 3), np.float32, order=order)))
    found = npy.read_header(path, HERE)
    path.write_bytes(path.read_bytes()[:-4])
    with pytest.raises(ModelError, match="changed while it was read"):
        npy.read_elements(found, np.empty(6, np.float32), HERE)


def test_what_is_written_numpy_reads(tmp_path):
    path = tmp_path / "x.npy"
    with path.open("wb") as file:
        npy.write(file, np.arange(6, dtype=np.int64).reshape(2, 3))
    np.testing.assert_array_equal(np.load(path), [[0, 1, 2], [3, 4, 5]], strict=False)
