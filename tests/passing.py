"""Which tests a run leaves out, because another run in a different environment has passed them."""

import functools
import inspect


def passed_before(items, path, libraries):
    """Tests that a file names, but for those whose code names a library: without it they may have checked less.

    Args:
        items: collected tests.
        path: the file, one test a line; it need not exist.
        libraries: names of libraries that only this run is sure to have.
    """
    known = set(path.read_text(encoding="utf-8").splitlines()) if path.exists() else set()
    return [item for item in items if item.nodeid in known and not any(name in _text(item) for name in libraries)]


def add_passed(reports, path):
    """Name tests that passed in a file, after those that are there."""
    with path.open("a", encoding="utf-8") as file:
        file.writelines(f"{report.nodeid}\n" for report in reports)


def _text(item):
    return _source(inspect.unwrap(item.function))


@functools.cache
def _source(function):
    return inspect.getsource(function)
