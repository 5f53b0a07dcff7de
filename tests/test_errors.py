"""The errors: ValueErrors that know where they happened."""

import copy
import pickle

import pytest

import anydml as dml


@pytest.mark.parametrize("kind", [dml.DescError, dml.BindingError, dml.ModelError])
def test_errors_carry_operator_field_and_rule(kind):
    error = kind("DML_X: F is 3", "DML_X", "F", "F is 2")
    assert isinstance(error, ValueError)
    assert str(error) == "DML_X: F is 3: F is 2"
    assert (error.operator, error.field, error.rule) == ("DML_X", "F", "F is 2")
    plain = kind("no more is known")
    assert (plain.operator, plain.field, plain.rule) == (None, None, None)


@pytest.mark.parametrize("twin", [copy.copy, lambda error: pickle.loads(pickle.dumps(error))], ids=["copy", "pickle"])
def test_errors_travel_between_processes(twin):
    error = twin(dml.DescError("text", "DML_X", "F", "rule"))
    assert type(error) is dml.DescError
    assert (str(error), error.operator, error.field, error.rule) == ("text: rule", "DML_X", "F", "rule")


@pytest.mark.parametrize(
    "message", ["f: x is 3; pass an array", "f: x is 3: pass an array", "f: x is 3, but it is 0 to 2"]
)
def test_a_message_that_says_what_to_do_says_no_rule(message):
    assert str(dml.DescError(message, "f", "x", "it is 0 to 2")) == message


def test_the_three_errors_are_distinct():
    kinds = (dml.DescError, dml.BindingError, dml.ModelError)
    for kind in kinds:
        assert [other for other in kinds if issubclass(kind, other)] == [kind]
