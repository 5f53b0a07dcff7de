"""Dispatchables of type "onnx": as DxDispatch's guide has them, and its own model with dynamic shapes."""

import json

import numpy as np
import pytest

from anydml import dxdispatch
from anydml.errors import ModelError

onnx = pytest.importorskip("onnx", reason="needs onnx")

CONCAT = "my_graph (float[N,2] x0, float[N,2] x1) => (float[A,B] y) { y = Concat <axis: int = 0> (x0, x1) }"
NAMES = ("x0", "x1")


def floats(*values):
    return {"initialValuesDataType": "FLOAT32", "initialValues": [*values]}


def zeros(count, kind="FLOAT32"):
    return {"initialValuesDataType": kind, "initialValues": {"valueCount": count, "value": 0}}


LATER = {"initialValuesDataType": "FLOAT32", "initialValues": "deferred"}
RESOURCES = {"a": floats(1, 2, 3, 4, 5, 6), "b": floats(7, 8, 9, 10, 11, 12), "c": zeros(12), "later": LATER}


def show(resource):
    return {"type": "print", "resource": resource}


def dispatch(**bindings):
    return {"type": "dispatch", "dispatchable": "concat", "bindings": bindings}


def pair(rows, **more):
    return dispatch(x0={"name": "a", "shape": [rows, 2]}, x1={"name": "b", "shape": [rows, 2]}, **more)


@pytest.fixture
def run(folder, plain):
    """Runs a graph's model; what it prints, without the lines of timing."""

    def running(*commands, graph=CONCAT, resources=RESOURCES, device="cpu", **fields):
        model = onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["": 14]> {graph}')
        onnx.save(model, folder.path / "it.onnx")
        dispatchables = {"concat": {"type": "onnx", "sourcePath": "it.onnx", **fields}}
        text = {"resources": resources, "dispatchables": dispatchables, "commands": [*commands]}
        lines = []
        model = dxdispatch.load(folder.write(json.dumps(text)))
        run.results = dxdispatch.run(model, device=device, log=lines.append, warn=lines.append)
        return [plain(line) for line in lines if not line.startswith(("Running", "Dispatch"))]

    run = running
    return running


@pytest.mark.parametrize("device", ["cpu", "reference"])
def test_microsofts_own_model_with_dynamic_shapes(run, device):
    every = ", ".join(map(str, range(1, 13)))
    printed = run(
        pair(1, y={"name": "c", "shape": [2, 2]}),
        show("c"),
        pair(3, y={"name": "c", "shape": [6, 2]}),
        show("c"),
        pair(3, y={"name": "later"}),
        show("later"),
        device=device,
    )
    first = ["Resource 'c': 1, 2, 7, 8, 0, 0, 0, 0, 0, 0, 0, 0"]
    assert printed == [*first, f"Resource 'c': {every}", f"Resource 'later': {every}"]


def test_a_size_that_is_free_is_1_and_an_override_counts_before_it(run):
    assert run(dispatch(x0="a", x1="b", y="later"), show("later")) == ["Resource 'later': 1, 2, 7, 8"]
    printed = run(dispatch(x0="a", x1="b", y="later"), show("later"), freeDimensionNameOverrides={"N": 2})
    assert printed == ["Resource 'later': 1, 2, 3, 4, 7, 8, 9, 10"]
    # With overrides of all its sizes, an output has a static shape.
    sizes = {"N": 2, "A": 4, "B": 2}
    (printed,) = run(dispatch(x0="a", x1="b", y="c"), show("c"), freeDimensionNameOverrides=sizes)
    assert printed == "Resource 'c': 1, 2, 3, 4, 7, 8, 9, 10, 0, 0, 0, 0"


def test_what_is_not_bound_is_zeros_and_goes_nowhere(run):
    assert run(dispatch()) == []
    assert run(dispatch(x0="a", y="later"), show("later")) == ["Resource 'later': 1, 2, 0, 0"]


def test_a_later_size_is_written_to_files(run, folder):
    write = {"type": "writeFile", "resource": "later", "targetPath": "out.npy"}
    assert run(pair(3, y="later"), {**write, "dimensions": [6, 2]}, {**write, "targetPath": "out.bin"})
    assert np.load(folder.path / "out.npy").tolist() == np.arange(1.0, 13).reshape(6, 2).tolist()
    assert (folder.path / "out.bin").read_bytes() == np.arange(1, 13, dtype="f").tobytes()


def test_operators_and_graphs_share_resources(run):
    double = "g (float[N] x) => (float[M] y) { y = Concat <axis: int = 0> (x, x) }"
    bound = {"y": {"name": "later", "shape": [4]}, "x": {"name": "a", "shape": [2]}}
    assert run(dispatch(**bound), show("later"), graph=double) == ["Resource 'later': 1, 2, 1, 2"]
    # What was deferred, and has a shape, can be read.
    again = {"x": {"name": "later", "shape": [4]}, "y": {"name": "c", "shape": [8]}}
    (printed,) = run(dispatch(**bound), dispatch(**again), show("c"), graph=double)
    assert printed == "Resource 'c': 1, 2, 1, 2, 1, 2, 1, 2, 0, 0, 0, 0"


def test_booleans_are_bytes(run):
    graph = "g (bool[2] x) => (bool[2] y) { y = Identity (x) }"
    resources = {"x": {"initialValuesDataType": "UINT8", "initialValues": [1, 0]}, "y": zeros(2, "UINT8")}
    assert run(dispatch(x="x", y="y"), show("y"), graph=graph, resources=resources) == ["Resource 'y': 1, 0"]


def test_a_misspelt_input_is_told(run):
    (warning,) = run(dispatch(x="a"))
    assert warning.endswith("commands[0].bindings: unknown bind point x; did you mean x0?")


@pytest.mark.parametrize(
    "command, message",
    [
        (pair(4, y="later"), '"a" has 24 bytes, but "x0" of shape [4, 2] needs 32'),
        (pair(1, y="c"), 'output "y" has no static shape; bind it with a shape, or to a resource whose values are def'),
        (pair(3, y={"name": "c", "shape": [7, 2]}), '"c" has 48 bytes, but "y" of shape [7, 2] needs 56'),
        (pair(3, y={"name": "c", "shape": [5, 2]}), 'output "y" has shape [6, 2], but is bound as [5, 2]'),
        (dispatch(x0={"name": "a", "shape": [6]}), 'input "x0" has shape [6], but the graph has [N, 2]'),
        (dispatch(x0={"name": "a", "shape": [-1, 2]}), "must be at least 0, not -1"),
        (dispatch(x0={"name": "a", "elementOffset": 1}), "elementOffset is not 0, but an ONNX model's tensor begins"),
        (dispatch(x0=["a", "b"]), "2 resources bound, but a tensor of an ONNX model must have one"),
        (dispatch(x0="later"), '"later" is deferred, and no dispatch has written it yet'),
        (pair(1, y={"name": "a", "shape": [2, 2]}), 'ONNX: y overlaps x0: both are bound to byte 0 of "a"'),
    ],
)
def test_what_does_not_fit_is_refused(run, command, message):
    with pytest.raises(ModelError) as caught:
        run(command)
    assert message in str(caught.value)
    assert "commands[0]" in str(caught.value)


def test_sizes_that_nobody_knows_are_not_read(run):
    with pytest.raises(ModelError, match="is known only once it is written; bind it there with a shape"):
        run(pair(3, y="later"), dispatch(x0="later"))
    with pytest.raises(ModelError, match="with a shape that is known, and with one that is not"):
        run(pair(3, y="later"), pair(1, y={"name": "later", "shape": [2, 2]}))


def test_a_graph_that_computes_or_is_none(run, folder):
    with pytest.raises(ModelError, match=r"dispatchables.concat.sourcePath: .*\(Gemm\): not supported: anydml has"):
        run(dispatch(), graph="g (float[2,2] x) => (float[2,2] y) { y = Gemm (x, x) }")
    text = {"resources": {}, "dispatchables": {"g": {"type": "ONNX", "sourcePath": "none.onnx"}}, "commands": []}
    assert "there is no such file or folder" in folder.error_of(folder.write(json.dumps(text)))
    (folder.path / "none.onnx").write_bytes(b"no protobuf")
    assert "dispatchables.g.sourcePath" in folder.error_of(folder.write(json.dumps(text)))


def test_other_kinds_are_refused(folder):
    text = {"resources": {}, "dispatchables": {"g": {"type": "hlsl", "sourcePath": "x.hlsl"}}, "commands": []}
    message = folder.error_of(folder.write(json.dumps(text)))
    assert 'dispatchables of type "hlsl" are not supported, only ONNX models and operators' in message
