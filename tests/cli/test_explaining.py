"""`anydml explain`: words, pages and pictures of model files; nothing is run, and nothing else is written."""

import json
from pathlib import Path

import pytest

import anydml as dml
from anydml import dxdispatch
from anydml.cli import main

SPLIT = Path(__file__).parents[2] / "examples" / "split.json"


@pytest.fixture
def explain(capsys):
    def run(*arguments):
        with pytest.raises(SystemExit) as ended:
            main(["explain", *map(str, arguments)])
        captured = capsys.readouterr()
        return ended.value.code or 0, captured.out, captured.err

    return run


def test_words(explain):
    code, out, err = explain(SPLIT)
    assert (code, err) == (0, "")
    words, notation = out.rsplit("\n\n", 1)
    assert words == str(dml.explain(dxdispatch.load(SPLIT)))
    assert notation.startswith("How to read a move: “2×3 of 4 B: #1[12·c0 + 4·c1] = …” writes 4 bytes for each c0 ")
    assert notation.count("\n") == 1
    assert "  1 of 8 B: #2[0] = #0[16]\n" in out


def test_files(explain, tmp_path):
    page, picture = tmp_path / "a.html", tmp_path / "b.svg"
    code, out, err = explain(SPLIT, "--html", page, "--svg", picture)
    assert (code, err) == (0, "")
    assert out.splitlines() == [f"'{SPLIT}' is explained in '{path}'" for path in (page, picture)]
    explanation = dml.explain(dxdispatch.load(SPLIT))
    assert page.read_text(encoding="utf-8") == explanation.html()
    assert picture.read_text(encoding="utf-8") == explanation.svg()
    assert sorted(tmp_path.iterdir()) == [page, picture]


def test_nothing_is_run(explain, tmp_path):
    model = json.loads(SPLIT.read_text(encoding="utf-8").partition("\n")[2])
    model["commands"].append({"type": "writeFile", "resource": "Out1", "targetPath": "out.npy"})
    path = tmp_path / "model.json"
    path.write_text(json.dumps(model))
    code, _, err = explain(path)
    assert (code, err) == (0, "")
    assert [*tmp_path.iterdir()] == [path]


def test_an_onnx_file(explain, tmp_path):
    onnx = pytest.importorskip("onnx")
    from onnx import parser

    text = '<ir_version: 8, opset_import: ["": 18]> g (float[6] x) => (float[3] a) { a = Slice (x, s, e) }'
    text = text.replace("{ a", "<int64[1] s = {0}, int64[1] e = {3}> { a")
    model, page = tmp_path / "m.onnx", tmp_path / "m.html"
    onnx.save(parser.parse_model(text), model)
    assert explain(model, "--html", page)[0] == 0
    assert f"<h1>{model}</h1>" in page.read_text(encoding="utf-8")
    assert "Slice1OperatorDesc" in explain(model)[1]
    onnx.save(parser.parse_model(text.replace("float[6] x", "float[N] x")), model)
    assert "Slice1OperatorDesc" not in explain(model)[1]
    assert "Slice1OperatorDesc(FLOAT32 [1, 1, 1, 9]" in explain(model, "--size", "N=9")[1]
    assert explain(SPLIT, "--size", "N=9") == (
        2,
        "",
        "anydml: --size is for ONNX models: leave it out, or name such a model\n",
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["none.json"], "none.json: there is no such file"),
        (["none.onnx"], "none.onnx: there is no such file"),
        ([SPLIT, "--html", "x.svg"], "--html x.svg: its name must end in .html"),
        ([SPLIT, "--svg", "x"], "--svg x: its name must end in .svg"),
        ([SPLIT, "--html", f"{SPLIT}/x.html"], f"there is no folder {SPLIT}"),
        ([SPLIT, "--svg", "no/such/x.svg"], f"--svg no/such/x.svg: there is no folder {Path('no/such')}"),
    ],
)
def test_errors_are_one_line(explain, arguments, message):
    if "onnx" in str(arguments[0]):
        pytest.importorskip("onnx")
    code, out, err = explain(*arguments)
    assert (code, out) == (2, "")
    assert err.startswith("anydml: ")
    assert message in err
    assert err.count("\n") == 1


def test_what_does_not_move_has_no_picture(explain, tmp_path):
    path = tmp_path / "model.json"
    path.write_text('{"resources": {}, "dispatchables": {}, "commands": []}')
    assert explain(path) == (0, "Nothing moves.\n", "")
    code, _, err = explain(path, "--svg", tmp_path / "a.svg")
    assert (code, err) == (2, f"anydml: {path}: there is no picture: Nothing moves.\n")
    assert [*tmp_path.iterdir()] == [path]
