"""The numeric examples of the documents, on every engine; where a page misprints one, the comment says so."""

import numpy as np
import pytest

import anydml as dml

DEVICES = ("reference", "numpy", "cpu")
PAD = np.array([[1, 2, 3, 4], [5, 6, 7, 8]] * 2)
MATRIX = np.array([[4, 7, 3, 7, 9], [1, 2, 8, 6, 9], [9, 4, 1, 8, 7], [4, 3, 4, 2, 4]])
INT_MIN = -(2**31)


def numbers(text):
    """Rows of numbers, one a line."""
    return np.array([[float(n) for n in line.split()] for line in text.strip().splitlines()])


def tensor(array, dtype="FLOAT32"):
    return dml.TensorDesc(dtype, np.shape(array))


def check(desc, inputs, expected):
    """`desc` gives `expected` on every engine; arrays in the desc's sizes and types."""
    arrays = [
        np.asarray(values).reshape(t.sizes).astype(t.data_type.dtype)
        for (_, t), values in zip(desc.inputs, inputs, strict=True)
    ]
    output = desc.outputs[0][1]
    right = np.asarray(expected).reshape(output.sizes).astype(output.data_type.dtype)
    for device in DEVICES:
        result = np.full(output.sizes, 77, output.data_type.dtype)
        dml.Device(device).compile_operator(desc).bind(arrays, [result]).dispatch()
        np.testing.assert_array_equal(result, right, device)


def f32(*sizes):
    return dml.TensorDesc("FLOAT32", sizes)


def indices(*sizes, data_type="UINT32"):
    return dml.TensorDesc(data_type, sizes)


def test_slice_grad():
    expected = numbers("1 0 2 0\n0 0 0 0\n3 0 4 0\n0 0 0 0")
    for size in (3, 4):
        desc = dml.SliceGradOperatorDesc(f32(2, 2), f32(4, 4), [0, 0], [size, size], [2, 2])
        check(desc, [[1, 2, 3, 4]], expected)


def test_gather_elements():
    desc = dml.GatherElementsOperatorDesc(f32(3, 3), indices(2, 3), f32(2, 3), 0)
    check(desc, [np.arange(1, 10), [[1, 2, 0], [2, 0, 0]]], [[4, 8, 3], [7, 2, 3]])


@pytest.mark.parametrize("is_new", [False, True])
def test_gather_nd(is_new):
    def desc(*arguments):
        return dml.GatherNd1OperatorDesc(*arguments, 0) if is_new else dml.GatherNdOperatorDesc(*arguments)

    check(desc(f32(2, 2), indices(2, 1), f32(2, 2), 2, 2), [[0, 1, 2, 3], [1, 0]], [[2, 3], [0, 1]])
    check(
        desc(f32(1, 2, 2, 2), indices(1, 1, 2, 2), f32(1, 1, 2, 2), 3, 2),
        [np.arange(8), [[0, 1], [1, 0]]],
        [[2, 3], [4, 5]],
    )
    # Its size formula contradicts this example of its own, which is right.
    desc(f32(3, 4, 5, 6, 7), indices(1, 1, 1, 2, 3), f32(1, 1, 2, 6, 7), 5, 3).check()


def test_gather_nd1_with_a_batch():
    desc = dml.GatherNd1OperatorDesc(f32(1, 3, 2, 2), indices(1, 3, 2, 2), f32(1, 1, 3, 2), 3, 3, 1)
    where = [[[0, 0], [1, 1]], [[1, 1], [0, 0]], [[0, 1], [1, 0]]]
    check(desc, [np.arange(12), where], [[0, 3], [7, 4], [9, 10]])


def test_scatter():
    desc = dml.ScatterOperatorDesc(f32(5), indices(4), f32(4), f32(5), 0)
    # Index 3 stands there twice; the page prints the last.
    check(desc, [np.arange(5), [3, 1, 3, 0], [5, 6, 7, 8]], [8, 6, 2, 7, 4])
    # The page labels the input {2,3}; it is {3,3}.
    desc = dml.ScatterOperatorDesc(f32(3, 3), indices(2, 3), f32(2, 3), f32(3, 3), 0)
    inputs = [np.zeros(9), [[1, 0, 2], [0, 2, 1]], [[10, 11, 12], [20, 21, 22]]]
    check(desc, inputs, [[20, 11, 0], [10, 0, 22], [0, 21, 12]])


def test_scatter_nd():
    # The page gives the three tensors three DimensionCounts; these are the sizes of a valid desc.
    desc = dml.ScatterNdOperatorDesc(f32(1, 8), indices(4, 1), f32(1, 4), f32(1, 8), 1, 2)
    check(desc, [np.arange(1, 9), [4, 3, 1, 7], [9, 10, 11, 12]], [1, 11, 3, 10, 9, 6, 7, 12])
    sizes = f32(3, 4, 5, 6, 7)
    dml.ScatterNdOperatorDesc(sizes, indices(1, 1, 1, 2, 3), f32(1, 1, 2, 6, 7), sizes, 5, 3).check()


def test_tile():
    expected = np.tile([[1, 2, 3], [4, 5, 6]], (3, 3))
    check(dml.TileOperatorDesc(f32(1, 1, 2, 3), f32(1, 1, 6, 9), [1, 1, 3, 3]), [range(1, 7)], expected)


PADDED = {
    "CONSTANT": """
        9 9 9 9 9 9 9 9 9 9
        9 9 1 2 3 4 9 9 9 9
        9 9 5 6 7 8 9 9 9 9
        9 9 1 2 3 4 9 9 9 9
        9 9 5 6 7 8 9 9 9 9
        9 9 9 9 9 9 9 9 9 9
        9 9 9 9 9 9 9 9 9 9
        9 9 9 9 9 9 9 9 9 9""",
    "EDGE": """
        1 1 1 2 3 4 4 4 4 4
        1 1 1 2 3 4 4 4 4 4
        5 5 5 6 7 8 8 8 8 8
        1 1 1 2 3 4 4 4 4 4
        5 5 5 6 7 8 8 8 8 8
        5 5 5 6 7 8 8 8 8 8
        5 5 5 6 7 8 8 8 8 8
        5 5 5 6 7 8 8 8 8 8""",
    "REFLECTION": """
        7 6 5 6 7 8 7 6 5 6
        3 2 1 2 3 4 3 2 1 2
        7 6 5 6 7 8 7 6 5 6
        3 2 1 2 3 4 3 2 1 2
        7 6 5 6 7 8 7 6 5 6
        3 2 1 2 3 4 3 2 1 2
        7 6 5 6 7 8 7 6 5 6
        3 2 1 2 3 4 3 2 1 2""",
    "SYMMETRIC": """
        2 1 1 2 3 4 4 3 2 1
        2 1 1 2 3 4 4 3 2 1
        6 5 5 6 7 8 8 7 6 5
        2 1 1 2 3 4 4 3 2 1
        6 5 5 6 7 8 8 7 6 5
        6 5 5 6 7 8 8 7 6 5
        2 1 1 2 3 4 4 3 2 1
        6 5 5 6 7 8 8 7 6 5""",
}


@pytest.mark.parametrize("mode", PADDED)
def test_padding(mode):
    x, y, pads = f32(1, 1, 4, 4), f32(1, 1, 8, 10), ([0, 0, 1, 2], [0, 0, 3, 4])
    expected = numbers(PADDED[mode])
    check(dml.PaddingOperatorDesc(x, y, mode, 9, *pads), [PAD], expected)
    check(dml.Padding1OperatorDesc(x, y, f"DML_PADDING_MODE_{mode}", "FLOAT32", 9, *pads), [PAD], expected)


MODES = {"EDGE": "edge", "REFLECTION": "reflect", "SYMMETRIC": "symmetric", "WRAP": "wrap"}


@pytest.mark.parametrize("mode", MODES)
def test_padding_is_numpys(mode):
    """Whatever the size, a size of 1 included, and however far the padding goes."""
    for size in (1, 2, 3, 5):
        for start in range(0, 14, 3):
            for end in range(0, 14, 4):
                desc = dml.PaddingOperatorDesc(f32(size, 2), f32(start + size + end, 3), mode, 0, [start, 0], [end, 1])
                x = np.arange(2 * size).reshape(size, 2)
                check(desc, [x], np.pad(x, [(start, end), (0, 1)], MODES[mode]))


@pytest.mark.parametrize(
    "data_type, value, element",
    [
        ("FLOAT16", 10.6, np.float16(np.float32(10.6))),
        ("INT32", 10.6, 10),
        ("INT32", -10.6, -10),
        ("UINT8", 300, 255),
        ("UINT8", -1, 0),
        ("INT8", float("inf"), 127),
        ("INT64", float("-inf"), -(2**63)),
        ("UINT64", float("nan"), 0),
    ],
)
def test_floats_are_truncated_and_held(data_type, value, element):
    x, y = dml.TensorDesc(data_type, [1]), dml.TensorDesc(data_type, [2])
    check(dml.PaddingOperatorDesc(x, y, "CONSTANT", value, [0], [1]), [[1]], np.array([1, element], x.data_type.dtype))


DEPTH = np.arange(72)
SPACE = {
    "DEPTH_COLUMN_ROW": """
        0 18 1 19 2 20
        36 54 37 55 38 56
        3 21 4 22 5 23
        39 57 40 58 41 59
        9 27 10 28 11 29
        45 63 46 64 47 65
        12 30 13 31 14 32
        48 66 49 67 50 68""",
    "COLUMN_ROW_DEPTH": """
        0 9 1 10 2 11
        18 27 19 28 20 29
        3 12 4 13 5 14
        21 30 22 31 23 32
        36 45 37 46 38 47
        54 63 55 64 56 65
        39 48 40 49 41 50
        57 66 58 67 59 68""",
}


@pytest.mark.parametrize("order", SPACE)
def test_depth_and_space(order):
    depth, space = (dml.TensorDesc("UINT32", sizes) for sizes in ([1, 8, 2, 3], [1, 2, 4, 6]))
    channels = np.array([[9 * j + k for k in range(6)] for j in range(8)])
    pixels = numbers(SPACE[order])
    check(dml.DepthToSpace1OperatorDesc(depth, space, 2, order), [channels], pixels)
    check(dml.SpaceToDepth1OperatorDesc(space, depth, 2, order), [pixels], channels)
    if order == "DEPTH_COLUMN_ROW":
        check(dml.DepthToSpaceOperatorDesc(depth, space, 2), [channels], pixels)
        check(dml.SpaceToDepthOperatorDesc(space, depth, 2), [pixels], channels)


def test_reverse_subsequences():
    x = np.arange(1, 13)
    desc = dml.ReverseSubsequencesOperatorDesc(f32(1, 1, 3, 4), indices(1, 1, 3, 1), f32(1, 1, 3, 4), 3)
    check(desc, [x, [2, 4, 3]], [[2, 1, 3, 4], [8, 7, 6, 5], [11, 10, 9, 12]])
    desc = dml.ReverseSubsequencesOperatorDesc(f32(1, 1, 3, 4), indices(1, 1, 1, 4), f32(1, 1, 3, 4), 2)
    check(desc, [x, [2, 3, 1, 0]], [[5, 10, 3, 4], [1, 6, 7, 8], [9, 2, 11, 12]])
    # Lengths are held at the axis's size.
    desc = dml.ReverseSubsequencesOperatorDesc(f32(4), indices(1, data_type="UINT64"), f32(4), 0)
    check(desc, [[1, 2, 3, 4], [2**64 - 1]], [4, 3, 2, 1])


@pytest.mark.parametrize(
    "offset, sizes, expected",
    [
        (0, (1, 1, 3, 3), np.eye(3)),
        (1, (1, 1, 3, 3), [[0, 1, 0], [0, 0, 1], [0, 0, 0]]),
        (-1, (1, 1, 3, 2), [[0, 0], [1, 0], [0, 1]]),
        (-3, (1, 1, 3, 2), np.zeros((3, 2))),
    ],
)
def test_diagonal_matrix(offset, sizes, expected):
    check(dml.DiagonalMatrixOperatorDesc(f32(*sizes), offset, 1), [], expected)


@pytest.mark.parametrize(
    "has_input, value, begin, end, expected",
    [
        # The page says 7, and prints ones.
        (False, 1, 0, 1, "1 0 0 0 0\n0 1 0 0 0\n0 0 1 0 0\n0 0 0 1 0"),
        (False, 7, 0, 3, "7 7 7 0 0\n0 7 7 7 0\n0 0 7 7 7\n0 0 0 7 7"),
        (True, 0, INT_MIN, 1, "0 7 3 7 9\n0 0 8 6 9\n0 0 0 8 7\n0 0 0 0 4"),
        (True, 0, 1, 0, "4 0 0 0 0\n0 2 0 0 0\n0 0 1 0 0\n0 0 0 2 0"),
        (True, 5, 2, 2, "4 7 3 7 9\n1 2 8 6 9\n9 4 1 8 7\n4 3 4 2 4"),
    ],
)
def test_diagonal_matrix1(has_input, value, begin, end, expected):
    x = f32(4, 5) if has_input else None
    desc = dml.DiagonalMatrix1OperatorDesc(x, f32(4, 5), "FLOAT32", value, begin, end)
    check(desc, [MATRIX] if has_input else [], numbers(expected))


@pytest.mark.parametrize("height, width", [(100, 80), (70, 300), (3, 500), (500, 2)])
def test_large_triangles_are_numpys(height, width):
    x = np.arange(height * width).reshape(height, width)
    for k in (-30, 0, 1, 40):
        upper = dml.DiagonalMatrix1OperatorDesc(f32(height, width), f32(height, width), "FLOAT32", 0, INT_MIN, k)
        lower = dml.DiagonalMatrix1OperatorDesc(f32(height, width), f32(height, width), "FLOAT32", 0, k + 1, 2**31 - 1)
        check(upper, [x], np.triu(x, k))
        check(lower, [x], np.tril(x, k))


@pytest.mark.parametrize(
    "index_type, index_sizes, index, value_sizes, values, axis, expected",
    [
        ("UINT32", (1, 1, 3, 1), [0, 3, 2], (1, 1, 1, 2), [0, 1], 3, "1 0 0 0\n0 0 0 1\n0 0 1 0"),
        ("UINT32", (1, 1, 1, 4), [0, 2, 1, 0], (1, 1, 1, 2), [0, 1], 2, "1 0 0 1\n0 0 1 0\n0 1 0 0"),
        ("UINT32", (1, 1, 3, 1), [0, 3, 2], (1, 1, 3, 1), [4, 2, 9], 3, "2 4 4 4\n4 4 4 2\n4 4 2 4"),
        ("INT32", (1, 1, 3, 1), [-3, 100, 3], (1, 1, 1, 2), [0, 1], 3, "0 1 0 0\n0 0 0 0\n0 0 0 1"),
    ],
)
def test_one_hot(index_type, index_sizes, index, value_sizes, values, axis, expected):
    where = indices(*index_sizes, data_type=index_type)
    check(dml.OneHotOperatorDesc(where, f32(*value_sizes), f32(1, 1, 3, 4), axis), [index, values], numbers(expected))


def test_fill_values():
    check(dml.FillValueConstantOperatorDesc(f32(1, 1, 2, 4), "FLOAT32", 13.0), [], np.full(8, 13))
    check(dml.FillValueSequenceOperatorDesc(f32(1, 1, 1, 3), "FLOAT32", 3, 2), [], [3, 5, 7])
    bytes_ = dml.TensorDesc("UINT8", [1, 1, 2, 2])
    for delta in (-2, 254):
        check(dml.FillValueSequenceOperatorDesc(bytes_, "UINT8", 10, delta), [], [[10, 8], [6, 4]])
    # Of DxDispatch's model.
    desc = dml.FillValueSequenceOperatorDesc(f32(1, 1, 1, 5), "FLOAT32", 3.2, 1.5)
    check(desc, [], np.float32([3.2, 4.7, 6.2, 7.7, 9.2]))


def test_identity():
    x = np.arange(15).reshape(3, 5)
    check(dml.ElementWiseIdentityOperatorDesc(f32(3, 5), f32(3, 5)), [x], x)
    # A transposition by strides, as the page about strides has it.
    turned = dml.TensorDesc("FLOAT32", [5, 3], [1, 5])
    desc = dml.ElementWiseIdentityOperatorDesc(turned, f32(5, 3))
    for device in DEVICES:
        y = np.zeros((5, 3), np.float32)
        flat = x.astype(np.float32).reshape(-1)
        dml.Device(device).compile_operator(desc).bind([memoryview(flat)], [y]).dispatch()
        np.testing.assert_array_equal(y, x.T)


def test_element_wise_if():
    condition = dml.TensorDesc("UINT8", [2, 2])
    desc = dml.ElementWiseIfOperatorDesc(condition, f32(2, 2), f32(2, 2), f32(2, 2))
    check(desc, [[[1, 0], [1, 1]], [[1, 2], [3, 4]], [[9, 8], [7, 6]]], [[1, 8], [3, 4]])
    # Whatever is not 0 is true.
    check(desc, [[[255, 0], [2, 128]], [[1, 2], [3, 4]], [[9, 8], [7, 6]]], [[1, 8], [3, 4]])


def test_upsample_2d():
    x = np.arange(12).reshape(1, 2, 2, 3)
    desc = dml.Upsample2dOperatorDesc(f32(1, 2, 2, 3), f32(1, 2, 6, 6), (2, 3), "NEAREST_NEIGHBOR")
    check(desc, [x], x.repeat(3, 2).repeat(2, 3))


def resampled(x, *arguments, kind=dml.ResampleOperatorDesc, sizes):
    """One axis resampled by each engine."""
    desc = kind(f32(len(x)), f32(sizes), "NEAREST_NEIGHBOR", *arguments)
    results = []
    for device in DEVICES:
        y = np.full(sizes, -1, np.float32)
        dml.Device(device).compile_operator(desc).bind([np.asarray(x, np.float32)], [y]).dispatch()
        results.append(y.tolist())
    assert results[0] == results[1] == results[2]
    return results[0]


def test_resample():
    row = [0, 1, 2, 3]
    # Half a pixel takes the later of two, so that 4 × 6 by a half are the bottom right of each 2 × 2.
    assert resampled(row, [0.5], sizes=2) == [1, 3]
    assert resampled(row, [2], sizes=8) == [0, 0, 1, 1, 2, 2, 3, 3]
    # Larger than the scale says: the edge is repeated; smaller: the rest is left out.
    assert resampled(row, [2], sizes=11) == [0, 0, 1, 1, 2, 2, 3, 3, 3, 3, 3]
    assert resampled(row, [2], sizes=3) == [0, 0, 1]
    # A tie that an exact quotient of the rounded scale would miss, on one side or the other.
    for scale in (5 / 6, 7 / 6, 1 / 6):
        count = int(24 * scale)
        expected = [min((2 * k + 1) * 24 // (2 * count), 23) for k in range(count)]
        assert resampled(range(24), [scale], sizes=count) == expected


def test_resample_with_offsets():
    row = [0, 1, 2, 3]
    first, second, third = dml.Resample1OperatorDesc, dml.Resample2OperatorDesc, dml.Resample3OperatorDesc
    assert resampled(row, [0.5], [0.5], [-0.5], kind=first, sizes=2) == [1, 3]
    assert resampled(row, [2], [0], [0], kind=first, sizes=8) == [0, 1, 1, 2, 2, 3, 3, 3]
    assert resampled(row, "DECREASING", [2], [0], [0], kind=second, sizes=8) == [0, 0, 1, 1, 2, 2, 3, 3]
    assert resampled(row, "INCREASING", [2], [0], [0], kind=second, sizes=8) == [0, 1, 1, 2, 2, 3, 3, 3]
    assert resampled(row, "INCREASING", [0.5], [1], [0], True, kind=third, sizes=3) == [0, 1, 3]
    # ONNX Runtime's offsets for its four roundings, of half pixels: 3 from 4 elements.
    for direction, shift, expected in (
        ("INCREASING", 0.5, [0, 1, 3]),
        ("DECREASING", -0.5, [0, 2, 3]),
        ("DECREASING", 0, [0, 1, 2]),
        ("INCREASING", 0, [1, 2, 3]),
    ):
        scale = np.float32(0.75)
        assert resampled(row, direction, [scale], [0.5 + shift], [-0.5], kind=second, sizes=3) == expected


def test_unfold():
    x = np.arange(25)
    windows = np.lib.stride_tricks.sliding_window_view
    desc = dml.UnfoldOperatorDesc(f32(1, 1, 5, 5), f32(1, 9, 9), [3, 3], [1, 1], [1, 1], [0, 0], [0, 0])
    plain = windows(x.reshape(5, 5), (3, 3)).reshape(9, 9).T
    assert plain[0].tolist() == [0, 1, 2, 5, 6, 7, 10, 11, 12]
    assert plain[8].tolist() == [12, 13, 14, 17, 18, 19, 22, 23, 24]
    check(desc, [x], plain)
    desc = dml.UnfoldOperatorDesc(f32(1, 1, 5, 5), f32(1, 9, 15), [3, 3], [1, 1], [1, 1], [1, 0], [1, 0])
    padded = windows(np.pad(x.reshape(5, 5), [(1, 1), (0, 0)]), (3, 3)).reshape(15, 9).T
    assert padded[0].tolist() == [0, 0, 0, 0, 1, 2, 5, 6, 7, 10, 11, 12, 15, 16, 17]
    assert padded[3].tolist() == [0, 1, 2, 5, 6, 7, 10, 11, 12, 15, 16, 17, 20, 21, 22]
    assert padded[8].tolist() == [7, 8, 9, 12, 13, 14, 17, 18, 19, 22, 23, 24, 0, 0, 0]
    check(desc, [x], padded)


@pytest.mark.parametrize("data_type", ["INT64", "UINT64", "INT32", "UINT32"])
def test_scattered_indices_outside_are_skipped_and_gathered_ones_held(data_type):
    where = indices(5, data_type=data_type)
    far = np.array([7, 4, 2**31 - 1, 0, -1 if data_type[0] == "I" else 9]).astype(where.data_type.dtype)
    last = [4] if data_type[0] == "I" else []
    expected = np.arange(5) + 100
    expected[4], expected[0] = 2, 4
    if last:
        expected[4] = 5
    check(dml.ScatterOperatorDesc(f32(5), where, f32(5), f32(5), 0), [np.arange(5) + 100, far, range(1, 6)], expected)
    check(dml.GatherElementsOperatorDesc(f32(5), where, f32(5), 0), [range(5), far], [4, 4, 4, 0, 4])


def nonzero(x, sizes, rows, kind="FLOAT32"):
    """Count and coordinates by each engine, with 77 where nothing is written."""
    desc = dml.NonzeroCoordinatesOperatorDesc(dml.TensorDesc(kind, sizes), indices(1, 1, 1, 1), indices(*rows))
    found = []
    for device in DEVICES:
        count, places = np.full((1, 1, 1, 1), 77, np.uint32), np.full(rows, 77, np.uint32)
        array = np.asarray(x, desc.input_tensor.data_type.dtype).reshape(sizes)
        dml.Device(device).compile_operator(desc).bind([array], [count, places]).dispatch()
        found.append((count.item(), places.tolist()))
    assert found[0] == found[1] == found[2]
    return found[0]


def test_nonzero_coordinates():
    x = [1, 0, 0, 2, -0.0, 3.5, 0, -5.2]
    count, rows = nonzero(x, (1, 1, 2, 4), (1, 1, 8, 3))
    assert count == 4
    assert rows[0][0] == [[0, 0, 0], [0, 0, 3], [0, 1, 1], [0, 1, 3], *[[77] * 3] * 4]
    # Rows are in the order of elements.
    x = np.zeros((2, 6))
    x[1, 0] = x[1, 2] = x[0, 5] = 1
    assert nonzero(x, (2, 6), (12, 2))[1][:3] == [[0, 5], [1, 0], [1, 2]]


def test_nonzero_coordinates_of_nothing_of_everything_and_of_nan():
    assert nonzero([0, -0.0, 0], (3,), (3, 1)) == (0, [[77]] * 3)
    assert nonzero([np.nan, 0, 1e-45, -np.inf], (4,), (4, 1)) == (3, [[0], [2], [3], [77]])
    assert nonzero([9], (1, 1, 1), (1, 1)) == (1, [[0]])
    assert nonzero(range(200), (200,), (200, 1), "UINT8")[0] == 199
    # Zero in its low bytes alone, or in its high ones.
    assert nonzero([1 << 24, 0, 255, -(1 << 31)], (4,), (4, 1), "INT32")[1][:3] == [[0], [2], [3]]


@pytest.mark.parametrize("count", [1, 4, 5, 16, 17, 63, 64, 65, 256, 257, 1025, 70_000])
def test_nonzero_coordinates_are_numpys(count):
    x = np.random.default_rng(count).integers(0, 3, count).astype(np.int16)
    desc = dml.NonzeroCoordinatesOperatorDesc(dml.TensorDesc("INT16", [count]), indices(1), indices(count, 1))
    for device in ("numpy", "cpu"):
        found, rows = np.zeros(1, np.uint32), np.zeros((count, 1), np.uint32)
        dml.Device(device).compile_operator(desc).bind([x], [found, rows]).dispatch()
        np.testing.assert_array_equal(rows[: found[0]], np.argwhere(x))


def test_nonzero_coordinates_of_the_pages_sizes():
    """An input of {1,1,12,5}: rows of 2 to 4."""
    for width in range(1, 6):
        desc = dml.NonzeroCoordinatesOperatorDesc(f32(1, 1, 12, 5), indices(1), indices(1, 1, 60, width))
        assert bool([*desc.problems()]) == (width not in (2, 3, 4))
    for sizes, least in (((1, 2, 3, 4), 3), ((1, 1, 5, 5, 5), 3), ((1, 1, 1, 1), 1)):
        rows = int(np.prod(sizes))
        dml.NonzeroCoordinatesOperatorDesc(f32(*sizes), indices(1), indices(rows, least)).check()
