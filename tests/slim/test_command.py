"""`anydml slim` as a user types it."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper, parser

from anydml.cli import main
from anydml.proving.running import run

HEADER = '<ir_version: 8, opset_import: ["": 18]> '
PAIR = """g (float[2,3] x) => (float[2,3] z)
    { a = Transpose <perm = [1, 0]> (x) b = Transpose <perm = [1, 0]> (a) z = Relu (b) }"""


@pytest.fixture
def anydml(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def run(*arguments):
        with pytest.raises(SystemExit) as ended:
            main(["slim", *map(str, arguments)])
        found = capsys.readouterr()
        return ended.value.code or 0, found.out, found.err

    return run


def save(text, name="model.onnx"):
    onnx.save(parser.parse_model(HEADER + text), name)


def test_writes_the_model_and_says_what_is_less(anydml):
    save(PAIR)
    code, out, err = anydml("model.onnx", "-o", "out.onnx", "--prove", "--html", "page.html")
    assert (code, err) == (0, "")
    assert out == (
        "model.onnx: 96 B moved by 2 nodes before, 0 B by 0 after, written to 'out.onnx'\n"
        "    b: 96 B → 0 B\n"
        "        Transpose × 2 → no node\n"
        "proved: both compute the same\n"
        "'model.onnx' is explained in 'page.html'\n"
    )
    assert [node.op_type for node in onnx.load("out.onnx").graph.node] == ["Relu"]
    page = Path("page.html").read_text("utf-8")
    assert "96 B by Transpose × 2; now 0 B by no node" in page
    assert "<svg" in page


def test_a_dry_run_says_what_would_be_written_or_refused(anydml):
    save(PAIR)
    code, out, err = anydml("model.onnx", "out.onnx", "--dry-run", "--html", "page.html")
    assert (code, err) == (0, "")
    assert out.startswith("model.onnx: 96 B moved by 2 nodes before, 0 B by 0 after\n")
    assert [path.name for path in Path().iterdir()] == ["model.onnx"]
    code, out, _ = anydml("model.onnx", "model.onnx", "--dry-run", "--json")
    document = json.loads(out)
    assert (code, document["written"]) == (0, False)
    assert document["refused"] == "model.onnx: is the file that is read: write to another one"


def test_a_model_may_be_piped(anydml, monkeypatch):
    save(PAIR)
    data = Path("model.onnx").read_bytes()
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))
    code, out, err = anydml("-", "out.onnx")
    assert (code, err) == (0, "")
    assert out.startswith("-: 96 B moved by 2 nodes before, 0 B by 0 after, written to 'out.onnx'\n")
    assert [node.op_type for node in onnx.load("out.onnx").graph.node] == ["Relu"]


def test_exact_is_an_option(anydml):
    save("g (float[64,32] x) => (float[64,64] p, float[64,64] q) { a = MatMul (x, w) p, q = Split <axis = 1> (a, n) }")
    given = onnx.load("model.onnx")
    given.graph.initializer.append(numpy_helper.from_array(np.ones((32, 128), np.float32), "w"))
    given.graph.initializer.append(numpy_helper.from_array(np.array([64, 64]), "n"))
    onnx.save(given, "model.onnx")
    for options, products in (((), 2), (("--exact",), 1)):
        code, _, err = anydml("model.onnx", "-o", f"out{products}.onnx", *options)
        assert (code, err) == (0, "")
        written = onnx.load(f"out{products}.onnx").graph.node
        assert [node.op_type for node in written].count("MatMul") == products


def test_scales_are_merged_if_asked(anydml):
    save("g (float[4,2] x) => (float[4,3] y) <float[3] c = {2, 3, 5}> { a = MatMul (x, w) y = Mul (a, c) }")
    given = onnx.load("model.onnx")
    given.graph.initializer.append(numpy_helper.from_array(np.ones((2, 3), np.float32), "w"))
    onnx.save(given, "model.onnx")
    code, out, err = anydml("model.onnx", "out.onnx", "--merge-scales", "--prove")
    assert (code, err) == (0, "")
    assert "merged into weights (1 node), weights are rounded again" in out
    written = onnx.load("out.onnx").graph
    assert [node.op_type for node in written.node] == ["MatMul"]
    assert [numpy_helper.to_array(tensor).tolist() for tensor in written.initializer] == [[[2, 3, 5], [2, 3, 5]]]
    code, _, err = anydml("model.onnx", "exact.onnx", "--merge-scales", "--exact")
    assert code == 2
    assert "--exact and --merge-scales exclude each other: weights that are merged are rounded again" in err


def test_constants_beyond_protobufs_limit_are_written_but_not_proved(anydml, monkeypatch):
    save("g (float[4,2] x) => (float[4,3] y) { t = Transpose <perm = [1, 0]> (w) y = MatMul (x, t) }")
    given = onnx.load("model.onnx")
    given.graph.initializer.append(numpy_helper.from_array(np.ones((3, 512), np.float32), "w"))
    given.graph.input[0].type.tensor_type.shape.dim[1].dim_value = 512
    onnx.save(given, "model.onnx", save_as_external_data=True, location="weights", size_threshold=0)
    monkeypatch.setattr("anydml.slim.graph.MAX_BYTES", 4000)
    code, _, err = anydml("model.onnx", "out.onnx", "--prove")
    assert code == 2
    assert "and a ModelProto holds 2 GiB: `anydml slim` without --prove writes it to a file of its own" in err
    assert not Path("out.onnx").exists()
    assert anydml("model.onnx", "out.onnx")[0] == 0
    assert [node.op_type for node in onnx.load("out.onnx").graph.node] == ["MatMul"]


def test_nothing_to_do_is_a_copy(anydml):
    save("g (float[2,3] x) => (float[3,2] z) { z = Transpose <perm = [1, 0]> (x) }")
    code, out, _ = anydml("model.onnx", "-o", "out.onnx", "--prove")
    assert code == 0
    assert "48 B moved by 1 node before, 48 B by 1 after" in out
    assert "proved: both compute the same" in out
    assert onnx.load("out.onnx") == onnx.load("model.onnx")


def test_external_data_stays_external_and_what_moves_goes_beside_it(anydml, tmp_path):
    weights = np.arange(1024, dtype=np.float32).reshape(16, 64)
    nodes = [
        helper.make_node("Transpose", ["w"], ["t"], perm=[1, 0]),
        helper.make_node("MatMul", ["x", "t"], ["y"]),
        helper.make_node("MatMul", ["y", "v"], ["z"]),
    ]
    values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, 64]) for name in "xz"]
    tensors = [numpy_helper.from_array(weights, "w"), numpy_helper.from_array(weights, "v")]
    model = helper.make_model(
        helper.make_graph(nodes, "g", values[:1], values[1:], tensors),
        opset_imports=[helper.make_opsetid("", 18)],
        ir_version=8,
    )
    onnx.save(model, "model.onnx", save_as_external_data=True, location="weights", size_threshold=0)
    kept = (tmp_path / "weights").read_bytes()
    code, out, err = anydml("model.onnx", "-o", "out.onnx", "--prove")
    assert (code, err) == (0, ""), err
    assert "proved: both compute the same" in out
    assert (tmp_path / "weights").read_bytes() == kept
    places = {
        tensor.name: [entry.value for entry in tensor.external_data if entry.key == "location"]
        for tensor in onnx.load("out.onnx", load_external_data=False).graph.initializer
    }
    assert sorted(places.values()) == [["out.onnx.data"], ["weights"]]
    (tmp_path / "elsewhere").mkdir()
    code, _, err = anydml("model.onnx", "-o", "elsewhere/out.onnx")
    assert code == 2
    assert "write out.onnx into the same folder" in err


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["none.onnx", "-o", "out.onnx"], "none.onnx: there is no such file"),
        (["model.onnx", "-o", "none/out.onnx"], "none/out.onnx: there is no folder none"),
        (["model.onnx", "-o", "out.txt"], "out.txt: its name must end in .onnx"),
        (["model.onnx", "-o", "out.onnx", "--html", "page.txt"], "--html page.txt: its name must end in .html"),
        (["broken.onnx", "-o", "out.onnx"], "broken.onnx: is not an ONNX model, or is truncated"),
        (["cycle.onnx", "-o", "out.onnx"], "cycle.onnx: the model breaks a rule of ONNX"),
    ],
)
def test_errors_are_one_line_and_nothing_is_written(anydml, tmp_path, arguments, expected):
    save(PAIR)
    (tmp_path / "broken.onnx").write_bytes((tmp_path / "model.onnx").read_bytes()[:40])
    cycle = parser.parse_model(HEADER + PAIR)
    cycle.graph.node[0].input[0] = "b"
    onnx.save(cycle, "cycle.onnx")
    code, out, err = anydml(*arguments)
    assert (code, out) == (2, "")
    assert err.startswith(f"anydml: {expected}")
    assert err.count("\n") == 1
    assert not (tmp_path / "out.onnx").exists()


def test_old_models_are_copied(anydml):
    onnx.save(parser.parse_model('<ir_version: 3, opset_import: ["": 9]> ' + PAIR), "model.onnx")
    code, out, _ = anydml("model.onnx", "-o", "out.onnx")
    assert code == 0
    assert "nothing is changed before opset 11 and IR version 4" in out
    assert onnx.load("out.onnx") == onnx.load("model.onnx")


def test_nothing_that_exists_is_replaced_unless_asked(anydml, tmp_path):
    save(PAIR)
    given = (tmp_path / "model.onnx").read_bytes()
    for options in ((), ("--overwrite",)):
        for name in ("model.onnx", "./model.onnx", "link.onnx"):
            if name == "link.onnx" and not options:
                (tmp_path / name).symlink_to("model.onnx")
            code, out, err = anydml("model.onnx", "-o", name, *options)
            assert (code, out) == (2, "")
            assert err == f"anydml: {name}: is the file that is read: write to another one\n"
    for option, name in (("", "out.onnx"), ("--html", "page.html")):
        (tmp_path / name).write_text("kept")
        arguments = (name,) if not option else (option, name, "-o", "other.onnx")
        code, out, err = anydml("model.onnx", *arguments)
        assert (code, out) == (2, "")
        assert f"{option} {name}: exists already: name another output, or replace it by --overwrite" in err
        assert (tmp_path / name).read_text() == "kept"
        assert not (tmp_path / "other.onnx").exists()
    code, _, err = anydml("model.onnx", "-o", "out.onnx", "--html", "page.html", "--overwrite")
    assert (code, err) == (0, "")
    assert (tmp_path / "out.onnx").read_bytes() != b"kept"
    assert (tmp_path / "model.onnx").read_bytes() == given


def test_data_beside_a_model_is_not_replaced(anydml, tmp_path):
    save("g (float[1,64] x) => (float[1,16] z) { t = Transpose <perm = [1, 0]> (w) z = MatMul (x, t) }")
    model = onnx.load("model.onnx")
    model.graph.initializer.append(numpy_helper.from_array(np.ones((16, 64), np.float32), "w"))
    onnx.save(model, "model.onnx", save_as_external_data=True, location="w.onnx", size_threshold=0)
    (tmp_path / "out.onnx.data").write_text("kept")
    code, _, err = anydml("model.onnx", "-o", "out.onnx")
    assert code == 2
    assert err.startswith("anydml: model.onnx: out.onnx.data: exists already")
    code, _, err = anydml("model.onnx", "-o", "w.onnx", "--overwrite")
    assert code == 2
    assert "w.onnx: is the file that is read" in err
    assert not (tmp_path / "out.onnx").exists()
    assert (tmp_path / "out.onnx.data").read_text() == "kept"
    assert (tmp_path / "w.onnx").read_bytes() == np.ones((16, 64), np.float32).tobytes()
    code, _, err = anydml("model.onnx", "-o", "out.onnx", "--overwrite", "--prove")
    assert (code, err) == (0, "")


def test_sizes_that_have_names_are_said(anydml, tmp_path):
    """Each counts as a prime, which is not a batch that anybody has."""
    save("""g (float[batch,3] x, float[?,2] y) => (float[A,B] z, float[C,D] u)
        { a = Transpose <perm = [1, 0]> (x) b = Transpose <perm = [1, 0]> (a) z = Relu (b) u = Relu (y) }""")
    code, out, _ = anydml("model.onnx", "-o", "out.onnx", "--html", "page.html")
    assert code == 0
    first = out.splitlines()[0]
    assert first == (
        'model.onnx: 10.13 kB moved by 2 nodes before, 0 B by 0 after, counted where "batch" = 211, axis 0 of "y" = '
        "223, written to 'out.onnx'"
    )
    assert "counted where &quot;batch&quot; = 211" in (tmp_path / "page.html").read_text("utf-8")


UNKNOWN = """g (float[N,4,6] x, int64[K] s) => (float[A,B,C] y) SHAPE {
    a = Reshape (x, s) b = Transpose <perm = [2, 1, 0]> (a) c = Transpose <perm = [2, 1, 0]> (b) y = Relu (c)
}"""


def test_movement_of_unknown_sizes_is_said_not_to_be_counted(anydml):
    save(UNKNOWN.replace("SHAPE", ""))
    _, out, _ = anydml("model.onnx", "-o", "out.onnx", "--dry-run")
    assert '3 movement nodes are not counted, because their sizes are not known, from "a" on' in out
    save(UNKNOWN.replace("SHAPE", "<float[N,4,6] a>"))
    _, out, _ = anydml("model.onnx", "-o", "out.onnx", "--dry-run")
    assert "c: 81.02 kB → 0 B" in out
    assert "not counted" not in out


HEADS = """heads (float[N,S,12] x) => (float[N,3,4,S] y) <int64[4] shape = {0, 0, 3, 4}> { a = Reshape (x, shape)
    b = Transpose <perm = [0, 2, 1, 3]> (a) c = Transpose <perm = [0, 1, 3, 2]> (b) y = Relu (c) }"""


def test_sizes_are_fixed(anydml):
    save(HEADS)
    code, out, err = anydml("model.onnx", "out.onnx", "--size", "N=2", "--prove")
    assert (code, err) == (0, "")
    assert out.endswith('proved: both compute the same, for all sizes "S" from 1 on, and "N" = 2\n')
    before, after = onnx.load("model.onnx"), onnx.load("out.onnx")
    for values, names in ((before.graph.input, ["N", "S", ""]), (after.graph.input, ["", "S", ""])):
        assert [dim.dim_param for dim in values[0].type.tensor_type.shape.dim] == names
    x = np.arange(2 * 5 * 12, dtype=np.float32).reshape(2, 5, 12)
    np.testing.assert_array_equal(run(before, {"x": x})[0], run(after, {"x": x})[0])
    with pytest.raises(Exception, match="invalid dimensions"):
        run(after, {"x": x[:1]})
    anydml("model.onnx", "both.onnx", "--size", "N=2", "--size", "S=5")
    static = onnx.load("both.onnx")
    assert [dim.dim_value for dim in static.graph.output[0].type.tensor_type.shape.dim] == [2, 3, 4, 5]
    np.testing.assert_array_equal(run(before, {"x": x})[0], run(static, {"x": x})[0])


def test_a_size_must_be_one_of_the_models(anydml):
    save(HEADS)
    code, _, err = anydml("model.onnx", "out.onnx", "--size", "batch=2")
    assert code == 2
    assert 'no size is named "batch"; the model has "N", "S"' in err
    assert not Path("out.onnx").exists()
