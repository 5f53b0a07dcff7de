"""PyDirectML's builder: its samples' data movement, its names, and what it refuses."""

import inspect

import numpy as np
import pytest

import anydml
import anydml.pydirectml as dml

F32 = dml.TensorDataType.FLOAT32
RNG = np.random.default_rng(153)


@pytest.fixture
def device():
    return dml.Device(True, True)


@pytest.fixture
def builder(device):
    return dml.GraphBuilder(device)


def computed(device, builder, outputs, bindings):
    op = builder.build(dml.ExecutionFlags.NONE, outputs)
    return [np.array(data) for data in device.compute(op, bindings, outputs)]


def test_the_style_transfers_reflection_and_crops(device, builder):
    """The sample "candy": padding, and crops between its convolutions."""
    image = RNG.random((1, 3, 72, 72), np.float32)
    x = dml.input_tensor(builder, 0, dml.TensorDesc(F32, [1, 3, 72, 72]))
    pad3 = dml.padding(x, dml.PaddingMode.REFLECTION, 0.0, [0, 0, 40, 40], [0, 0, 40, 40])
    crop = dml.slice(pad3, [0, 0, 2, 2], [1, 3, 148, 148], [1, 1, 1, 1])
    up = dml.up_sample_2d(crop, dml.Size2D(2, 2), dml.InterpolationMode.NEAREST_NEIGHBOR)
    assert crop.get_output_desc().sizes == [1, 3, 148, 148]
    (result,) = computed(device, builder, [up], [dml.Binding(x, image)])
    padded = np.pad(image, ((0, 0), (0, 0), (40, 40), (40, 40)), "reflect")[:, :, 2:150, 2:150]
    np.testing.assert_array_equal(result, padded.repeat(2, 2).repeat(2, 3), strict=True)


def test_squeezenets_joins(device, builder):
    parts = [RNG.random((1, n, 5, 5), np.float32) for n in (4, 6, 1)]
    exprs = [dml.input_tensor(builder, k, dml.TensorDesc(F32, [*part.shape])) for k, part in enumerate(parts)]
    both = dml.join([dml.join(exprs[:2], 1), exprs[2]], 1)
    bindings = [dml.Binding(expr, part) for expr, part in zip(exprs, parts, strict=True)]
    (result,) = computed(device, builder, [both], bindings[::-1])
    np.testing.assert_array_equal(result, np.concatenate(parts, 1), strict=True)


def test_mnists_reinterpreted_weights(device, builder):
    """The sample "mnist": weights of 4 by 4 by 16, through an identity, as a matrix."""
    weights = RNG.random((16, 4, 4, 10), np.float32)
    x = dml.input_tensor(builder, 0, dml.TensorDesc(F32, dml.TensorFlags.OWNED_BY_DML, [16, 4, 4, 10]))
    matrix = dml.reinterpret(dml.activation_identity(x), F32, [1, 1, 256, 10], [2560, 2560, 10, 1])
    part = dml.slice(matrix, [0, 0, 0, 3], [1, 1, 256, 4], [1, 1, 1, 3])
    results = computed(device, builder, [matrix, part], [dml.Binding(x, weights)])
    np.testing.assert_array_equal(results[0], weights.reshape(1, 1, 256, 10), strict=True)
    np.testing.assert_array_equal(results[1], weights.reshape(1, 1, 256, 10)[..., 3:7:3], strict=True)


def test_a_broadcast_parameter(device, builder):
    """The sample "mnist": eight numbers, one per channel, of which strides of 0 make 8 by 28 by 28."""
    parameter = RNG.random((8, 1, 1), np.float32)
    x = dml.input_tensor(builder, 0, dml.TensorDesc(F32, [1, 8, 28, 28], [8, 1, 0, 0]))
    (result,) = computed(device, builder, [dml.activation_identity(x)], [dml.Binding(x, parameter)])
    np.testing.assert_array_equal(result, np.broadcast_to(parameter, (1, 8, 28, 28)), strict=True)


def test_an_input_that_nobody_needs(device, builder):
    x = dml.input_tensor(builder, 1, dml.TensorDesc(F32, [1, 1, 2, 3]))
    unused = dml.input_tensor(builder, 0, dml.TensorDesc(F32, [1, 1, 2, 3]))
    pad = dml.padding(x, dml.PaddingMode.CONSTANT, 0, start_padding=[0, 0, 1, 2], end_padding=[0, 0, 1, 2])
    dml.activation_identity(unused)
    image = np.arange(6).reshape(1, 1, 6)
    wanted = np.pad(image.reshape(2, 3), ((1, 1), (2, 2))).astype(np.float32)
    for bindings in ([dml.Binding(x, image)], [dml.Binding(unused, image + 1), None, dml.Binding(x, image)]):
        (result,) = computed(device, builder, [pad], bindings)
        np.testing.assert_array_equal(result[0, 0], wanted, strict=True)


def test_gathered_by_integers(device, builder):
    table = dml.input_tensor(builder, 0, dml.TensorDesc(F32, [1, 1, 9, 4]))
    rows = dml.input_tensor(builder, 1, dml.TensorDesc(dml.INT32, [1, 1, 2, 3]))
    gathered = dml.gather(table, rows, 2, 2)
    assert gathered.get_output_desc().sizes == [1, 2, 3, 4]
    numbers, picked = RNG.random((9, 4), np.float32), np.array([[8, 0, 1], [2, -1, 100]])
    (result,) = computed(device, builder, [gathered], [dml.Binding(rows, picked), dml.Binding(table, numbers)])
    np.testing.assert_array_equal(result[0], numbers[[[8, 0, 1], [2, 8, 8]]], strict=True)


@pytest.mark.parametrize("data_type", ["FLOAT32", "INT64", "FLOAT64"])
def test_split_of_which_a_part_is_unused(device, builder, data_type):
    x = dml.input_tensor(builder, 0, dml.TensorDesc(dml.TensorDataType[data_type], [1, 1, 2, 9]))
    first, _, last = dml.split(x, 3, [2, 3, 4])
    data = np.arange(18).reshape(1, 1, 2, 9).astype(data_type.lower())
    results = computed(device, builder, [last, first], [dml.Binding(x, data)])
    np.testing.assert_array_equal(results[0], data[..., 5:], strict=True)
    np.testing.assert_array_equal(results[1], data[..., :2], strict=True)
    with pytest.raises(anydml.DescError, match="split"):
        dml.split(x, 3, [2, 3, 3])


def test_channels_last(device, builder):
    desc = dml.TensorDesc(F32, [2, 3, 4, 5], dml.TensorPolicy.interleaved_channel)
    assert desc.strides == [60, 1, 15, 3]
    assert dml.TensorDesc(F32, [6], dml.TensorPolicy.interleaved_channel).strides == [1]
    x = dml.input_tensor(builder, 0, desc)
    image = RNG.random((2, 4, 5, 3), np.float32)
    (result,) = computed(device, builder, [dml.activation_identity(x)], [dml.Binding(x, image)])
    np.testing.assert_array_equal(result, image.transpose(0, 3, 1, 2), strict=True)


def test_the_four_signatures_of_a_tensor():
    owned = dml.TensorFlags.OWNED_BY_DML
    plain = dml.TensorDesc(F32, [2, 3])
    assert (plain.data_type, plain.flags, plain.sizes, plain.strides) == (F32, 0, [2, 3], None)
    assert (plain.total_tensor_size_in_bytes, plain.guaranteed_base_offset_alignment) == (24, 0)
    assert dml.TensorDesc(sizes=(2, 3), data_type=F32, tensor_policy=dml.TensorPolicy.default).strides is None
    assert dml.TensorDesc(F32, owned, [2, 3]).flags == owned
    assert dml.TensorDesc(F32, owned, [2, 3], dml.TensorPolicy.interleaved_channel).strides == [3, 1]
    assert dml.TensorDesc(F32, [2, 3], [4, 1]).total_tensor_size_in_bytes == 28
    assert dml.TensorDesc(F32, [2, 3], None).strides is None
    full = dml.TensorDesc(F32, owned, [2, 3], [4, 1], 64, 16)
    assert (full.strides, full.total_tensor_size_in_bytes, full.guaranteed_base_offset_alignment) == ([4, 1], 64, 16)
    assert repr(full) == "dml.TensorDesc of type 1 and shape [2,3] with flags 1"
    for arguments in ((), (F32,), (F32, 3), (F32, [2], [1], 8), (F32, owned, [2], [1], 8), ("FLOAT32", [2])):
        with pytest.raises(TypeError, match="TensorDesc takes"):
            dml.TensorDesc(*arguments)
    with pytest.raises(TypeError, match="TensorDesc takes"):
        dml.TensorDesc(F32, [2], sizes=[3])
    with pytest.raises(ValueError, match="unknown data type 'UNKNOWN'"):
        dml.TensorDesc(dml.TensorDataType.UNKNOWN, [2])


def test_data_comes_back_as_an_array():
    data = dml.TensorData([[1, 2], [3, 4]])
    assert np.array(data).dtype == np.float32
    assert np.asarray(data, np.int64).tolist() == [[1, 2], [3, 4]]


COMPUTING = [
    "activation_linear",
    "activation_relu",
    "activation_sigmoid",
    "activation_soft_max",
    "activation_tanh",
    "add",
    "average_pooling",
    "batch_normalization",
    "convolution",
    "divide",
    "gemm",
    "gru",
    "local_response_normalization",
    "max_pooling",
    "mean_variance_normalization",
    "multiply",
    "subtract",
    "value_scale_2d",
]


@pytest.mark.parametrize("name", COMPUTING)
def test_what_computes_says_so(name, builder):
    x = dml.input_tensor(builder, 0, dml.TensorDesc(F32, [1, 1, 2, 2]))
    with pytest.raises(anydml.DescError, match=f"^{name} computes: anydml moves elements and does not compute"):
        getattr(dml, name)(x, x, start_padding=[2, 2])


@pytest.mark.parametrize(
    "compute",
    [
        lambda x: x + x,
        lambda x: x - 1.0,
        lambda x: 2.0 * x,
        lambda x: x / x,
        lambda x: x % x,
        lambda x: -x,
    ],
)
def test_operators_of_expressions_compute(compute, builder):
    x = dml.input_tensor(builder, 0, dml.TensorDesc(F32, [1, 1, 2, 2]))
    with pytest.raises(anydml.DescError, match="does not compute"):
        compute(x)


NAMES = {
    "Device": ["use_gpu", "use_debug_layer"],
    "GraphBuilder": ["device"],
    "Binding": ["expr", "data"],
    "FusedActivation": ["activation", "param_1", "param_2"],
    "Size2D": ["width", "height"],
    "input_tensor": ["scope", "input_index", "tensor_desc"],
    "slice": ["input", "input_window_offsets", "input_window_sizes", "input_window_strides"],
    "join": ["input", "axis"],
    "gather": ["input", "indices", "axis", "index_dimensions"],
    "padding": ["input", "padding_mode", "padding_value", "start_padding", "end_padding"],
    "reinterpret": ["input", "new_type", "new_size", "new_strides"],
    "up_sample_2d": ["input", "scale_size", "interpolation_mode"],
    "activation_identity": ["input"],
    "split": ["input", "axis", "output_axis_sizes"],
}


@pytest.mark.parametrize("name", NAMES)
def test_names_and_parameters(name):
    assert [*inspect.signature(getattr(dml, name)).parameters] == NAMES[name]


def test_values_of_enumerations():
    assert (dml.OperatorType.ELEMENT_WISE_IDENTITY, dml.OperatorType.GEMM, dml.RESAMPLE) == (1, 54, 96)
    assert (dml.EDGE, dml.LINEAR, dml.FLOAT64, dml.OWNED_BY_DML, dml.NONE) == (1, 1, 9, 1, 0)
    assert type(dml.NONE) is dml.ExecutionFlags
    assert (dml.OutputOptions.Both, dml.CROSS_CORRELATION, dml.BIDIRECTIONAL, dml.TRANSPOSE) == (0, 1, 2, 1)
    assert dml.ExecutionFlags.NONE | dml.DISABLE_META_COMMANDS == 2
    assert all(hasattr(dml, name) for name in dml.__all__)
    assert repr(dml.Device()) == "dml.Device on CPU"


@pytest.mark.parametrize(
    ("data_type", "fitting", "others"),
    [
        (dml.TensorDataType.INT32, [2.0, -7.0, 2**31 - 1, True], [0.5, 2**31, 2**40, -(2.0**40), np.nan, np.inf]),
        (dml.TensorDataType.UINT64, [2**64 - 1, 0.0, 2.0**63], [2.0**64, -1, 2.0**70]),
        (dml.TensorDataType.INT64, [-(2.0**63), 2**63 - 1], [2.0**63, 2**63]),
        (dml.TensorDataType.UINT8, [0, 255, np.int64(3), 4.0], [-1, 256, 1e30, -0.25]),
        (dml.TensorDataType.FLOAT16, [0.1, np.inf, np.nan, 65504], [1e6, -65520.0, 10**9]),
        (F32, [0.1, -np.inf, 2**40 + 1, np.float64(1e-60)], [1e39, -1e300]),
    ],
)
def test_elements_that_the_data_type_does_not_hold_are_refused(device, builder, data_type, fitting, others):
    x = dml.input_tensor(builder, 0, dml.TensorDesc(data_type, [1, 1, 1, 1]))
    y = dml.activation_identity(x)
    for value in fitting:
        (result,) = computed(device, builder, [y], [dml.Binding(x, [value])])
        np.testing.assert_array_equal(result.reshape(1), np.array([value]).astype(result.dtype), strict=True)
    for value in others:
        with pytest.raises(anydml.BindingError, match=r"Binding: input 0 is \w+, but data has .*: elements must be in"):
            dml.Binding(x, [value])


def test_expressions_of_another_graph_are_refused(device, builder):
    other = dml.GraphBuilder(device)
    desc = dml.TensorDesc(F32, [1, 1, 1, 3])
    x, z = (dml.input_tensor(one, 0, desc) for one in (builder, other))
    y = dml.activation_identity(x)
    mirrored = dml.slice(z, [0] * 4, [1, 1, 1, 3], [1, 1, 1, -1])
    with pytest.raises(anydml.DescError, match="build: an output is an expression of another GraphBuilder"):
        builder.build(dml.NONE, [mirrored])
    op = builder.build(dml.NONE, [y])
    with pytest.raises(anydml.BindingError, match="not the expressions"):
        device.compute(op, [dml.Binding(x, [1, 2, 3])], [mirrored])
    with pytest.raises(anydml.BindingError, match="not the expressions"):
        device.compute(op, [dml.Binding(x, [1, 2, 3])], [dml.reinterpret(y, F32, [1, 1, 1, 2], None)])
    with pytest.raises(anydml.BindingError, match="input 0 is bound by an expression of another GraphBuilder"):
        device.compute(op, [dml.Binding(z, [1, 2, 3])], [y])


def test_what_does_not_fit(device, builder):
    x = dml.input_tensor(builder, 0, dml.TensorDesc(F32, [1, 1, 2, 2]))
    y = dml.activation_identity(x)
    op = builder.build(dml.ExecutionFlags.NONE, [y])
    full = dml.Binding(x, np.ones(4))
    assert "1 move, 0 B of scratch" in str(op)
    for call, error, message in (
        (lambda: dml.Binding(x, np.ones(5)), anydml.BindingError, "input 0 has 16 bytes, but data has 20"),
        (lambda: dml.Binding(y, np.ones(4)), anydml.BindingError, "expr is not an input"),
        (lambda: device.compute(op, [], [y]), anydml.BindingError, "input 0 is not bound"),
        (lambda: device.compute(op, [full, full], [y]), anydml.BindingError, "input 0 is bound twice"),
        (lambda: device.compute(op, [full], []), anydml.BindingError, "not the expressions .*: pass those that build"),
        (lambda: dml.Binding(x, np.ma.array(full.bytes, mask=True)), anydml.BindingError, "input 0 is a masked array"),
        (lambda: dml.Binding(x, np.full(4, 1j)), anydml.BindingError, "input 0 is bound to complex128: data must be"),
        (lambda: dml.Binding(x, ["a"] * 4), anydml.BindingError, "input 0 is bound to <U1: data must be numbers"),
        (lambda: dml.Binding(x, "text"), TypeError, "Binding: input 0 is 'text', but it must be an array"),
        (lambda: dml.input_tensor(builder, -1, dml.TensorDesc(F32, [1])), anydml.DescError, "input_index is -1"),
        (lambda: builder.build(dml.NONE, [x]), anydml.DescError, "insert activation_identity"),
        (lambda: builder.build(dml.NONE, []), anydml.DescError, "Nodes has no nodes"),
        (lambda: dml.Expression().get_output_desc(), TypeError, "an empty Expression"),
        (lambda: dml.join([], 0), TypeError, "no expressions"),
        (lambda: dml.join([x], 9), anydml.DescError, "Axis is 9"),
        (lambda: dml.slice(x, [0], [1], [1]), anydml.DescError, "DML_SLICE1: .* 1 entry"),
        (lambda: dml.slice(x, [0] * 4, [1, 1, 2, 2], [1, 1, 1, 0]), anydml.DescError, "DML_SLICE1"),
        (lambda: dml.padding(x, dml.EDGE, 0, [1], [1]), anydml.DescError, "DML_PADDING: StartPadding has 1 entry"),
        (lambda: dml.gather(x, x, 7, 9), anydml.DescError, "DML_GATHER"),
        (lambda: dml.up_sample_2d(x, dml.Size2D(2, 2), dml.LINEAR), anydml.DescError, "InterpolationMode is LINEAR"),
        (
            lambda: (
                dml.reinterpret(y, F32, [5], None).source
                and builder.build(dml.NONE, [dml.activation_identity(dml.reinterpret(y, F32, [5], None))])
            ),
            anydml.DescError,
            "TotalTensorSizeInBytes",
        ),
        (
            lambda: dml.join([x, dml.input_tensor(dml.GraphBuilder(device), 0, dml.TensorDesc(F32, [1, 1, 2, 2]))], 1),
            anydml.DescError,
            "another GraphBuilder",
        ),
    ):
        with pytest.raises(error, match=message):
            call()
