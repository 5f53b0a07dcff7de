"""Cases that differ in numbers alone are measured for a while, all others always."""

import contextlib

import pytest
from measured import Repetitions


class Tracer:
    """Knows whether it measures."""

    def __init__(self):
        self.runs = True

    def start(self):
        assert not self.runs
        self.runs = True

    def stop(self):
        assert self.runs
        self.runs = False


@pytest.fixture
def is_measured():
    """Runs a test of a name that takes some seconds, and may raise; tells whether it was measured."""
    now, tracer = 0.0, Tracer()
    repetitions = Repetitions(lambda: now, lambda: tracer)
    repetitions.between()

    def run(name, seconds, error=None):
        nonlocal now
        assert not tracer.runs
        with contextlib.suppress(KeyError), repetitions.measured(name):
            measured = tracer.runs
            now += seconds
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


def test_what_fails_counts_and_its_error_passes(is_measured):
    assert is_measured("a.py::test[1]", 5, KeyError())
    assert not is_measured("a.py::test[2]", 5, KeyError())
    with pytest.raises(ValueError):
        is_measured("a.py::test[a]", 5, ValueError())


def test_where_nothing_measures_nothing_is_done():
    repetitions = Repetitions(tracer=lambda: None)
    repetitions.between()
    with repetitions.measured("a.py::test"):
        pass
