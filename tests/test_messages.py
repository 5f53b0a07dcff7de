"""Messages carry the rule and a next step: what was meant, what counts, what to pass instead."""

import json
import time

import numpy as np
import pytest

import anydml as dml
from anydml import dxdispatch, stores
from anydml.operators.enums import PaddingMode
from anydml.text import LONGEST, MOST_KNOWN, did_you_mean, nearest

X = np.arange(6)
T = dml.TensorDesc
S = T("FLOAT32", [6])


@pytest.mark.parametrize(
    ("call", "end"),
    [
        (lambda: dml.DataType.parse("FLOAT23"), "; did you mean FLOAT32?"),
        (lambda: T("float32", [1]), "; did you mean FLOAT32?"),
        (lambda: T(np.int16, [1]), "; did you mean INT16?"),
        (lambda: T("spam", [1]), ", INT64"),
        (lambda: dml.FeatureLevel.parse("21"), "; did you mean 2_1?"),
        (lambda: PaddingMode.parse("REFLECT"), "; did you mean REFLECTION?"),
        (lambda: dml.Device("gpu"), "; a GPU is 'cuda'"),
        (lambda: dml.gather(X, [1], out_of_range="raise"), "out_of_range is 'raise'; it is 'clamp' or 'error'"),
        (lambda: dml.gather(X, [1.5]), "indices are float64, but only integers count: convert them first"),
        (lambda: dml.slice(X, [-2], [1]), ": offsets count from 0, sizes are 0 or more, strides 1 or more"),
        (lambda: dml.join(X), ": pass a list of arrays, each with at least one dimension"),
        (lambda: dml.split(X, -1), ": a number of parts is at least 1"),
        (lambda: dml.split(X, 2, out=np.zeros(6, int)), "split: out[0] is an int64: out is an array"),
        (lambda: dml.split(X, 2, out=3), "split: out is an int: out is a list of arrays, one a part"),
        (lambda: dml.join([X, X.astype("f4")]), ": all arrays have one dtype"),
        (lambda: dml.tile(X, [-1]), "tile: repeats is [-1]: each is 0 or more"),
        (lambda: dml.split(X, 2, axis=1), "split: axis is 1, but the array has 1 dimension: axis is -1 to 0"),
        (lambda: dml.split(X, 2.5), "sizes_or_sections is 2.5, but it must be an integer or a list of integers"),
        (lambda: dml.slice(X, [0], [3], [0]), ": offsets count from 0, sizes are 0 or more, strides 1 or more"),
        (lambda: dml.SplitOperatorDesc(S, [S], 1).check(), ": Axis is 0 to InputTensor.DimensionCount − 1"),
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
        (lambda: dml.set_num_threads("all"), "set_num_threads: 'all' is no number of threads, such as os.cpu_count()"),
        (lambda: dxdispatch.load(3), "load takes the path of a file, as a str or pathlib.Path, not 3"),
        (lambda: dxdispatch.load(b"m.json"), "load takes the path of a file, as a str or pathlib.Path, not b'm.json'"),
        (lambda: dxdispatch.run(None), "run takes a model, as anydml.dxdispatch.load gives it, not NoneType"),
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
    assert nearest("AXSI", ["Axis", "Sizes"]) == "Axis"
    assert nearest("strides", ["Strides", "STRIDES"]) == "Strides"
    assert nearest("spam", ["Axis"]) is None
    assert did_you_mean("a\x1bb", ["a\x1bc"]) == r"; did you mean a\x1bc?"


def test_looking_for_what_is_meant_takes_no_time():
    names = ["b" * 10**6, *(f"n{k}" * 20 for k in range(100 * MOST_KNOWN))]
    started = time.process_time()
    assert did_you_mean("x" * LONGEST, names) == did_you_mean("x" * 10**7, names) == ""
    assert time.process_time() - started < 2


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda: dml.join(X, X), "it must be an integer: pass the arrays as one list"),
        (lambda: dml.fuse(3), "fuse takes a function, such as lambda x: x.T, not int"),
        (lambda: dml.spilt, "module 'anydml' has no attribute 'spilt'; did you mean split?"),
        (lambda: dml.Device("CPU"), "; did you mean cpu?"),
        (lambda: dml.TensorDesc("float", [1]), "; did you mean FLOAT32?"),
        (lambda: dml.explain("split.json"), "not str; anydml.dxdispatch.load reads a model file"),
        (lambda: dml.dxdispatch.run("split.json"), "run takes a model: anydml.dxdispatch.load('split.json') reads one"),
    ],
)
def test_what_newcomers_write_is_answered(call, text):
    with pytest.raises((TypeError, ValueError, AttributeError)) as caught:
        call()
    assert text in str(caught.value)
