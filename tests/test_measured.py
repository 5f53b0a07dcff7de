"""Cases that differ in numbers alone are measured for a while, and for less where they show nothing; others always."""

import contextlib
import os
import subprocess
import sys
import threading

import pytest
from measured import OF_PROCESSES, Measuring, Repetitions


class Tracer:
    """Knows whether it measures, and what coverage would have seen."""

    def __init__(self):
        self.runs = True
        self.data = {"a.py": set()}

    def start(self):
        assert not self.runs
        self.runs = True

    def stop(self):
        assert self.runs
        self.runs = False


@pytest.fixture
def is_measured():
    """Runs a test of a name that takes some seconds, shows lines, and may raise; tells whether it was measured."""
    now, tracer = 0.0, Tracer()
    repetitions = Repetitions(lambda: now, lambda: Measuring(tracer))
    repetitions.between()

    def run(name, seconds, error=None, lines=(None,)):
        nonlocal now
        assert not tracer.runs
        with contextlib.suppress(KeyError), repetitions.measured(name):
            measured = tracer.runs
            now += seconds
            if measured:
                tracer.data["a.py"].update((now, line) if line is None else line for line in lines)
            if error:
                raise error
        assert not tracer.runs
        return measured

    return run


def test_only_repetitions_are_left_out(is_measured):
    assert is_measured("a.py::test_random[split-0]", 0.2)
    assert is_measured("a.py::test_random[split-1]", 0.2)
    assert not is_measured("a.py::test_random[split-12]", 0.1)
    assert is_measured("a.py::test_random[join-1]", 5)
    assert is_measured("a.py::test_2[0]", 5)
    assert is_measured("a.py::test_3[0]", 5)
    assert not is_measured("a.py::test_2[1]", 5)


def test_many_kinds_of_one_test_are_measured_for_a_while(is_measured):
    for kind in "abcdefghi":
        assert is_measured(f"a.py::test_kinds[{kind}]", 0.24)
    assert not is_measured("a.py::test_kinds[j]", 0.1)
    assert is_measured("a.py::test_others[j]", 0.1)


def test_what_shows_nothing_new_is_left_out_earlier(is_measured):
    assert is_measured("a.py::test_random[split-0]", 0.06, lines=[1])
    assert is_measured("a.py::test_random[split-1]", 0.04, lines=[1])
    assert is_measured("a.py::test_random[split-2]", 0.04, lines=[1, 2])
    assert is_measured("a.py::test_random[split-3]", 0.06, lines=[1, 2])
    assert not is_measured("a.py::test_random[split-4]", 0.01)
    assert is_measured("a.py::test_random[join-0]", 0.4, lines=[2])
    assert not is_measured("a.py::test_random[gather-0]", 0.01)
    assert is_measured("a.py::test_others", 0.1, lines=[2])


def test_what_fails_counts_and_its_error_passes(is_measured):
    assert is_measured("a.py::test[1]", 5, KeyError())
    assert not is_measured("a.py::test[2]", 5, KeyError())
    with pytest.raises(ValueError):
        is_measured("a.py::test[a]", 5, ValueError())


def test_where_nothing_measures_nothing_is_done():
    repetitions = Repetitions(find=lambda: None)
    repetitions.between()
    with repetitions.measured("a.py::test"):
        pass


def test_threads_and_processes_are_measured_where_tests_are(monkeypatch):
    traced, hook = [], threading.gettrace()
    told = [sys.executable, "-S", "-c", f"import os; print(os.environ.get({OF_PROCESSES!r}))"]

    def begun():
        traced.clear()
        thread = threading.Thread(target=int)
        thread.start()
        thread.join()
        return bool(traced), subprocess.run(told, capture_output=True, text=True, check=True).stdout.strip()

    monkeypatch.setenv(OF_PROCESSES, "how")
    try:
        threading.settrace(lambda *about: traced.append(about))
        repetitions = Repetitions(lambda: 0.0, lambda: Measuring(Tracer()))
        repetitions.between()
        assert begun() == (False, "None")
        with repetitions.measured("a.py::test"):
            assert begun() == (True, "how")
        assert begun() == (False, "None")
        assert OF_PROCESSES not in os.environ
    finally:
        threading.settrace(hook)
