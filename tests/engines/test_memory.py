"""Views of memory by offset and byte strides."""

import weakref

import ml_dtypes
import numpy as np
import pytest

from anydml.memory.host import address_of, array_at, element_dtype, owner_of, window


@pytest.mark.parametrize("size", [1, 2, 3, 4, 5, 8, 12, 16, 24])
def test_element_dtypes_have_their_size(size):
    assert element_dtype(size).itemsize == size


@pytest.mark.parametrize(
    "owner",
    [
        np.arange(48, dtype=np.uint8),
        np.arange(48, dtype=np.uint8).view(np.float16),
        np.arange(48, dtype=np.uint8).view("M8[s]"),
        np.arange(48, dtype=np.uint8).view([("a", "u1"), ("b", "<u2")]),
        np.arange(48, dtype=np.uint8).view("S4"),
    ],
    ids=lambda owner: str(owner.dtype),
)
@pytest.mark.parametrize(
    "offset, sizes, strides", [(0, (4,), (2,)), (7, (2, 3), (9, 1)), (47, (3,), (-5,)), (5, (), ())]
)
def test_windows_show_the_bytes(owner, offset, sizes, strides):
    seen = window(owner, offset, sizes, strides, np.dtype(np.uint8))
    expected = [offset + sum(c * s for c, s in zip(at, strides, strict=True)) for at in np.ndindex(*sizes)]
    assert seen.shape == sizes
    assert seen.ravel().tolist() == expected
    assert address_of(seen) == address_of(owner) + offset


def test_windows_before_the_first_element():
    base = np.arange(10, dtype=np.uint8)
    assert window(base[5:], -5, (10,), (1,), np.dtype(np.uint8)).tolist() == list(range(10))
    assert window(base[::-1], 0, (10,), (-1,), np.dtype(np.uint8)).tolist() == list(range(9, -1, -1))


def test_windows_keep_their_owner_and_its_protection():
    view = window(np.arange(1000), 8, (999,), (8,), np.dtype(np.int64))
    noise = [np.zeros(1000, np.int64) for _ in range(50)]
    assert view.tolist() == list(range(1, 1000))
    assert len(noise) == 50
    frozen = np.arange(4, dtype=np.int32)
    frozen.flags.writeable = False
    for offset, strides in ((0, (4,)), (12, (-4,))):
        assert not window(frozen, offset, (4,), strides, np.dtype(np.int32)).flags.writeable


class Owner:
    """Memory of another library's."""

    def __init__(self, count):
        self.memory = np.arange(count, dtype=np.int32)
        self.address = address_of(self.memory)


def test_arrays_at_an_address_show_it_and_keep_its_owner():
    owner = Owner(24)
    gone = weakref.ref(owner)
    array = array_at(owner.address + 4, owner, (3, 2), np.dtype(np.int32), (16, 4))
    packed = array_at(owner.address, owner, (2, 3), np.dtype(ml_dtypes.bfloat16))
    assert owner_of(array) is owner
    del owner
    assert array.tolist() == [[1, 2], [5, 6], [9, 10]]
    assert packed.dtype == ml_dtypes.bfloat16
    packed.view(np.uint16)[...] = 7
    assert gone().memory[:3].tolist() == [7 + (7 << 16)] * 3
    del array, packed
    assert gone() is None


@pytest.mark.parametrize("shape", [(), (0,), (3, 0)])
def test_arrays_at_any_address_may_be_empty_or_scalars(shape):
    owner = Owner(1)
    array = array_at(0 if shape else owner.address, owner, shape, np.dtype(np.int32))
    assert owner_of(array) is owner
    assert array.tolist() == np.zeros(shape, np.int32).tolist()
