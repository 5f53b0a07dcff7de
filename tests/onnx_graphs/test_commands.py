"""`anydml run`, `anydml check` and `anydml onnx portable` with ONNX files."""

from __future__ import annotations

import subprocess
import sys

import ml_dtypes
import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper, parser

from anydml.cli import main
from anydml.memory import limits
from anydml.onnx import make_portable

HEADER = '<ir_version: 8, opset_import: ["": 18, "com.microsoft": 1]> '
SPLIT = "g (float[N] x, int64[2] s) => (float[A] a, float[B] b) { a, b = com.microsoft.SplitTraining (x, s) }"
X, S = np.arange(6, dtype="f"), np.array([2, 4])


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """The current folder, with two inputs in it."""
    monkeypatch.chdir(tmp_path)
    np.save("x.npy", X)
    np.save("s.npy", S)
    return tmp_path


@pytest.fixture
def anydml(capsys):
    def run(*arguments):
        with pytest.raises(SystemExit) as ended:
            main([str(argument) for argument in arguments])
        captured = capsys.readouterr()
        return ended.value.code or 0, captured.out, captured.err

    return run


def model(body, name="model.onnx"):
    parsed_model = parser.parse_model(HEADER + body)
    onnx.save(parsed_model, name)
    return parsed_model


def test_run_writes_what_is_asked_for_and_prints_the_rest(folder, anydml):
    model(SPLIT)
    code, out, err = anydml("run", "model.onnx", "--input", "x=x.npy", "--input", "s=s.npy", "--output", "b=b.npy")
    assert (code, err) == (0, "")
    assert out == "Output 'a' (float32 [2]): 0, 1\nOutput 'b' written to 'b.npy'\n"
    assert np.load("b.npy").tolist() == [2, 3, 4, 5]
    assert sorted(path.name for path in folder.iterdir()) == ["b.npy", "model.onnx", "s.npy", "x.npy"]


def test_what_exists_is_replaced_only_if_asked(folder, anydml):
    model(SPLIT)
    inputs = ["--input", "x=x.npy", "--input", "s=s.npy"]
    before = {name: (folder / name).read_bytes() for name in ("x.npy", "s.npy", "model.onnx")}
    for name in before:
        for options in ([], ["--overwrite"]):
            code, out, err = anydml("run", "model.onnx", *inputs, "--output", f"b={name}", *options)
            assert (code, out) == (2, "")
            assert err == f"anydml: --output b={name}: is the file that is read: write to another one\n"
    code, _, err = anydml("run", "model.onnx", *inputs, "--output", "a=o.npy", "--output", "b=./o.npy")
    assert (code, err) == (2, "anydml: --output b=o.npy: 'a' is written there, too\n")
    assert not (folder / "o.npy").exists()
    (folder / "o.npy").write_text("kept")
    code, out, err = anydml("run", "model.onnx", *inputs, "--output", "b=o.npy")
    assert (code, out) == (2, "")
    assert "--output b=o.npy: exists already" in err
    assert (folder / "o.npy").read_text() == "kept"
    assert anydml("run", "model.onnx", *inputs, "--output", "b=o.npy", "--overwrite")[0] == 0
    assert np.load("o.npy").tolist() == [2, 3, 4, 5]
    model("g (float[2,3] x) => (float[3,2] y) { y = Transpose <perm = [1, 0]> (x) }", "t.onnx")
    for arguments, name in (
        (["onnx", "portable", "model.onnx"], "p.onnx"),
        (["explain", "t.onnx", "--html"], "p.html"),
        (["explain", "t.onnx", "--svg"], "p.svg"),
    ):
        (folder / name).write_text("kept")
        code, _, err = anydml(*arguments, name)
        assert (code, (folder / name).read_text()) == (2, "kept")
        assert f"{name}: exists already: name another output, or replace it by --overwrite" in err
        assert anydml(*arguments, name, "--overwrite")[::2] == (0, "")
        assert (folder / name).read_text("utf-8", "replace") != "kept"
    code, _, err = anydml("onnx", "portable", "model.onnx", "model.onnx", "--overwrite")
    assert (code, err) == (2, "anydml: model.onnx: is the file that is read: write to another one\n")
    assert {name: (folder / name).read_bytes() for name in before} == before


def test_long_outputs_are_cut(folder, anydml):
    model("g (float[N] x) => (float[N] y) { y = Identity (x) }")
    np.save("x.npy", np.zeros(1000, "f"))
    code, out, _ = anydml("run", "model.onnx", "--input", "x=x.npy")
    assert code == 0
    assert out.endswith("0, … 1000 in all\n")
    assert out.count("0, ") == 100


@pytest.mark.parametrize("kind", ["BFLOAT16", "FLOAT8E4M3FN", "INT4", "STRING", "BOOL", "COMPLEX64"])
def test_types_that_npy_files_do_not_know(kind, folder, anydml):
    elem_type = getattr(TensorProto, kind)
    graph = helper.make_graph(
        [helper.make_node("Concat", ["x", "x"], ["y"], axis=0)],
        "g",
        [helper.make_tensor_value_info("x", elem_type, ["N"])],
        [helper.make_tensor_value_info("y", elem_type, ["M"])],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10), "model.onnx")
    x = (
        np.array(["a", "bb"])
        if kind == "STRING"
        else np.array([1, 0]).astype(helper.tensor_dtype_to_np_dtype(elem_type))
    )
    stored = x.view(f"V{x.itemsize}") if x.dtype.kind == "V" else x
    np.save("x.npy", stored)
    assert anydml("run", "model.onnx", "--input", "x=x.npy", "--output", "y=y.npy")[0] == 0
    y = np.load("y.npy", allow_pickle=False)
    assert y.dtype == stored.dtype
    assert y.tobytes() == stored.tobytes() * 2
    code, out, _ = anydml("run", "model.onnx", "--input", "x=x.npy")
    assert code == 0
    expected = {"STRING": "a, bb, a, bb", "BOOL": "True, False, True, False"}.get(kind, "1, 0, 1, 0")
    assert kind == "COMPLEX64" or out.endswith(f": {expected}\n")


def test_bfloat16_as_bits(folder, anydml):
    model("g (bfloat16[N] x) => (bfloat16[N] y) { y = Identity (x) }")
    np.save("x.npy", np.array([1.5, -2], ml_dtypes.bfloat16).view("u2"))
    assert anydml("run", "model.onnx", "--input", "x=x.npy")[1] == "Output 'y' (bfloat16 [2]): 1.5, -2\n"


def test_foreign_byte_order_and_order_of_elements(folder, anydml):
    model("g (float[N, M] x) => (float[N, M] y) { y = Identity (x) }")
    np.save("x.npy", np.asfortranarray(np.arange(6, dtype=">f4").reshape(2, 3)))
    assert anydml("run", "model.onnx", "--input", "x=x.npy")[1] == "Output 'y' (float32 [2, 3]): 0, 1, 2, 3, 4, 5\n"


BOTH = ("--input", "x=x.npy", "--input", "s=s.npy")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), 'model.onnx: input "x" is not given'),
        (("--input", "x"), "--input x: write --input NAME=FILE.npy"),
        (("--input", "x=x.npy", "--input", "x=x.npy"), "--input x is given twice"),
        (("--input", "x=-"), "--input x=-: standard input is not read here: name a file"),
        (("--input", "x=x.npy", "--output", "b=-"), "--output b=-: nothing is written to standard output here"),
        (("--input", "q=x.npy"), '--input: model.onnx has no input "q"; it has "x", "s"'),
        ((*BOTH, "--output", "q=x.npy"), '--output: model.onnx has no output "q"; it has "a", "b"'),
        (("--input", "x=none.npy", "--input", "s=s.npy"), "none.npy cannot be read: No such file or directory"),
        (("--input", "x=model.onnx", "--input", "s=s.npy"), "model.onnx is not a .npy file: "),
        (("--input", "x=s.npy", "--input", "s=s.npy"), 'input "x" is int64, but the graph has FLOAT'),
        (("--input", "x=x.npy", "--input", "s=long.npy"), 'input "s" has shape [3], but the graph has [2]'),
        (("--input", "x=x.npy", "--input", "s=wrong.npy"), "add up to 5, but axis 0 has size 6"),
        (
            ("--input", "x=cut.npy", "--input", "s=s.npy"),
            "cut.npy has a header that says shape (6,)",
        ),
        (
            ("--input", "x=huge.npy", "--input", "s=s.npy"),
            "huge.npy has a header that says shape (99999",
        ),
        (("--input", "x=objects.npy", "--input", "s=s.npy"), "objects.npy holds elements of type object"),
        ((*BOTH, "-i", "3"), "-i is for JSON models"),
        ((*BOTH, "--device", "reference"), "--device is for JSON models"),
        ((*BOTH, "--output", "a=none/../model.onnx/a.npy"), "cannot be written"),
    ],
)
def test_run_ends_with_one_line(arguments, message, folder, anydml):
    model(SPLIT)
    np.save("long.npy", np.array([1, 2, 3]))
    np.save("wrong.npy", np.array([1, 4]))
    np.save("objects.npy", np.array([{}, 1], object), allow_pickle=True)
    data = (folder / "x.npy").read_bytes()
    (folder / "cut.npy").write_bytes(data[:-3])
    (folder / "huge.npy").write_bytes(data.replace(b"(6,), }              ", b"(9999999999999999,), }"))
    code, out, err = anydml("run", "model.onnx", *arguments)
    assert (code, out) == (2, "")
    assert err.startswith("anydml: ")
    assert message in err
    assert err.count("\n") == 1


@pytest.mark.parametrize("command", [["run"], ["check"], ["onnx", "portable"]])
@pytest.mark.parametrize("kind", ["malformed", "truncated", "empty", "large", "not valid", "missing"])
def test_files_that_are_no_models_end_with_one_line(command, kind, folder, anydml):
    data = model("g (float[4] x) => (float[B] a) { a = Concat <axis = 0> (x, nothing) }").SerializeToString()
    path = folder / "broken.onnx"
    contents = {"malformed": b"\xff" * 99, "truncated": data[:-9], "empty": b"", "not valid": data, "large": b""}
    if kind in contents:
        path.write_bytes(contents[kind])
    if kind == "large":
        with path.open("r+b") as file:
            file.truncate(2**31)
    code, out, err = anydml(*command, path, *(["out.onnx"] if len(command) == 2 else []))
    assert (code, out) == (2, "")
    assert err.startswith(f"anydml: {path}: ")
    assert err.count("\n") == 1
    assert not (folder / "out.onnx").exists()


def test_results_beyond_the_memory_end_with_one_line(folder, anydml, monkeypatch):
    model("g (float[1, M] x, int64[N] i) => (float[N, M] y) { y = Gather (x, i) }")
    np.save("x.npy", np.zeros((1, 4096), "f"))
    np.save("i.npy", np.zeros(8192, np.int64))
    monkeypatch.setattr(limits, "available_memory", lambda: 2**26)
    code, out, err = anydml("run", "model.onnx", "--input", "x=x.npy", "--input", "i=i.npy")
    assert (code, out) == (2, "")
    assert "the result of shape [8192, 4096] needs 134.22 MB, but 67.11 MB of memory are available" in err


def test_strings_of_one_length_that_do_not_fit_are_not_written(folder, anydml, monkeypatch):
    texts = np.array(["x" * 100_000, *[""] * 20_000], object)
    graph = helper.make_graph(
        [helper.make_node("Identity", ["t"], ["y"])], "g", [],
        [helper.make_tensor_value_info("y", TensorProto.STRING, ["N"])], [numpy_helper.from_array(texts, "t")],
    )  # fmt: skip
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8), "model.onnx")
    monkeypatch.setattr(limits, "available_memory", lambda: 2**30)
    code, out, err = anydml("run", "model.onnx", "--output", "y=y.npy")
    assert (code, out) == (2, "")
    assert err.startswith('anydml: output "y": writing strings of one length needs 16.00 GB, but 1.07 GB')
    assert not (folder / "y.npy").exists()


def with_external_data(folder, location):
    found = parser.parse_model(HEADER + "g (float[6] x) => (float[M] y) { y = Concat <axis = 0> (x, w) }")
    weight = found.graph.initializer.add(name="w", data_type=TensorProto.FLOAT, dims=[2])
    weight.data_location = TensorProto.EXTERNAL
    weight.external_data.add(key="location", value=location)
    path = folder / "inner" / "model.onnx"
    (path.parent / location).parent.mkdir(parents=True, exist_ok=True)
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(found.SerializeToString())
    np.float32([7, 8]).tofile(path.parent / location)
    return path


@pytest.mark.parametrize("location", ["w.bin", "data/w.bin"])
def test_external_data_in_the_folder(location, folder, anydml):
    path = with_external_data(folder, location)
    code, out, _ = anydml("run", path, "--input", "x=x.npy")
    assert code == 0
    assert out.endswith(": 0, 1, 2, 3, 4, 5, 7, 8\n")


def test_external_data_stays_in_the_folder_unless_allowed(folder, anydml):
    path = with_external_data(folder, "../w.bin")
    code, out, err = anydml("run", path, "--input", "x=x.npy")
    assert (code, out) == (2, "")
    assert f'anydml: {path}: tensor "w": "../w.bin" leaves the model\'s folder' in err
    code, out, _ = anydml("run", path, "--input", "x=x.npy", "--allow-outside")
    assert code == 0
    assert out.endswith(": 0, 1, 2, 3, 4, 5, 7, 8\n")
    # What is not read need not be allowed.
    assert anydml("check", path)[0] == 0


def test_check_says_nothing_is_wrong(folder, anydml):
    model("g (float[6, 2] x) => (float[A, B] a, float[C, D] b) { a, b = Split <num_outputs = 2> (x) }")
    assert anydml("check", "model.onnx", "--feature-level", "1_0") == (
        0, "model.onnx: 1 movement node conforms to DML_FEATURE_LEVEL_1_0\n    Split: 1 conforms\n"
        "    DML_FEATURE_LEVEL_1_0 is the lowest level that allows all that were checked\n", "",
    )  # fmt: skip


def test_check_lists_every_problem(folder, anydml):
    model("""g (double[6] x, string[2] t, int32[2] i) => (double[A] a, double[B] b) {
        [cut] a, b = Split <num_outputs = 2> (x)
        [text] u = Concat <axis = 0> (t, t)
        [pick] v = Gather (x, i)
    }""")
    code, out, err = anydml("check", "model.onnx", "--feature-level", "3_0")
    assert (code, err) == (1, "")
    verdict, *lines = out.splitlines()
    assert verdict == "model.onnx: 6 problems in 3 nodes"
    assert lines[0].startswith("model.onnx: cut.InputTensor.DataType: DML_SPLIT: InputTensor.DataType is FLOAT64")
    assert "split" in lines[0]
    assert lines[2] == "    no feature level allows it"
    assert any(line.startswith('model.onnx: node "text" (Concat): moves STRING, and DirectML has') for line in lines)
    assert "    DML_FEATURE_LEVEL_4_1 allows it" in lines
    assert lines.count("    and 2 more problems of this kind, in 1 node in all; -v lists each") == 1
    assert lines.count("    and 1 more problem of this kind, in 1 node in all; -v lists each") == 1
    assert len(lines) == 3 * (3 + 1) - 2 + 3
    assert lines[-3:] == [f"    {operator}: 1 with problems" for operator in ("Split", "Concat", "Gather")]


def test_run_explains_its_programs(folder, anydml):
    model("""g (float[N] x) => (float[A, B] y) <int64[2] two = {2, -1}> {
        s = Shape (x) r = Reshape (x, two) t = Transpose (r) n = NonZero (t) c = Cast <to = 1> (n)
        y = Transpose (c) }""")
    code, out, err = anydml("run", "model.onnx", "--input", "x=x.npy", "--explain")
    assert (code, err) == (0, "")
    lines = out.splitlines()
    assert [line for line in lines if not line.startswith("    ")] == [
        'Program of node "Reshape_1" (Reshape), node "Transpose_2" (Transpose):',
        'Alone, because NumPy makes it: node "NonZero_3" (NonZero)',
        'Alone, because NumPy makes it: node "Cast_4" (Cast)',
        'Program of node "Transpose_5" (Transpose):',
        lines[-1],
    ]
    assert any("1 move, 0 B of scratch" in line for line in lines)


def test_sequences_are_printed_and_not_written(folder, anydml):
    model("g (float[N] x) => (seq(float[A]) y) { y = SplitToSequence <axis = 0, keepdims = 1> (x) }")
    code, out, _ = anydml("run", "model.onnx", "--input", "x=x.npy")
    assert code == 0
    assert out.splitlines()[0] == "Output 'y', 0 (float32 [1]): 0"
    assert out.splitlines()[-1] == "Output 'y' is a sequence of 6"
    assert anydml("run", "model.onnx", "--input", "x=x.npy", "--output", "y=y.npy")[::2] == (
        2, "anydml: --output y: it is a sequence, and a .npy file holds one array\n",
    )  # fmt: skip


def test_check_of_sizes_that_are_only_named(folder, anydml):
    model("g (float[N] x) => (float[A] y) { [cat] y = Concat <axis = 0> (x, x) }")
    code, out, err = anydml("check", "model.onnx")
    assert (code, err) == (3, "")
    assert out.splitlines() == [
        "model.onnx: no node was checked at DML_FEATURE_LEVEL_6_4; 1 movement node was not checked",
        "model.onnx: 1 node is left out, because sizes are unknown (Concat 1): give --size N=4",
    ]
    assert anydml("check", "model.onnx", "-v")[1].splitlines()[2:] == [
        'model.onnx: cat: not checked: its sizes depend on input "x", which has sizes [N]'
    ]
    assert anydml("check", "model.onnx", "--size", "N=4")[:2] == (
        0,
        "model.onnx: 1 movement node conforms to DML_FEATURE_LEVEL_6_4\n    Concat: 1 conforms\n"
        "    DML_FEATURE_LEVEL_1_0 is the lowest level that allows all that were checked\n",
    )
    for size, message in (
        ("M=4", 'model.onnx: no size of an input is named "M": the names are "N"'),
        ("N=-1", "--size N=-1: write --size NAME=SIZE, such as N=4, with a size of 0 to 2⁶³ − 1"),
        ("N=x", "--size N=x: write --size NAME=SIZE, such as N=4, with a size of 0 to 2⁶³ − 1"),
        (
            "N=9999999999999999999999",
            "--size N=9999999999999999999999: write --size NAME=SIZE, such as N=4, with a size of 0 to 2⁶³ − 1",
        ),
    ):
        assert anydml("check", "model.onnx", "--size", size) == (2, "", f"anydml: {message}\n")


def test_portable(folder, anydml):
    made = model(SPLIT)
    code, out, err = anydml("onnx", "portable", "model.onnx", "out.onnx")
    assert (code, out, err) == (0, "model.onnx: 1 node rewritten, written to 'out.onnx'\n", "")
    assert onnx.load("out.onnx") == make_portable(made)
    session = onnxruntime.InferenceSession("out.onnx", providers=["CPUExecutionProvider"])
    assert [part.tolist() for part in session.run(None, {"x": X, "s": S})] == [[0, 1], [2, 3, 4, 5]]


def test_portable_models_are_copied_byte_by_byte(folder, anydml):
    model("g (float[N] x) => (float[N] y) { y = Relu (x) }")
    code, out, _ = anydml("onnx", "portable", "model.onnx", "sub/out.onnx")
    assert (code, out) == (0, "model.onnx: was portable already, written to 'sub/out.onnx'\n")
    assert (folder / "sub/out.onnx").read_bytes() == (folder / "model.onnx").read_bytes()


def test_portable_leaves_external_data_where_it_is(folder, anydml):
    path = with_external_data(folder, "w.bin")
    code, out, err = anydml("onnx", "portable", path, "out.onnx")
    assert (code, out) == (2, "")
    assert "has external data beside it; write out.onnx into the same folder" in err
    assert anydml("onnx", "portable", path, path.with_name("out.onnx"))[0] == 0


def test_options_for_the_other_kind_of_model(folder, anydml):
    (folder / "model.json").write_text('{"resources": {}, "dispatchables": {}, "commands": []}')
    code, _, err = anydml("run", "model.json", "--input", "x=x.npy")
    assert (code, err) == (2, "anydml: --input is for ONNX models: leave it out, or name such a model\n")


def test_json_models_never_import_onnx(folder):
    (folder / "model.json").write_text('{"resources": {}, "dispatchables": {}, "commands": []}')
    code = """
import sys
from anydml.cli import main
try:
    main(["run", "model.json"])
except SystemExit as end:
    assert not end.code
assert "onnx" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)


def test_without_onnx_it_says_what_to_install(folder):
    model(SPLIT)
    code = """
import sys
sys.modules["onnx"] = None
from anydml.cli import main
main(["run", "model.onnx"])
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr == 'anydml: anydml.onnx needs the package onnx: pip install "anydml[onnx]"\n'
