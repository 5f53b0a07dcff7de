"""What an operator of one file and one line can do. Run where it was added, by ``test_one_file_operator.py``."""

import importlib.util
import json

import numpy as np
import pytest

import anydml as dml
from anydml import cli

rng = np.random.default_rng(0)


def run(*arguments):
    """The command line."""
    with pytest.raises(SystemExit) as ended:
        cli.main([str(argument) for argument in arguments])
    assert not ended.value.code


def swapped(x, axis=0):
    return np.roll(x, x.shape[axis] // 2, axis)


@pytest.mark.parametrize("device", ["reference", "numpy", "cpu"])
@pytest.mark.parametrize("sizes, axis", [([4, 3, 2], 0), ([3, 6], 1), ([30, 40], 1)])
def test_desc(device, sizes, axis):
    tensor = dml.TensorDesc("INT32", sizes)
    desc = dml.SwapHalvesOperatorDesc(tensor, tensor, axis)
    desc.check()
    x, y = rng.integers(0, 99, sizes).astype(np.int32), np.empty(sizes, np.int32)
    dml.Device(device).compile_operator(desc).bind(inputs=[x], outputs=[y]).dispatch()
    assert np.array_equal(y, swapped(x, axis))
    with pytest.raises(dml.DescError, match="odd"):
        dml.SwapHalvesOperatorDesc(dml.TensorDesc("INT32", [3]), dml.TensorDesc("INT32", [3]), 0).check()


@pytest.mark.skipif(not importlib.util.find_spec("triton"), reason="needs Triton")
def test_desc_in_triton(monkeypatch):
    monkeypatch.setenv("TRITON_INTERPRET", "1")
    tensor = dml.TensorDesc("INT32", [4, 6])
    x, y = rng.integers(0, 99, (4, 6)).astype(np.int32), np.empty((4, 6), np.int32)
    try:
        device = dml.Device("cuda")
    except ValueError as error:
        pytest.skip(str(error))
    device.compile_operator(dml.SwapHalvesOperatorDesc(tensor, tensor, 1)).bind(inputs=[x], outputs=[y]).dispatch()
    assert np.array_equal(y, swapped(x, 1))


def test_function():
    for dtype in ("f4", "u1", "c16", "U3", object):
        x = rng.integers(0, 9, (3, 200, 8)).astype(dtype)[:, ::-1].transpose(2, 0, 1)
        assert np.array_equal(dml.swap_halves(x, -1), swapped(x, 2))
        out = np.empty((8, 200, 3), dtype).transpose(0, 2, 1)
        assert dml.swap_halves(x, axis=2, out=out) is out
        assert np.array_equal(out, swapped(x, 2))
    with pytest.raises(dml.DescError, match="swap_halves: halves is 2, but axis 0 has size 3"):
        dml.swap_halves(np.arange(3))
    assert dml.swap_halves(np.empty((0, 2))).shape == (0, 2)


def test_fused():
    fused = dml.fuse(lambda x: dml.join([dml.swap_halves(x[1:], 1), x], 0))
    x = rng.integers(0, 9, (4, 6))
    assert np.array_equal(fused(x), np.concatenate([swapped(x[1:], 1), x]))
    assert not fused.lower(x).scratch_bytes


def test_model_file(tmp_path, capsys):
    tensor = {"DataType": "FLOAT32", "Sizes": [4]}
    model = {
        "resources": {
            "input": {"initialValuesDataType": "FLOAT32", "initialValues": [1, 2, 3, 4]},
            "output": {"initialValuesDataType": "FLOAT32", "initialValues": {"valueCount": 4, "value": 0}},
        },
        "dispatchables": {
            "swap": {
                "type": "MY_OPERATOR_SWAP_HALVES",
                "desc": {"InputTensor": tensor, "OutputTensor": tensor, "Axis": 0},
            }
        },
        "commands": [
            {
                "type": "dispatch",
                "dispatchable": "swap",
                "bindings": {"InputTensor": "input", "OutputTensor": "output"},
            },
            {"type": "print", "resource": "output"},
        ],
    }
    path = tmp_path / "swap.json"
    path.write_text(json.dumps(model), encoding="utf-8")
    run("run", path)
    assert "Resource 'output' (float32 [4]): 3, 4, 1, 2" in capsys.readouterr().out


def test_operator_table(capsys):
    run("ops")
    assert "SWAP_HALVES" in capsys.readouterr().out


def test_onnx_node():
    onnx = pytest.importorskip("onnx")
    from anydml.onnx import backend

    node = onnx.helper.make_node("SwapHalves", ["x"], ["y"], domain="anydml", axis=1)
    info = [onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [2, 6]) for name in "xy"]
    graph = onnx.helper.make_graph([node], "swap", info[:1], info[1:])
    opsets = [onnx.helper.make_opsetid("", 18), onnx.helper.make_opsetid("anydml", 1)]
    model = onnx.helper.make_model(graph, opset_imports=opsets, ir_version=10)
    x = rng.random((2, 6)).astype(np.float32)
    assert np.array_equal(backend.prepare(model).run([x])[0], swapped(x, 1))


def test_torch():
    torch = pytest.importorskip("torch")
    import anydml.torch as at

    operator = torch.ops.anydml.swap_halves
    x = torch.randn(3, 4, dtype=torch.float64, requires_grad=True)
    expected = x.roll(2, 1)
    assert torch.equal(operator(x, 1), expected)
    assert torch.equal(at.swap_halves(x, axis=1), expected)
    assert torch.equal(dml.swap_halves(x.detach(), 1), expected)
    assert set(torch.library.opcheck(operator.default, (x, 1)).values()) == {"SUCCESS"}
    assert torch.autograd.gradcheck(lambda x: operator(x, 1), x)
    assert torch.autograd.gradgradcheck(lambda x: operator(x, 1).sin(), x)
    batch = torch.randn(5, 3, 4)
    assert torch.equal(torch.vmap(lambda x: at.swap_halves(x, 1))(batch), batch.roll(2, 2))
    assert torch.equal(torch.func.jvp(lambda x: at.swap_halves(x, 1), (batch[0],), (batch[1],))[1], batch[1].roll(2, 1))

    class Model(torch.nn.Module):
        def forward(self, x):
            return dml.swap_halves(x * 2, 1)

    exported = torch.export.export(Model(), (batch[0],), dynamic_shapes=({0: torch.export.Dim("n")},))
    assert torch.equal(exported.module()(torch.ones(7, 4)), torch.full((7, 4), 2.0))
    compiled = torch.compile(Model(), backend="aot_eager", fullgraph=True)
    assert torch.equal(compiled(batch[0]), (batch[0] * 2).roll(2, 1))
