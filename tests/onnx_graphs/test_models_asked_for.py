"""Functions that take models say so when they get a path or anything else."""

from pathlib import Path

import pytest

import anydml.onnx
from anydml import proving, slim

DOORS = {
    "is_compatible": anydml.onnx.backend.is_compatible,
    "make_portable": anydml.onnx.make_portable,
    "prepare": anydml.onnx.backend.prepare,
    "prove": lambda model: proving.prove(model, model),
    "slim": slim.slim,
    "to_descs": anydml.onnx.to_descs,
}


@pytest.mark.parametrize("name", DOORS)
@pytest.mark.parametrize("value", ["x.onnx", Path("x.onnx"), 3, None, b"\x08\x08"])
def test_what_is_no_model_is_named(name, value):
    advice = r"anydml\.onnx\.load\('x\.onnx'\)" if "x.onnx" in str(value) else r"anydml\.onnx\.load"
    with pytest.raises(TypeError, match=rf"^{name} takes a ModelProto, not [^\n]+: {advice} reads one$"):
        DOORS[name](value)


def test_a_node_is_asked_for():
    with pytest.raises(TypeError, match=r"^run_node takes a NodeProto, not 'x'$"):
        anydml.onnx.backend.run_node("x", [])
