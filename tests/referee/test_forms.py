"""Cases of WebNN and DirectML: what is written is read again, anydml agrees, and what is wrong is told."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import numpy as np
import pytest
from random_descs import OPERATORS as CUT
from random_descs import expected_outputs

from anydml.cli import main
from anydml.errors import ModelError
from anydml.feature_level import FeatureLevel
from anydml.operators import REGISTRY
from anydml.referee import causes_of, find_cases, judge, write_cases
from anydml.referee.cases import are_equal
from anydml.referee.coverage import Coverage
from anydml.referee.directml.cases import directml_cases, tensor_view, write_directml
from anydml.referee.directml.features import reachable_features as directml_reachable
from anydml.referee.directml.page_sentences import QUESTIONS, SENTENCES
from anydml.referee.documents import lines_of, page
from anydml.referee.nodes import evaluate
from anydml.referee.operators import OPERATORS
from anydml.referee.shrinking import shrink_all
from anydml.referee.webnn.calls_to_nodes import call_in
from anydml.referee.webnn.cases import as_wpt_test as case_test
from anydml.referee.webnn.cases import by_operator, webnn_cases, write_webnn
from anydml.referee.webnn.features import reachable_features as webnn_reachable
from anydml.referee.webnn.operators import WEBNN
from anydml.referee.webnn.steps import RULES


def windows(a, given, options):
    return zip(given["starts"], given["sizes"], options.get("strides") or [1] * a.ndim, strict=True)


def padded(a, given, mode="constant", value=0):
    if not a.ndim:
        return a
    ends = np.array([given["beginningPadding"], given["endingPadding"]]).T
    options = {"constant_values": value} if mode == "constant" else {}
    return np.pad(a, ends, {"reflection": "reflect"}.get(mode, mode), **options)


NUMPY = {
    "concat": lambda a, g, o: [np.concatenate(g["inputs"], g["axis"])],
    "expand": lambda a, g, o: [np.broadcast_to(a, g["newShape"])],
    "gather": lambda a, g, o: [np.take(a, g["indices"].astype(np.int64), o.get("axis", 0))],
    "gatherElements": lambda a, g, o: [np.take_along_axis(a, g["indices"].astype(np.int64), o.get("axis", 0))],
    "gatherND": lambda a, g, o: [a[tuple(np.moveaxis(g["indices"].astype(np.int64), -1, 0))]],
    "identity": lambda a, g, o: [a],
    "reshape": lambda a, g, o: [a.reshape(g["newShape"])],
    "reverse": lambda a, g, o: [np.flip(a, o.get("axes"))],
    "tile": lambda a, g, o: [np.tile(a, g["repetitions"])],
    "transpose": lambda a, g, o: [a.transpose(o.get("permutation"))],
    "triangular": lambda a, g, o: [(np.triu if o.get("upper", True) else np.tril)(a, o.get("diagonal", 0))],
    "where": lambda a, g, o: [np.where(g["condition"] != 0, g["trueValue"], g["falseValue"])],
    "slice": lambda a, g, o: [a[tuple(np.s_[s : s + n : k] for s, n, k in windows(a, g, o))]],
    "pad": lambda a, g, o: [padded(a, g, **o)],
}
"""What NumPy says of WebNN's operators, by their first input, all arguments, and options."""


PATCHED = """
import sys
from pathlib import Path
if any("anydml.referee.worker" in word for word in sys.orig_argv):
    import numpy as np
    from anydml.referee import engines

    webnn, dxdispatch = engines.Anydml.run_webnn, engines.Anydml.run_dxdispatch
    engines.Anydml.run_webnn = lambda *given: [
        np.flip(each).reshape(each.shape) if each.size > 1 else each for each in webnn(*given)
    ]
    engines.Anydml.run_dxdispatch = lambda *given: rolled(dxdispatch(*given))

    def rolled(ran):
        return ran._replace(arrays=[np.roll(each, 1) for each in ran.arrays])
"""
"""What makes anydml wrong in a worker, which starts with it as `sitecustomize`."""


def write_all_webnn(cases, folder):
    write_cases(by_operator(cases), folder, write_webnn, "webnn")


def write_all_directml(cases, folder):
    write_cases(cases, folder, write_directml, "dxdispatch")


FORMS = {
    "webnn": (webnn_reachable, webnn_cases, write_all_webnn),
    "dxdispatch": (directml_reachable, directml_cases, write_all_directml),
}


@pytest.fixture(scope="module")
def webnn(tmp_path_factory):
    folder = tmp_path_factory.mktemp("webnn") / "all"
    write_all_webnn(webnn_cases(count=len(WEBNN) * 12, seed=2), folder)
    return folder


@pytest.fixture(scope="module")
def directml(tmp_path_factory):
    folder = tmp_path_factory.mktemp("directml") / "all"
    write_all_directml(directml_cases(count=len(SENTENCES) * 2, seed=2), folder)
    return folder


def test_anydml_agrees_with_webnn(webnn):
    judged = judge(webnn, "anydml", jobs=1)
    assert judged.counts["agrees"] == len(WEBNN) * 12, judged.verdicts


def test_anydml_agrees_with_directml(directml):
    judged = judge(directml, "anydml", jobs=1)
    assert judged.counts["agrees"] == len(SENTENCES) * 2, judged.verdicts


def test_numpy_agrees_with_webnn(webnn):
    count = 0
    for stored in find_cases(webnn):
        if stored.operator not in NUMPY:
            continue
        graph = json.loads(stored.folder.read_text())["tests"][stored.number]["graph"]
        arrays = {
            name: np.array(each["data"], each["descriptor"]["dataType"]).reshape(each["descriptor"]["shape"])
            for name, each in graph["inputs"].items()
        }
        given = {key: value for each in graph["operators"][0]["arguments"] for key, value in each.items()}
        given = {key: arrays.get(value, value) if isinstance(value, str) else value for key, value in given.items()}
        if "inputs" in given:
            given["inputs"] = [arrays[name] for name in given["inputs"]]
        found = NUMPY[stored.operator](given.get("input"), given, given.get("options", {}))
        for one, other in zip(found, stored.outputs(), strict=True):
            np.testing.assert_array_equal(one, other, stored.name, strict=True)
        count += 1
    assert count == len(NUMPY) * 12


def test_numpy_agrees_with_directml():
    names = [name for name in CUT if name in SENTENCES]
    for case in directml_cases(names, 60, seed=5):
        inputs = [tensor_view(flat, tensor) for flat, (_, tensor) in zip(case.inputs, case.desc.inputs, strict=True)]
        for one, other in zip(expected_outputs(case.desc, inputs), case.outputs, strict=True):
            np.testing.assert_array_equal(one, other, case.name)


def test_levels_allow_their_descs():
    levels = set()
    for case in directml_cases(count=132, seed=7):
        assert not list(case.desc.problems(case.level)), case
        levels.add(case.level)
    assert len(levels) > 8


def test_cases_have_what_their_documents_leave_open(directml):
    about = json.loads((next(directml.glob("GATHER_0*")) / "case.json").read_text("utf-8"))
    assert "GATHER: an index outside the axis" in [each["question"] for each in about["left_out"]]
    assert {name for each in QUESTIONS for name in each["operators"]} <= SENTENCES.keys()


@pytest.mark.parametrize("form", FORMS)
def test_every_feature_can_be_reached(form):
    reachable, draw, _ = FORMS[form]
    names = ("slice", "gatherND") if form == "webnn" else ("slice", "diagonal_matrix1")
    seen = Coverage(reachable)
    assert len(list(seen.counting(draw(names, 450, seed=1)))) == 450
    assert seen.missing() == []
    few = Coverage(reachable)
    list(few.counting(draw(names[:1], 1, seed=1)))
    assert len(few.missing()) > 5


@pytest.mark.parametrize("form", FORMS)
def test_invalid_cases_break_one_rule(form, tmp_path):
    _, draw, write = FORMS[form]
    write(draw(count=80, seed=1, is_valid=False), tmp_path / "cases")
    found = find_cases(tmp_path / "cases")
    assert {each.is_valid for each in found} == {False}
    assert all(each.about["sentence"] and each.about["broken"] for each in found)
    # Each rule is broken by some, and anydml, which is right about the valid ones, refuses all.
    assert len({(each.operator, each.about["broken"]) for each in found}) > 30
    assert judge(tmp_path / "cases", "anydml", jobs=1).counts["agrees"] == 80
    accepting = tmp_path / "engine.py"
    accepting.write_text(WRONG)
    judged = judge(found[0].folder, f"command:{sys.executable} {accepting}", jobs=1)
    assert {each.verdict for each in judged.verdicts} == {"accepts"}


def test_invalid_descs_are_refused_at_the_latest_level():
    for case in directml_cases(count=66, seed=3, is_valid=False):
        (problem,) = case.desc.problems(FeatureLevel.LATEST)
        assert (problem.field, problem.rule) == (case.broken, case.sentence)


def test_calls_are_read_again():
    for case in webnn_cases(count=len(WEBNN) * 20, seed=4):
        call = call_in(case_test(case))
        formula = OPERATORS[call.node.operator].formula
        assert all(map(are_equal, evaluate(call.node, formula), case.outputs)), case
        assert all(rule.holds(call) for rule in RULES[case.operator]), case


@pytest.mark.parametrize("form", FORMS)
def test_differences_shrink(form, tmp_path, monkeypatch):
    (tmp_path / "site").mkdir()
    (tmp_path / "site/sitecustomize.py").write_text(PATCHED)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "site"))
    _, draw, write = FORMS[form]
    names = ("transpose", "slice") if form == "webnn" else ("slice1", "padding")
    write(draw(names, 4, seed=1), tmp_path / "cases")
    judged = judge(tmp_path / "cases", "anydml", jobs=1)
    lines = [*shrink_all(judged, "anydml", tmp_path / "small")]
    assert len(lines) == len([each for each in causes_of(judged) if each.verdict == "differs"]) > 0
    for stored in find_cases(tmp_path / "small"):
        larger = max(each.weight for each in find_cases(tmp_path / "cases") if each.operator == stored.operator)
        assert stored.weight < larger
        assert sum(each.size for each in stored.outputs()) <= 8
        at = stored.folder if stored.folder.is_dir() else stored.folder.parent
        pasted = (at / "paste.txt").read_text("utf-8").splitlines()
        assert len(pasted) <= 10
        assert "differs" in pasted[-2]
    assert judge(tmp_path / "small", "anydml", jobs=1).counts["differs"] == len(lines)
    monkeypatch.delenv("PYTHONPATH")
    assert judge(tmp_path / "small", "anydml", jobs=1).is_clean


def test_names_of_operators():
    assert [case.operator for case in directml_cases(["DML_OPERATOR_SLICE1", "scatter_elements"], 2)] == [
        "slice1",
        "scatter",
    ]
    with pytest.raises(ModelError, match="there are no cases of 'GEMM'"):
        next(directml_cases(["GEMM"], 1))
    with pytest.raises(ModelError, match=r"there are no cases of 'gemm'.*WebNN's operators are concat"):
        next(webnn_cases(["gemm"], 1))


WRONG = """
import sys
from pathlib import Path
from pathlib import Path
import numpy as np

model, inputs, results = map(Path, sys.argv[1:])
dtype = "float16" if "FLOAT16" in model.read_text() else "float32"
np.save(results / "output_0.npy", np.full(5000, 77, dtype))
"""


@pytest.mark.parametrize("form, wrong", [("dxdispatch", "elements"), ("webnn", "shape")])
def test_what_a_program_writes_is_compared(form, wrong, tmp_path):
    (tmp_path / "engine.py").write_text(WRONG)
    if form == "webnn":
        write_cases(by_operator(webnn_cases(["reverse"], 4, seed=1)), tmp_path / "cases", write_webnn, form)
    else:
        write_cases(directml_cases(["upsample_2d"], 4, seed=1), tmp_path / "cases", write_directml, form)
    judged = judge(tmp_path / "cases", f"command:{sys.executable} {tmp_path / 'engine.py'}", jobs=1)
    assert {(each.verdict, each.kind) for each in judged.verdicts} == {("differs", wrong)}
    assert "<svg" in page(judged).html()
    assert "".join(lines_of(judged))


def test_an_engine_of_onnx_takes_no_other_cases(directml):
    judged = judge(next(directml.glob("TILE_*")), "reference", jobs=1)
    assert judged.counts["not run"] == 1
    assert "takes no cases of dxdispatch" in judged.verdicts[0].detail


def test_other_machines_outputs(directml, webnn):
    tile = next(directml.glob("ELEMENT_WISE_IDENTITY_*"))
    (tile / "there").mkdir()
    (tile / "there/error.txt").write_text("not supported")
    assert judge(tile, "outputs:there", jobs=1).counts["refuses"] == 1
    expected = find_cases(webnn / "tile.json")[1].outputs()[0]
    (webnn / "got/tile/1").mkdir(parents=True)
    np.save(webnn / "got/tile/1/output_0.npy", expected)
    judged = judge(webnn / "tile.json", "outputs:got", jobs=1)
    assert (judged.counts["agrees"], judged.counts["not run"]) == (1, 11)


def test_the_commands(tmp_path, capsys):
    def run(*arguments):
        with pytest.raises(SystemExit) as ended:
            main([*map(str, arguments)])
        return ended.value.code or 0, capsys.readouterr()

    code, said = run("cases", "tile", "--as", "webnn", "--count", "3", "--output", tmp_path / "w")
    assert (code, re.sub(r"'.*'", "", said.out)) == (
        0,
        "3 cases of 1 operator written to \n5 of 13 features reached, see --coverage\n",
    )
    code, said = run("cases", "SLICE", "--as", "dxdispatch", "--count", "2", "--output", tmp_path / "d", "--coverage")
    assert (code, "2 cases of 1 operator written" in said.out, "    slice: InputTensor is " in said.out) == (
        0,
        True,
        True,
    )
    assert run("judge", tmp_path / "w/tile.json", "--engine", "anydml")[0] == 0
    code, said = run("cases", "identity", "--as", "webnn", "--invalid", "--output", tmp_path / "x")
    assert (code, "no rule of identity can be broken" in said.err) == (2, True)
    (tmp_path / "w/tile.json").write_text('{"tests": [{"name": "a"}]}')
    code, said = run("judge", tmp_path / "w", "--engine", "anydml")
    assert (code, "has no tests of WebNN" in said.err) == (2, True)
    (tmp_path / "d/SLICE_00000/expected_0.npy").unlink()
    code, said = run("judge", tmp_path / "d", "--engine", "anydml")
    assert (code, "has no expected_0.npy" in said.err) == (2, True)


def test_every_operator_of_directml_has_cases():
    """SCATTER_ELEMENTS is SCATTER by another name."""
    types = {name.removeprefix("DML_OPERATOR_").lower() for name in REGISTRY if name.startswith("DML_")}
    assert types - {"scatter_elements"} == {*SENTENCES}
    readme = Path(__file__).parents[2].joinpath("README.md").read_text("utf-8")
    assert f"{len(SENTENCES)} of DirectML's operators" in readme


def test_tests_of_webnn_that_say_too_little(tmp_path):
    """A test that cannot be read says nothing of an engine, and one that expects nothing agrees with nobody."""
    (case,) = webnn_cases(["tile"], 1, seed=1)
    made = case_test(case)
    wrong = {
        "expects no outputs": {"expectedOutputs": {}},
        "expects 'y', which no operator gives": {"expectedOutputs": {"y": made["graph"]["expectedOutputs"]["output0"]}},
        "has no tensor 'inputTensor'": {"inputs": {}},
        "cannot be read: KeyError: 'arguments'": {"operators": [{"name": "tile"}]},
        "dataType is 'no type'": {
            "inputs": {"inputTensor": {"data": [1], "descriptor": {"shape": [1], "dataType": "no type"}}},
        },
    }
    for said, change in wrong.items():
        test = {**made, "graph": {**made["graph"], **change}}
        path = tmp_path / "tests.json"
        path.write_text(json.dumps({"tests": [test, made]}))
        judged = judge(path, "anydml", jobs=1)
        # They have one name.
        assert [each.verdict for each in judged.verdicts] == ["not run", "agrees"]
        assert said in judged.verdicts[0].detail
        assert not judged.is_clean
