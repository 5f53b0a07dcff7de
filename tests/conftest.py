"""What all tests share: which begin first, which are quick, and what they have to say when all have ended."""

from __future__ import annotations

import contextlib
import gc
import importlib.util
import os
import sys
import time
from pathlib import Path

import pytest
from pace import in_order, is_left_out, keep_quick
from passing import add_passed, passed_before

with contextlib.suppress(ModuleNotFoundError):
    from hypothesis import settings

    # A busy machine is not a failure; what may not hang has limits of its own.
    settings.register_profile("patient", deadline=None)
    settings.load_profile("patient")

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
"""NumPy's threads for linear algebra, which no test asks for, are two fifths of what importing it costs a process."""

os.environ["ANYDML_CACHE"] = ""
"""Tests, and the processes that they start, keep nothing in the user's folder for caches."""


THRESHOLDS = gc.get_threshold()


def pytest_addoption(parser):
    """Say what runs in several environments share."""
    parser.addoption(
        "--passed", type=Path, metavar="FILE", help="leave out tests that FILE names, and add those that pass"
    )


def keep_bytecode(cache):
    """Where Python is told to keep nothing beside sources, keep it in pytest's cache: hundreds of processes follow."""
    if sys.dont_write_bytecode and cache is not None:
        sys.pycache_prefix = os.environ["PYTHONPYCACHEPREFIX"] = str(cache.mkdir("bytecode"))
        sys.dont_write_bytecode = False
        os.environ.pop("PYTHONDONTWRITEBYTECODE", None)


def pytest_configure(config):
    """With `-n`, let processes take tests from each other: some have more of the slow ones."""
    keep_bytecode(getattr(config, "cache", None))
    if getattr(config.option, "dist", "no") == "load":
        config.option.dist = "worksteal"
    # What is read while tests are collected stays: the collector would look through it all, again and again. It is
    # not switched off, for Dask remembers whether it was when dask.array was imported.
    gc.set_threshold(1_000_000)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers():
    """With `-n auto`, take a process more than there are processors: while one waits for a disk or a child, it runs."""
    return int(os.environ.get("PYTEST_XDIST_AUTO_NUM_WORKERS", (os.cpu_count() or 1) + 1))


def pytest_ignore_collect(collection_path, config):
    """Read no file whose tests are not asked for."""
    return is_left_out(collection_path, config.option.markexpr) or None


def pytest_collection_modifyitems(config, items):
    """Leave out what has passed elsewhere, let slow tests begin first, and mark the quick ones."""
    if (file := config.getoption("passed")) is not None:
        left_out = set(passed_before(items, file, os.environ.get("ANYDML_EXPECT", "").split()))
        config.hook.pytest_deselected(items=list(left_out))
        items[:] = [item for item in items if item not in left_out]
    items[:] = in_order(items, int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1")))


def pytest_collection_finish():
    """Let the garbage collector pass over what stays to the end."""
    gc.freeze()
    gc.set_threshold(*THRESHOLDS)


def pytest_runtest_teardown(item):
    """What a test, or code that it runs, switches off is on again for others."""
    if not gc.isenabled():
        gc.enable()
        pytest.fail(f"{item.nodeid} left the garbage collector switched off")


def pytest_unconfigure():
    """Let the end of the process find everything: some libraries tell what is left then."""
    gc.unfreeze()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item):
    """Keep slow tests out of the quick ones, where those are asked for: others may run on any machine."""
    start = time.thread_time()
    result = yield
    if item.config.option.markexpr == "quick":
        keep_quick(item, time.thread_time() - start)
    return result


def pytest_terminal_summary(terminalreporter, config):
    """Print what passed tests recorded as the property ``in summary``, and keep which passed if that is asked for."""
    if (file := config.getoption("passed")) is not None:
        add_passed(terminalreporter.getreports("passed"), file)
    for report in terminalreporter.getreports("passed"):
        for name, value in report.user_properties:
            if name == "in summary":
                terminalreporter.write_line(value)
    for name in ("torch", "jax", "onnx", "einops"):
        if importlib.util.find_spec(name) is None:
            terminalreporter.write_line(f"{name} is not installed: tests that need it were left out")
