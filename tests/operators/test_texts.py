"""What descs look like in a REPL, and what `describe` says of them."""

import dataclasses
import itertools

import numpy as np
import pytest
from random_descs import OPERATORS, random_desc

import anydml as dml
from anydml.operators.desc_text import MAX_SHOWN, Problems

SPLIT = dml.SplitOperatorDesc(
    dml.TensorDesc("FLOAT32", [1, 1, 6, 2]), [dml.TensorDesc("FLOAT32", [1, 1, n, 2]) for n in (2, 1, 3)], 2
)
STRIDED = dml.TensorDesc("INT8", [2, 3], [4, 1], dml.TensorFlags.OWNED_BY_DML, 64, 16)


def test_a_desc_is_one_short_line():
    assert repr(SPLIT) == str(SPLIT) == "SplitOperatorDesc(FLOAT32 [1, 1, 6, 2] → 3 × FLOAT32, axis 2)"
    constant = dml.FillValueConstantOperatorDesc(STRIDED, "INT8", 3)
    assert repr(constant) == "FillValueConstantOperatorDesc(→ INT8 [2, 3], value_data_type INT8, value 3)"


@pytest.mark.parametrize("operator", OPERATORS)
def test_every_field_is_told(operator):
    """By the fields of the dataclass: none is forgotten, whatever is added."""
    desc = random_desc(np.random.default_rng(1), operator)
    short, long = repr(desc), desc.describe()
    assert short.startswith(f"{type(desc).__name__}(")
    assert "\n" not in short
    assert len(short) < 300
    for field in dataclasses.fields(desc):
        assert f"  {field.name}" in long
        if field.name not in (*desc.INPUTS, *desc.OUTPUTS) and getattr(desc, field.name) is not None:
            assert f", {field.name} " in short
    for _, tensor in (*desc.inputs, *desc.outputs):
        assert f"{tensor.data_type} {list(tensor.sizes)}" in long
        assert f"{tensor.size_in_bytes} bytes" in long


def test_a_described_tensor_says_all_that_is_not_usual():
    fill = dml.FillValueConstantOperatorDesc(STRIDED, "INT8", 3)
    assert fill.describe().splitlines()[1:] == [
        "  output_tensor    INT8 [2, 3], strides [4, 1], 64 bytes, aligned to 16, OWNED_BY_DML",
        "  value_data_type  INT8",
        "  value            3",
    ]


def test_a_broken_desc_can_be_printed():
    broken = dml.TensorDesc("FLOAT32", [2, 3], [1, 2, 3])
    desc = dml.SliceOperatorDesc(broken, broken, [0] * 20, [1], [1, 2])
    assert "offsets [0, 0, 0, 0, 0, 0, 0, 0, ...]" in repr(desc)
    assert "strides [1, 2, 3]" in desc.describe()


@pytest.mark.parametrize("tensor", [STRIDED, SPLIT.input_tensor, dml.TensorDesc("UINT64", [])])
def test_a_tensors_repr_makes_the_tensor(tensor):
    assert eval(repr(tensor), {"TensorDesc": dml.TensorDesc}) == tensor


def test_a_usual_tensor_says_no_more_than_it_must():
    assert repr(SPLIT.input_tensor) == "TensorDesc('FLOAT32', [1, 1, 6, 2])"


def test_problems_read_well():
    assert repr(SPLIT.problems()) == "no problems"
    wrong = dataclasses.replace(SPLIT, axis=4)
    assert repr(wrong.problems()) == (
        "DML_SPLIT: Axis is 4, but InputTensor has 4 dimensions: Axis must be 0 to InputTensor.DimensionCount − 1"
    )
    assert bool(wrong.problems())
    assert not SPLIT.problems()
    problems = wrong.problems()
    assert [*problems] == [*problems] != []


def test_no_more_problems_are_looked_for_than_are_shown():
    found = []

    def endless():
        for k in itertools.count():
            found.append(k)
            yield f"problem {k}"

    lines = repr(Problems(endless)).splitlines()
    assert lines == [*(f"problem {k}" for k in range(MAX_SHOWN)), "and more"]
    assert len(found) == MAX_SHOWN + 1


def test_dir_shows_the_public_names():
    assert dir(dml) == sorted(dml.__all__)
