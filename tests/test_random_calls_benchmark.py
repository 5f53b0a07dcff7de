"""The benchmark of random calls: every function is drawn, results are compared, and any call can be repeated."""

import numpy as np
import pytest

import anydml as dml
from benchmarks import random_calls
from benchmarks.random_call_cases import FUNCTIONS

pytest.importorskip("torch")


@pytest.mark.parametrize("function", FUNCTIONS)
def test_everybody_does_the_same_work(function):
    calls = [random_calls.runs_of(number, [function], 12) for number in range(400)]
    who = [{name.split()[0] for name in call[2]} for call in calls if call]
    assert {"anydml", "numpy", "torch"} in who
    assert all("anydml" in each and len(each) > 1 for each in who)


def test_every_public_function_that_makes_results_is_drawn():
    no_calls = {"empty_cache", "explain", "fuse", "get_num_threads", "set_cache_limit", "set_num_threads"}
    assert {*FUNCTIONS} - {"fused"} == {name for name in dml.__all__ if name.islower() and name[0] != "_"} - no_calls


def test_a_wrong_result_is_told(monkeypatch):
    monkeypatch.setattr(dml, "copy", lambda x, out=None: np.zeros(3))
    with pytest.raises(SystemExit, match=r"copy, case \d+: the result of anydml differs from NumPy's"):
        for number in range(400):
            random_calls.runs_of(number, ["copy"], 12)


def test_a_call_is_repeated_by_its_number(capsys, monkeypatch):
    monkeypatch.setattr(random_calls, "MOST", 12)
    monkeypatch.setattr(random_calls, "SETTLE", 0)
    number = next(number for number in range(400) if random_calls.runs_of(number, ["roll"], 12))
    for _ in range(2):
        assert random_calls.main(["--case", str(number), "--case", str(number)]) == 0
    shown = capsys.readouterr().out.splitlines()
    assert [line.split(",")[0].split() for line in (shown[0], shown[1])] == [
        ["roll", "2", "calls"],
        ["all", "2", "calls"],
    ]
    assert {line.split("µs")[1] for line in shown if "µs" in line} == {shown[-1].split("µs")[1]}
    assert shown[-1].endswith(f" --case {number}")


def test_no_calls_are_no_mean(capsys):
    assert random_calls.main(["--seconds", "0"]) == 0
    assert capsys.readouterr().out.split(maxsplit=1) == ["all", "no calls\n"]
