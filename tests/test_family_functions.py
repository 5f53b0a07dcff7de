"""The functions of the whole family against NumPy: random shapes, dtypes, strides, `out`, fused, and as ONNX nodes."""

import math
from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest
from function_cases import DRAW, called, some
from odd_arrays import odd, random_array, same

import anydml as dml
from anydml.operators import FUNCTIONS
from anydml.operators.problem import camel

CALLS = 120
SEVEN = {"split", "join", "slice", "slice1", "gather", "split_training", "concat_training"}


def dtype_for(rng, name):
    if name == "sequence":
        return some(rng, *map(np.dtype, ("i1", "u2", ">i4", "u8", "f2", "f4", ">f8", "D")))
    return some(rng, *map(np.dtype, ("?", "i1", "u2", ">i4", "f4", "f8", "D", "U3", "S5", "V7", "O")))


def test_every_function_is_drawn():
    assert set(DRAW) == set(FUNCTIONS) - SEVEN


@pytest.mark.parametrize("name", DRAW)
def test_random_calls(name):
    rng = np.random.default_rng([7, *name.encode()])
    function = getattr(dml, name)
    for _ in range(CALLS):
        arguments, expected = DRAW[name](rng, dtype_for(rng, name))
        found = called(function, arguments)
        same(found, expected)
        assert found.flags.c_contiguous
        out = odd(rng, np.empty_like(expected, order="C")) if rng.random() < 0.7 else np.empty_like(expected)
        try:
            assert called(function, arguments, out=out) is out
        except dml.BindingError:
            # It overlaps itself, or is read-only.
            continue
        same(out, expected)


@pytest.mark.parametrize("dtype", ["u1", "i2", "u4", "i8", "f4", "f8"])
def test_sequences_that_threads_share(dtype):
    numbers = np.arange(300_007)
    for numbers_given in ((3, 5), (200, 55) if dtype[0] == "u" else (7, -2), (0.1, 0.3) if dtype[0] == "f" else (0, 1)):
        start, delta = (np.dtype(dtype).type(each).item() for each in numbers_given)
        same(dml.sequence(np.empty(numbers.shape, dtype), start, delta), (start + numbers * delta).astype(dtype))


@pytest.mark.parametrize(
    "name", ["int2", "int4", "uint4", "float8_e4m3fn", "float8_e5m2", "float6_e2m3fn", "float4_e2m1fn", "bfloat16"]
)
@pytest.mark.parametrize("start, delta", [(0, 1), (1, -1), (-2, 1), (0.5, 0.5)])
def test_sequences_of_extended_numbers(name, start, delta):
    dtype = np.dtype(getattr(ml_dtypes, name))
    if (name[0] == "u" and min(start, delta) < 0) or ("int" in name and start % 1):
        return
    found = dml.sequence(np.empty((3, 4), dtype), start, delta)
    numbers = [start + k * delta for k in range(12)]
    if "int" in name:
        bits = ml_dtypes.iinfo(dtype).bits
        low = int(ml_dtypes.iinfo(dtype).min)
        expected = [(number - low) % (1 << bits) + low for number in numbers]
        assert found.dtype == dtype
        assert found.ravel().astype(int).tolist() == expected
    else:
        same(found, np.array(numbers).astype(dtype).reshape(3, 4))


@pytest.mark.parametrize("name", ["complex32", "bcomplex32"])
def test_complex_numbers_of_halves(name):
    dtype = np.dtype(getattr(ml_dtypes, name))
    same(dml.sequence(np.empty(3, dtype), 1 + 2j, -1j), np.array([1 + 2j, 1 + 1j, 1]).astype(dtype))
    same(dml.fill(np.empty(2, dtype), 1 - 2j), np.array([1 - 2j] * 2).astype(dtype))
    for value in (1e39, 1e39j):
        with pytest.raises(dml.DescError, match=r"fill: value is \S+, which is not an element of b?complex32: "):
            dml.fill(np.empty(2, dtype), value)


@pytest.mark.parametrize("name", DRAW)
def test_fused(name):
    rng = np.random.default_rng([8, *name.encode()])
    function, own = getattr(dml, name), FUNCTIONS[name]
    for _ in range(25):
        arguments, expected = DRAW[name](rng, np.dtype("f4"))
        arrays = [k for k, each in enumerate(own.parameters) if each.is_array]
        given = [arguments[k] for k in arrays]
        if not own.is_of_lists:
            # As they are looked up on a GPU, too.
            kinds = [own.parameters[k].kind for k in arrays]
            given = [x.astype(np.int64) if kind == "Indices" else x for x, kind in zip(given, kinds, strict=True)]

        def traced(*inputs, arguments=arguments, arrays=arrays):
            changed = [*arguments]
            for k, each in zip(arrays, inputs, strict=True):
                changed[k] = each
            return called(function, changed)

        if own.is_of_lists:
            fused = dml.fuse(lambda *parts, rest=arguments[1:]: function([*parts], *rest))
            given = given[0]
        else:
            fused = dml.fuse(traced)
        same(fused(*given), expected)


COMPOSED = ("tile", "pad", "permute_dims", "flip", "roll", "repeat", "broadcast_to", "stack")


@pytest.mark.parametrize("name", COMPOSED)
def test_what_composes_takes_no_memory(name):
    calls = {
        "tile": ([2, 2],), "pad": ([1, 0, 0, 2], "reflect"), "permute_dims": ([1, 0],), "flip": (), "roll": (1, 0),
        "repeat": (2, 1), "broadcast_to": ([2, 6, 4],),
    }  # fmt: skip
    function = getattr(dml, name)
    arguments = calls.get(name)
    x = np.arange(24).reshape(4, 6)

    def made(x):
        return function([x, x[::-1]]) if arguments is None else function(x.T, *arguments)

    fused = dml.fuse(made)
    assert np.array_equal(fused(x), made(x))
    assert fused.lower(x).scratch_bytes == 0


@pytest.mark.parametrize("name", DRAW)
def test_onnx_nodes(name):
    onnx = pytest.importorskip("onnx")
    from anydml.onnx import backend

    rng = np.random.default_rng([9, *name.encode()])
    own = FUNCTIONS[name]
    for _ in range(10):
        arguments, expected = DRAW[name](rng, np.dtype("f4"))
        inputs, attributes = [], {}
        for each, value in zip(own.parameters, arguments, strict=False):
            if each.kind == "Arrays":
                inputs += value
            elif each.is_array:
                inputs.append(value.astype(np.int64) if each.kind == "Indices" else value)
            elif value is not None:
                attributes[each.name] = float(value) if each.kind == "Scalar" else value
        names = [f"x{k}" for k in range(len(inputs))]
        node = onnx.helper.make_node(camel(name), names, ["y"], domain="anydml")
        for key, value in attributes.items():
            is_list = isinstance(value, list)
            kind = onnx.AttributeProto.INTS if is_list else None
            node.attribute.append(onnx.helper.make_attribute(key, value, attr_type=kind))
        infos = [
            onnx.helper.make_tensor_value_info(key, onnx.helper.np_dtype_to_tensor_dtype(x.dtype), x.shape)
            for key, x in zip(names, inputs, strict=True)
        ]
        result = onnx.helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, expected.shape)
        graph = onnx.helper.make_graph([node], "one", infos, [result])
        opsets = [onnx.helper.make_opsetid("", 18), onnx.helper.make_opsetid("anydml", 1)]
        model = onnx.helper.make_model(graph, opset_imports=opsets, ir_version=10)
        (found,) = backend.prepare(model).run(inputs)
        same(found, expected)


X = np.arange(6.0).reshape(2, 3)
PAIRS = np.zeros(2, [("a", "f4"), ("b", [("v", "f4", 2), ("n", "i4")])])


@pytest.mark.parametrize(
    "call, message",
    [
        (lambda: dml.tile(X, [-1]), r"tile: repeats is \[-1\]"),
        (lambda: dml.pad(X, [1, 2]), "pad: pads has 2 entries, but x has 2 dimensions"),
        (lambda: dml.pad(X, [1, 2, -1, 0]), "pad: pads of dimension 0 are 1 and -1"),
        (lambda: dml.pad(X, [0] * 4, "mirror"), "pad: mode is 'mirror'"),
        (lambda: dml.pad(X[:0], [1, 0, 0, 0], "edge"), "dimension 0 of x is empty, and mode is 'edge'"),
        (lambda: dml.pad(X.astype("i1"), [0] * 4, value=1000), "value is 1000, which is not an element of int8"),
        (lambda: dml.permute_dims(X, [0, 0]), r"permute_dims: axes is \[0, 0\]"),
        (lambda: dml.permute_dims(X, [0]), "axes has 1 entry"),
        (lambda: dml.flip(X, 2), "flip: axis is 2"),
        (lambda: dml.roll(X, [1, 2], [0, 1, 1]), "shift has 2 entries, but axis has 3"),
        (lambda: dml.repeat(X, -1, 0), "repeat: repeats is -1"),
        (lambda: dml.broadcast_to(X, [4, 3]), r"shape is \(4, 3\), but x has shape \(2, 3\)"),
        (lambda: dml.stack([X, X[0]]), r"arrays\[1\] has shape \(3,\)"),
        (lambda: dml.stack([]), "there are no arrays to stack"),
        (lambda: dml.gather_elements(X, X), "gather_elements: indices are float64"),
        (lambda: dml.gather_elements(X, [0]), "indices have 1 dimension, but x has 2"),
        (lambda: dml.gather_elements(X, np.zeros((1, 4), int)), r"indices.shape\[1\] is 4"),
        (lambda: dml.gather_elements(X[:0], [[0]]), "axis 0 of x is empty, but there are indices"),
        (lambda: dml.gather_nd(X[:0], [[0]]), r"x.shape is \(0, 3\), but there are indices"),
        (lambda: dml.scatter(X, [[0]], [[1.0, 2.0]]), "updates have shape"),
        (lambda: dml.scatter(X, [[0]], np.array([[1]])), "updates is int64, but x is float64"),
        (lambda: dml.gather_nd(X, [[0, 0, 0]]), "3 coordinates for 2 dimensions"),
        (lambda: dml.scatter_nd(X, [[0]], X[0]), "must have"),
        (lambda: dml.diagonal_matrix(X[0], 1), "diagonal_matrix: x has 1 dimension"),
        (lambda: dml.one_hot([0], X, 2), "one_hot: values have shape"),
        (lambda: dml.slice_grad(X, [2, 3], [0, 0], [2, 4], [1, 1]), "the window in axis 1 is 0 … 4"),
        (lambda: dml.space_to_depth(X, 2), "space_to_depth: x has 2 dimensions"),
        (
            lambda: dml.depth_to_space(np.zeros((1, 3, 2, 2)), 2),
            r"x.shape\[1\] is 3: x.shape\[1\] must be a multiple of 4",
        ),
        (
            lambda: dml.unfold(np.zeros((1, 1, 3)), [4]),
            r"window_sizes\[0\] is 4, or 4 with dilations, but x has 3 with pads",
        ),
        (lambda: dml.reverse_subsequences(X, [1, 2]), r"lengths have shape \[2\], but must have \[2, 1\]"),
        (lambda: dml.sequence(np.array(["a"]), "a", "b"), "sequence: x is <U1, but only numbers make a sequence"),
        (lambda: dml.fill(X.astype("i1"), 300), "fill: value is 300, which is not an element of int8"),
        (
            lambda: dml.fill(X.astype("i8"), 2.9),
            "fill: value is 2.9, which is not an element of int64: it has a fraction",
        ),
        (lambda: dml.fill(X.astype("u1"), -0.5), "value is -0.5, which is not an element of uint8: it has a fraction"),
        (lambda: dml.fill(X.astype("i4"), np.float32(0.5)), "which is not an element of int32: it has a fraction"),
        (
            lambda: dml.fill(X.astype("i4"), np.array(2.5, np.longdouble)),
            "which is not an element of int32: it has a fraction",
        ),
        (lambda: dml.fill(X.astype("i4"), Fraction(5, 2)), "which is not an element of int32: it has a fraction"),
        (lambda: dml.fill(X.astype(ml_dtypes.int4), 2.9), "which is not an element of int4: it has a fraction"),
        (lambda: dml.fill(PAIRS, (1.5, (2.5, 3.5))), "not an element of .*: it has a fraction: round it"),
        (
            lambda: dml.fill(X.astype("S3"), "longer"),
            r"'longer', which is not an element of \|S3: .* stored as .*b'lon'",
        ),
        (lambda: dml.fill(X.astype("U3"), 12345), "value is 12345, which is not an element of <U3"),
        (lambda: dml.pad(np.zeros(1, "S3"), [1, 1], value=np.bytes_(b"longer")), r"not an element of \|S3"),
        (lambda: dml.fill(np.zeros(2, "V3"), b"longer"), r"b'longer', which is not an element of \|V3"),
        (lambda: dml.fill(np.zeros(2, [("a", "S2"), ("b", "i4")]), (b"abc", 1)), "it would be stored as .*b'ab'"),
        (lambda: dml.fill(np.zeros(2, "M8[D]"), np.datetime64("2026-12-01T12:30")), "would be stored as .*2026-12-01"),
        (lambda: dml.fill(np.zeros(2, "M8[ns]"), np.datetime64(3000, "Y")), r"not an element of datetime64\[ns\]"),
        (lambda: dml.fill(np.zeros(2, "M8[D]"), np.timedelta64(1, "D")), "pass a datetime"),
        (lambda: dml.fill(np.zeros(2, "m8[s]"), np.datetime64(1, "s")), "pass a timedelta"),
        (lambda: dml.fill(np.zeros(2, "m8[s]"), np.timedelta64(1500, "ms")), "would be stored as .*1"),
        (lambda: dml.fill(np.zeros(2, "m8[s]"), np.uint64(1 << 63)), r"not an element of timedelta64\[s\]"),
        (lambda: dml.fill(np.zeros(2, ml_dtypes.float8_e4m3fn), float("inf")), "it would be stored as nan"),
        (
            lambda: dml.fill(X.astype("f2"), 65520),
            "65520, which is not an element of float16: it would be stored as inf",
        ),
        (lambda: dml.fill(X.astype("f4"), -1e39), "not an element of float32: it would be stored as inf"),
        (lambda: dml.fill(X.astype("F"), 1e39j), "not an element of complex64: it would be stored as inf"),
        (lambda: dml.fill(np.zeros(1, [("a", "f2")]), (1e5,)), "it would be stored as inf"),
        (lambda: dml.permute_dims(X, {1, 0}), r"axes is \{0, 1\}, but it must be a list of integers"),
        (lambda: dml.tile(X, {0: 2, 1: 3}), r"repeats is \{0: 2, 1: 3\}, but it must be a list of integers"),
        (lambda: dml.fill(X.astype("i8"), float("nan")), "cannot convert float NaN to integer"),
        (lambda: dml.fill(X.astype("i8"), float("inf")), "inf, which is not an element of int64: it holds -9223372036"),
        (lambda: dml.sequence(X.astype("i8"), 0, 0.5), "sequence: delta is 0.5, which is not an element of int64"),
        (lambda: dml.sequence(X.astype("i8"), 0.5, 1), "sequence: start is 0.5, which is not an element of int64"),
        (lambda: dml.pad(X.astype("i8"), [1] * 4, value=2.9), "pad: value is 2.9, which is not an element of int64"),
        (lambda: dml.diagonal_matrix(X.astype("i8"), 2.9), "diagonal_matrix: value is 2.9, which is not an element"),
        (lambda: dml.fuse(lambda x: dml.fill(x, 2.9))(X.astype("i8")), "fill: value is 2.9, which is not an element"),
        (lambda: dml.fill(X, None), "fill: value is None, which is not an element of float64: pass a number"),
        (lambda: dml.fill(X, "3"), "value is '3', which is not an element of float64: pass a number"),
        (lambda: dml.pad(X, [0] * 4, value=np.datetime64("2020")), "not an element of float64: pass a number"),
        (lambda: dml.fill(X, np.timedelta64(3, "s")), "not an element of float64: pass a number"),
        (lambda: dml.fill(X, np.array(None)), "not an element of float64: pass a number"),
        (lambda: dml.fill(X, np.ma.masked), "value is masked, which is not an element of float64: pass a number"),
        (lambda: dml.fill(X > 0, [1]), r"value is \[1\], which is not an element of bool: pass a number"),
        (lambda: dml.fill(X > 0, object()), "which is not an element of bool: pass a number"),
        (lambda: dml.fill(X, bytearray(b"3")), "not an element of float64: pass a number"),
        (lambda: dml.fill(X, np.void(b"1234")), "not an element of float64: pass a number"),
        (lambda: dml.fill(X.astype("i1"), np.array(300)), "value is array.300., which is not an element of int8"),
        (lambda: dml.fill(X.astype("u1"), np.int8(-1)), "which is not an element of uint8"),
        (lambda: dml.fill(X, np.complex128(1 + 2j)), "which is not an element of float64"),
        (lambda: dml.fill(X, np.ones(1)), "not an element of float64: it has 1 dimension: pass one element of it"),
        (lambda: dml.diagonal_matrix(X, np.ones((1, 1))), "it has 2 dimensions: pass one element of it"),
        (lambda: dml.fill(PAIRS, (None, 1)), r"value is \(None, 1\), which is not an element of .*: pass a number"),
        (lambda: dml.fill(PAIRS, (1, (None, 2))), "not an element of .*: pass a number"),
        (lambda: dml.fill(PAIRS, ("2", (1, 2))), "not an element of .*: pass a number"),
        (lambda: dml.fill(PAIRS, (1, ([None, 1], 2))), "not an element of .*: pass a number"),
        (lambda: dml.fill(PAIRS, (1, ([1, 1], 2**40))), "out of bounds for int32"),
        (lambda: dml.fill(PAIRS, None), "value is None, which is not an element of .*: pass a number"),
        (lambda: dml.fill(PAIRS, np.array("1")), "not an element of .*: pass a number"),
        (lambda: dml.fill(PAIRS, np.array((1, "2"), "f4, U1")), "not an element of .*: pass a number"),
        (lambda: dml.fill(PAIRS, (1, 2, 3)), "not an element of .*: could not assign tuple of length 3"),
        (lambda: dml.fill(np.zeros(2, "V2"), 1), r"but NumPy knows only the size of \|V2: fill with 0"),
        (lambda: dml.where(X, X, X), "where: condition is float64, but a mask must have bools"),
        (lambda: dml.where(X > 1, X, X.astype("f4")), "where: y is float32, but x is float64"),
        (lambda: dml.where(X[:, :2] > 1, X, X), r"condition has shape \(2, 2\), x has shape \(2, 3\)"),
        (lambda: dml.upsample(X, [0, 1]), r"upsample: scales is \[0, 1\]"),
    ],
)
def test_broken_rules(call, message):
    with pytest.raises(dml.DescError, match=message):
        call()


@pytest.mark.parametrize("dtype", ["u1", "i2", "i8", "u8", "f2", "f8", "c16", "?", ml_dtypes.int4, ml_dtypes.bfloat16])
@pytest.mark.parametrize("value", [0.0, -0.0, 2.0, 1e2, np.float32(3), np.array(5.0), 2**7 - 1])
def test_whole_numbers_fill_all_dtypes(value, dtype):
    x = np.zeros(3, dtype)
    if x.dtype == ml_dtypes.int4 and value > 7:
        with pytest.raises(dml.DescError, match="which is not an element of int4"):
            dml.fill(x, value)
        return
    assert dml.fill(x, value).tobytes() == np.full_like(x, float(value)).tobytes()


@pytest.mark.parametrize(
    "value",
    [
        3,
        2.0,
        (1, 2),
        (1, ([1, 2], 3)),
        (1.5, (7, 3)),
        (1.5, (np.ones(2), 3)),
        np.array((1, 2), "f4, i8"),
        np.array((1, ([1, 2], 3)), PAIRS.dtype),
    ],
)
def test_structures_as_numpy_fills_them(value):
    expected = np.zeros((), PAIRS.dtype)
    expected[()] = value
    assert np.array_equal(dml.fill(PAIRS, value), np.broadcast_to(expected, PAIRS.shape))


def test_dtypes_are_kept():
    for name in ("f2", "i8", "?"):
        assert dml.pad(np.zeros(3, name), [1, 1], value=1).dtype == np.dtype(name)


@pytest.mark.parametrize("dtype", ["?", "i4", "f4", "D", "U2"])
@pytest.mark.parametrize("shape", [(), (5,), (3, 4), (2, 0, 3), (300, 70)])
def test_coordinates_of_what_is_not_zero(shape, dtype):
    rng = np.random.default_rng(3)
    x = random_array(rng, np.dtype(dtype), shape)
    x[...] = np.where(rng.random(shape) < 0.5, np.zeros((), dtype), x)
    found = dml.nonzero_coordinates(x)
    assert found.dtype == np.int64
    assert np.array_equal(found, np.argwhere(x))
    assert np.array_equal(dml.nonzero_coordinates(x.T), np.argwhere(x.T))


def test_zeros_have_signs_and_nan_is_none():
    x = np.array([[1, 0, 0, 2], [-0.0, 3.5, np.nan, -5.2]], np.float32)
    assert dml.nonzero_coordinates(x).tolist() == [[0, 0], [0, 3], [1, 1], [1, 2], [1, 3]]
    torch = pytest.importorskip("torch")
    found = dml.nonzero_coordinates(torch.from_numpy(x).bfloat16())
    assert isinstance(found, torch.Tensor)
    assert found.tolist() == np.argwhere(x).tolist()
    with pytest.raises(dml.FuseError, match=r"nonzero_coordinates: .*shapes would depend on elements"):
        dml.fuse(dml.nonzero_coordinates).lower(x)


@pytest.mark.parametrize("kind", [np.int8, np.uint8, np.int64])
def test_numbers_of_numpys_are_numbers(kind):
    x = np.arange(12).reshape(3, 4)
    assert np.array_equal(dml.roll(x, kind(2), kind(1)), np.roll(x, 2, 1))
    assert np.array_equal(dml.roll(x, kind(1), (0, 1)), np.roll(x, 1, (0, 1)))
    assert np.array_equal(dml.flip(x, kind(1)), np.flip(x, 1))
    assert all(map(np.array_equal, dml.split(x, kind(2), kind(1)), np.split(x, 2, 1)))


@pytest.mark.parametrize(
    "name", ["int2", "int4", "uint4", "bfloat16", "float8_e4m3fn", "float8_e5m2", "float8_e8m0fnu", "float4_e2m1fn"]
)
def test_numbers_that_an_extended_dtype_lacks_are_refused_not_wrapped_nor_made_nan(name):
    dtype = np.dtype(getattr(ml_dtypes, name))
    info = (ml_dtypes.iinfo if "int" in name else ml_dtypes.finfo)(dtype)
    low, high = float(info.min), float(info.max)
    x = np.zeros(2, dtype)
    for value in (0, 1, -1, -2, 3, 7, 8, 15, 16, 20, -9, 300, 1e39, math.inf, math.nan):
        if low <= value <= high:
            assert abs(float(dml.fill(x, value)[0]) - value) <= abs(value) / 2
        elif "int" in name:
            with pytest.raises(dml.DescError, match=rf"fill: value is \S+, which is not an element of {name}: "):
                dml.fill(x, value)
        else:
            try:
                found = float(dml.fill(x, value)[0])
            except dml.DescError:
                continue
            assert math.isfinite(found) == math.isfinite(value)


@pytest.mark.parametrize("methods", [["__index__"], ["__int__", "__float__"], ["__index__", "__int__", "__float__"]])
def test_objects_that_become_numbers_fill_integers_as_in_numpy(methods):
    results = {"__index__": 3, "__int__": 3, "__float__": 3.0}
    number = type("Number", (), {name: lambda self, value=results[name]: value for name in methods})()
    np.testing.assert_array_equal(dml.fill(X.astype("i4"), number), np.full(X.shape, number, np.int32))
