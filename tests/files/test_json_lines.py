"""Lines of a JSON text, against a reader that counts them: a value that is its own line."""

import json
import random
import time

import pytest

from anydml import dxdispatch
from anydml.errors import ModelError
from anydml.files.json_lines import JsonLines


def spread(random, depth, lines):
    """A random JSON text, begun on line `lines[0]`, and the line of each of its values, by path."""
    found = {(): lines[0]}

    def gap():
        space = random.choice(["", "", " ", "\n", " \r\n\t", "\n\n"])
        lines[0] += space.count("\n")
        return space

    def inside(key, before):
        lines_before = before
        text, places = spread(random, depth - 1, lines)
        found.update({(key, *path): line for path, line in places.items()})
        return lines_before + text

    kind = random.choice(["object", "array", "scalar"]) if depth else "scalar"
    if kind == "scalar":
        return random.choice(["1", "-2.5e3", "true", "null", '"a"', '"\\"]}, [{"', '""']), {(): lines[0]}
    count = random.choice([0, 1, 2, 5])
    parts = []
    for k in range(count):
        key = random.choice(["a", "[", '"', "é", "x,y", "{"]) + str(k)
        before = gap() + (json.dumps(key) + gap() + ":" + gap() if kind == "object" else "")
        parts.append(inside(key if kind == "object" else k, before) + gap())
    brackets = "{}" if kind == "object" else "[]"
    return brackets[0] + (",".join(parts) or gap()) + brackets[1], found


@pytest.mark.parametrize("seed", range(300))
def test_every_value_is_found(seed):
    chance = random.Random(seed)
    text, places = spread(chance, 4, [1])
    json.loads(text)
    lines = JsonLines(lambda: text)
    order = [path for path in places if path]
    chance.shuffle(order)
    for path in order:
        assert lines.line(path) == places[path], (text, path)
        assert lines.line((*path, "none")) == places[path]
    assert lines.line(()) is None


def test_long_arrays_are_counted_through():
    rows = [f"{k},\n" for k in range(5000)]
    text = '{"a": [' + "".join(rows) + '"x", [\n[], 7], 8]}'
    lines = JsonLines(lambda: text)
    for index in (0, 999, 1000, 1001, 4999, 5000, 3):
        assert lines.line(("a", index)) == index + 1
    assert lines.line(("a", 5001)) == 5001
    assert lines.line(("a", 5001, 1)) == lines.line(("a", 5002)) == 5002
    assert lines.line(("a", 5003)) == 1


def test_a_line_takes_no_time():
    """Of a large array's last value, and of many values in their order."""
    text = "[" + "1,\n" * 5_000_000 + "1]"
    lines = JsonLines(lambda: text)
    started = time.process_time()
    assert lines.line((5_000_000,)) == 5_000_001
    many = JsonLines(lambda: "[" + '{"a": [1]},\n' * 100_000 + "1]")
    assert all(many.line((k, "a", 0)) == k + 1 for k in range(0, 100_000, 100))
    assert time.process_time() - started < 5


def test_a_text_that_is_gone_has_no_lines():
    assert JsonLines(lambda: None).line(("a",)) is None


MODEL = """// A model.
{
    "resources": {
        "input": {"initialValuesDataType": "FLOAT32", "initialValues": [1, 2]},
        "output": {
            "initialValuesDataType": "FLOAT32",
            "initialValues": {"valueCount": 2, "value": 0},
        }, /* two
        resources */
    },
    "dispatchables": {
        "copy": {
            "type": "DML_OPERATOR_SLICE",
            "desc": {
                "InputTensor": {
                    "Type": "DML_TENSOR_TYPE_BUFFER",
                    "Desc": {"DataType": "FLOAT32",
                             "Sizes": [2]}
                },
                "OutputTensor": {"DataType": "FLOAT32", "Sizes": [2]},
                "Offsets": [0],
                "Sizes": [2],
                "Strides": [1]
            }
        }
    },
    "commands": [
        {
            "type": "dispatch",
            "dispatchable": "copy",
            "bindings": {
                "InputTensor": "input",
                "OutputTensor": "output"
            }
        },
        {"type": "print", "resource": "output"}
    ]
}
"""


@pytest.mark.parametrize(
    ("right", "wrong", "line", "path"),
    [
        ('"initialValues": [1, 2]', '"initialValues": [1, "a"]', 4, "resources.input.initialValues[1]"),
        ('"value": 0', '"valeu": 0', 7, "resources.output.initialValues"),
        ('"Type": "DML_TENSOR_TYPE_BUFFER"', '"Type": "TEXTURE"', 16, "dispatchables.copy.desc.InputTensor.Type"),
        ('"DataType": "FLOAT32",\n', '"DataType": "FLOAT",\n', 17, "dispatchables.copy.desc.InputTensor.Desc.DataType"),
        ('"Sizes": [2]}\n                }', '"Sizes": [0]}\n}', 18, "dispatchables.copy.desc.InputTensor.Sizes"),
        ('"Offsets": [0]', '"Offsets": [1]', 22, "dispatchables.copy.desc.Sizes[0]"),
        ('"Offsets": [0],\n', "\n", 14, "dispatchables.copy.desc.Offsets"),
        ('"dispatchable": "copy"', '"dispatchable": "cpoy"', 30, "commands[0].dispatchable"),
        ('"OutputTensor": "output"', '"OutputTensor": "input"', 33, "commands[0].bindings.OutputTensor"),
        ('"resource": "output"}', '"resource": "out"}', 36, "commands[1].resource"),
        ('"print"', '"show"', 36, "commands[1].type"),
        ('"Strides": [1]', '"Strides": [1], "Sizes": [3]', 23, "dispatchables.copy.desc.Sizes"),
    ],
)
def test_errors_of_a_model_file_say_the_line(tmp_path, right, wrong, line, path):
    file = tmp_path / "model.json"
    assert MODEL.count(right) == 1
    file.write_text(MODEL.replace(right, wrong))
    with pytest.raises(ModelError) as refused:
        dxdispatch.run(dxdispatch.load(file), log=lambda _: None)
    assert str(refused.value).startswith(f"{file}: line {line}: {path}")
    assert refused.value.line == line
    assert refused.value.field.startswith(path)


def test_problems_and_unknown_fields_have_lines(tmp_path):
    file = tmp_path / "model.json"
    file.write_text(MODEL.replace('"Strides": [1]', '"Strides": [0],\n"Stridse": []'))
    model = dxdispatch.load(file)
    assert [place.line for place, _ in model.problems()] == [23]
    assert model.warnings == (
        f"{file}: line 14: dispatchables.copy.desc: unknown field Stridse; did you mean Strides?",
    )


def test_a_file_that_was_changed_has_no_lines(tmp_path):
    file = tmp_path / "model.json"
    file.write_text(MODEL.replace('"Offsets": [0]', '"Offsets": [1]'))
    model = dxdispatch.load(file)
    file.write_text("{}")
    with pytest.raises(ModelError, match=r"json: dispatchables\.copy\.desc\.Sizes\[0\]: ") as refused:
        dxdispatch.run(model, log=lambda _: None)
    assert refused.value.line is None
