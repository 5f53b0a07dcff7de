"""Arrays of every dtype and every odd layout, for the tests of the functions."""

import math

import ml_dtypes
import numpy as np

NAMES = (
    *("?", "i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f2", "f4", "f8", "g", "F", "D", "G"),
    *(">i2", ">i4", ">u8", ">f4", ">f8", ">D", "M8[ns]", "m8[s]", ">M8[D]"),
    *("S1", "S3", "S7", "U1", "U5", ">U2", "V1", "V3", "V5", "V16"),
)
PLAIN = {name: np.dtype(name) for name in NAMES}
ML_NAMES = ("bfloat16", "float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "int4", "uint4")
ML = {name: np.dtype(getattr(ml_dtypes, name)) for name in ML_NAMES}
RECORDS = {
    "record": np.dtype([("a", "u1"), ("b", ">f4"), ("c", "S3")]),
    "aligned record": np.dtype([("a", "u1"), ("b", "f8"), ("c", "i2", (3,))], align=True),
}
MOVABLE = PLAIN | ML | RECORDS
STRINGS_AND_OBJECTS = {
    "object": np.dtype(object),
    "StringDType": np.dtypes.StringDType(),
    "record with object": np.dtype([("a", "i4"), ("b", object)]),
}
DTYPES = MOVABLE | STRINGS_AND_OBJECTS


def random_array(rng, dtype, shape):
    """Elements that all differ where the dtype has as many."""
    count = int(np.prod(shape))
    if dtype == STRINGS_AND_OBJECTS["object"]:
        values = np.empty(count, object)
        values[:] = [(f"object {i}", i) if i % 3 else i for i in range(count)]
        return values.reshape(shape)
    if dtype == STRINGS_AND_OBJECTS["StringDType"]:
        return np.array(["x" * (i * 7 % 40) + str(i) for i in range(count)], dtype).reshape(shape)
    if dtype == STRINGS_AND_OBJECTS["record with object"]:
        return np.array([(i, f"text {i}") for i in range(count)], dtype).reshape(shape)
    if dtype.kind == "U":
        letters = rng.integers(97, 123, (count, dtype.itemsize // 4)).astype("u4")
        return letters.view("U" + str(dtype.itemsize // 4)).reshape(-1)[:count].astype(dtype).reshape(shape)
    if dtype.kind == "b":
        return rng.integers(0, 2, shape).astype(bool)
    limit = 16 if dtype in (ML["int4"], ML["uint4"]) else 256
    raw = rng.integers(0, limit, count * dtype.itemsize, np.uint8)
    return np.ndarray(count, dtype, raw).reshape(shape)


def odd(rng, array):
    """The same elements in another layout: swapped, spread, reversed or unaligned, and read-only half of the time."""
    # One draw for all: each takes longer than to copy so few elements.
    drawn = rng.random(3 * array.ndim + 2).tolist()
    order = sorted(range(array.ndim), key=drawn.__getitem__)
    spread = [2 if drawn[array.ndim + d] < 1 / 3 else 1 for d in order]
    reverse = [drawn[2 * array.ndim + d] < 0.4 for d in order]
    shape = [array.shape[d] * s for d, s in zip(order, spread, strict=True)]
    if array.dtype.hasobject or array.dtype.kind == "T":
        base = np.empty(shape, array.dtype)
    else:
        size = math.prod(shape) * array.itemsize
        base = np.ndarray(shape, array.dtype, np.zeros(size + 3, np.uint8), int(4 * drawn[-2]))
    view = base[(..., *(slice(None, None, s) for s in spread))].transpose([order.index(d) for d in range(array.ndim)])
    view = view[(..., *(slice(None, None, -1 if r else 1) for r in reverse))]
    view[...] = array
    view.flags.writeable = drawn[-1] < 0.5
    return view


def content(array):
    """What an array holds, exactly: bytes where they are the elements, else the elements themselves."""
    if array.dtype.hasobject or array.dtype.kind == "T":
        return array.dtype, array.shape, array.tolist()
    if array.dtype.names:
        # NumPy leaves the gaps of records behind where it copies.
        return array.dtype, array.shape, [array[name].tobytes() for name in array.dtype.names]
    return array.dtype, array.shape, array.tobytes()


def same(result, expected):
    """Both arrays have one dtype, one shape and the same bytes."""
    assert content(result) == content(expected)
