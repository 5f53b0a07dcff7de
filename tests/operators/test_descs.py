"""What all descs share: they are values, list every problem, and accept nothing that cannot be run."""

import copy
import dataclasses
import inspect
import pickle

import numpy as np
import pytest
from how_many import how_many
from random_descs import OPERATORS, expected_outputs, fill_inputs, random_desc
from refused import f32, i64

import anydml as dml
from anydml.operators import REGISTRY

DESCS = how_many(1000)
EDGES = (-(2**31) - 1, -(2**31), -2, -1, 0, 1, 2, 3, 7, 2**31 - 1, 2**31, 2**32 - 1, 2**32, 2**63)


def some_descs(seed, count):
    rng = np.random.default_rng(seed)
    for i in range(count):
        yield rng, random_desc(rng, OPERATORS[i % len(OPERATORS)])


def test_descs_travel_between_processes():
    for _, desc in some_descs(1, 70):
        for twin in (copy.deepcopy(desc), pickle.loads(pickle.dumps(desc)), dataclasses.replace(desc)):
            assert twin == desc
            assert hash(twin) == hash(desc)
            assert repr(twin) == repr(desc)


def test_registry():
    types = {"SPLIT", "JOIN", "SLICE", "SLICE1", "GATHER"}
    training = {"ORT_OPERATOR_SPLIT_TRAINING", "ORT_OPERATOR_CONCAT_TRAINING"}
    assert set(REGISTRY) >= {f"DML_OPERATOR_{name}" for name in types} | training


def change(rng, value):
    """A value near the given one, or at an edge."""
    if rng.random() < 0.4:
        return int(rng.choice(EDGES))
    return value + int(rng.choice([-1, 1]))


@pytest.mark.parametrize("kind", sorted({*REGISTRY.values()}, key=lambda kind: kind.__name__))
def test_constructors_take_the_fields_in_order(kind):
    fields = dataclasses.fields(kind)
    assert [*inspect.signature(kind).parameters] == [field.name for field in fields]
    for given, named in (((), {}), ((None,) * (len(fields) + 1), {}), ((), {"nothing": 1})):
        with pytest.raises(TypeError, match=f"^{kind.__name__}: "):
            kind(*given, **named)


def test_lists_and_names_are_kept_as_tuples_and_members():
    x, y = f32(2, 3), f32(4, 6)
    by_position = dml.ResampleOperatorDesc(x, y, "NEAREST_NEIGHBOR", [2, 2])
    assert by_position == dml.ResampleOperatorDesc(
        output_tensor=y, input_tensor=x, scales=(2.0, 2.0), interpolation_mode=dml.InterpolationMode.NEAREST_NEIGHBOR
    )
    assert (by_position.scales, by_position.interpolation_mode.name) == ((2.0, 2.0), "NEAREST_NEIGHBOR")
    assert all(isinstance(scale, float) for scale in by_position.scales)


def changed_tensor(rng, tensor):
    """The tensor with one number changed."""
    sizes, strides = list(tensor.sizes), list(tensor.element_strides)
    d = int(rng.integers(len(sizes)))
    match int(rng.integers(5)):
        case 0:
            sizes[d] = change(rng, sizes[d])
            return dataclasses.replace(tensor, sizes=sizes)
        case 1:
            strides[d] = change(rng, strides[d])
            return dataclasses.replace(tensor, strides=strides)
        case 2:
            total = change(rng, tensor.minimum_size_in_bytes)
            return dataclasses.replace(tensor, total_tensor_size_in_bytes=total)
        case 3:
            return dataclasses.replace(tensor, sizes=[*sizes, 1], strides=None)
        case _:
            data_type = dml.DataType(int(rng.integers(1, 12)))
            return dataclasses.replace(tensor, data_type=data_type)


def changed(rng, desc):
    """The desc with one number of one field changed."""
    fields = [f.name for f in dataclasses.fields(desc) if getattr(desc, f.name) is not None]
    name = str(rng.choice(fields))
    value = getattr(desc, name)
    if isinstance(value, dml.TensorDesc):
        new = changed_tensor(rng, value)
    elif isinstance(value, int):
        new = change(rng, value)
    else:
        new, place = list(value), int(rng.integers(len(value)))
        is_tensor = isinstance(new[place], dml.TensorDesc)
        new[place] = changed_tensor(rng, new[place]) if is_tensor else change(rng, new[place])
        new = new[: int(rng.integers(len(new) + 1))] if rng.random() < 0.1 else new
    return dataclasses.replace(desc, **{name: new})


def run_in_flat_buffers(rng, desc):
    """Bind buffers of exactly the promised size, dispatch, and compare with NumPy."""
    buffers = [rng.integers(0, 256, t.size_in_bytes, np.uint8) for _, t in (*desc.inputs, *desc.outputs)]
    views = []
    for (_, t), buffer in zip((*desc.inputs, *desc.outputs), buffers, strict=True):
        strides = [s * t.data_type.itemsize for s in t.element_strides]
        # NumPy refuses a view that leaves the buffer.
        views.append(np.ndarray(t.sizes, t.data_type.dtype, buffer, 0, strides))
    count = len(desc.inputs)
    fill_inputs(rng, desc, views[:count])
    bound = [memoryview(buffer) for buffer in buffers]
    dml.Device().compile_operator(desc).bind(bound[:count], bound[count:]).dispatch()
    for got, expected in zip(views[count:], expected_outputs(desc, views[:count]), strict=True):
        assert got.tobytes() == expected.astype(got.dtype, copy=False).tobytes(), desc


def refusal(desc):
    """What `check` raises, if anything."""
    try:
        desc.check()
    except dml.DescError as error:
        return error
    return None


def test_what_is_accepted_can_be_run():
    accepted = refused = 0
    for rng, desc in some_descs(2, DESCS):
        try:
            other = changed(rng, desc)
        except dml.DescError:
            # Integers below 0 are refused at once.
            refused += 1
            continue
        error, problems = refusal(other), list(other.problems())
        if error:
            assert str(error) == str(problems[0])
            assert (error.operator, error.field, error.rule) == (other.OPERATOR, problems[0].field, problems[0].rule)
            refused += 1
            continue
        assert problems == []
        accepted += 1
        # Sizes that differ cannot lie in one place.
        has_room = not any(0 in t.element_strides for name, t in other.inputs if name in other.HOST)
        if has_room and sum(t.size_in_bytes for _, t in (*other.inputs, *other.outputs)) < 2**20:
            run_in_flat_buffers(rng, other)
    assert accepted > DESCS // 14
    assert refused > DESCS // 2


X, HALF = f32(4), dml.TensorDesc("FLOAT16", [2])


@pytest.mark.parametrize(
    "desc, fields",
    [
        (dml.SplitOperatorDesc(X, [f32(1), HALF], 0), ["OutputTensors[1].DataType", "OutputTensors.Sizes[0]"]),
        (dml.JoinOperatorDesc([f32(1), HALF], X, 0), ["InputTensors[1].DataType", "InputTensors.Sizes[0]"]),
        (
            dml.SplitTrainingOperatorDesc(X, i64(2), [f32(1), HALF]),
            ["OutputTensors[1].DataType", "OutputTensors.Sizes[0]"],
        ),
        (
            dml.ConcatTrainingOperatorDesc([f32(1), HALF], X, i64(3)),
            ["InputTensors[1].DataType", "PerInputLengthTensor.Sizes", "InputTensors.Sizes[0]"],
        ),
        (
            dml.SliceOperatorDesc(X, HALF, [3], [2], [1]),
            ["OutputTensor.DataType", "Sizes[0]"],
        ),
        (
            dml.Slice1OperatorDesc(X, f32(3), [3], [2], [0]),
            ["InputWindowSizes[0]", "InputWindowStrides[0]"],
        ),
        (
            dml.GatherOperatorDesc(X, HALF, HALF, 0, 2),
            ["OutputTensor.DataType", "IndicesTensor.DataType", "IndexDimensions", "IndicesTensor.DataType"],
        ),
        (
            dml.GatherOperatorDesc(X, i64(3), HALF, 0, 1),
            ["OutputTensor.DataType", "OutputTensor.Sizes"],
        ),
    ],
    ids=lambda value: getattr(value, "OPERATOR", ""),
)
def test_every_problem_is_listed(desc, fields):
    problems = list(desc.problems())
    assert [problem.field for problem in problems] == fields
    assert {problem.operator for problem in problems} == {desc.OPERATOR}
    with pytest.raises(dml.DescError) as caught:
        desc.check()
    assert str(caught.value) == str(problems[0])


def test_a_broken_tensor_hides_no_other():
    bad = dml.TensorDesc("INT8", [0], [1, 2])
    desc = dml.JoinOperatorDesc([bad, dml.TensorDesc("INT8", [3])], dml.TensorDesc("INT8", [3], [0]), 0)
    assert [problem.field for problem in desc.problems()] == [
        "InputTensors[0].Sizes[0]",
        "InputTensors[0].Strides",
        "OutputTensor.Strides",
    ]


def test_what_depends_on_broken_numbers_is_not_asked():
    wide = dml.TensorDesc("INT64", [2**31], [2**32 - 1], total_tensor_size_in_bytes=1)
    desc = dml.JoinOperatorDesc([wide], dml.TensorDesc("INT64", [2]), 7)
    assert [problem.field for problem in desc.problems()] == ["InputTensors[0].Strides"]


def test_an_operator_that_does_not_exist_yet_is_one_problem():
    desc = dml.Slice1OperatorDesc(i64(4), i64(4), [0], [4], [1])
    assert [(p.field, p.needs) for p in desc.problems("1_0")] == [("Type", dml.FeatureLevel.LEVEL_2_1)]


X = f32(4)
WRONG = [
    (lambda: dml.SplitOperatorDesc(X, [X], "0"), "DML_SPLIT", "Axis", "is '0', but it must be an integer"),
    (lambda: dml.SplitOperatorDesc(X, X, 0), "DML_SPLIT", "OutputTensors", "must be a list of TensorDescs"),
    (lambda: dml.SplitOperatorDesc(X, None, 0), "DML_SPLIT", "OutputTensors", "is None, but"),
    (lambda: dml.SplitOperatorDesc(None, [X], 0), "DML_SPLIT", "InputTensor", "is None, but it must be a TensorDesc"),
    (lambda: dml.JoinOperatorDesc([X, "x"], X, 0), "DML_JOIN", "InputTensors[1]", "is 'x', but it must be a TensorDe"),
    (lambda: dml.JoinOperatorDesc([X], X, 1.0), "DML_JOIN", "Axis", "is 1.0, but"),
    (lambda: dml.SliceOperatorDesc(X, X, [0.5], [1], [1]), "DML_SLICE", "Offsets[0]", "is 0.5, but"),
    (lambda: dml.SliceOperatorDesc(X, X, [0], 1, [1]), "DML_SLICE", "Sizes", "is 1, but it must be a list of integers"),
    (lambda: dml.SliceOperatorDesc(X, X, [0], [1], None), "DML_SLICE", "Strides", "is None, but"),
    (lambda: dml.Slice1OperatorDesc(X, 1, [0], [1], [1]), "DML_SLICE1", "OutputTensor", "is 1, but"),
    (lambda: dml.Slice1OperatorDesc(X, X, [0], [1], ["a"]), "DML_SLICE1", "InputWindowStrides[0]", "is 'a', but"),
    (lambda: dml.GatherOperatorDesc(X, X, X, 0, None), "DML_GATHER", "IndexDimensions", "is None, but"),
    (lambda: dml.GatherOperatorDesc(X, None, X, 0, 1), "DML_GATHER", "IndicesTensor", "is None, but"),
    (lambda: dml.SplitTrainingOperatorDesc(X, 3, [X]), "SplitTraining", "SplitTensor", "is 3, but"),
    (lambda: dml.SplitTrainingOperatorDesc(X, None, [X], "a"), "SplitTraining", "Axis", "is 'a', but"),
    (lambda: dml.ConcatTrainingOperatorDesc(X, X), "ConcatTraining", "InputTensors", "must be a list of TensorDescs"),
    (lambda: dml.ConcatTrainingOperatorDesc([X], X, 0), "ConcatTraining", "PerInputLengthTensor", "is 0, but"),
]


@pytest.mark.parametrize(("make", "operator", "field", "text"), WRONG)
def test_arguments_of_other_types_name_their_field(make, operator, field, text):
    for expected in (TypeError, dml.DescError):
        with pytest.raises(expected) as caught:
            make()
    error = caught.value
    assert (error.operator, error.field) == (operator, field)
    assert str(error).startswith(f"{operator}: {field} is ")
    assert text in str(error)
    assert error.rule == str(error).partition(", but ")[2]


def test_an_operator_that_lacks_a_part_says_so():
    class Nothing(dml.OperatorDesc):
        OPERATOR, INPUTS, OUTPUTS = "DML_NOTHING", (), ()

    for part in (lambda desc: [*desc.constraints()], lambda desc: desc.moves(), lambda desc: [*desc.elements(None)]):
        with pytest.raises(NotImplementedError):
            part(Nothing())


@pytest.mark.parametrize(
    ("values", "named", "message"),
    [
        ((), {"foo": 1}, "there is no field 'foo': the fields are input_tensor, output_tensors, axis"),
        (
            (),
            {"axes": 1},
            "there is no field 'axes': the fields are input_tensor, output_tensors, axis; did you mean axis?",
        ),
        ((1, 2, 3, 4), {}, "4 values are given, but the fields are input_tensor, output_tensors, axis"),
        ((1,), {"input_tensor": 1}, "input_tensor is given twice, by position and by name"),
        ((1,), {}, "no value is given for output_tensors and axis: the fields are input_tensor, output_tensors, axis"),
    ],
)
def test_wrong_fields_are_named(values, named, message):
    with pytest.raises(TypeError) as raised:
        dml.SplitOperatorDesc(*values, **named)
    assert str(raised.value) == f"SplitOperatorDesc: {message}"
