"""Explanations of every kind of thing: words, pictures, pages; and names that would be markup."""

import itertools
import json
import re
import xml.etree.ElementTree as ElementTree
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
from random_descs import OPERATORS, random_desc
from random_family import FAMILY

import anydml as dml
from anydml import dxdispatch, stores
from anydml.explain import box_drawing
from anydml.explain.journeys import follow
from anydml.explain.page import MAX_ROWS
from anydml.explain.stripes import MAX_STRIPES
from anydml.explain.subjects import MAX_SECTIONS
from anydml.explain.svg import COLOURS

EXAMPLES = sorted((Path(__file__).parents[2] / "examples").glob("*.json"))
SPLIT = next(path for path in EXAMPLES if path.stem == "split")
# It counts by a table that is longer than a picture shows element by element.
SMALL = [path for path in EXAMPLES if path.stem != "nonzero_coordinates"]
SVG = "{http://www.w3.org/2000/svg}"
HOSTILE = "\"'><script>alert(1)</script><img src=x onerror=alert(1)>&lt;\x00\x1b[31m\u202e]]>--><!--"
T = dml.TensorDesc
VOID = {"meta", "!doctype"}


class Page(HTMLParser):
    """The elements of a page, each closed in its turn."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.attributes, self.text, self._open = [], [], [], []
        self.feed(text)
        assert self._open == []

    def handle_starttag(self, tag, attributes):
        self.tags.append(tag)
        self.attributes += attributes
        if tag not in VOID:
            self._open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.tags.append(tag)
        self.attributes += attributes

    def handle_endtag(self, tag):
        assert self._open.pop() == tag

    def handle_data(self, data):
        self.text.append(data)


def cells(picture):
    return [rect for rect in picture.iter(f"{SVG}rect") if rect.get("data-c")]


def check_page(explanation):
    page = Page(explanation.html())
    assert page.tags.count("script") == 1
    assert page.tags.count("h1") == 1
    for name, value in page.attributes:
        assert not name.startswith("on"), name
        assert name not in ("src", "href"), value
    return page


@pytest.mark.parametrize("path", SMALL, ids=lambda path: path.stem)
def test_every_element_of_the_examples_is_a_box(path):
    explanation = dml.explain(dxdispatch.load(path))
    check_page(explanation)
    for number, section in enumerate(explanation.sections):
        picture = ElementTree.fromstring(explanation.svg(number))
        boxes_ = cells(picture)
        assert len(boxes_) == sum(tensor.count for tensor in section.tensors)
        lines = [line for line in picture.iter(f"{SVG}path") if line.get("class").startswith("line")]
        # Fills come from nowhere, and what is skipped goes nowhere.
        assert len(lines) == sum(bool(run.source and run.destination) for run in follow(section).runs)
        assert all(line.find(f"{SVG}title").text for line in lines)
        written = {f"{k}-{cell}" for run in follow(section).runs for k, cell in run.destination}
        for box in boxes_:
            assert (" = " in box.find(f"{SVG}title").text) == (box.get("data-c") in written)


@pytest.mark.parametrize("path", SMALL, ids=lambda path: path.stem)
def test_the_numbers_are_those_of_a_run(path):
    model = dxdispatch.load(path)
    contents = dxdispatch.run(model, device="reference", log=lambda line: None)
    (section,) = dml.explain(model).sections
    (command,) = [command for command in model.commands if hasattr(command, "dispatchable")]
    labels = follow(section).labels
    outputs = [binding for field in command.dispatchable.desc.OUTPUTS for binding in command.bindings.get(
        "".join(word.title() for word in field.split("_")), ())]  # fmt: skip
    numbers = [k for k, tensor in enumerate(section.tensors) if tensor.role == "output"]
    for k, binding in zip(numbers, outputs, strict=True):
        values = contents[binding.resource.name][: section.tensors[k].count]
        assert [float(labels[k, cell]) for cell in range(len(values))] == [float(value) for value in values]


@pytest.mark.parametrize("name", [*OPERATORS, *FAMILY])
def test_every_operator_is_drawn_both_ways(name):
    for seed in range(3):
        rng = np.random.default_rng(seed)
        desc = FAMILY[name](rng) if name in FAMILY else random_desc(rng, name)
        if list(desc.problems()):
            continue
        explanation = dml.explain(desc, device="")
        check_page(explanation)
        ElementTree.fromstring(explanation.svg())
        (section,) = explanation.sections
        picture = ElementTree.fromstring(box_drawing.picture(section))
        width, height = float(picture.get("width")), float(picture.get("height"))
        for rect in picture.iter(f"{SVG}rect"):
            if rect.get("class") == "paper":
                continue
            left, top = float(rect.get("x", 0)), float(rect.get("y", 0))
            assert 0 <= left <= left + float(rect.get("width")) <= width
            assert 0 <= top <= top + float(rect.get("height")) <= height
        assert str(explanation).startswith(repr(desc))


def test_what_is_large_is_drawn_to_scale():
    whole, parts = T("FLOAT32", [4, 3, 224, 200]), [T("FLOAT32", [4, 3, n, 200]) for n in (56, 168)]
    explanation = dml.explain(dml.SplitOperatorDesc(whole, parts, 2))
    check_page(explanation)
    (section,) = explanation.sections
    moves = section.moves
    assert [box_drawing.touched_range(section, move.source, move) for move in moves] == [
        [(0, 3), (0, 2), (0, 55), (0, 199)],
        [(0, 3), (0, 2), (56, 223), (0, 199)],
    ]
    picture = ElementTree.fromstring(explanation.svg())
    boxes_ = [rect for rect in picture.iter(f"{SVG}rect") if "fill-opacity" in rect.keys()]  # noqa: SIM118
    heights = [int(rect.get("height")) for rect in boxes_]
    assert heights[0] * 3 == pytest.approx(heights[1], abs=3)
    assert heights[:2] == pytest.approx(heights[2:], abs=1)
    gather = dml.GatherOperatorDesc(T("FLOAT32", [900, 64]), T("INT64", [1, 300]), T("FLOAT32", [300, 64]), 0, 1)
    picture = ElementTree.fromstring(dml.explain(gather, device="").svg())
    whole, taken = ([int(rect.get("height")) for rect in picture.iter(f"{SVG}rect") if rect.get("class") == kind]
                    for kind in ("cell", "cell f0"))  # fmt: skip
    assert whole[0] == pytest.approx(3 * whole[2], abs=3)
    assert taken == pytest.approx(whole, abs=1)
    lines = [line for line in picture.iter(f"{SVG}path") if line.get("class") == "line l0"]
    assert len(lines) == 2, "from the rows, and from the indices that pick them"
    assert "2,150,400" in explanation.html()
    assert "  rows: 2 moves in " in str(explanation)


@pytest.mark.parametrize("seed", range(60))
def test_boxes_hold_every_element_that_a_move_touches(seed):
    """Windows of tensors of any rank and step, forwards and backwards."""
    rng = np.random.default_rng(seed)
    sizes = [int(n) for n in rng.integers(1, 6, int(rng.integers(1, 5)))]
    counts = [int(rng.integers(1, n + 1)) for n in sizes]
    steps = [int(rng.integers(1, 1 + max(1, (n - 1) // max(c - 1, 1)))) for n, c in zip(sizes, counts, strict=True)]
    steps = [step if (c - 1) * step < n else 1 for n, c, step in zip(sizes, counts, steps, strict=True)]
    offsets = [int(rng.integers(0, n - (c - 1) * step)) for n, c, step in zip(sizes, counts, steps, strict=True)]
    desc = dml.SliceOperatorDesc(T("INT16", sizes), T("INT16", counts), offsets, counts, steps)
    (section,) = dml.explain(desc, device="").sections
    for number, move in enumerate(section.moves):
        for k, end in ((0, move.source), (1, move.destination)):
            ranges = box_drawing.touched_range(section, end, move)
            for run in follow(section).runs:
                if run.move == number:
                    for _, cell in run.source if k == 0 else run.destination:
                        at = np.unravel_index(cell, section.tensors[k].sizes)
                        assert all(low <= c <= high for c, (low, high) in zip(at, ranges, strict=True))


def test_bound_operators_show_what_is_bound():
    desc = dml.GatherOperatorDesc(T("FLOAT32", [3, 2]), T("INT64", [1, 2]), T("FLOAT32", [2, 2]), 0, 1)
    x, index = np.arange(10, 16, dtype=np.float32).reshape(2, 3).T, np.array([[2, -3]])
    bound = dml.Device("cpu").compile_operator(desc).bind([x, index], [np.empty((2, 2), np.float32)])
    (section,) = dml.explain(bound).sections
    assert section.tensors[0].strides == x.strides
    labels = follow(section).labels
    assert [labels[2, k] for k in range(4)] == ["12", "15", "10", "13"]
    assert section.compiled == str(bound)
    assert "<svg" in bound._repr_html_()
    operator = dml.Device("reference").compile_operator(desc)
    assert dml.explain(operator, x, index).sections[0].compiled == str(operator)
    assert "<svg" in operator._repr_html_()


def test_notebooks_show_pictures():
    desc = dml.SplitOperatorDesc(T("FLOAT32", [4]), [T("FLOAT32", [2])] * 2, 0)
    for thing in (desc, desc.program(), dml.explain(desc)):
        html = thing._repr_html_()
        assert Page(html).tags.count("svg") == 1
        assert "<script" not in html
    assert dml.explain(desc)._repr_svg_() == dml.explain(desc).svg()
    assert dml.SplitOperatorDesc(T("FLOAT32", [4]), [T("FLOAT32", [2])], 0)._repr_html_() is None
    assert repr(desc.program()) == "Program(DML_SPLIT: 3 operands, 2 moves)"
    assert repr(dml.explain(desc)) == f"Explanation({desc!r})"


def test_notebooks_draw_functions_plans_and_models(tmp_path):
    turned = dml.fuse(lambda x: x[::-1].T)
    assert turned._repr_html_() is None
    turned(np.arange(6).reshape(2, 3))
    first = turned._repr_html_()
    assert Page(first).tags.count("svg") == 1
    assert first == turned.lower(np.arange(6).reshape(2, 3))._repr_html_()
    turned(np.arange(4, dtype=np.int8).reshape(2, 2, 1))
    assert turned._repr_html_() != first
    np.save(tmp_path / "x.npy", np.arange(6).reshape(2, 3))
    plan = stores.rechunk(tmp_path / "x.npy", tmp_path / "y.npy", permute=[1, 0])
    assert plan._repr_html_() == dml.explain(plan)._repr_html_()
    assert "svg" in Page(plan._repr_html_()).tags
    model = dxdispatch.load(SPLIT)
    assert "svg" in Page(model._repr_html_()).tags
    text = (SPLIT).read_text().replace('"Axis": 2', '"Axis": 4')
    (tmp_path / "broken.json").write_text(text)
    assert dxdispatch.load(tmp_path / "broken.json")._repr_html_() is None


def test_whatever_makes_a_program_is_explained():
    class Chain:
        def program(self):
            return dml.TileOperatorDesc(T("INT8", [2]), T("INT8", [6]), [3]).program()

    explanation = dml.explain(Chain(), np.array([4, 5], np.int8))
    labels = follow(explanation.sections[0]).labels
    assert [labels[1, k] for k in range(6)] == ["4", "5"] * 3


def hostile_model(tmp_path):
    model = {
        "resources": {
            HOSTILE: {"initialValuesDataType": "FLOAT32", "initialValues": [1, 2, 3, 4]},
            "out": {"initialValuesDataType": "FLOAT32", "initialValues": [0, 0, 0, 0]},
        },
        "dispatchables": {
            HOSTILE: {
                "type": "DML_OPERATOR_ELEMENT_WISE_IDENTITY",
                "desc": {key: {"DataType": "FLOAT32", "Sizes": [4]} for key in ("InputTensor", "OutputTensor")},
            }
        },
        "commands": [
            {"type": "dispatch", "dispatchable": HOSTILE, "bindings": {"InputTensor": HOSTILE, "OutputTensor": "out"}}
        ],
    }
    path = tmp_path / "model.json"
    path.write_text(json.dumps(model))
    return path


def test_functions_are_explained_as_they_would_be_fused():
    x = np.zeros((30, 40), np.float32)
    for function, arguments in (
        (dml.flip, (x, 1)),
        (np.rot90, (x,)),
        (dml.split, (x, [10, 20])),
        (lambda x: x.T, (x,)),
    ):
        assert str(dml.explain(function, *arguments)) == str(dml.explain(dml.fuse(function), *arguments))
    with pytest.raises(dml.FuseError, match="sort"):
        dml.explain(np.sort, x)


def test_names_of_files_are_text(tmp_path):
    explanation = dml.explain(dxdispatch.load(hostile_model(tmp_path)))
    page = check_page(explanation)
    assert "alert(1)" in "".join(page.text)
    assert "img" not in page.tags
    for text in (explanation.html(), explanation.svg(), str(explanation)):
        assert not re.search("[\x00-\x09\x0b-\x1f\u202e]", text)
    ElementTree.fromstring(explanation.svg())


def test_values_of_arrays_are_text():
    x = np.array(["<b>&\"'\x1b[", "\u202e"])
    explanation = dml.explain(dml.fuse(lambda x: x[::-1]), x)
    assert "b" not in check_page(explanation).tags
    ElementTree.fromstring(explanation.svg())


def test_long_programs_are_cut_and_say_so():
    count = 2 * MAX_ROWS
    desc = dml.SplitOperatorDesc(T("UINT8", [4, count]), [T("UINT8", [4, 1])] * count, 1)
    explanation = dml.explain(desc, device="")
    page = "".join(check_page(explanation).text)
    assert f"and {count - MAX_ROWS} more" in page
    assert f"and {count + 1 - box_drawing.MAX_TENSORS} more tensors" in page
    assert f"and {count - box_drawing.MAX_MOVES} more moves" in page
    assert len(explanation.html()) < 1 << 20


def test_scratch_says_why():
    @dml.fuse
    def scattered(x, i):
        return np.take(np.concatenate([x, x[:, ::-1]]), np.take(i, i), axis=0)

    explanation = dml.explain(scattered, np.arange(6).reshape(2, 3), np.array([1, 0, 1]))
    roles = [tensor.role for tensor in explanation.sections[0].tensors]
    check_page(explanation)
    if "scratch" in roles:
        assert "because" in str(explanation)


def test_onnx_models_are_what_they_amount_to():
    parser = pytest.importorskip("onnx.parser")
    model = parser.parse_model("""
<ir_version: 8, opset_import: ["": 18]>
g (float[6] x, string[6] s) => (float[2] a, float[4] b, string[3] c, string[3] d) {
    sizes = Constant <value_ints = [2, 4]> ()
    [cut] a, b = Split (x, sizes)
    [text] c, d = Split <num_outputs = 2> (s)
}""")
    explanation = dml.explain(model)
    assert [section.title for section in explanation.sections] == [
        "cut: SplitOperatorDesc(FLOAT32 [1, 1, 1, 6] → 2 × FLOAT32, axis 3)"
    ]
    assert "STRING" in explanation.notes[0]
    assert str(explanation).startswith("cut: ")
    check_page(explanation)


def test_a_page_of_a_model_begins_with_what_costs_most():
    parser = pytest.importorskip("onnx.parser")
    model = parser.parse_model("""<ir_version: 8, opset_import: ["": 18]>
    g (float[4,6] x) => (float[6,4] y, float[4,12] z, float[2,6] w) <int64[2] rows = {0, 1}> {
        [small] w = Gather (x, rows) [middle] y = Transpose (x) [large] z = Concat <axis = 1> (x, x)
    }""")
    page = dml.explain(model).html()
    table = page[page.index("What costs most of 336 B written") : page.index("<section")]
    rows = re.findall(r'<a href="#section-(\d)">(\w+).*?</a></td><td class="n">(\d+)</td><td>(\d+)%</td>', table)
    assert rows == [("2", "large", "192", "57"), ("1", "middle", "96", "29"), ("0", "small", "48", "14")]
    assert [page.count(f'id="section-{k}"') for k in range(4)] == [1, 1, 1, 0]
    several = "".join(f"[n{k}] y{k} = Transpose (x) " for k in range(25))
    outputs = ", ".join(f"float[6,4] y{k}" for k in range(25))
    many = f'<ir_version: 8, opset_import: ["": 18]> g (float[4,6] x) => ({outputs}) {{ {several} }}'
    assert "<p>and 5 more, which write 480 B</p>" in dml.explain(parser.parse_model(many)).html()
    one = dml.explain(dml.fuse(lambda x: x[::-1]), np.arange(3)).html()
    assert "What costs most" not in one


def test_the_nodes_of_a_large_model_that_write_most_are_explained():
    """Small ones stand first in the graph, and what is not explained is counted."""
    small = " ".join(f"[small{k}] s{k} = Transpose (x)" for k in range(MAX_SECTIONS))
    graph = "g (float[2,3] x, float[20,30] z) => (float[30,20] y, float[30,20] w)"
    model = pytest.importorskip("onnx.parser").parse_model(
        f"""<ir_version: 8, opset_import: ["": 18]> {graph} {{
            {small} [large] y = Transpose (z) [other] w = Transpose (z) r = Relu (z) }}"""
    )
    explanation = dml.explain(model)
    names = [section.title.partition(":")[0] for section in explanation.sections]
    assert names == [*(f"small{k}" for k in range(MAX_SECTIONS - 2)), "large", "other"]
    assert explanation.notes[0] == f"The {MAX_SECTIONS} operators that write most are explained; 2 more write 48 B."
    assert explanation.notes[-1] == "1 node computes and is out of scope: Relu 1"


def test_what_an_onnx_model_computes_is_counted_after_what_moves():
    parser = pytest.importorskip("onnx.parser")
    model = parser.parse_model("""
<ir_version: 8, opset_import: ["": 18]>
g (float[N, 3] x) => (float[A, B] y, float[3, N] z) { e = Exp (x) f = Exp (e) z = Transpose (f) y = Tanh (z) }""")
    left_out = "3 nodes compute and are out of scope: Exp 2, Tanh 1"
    named = "1 node is left out, because sizes are unknown (Transpose 1): give --size N=4"
    assert str(dml.explain(model)) == f"{named}\n\n{left_out}"
    explanation = dml.explain(model, N=4)
    assert str(explanation).startswith("Transpose_2: ElementWiseIdentityOperatorDesc(FLOAT32 [1, 1, 3, 4]")
    assert str(explanation).endswith(f"\n\n{left_out}")
    page = explanation.html()
    assert page.index("<svg") < page.index(left_out)
    with pytest.raises(dml.ModelError, match='no size of an input is named "M": the names are "N"'):
        dml.explain(model, M=4)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: dml.explain(3), "not int"),
        (lambda: dml.explain(T("INT8", [1])), "not TensorDesc"),
        (lambda: dml.explain(dml.fuse(lambda x: x + 1), np.ones(2)), "computes|moves"),
        (lambda: dml.explain(dml.SplitOperatorDesc(T("INT8", [4]), [T("INT8", [2])], 0)), "add up to 2"),
        (
            lambda: dml.explain(dml.TileOperatorDesc(T("INT8", [1]), T("INT8", [2]), [2]), [1], [2]),
            "1 input, but got 2",
        ),
        (lambda: dml.explain(dml.TileOperatorDesc(T("INT8", [1]), T("INT8", [2]), [2]), [1, 2]), r"array is \[2\]"),
        (lambda: dml.explain(dml.TileOperatorDesc(T("INT8", [1]), T("INT8", [2]), [2]), x=1), "keywords"),
        (lambda: dml.explain(dml.TileOperatorDesc(T("INT8", [1]), T("INT8", [2]), [2])).save("x.png"), "'.png'"),
    ],
)
def test_errors(call, message):
    with pytest.raises((TypeError, ValueError), match=message):
        call()


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ([0.5], "lacks some values"),
        ([300], "lacks some values"),
        ([np.nan], "lacks some values"),
        ([1j], "lacks some values"),
        (np.ma.array([1], mask=True), "masked array"),
        (["a"], "but the array holds|lacks some values"),
    ],
    ids=repr,
)
def test_values_that_a_tensor_cannot_hold_are_refused(value, message):
    desc = dml.TileOperatorDesc(T("INT8", [1]), T("INT8", [2]), [2])
    assert "1" in str(dml.explain(desc, [1.0]))
    with pytest.raises(ValueError, match=message):
        dml.explain(desc, value)


def test_saved_files_are_what_is_shown(tmp_path):
    explanation = dml.explain(dml.TileOperatorDesc(T("INT8", [1]), T("INT8", [2]), [2]))
    for name, text in (("a.html", explanation.html()), ("b.SVG", explanation.svg())):
        explanation.save(tmp_path / name)
        assert (tmp_path / name).read_text(encoding="utf-8") == text


def parts(section):
    """The boxes that moves touch, by the column of the picture that they are in: colour, left, top, width, height."""
    picture = ElementTree.fromstring(box_drawing.picture(section))
    for column in picture.iter(f"{SVG}g"):
        drawn = [rect for rect in column.iter(f"{SVG}rect") if rect.get("fill-opacity")]
        yield [(rect.get("class"), *(int(rect.get(key)) for key in ("x", "y", "width", "height"))) for rect in drawn]


@pytest.mark.parametrize("seed", range(20))
def test_what_several_moves_read_is_painted_over_by_none(seed):
    """Interleaved and overlapping windows of one source: each move's colour is seen, in a place of its own."""
    rng = np.random.default_rng(seed)
    count, size = int(rng.integers(2, 6)), int(rng.integers(20, 300))
    windows = [
        slice(int(rng.integers(0, size // 2)), int(rng.integers(size // 2 + 1, size)), int(rng.integers(1, 5)))
        for _ in range(count)
    ]
    (section,) = dml.explain(dml.fuse(lambda x: [x[each] for each in windows]), np.zeros((size, 40))).sections
    source, *_ = parts(section)
    assert len({colour for colour, *_ in source}) == len(section.moves) == count
    for (_, x, y, width, height), (_, left, top, wide, high) in itertools.combinations(source, 2):
        assert x + width <= left or left + wide <= x or y + height <= top or top + high <= y


@pytest.mark.parametrize("width", [3, 40, 333])
def test_interleaved_sources_take_turns_and_joined_ones_do_not(width):
    arrays = [np.zeros((100, width)), np.zeros((100, width))]
    stacked = dml.fuse(lambda x, y: np.stack([x, y], -1).reshape(100, -1))
    joined = dml.fuse(lambda x, y: np.concatenate([x, y], 1))
    drawn = [[*parts(dml.explain(function, *arrays).sections[0])][1] for function in (stacked, joined)]
    assert [len(stripes) for stripes in drawn] == [2 * MAX_STRIPES, 2]
    for stripes in drawn:
        ends = sorted((x, x + width, colour) for colour, x, _, width, _ in stripes)
        assert all(one[1] == other[0] and one[2] != other[2] for one, other in itertools.pairwise(ends))
        assert ends[-1][1] - ends[0][0] == box_drawing.WIDTH


@pytest.mark.parametrize("count", [20, 40, 333])
def test_interleaved_rows_take_turns_downwards(count):
    interleaved = dml.fuse(lambda x, y: np.stack([x, y], 1).reshape(-1, 50))
    (section,) = dml.explain(interleaved, np.zeros((count, 50)), np.zeros((count, 50))).sections
    stripes = list(parts(section))[1]
    assert len(stripes) == 2 * MAX_STRIPES
    assert {(x, width) for _, x, _, width, _ in stripes} == {(stripes[0][1], stripes[0][3])}
    ends = sorted((y, y + height, colour) for colour, _, y, _, height in stripes)
    assert all(one[1] == other[0] and one[2] != other[2] for one, other in itertools.pairwise(ends))


def test_windows_of_a_rolled_image_are_drawn_beside_each_other():
    """Boxes of several axes drawn downwards have gaps, which other moves fill."""
    windows = dml.fuse(lambda x: np.roll(x, (-4, -4), (0, 1)).reshape(7, 8, 7, 8, 9).transpose(0, 2, 1, 3, 4))
    (section,) = dml.explain(windows, np.zeros((56, 56, 9))).sections
    for drawn in parts(section):
        first_row = min((y for _, _, y, _, _ in drawn), default=0)
        for (_, x, y, width, height), (_, left, top, wide, high) in itertools.combinations(drawn, 2):
            # The last rows are thinner than what can be seen.
            if max(y, top) < first_row + 140:
                assert x + width <= left or left + wide <= x or y + height <= top or top + high <= y


def test_what_is_written_whole_lies_below_what_is_written_later():
    updates = T("INT64", [7, 100]), T("FLOAT32", [7, 100])
    desc = dml.ScatterOperatorDesc(T("FLOAT32", [100, 100]), *updates, T("FLOAT32", [100, 100]), 0)
    (section,) = dml.explain(desc, device="").sections
    *_, written, _ = parts(section)
    assert [place[1:] for place in written] == [written[0][1:]] * 2
    assert written[0][3] == box_drawing.WIDTH


def test_what_several_moves_read_has_all_their_colours():
    explanation = dml.explain(dml.fuse(lambda x: np.concatenate([x, x[::-1]])), np.arange(4))
    picture = ElementTree.fromstring(explanation.svg())
    assert [each.get("class") for each in cells(picture)] == ["cell f0"] * 8 + ["cell f1"] * 4
    stripes = [rect for rect in picture.iter(f"{SVG}rect") if rect.get("class").startswith("stripe")]
    assert [each.get("class") for each in stripes] == ["stripe f1"] * 4
    assert {each.get("y") for each in stripes} == {str(int(each.get("y")) + 1) for each in cells(picture)[:4]}


@pytest.mark.parametrize("count", [1, 12, 13, 16])
def test_where_lines_are_many_they_wait_for_a_pointer(count):
    picture = ElementTree.fromstring(dml.explain(dml.fuse(lambda x: x[::-1]), np.arange(count)).svg())
    assert ("quiet" in picture.get("class")) == (count > 12)
    groups = [group for group in picture.iter(f"{SVG}g") if group.get("class") == "run"]
    # An element and its line are in one group, so that a pointer on the one shows the other without a script.
    for group in groups:
        (cell,), (line,) = cells(group), [path for path in group if path.get("class").startswith("line")]
        assert line.get("data-t") == cell.get("data-c")
    assert len(groups) == count


def test_lines_of_more_than_thirty_elements_wait_for_a_pointer():
    for count in (15, 16):
        picture = dml.explain(dml.fuse(lambda x: x[:]), np.arange(count)).svg()
        assert picture.count('class="line') == 1
        assert ("quiet" in ElementTree.fromstring(picture).get("class")) == (2 * count > 30)


def test_many_moves_of_one_source_are_coloured_by_where_they_begin():
    """Mirrored padding is read from what has been written: rows have the colour of the input's row."""
    x = np.arange(16).reshape(4, 4)
    explanation = dml.explain(dml.fuse(lambda x: np.pad(x, 2, mode="reflect")), x)
    assert len(explanation.sections[0].moves) > COLOURS
    picture = ElementTree.fromstring(explanation.svg())
    colours = [each.get("class").split(" f")[1] for each in cells(picture)]
    rows = np.array([int(colour) for colour in colours[16:]]).reshape(8, 8)
    np.testing.assert_array_equal(rows, np.repeat(np.pad(np.arange(4), 2, mode="reflect"), 8).reshape(8, 8))


def test_a_page_explains_how_moves_are_written():
    """Once, and what indices do only where there are some."""
    tile = dml.explain(dml.TileOperatorDesc(T("INT8", [1]), T("INT8", [2]), [2]))
    gather = dml.explain(dml.fuse(dml.gather), np.arange(3), np.arange(2))
    for explanation, has_indices in ((tile, False), (gather, True)):
        text = "".join(check_page(explanation).text)
        assert text.count("How to read a move: ") == 1
        assert ("An index outside its axis" in text) == has_indices
