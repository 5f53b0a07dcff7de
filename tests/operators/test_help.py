"""What `help` and completion show of descs: what callers use, and nothing of engines."""

import dataclasses
import pydoc

import pytest

import anydml as dml
from anydml.operators import REGISTRY
from anydml.operators.base import PUBLIC


@pytest.mark.parametrize("kind", sorted(set(REGISTRY.values()), key=lambda kind: kind.__name__))
def test_fields_come_first_and_methods_of_engines_not_at_all(kind):
    fields = [field.name for field in dataclasses.fields(kind)]
    assert dir(kind) == sorted([*fields, *PUBLIC])
    text = pydoc.plain(pydoc.render_doc(kind))
    lines = text.splitlines()
    assert len(lines) < 130
    shown = [line.strip(" |").partition("(")[0] for line in lines]
    for name in fields:
        assert shown.index(name) < shown.index("check") < shown.index("program")
        assert f"{name}:" in text, "the docstring says what it is"
    for name in ("apply", "constraints", "elements", "host_problem", "constant_output", "lower"):
        assert name not in shown
        assert getattr(kind, name)


def test_a_desc_completes_as_its_class():
    tensor = dml.TensorDesc("FLOAT32", [4])
    desc = dml.ElementWiseIdentityOperatorDesc(tensor, tensor)
    assert dir(desc) == dir(type(desc))
    assert all(hasattr(desc, name) for name in dir(desc))
