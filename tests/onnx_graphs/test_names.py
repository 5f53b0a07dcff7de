"""Names, sizes and strings of a file that pretend to be something else: shown as they are, on one line."""

from __future__ import annotations

import unicodedata

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

from anydml import ModelError
from anydml.cli import main
from anydml.onnx import backend, make_portable, to_descs

FORGED = "\nOutput 'safe' written to '/safe'"
NAMES = [f"a{FORGED}", "\u202egnp.exe", "\u2028b", "\u2029c", "d\x1b[2J", "\x9b2J", "e\r", "\u2066f\u2069", "\x85g"]


@pytest.fixture
def anydml(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    np.save("x.npy", np.float32([1, 2]))

    def run(model, *arguments):
        (tmp_path / "model.onnx").write_bytes(model.SerializeToString())
        with pytest.raises(SystemExit) as ended:
            main([*arguments[:1], *arguments[1:]])
        captured = capsys.readouterr()
        text = captured.out + captured.err
        assert not {c for c in text if unicodedata.category(c) in ("Cc", "Cf", "Zl", "Zp") and c != "\n"}
        return ended.value.code or 0, captured.out, captured.err

    return run


def made(nodes, inputs=("x",), outputs=("y",), tensors=(), kind=TensorProto.FLOAT, size=2):
    graph = helper.make_graph(
        nodes, "g",
        [helper.make_tensor_value_info(name, kind, [size]) for name in inputs],
        [helper.make_tensor_value_info(name, kind, ["N"]) for name in outputs], tensors,
    )  # fmt: skip
    opsets = [helper.make_opsetid("", 18), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=9)


@pytest.mark.parametrize("name", NAMES)
def test_run(anydml, name):
    model = made([helper.make_node("Identity", ["x"], [name])], outputs=[name])
    shown = name.encode("unicode_escape").decode()
    code, out, err = anydml(model, "run", "model.onnx", "--input", "x=x.npy")
    assert (code, out, err) == (0, f"Output '{shown}' (float32 [2]): 1, 2\n", "")
    code, out, err = anydml(model, "run", "model.onnx", "--input", "x=x.npy", "--output", f"{name}=y.npy")
    assert (code, out, err) == (0, f"Output '{shown}' written to 'y.npy'\n", "")


def test_strings_that_are_printed(anydml):
    texts = numpy_helper.from_array(np.array([*NAMES, "x" * 1000], object), "t")
    model = made([helper.make_node("Identity", ["t"], ["y"])], tensors=[texts], kind=TensorProto.STRING)
    model.graph.ClearField("input")
    code, out, _ = anydml(model, "run", "model.onnx")
    assert code == 0
    assert out.count("\n") == 1
    assert out.endswith(f"{'x' * 200}…\n")


@pytest.mark.parametrize("name", NAMES)
def test_check(anydml, name):
    model = made([helper.make_node("Split", ["x"], ["y", "z"], name, num_outputs=2)], kind=TensorProto.INT64)
    code, out, err = anydml(model, "check", "model.onnx", "-v")
    assert (code, err) == (0, "")
    assert all(line.startswith(("model.onnx: ", "    ")) for line in out.splitlines())
    assert name.encode("unicode_escape").decode() in out


@pytest.mark.parametrize("name", NAMES)
def test_errors(anydml, name):
    text = numpy_helper.from_array(np.zeros(2), name)
    text.dims[0] = 3
    outside = helper.make_tensor(name, TensorProto.FLOAT, [2], [1.0, 2.0])
    outside.ClearField("float_data")
    outside.data_location = TensorProto.EXTERNAL
    outside.external_data.add(key="location", value=name)
    attribute = helper.make_node("Identity", ["x"], ["y"])
    attribute.attribute.append(helper.make_attribute(name, 1))
    untyped = helper.make_node("SplitTraining", ["x"], ["y"], name, domain="com.microsoft", axis=[1])
    for model in (
        made([helper.make_node(name, ["x"], ["y"])]),
        made([helper.make_node("Identity", ["x"], ["y"], name, domain=name)]),
        made([helper.make_node("Identity", [name], ["y"], name)]),
        made([helper.make_node("Concat", ["x"], ["y"], name, axis=3)]),
        made([helper.make_node("Split", ["x"], [name, "z"], name, num_outputs=3)]),
        made([attribute]),
        made([untyped]),
        made([helper.make_node("Identity", [name], ["y"])], tensors=[text]),
        made([helper.make_node("Identity", [name], ["y"])], tensors=[outside]),
        made([helper.make_node("Identity", ["x"], ["y"])], inputs=["x", name], size=name),
        made([helper.make_node("Identity", ["x"], ["y"])], outputs=[name]),
    ):
        for arguments in (
            ("run", "model.onnx", "--input", "x=x.npy"),
            ("check", "model.onnx"),
            ("onnx", "portable", "--overwrite", "model.onnx", "out.onnx"),
        ):
            code, out, err = anydml(model, *arguments)
            if code in (1, 3) or (code == 0 and arguments[0] == "check"):
                assert arguments[0] == "check"
                assert not err
                assert all(line.startswith(("model.onnx: ", "    ")) for line in out.splitlines())
                continue
            assert code in (0, 2)
            assert (out + err).count("\n") == 1
            assert err.startswith("anydml: model.onnx: ") or (code == 0 and not err)
        for work in (lambda m: backend.run_model(m, [np.float32([1, 2])]), to_descs, make_portable):
            try:
                work(model)
            except ModelError as error:
                assert str(error).isprintable(), error  # noqa: PT017


def test_inputs_that_are_missing():
    model = made([helper.make_node("Identity", ["x"], ["y"])], inputs=["x", f"z{FORGED}"])
    with pytest.raises(ModelError) as error:
        backend.run_model(model, [])
    assert str(error.value).isprintable()
