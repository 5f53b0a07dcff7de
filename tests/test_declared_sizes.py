"""Sizes that are only declared: to describe, lower, compile and explain them takes no memory that grows with them."""

import tracemalloc

import numpy as np
import pytest
from onnx import parser

import anydml as dml
import anydml.onnx
import anydml.pydirectml as pydml
from anydml.engines import open_engine
from anydml.operators import DESCS

MOST = 64 << 20
"""Bytes that any of it may take: a list of the parts of an array of 2⁴⁰ elements takes thousands of times as much."""

SIZES = [1 << 20, 1 << 40, 1 << 50]
NEAREST, OFFSETS = "NEAREST_NEIGHBOR", ([0.5] * 4, [-0.5] * 4)


def t(*sizes, data_type="FLOAT32", strides=None):
    return dml.TensorDesc(data_type, sizes, strides)


def descs(n):
    """Descs of every operator, with dimensions of n."""
    x, indices = t(n, 6), t(1, 5, data_type="INT64")
    grid, lengths = t(1, 1, n, 6), t(1, 6, data_type="UINT32")
    yield dml.SplitOperatorDesc(x, [t(n // 2, 6)] * 2, 0)
    yield dml.SplitOperatorDesc(t(6, n), [t(6, n // 16)] * 16, 1)
    yield dml.SplitTrainingOperatorDesc(x, None, [t(n, 2)] * 3, 1)
    yield dml.JoinOperatorDesc([x] * 2, t(2 * n, 6), 0)
    yield dml.JoinOperatorDesc([x] * 2, t(n, 12), 1)
    yield dml.ConcatTrainingOperatorDesc([x] * 2, t(2 * n, 6), t(2, data_type="INT64"), 0)
    yield dml.SliceOperatorDesc(x, t(n // 2, 3), [0, 1], [n // 2, 3], [2, 1])
    yield dml.SliceOperatorDesc(t(6, n), t(3, n // 2), [0, 1], [3, n // 2], [2, 1])
    yield dml.Slice1OperatorDesc(t(n), t(n), [0], [n], [-1])
    yield dml.SliceGradOperatorDesc(t(n // 2, 3), x, [0, 1], [n, 3], [2, 1])
    yield dml.GatherOperatorDesc(x, indices, t(5, 6), 0, 1)
    yield dml.GatherOperatorDesc(x, indices, t(n, 5), 1, 1)
    yield dml.GatherOperatorDesc(t(4, 6), t(1, n, data_type="INT32"), x, 0, 1)
    yield dml.GatherElementsOperatorDesc(x, t(n, 3, data_type="INT64"), t(n, 3), 1)
    yield dml.GatherNdOperatorDesc(x, t(n, 1, data_type="INT64"), x, 2, 2)
    yield dml.GatherNd1OperatorDesc(x, t(n, 1, data_type="INT64"), t(1, n), 2, 2, 1)
    yield dml.ScatterOperatorDesc(x, t(n, 3, data_type="INT64"), t(n, 3), x, 1)
    yield dml.ScatterNdOperatorDesc(x, t(5, 1, data_type="INT64"), t(5, 6), x, 2, 2)
    yield dml.TileOperatorDesc(x, t(3 * n, 12), [3, 2])
    yield dml.TileOperatorDesc(t(2, 3), t(2, 3 * n), [1, n])
    for mode in dml.PaddingMode:
        yield dml.PaddingOperatorDesc(x, t(n + 3, 8), mode, 0.0, [1, 1], [2, 1])
        yield dml.Padding1OperatorDesc(t(3, 6), t(3, n + 6), mode, "FLOAT32", 1.5, [0, n // 2], [0, n // 2])
    yield dml.DepthToSpaceOperatorDesc(t(1, 4, n, 6), t(1, 1, 2 * n, 12), 2)
    yield dml.DepthToSpace1OperatorDesc(t(1, 4, n, 6), t(1, 1, 2 * n, 12), 2, "COLUMN_ROW_DEPTH")
    yield dml.SpaceToDepthOperatorDesc(t(1, 1, 2 * n, 12), t(1, 4, n, 6), 2)
    yield dml.SpaceToDepth1OperatorDesc(t(1, 1, 2 * n, 12), t(1, 4, n, 6), 2, "DEPTH_COLUMN_ROW")
    yield dml.DiagonalMatrixOperatorDesc(grid, 0, 1.0)
    yield dml.DiagonalMatrix1OperatorDesc(grid, grid, "FLOAT32", 1.0, -2, 3)
    yield dml.FillValueConstantOperatorDesc(x, "FLOAT32", 1.0)
    yield dml.FillValueSequenceOperatorDesc(x, "FLOAT32", 1.0, 2.0)
    yield dml.ElementWiseIdentityOperatorDesc(t(n, 6, strides=(1, n)), x)
    yield dml.ElementWiseIdentityOperatorDesc(t(n, 6, strides=(0, 1)), x)
    yield dml.ElementWiseIfOperatorDesc(t(n, 6, data_type="UINT8"), x, x, x)
    yield dml.NonzeroCoordinatesOperatorDesc(x, t(1, data_type="UINT32"), t(6 * n, 2, data_type="UINT32"))
    yield dml.ReverseSubsequencesOperatorDesc(x, lengths, x, 0)
    yield dml.ReverseSubsequencesOperatorDesc(x, t(n, 1, data_type="UINT32"), x, 1)
    yield dml.OneHotOperatorDesc(t(6, 1, data_type="INT64"), t(1, 2), t(6, n), 1)
    yield dml.Upsample2dOperatorDesc(grid, t(1, 1, 2 * n, 18), (3, 2), NEAREST)
    yield dml.ResampleOperatorDesc(grid, t(1, 1, 2 * n, 12), NEAREST, [1, 1, 2, 2])
    yield dml.Resample1OperatorDesc(grid, t(1, 1, n // 2 * 3, 6), NEAREST, [1, 1, 1.5, 1], *OFFSETS)
    yield dml.Resample2OperatorDesc(grid, grid, NEAREST, "DECREASING", [1] * 4, *OFFSETS)
    yield dml.Resample3OperatorDesc(grid, t(1, 1, n // 3, 12), NEAREST, "DECREASING", [1, 1, 1 / 3, 2], *OFFSETS)
    yield dml.UnfoldOperatorDesc(grid, t(1, 9, n * 6), [3, 3], [1, 1], [1, 1], [1, 1], [1, 1])


def little(work):
    """What work gives, which takes little memory."""
    tracemalloc.start()
    try:
        return work()
    finally:
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < MOST


def test_every_operator_is_tried():
    assert {type(desc) for desc in descs(1 << 20)} == set(DESCS.values())


@pytest.mark.parametrize("device", ["reference", "numpy", "cpu"])
def test_programs_are_compiled(device):
    """Larger than any desc may be; a count of digits is all of the moves that may grow."""
    for small, desc in zip(descs(SIZES[0]), descs(SIZES[1]), strict=True):
        program = little(desc.program)
        assert len(program.moves) <= 2 * len(small.program().moves), desc
        assert program.name in little(lambda program=program: str(open_engine(device).compile(program)))


@pytest.mark.parametrize("power", [58, 60, 61, 62, 63, 70])
@pytest.mark.parametrize("device", ["reference", "numpy", "cpu"])
def test_more_bytes_than_addresses_have_are_refused_in_one_line(device, power):
    """Also where nobody has checked the desc: no number that does not fit gets anywhere."""
    refused = 0
    for desc in descs(1 << power):
        spans = [tensor.span_in_bytes for _, tensor in (*desc.inputs, *desc.outputs)]
        if max(spans) < 1 << 63:
            open_engine(device).compile(desc.program())
            continue
        with pytest.raises(dml.DescError, match=r"spans \d+ bytes: a tensor must span fewer than 2\^63"):
            desc.program()
        refused += 1
        with pytest.raises(dml.DescError, match=r"each size must be 1 to 4294967295|must have"):
            dml.explain(desc)
    assert refused


def test_descs_are_explained():
    for desc in descs(1 << 25):
        assert desc.OPERATOR in little(lambda desc=desc: str(dml.explain(desc)))


FUSED = {
    "turned": lambda x: x.T.reshape(-1, 2),
    "backwards": lambda x: x[::-1, ::2],
    "joined": lambda x: np.concatenate([x, x[:-1]]).reshape(-1),
    "picked": lambda x: x[[0, 2, 1]],
    "rolled": lambda x: np.roll(x, 5, 0),
    "repeated": lambda x: np.tile(np.repeat(x, 3, 0), (1, 2)),
    "parts": lambda x: np.split(x, 4),
    "sequence": lambda x: dml.sequence(x, 0, 1),
    "turned parts": lambda x: dml.reverse_subsequences(x, np.full((1, 6), 3, np.uint32), 0),
    **{
        mode: lambda x, mode=mode: np.pad(x, 1, mode=mode)
        for mode in ("constant", "edge", "reflect", "symmetric", "wrap")
    },
}


@pytest.mark.parametrize("name", FUSED)
def test_functions_are_fused(name):
    counts = set()
    for n in SIZES:
        x, fused = np.broadcast_to(np.float32(0), (n, 6)), dml.fuse(FUSED[name])
        program = little(lambda fused=fused, x=x: fused.lower(x))
        counts.add(len(program.moves))
        assert program.name in little(lambda fused=fused, x=x: str(dml.explain(fused, x)))
    assert len(counts) == 1


NODES = {
    "Concat": "(float[$, 6] x) => (float[A, B] y) { y = Concat<axis=0>(x, x) }",
    "Gather": "(float[$, 6] x) => (float[A, B] y) <int64[1] one = {1}> { y = Gather<axis=1>(x, one) }",
    "Split": "(float[$, 6] x) => (float[A, 6] y, float[B, 6] z) { y, z = Split<axis=0, num_outputs=2>(x) }",
    "Slice": "(float[$, 6] x) => (float[A, B] y) <int64[1] s = {1}, int64[1] e = {-1}> { y = Slice(x, s, e, s) }",
    "Pad": '(float[$, 6] x) => (float[A, B] y) <int64[4] p = {1, 1, 2, 1}> { y = Pad<mode="reflect">(x, p) }',
    "Tile": "(float[$, 6] x) => (float[A, B] y) <int64[2] p = {3, 2}> { y = Tile(x, p) }",
    "Trilu": "(float[$, 6] x) => (float[A, B] y) { y = Trilu(x) }",
    "Resize": '(float[$, 6] x) => (float[A, B] y) <float[2] s = {1, 2}> { y = Resize<mode="nearest">(x, , s) }',
    "ReverseSequence": "(float[6, $] x, int64[$] s) => (float[A, B] y) { y = ReverseSequence(x, s) }",
    "GatherND": "(float[$, 6] x, int64[$, 1] i) => (float[A] y) { y = GatherND<batch_dims=1>(x, i) }",
    "OneHot": "(int64[6] x) => (float[A, B] y) <int64[1] d = {$}, float[2] v = {0, 1}> { y = OneHot(x, d, v) }",
    "ConstantOfShape": "() => (float[A, B] y) <int64[2] d = {$, 6}> { y = ConstantOfShape(d) }",
    "Range": "() => (int64[A] y) <int64 s = {0}, int64 e = {$}, int64 d = {1}> { y = Range(s, e, d) }",
}


@pytest.mark.parametrize("name", NODES)
def test_models_are_described_and_explained(name):
    kinds = set()
    for n in SIZES:
        text = NODES[name].replace("$", str(n))
        model = parser.parse_model(f'<ir_version: 8, opset_import: ["": 18]> g {text}')
        descs = little(lambda model=model: anydml.onnx.to_descs(model))
        kinds.add(tuple(map(type, descs.values())))
        found = little(lambda model=model: str(dml.explain(model)))
        assert all(repr(desc) in found for desc in descs.values())
    assert len(kinds) == 1


@pytest.mark.parametrize("n", [1 << 20, 1 << 28])
def test_graphs_are_built(n):
    builder = pydml.GraphBuilder(pydml.Device(True, True))
    x = pydml.input_tensor(builder, 0, pydml.TensorDesc(pydml.TensorDataType.FLOAT32, [1, 1, n, 6]))
    padded = pydml.padding(x, pydml.PaddingMode.REFLECTION, 0.0, [0, 0, 4, 0], [0, 0, 4, 0])
    built = little(lambda: builder.build(pydml.ExecutionFlags.NONE, [padded]))
    assert str(built)
