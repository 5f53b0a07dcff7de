"""`anydml check` for machines: what is printed is read by readers of its form, and says what the words say."""

import io
import json
import os
import re
import sys
from pathlib import Path
from urllib.parse import unquote_to_bytes
from xml.etree import ElementTree

import onnx.parser
import pytest

from anydml.cli import main

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.fixture
def check(capsys, monkeypatch):
    def run(*arguments):
        monkeypatch.chdir(EXAMPLES.parent)
        with pytest.raises(SystemExit) as ended:
            main(["check", *map(str, arguments)])
        captured = capsys.readouterr()
        assert captured.err == ""
        assert len(arguments) == 1 or captured.out.isascii()
        return ended.value.code, captured.out

    return run


def broken(path, **fields):
    """A model file of two SPLITs, one of which has other fields."""
    model = json.loads((EXAMPLES / "split.json").read_text(encoding="utf-8").partition("\n")[2])
    (right,) = model["dispatchables"].values()
    wrong = {**right, "desc": {**right["desc"], **fields}}
    path.write_text(json.dumps({**model, "dispatchables": {"right": right, 'w"rong': wrong}, "commands": []}, indent=1))
    return path


def test_junit_has_a_case_for_each_operator(check, tmp_path):
    path = broken(tmp_path / "<&> é.json", Axis=7)
    code, words = check(path)
    assert code == 1
    code, text = check(path, "--junit")
    suite = ElementTree.fromstring(text)
    assert (code, suite.tag, suite.attrib["tests"], suite.attrib["failures"]) == (1, "testsuite", "2", "1")
    right, wrong = suite
    assert (right.attrib["name"], [*right]) == ("dispatchables.right.desc", [])
    (failure,) = wrong
    assert wrong.attrib["name"] == 'dispatchables["w\\"rong"].desc'
    assert failure.text == words.rstrip("\n")
    assert failure.attrib["message"] in words


def test_sarif_leads_to_the_line(check, tmp_path):
    path = broken(tmp_path / "a b.json", Axis=7, Strid=1)
    code, text = check(path, "--sarif")
    document = json.loads(text)
    (run,) = document["runs"]
    assert (code, document["version"], run["tool"]["driver"]["name"]) == (1, "2.1.0", "anydml")
    rules = [rule["id"] for rule in run["tool"]["driver"]["rules"]]
    assert [result["ruleId"] for result in run["results"]] == ["model-file", "DML_SPLIT"] == rules
    lines = path.read_text().splitlines()
    for result, said in zip(run["results"], ('"desc"', '"Axis": 7'), strict=True):
        (place,) = result["locations"]
        where = place["physicalLocation"]
        assert where["artifactLocation"]["uri"].endswith("/a%20b.json")
        assert said in lines[where["region"]["startLine"] - 1]
    assert "unknown field Strid" in run["results"][0]["message"]["text"]
    assert re.search(r"Axis is 7.* Rule: Axis must be 0 to .*; no feature level allows it\.$",
                     run["results"][1]["message"]["text"])  # fmt: skip


def test_a_file_without_problems_has_no_results(check):
    for form in ("--json", "--junit", "--sarif"):
        code, text = check("examples/gather_1.json", form)
        assert code == 0
        assert "rule" not in text.replace('"rules": []', "")
    assert check("examples/gather_1.json", "--junit")[1].count("<testcase ") == 1
    assert json.loads(check("examples/gather_1.json", "--json")[1])["conforming"] == 1


def test_nodes_that_were_not_checked_are_skipped(check, tmp_path):
    onnx = pytest.importorskip("onnx")
    model = onnx.parser.parse_model("""<ir_version: 8, opset_import: ["": 18]>
        g (float[2, 3] x, float[M, 3] z) => (float[3, 2] y, float[3, M] t, float[A] u)
        { y = Transpose (x) t = Transpose (z) u = Concat <axis = 7> (x, x) }""")
    onnx.save(model, tmp_path / "m.onnx")
    code, text = check(tmp_path / "m.onnx", "--junit")
    suite = ElementTree.fromstring(text)
    assert code == 1
    assert [[child.tag for child in case] for case in suite] == [[], ["failure"], ["skipped"]]
    code, text = check(tmp_path / "m.onnx", "--sarif")
    (run,) = json.loads(text)["runs"]
    assert code == 1
    (about,) = run["properties"]["models"]
    assert [len(run["results"]), about["conforming"], len(about["notChecked"])] == [1, 1, 1]
    (place,) = run["results"][0]["locations"]
    assert place["physicalLocation"]["region"] == {"startLine": 1}
    assert place["logicalLocations"][0]["fullyQualifiedName"].startswith("Concat_")


@pytest.mark.skipif(sys.platform != "linux", reason="names of files are UTF-8")
def test_sarif_names_files_that_are_not_utf_8(check, tmp_path):
    path = broken(tmp_path / "model.json", Axis=7).rename(tmp_path / os.fsdecode(b"m\xff\xc3\xa9.json"))
    code, text = check(path, "--sarif")
    (result,) = json.loads(text)["runs"][0]["results"]
    uri = result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"]
    assert (code, unquote_to_bytes(uri)) == (1, os.fsencode(path))


def test_several_files_and_one_that_cannot_be_read(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    broken(Path("wrong.json"), Axis=7)
    Path("right.json").write_bytes((EXAMPLES / "gather_1.json").read_bytes())
    Path("cut.json").write_text("{")

    def run(*arguments):
        with pytest.raises(SystemExit) as ended:
            main(["check", *arguments])
        return ended.value.code, *capsys.readouterr()

    code, out, error = run("right.json", "wrong.json")
    assert (code, error) == (1, "")
    assert [line.partition(":")[0] for line in out.splitlines() if line[0] != " "] == ["right.json", "wrong.json"]
    code, out, error = run("wrong.json", "cut.json", "right.json")
    assert (code, error.count("\n")) == (2, 1)
    assert error.startswith("anydml: cut.json: ")
    assert "right.json: no problems" in out
    for names in (("cut.json",), ("wrong.json", "cut.json", "right.json")):
        code, out, error = run(*names, "--json")
        reports = [json.loads(line) for line in out.splitlines()]
        assert (code, [report["model"] for report in reports]) == (2, [*names])
        assert [report["error"] is not None for report in reports] == [name == "cut.json" for name in names]
        said = error.removeprefix("anydml: ").rstrip("\n")
        assert next(report["error"] for report in reports if report["error"]) == said
        root = ElementTree.fromstring(run(*names, "--junit")[1])
        assert root.tag == ("testsuite" if len(names) == 1 else "testsuites")
        (failed,) = root.iter("error")
        assert failed.attrib["message"] == said
        (sarif,) = json.loads(run(*names, "--sarif")[1])["runs"]
        (invocation,) = sarif["invocations"]
        assert not invocation["executionSuccessful"]
        (notification,) = invocation["toolExecutionNotifications"]
        assert notification["message"]["text"] == said
        assert len(sarif["results"]) == len(names) // 3


@pytest.mark.parametrize("name", ["split", "gather_1", "slice1"])
def test_the_lowest_level_of_a_file(check, name):
    report = json.loads(check(f"examples/{name}.json", "--json")[1])
    levels = ("1_0", "2_0", "2_1", "3_0", "3_1", "4_0", "4_1", "5_0", "5_1", "5_2", "6_0", "6_1", "6_2", "6_3", "6_4")
    codes = [check(f"examples/{name}.json", "--feature-level", level, "--json")[0] for level in levels]
    assert report["lowest_level"] == f"DML_FEATURE_LEVEL_{levels[codes.index(0)]}"
    text = check(f"examples/{name}.json")[1]
    assert f"    {report['lowest_level']} is the lowest level that allows all operators\n" in text


@pytest.mark.parametrize("name", ["split.json", "slice1.json"])
def test_a_model_is_read_from_standard_input(check, monkeypatch, name):
    content = (EXAMPLES / name).read_bytes()
    texts = []
    for model in (EXAMPLES / name, "-"):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content)))
        texts.append(json.loads(check(model, "--json")[1]))
    assert texts[1].pop("model") == "-"
    assert {**texts[0], "model": ""} == {**texts[1], "model": ""}


def test_an_onnx_model_is_read_from_standard_input(check, monkeypatch):
    text = """<ir_version: 8, opset_import: ["": 18]> g (float[2,3] x) => (float[3,2] y) { y = Transpose (x) }"""
    content = onnx.parser.parse_model(text).SerializeToString()
    for data, code, words in ((content, 0, "-: 1 movement node conforms"), (content[:-4], 2, "")):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))
        if code:
            with pytest.raises(SystemExit) as ended:
                main(["check", "-"])
            assert ended.value.code == code
        else:
            result = check("-")
            assert result[0] == code
            assert result[1].startswith(words)


@pytest.mark.parametrize("suffix", ["json", "onnx"])
def test_reports_have_the_same_keys_whether_a_file_can_be_read(suffix, tmp_path, capsys):
    name = f"good.{suffix}"
    if suffix == "json":
        (tmp_path / name).write_bytes((EXAMPLES / "split.json").read_bytes())
    else:
        text = '<ir_version: 8, opset_import: ["": 18]> g (float[2] x) => (float[2] y) { y = Identity (x) }'
        onnx.save(onnx.parser.parse_model(text), tmp_path / name)
    (tmp_path / f"cut.{suffix}").write_bytes((tmp_path / name).read_bytes()[:-9])
    with pytest.raises(SystemExit):
        main(["check", str(tmp_path / name), str(tmp_path / f"cut.{suffix}"), "--json"])
    good, cut = map(json.loads, capsys.readouterr().out.splitlines())
    assert (good["error"], cut["error"] is None) == (None, False)
    assert [*cut] == [*good]
