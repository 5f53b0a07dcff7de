"""Messages carry the rule and a next step: what was meant, what counts, what to pass instead."""

import inspect
import json
import re
import time

import numpy as np
import pytest

import anydml as dml
from anydml import dxdispatch, stores
from anydml.cli import main
from anydml.name_hints import EQUIVALENTS
from anydml.operators.enums import PaddingMode
from anydml.text import MAX_KNOWN, MAX_NAME, closest_name, did_you_mean

X = np.arange(6)
T = dml.TensorDesc
S = T("FLOAT32", [6])


@pytest.mark.parametrize(
    ("call", "end"),
    [
        (lambda: dml.DataType.parse("FLOAT23"), "; did you mean FLOAT32?"),
        (lambda: T("flaot32", [1]), "; did you mean FLOAT32?"),
        (lambda: T(np.int16, [1]), "; did you mean INT16?"),
        (lambda: T("spam", [1]), ", INT64"),
        (lambda: dml.FeatureLevel.parse("21"), "; did you mean 2_1?"),
        (lambda: PaddingMode.parse("REFLECT"), "; did you mean REFLECTION?"),
        (lambda: dml.Device("gpu"), "'cuda' and 'cuda:1' on a GPU"),
        (lambda: dml.gather(X, [1], out_of_range="raise"), "out_of_range is 'raise'; it must be 'error' or 'clamp'"),
        (lambda: dml.gather(X, [1.5]), " are float64, but must be integers of at most 64 bits: convert them first"),
        (lambda: dml.gather(X, [2**64]), " are object, but must be integers of at most 64 bits: convert them first"),
        (lambda: dml.slice(X, [-2], [1]), ": offsets count from 0, sizes must be 0 or more, strides 1 or more"),
        (lambda: dml.join(X), ": pass a list of arrays, each with at least one dimension"),
        (lambda: dml.split(X, -1), ": a number of parts is at least 1"),
        (
            lambda: dml.split(X, 2, out=np.zeros(6, int)),
            "out[0] is a numpy.int64: out must be an array in memory",
        ),
        (lambda: dml.split(X, 2, out=3), "split: out is an int: out must be a list of arrays, one per part"),
        (lambda: dml.split(X, 2, out={1, 2}), "split: out is a set: out must be a list of arrays, one per part"),
        (lambda: dml.join([X, X.astype("f4")]), "arrays[1] is float32, but arrays[0] is int64: convert one of them"),
        (lambda: dml.where(X > 1, X, X.astype("f4")), "y is float32, but x is int64: convert one of them"),
        (lambda: dml.split(X, [1, 4]), ": if these are NumPy's cut points, the sizes are [1, 3, 2]"),
        (lambda: dml.split(X, [4, 1]), "but axis 0 has size 6: the parts' sizes must add up to the axis"),
        (lambda: dml.split(X, [1, 9]), "but axis 0 has size 6: the parts' sizes must add up to the axis"),
        (lambda: dml.pad(X, [(1, 2)]), "a list of integers, all starts, then all ends: [1, 2]"),
        (lambda: dml.pad(X, [1, "a"]), "pads[1] is 'a', but it must be an integer"),
        (lambda: dml.split(None, 2), "split: x is None, but it must be an array, or nested lists of equal lengths"),
        (lambda: dml.split("abc", 3), "split: x is 'abc', but it must be an array, or nested lists of equal lengths"),
        (lambda: dml.copy({"a": 1}), "x is {'a': 1}, but it must be an array, or nested lists of equal lengths"),
        (lambda: dml.join([X, None]), "arrays[1] is None, but it must be an array, or nested lists of equal lengths"),
        (lambda: dml.gather(X, None), "indices is None, but it must be an array, or nested lists of equal lengths"),
        (lambda: dml.tile(X, [-1]), "tile: repeats is [-1]: each must be 0 or more"),
        (lambda: dml.split(X, 2, axis=1), "split: axis is 1, but the array has 1 dimension: axis must be -1 to 0"),
        (lambda: dml.split(X, 2.5), "sizes_or_sections is 2.5, but it must be an integer or a list of integers"),
        (lambda: dml.slice(X, [0], [3], [0]), ": offsets count from 0, sizes must be 0 or more, strides 1 or more"),
        (lambda: dml.SplitOperatorDesc(S, [S], 1).check(), ": Axis must be 0 to InputTensor.DimensionCount − 1"),
        (lambda: dml.SplitOperatorDesc(S, [S], 0).check("1_0"), "; it needs DML_FEATURE_LEVEL_3_0"),
    ],
)
def test_a_refusal_says_what_to_do(call, end):
    with pytest.raises(ValueError) as refused:
        call()
    assert str(refused.value).endswith(end)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: dml.set_num_threads("all"),
            "set_num_threads: threads is 'all', but it must be an integer",
        ),
        (lambda: dxdispatch.load(3), "load takes the path of a file, as a str or pathlib.Path, not 3"),
        (lambda: dxdispatch.load(b"m.json"), "load takes the path of a file, as a str or pathlib.Path, not b'm.json'"),
        (lambda: dxdispatch.run(None), "run takes a model from anydml.dxdispatch.load, not NoneType"),
        (lambda: stores.open(None), "open takes the path of a file, as a str or pathlib.Path, not None"),
    ],
)
def test_another_type_is_told_from_what_is_wanted(call, message):
    with pytest.raises(TypeError) as refused:
        call()
    assert str(refused.value) == message


MODEL = {
    "resources": {name: {"initialValuesDataType": "FLOAT32", "initialValues": [1, 2]} for name in ("input", "output")},
    "dispatchables": {
        "copy": {
            "type": "DML_OPERATOR_ELEMENT_WISE_IDENTITY",
            "desc": {name: {"DataType": "FLOAT32", "Sizes": [2]} for name in ("InputTensor", "OutputTensor")},
        }
    },
    "commands": [
        {"type": "dispatch", "dispatchable": "copy", "bindings": {"InputTensor": "input", "OutputTensor": "output"}}
    ],
}


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("DML_OPERATOR_ELEMENT_WISE_IDENTITY", "DML_OPERATOR_ELEMENTWISE_IDENTITY"),
        ('"FLOAT32", "Sizes"', '"FLOAT23", "Sizes"'),
        ('"dispatchable": "copy"', '"dispatchable": "cpoy"'),
        ('"InputTensor": "input"', '"InputTensor": "inptu"'),
    ],
)
def test_a_misspelt_name_of_a_file_is_recognized(tmp_path, right, wrong):
    path = tmp_path / "model.json"
    text = json.dumps(MODEL)
    assert right in text
    path.write_text(text.replace(right, wrong, 1))
    meant = next((word for word in ("FLOAT32", "copy", "input") if f'"{word}"' in right), right)
    with pytest.raises(dml.ModelError) as refused:
        dxdispatch.load(path)
    assert str(refused.value).endswith(f"; did you mean {meant}?")


def test_what_is_meant():
    assert closest_name("AXSI", ["Axis", "Sizes"]) == "Axis"
    assert closest_name("strides", ["Strides", "STRIDES"]) == "Strides"
    assert closest_name("spam", ["Axis"]) is None
    assert did_you_mean("a\x1bb", ["a\x1bc"]) == r"; did you mean a\x1bc?"


def test_looking_for_what_is_meant_takes_no_time():
    names = ["b" * 10**6, *(f"n{k}" * 20 for k in range(100 * MAX_KNOWN))]
    started = time.process_time()
    assert did_you_mean("x" * MAX_NAME, names) == did_you_mean("x" * 10**7, names) == ""
    assert time.process_time() - started < 2


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda: dml.join(X, X), "it must be an integer: pass the arrays as one list"),
        (lambda: dml.fuse(3), "fuse takes a function, such as lambda x: x.T, not int"),
        (lambda: dml.spilt, "module 'anydml' has no attribute 'spilt'; did you mean split?"),
        (lambda: dml.store, "module 'anydml' has no attribute 'store'; did you mean stores?"),
        (lambda: dml.Device("CPU"), "; did you mean cpu?"),
        (lambda: dml.TensorDesc("float", [1]), "; did you mean FLOAT32?"),
        (lambda: dml.explain(lambda x: x), "explain takes a function with its arguments: dml.explain(function, x, …)"),
        (lambda: dml.explain(np.flip), "explain takes a function with its arguments: dml.explain(function, x, …)"),
        (lambda: dml.explain("split.json"), "not str; anydml.dxdispatch.load reads a model file"),
        (lambda: dml.dxdispatch.run("split.json"), "run takes a model: anydml.dxdispatch.load('split.json') reads one"),
    ],
)
def test_what_newcomers_write_is_answered(call, text):
    with pytest.raises((TypeError, ValueError, AttributeError)) as caught:
        call()
    assert text in str(caught.value)


@pytest.mark.parametrize("module", [dml, dml.functions])
def test_names_from_elsewhere_are_answered_by_what_there_is(module):
    # Modules of the package's own are attributes, too.
    for name, answer in ((name, answer) for name, answer in EQUIVALENTS.items() if name not in vars(module)):
        with pytest.raises(AttributeError) as caught:
            getattr(module, name)
        message = str(caught.value)
        assert message.startswith(f"module {module.__name__!r} has no attribute {name!r}: ")
        assert message.count(answer) == 1
        for function, arguments in re.findall(r"dml\.(\w+)\(([^()]*)\)", answer):
            count = len([each for each in arguments.split(",") if "=" not in each])
            named = dict.fromkeys(re.findall(r"(\w+)=", arguments))
            inspect.signature(getattr(dml, function)).bind(*range(count), **named)


SQUARE, COLUMN = np.arange(12).reshape(3, 4), np.array([[2], [0], [3]])
ELSEWHERE = {
    "concatenate": (np.concatenate, {"arrays": [SQUARE, SQUARE], "axis": 1}),
    "hstack": (np.hstack, {"arrays": [SQUARE, SQUARE]}),
    "vstack": (np.vstack, {"arrays": [SQUARE, SQUARE]}),
    "column_stack": (np.column_stack, {"arrays": [SQUARE[0], SQUARE[1]]}),
    "take": (np.take, {"x": SQUARE, "indices": [2, 0], "axis": 1}),
    "take_along_axis": (np.take_along_axis, {"x": SQUARE, "indices": COLUMN, "axis": 1}),
    "hsplit": (np.hsplit, {"x": SQUARE, "sections": 2}),
    "transpose": (np.transpose, {"x": SQUARE, "axes": (1, 0)}),
    "rot90": (np.rot90, {"x": SQUARE}),
    "fliplr": (np.fliplr, {"x": SQUARE}),
    "flipud": (np.flipud, {"x": SQUARE}),
    "full_like": (np.full_like, {"x": SQUARE, "value": 7}),
    "argwhere": (np.argwhere, {"x": SQUARE}),
    "broadcast": (np.broadcast_to, {"x": SQUARE, "shape": (2, 3, 4)}),
}


@pytest.mark.parametrize("name", ELSEWHERE)
def test_what_is_answered_does_the_same(name):
    function, arguments = ELSEWHERE[name]
    call = EQUIVALENTS[name].partition("), ")[0]
    found = eval(call if call.endswith(")") else f"{call})", {"dml": dml, "np": np}, dict(arguments))
    np.testing.assert_array_equal(found, function(*arguments.values()))


def test_a_checkpoint_where_one_tensor_is_meant(tmp_path):
    made = stores.create(tmp_path / "one.safetensors", {"w": (6,), "b": (2,)}, np.float32)
    np.save(tmp_path / "x.npy", np.zeros(6, np.float32))
    np.save(tmp_path / "y.npy", np.zeros(2, np.float32))
    pair = dml.fuse(lambda x, y: (x, y))
    inputs = [stores.open(tmp_path / "x.npy"), stores.open(tmp_path / "y.npy")]
    pair.plan(inputs, (made["w"], made["b"])).run()
    with pytest.raises(dml.BindingError) as caught:
        dml.fuse(np.copy).plan(stores.open(tmp_path / "one.safetensors"), made["w"])
    assert str(caught.value) == "copy: inputs is a checkpoint of 2 tensors: pick one by its name, such as ['b']"


@pytest.mark.parametrize("command", ["check", "run", "explain"])
@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("x.safetensors", b"{}", "x.safetensors: holds arrays, and {}; anydml stores lists the arrays of such a file"),
        ("x.npy", b"\x93NUMPY", "x.npy: holds arrays, and {}; anydml stores lists the arrays of such a file"),
        ("x.bin", b"ab\xff", "x.bin: is not UTF-8 text, and {}: invalid start byte at byte 2"),
        ("m.json", b'{\n  "resources": {"a', "m.json: line 2, column 17: the string that begins here has no end"),
        (
            "m.json",
            b'{"a": {',
            'm.json: line 1, column 8: the file ends here, and a "key" or }} is missing',
        ),
        (
            "m.json",
            b'{"a": 1',
            "m.json: line 1, column 8: the file ends here, and a comma or the closing bracket is missing",
        ),
    ],
)
def test_what_is_no_model_is_answered(command, name, content, message, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / name).write_bytes(content)
    with pytest.raises(SystemExit) as ended:
        main([command, name])
    model = "a model must be a JSON object, or an ONNX model whose name ends in .onnx"
    assert (ended.value.code, *capsys.readouterr()) == (2, "", f"anydml: {message.format(model)}\n")


@pytest.mark.parametrize(
    "arguments", [["explain", "x.json", "--html"], ["check", "x.json", "--size"], ["run", "--device"]]
)
def test_the_help_of_the_command_is_named(arguments, capsys):
    with pytest.raises(SystemExit):
        main(arguments)
    assert capsys.readouterr().err.endswith(f"See 'anydml {arguments[0]} --help'.\n")
