"""The backend against ONNX's rules for each version of an operator, its inputs and outputs, and what it refuses."""

from __future__ import annotations

import sys

import ml_dtypes
import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper, parser

from anydml import ModelError
from anydml.onnx import backend

I64 = np.int64


def parsed(body, opset=18, ir=8):
    imports = f'["": {opset}, "com.microsoft": 1]'
    return parser.parse_model(f"<ir_version: {ir}, opset_import: {imports}> {body}")


def ints(*values):
    return np.array(values, I64)


def node(kind, inputs, opset, arrays, outputs=1, domain="", **attributes):
    proto = helper.make_node(kind, inputs, [f"y{i}" for i in range(outputs)], domain=domain, name="n", **attributes)
    return backend.run_node(proto, arrays, opset_version=opset)


X = np.arange(24, dtype="f").reshape(4, 6)


@pytest.mark.parametrize("opset", [2, 10, 11, 12])
def test_split_with_sizes_as_attribute(opset):
    a, b = node("Split", ["x"], opset, [X], 2, axis=1, split=[2, 4])
    assert np.array_equal(a, X[:, :2])
    assert np.array_equal(b, X[:, 2:])
    a, b = node("Split", ["x"], opset, [X], 2)
    assert np.array_equal(b, X[2:])


@pytest.mark.parametrize("opset", [13, 17, 18, 25])
def test_split_with_sizes_as_input(opset):
    parts = node("Split", ["x", "split"], opset, [X, ints(1, 0, 3)], 3)
    assert [part.shape for part in parts] == [(1, 6), (0, 6), (3, 6)]
    assert all(part.flags.c_contiguous and part.flags.writeable for part in parts)


def test_split_18_may_be_uneven():
    assert [part.size for part in node("Split", ["x"], 18, [X[0]], 4, num_outputs=4)] == [2, 2, 2, 0]
    assert [part.size for part in node("Split", ["x"], 18, [np.arange(7)], 3, num_outputs=3)] == [3, 3, 1]
    with pytest.raises(ModelError, match="too few for 4 parts of 2"):
        node("Split", ["x"], 18, [np.arange(5)], 4, num_outputs=4)


@pytest.mark.parametrize(
    ("opset", "attributes", "split", "message"),
    [
        (13, {}, None, "does not divide into 5 equal parts"),
        (13, {}, ints(1, 3), "split has 2 entries for 5 outputs"),
        (13, {}, ints(1, 1, 1, 1, 1), "add up to 5, but axis 0 has size 4"),
        (13, {}, ints(5, -1, 0, 0, 0), "negative entry"),
        (13, {}, np.ones(5, np.int8), "split is int8"),
        (13, {"axis": 2}, None, "axis is 2, but the rank is 2"),
        (18, {}, None, "neither split nor num_outputs"),
        (18, {"num_outputs": 5}, ints(1, 1, 1, 1, 0), "both split and num_outputs"),
        (18, {"num_outputs": 4}, None, "num_outputs is 4, but the node has 5 outputs"),
        (11, {"split": [4]}, None, "split has 1 entry for 5 outputs"),
    ],
)
def test_split_refuses(opset, attributes, split, message):
    with pytest.raises(ModelError, match=message) as error:
        node("Split", ["x", "split"][: 1 + (split is not None)], opset, [X, split], 5, **attributes)
    assert str(error.value).startswith('node "n" (Split): ')
    assert error.value.operator == "Split"


def test_slice_1_has_attributes():
    (y,) = node("Slice", ["x"], 9, [X], axes=[1], starts=[-4], ends=[1000])
    assert np.array_equal(y, X[:, -4:])
    (y,) = node("Slice", ["x"], 1, [X], starts=[1, -100], ends=[-1, 2])
    assert np.array_equal(y, X[1:-1, :2])


@pytest.mark.parametrize("opset", [10, 11, 13])
@pytest.mark.parametrize("kind", [np.int32, np.int64])
def test_slice_with_inputs(opset, kind):
    low, high = np.iinfo(kind).min, np.iinfo(kind).max
    names = ["x", "starts", "ends", "axes", "steps"]
    for start, end, step in ((high, low, -1), (-1, low, -2), (0, high, 4), (5, 2, 1), (2, 5, -1), (3, -1, high)):
        (y,) = node("Slice", names, opset, [X, *(np.array([v], kind) for v in (start, end, 1, step))])
        assert np.array_equal(y, X[:, slice(start, end, step)])
    (y,) = node("Slice", [*names[:3], "", "steps"], opset, [X, ints(0), ints(4), None, ints(2)])
    assert np.array_equal(y, X[::2])


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ([ints(0), ints(1), ints(0), ints(0)], "the step of axis 0 is 0"),
        ([ints(0, 0), ints(1, 1), ints(0, -2)], "has axis 0 twice"),
        ([ints(0), ints(1), ints(2)], "axes has 2, but the rank is 2"),
        ([ints(0), ints(1, 2)], "have 1, 2, 1 and 1 entries"),
        ([ints(0), np.float32([1])], "ends are float32"),
        ([ints(0), np.int32([1])], "ends are int32, but starts are int64"),
        ([ints(0), None], "input 2 is marked single"),
        ([np.int64(0), ints(1)], r"starts are int64 of shape \[\]"),
    ],
)
def test_slice_refuses(arrays, message):
    names = ["starts", "ends", "axes", "steps"][: len(arrays)]
    names = [name if array is not None else "" for name, array in zip(names, arrays, strict=True)]
    proto = helper.make_node("Slice", ["x", *names], ["y"], name="n")
    with pytest.raises(ModelError, match=message):
        backend.run_node(proto, [X, *arrays], opset_version=13)


@pytest.mark.parametrize("opset", [1, 11, 13])
def test_gather_wraps_and_never_clamps(opset):
    (y,) = node("Gather", ["x", "i"], opset, [X, ints(-4, 3)])
    assert np.array_equal(y, X[[0, 3]])
    (y,) = node("Gather", ["x", "i"], opset, [X, np.int32(2)], axis=1)
    assert np.array_equal(y, X[:, 2])
    for wrong in (4, -5, np.iinfo(I64).max):
        with pytest.raises(ModelError, match=f"index {wrong} is out of range for axis 0 of size 4"):
            node("Gather", ["x", "i"], opset, [X, ints(wrong)])
    with pytest.raises(ModelError, match="indices are uint8"):
        node("Gather", ["x", "i"], opset, [X, np.uint8([1])])
    with pytest.raises(ModelError, match="axis 0 of x is empty"):
        node("Gather", ["x", "i"], opset, [X[:0], ints(0)])


def test_concat_in_every_version():
    assert np.array_equal(node("Concat", ["a", "b"], 3, [X, X])[0], np.concatenate([X, X], 1))
    for opset in (4, 11, 13):
        assert np.array_equal(node("Concat", ["a", "b"], opset, [X, X[:0]], axis=0)[0], X)
    assert np.array_equal(node("Concat", ["a"], 13, [X], axis=-1)[0], X)
    with pytest.raises(ModelError, match="Required attribute 'axis' is missing"):
        node("Concat", ["a", "b"], 13, [X, X])
    with pytest.raises(ModelError, match=r"inputs\[1\] is float64, but inputs\[0\] is float32"):
        node("Concat", ["a", "b"], 13, [X, X.astype("d")], axis=0)
    with pytest.raises(ModelError, match="but arrays"):
        node("Concat", ["a", "b"], 13, [X, X[:, :2]], axis=0)


def test_training_operators():
    joined, lengths = node("ConcatTraining", ["a", "b"], 13, [X, X[:1]], 2, "com.microsoft", axis=0)
    assert joined.shape == (5, 6)
    assert lengths.dtype == I64
    assert lengths.tolist() == [4, 1]
    a, b = node("SplitTraining", ["x", "s"], 13, [joined, lengths], 2, "com.microsoft")
    assert np.array_equal(a, X)
    assert np.array_equal(b, X[:1])
    a, b = node("SplitTraining", ["x", "s"], 13, [X, ints()], 2, "com.microsoft", axis=-1, __backwardpass=1)
    assert np.array_equal(b, X[:, 3:])
    with pytest.raises(ModelError, match="has no attribute axis"):
        node("ConcatTraining", ["a"], 13, [X], 2, "com.microsoft")
    with pytest.raises(ModelError, match=r"attribute axis is not INT: axis must be INT"):
        node("SplitTraining", ["x", "s"], 13, [X, ints()], 2, "com.microsoft", axis=1.0)


def test_constants():
    body = """g () => (int64 a, int64[n] b, float c, float[n] d, string e, string[n] f, float[n] g) {
        a = Constant <value_int = 3> ()
        b = Constant <value_ints = [1, 2]> ()
        c = Constant <value_float = 1.5> ()
        d = Constant <value_floats = [1.5, 2.5]> ()
        e = Constant <value_string = "é"> ()
        f = Constant <value_strings = ["a", "bc"]> ()
        g = Constant <value = float[2] {1.0, 2.0}> ()
    }"""
    a, b, c, d, e, f, g = backend.run_model(parsed(body), [])
    assert (a.dtype, a.shape, a.tolist()) == (I64, (), 3)
    assert (b.dtype, b.tolist()) == (I64, [1, 2])
    assert (c.dtype, c.tolist()) == (np.float32, 1.5)
    assert (d.dtype, d.tolist()) == (np.float32, [1.5, 2.5])
    assert (e.dtype, e.tolist(), f.tolist()) == (object, "é", ["a", "bc"])
    assert g.flags.writeable
    sparse = helper.make_sparse_tensor(
        helper.make_tensor("v", TensorProto.FLOAT, [1], [1.0]),
        helper.make_tensor("i", TensorProto.INT64, [1], [2]),
        [3],
    )
    with pytest.raises(ModelError, match="sparse_value is none that anydml reads"):
        backend.run_node(helper.make_node("Constant", [], ["y"], sparse_value=sparse), [])
    with pytest.raises(ModelError, match="utf-8"):
        backend.run_node(helper.make_node("Constant", [], ["y"], value_string=b"\xff"), [])


SMALL = ["BFLOAT16", "FLOAT8E4M3FN", "FLOAT8E4M3FNUZ", "FLOAT8E5M2", "FLOAT8E5M2FNUZ", "INT4", "UINT4", "FLOAT4E2M1"]
PLAIN = ["FLOAT", "FLOAT16", "DOUBLE", "BOOL", "COMPLEX64", "COMPLEX128", "STRING"]
INTEGERS = [f"{sign}INT{bits}" for sign in ("", "U") for bits in (8, 16, 32, 64)]


@pytest.mark.parametrize("name", [*SMALL, *PLAIN, *INTEGERS])
def test_every_element_type_survives(name):
    elem_type = getattr(TensorProto, name)
    dtype = helper.tensor_dtype_to_np_dtype(elem_type)
    values = np.array([["a", "", "ccc"], ["ü", "e", "f"]] if name == "STRING" else [[0, 1, 0], [1, 1, 0]])
    x = values.astype(dtype)
    tensor = helper.make_node("Constant", [], ["c"], value=numpy_helper.from_array(x, "c"))
    nodes = [
        tensor,
        helper.make_node("Concat", ["x", "c"], ["j"], axis=0),
        helper.make_node("Slice", ["j", "s", "e", "a", "t"], ["r"]),
        helper.make_node("Gather", ["r", "i"], ["g"], axis=0),
        helper.make_node("SplitTraining", ["g", "n"], ["p", "q"], domain="com.microsoft"),
    ]
    constants = {"s": [-1], "e": [-9], "a": [1], "t": [-1], "i": [3, 0], "n": [1, 1]}
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", elem_type, [2, 3])],
        [helper.make_tensor_value_info(n, elem_type, [1, 3]) for n in "pq"],
        [numpy_helper.from_array(ints(*v), n) for n, v in constants.items()],
    )
    imports = [helper.make_opsetid("", 18), helper.make_opsetid("com.microsoft", 1)]
    p, q = backend.run_model(helper.make_model(graph, opset_imports=imports, ir_version=10), [x])
    assert p.dtype == q.dtype == dtype
    assert p.tolist() == x[1:, ::-1].tolist()
    assert q.tolist() == x[:1, ::-1].tolist()


def test_bfloat16_is_ml_dtypes():
    (y,) = node("Identity", ["x"], 18, [np.ones(2, ml_dtypes.bfloat16)])
    assert y.dtype == ml_dtypes.bfloat16


TWO = "g (float[2,N] x, float[2,N] w) => (float[2,M] y, float[2,N] z) { y = Concat <axis=1> (x, w) z = Identity (x) }"


def test_inputs_by_name_by_order_and_alone():
    prepared = backend.prepare(parsed(TWO))
    x, w = X[:2], X[2:]
    expected = np.concatenate([x, w], 1)
    for given in ({"w": w, "x": x}, [x, w], (x, w)):
        result = prepared.run(given)
        assert np.array_equal(result[0], expected)
        assert np.array_equal(result["y"], expected)
        assert result.y is result[0]
    single = backend.prepare(parsed("g (float[N] x) => (float[N] y) { y = Identity (x) }"))
    assert single.run(X[0]).y.tolist() == X[0].tolist()


def test_outputs_belong_to_the_caller():
    x = X[:2].copy()
    result = backend.run_model(parsed(TWO), [x, x])
    assert not np.shares_memory(result.z, x)
    body = "g (float[N] x) => (float[N] a, float[N] b) { c = Concat <axis=0> (x, x) a = Identity (c) b = Identity (a) }"
    a, b = backend.run_model(parsed(body), [X[0]])
    assert not np.shares_memory(a, b)
    default = parsed("g (float[2] x) => (float[2] y) <float[2] w = {1, 2}> { y = Identity (w) }")
    prepared = backend.prepare(default)
    prepared.run([X[0, :2]]).y[:] = 9
    assert prepared.run([X[0, :2]]).y.tolist() == [1, 2]


def test_an_initializer_that_is_an_input_is_a_default():
    tensor = numpy_helper.from_array(np.float32([[7], [8]]), "w")
    model = parsed("g (float[2,N] x, float[2,N] w) => (float[2,M] y) { y = Concat <axis=1> (x, w) }")
    model.graph.initializer.append(tensor)
    prepared = backend.prepare(model)
    assert prepared.run([np.float32([[1], [2]])]).y.tolist() == [[1, 7], [2, 8]]
    assert prepared.run([np.float32([[1], [2]]), np.float32([[3], [4]])]).y.tolist() == [[1, 3], [2, 4]]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ([X[:2]], r"the graph has 2 inputs \(x, w\), but got 1"),
        ({"x": X[:2]}, 'input "w" is not given'),
        ({"x": X[:2], "w": X[:2], "v": X}, 'there is no input "v"; the graph has "x", "w"'),
        ([X[:2], X[:2].astype("d")], 'input "w" is float64, but the graph has FLOAT'),
        ([X[:2], X[:3]], r'input "w" has shape \[3, 6\], but the graph has \[2, N\]'),
        ([X[:2], X[0]], r'input "w" has shape \[6\]'),
    ],
)
def test_inputs_that_do_not_fit(given, message):
    with pytest.raises(ModelError, match=message):
        backend.run_model(parsed(TWO), given)


def test_strings_may_be_numpys():
    model = parsed("g (string[N] x) => (string[M] y) { y = Concat <axis=0> (x, x) }")
    (y,) = backend.run_model(model, [np.array(["a", "bb"])])
    assert y.dtype == object
    assert y.tolist() == ["a", "bb", "a", "bb"]


def test_functions_are_inlined():
    model = parsed("""g (float[N] x) => (float[M] y) { y = my.Twice <along = 0> (x) }
        <domain: "my", opset_import: ["": 18]>
        Twice <along> (v) => (r) { r = Concat <axis: int = @along> (v, v) }""")
    model.opset_import.add(domain="my", version=1)
    (y,) = backend.run_model(model, [X[0]])
    assert y.tolist() == [*X[0], *X[0]]
    assert backend.is_compatible(model)


def test_what_it_does_not_have_is_named():
    model = parsed("g (float[N,N] x) => (float[N,N] y) { z = Identity (x) y = MatMul (z, z) }")
    assert not backend.is_compatible(model)
    with pytest.raises(ModelError, match=r'node "MatMul_1" \(MatMul\): not supported: anydml has the operators'):
        backend.prepare(model)
    with pytest.raises(ModelError, match="does not have the version of opset 1; it has versions 2, 11, 13, 18"):
        node("Split", ["x"], 1, [X], 2)
    with pytest.raises(ModelError, match="there is no device 'CUDA'"):
        backend.prepare(model, "CUDA")
    assert backend.supports_device("CPU")
    assert not backend.supports_device("CUDA:1")


def test_models_that_break_onnx_rules():
    model = parsed("g (float[N] x) => (float[N] y) { y = Identity (nothing) }")
    with pytest.raises(ModelError, match=r"the model breaks a rule of ONNX: .*nothing"):
        backend.prepare(model)


def test_results_too_large_for_memory_are_refused_before_they_are_made():
    x = np.zeros((1, 2**20), np.uint8)
    wide = np.lib.stride_tricks.as_strided(np.zeros(1, I64), (2**30,), (0,))
    with pytest.raises(ModelError, match=r"needs 1\.13 PB, but .* of memory are available"):
        node("Gather", ["x", "i"], 13, [x, wide])


def test_tensors_that_lie_about_themselves():
    model = parsed("g () => (float[N] y) <float[2] w = {1, 2}> { y = Identity (w) }")
    model.graph.initializer[0].dims[0] = 2**40
    with pytest.raises(ModelError):
        backend.prepare(model)
    model.graph.initializer[0].dims[0] = -1
    with pytest.raises(ModelError):
        backend.prepare(model)


def test_later_runs_are_compiled():
    # Range divides by −1 here.
    graph = """g (float[B, S] x) => (float[B, A] y) {
        s = Shape <start = 1, end = 2> (x) count = Squeeze (s)
        at = Range (nought, count, step) y = Gather <axis = 1> (x, at) }"""
    model = parsed(graph, 20, 10)
    known = {"nought": np.int64(0), "step": np.int64(1)}
    model.graph.initializer.extend(numpy_helper.from_array(np.asarray(v), k) for k, v in known.items())
    program = backend.prepare(model).program
    for length in (3, 5):
        program.run({"x": np.ones((2, length), "f")})
    files = set()
    sys.setprofile(lambda frame, event, _: files.add(frame.f_code.co_filename))
    try:
        (found,) = program.run({"x": X})
    finally:
        sys.setprofile(None)
    assert np.array_equal(found, X)
    # Compiled code does the whole call: it is not matched to a trace in Python, nor is anything compared before it.
    assert not [name for name in files if "tracing" in name]


@pytest.mark.parametrize("is_node", [True, False])
def test_inputs_of_other_libraries_and_classes(is_node):
    torch = pytest.importorskip("torch")
    proto = parsed("g (float[4, 6] x) => (float[4, 6] y) { y = Identity (x) }")

    def ran(value):
        return node("Identity", ["x"], 18, [value])[0] if is_node else backend.run_model(proto, [value])[0]

    for value in (torch.from_numpy(X), X.view(type("Other", (np.ndarray,), {})), np.ma.array(X), memoryview(X)):
        assert type(ran(value)) is np.ndarray
        assert np.array_equal(ran(value), X)
    negative = torch.complex(torch.from_numpy(X), torch.from_numpy(-X)).conj().imag
    assert negative.is_neg()
    assert np.array_equal(ran(negative), X)
    with pytest.raises(ModelError, match=r'input ("x"|0): value is a masked array: pass value.data'):
        ran(np.ma.array(X, mask=True))
    with pytest.raises(ModelError, match=r'input ("x"|0): value is a PyTorch tensor that requires grad: .*detach'):
        ran(torch.from_numpy(X).requires_grad_())


def test_extended_floats_of_pytorch():
    torch = pytest.importorskip("torch")
    (found,) = node("Identity", ["x"], 18, [torch.ones(2, dtype=torch.bfloat16)])
    assert (str(found.dtype), found.astype(float).tolist()) == ("bfloat16", [1.0, 1.0])


def test_nodes_of_anydmls_own_domain():
    (found,) = node("Flip", ["x"], 18, [X], domain="anydml", axis=[0])
    assert np.array_equal(found, X[::-1])


def test_lists_are_sequences_of_tensors():
    with pytest.raises(ModelError, match=r"input 0 \(inputs\[0\]\) is a sequence: inputs\[0\] must be a tensor"):
        node("Concat", ["x"], 18, [[1.0, 2.0]], axis=0)
    (found,) = node("ConcatFromSequence", ["x"], 18, [[[1, 2], np.array([3])]], axis=0)
    assert found.tolist() == [1, 2, 3]
