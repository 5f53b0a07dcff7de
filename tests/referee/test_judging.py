"""Verdicts: what is wrong, refused, crashes or hangs is told from what agrees, and no case ends the run."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import onnx
import pytest

from anydml.cli import main
from anydml.errors import ModelError
from anydml.referee import causes_of, find_cases, judge, make_cases, write_cases
from anydml.referee.cases import operator_named, valid_case
from anydml.referee.directml.cases import directml_cases
from anydml.referee.documents import as_json, as_junit, as_sarif, lines_of, page
from anydml.referee.nodes import Node, OptionalValue
from anydml.referee.shrinking import shrink_all
from anydml.referee.smaller_nodes import smaller_cases
from anydml.referee.verdicts import Verdict, kind_of, without_excuses
from anydml.referee.webnn.cases import by_operator, webnn_cases, write_webnn

DOCS = Path(__file__).parents[2] / "docs"

PROGRAM = """
import os, shutil, signal, sys
from pathlib import Path

model, inputs, outputs = map(Path, sys.argv[1:])
kind = next(each for each in (b"Gather", b"Expand", b"Size", b"Shape") if each in model.read_bytes())
if kind == b"Gather":
    os.kill(os.getpid(), signal.SIGKILL)
if kind == b"Size":
    sys.exit("Size is not supported")
given = "input_0.pb" if kind == b"Expand" and (inputs / "input_0.pb").exists() else "output_0.pb"
shutil.copy(inputs / given, outputs / "output_0.pb")
"""
"""An engine that is right about Shape, as it copies what is expected, and wrong about Expand."""

PATCHED = """
import os, sys, time
if any("anydml.referee.worker" in word for word in sys.orig_argv):
    from anydml.onnx import backend

    right = backend.prepare

    class Reversed:
        def __init__(self, made):
            self.made = made

        def run(self, inputs):
            return [each.reshape(-1)[::-1].reshape(each.shape) for each in self.made.run(inputs)]

    def prepare(model):
        kind = model.graph.node[0].op_type
        if kind == "Gather":
            # A process that the engine has started holds the output of the worker, and leaves its group.
            if hasattr(os, "fork") and not os.fork():
                os.setsid()
                time.sleep(20)
            os._exit(3)
        if kind == "Size":
            time.sleep(60)
        return Reversed(right(model)) if kind == "Expand" else right(model)

    backend.prepare = prepare
"""
"""What makes anydml wrong in a worker, which starts with it as `sitecustomize`."""


@pytest.fixture
def patched(tmp_path, monkeypatch):
    (tmp_path / "sitecustomize.py").write_text(PATCHED)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))


@pytest.fixture(scope="module")
def cases(tmp_path_factory):
    folder = tmp_path_factory.mktemp("cases") / "all"
    write_cases(make_cases(["Gather", "Expand", "Size", "Shape"], 12, seed=1), folder)
    return folder


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    path = tmp_path_factory.mktemp("engine") / "engine.py"
    path.write_text(PROGRAM)
    return f"command:{sys.executable} {path}"


@pytest.fixture(scope="module")
def judged(cases, program):
    return judge(cases, program, jobs=2)


def verdicts(judged):
    found = {}
    for each in judged.verdicts:
        found.setdefault(each.operator, set()).add(each.verdict)
    return found


@pytest.mark.skipif(sys.platform == "win32", reason="there are no signals")
def test_what_a_program_does_is_a_verdict(judged):
    found = verdicts(judged)
    assert found["Gather"] == {"crashes"}
    assert found["Size"] == {"refuses"}
    assert found["Shape"] == {"agrees"}
    assert "differs" in found["Expand"]
    assert not judged.is_clean
    assert len(judged.verdicts) == 12


def test_anydml_agrees(cases):
    judged = judge(cases, "anydml", jobs=1)
    assert judged.counts["agrees"] == 12
    assert judged.is_clean
    assert judged.engine.startswith("anydml ")


def test_a_worker_that_ends_does_not_end_the_run(patched, tmp_path):
    for operator, count in (("Gather", 2), ("Shape", 1), ("Size", 1), ("Where", 2)):
        write_cases(make_cases([operator], count), tmp_path / "cases" / operator)
    judged = judge(tmp_path / "cases", "anydml", jobs=1, seconds=6)
    found = verdicts(judged)
    assert found == {"Gather": {"crashes"}, "Size": {"hangs"}, "Where": {"agrees"}, "Shape": {"agrees"}}
    assert judged.restarts == 3


def test_reports_say_the_same(judged):
    told = json.loads(as_json(judged))
    suite = ElementTree.fromstring(as_junit(judged))
    failed = sum(told["counts"][verdict] for verdict in ("differs", "refuses", "crashes", "hangs", "accepts"))
    assert (suite.attrib["tests"], suite.attrib["failures"]) == ("12", str(failed))
    assert sum(len(cause["cases"]) for cause in told["causes"]) == failed
    (run,) = json.loads(as_sarif(judged))["runs"]
    assert len(run["results"]) == len(told["causes"])
    text = "\n".join(lines_of(judged))
    assert "Size is not supported" in text
    assert all(cause.operator in text for cause in causes_of(judged))
    assert page(judged).html().startswith("<!doctype html>")


def test_other_machines_outputs(cases, program, tmp_path):
    for stored in find_cases(cases):
        (stored.folder / "there").mkdir()
        if stored.operator == "Size":
            (stored.folder / "there/error.txt").write_text("no such operator")
        elif stored.operator != "Shape":
            for path in (stored.folder / "test_data_set_0").glob("output_*"):
                (stored.folder / "there" / path.name).write_bytes(path.read_bytes())
    found = verdicts(judge(cases, "outputs:there", jobs=1))
    assert found == {"Gather": {"agrees"}, "Expand": {"agrees"}, "Size": {"refuses"}, "Shape": {"differs"}}


def test_a_difference_shrinks(patched, tmp_path):
    write_cases(make_cases(["Expand"], 6, seed=1), tmp_path / "cases")
    judged = judge(tmp_path / "cases", "anydml", jobs=1)
    lines = list(shrink_all(judged, "anydml", tmp_path / "small"))
    assert len(lines) == len(causes_of(judged)) > 0
    small = find_cases(tmp_path / "small")
    assert all(stored.outputs()[0].size == 2 for stored in small)
    pasted = (small[0].folder / "paste.txt").read_text("utf-8")
    assert "ONNX's Changelog.md, Expand-" in pasted
    assert len(pasted.splitlines()) <= 10


def test_illegal_cases_that_are_accepted(tmp_path):
    write_cases(make_cases(["Gather"], 6, seed=1, is_valid=False), tmp_path / "wrong")
    assert judge(tmp_path / "wrong", "anydml", jobs=1).is_clean
    for stored in find_cases(tmp_path / "wrong"):
        (stored.folder / "got").mkdir()
    judged = judge(tmp_path / "wrong", "outputs:got", jobs=1)
    assert judged.counts["accepts"] == 6


def test_the_commands(tmp_path, capsys):
    def run(*arguments):
        with pytest.raises(SystemExit) as ended:
            main([*map(str, arguments)])
        return ended.value.code, capsys.readouterr()

    code, said = run("cases", "Where", "--count", "5", "--output", tmp_path / "w", "--coverage")
    assert not code
    assert "5 cases of 1 operator written" in said.out
    assert "Where: X is " in said.out
    code, said = run("judge", tmp_path / "w", "--engine", "anydml", "--jobs", "1", "--html", tmp_path / "p.html")
    assert code == 0
    assert "Where" in said.out
    assert (tmp_path / "p.html").exists()
    code, said = run("judge", tmp_path / "w/cases.json", "--engine", "anydml", "--memory", "much")
    assert (code, "is not a size" in said.err, said.out) == (2, True, "")
    code, said = run("judge", tmp_path / "w", "--engine", "anydml", "--memory", "1")
    assert (code, "give at least 64 MiB" in said.err, said.out) == (2, True, "")
    code, said = run("judge", find_cases(tmp_path / "w")[0].model, "--engine", "anydml")
    assert (code, "a case is a folder" in said.err, said.out) == (2, True, "")
    code, said = run("judge", tmp_path / "w", "--engine", "nobody")
    assert (code, "there is no engine 'nobody'" in said.err, said.out) == (2, True, "")
    code, said = run("judge", tmp_path / "w", "--engine", "anydml", "--json", "--sarif")
    assert (code, "exclude each other" in said.err) == (2, True)
    code, said = run("judge", tmp_path / "w", "--engine", "anydml", "--shrink", tmp_path / "w")
    assert (code, "is not an empty folder" in said.err, said.out) == (2, True, "")
    code, said = run("cases", "Where", "--output", tmp_path / "w")
    assert (code, "is not an empty folder" in said.err) == (2, True)


@pytest.mark.parametrize(
    "engine, said",
    [
        ("command: ", "has no program"),
        ("command:'unclosed", "cannot be read: No closing quotation"),
        ("command:/no/such/program", "there is no program /no/such/program"),
    ],
)
def test_an_engine_that_is_not_there(cases, engine, said):
    with pytest.raises(ModelError, match=said):
        judge(cases, engine, jobs=1)


def broken_copy(cases, to, name, text):
    folder = shutil.copytree(cases, to)
    stored = find_cases(folder)[0]
    (stored.folder / name).write_text(text)
    return folder


def test_cases_that_cannot_be_read(cases, tmp_path):
    folder = broken_copy(cases, tmp_path / "a", "model.onnx", "junk")
    model = find_cases(folder)[1].model
    two = onnx.load(model)
    two.graph.node.append(two.graph.node[0])
    onnx.save(two, model)
    find_cases(folder)[2].folder.joinpath("test_data_set_0/output_0.pb").write_text("junk")
    kept, *_, last = [each.folder / "test_data_set_0" for each in find_cases(folder)[3:] if each.inputs()]
    (kept / "input_0.pb").rename(kept / "other.pb")
    (last / "input_0.pb").write_text("junk")
    judged = judge(folder, "anydml", jobs=1)
    text = "\n".join(lines_of(judged))
    for said in (
        "is not a model of ONNX",
        "has 2 nodes: a case has one node",
        "is not a tensor",
        "input_0.pb: files are counted from 0",
    ):
        assert said in text
    assert judged.counts["not run"] == 5
    assert judged.counts["agrees"] == 7
    assert not judged.is_clean


def test_nothing_that_was_run_is_not_agreement(cases):
    judged = judge(cases, "outputs:nowhere", jobs=1)
    assert judged.counts["not run"] == 12
    assert not judged.is_clean
    assert "12 not run: there is no folder nowhere beside the case" in [*lines_of(judged)]


def test_what_a_program_writes_is_what_counts(cases, tmp_path):
    """Junk is not a refusal, and a process that the program leaves behind is not waited for."""
    (tmp_path / "junk.py").write_text(
        "import subprocess, sys; from pathlib import Path\n"
        "subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(20)'], start_new_session=True)\n"
        "Path(sys.argv[3], 'output_0.pb').write_text('junk')"
    )
    write_cases(make_cases(["Gather"], 1, seed=1, is_valid=False), tmp_path / "wrong")
    for folder, verdict in ((find_cases(cases)[0].folder, "differs"), (tmp_path / "wrong", "accepts")):
        judged = judge(folder, f"command:{sys.executable} {tmp_path / 'junk.py'}", jobs=1, seconds=15)
        assert [each.verdict for each in judged.verdicts] == [verdict]


def test_what_a_program_says_of_a_refusal_is_quoted(judged):
    assert {each.detail for each in judged.verdicts if each.verdict == "refuses"} == {"Size is not supported"}
    assert all(each.detail == "SIGKILL" for each in judged.verdicts if each.verdict == "crashes")


@pytest.mark.parametrize("draw", [make_cases, directml_cases, webnn_cases])
def test_operators_that_are_named_twice(draw):
    names = [each.name for each in draw(["Slice", "slice", "SLICE"], 6, 1)]
    assert len({*names}) == 6


def test_a_special_element_at_the_end_shrinks():
    x = np.zeros((5, 7), np.float32)
    x[4, 6] = -0.0
    node = Node("Where", 16, (np.array(True), x, np.ones(7, np.float32)), {}, 1, frozenset({0, 1, 2}))
    case = valid_case(operator_named("Where"), node, "Where_0")
    while smaller := next((each for each in smaller_cases(case) if each and np.signbit(each.outputs[0]).any()), None):
        case = smaller
    assert case.outputs[0].size == 1


def test_a_split_shrinks_to_valid_ones():
    """onnx's checker ends the process that gives it fewer sizes than outputs."""
    node = Node("Split", 18, (np.arange(2.0),), {"num_outputs": 2}, 2)
    found = [*smaller_cases(valid_case(operator_named("Split"), node, "Split_0"))]
    assert None in found
    assert all(each is None or len(each.outputs) == 2 for each in found)


def test_a_program_that_writes_nothing_and_one_that_hangs(cases, tmp_path):
    (tmp_path / "none.py").write_text("")
    (tmp_path / "long.py").write_text("import time; time.sleep(60)")
    case = find_cases(cases)[0].folder
    judged = judge(case, f"command:{sys.executable} {tmp_path / 'none.py'}", jobs=1)
    assert [(each.verdict, each.detail) for each in judged.verdicts] == [("differs", "0 outputs, not 1")]
    judged = judge(case, f"command:{sys.executable} {tmp_path / 'long.py'}", jobs=1, seconds=2)
    assert judged.counts["hangs"] == 1


@pytest.mark.parametrize(
    "said, kind",
    [
        ("ValueError: axis 3 is out of [1, 2]", "ValueError: axis # is out of …"),
        ("Fail: /a/b.cc:12 'x' and 'y'", "Fail: … and …"),
        ("outer Caused by: inner 5 Stack backtrace: 1", "inner #"),
    ],
)
def test_messages_of_one_kind(said, kind):
    assert kind_of(said) == kind


def test_what_is_kept_for_the_page(judged, monkeypatch, tmp_path):
    monkeypatch.syspath_prepend(str(DOCS))
    import tables

    from benchmarks.referee import kept

    index = {"cases": 12, "seed": 1, "anydml": "1.0", "onnx": "2.0"}
    told = json.loads(as_json(judged))
    causes = [each for each in told["causes"] if each["verdict"] == "crashes"]
    lines = [
        "Gather, opset 11",
        "data: [1 | 2]",
        "program crashes: thread (12) panicked at /a/index.crates.io-1f/b",
        "text",
    ]
    found = kept(index, [told] * 2, "2026-01-02", [{each["example"]: lines for each in causes}, {}])
    (tmp_path / "referee.json").write_text(json.dumps(found))
    monkeypatch.setattr(tables, "RESULTS", tmp_path)
    text = tables.verdicts()
    assert "| date | 2026-01-02 |" in text
    assert "| Gather | 0 / 0 / 0 / 3 | 0 / 0 / 0 / 3 |" in text
    assert "| Size | 0 / 0 / 3 / 0 | 0 / 0 / 3 / 0 |" in text
    text = tables.differences()
    assert "`Gather, opset 11`<br>`data: [1 \\| 2]`<br>`crashes: thread panicked at b` | `text` |" in text
    assert text.endswith("No case differs, and none crashes.\n")


def test_cases_of_one_name(tmp_path):
    for operator in ("Shape", "Size"):
        write_cases(make_cases([operator], 1, seed=1), tmp_path / operator)
        (folder,) = (each.folder for each in find_cases(tmp_path / operator))
        folder.rename(folder.with_name("case"))
    (tmp_path / "Size/case/test_data_set_0/output_0.pb").write_bytes(
        onnx.numpy_helper.from_array(np.array(-1)).SerializeToString()
    )
    judged = judge(tmp_path, "anydml", jobs=1)
    assert [(each.case, each.verdict) for each in judged.verdicts] == [
        ("Shape/case", "agrees"),
        ("Size/case", "differs"),
    ]
    (cause,) = causes_of(judged)
    assert cause.example.operator == "Size"


def test_links_that_lead_back_add_no_cases(tmp_path):
    write_cases(make_cases(["Where"], 1), tmp_path / "w/a")
    for name, to in ("up", tmp_path / "w"), ("self", tmp_path / "w/self"), ("other", tmp_path / "x"):
        (tmp_path / "w" / name).symlink_to(to)
    (tmp_path / "x").mkdir()
    (tmp_path / "x/back").symlink_to(tmp_path / "w")
    assert len(find_cases(tmp_path / "w")) == 1


@pytest.mark.parametrize("engine", ["anydml", "anydml:cpu", "anydml:reference"])
def test_another_type_or_rank_than_is_expected_differs(tmp_path, engine):
    case = make_node("Transpose", np.arange(3, dtype=np.int32).reshape(1, 3), perm=[1, 0])
    for number, output in enumerate([np.zeros((3, 1), np.uint32), np.arange(3, dtype=np.int32)]):
        folder = tmp_path / str(number)
        write_cases([case], folder)
        model = onnx.load(folder / "Transpose/model.onnx")
        kind = onnx.helper.np_dtype_to_tensor_dtype(output.dtype)
        model.graph.output[0].CopyFrom(
            onnx.helper.make_tensor_value_info(model.graph.output[0].name, kind, [*output.shape])
        )
        onnx.save(model, folder / "Transpose/model.onnx")
        data = onnx.numpy_helper.from_array(output).SerializeToString()
        (folder / "Transpose/test_data_set_0/output_0.pb").write_bytes(data)
        (verdict,) = judge(folder, engine).verdicts
        assert (verdict.verdict, verdict.kind) == ("differs", ["type", "shape"][number])


def make_node(operator, *inputs, **attributes):
    return valid_case(operator_named(operator), Node(operator, 13, inputs, attributes), operator)


@pytest.mark.parametrize(
    "name, text",
    [
        ("case.json", '{"operator": ["x"]}'),
        ("case.json", "folder"),
        ("test_data_set_0/output_x.pb", ""),
        ("test_data_set_0/output_0.pb", ""),
        ("test_data_set_0/output_0.pb", "folder"),
        ("reading", "readings"),
    ],
)
def test_files_that_are_not_whole_are_no_fault_of_the_engines(tmp_path, name, text):
    write_cases([make_node("Transpose", np.arange(3), perm=[0])], tmp_path)
    folder = tmp_path / "Transpose"
    if text == "folder":
        (folder / name).unlink()
        (folder / name).mkdir()
    elif text == "readings":
        about = json.loads((folder / "case.json").read_text())
        about["readings"] = [{"question": "q", "words": "w", "sentence": "s", "refuses": False}]
        (folder / "case.json").write_text(json.dumps(about))
    else:
        (folder / name).write_text(text)
    if name == "case.json":
        with pytest.raises(ModelError, match="does not describe a case"):
            judge(tmp_path, "anydml")
    else:
        (verdict,) = judge(tmp_path, "anydml").verdicts
        assert (verdict.verdict, verdict.kind) == ("not run", "unreadable case")


def test_a_test_of_webnn_has_a_text_as_its_name(tmp_path):
    write_cases(by_operator(webnn_cases(["transpose"], 2, 1, True)), tmp_path / "w", write_webnn, "webnn")
    path = tmp_path / "w/transpose.json"
    found = json.loads(path.read_text())
    found["tests"][0]["name"] = 5
    path.write_text(json.dumps(found))
    with pytest.raises(ModelError, match="has no tests of WebNN"):
        judge(tmp_path / "w", "anydml")


@pytest.mark.parametrize(
    "arguments, said",
    [
        ([], "has transpose without input"),
        ([{"options": {}}], "has transpose without input"),
        ([{"input": "other"}], "has no tensor 'other'"),
        ({}, "cannot be read|has transpose without input"),
        ([5], "cannot be read"),
    ],
)
def test_calls_of_webnn_that_are_not_whole(tmp_path, arguments, said):
    write_cases(by_operator(webnn_cases(["transpose"], 2, 1, True)), tmp_path / "w", write_webnn, "webnn")
    path = tmp_path / "w/transpose.json"
    found = json.loads(path.read_text())
    found["tests"][0]["graph"]["operators"][0]["arguments"] = arguments
    path.write_text(json.dumps(found))
    one, other = judge(tmp_path / "w", "anydml").verdicts
    assert (one.verdict, one.kind, other.verdict) == ("not run", "unreadable case", "agrees")
    assert re.search(said, one.detail)


def written_case(folder):
    write_cases([make_node("Transpose", np.arange(6, dtype=np.float32).reshape(2, 3), perm=[1, 0])], folder)
    return folder / "Transpose"


def without_opset(model):
    del model.opset_import[:]


def without_outputs(model):
    del model.graph.output[:]


def of_another_operator(model):
    model.graph.node[0].op_type = "Identity"


def with_elements_elsewhere(model):
    constant = onnx.numpy_helper.from_array(np.zeros(3), "z")
    constant.ClearField("raw_data")
    constant.data_location = onnx.TensorProto.EXTERNAL
    constant.external_data.add(key="location", value="elsewhere.bin")
    model.graph.initializer.append(constant)


@pytest.mark.parametrize("change", [without_opset, without_outputs, of_another_operator, with_elements_elsewhere])
def test_models_that_are_not_those_of_their_cases(tmp_path, change):
    path = written_case(tmp_path) / "model.onnx"
    model = onnx.load(path)
    change(model)
    path.write_bytes(model.SerializeToString())
    (verdict,) = judge(tmp_path, "anydml").verdicts
    assert (verdict.verdict, verdict.kind) == ("not run", "unreadable case")


@pytest.mark.parametrize("name", ["input_0.pb", "output_0.pb", "input_1.pb", "output_1.pb"])
@pytest.mark.parametrize("array", [np.zeros((2, 3), np.float64), np.zeros((2, 3, 1), np.float32)])
def test_values_that_are_not_those_of_the_model(tmp_path, name, array):
    (written_case(tmp_path) / "test_data_set_0" / name).write_bytes(
        onnx.numpy_helper.from_array(array).SerializeToString()
    )
    (verdict,) = judge(tmp_path, "anydml").verdicts
    assert (verdict.verdict, verdict.kind) == ("not run", "unreadable case")


def test_outputs_that_another_machine_lacks_are_no_success(tmp_path):
    for name in ("a", "b"):
        write_cases([make_node("Transpose", np.arange(3), perm=[0])._replace(name=name)], tmp_path / name)
    case = tmp_path / "a/a"
    shutil.copytree(case / "test_data_set_0", case / "theirs")
    judged = judge(tmp_path, "outputs:theirs")
    assert [(each.verdict, each.kind) for each in judged.verdicts] == [("agrees", ""), ("not run", "no outputs")]
    assert not judged.is_clean
    assert ElementTree.fromstring(as_junit(judged)).get("errors") == "1"
    (run,) = json.loads(as_sarif(judged))["runs"]
    assert len(run["invocations"][0]["toolExecutionNotifications"]) == 1
    (case / "theirs/output_0.pb").rename(case / "theirs/output_1.pb")
    assert [each.verdict for each in judge(tmp_path, "outputs:theirs").verdicts] == ["differs", "not run"]


def test_refusals_of_illegal_cases_are_counted_where_nothing_legal_ran(tmp_path):
    write_cases(make_cases(["Transpose"], 3, 1, is_valid=False), tmp_path / "illegal")
    judged = judge(tmp_path, "anydml")
    assert (judged.counts["agrees"], judged.doubted) == (3, 3)
    assert "3 refusals of illegal cases" in "\n".join(lines_of(judged))
    written_case(tmp_path / "legal")
    assert judge(tmp_path, "anydml").doubted == 0


@pytest.mark.skipif(sys.platform == "win32", reason="there are no such signals")
def test_a_killed_judge_leaves_no_process(cases, tmp_path):
    program = tmp_path / "hang.sh"
    program.write_text(f"#!/bin/sh\necho $$ > {tmp_path}/pid\nexec sleep 600\n")
    program.chmod(0o755)
    words = [sys.executable, "-m", "anydml", "judge", str(cases), "--engine", f"command:{program}", "--jobs", "1"]
    started = subprocess.Popen([*words, "--seconds", "500"])
    pid = tmp_path / "pid"
    wait_for(lambda: pid.exists() and pid.read_text().strip())
    started.kill()
    started.wait()
    wait_for(lambda: not Path(f"/proc/{int(pid.read_text())}").exists())


def wait_for(happens):
    end = time.monotonic() + 60
    while not happens():
        assert time.monotonic() < end
        time.sleep(0.05)


def test_an_optional_value_has_some_bytes(tmp_path):
    node = Node("OptionalHasElement", 18, (OptionalValue(np.dtype(np.float32), False, np.zeros(3, np.float32)),), {})
    write_cases([valid_case(operator_named("OptionalHasElement"), node, "one")], tmp_path)
    (verdict,) = judge(tmp_path, "anydml").verdicts
    assert verdict.verdict == "agrees"
    (tmp_path / "one/test_data_set_0/input_0.pb").write_bytes(b"")
    (verdict,) = judge(tmp_path, "anydml").verdicts
    assert (verdict.verdict, verdict.kind) == ("not run", "unreadable case")


def test_no_case_vanishes(cases, monkeypatch):
    def answer(self, stored, seconds):
        raise AttributeError("unforeseen")

    monkeypatch.setattr("anydml.referee.judging.Worker.answer", answer)
    with pytest.raises(ModelError, match="unforeseen"):
        judge(cases, "anydml", jobs=2)


def test_who_has_not_got_an_operator_takes_no_side():
    def verdict(name, kind, **more):
        return Verdict(name, "Pad", kind, "not implemented", "not implemented", **more)

    found = [verdict("1", "refuses"), verdict("2", "agrees", reading="it may not")]
    assert [(each.verdict, each.reading) for each in without_excuses(found)] == [("refuses", "")] * 2
    other = found[1]._replace(kind="sizes below 0")
    assert without_excuses([found[0], other])[1] == other
    illegal = found[1]._replace(reading="")
    assert without_excuses([found[0], illegal])[1].verdict == "not run"
    assert without_excuses([illegal, other]) == (illegal, other)


def test_what_fails_by_wrong_outputs_alone_is_not_shrunk(tmp_path):
    write_cases([make_node("Transpose", np.arange(3), perm=[0])], tmp_path / "cases")
    data = onnx.numpy_helper.from_array(np.arange(3)[::-1].copy()).SerializeToString()
    (tmp_path / "cases/Transpose/test_data_set_0/output_0.pb").write_bytes(data)
    (line,) = shrink_all(judge(tmp_path / "cases", "anydml"), "anydml", tmp_path / "shrunk")
    assert "is not shrunk" in line
    assert not [*(tmp_path / "shrunk").glob("*")]
