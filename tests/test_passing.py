"""What one run has passed, another leaves out, unless it can check more."""

from types import SimpleNamespace

from passing import add_passed, passed_before


def needs_a_library():
    import numpy  # noqa: F401


def needs_nothing():
    pass


def item(nodeid, function):
    return SimpleNamespace(nodeid=nodeid, function=function)


def test_what_passed_is_left_out_but_for_tests_that_name_a_library(tmp_path):
    file = tmp_path / "passed"
    items = [item("a.py::one[1]", needs_nothing), item("a.py::two", needs_a_library), item("b.py::one", needs_nothing)]
    assert passed_before(items, file, ["numpy"]) == []
    for each in items[:2]:
        add_passed([each], file)
    assert passed_before(items, file, ["numpy"]) == items[:1]
    assert passed_before(items, file, []) == items[:2]
