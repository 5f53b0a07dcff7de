"""How tests say that a desc is refused."""

import pytest

import anydml as dml


def refused(desc, field, rule, *texts):
    """`desc` breaks one rule, which `check` and `compile_operator` both name, with the values."""
    with pytest.raises(dml.DescError) as caught:
        desc.check()
    error = caught.value
    assert (error.operator, error.field, error.rule) == (desc.OPERATOR, field, rule)
    for text in (f"{desc.OPERATOR}: ", *texts):
        assert text in str(error)
    for device in ("cpu", "reference"):
        with pytest.raises(dml.DescError) as again:
            dml.Device(device).compile_operator(desc)
        assert str(again.value) == str(error)
    assert isinstance(error, ValueError)


def f32(*sizes, strides=None):
    """A FLOAT32 tensor."""
    return dml.TensorDesc("FLOAT32", sizes, strides)


def i64(*sizes):
    """An INT64 tensor."""
    return dml.TensorDesc("INT64", sizes)
