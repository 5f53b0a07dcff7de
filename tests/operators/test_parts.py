"""DML_SPLIT and DML_JOIN: each rule at its boundary and just past it."""

import numpy as np
import pytest
from call_ways import in_python
from odd_arrays import DTYPES, random_array
from refused import f32, refused

import anydml as dml

X = f32(1, 1, 6, 2)
F16 = dml.TensorDesc("FLOAT16", [1, 1, 3, 2])
SUM = "the sizes of {} along Axis must add up to {}'s"
SIZES = "{} must have the sizes of {} in every dimension but Axis"
RANGE = "Axis must be 0 to {}.DimensionCount − 1"
ONE_TYPE = "{} and {} must have the same DataType"


def split(x, parts, axis):
    return dml.SplitOperatorDesc(x, parts, axis)


def join(x, parts, axis):
    return dml.JoinOperatorDesc(parts, x, axis)


both = pytest.mark.parametrize(
    "make, whole, parts", [(split, "InputTensor", "OutputTensors"), (join, "OutputTensor", "InputTensors")]
)


@both
def test_every_way_to_add_up_is_allowed(make, whole, parts):
    for sizes in ([6], [1, 5], [2, 1, 3], [1] * 6):
        make(X, [f32(1, 1, n, 2) for n in sizes], 2).check()


@both
@pytest.mark.parametrize("sizes, total", [([2, 1, 2], 5), ([2, 1, 4], 7), ([5], 5), ([7], 7)])
def test_parts_add_up(make, whole, parts, sizes, total):
    refused(
        make(X, [f32(1, 1, n, 2) for n in sizes], 2),
        f"{parts}.Sizes[2]",
        SUM.format(parts, whole),
        f"{parts} sizes along Axis 2 add up to {total}, but {whole}.Sizes[2] is 6",
    )


def test_the_message_of_a_wrong_sum():
    with pytest.raises(dml.DescError) as caught:
        split(X, [f32(1, 1, 2, 2), f32(1, 1, 3, 2)], 2).check()
    assert str(caught.value) == (
        "DML_SPLIT: OutputTensors sizes along Axis 2 add up to 5, but InputTensor.Sizes[2] is 6: "
        "the sizes of OutputTensors along Axis must add up to InputTensor's"
    )


@both
def test_other_dimensions_are_equal(make, whole, parts):
    refused(
        make(X, [f32(1, 1, 3, 2), f32(1, 1, 3, 1)], 2),
        f"{parts}[1].Sizes[3]",
        SIZES.format(parts, whole),
        f"{parts}[1].Sizes[3] is 1, but {whole}.Sizes[3] is 2",
    )
    refused(make(X, [f32(2, 1, 6, 2)], 2), f"{parts}[0].Sizes[0]", SIZES.format(parts, whole))


@both
def test_there_is_a_part(make, whole, parts):
    refused(make(X, [], 2), parts, "there must be at least one", f"{parts} has no tensors")


@both
def test_axis_is_in_range(make, whole, parts):
    for axis in range(4):
        make(X, [X], axis).check()
    for axis in (4, 5, -1, 2**32):
        refused(make(X, [X], axis), "Axis", RANGE.format(whole), f"Axis is {axis}, but {whole} has 4 dimensions")


@both
def test_data_types_are_equal(make, whole, parts):
    refused(
        make(X, [f32(1, 1, 3, 2), F16], 2),
        f"{parts}[1].DataType",
        ONE_TYPE.format(whole, parts),
        f"{parts}[1].DataType is FLOAT16, but {whole}.DataType is FLOAT32",
    )


@both
def test_dimension_counts_are_equal(make, whole, parts):
    refused(
        make(X, [f32(1, 6, 2)], 2),
        f"{parts}[0].Sizes",
        f"{whole} and {parts}[0] must have the same DimensionCount",
        f"{parts}[0] has 3 dimensions, but {whole} has 4",
    )


@both
def test_a_part_may_not_be_empty(make, whole, parts):
    refused(
        make(X, [f32(1, 1, 6, 2), f32(1, 1, 0, 2)], 2),
        f"{parts}[1].Sizes[2]",
        "each size must be 1 to 4294967295",
        "is 0",
    )


def test_every_problem_is_listed():
    desc = split(X, [f32(1, 1, 2, 3), f32(1, 2, 2, 2)], 2)
    assert [problem.field for problem in desc.problems()] == [
        "OutputTensors[0].Sizes[3]",
        "OutputTensors[1].Sizes[1]",
        "OutputTensors.Sizes[2]",
    ]


def test_descs_are_values():
    one, same, other = (split(X, [X], axis) for axis in (0, 0, 1))
    assert one == same
    assert hash(one) == hash(same)
    assert one != other
    with pytest.raises(AttributeError):
        one.axis = 2


def test_packed_and_strided_parts_agree_in_python():
    rng = np.random.default_rng(9)
    with in_python():
        for _ in range(100):
            x = np.asarray(random_array(rng, DTYPES[rng.choice(["f4", "u1", "D"])], (int(rng.integers(1, 5)), 3000, 2)))
            cut = int(rng.integers(0, 3001))
            spread = np.repeat(x, 2, 2)[..., ::2]
            parts = dml.split(x, [cut, 3000 - cut], 1)
            for part, again, slow in zip(
                parts, dml.split(spread, [cut, 3000 - cut], 1), np.split(x, [cut], 1), strict=True
            ):
                assert part.tobytes() == again.tobytes() == slow.tobytes()
            assert dml.join(parts, 1).tobytes() == dml.join(np.split(spread, [cut], 1), 1).tobytes() == x.tobytes()
