"""Words on arrays of another byte order: results have NumPy's dtype, which is native where NumPy promotes dtypes."""

import numpy as np
import pytest

import anydml as dml
from anydml.errors import FuseError

DTYPES = (">f2", ">f8", ">i2", ">u4", ">c8", ">c16", ">M8[s]", ">U3", "<f8", "u1")
WORDS = {
    "concatenate": lambda x, y, m: np.concatenate([x, y]),
    "concatenate flat": lambda x, y, m: np.concatenate([x, y], None),
    "concatenate one": lambda x, y, m: np.concatenate([x]),
    "concatenate by dtype": lambda x, y, m: np.concatenate([x, y], dtype=x.dtype),
    "stack": lambda x, y, m: np.stack([x, y], -1),
    "hstack": lambda x, y, m: np.hstack([x, y[:, :0], y]),
    "column_stack": lambda x, y, m: np.column_stack([x[0], y[1]]),
    "append": lambda x, y, m: np.append(x, y),
    "block": lambda x, y, m: np.block([[x, y], [y, x]]),
    "block of an array": lambda x, y, m: np.block(x),
    "where": lambda x, y, m: np.where(m, x, y),
    "select": lambda x, y, m: np.select([m], [x], y),
    "choose": lambda x, y, m: np.choose([1, 0, 1], [x, y]),
    "resize": lambda x, y, m: np.resize(x, (4, 5)),
    "tril": lambda x, y, m: np.tril(x),
    "triu": lambda x, y, m: np.triu(x[::-1], 1),
    "twice": lambda x, y, m: np.stack([np.concatenate([x, y]), np.concatenate([y, x])]).T,
    "pad": lambda x, y, m: np.pad(x, 1),
    "roll": lambda x, y, m: np.roll(x, 1),
    "tile": lambda x, y, m: np.tile(x, 2),
    "insert": lambda x, y, m: np.insert(x, 1, y[0], 0),
    "take": lambda x, y, m: np.take(x, [1, 0], 1),
    "view": lambda x, y, m: x[::-1].T,
}


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", WORDS)
def test_dtypes_are_numpys(name, dtype):
    rng = np.random.default_rng(1)
    fused = dml.fuse(WORDS[name])
    for shape in ((3, 3), (4, 3), (0, 3)):
        if name in ("choose", "twice", "column_stack", "insert") and 0 in shape:
            continue
        x, y = (rng.integers(0, 99, shape).astype(np.int64).astype(dtype) for _ in range(2))
        mask = rng.random(shape) < 0.5
        for given in ((x, y, mask), (x[::-1], np.asfortranarray(y), mask)):
            found, wanted = fused(*given), WORDS[name](*given)
            assert found.dtype == wanted.dtype
            assert found.dtype.byteorder == wanted.dtype.byteorder
            np.testing.assert_array_equal(found, wanted)


ELEMENTS = {
    "element": lambda x: x[1],
    "from the end": lambda x: x[-1],
    "view": lambda x: x[1, ...],
    "each": lambda x: [*x],
    "by an array": lambda x: x[np.array(1)],
    "taken": lambda x: np.take(x, 2),
    "taken by a method": lambda x: x.take(2),
    "of a scalar": lambda x: x[:1].reshape(())[()],
    "reshaped": lambda x: x[:1].reshape(()),
    "of a row": lambda x: x.reshape(2, 2)[1, 0],
    "stacked": lambda x: np.stack([x[0], x[2]]),
    "filled": lambda x: np.full(3, x[1]),
    "repeated": lambda x: np.repeat(x[1], 3),
    "inserted": lambda x: np.insert(x, 0, x[1]),
    "appended": lambda x: np.append(x, x[1]),
    "assigned": lambda x: assigned(x.copy(), x[2]),
    "assigned as it was": lambda x: assigned(x.copy(), x[2:3]),
    "assigned natively": lambda x: assigned(np.zeros(3, x.dtype.newbyteorder("=")), x[2]),
    "assigned to native ones": lambda x: assigned(np.zeros(3, x.dtype.newbyteorder("=")), x[2:3]),
}


def assigned(array, element):
    array[1:2] = element
    return array


@pytest.mark.parametrize("dtype", [">f2", ">f8", ">i2", ">c8", ">M8[s]", "<f4"])
@pytest.mark.parametrize("name", ELEMENTS)
def test_single_elements_are_native(name, dtype):
    function = ELEMENTS[name]
    fused = dml.fuse(function)
    for x in (np.arange(4), np.arange(8)[::-2]):
        array = x.astype(dtype)
        found, expected = fused(array), function(array)
        if name != "each":
            found, expected = [found], [expected]
        for one, other in zip(found, expected, strict=True):
            assert one.dtype.str == other.dtype.str
            np.testing.assert_array_equal(one, other)


def test_elements_of_records_keep_their_order():
    x = np.array([(1, 2), (3, 4)], [("a", ">f4"), ("b", "<i2")])
    assert dml.fuse(lambda x: x[1])(x).dtype == x.dtype
    assert dml.fuse(lambda x: x[1])(x).tolist() == (3, 4)


def test_orders_may_be_mixed():
    x = np.arange(6, dtype=">i4").reshape(2, 3)
    mixed = lambda x, y: np.concatenate([x, y, x.T.reshape(2, 3)])  # noqa: E731
    for other in (x.astype("<i4"), x):
        found = dml.fuse(mixed)(x, other)
        assert found.dtype == np.int32
        np.testing.assert_array_equal(found, mixed(x, other))


@pytest.mark.parametrize("dtype", [">f2", ">f8", ">i2", ">i8", ">c8", "<f4"])
@pytest.mark.parametrize("number", [0, 1, True, 0.5, -2])
@pytest.mark.parametrize(
    "function",
    [
        lambda x, number: np.where(np.eye(3, dtype=bool), x, number),
        lambda x, number: np.select([np.eye(3, dtype=bool)], [x], number),
        lambda x, number: np.concatenate([x[0], [number]]),
    ],
)
def test_numbers_beside_elements_in_another_order(function, number, dtype):
    x = np.arange(9).reshape(3, 3).astype(dtype)
    expected = function(x, number)
    if expected.dtype != x.dtype.newbyteorder("="):
        with pytest.raises(FuseError, match="convert them to one dtype first"):
            dml.fuse(lambda x: function(x, number))(x)
        return
    found = dml.fuse(lambda x: function(x, number))(x)
    assert found.dtype.str == expected.dtype.str
    np.testing.assert_array_equal(found, expected)


def test_choices_in_another_order_are_refused():
    rows = np.arange(6).reshape(2, 3)
    for dtype in (">i4", ">i8"):
        with pytest.raises(FuseError, match=f"in native byte order, not {dtype}"):
            dml.fuse(lambda a, x: np.choose(a, [x[0], x[1]]))(np.zeros(3, dtype), rows)


def test_structures_in_another_order_are_refused():
    with pytest.raises(FuseError, match=r"in the machine's byte order.*: pass it as"):
        dml.fuse(lambda x: np.concatenate([x, x]))(np.zeros(2, [("a", ">f4"), ("b", "i2")]))


ALIKE = ["<u2", ">u2", "<i2", "M8[s]", "M8[ms]", "m8[s]", ">M8[s]", "S2", "S3", "U1", "<U2", ">U2", "V2", "V3"]
ALIKE += [[("a", "u1"), ("b", "u1")], [("a", "u1"), ("c", "u1")], [("a", "<u2")], [("a", ">u2")]]
ALIKE += [{"names": ["a"], "formats": ["u1"], "offsets": [offset], "itemsize": 2} for offset in (0, 1)]


@pytest.mark.parametrize("function", [lambda x, k: x[k:].T, lambda x, k: np.concatenate([x[:, k:], x[:, :k]], 1)])
def test_dtypes_in_turn(function):
    """Dtypes that differ in lengths, units, fields or byte order alone, each in several calls of other sizes."""
    fused, rng = dml.fuse(function), np.random.default_rng(2)
    for number in rng.integers(0, len(ALIKE), 120):
        dtype = np.dtype(ALIKE[number])
        shape = (*rng.integers(1, 6, 2),)
        x = np.frombuffer(rng.integers(32, 99, shape[0] * shape[1] * dtype.itemsize, np.uint8).tobytes(), "V1")
        x = x.view(f"V{dtype.itemsize}").reshape(shape).view(dtype)
        k = int(rng.integers(0, 2))
        wanted = function(x, k)
        if dtype.names and not dtype.isnative and wanted.dtype != dtype:
            with pytest.raises(FuseError, match="in the machine's byte order"):
                fused(x, k)
            continue
        found = fused(x, k)
        assert found.dtype == wanted.dtype
        # NumPy copies no bytes between fields.
        assert (found == wanted).all() if dtype.names else found.tobytes() == wanted.tobytes()
    assert fused.counts.traces <= 2 * len(ALIKE)
