"""`anydml check` on models that anydml has a part of: what it says, what it leaves out, and the code it ends with."""

from __future__ import annotations

import io
import json
import re
import warnings

import numpy as np
import onnx
import pytest
from onnx import TensorProto, external_data_helper, helper, numpy_helper, parser

from anydml import ModelError
from anydml.cli import main
from anydml.onnx import backend
from anydml.onnx.node_descs import describe

LOWEST = "    DML_FEATURE_LEVEL_{} is the lowest level that allows all that were checked"


def parsed(body, opset=18):
    return parser.parse_model(f'<ir_version: 8, opset_import: ["": {opset}, "custom": 1]> {body}')


@pytest.fixture
def check(tmp_path, monkeypatch, capsys):
    """Check a model: the code, and the lines."""
    monkeypatch.chdir(tmp_path)

    def run(model, *options):
        onnx.save(model, "m.onnx")
        with pytest.raises(SystemExit) as ended:
            main(["check", "m.onnx", *options])
        out, err = capsys.readouterr()
        assert (err == "") == (ended.value.code != 2)
        return ended.value.code, out.splitlines(), err

    return run


def found(model, **sizes):
    """Descs and reasons by node."""
    descs, reasons = {}, {}
    for finding in describe(model, sizes):
        if finding.desc is not None:
            descs[finding.node] = finding.desc
        else:
            reasons[finding.node] = str(finding.error or finding.unchecked)
    return descs, reasons


def transformer():
    """A small transformer with a dynamic batch, as PyTorch exports it."""
    torch = pytest.importorskip("torch")

    class Block(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.embed, self.norm = torch.nn.Embedding(50, 16), torch.nn.LayerNorm(16)
            self.heads, self.out = torch.nn.Linear(16, 48), torch.nn.Linear(16, 16)

        def forward(self, tokens):
            x = self.embed(tokens)
            batch, length, _ = x.shape
            parts = self.heads(self.norm(x)).split(16, -1)
            q, k, v = (part.reshape(batch, length, 2, 8).transpose(1, 2) for part in parts)
            weights = torch.softmax(q @ k.transpose(-1, -2) / 8**0.5, -1)
            return x + self.out((weights @ v).transpose(1, 2).reshape(batch, length, 16))

    file = io.BytesIO()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(
            Block().eval(), (torch.zeros(2, 5, dtype=torch.long),), file, dynamo=False, input_names=["tokens"],
            output_names=["y"], dynamic_axes={"tokens": {0: "N"}}, opset_version=17,
        )  # fmt: skip
    return onnx.load_model_from_string(file.getvalue())


def test_a_transformer_that_pytorch_exports(check):
    model = transformer()
    foreign = {node.name for node in model.graph.node if node.op_type in ("MatMul", "Add", "Softmax", "Div")}
    descs, reasons = found(model, N=4)
    assert foreign <= reasons.keys()
    assert [desc.OPERATOR for desc in descs.values()] == ["DML_GATHER", "DML_SPLIT", *["DML_ELEMENT_WISE_IDENTITY"] * 4]
    assert [*descs.values()][1].input_tensor.sizes == (1, 4, 5, 48)
    heads = next(desc for name, desc in descs.items() if name.endswith("/Transpose"))
    assert (heads.input_tensor.sizes, heads.input_tensor.strides) == ((4, 2, 5, 8), (80, 8, 16, 1))
    code, lines, _ = check(model, "--size", "N=4")
    assert code == 0
    assert lines[0].startswith("m.onnx: 6 movement nodes conform to DML_FEATURE_LEVEL_6_4; ")
    assert f"; {len(reasons)} nodes compute and are out of scope: MatMul 4, Add 3, " in lines[0]
    assert lines[1:-1] == ["    Gather: 1 conforms", "    Split: 1 conforms", "    Transpose: 4 conform"]
    assert lines[-1] == LOWEST.format("3_0") + "; with 64-bit integers emulated, DML_FEATURE_LEVEL_1_0"
    code, more, _ = check(model, "--size", "N=4", "-v")
    assert (code, more[:5]) == (0, lines)
    assert {line.split(": ")[1] for line in more if ": not checked: " in line} == reasons.keys()
    assert {line.split(": ")[1] for line in more if " conforms as DML_" in line} == descs.keys()
    code, lines, _ = check(model, "--size", "N=4", "--json", "--feature-level", "2_0")
    said = json.loads(lines[0])
    assert code == 0
    assert (said["model"], said["feature_level"]) == ("m.onnx", "DML_FEATURE_LEVEL_2_0")
    # Indices of 64 bits are given to DirectML as others.
    gathered = {name for name, desc in descs.items() if desc.OPERATOR == "DML_GATHER"}
    assert {each["location"] for each in said["not_checked"]} == reasons.keys() | gathered
    assert (said["conforming"], said["emulated"], said["problems"]) == (5, 1, [])
    # Without the size, nothing is left to check: no success.
    code, lines, _ = check(model)
    assert code == 3
    assert lines[0].startswith(
        "m.onnx: no node was checked at DML_FEATURE_LEVEL_6_4; 6 movement nodes were not checked; 10 nodes compute"
    )
    assert lines[0].endswith("; 6 nodes of shape arithmetic run on the host")
    (line,) = lines[1:]
    assert line.endswith("(Transpose 4, Gather 1, Split 1): give --size N=4")
    code, lines, _ = check(model, "-v")
    assert code == 3
    assert all(any(f": {name}: not checked: " in line for line in lines) for name in foreign)


def test_sizes_that_are_only_named_are_named_together(check):
    model = parsed(
        """g (float[N, 4] x, float[2, "seq len"] z, float[3, 2] w) => (float[A, B] y, float[C, D] t, float[E, F] u) {
        y = Transpose (x) t = Transpose (z) u = Transpose (w) }""".replace('"seq len"', "L")
    )
    model.graph.input[1].type.tensor_type.shape.dim[1].dim_param = "seq len"
    code, lines, _ = check(model)
    assert code == 3
    assert lines == [
        "m.onnx: 2 movement nodes were not checked; 1 movement node conforms to DML_FEATURE_LEVEL_6_4",
        "    Transpose: 1 conforms",
        LOWEST.format("1_0"),
        "m.onnx: 2 nodes are left out, because sizes are unknown (Transpose 2): give --size N=4 --size 'seq len=4'",
    ]
    code, lines, _ = check(model, "--size", "N=4", "--size", "seq len=4")
    assert (code, lines) == (
        0,
        ["m.onnx: 3 movement nodes conform to DML_FEATURE_LEVEL_6_4", "    Transpose: 3 conform", LOWEST.format("1_0")],
    )


@pytest.mark.parametrize("is_declared", [False, True])
def test_sizes_that_lead_to_declared_shapes_are_named(check, is_declared):
    """PyTorch declares the shapes of shapes, whose elements depend on sizes all the same."""
    model = parsed(
        """g (float[N,3,4] x, bool[2] k) => (float[A,B,C] y, float[D] z) <int64[1] zero = {0}, int64[1] one = {1},
        int64[2] tail = {3, 4}, float[4] row = {1, 2, 3, 4}> { s = Shape (x) n = Gather (s, zero)
        c = Concat <axis = 0> (n, tail) e = Expand (row, c) y = Transpose (e)
        p = NonZero (k) m = Shape <start = 1> (p) r = Expand (one, m) z = Cast <to = 1> (r) }"""
    )
    if is_declared:
        for name, kind, shape in (("s", 7, [3]), ("c", 7, [3]), ("e", 1, ["N", 3, 4])):
            model.graph.value_info.append(helper.make_tensor_value_info(name, kind, shape))
    code, lines, _ = check(model)
    assert code == 3
    assert any(line.endswith("(Expand 1, Transpose 1): give --size N=4") for line in lines), lines
    # What depends on the elements of an input as well is not helped by any size.
    code, lines, _ = check(model, "--size", "N=4")
    assert code == 3
    assert any("(Expand 1, Cast 1)" in line and "--size" not in line for line in lines), lines


def test_what_does_not_depend_on_a_size_is_checked():
    model = parsed(
        """g (float[N, 4] x, float64[3, 2] z) => (float[A, B] y, float64[C, D] t) <int64[2] two = {1, 2}> {
        [free] y = Transpose (x)
        [bound] t = Tile (z, two)
    }""".replace("float64", "double")
    )
    descs, reasons = found(model)
    assert [*descs] == ["bound"]
    assert "DataType" in next(problem.field for problem in descs["bound"].problems())
    assert [*reasons] == ["free"]


def test_sizes_of_foreign_nodes_are_inferred_or_declared():
    model = parsed("""g (float[2, 3] x, float[3, 5] w) => (float[5, 2] y, float[A, B] z, float[C, D] r) {
        m = MatMul (x, w)
        [known] y = Transpose (m)
        [own] o, p = custom.Thing (x)
        [declared] z = Transpose (o)
        [unknown] r = Transpose (p)
    }""")
    model.graph.value_info.append(helper.make_tensor_value_info("o", TensorProto.FLOAT, [7, 9]))
    descs, reasons = found(model)
    assert descs["known"].output_tensor.sizes == (1, 1, 5, 2)
    assert descs["declared"].output_tensor.sizes == (1, 1, 9, 7)
    assert reasons["own"] == "custom:Thing: not supported: anydml has the operators that only move elements"
    assert reasons["unknown"] == 'its sizes depend on "p", whose sizes the model does not say'


def test_a_known_operator_that_computes_is_listed(check):
    model = parsed("""g (float[1, 1, 4, 4] x) => (float[A, B, C, D] y, float[E] z) <float[4] by = {1, 1, 2, 2}> {
        [blur] r = Resize <mode = "linear"> (x, , by)
        [turn] y = Transpose <perm = [0, 1, 3, 2]> (r)
        [pick] z = Gather (y, nothing)
    }""")
    del model.graph.node[2], model.graph.output[1]
    descs, reasons = found(model)
    assert reasons == {"blur": "mode is linear, but anydml moves data and computes nothing: mode must be nearest"}
    assert descs["turn"].output_tensor.sizes == (1, 1, 8, 8)
    code, lines, _ = check(model)
    assert code == 0
    assert lines[0].endswith("; 1 node computes and is out of scope: Resize 1")


def test_tensors_without_elements_are_skipped():
    model = parsed("""g (float[0, 3] e, float[2, 3] x) => (float[A, B] y, float[C, D] z) {
        [join] y = Concat <axis = 0> (e, x, e)
        [nothing] z = Transpose (e)
    }""")
    descs, reasons = found(model)
    assert [*descs] == ["join"]
    assert reasons == {"nothing": "it moves no element"}
    assert [tensor.sizes for tensor in descs["join"].input_tensors] == [(1, 1, 2, 3)]
    descs["join"].check()


def test_what_sizes_are_made_of_is_not_checked_as_a_tensor():
    model = parsed("""g (float[2, 6] x) => (float[A, B, C] y) <int64 zero = {0}, int64[1] first = {0},
        int64[2] rest = {2, 3}> {
            s = Shape (x) n = Gather (s, zero) one = Unsqueeze (n, first) sizes = Concat <axis = 0> (one, rest)
            y = Reshape (x, sizes) }""")
    assert found(model) == ({}, {})


def test_the_codes(check):
    sound = parsed("g (float[2, 3] x) => (float[3, 2] y) { y = Transpose (x) }")
    lines = ["m.onnx: 1 movement node conforms to DML_FEATURE_LEVEL_6_4", "    Transpose: 1 conforms"]
    assert check(sound)[:2] == (0, [*lines, LOWEST.format("1_0")])
    nothing = parsed("g (float[2, 3] x) => (float[2, 3] y) { y = Exp (x) }")
    verdict = "no node was checked at DML_FEATURE_LEVEL_6_4; 1 node computes and is out of scope: Exp 1"
    assert check(nothing)[:2] == (3, [f"m.onnx: {verdict}"])
    code, lines, _ = check(nothing, "--json")
    assert (code, json.loads(lines[0])["conforming"]) == (3, 0)
    broken = parsed("g (float[2, 3] x) => (float[A] y) { y = Concat <axis = 7> (x, x) z = Transpose (y) }")
    code, lines, _ = check(broken, "-v")
    assert code == 1
    assert lines[0] == "m.onnx: 1 movement node was not checked; 1 problem in 1 node"
    assert lines[1].startswith('m.onnx: node "Concat_0" (Concat): axis is 7, but the rank is 2')
    assert lines[3] == "    Concat: 1 with problems"
    assert lines[4] == (
        'm.onnx: 1 node is left out, because sizes are unknown (Transpose 1); first "Transpose_1": '
        'its sizes depend on node "Concat_0" (Concat), which breaks a rule'
    )
    assert 'Transpose_1: not checked: its sizes depend on node "Concat_0" (Concat), which breaks a rule' in lines[5]
    invalid = parsed("g (float[2] x) => (float[A] y) { y = Identity (nothing) }")
    code, lines, err = check(invalid)
    assert (code, lines) == (2, [])
    assert err.count("\n") == 1


def test_huge_sizes_take_no_time():
    """An axis is never counted through."""
    model = parsed("""g (float[1099511627776, 2] x, bool[1073741824] c) => (float[A, B] y) <int64[2] low = {5, 0},
        int64[2] high = {9, 2}, int64[4] pads = {1000000, 0, 0, 0}, int64[2] batch = {2, 1}> {
            [cut] s = Slice (x, low, high)
            [around] p = Pad <mode = "reflect"> (x, pads)
            [wide] y = Tile (s, batch)
            [triangle] t = Trilu (x)
    }""")
    descs, reasons = found(model)
    assert not reasons
    assert descs["wide"].output_tensor.sizes == (1, 1, 8, 2)


def test_a_small_constant_that_a_foreign_node_makes_decides_no_size():
    model = parsed(
        """g (float[2, 6] x) => (float[A, B] y) { s = custom.Sizes () y = Reshape (x, s) z = Transpose (y) }"""
    )
    model.graph.value_info.append(helper.make_tensor_value_info("s", TensorProto.INT64, [2]))
    model.graph.initializer.append(numpy_helper.from_array(np.zeros(3, np.float32), "unused"))
    _, reasons = found(model)
    assert reasons["Reshape_1"].startswith("shape is known only when the graph runs")
    assert reasons["Transpose_2"].startswith('its sizes depend on node "Reshape_1" (Reshape), of which shape is known')


SHAPES = """g (float[N, 3, 4, 4] x, int64[2] fed) => (float[A, B, C] y, float[D, E] z, int64[F] picked) <
        int64[1] zero = {0}, int64[2] rest = {3, 16}, int64[1] last = {-1}, int64[1] one = {1}, int64[2] axes = {0, 1}
    > {
    s = Shape (x) [first] n = Gather (s, zero) [joined] to = Concat <axis = 0> (n, rest) r = Reshape (x, to)
    [moved] y = Transpose <perm = [0, 2, 1]> (r)
    [own] pair = Concat <axis = 0> (fed, one) [cut] two = Slice (pair, zero, last) w = Reshape (r, two) z = Relu (w)
    [data] picked = Gather (s, zero)
}"""


def test_shape_arithmetic_is_counted_apart(check):
    """The nodes `own` and `cut` move INT64 of known sizes, and conform, but only determine those of `w`."""
    model = parsed(SHAPES)
    code, lines, _ = check(model, "--size", "N=2")
    assert (code, lines) == (
        3,
        [
            "m.onnx: 1 movement node was not checked; 2 movement nodes conform to DML_FEATURE_LEVEL_6_4; "
            "1 node computes and is out of scope: Relu 1; 2 nodes of shape arithmetic run on the host",
            "    Transpose: 1 conforms",
            "    Gather: 1 conforms",
            LOWEST.format("4_1") + "; with 64-bit integers emulated, DML_FEATURE_LEVEL_2_1",
            'm.onnx: 1 node is left out, because sizes are unknown (Reshape 1); first "Reshape_7": '
            "shape is known only when the graph runs",
        ],
    )
    code, lines, _ = check(model)
    assert code == 3
    assert lines[0].startswith(
        "m.onnx: no node was checked at DML_FEATURE_LEVEL_6_4; 2 movement nodes were not checked"
    )
    assert lines[0].endswith("; 4 nodes of shape arithmetic run on the host")
    # INT64 is refused by old levels, but not where the host has it.
    code, lines, _ = check(model, "--size", "N=2", "--feature-level", "2_1", "--json")
    said = json.loads(lines[0])
    assert code == 3
    assert {each["location"] for each in said["not_checked"] if "emulates" in each["message"]} == {"data"}
    assert [said[key] for key in ("conforming", "not_looked_at", "on_host", "emulated")] == [1, 1, 2, 1]
    hosted = [each["location"] for each in said["not_checked"] if "only determines sizes" in each["message"]]
    assert hosted == ["own", "cut"]


def test_what_is_read_as_data_too_is_on_the_device(check):
    """An INT64 that determines sizes, and is an output or captured by a body."""
    text = """g (int64[2] fed, float[6] x, bool b) => (float[A, B] y, int64[2] out) {
        [one] p = Concat <axis = 0> (fed) y = Reshape (x, p) out = If <
            then_branch = t () => (int64[2] u) { u = Identity (p) },
            else_branch = e () => (int64[2] v) { v = Identity (p) }
        > (b) }"""
    (finding,) = [each for each in describe(parsed(text)) if each.node == "one"]
    assert not finding.on_host


def test_problems_of_one_kind_are_one(check):
    body = " ".join(f"y{k} = Transpose <perm = [1, 0]> (x)" for k in range(5))
    outputs = ", ".join(f"double[3, 2] y{k}" for k in range(5))
    model = parsed(f"g (double[2, 3] x) => ({outputs}) {{ {body} }}")
    code, lines, _ = check(model, "--feature-level", "2_1")
    assert code == 1
    assert lines[0] == "m.onnx: 10 problems in 5 nodes"
    assert lines.count("    and 9 more problems of this kind, in 5 nodes in all; -v lists each") == 1
    assert sum(line.startswith("    rule: ") for line in lines) == 1
    code, more, _ = check(model, "--feature-level", "2_1", "-v")
    assert len(more) > len(lines)
    assert sum(line.startswith("    rule: ") for line in more) == int(lines[0].split()[1])


@pytest.mark.parametrize(
    ("kind", "why"),
    [
        ("int4", "has 4-bit integers in QUANTIZE and DEQUANTIZE alone, which compute, from DML_FEATURE_LEVEL_6_3 on"),
        ("uint4", "has 4-bit integers in QUANTIZE and DEQUANTIZE alone, which compute, from DML_FEATURE_LEVEL_6_3 on"),
        ("bfloat16", "has no tensors of it"),
    ],
)
def test_types_that_movement_on_directml_does_not_have(check, kind, why):
    model = parsed(f"g ({kind}[2, 3] x) => ({kind}[3, 2] y) {{ y = Transpose <perm = [1, 0]> (x) }}", 21)
    model.ir_version = 10
    code, lines, _ = check(model)
    assert code == 1
    assert f"(Transpose): moves {kind.upper()}, and DirectML {why}" in lines[1]


INDEXED = {
    "Gather": "(float[4,5] x) => (float[2,5] y) <int64[2] i = {$}> { [n] y = Gather <axis = 0> (x, i) }",
    "Gather of a Constant": """(float[4,5] x) => (float[2,5] y) {
        i = Constant <value = int64[2] {$}> () [n] y = Gather <axis = 0> (x, i) }""",
    "GatherElements": "(float[4,1] x) => (float[2,1] y) <int64[2,1] i = {$}> { [n] y = GatherElements (x, i) }",
    "GatherND": "(float[4,4] x) => (float y) <int64[1,2] i = {$}> { [n] p = GatherND (x, i) y = Squeeze (p) }",
    "GatherND of batches": """(float[2,4] x) => (float[2] y) <int64[2,1] i = {$}> {
        [n] y = GatherND <batch_dims = 1> (x, i) }""",
    "ScatterElements": """(float[4,1] x, float[2,1] u) => (float[4,1] y) <int64[2,1] i = {$}> {
        [n] y = ScatterElements (x, i, u) }""",
    "ScatterND": "(float[4,4] x, float[1] u) => (float[4,4] y) <int64[1,2] i = {$}> { [n] y = ScatterND (x, i, u) }",
}


@pytest.mark.parametrize("text", INDEXED.values(), ids=[*INDEXED])
@pytest.mark.parametrize(("indices", "wrong"), [("0, 3", None), ("-4, -1", None), ("0, 9", 9), ("-5, 1", -5)])
def test_constant_indices_must_lie_inside(check, text, indices, wrong):
    code, lines, _ = check(parsed(f"g {text.replace('$', indices)}"))
    if wrong is None:
        assert code == 0
    else:
        assert code == 1
        assert 'm.onnx: node "n" (' in lines[1]
        assert f": indices has {wrong}, but the axis has 4 elements: indices must lie inside the axis" in lines[1]


def test_many_constant_indices_are_looked_at(check):
    indices = ", ".join(["1"] * 9999 + ["9"])
    code, lines, _ = check(
        parsed(f"g (float[4] x) => (float[10000] y) <int64[10000] i = {{{indices}}}> {{ y = Gather (x, i) }}")
    )
    assert code == 1
    assert ": indices has 9, but the axis has 4 elements" in lines[1]


@pytest.mark.parametrize("wrong", [None, 9])
def test_constant_indices_in_external_data_are_looked_at(check, tmp_path, wrong):
    model = parsed("g (float[4] x) => (float[3] y) <int64[3] i = {0, 1, 2}> { [n] y = Gather (x, i) }")
    indices = np.array([3, wrong or 0, -1])
    (tensor,) = model.graph.initializer
    tensor.ClearField("int64_data")
    tensor.raw_data = b"elsewhere"
    external_data_helper.set_external_data(tensor, "weights.bin", 8, 24)
    tensor.ClearField("raw_data")
    code, lines, _ = check(model)
    assert code == 3
    assert "1 movement node was not checked" in lines[0]
    code, lines, _ = check(model, "-v")
    assert 'the constant indices "i" were not read' in "\n".join(lines)
    (tmp_path / "weights.bin").write_bytes(bytes(8) + indices.tobytes())
    code, lines, _ = check(model)
    assert code == (0 if wrong is None else 1)
    assert wrong is None or ": indices has 9, but the axis has 4 elements" in lines[1]


LEVELS = ("1_0", "2_0", "2_1", "3_0", "3_1", "4_0", "4_1", "5_0", "5_1", "5_2", "6_0", "6_1", "6_2", "6_3", "6_4")


@pytest.mark.parametrize(
    "body",
    [
        "(float[2, 3] x) => (float[3, 2] y) { y = Transpose (x) }",
        "(float16[2, 3] x) => (float16[3, 2] y) { y = Transpose (x) }",
        "(int8[2, 3] x) => (int8[2] y) <int64 i = {1}> { y = Gather <axis = 1> (x, i) }",
        "(int64[2, 3] x) => (int64[3, 2] y) { y = Transpose (x) }",
        "(double[2, 3] x) => (double[2, 6] y) { y = Concat <axis = 1> (x, x) }",
        "(float[1, 1, 1, 2, 3] x) => (float[1, 1, 1, 2, 6] y) { y = Concat <axis = 4> (x, x) }",
        "(float[2, 3] x) => (float[2, 6] y) { y = Concat <axis = 7> (x, x) }",
    ],
)
def test_the_lowest_level_is_the_first_without_problems(check, body):
    model = parsed(f"g {body}")
    said = [json.loads(check(model, "--feature-level", level, "--json")[1][0]) for level in LEVELS]
    lowest = next((each["feature_level"] for each in said if not each["problems"] and not each["emulated"]), None)
    emulated = next((each["feature_level"] for each in said if not each["problems"]), None)
    for level in ("1_0", "6_4"):
        found = json.loads(check(model, "--feature-level", level, "--json")[1][0])
        assert (found["lowest_level"], found["lowest_emulated"]) == (lowest, emulated)


@pytest.mark.parametrize(
    "body",
    [
        "(bool c, float[2, 3] x) => (float[3, 2] y, float[A, B] z) { y = Transpose (x)"
        " [n] z = If (c) <then_branch = t () => (float[3, 2] a) { a = Transpose (x) },"
        " else_branch = e () => (float[3, 2] b) { b = Transpose (x) }> }",
        "(int64 m, bool c, float[2, 3] x) => (float[3, 2] y, float[A, B] z) { y = Transpose (x)"
        " [n] z = Loop (m, c, x) <body = l (int64 i, bool a, float[2, 3] s) => (bool b, float[2, 3] t)"
        " { b = Identity (a) p = Transpose (s) t = Transpose (p) }> }",
    ],
    ids=["If", "Loop"],
)
def test_movement_in_bodies_is_not_looked_at(check, body):
    code, lines, _ = check(parsed(f"g {body}", 17))
    assert code == 3
    assert lines[0].startswith("m.onnx: 1 movement node was not checked; 1 movement node conforms")
    assert any("bodies are left out: " in line for line in lines)
    report = json.loads(check(parsed(f"g {body}", 17), "--json")[1][0])
    assert report["not_looked_at"] == 1
    (left,) = (each for each in report["not_checked"] if each["location"] == "n")
    assert re.fullmatch(r"its bodies were not checked, which have \d movement nodes?", left["message"])


def test_what_moves_apart_from_the_device_is_said(check):
    model = parsed("""g (float[2, 3] x, float[0, 3] e, bool[2] c)
        => (float[3, 2] y, float[A, B] z, float[C, D] k, float[3, 0] w)
        { y = Transpose (x) [s] q = SequenceConstruct (x, x) [f] z = ConcatFromSequence <axis = 0> (q)
          [c] k = Compress <axis = 0> (x, c) [w] w = Transpose (e) }""")
    code, lines, _ = check(model)
    assert code == 0
    assert "m.onnx: 3 nodes not on the device (SequenceConstruct 1, ConcatFromSequence 1, Compress 1): " in "\n".join(
        lines
    )
    assert "m.onnx: 1 node not on the device (Transpose 1): it moves no element" in lines
    report = json.loads(check(model, "--json")[1][0])
    assert [report["conforming"], report["not_looked_at"]] == [1, 0]
    assert {each["location"] for each in report["not_checked"]} == {"s", "f", "c", "w"}


@pytest.mark.parametrize(
    ("level", "code", "says"),
    [
        ("1_0", 1, "5 problems in 2 nodes"),
        (
            "2_1",
            0,
            "2 nodes move 64-bit integers, which DML_FEATURE_LEVEL_2_1 refuses and ONNX Runtime's DirectML provider ",
        ),
        ("4_1", 0, "2 movement nodes conform to DML_FEATURE_LEVEL_4_1"),
    ],
)
def test_integers_of_64_bits_are_emulated_where_those_of_32_conform(check, level, code, says):
    """Level 1_0 has floats alone, 4_1 has integers of 64 bits, and indices are unsigned before 3_0."""
    text = """g (TYPE[4,6] x) => (TYPE[6,4] y, TYPE[2,6] z) <int64[2] rows = {0, 1}> {
        [turned] y = Transpose <perm = [1, 0]> (x) [taken] z = Gather (x, rows)
    }"""
    for kind in ("int64", "uint64"):
        found, lines, _ = check(parsed(text.replace("TYPE", kind)), "--feature-level", level)
        assert (found, lines[0].startswith(f"m.onnx: {says}")) == (code, True)
        emulated = "; with 64-bit integers emulated, DML_FEATURE_LEVEL_2_1"
        assert level == "4_1" or lines[-1] == LOWEST.format("4_1") + emulated
    floats = check(parsed(text.replace("TYPE", "double")), "--feature-level", "2_1")
    assert floats[0] == 1
    assert "emulate" not in "".join(floats[1])


def test_emulated_nodes_are_listed_and_skipped_in_documents(check):
    model = parsed("g (int64[4,6] x) => (int64[6,4] y) { [turned] y = Transpose <perm = [1, 0]> (x) }")
    assert (
        "m.onnx: turned: emulated: DML_FEATURE_LEVEL_2_1 refuses" in check(model, "--feature-level", "2_1", "-v")[1][-1]
    )
    document = "".join(check(model, "--feature-level", "2_1", "--junit")[1])
    assert 'failures="0"' in document
    assert document.count("<skipped") == 1


@pytest.mark.parametrize(
    "node, why",
    [
        ("y = Col2Im (x, sizes, sizes)", "adds elements where blocks overlap"),
        ("y = MaxUnpool <kernel_shape = [2, 2]> (x, sizes)", "output_shape"),
    ],
)
def test_what_adds_or_is_open_is_refused_with_a_reason(node, why):
    model = parsed(f"agraph (float[1, 4, 1] x, int64[2] sizes) => (float y) {{ {node} }}", 18)
    with pytest.raises(ModelError, match=why):
        backend.prepare(model)
