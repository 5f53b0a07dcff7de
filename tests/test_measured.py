"""Cases that differ in numbers alone are measured for a while, all others always."""

import contextlib

import pytest
from measured import Repetitions


@pytest.fixture
def is_measured():
    """Runs a test of a name that takes some seconds, and may raise; tells whether it was measured."""
    now, left_out = 0.0, []

    @contextlib.contextmanager
    def without():
        left_out.append(True)
        yield

    repetitions = Repetitions(lambda: now, without)

    def run(name, seconds, error=None):
        nonlocal now
        left_out.clear()
        with contextlib.suppress(KeyError), repetitions.measured(name):
            now += seconds
            if error:
                raise error
        return not left_out

    return run


def test_only_repetitions_are_left_out(is_measured):
    assert is_measured("a.py::test_random[split-0]", 0.3)
    assert is_measured("a.py::test_random[split-1]", 0.3)
    assert not is_measured("a.py::test_random[split-12]", 0.1)
    assert is_measured("a.py::test_random[join-1]", 5)
    assert is_measured("a.py::test_2[0]", 5)
    assert is_measured("a.py::test_3[0]", 5)
    assert not is_measured("a.py::test_2[1]", 5)


def test_many_kinds_of_one_test_are_measured_for_a_while(is_measured):
    for kind in "abcdefghi":
        assert is_measured(f"a.py::test_kinds[{kind}]", 0.49)
    assert not is_measured("a.py::test_kinds[j]", 0.1)
    assert is_measured("a.py::test_others[j]", 0.1)


def test_what_fails_counts_and_its_error_passes(is_measured):
    assert is_measured("a.py::test[1]", 5, KeyError())
    assert not is_measured("a.py::test[2]", 5, KeyError())
    with pytest.raises(ValueError):
        is_measured("a.py::test[a]", 5, ValueError())
