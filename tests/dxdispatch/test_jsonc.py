from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anydml.dxdispatch.jsonc import loads
from anydml.errors import ModelError
from anydml.files.location import Location

HERE = Location("m.json")
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)
GAP = st.sampled_from(["", " ", "\n", "\t", '// a ] } , " comment\n', '/* a \n ] , " // comment */', "/**/", "/***/"])


def decorate(value, draw):
    """JSON text of a value with a comment or a space wherever one may stand, and trailing commas."""

    def gap():
        return draw(GAP)

    comma = draw(st.sampled_from(["", ","]))
    if isinstance(value, list):
        items = ",".join(f"{gap()}{decorate(item, draw)}{gap()}" for item in value)
        return f"[{items}{comma if value else ''}{gap()}]"
    if isinstance(value, dict):
        items = ",".join(f"{gap()}{json.dumps(k)}{gap()}:{gap()}{decorate(v, draw)}{gap()}" for k, v in value.items())
        return f"{{{items}{comma if value else ''}{gap()}}}"
    return json.dumps(value)


@given(VALUES, st.data())
def test_comments_and_trailing_commas_change_nothing(value, data):
    root = {"root": value}
    text = data.draw(GAP) + decorate(root, data.draw) + data.draw(GAP)
    assert loads(text, HERE) == root


@given(VALUES)
def test_plain_json_is_read_as_python_reads_it(value):
    for text in (json.dumps(value), json.dumps(value, indent=2, ensure_ascii=False)):
        assert loads(text, HERE) == json.loads(text)


@given(st.text(alphabet='"\\/*,[]{}: \n1aNI', max_size=40))
def test_any_text_is_a_value_or_an_error_with_its_file(text):
    message = "m.json: "
    try:
        loads(text, HERE)
    except ModelError as error:
        message = str(error)
    assert message.startswith("m.json: ")


NO_JSON = "this is not JSON, and a model must be a JSON object, or an ONNX model whose name ends in .onnx"


@pytest.mark.parametrize("text", ['["// no comment", "/* nor */", ",]", "a\\"//"]', '{"a,}": "NaN"}'])
def test_strings_are_left_alone(text):
    assert loads(text, HERE) == json.loads(text)


@pytest.mark.parametrize("text", ["garbage", "}", "{}", "[1]", "1", '"a"', ";", "\0", "\ufeff", "/* a */ x"])
def test_nothing_but_comments_may_follow_the_root(text):
    column = 4 + text.find("x") if "x" in text else 4
    with pytest.raises(ModelError, match=rf"line 2, column {column}: the model ends before this text; remove it"):
        loads(f'{{"a":\n1}} {text}', HERE)
    assert loads('{"a": 1} // the end\n /* of it */ \r\n\t', HERE) == {"a": 1}
    assert loads("[" * 100 + "]" * 100, HERE)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "the file is empty: a model must be a JSON object"),
        (" \n\t", "the file is empty: a model must be a JSON object"),
        ("// nothing", f"line 1, column 11: expecting value: {NO_JSON}"),
        ('{"a": 1\n "b": 2}', "line 2, column 2: expecting ',' delimiter"),
        ('{\n  /* 1 */ "a": [1,,2]\n}', "line 2, column 19: expecting value"),
        ("[,]", "line 1, column 2: expecting value"),
        ("[1,,]", None),
        ('{"a":,}', "line 1, column 6: expecting value"),
        ("[1 /* no end", "line 1, column 4: this comment has no end"),
        ("[1] /*/", "line 1, column 5: this comment has no end"),
        ("[1, NaN]", 'line 1, column 5: NaN is not JSON; write "nan"'),
        ("[-Infinity]", 'line 1, column 2: -Infinity is not JSON; write "-inf"'),
        ("[12/**/3]", None),
        ("[" * 101, "line 1, column 101: arrays and objects are nested too deeply to be read, more than 100"),
        ('{"a":\n' * 100_000, "line 101, column 1: arrays and objects are nested too deeply to be read, more than 100"),
        ("[" + "9" * 5000 + "]", "a number has more digits than can be read"),
    ],
)
def test_syntax_errors_say_where(text, message):
    with pytest.raises(ModelError) as caught:
        loads(text, HERE)
    if message:
        assert str(caught.value) == f"m.json: {message}"


def test_a_repeated_key_is_named_by_its_path():
    with pytest.raises(ModelError) as caught:
        loads('{"a": [{"b": 1}, {"b c": 1, "x": {}, "b c": 2}]}', HERE)
    assert str(caught.value).startswith('m.json: a[1]["b c"]: this key stands twice')
    assert caught.value.field == 'a[1]["b c"]'


def test_a_repeated_key_is_found_where_another_replaces_its_object():
    with pytest.raises(ModelError, match=r"^m\.json: a\.b: this key stands twice"):
        loads('{"a": {"b": {"c": 1, "c": 2}, "b": 3}, "d": {"e": 1}}', HERE)
