"""Threads, processes, forks and interrupts: nothing hangs, and every result is whole."""

import os
import subprocess
import sys

import pytest

from trust.children import forking, give_kernels

HANG = 600
PROCESSES = 4


def start(scenario, cache):
    # Not measured: another thread may hold coverage's own lock at a fork, and the child would wait for it forever.
    given = forking(NUMBA_CACHE_DIR=str(cache)) if cache else forking()
    command = [sys.executable, "-X", "faulthandler", "-m", "trust.many", scenario]
    return subprocess.Popen(command, env=given, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def finish(process):
    try:
        out, errors = process.communicate(timeout=HANG)
    except subprocess.TimeoutExpired:
        process.kill()
        out, errors = process.communicate()
    assert (process.returncode, out) == (0, "well\n"), errors


SLOW = ("whole", "prepare", "dispatch", "turn", "rows", "fill", "lookup_rows", "lookup_lines", "lookup_elements")
"""Functions whose kernels lie in the cache: compiling them takes half of all seconds. So some are found while others
are compiled: those of elements and tables, two dozen, which several threads want at once, and those of the pool."""


def test_threads_while_kernels_are_compiled(tmp_path):
    give_kernels(tmp_path, *SLOW)
    finish(start("threads", tmp_path))


needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")


@pytest.mark.parametrize(
    "scenario", ["threads_come_and_go", pytest.param("fork", marks=needs_fork), "spawn", "interrupt"]
)
def test_alone(scenario):
    finish(start(scenario, None))


def test_processes_that_fill_one_cache(tmp_path):
    # Left are the kernels of the cases.
    give_kernels(tmp_path, "dispatch")
    given = {*tmp_path.rglob("*.kernel")}
    processes = [start("compile_all", tmp_path) for _ in range(PROCESSES)]
    for process in processes:
        finish(process)
    assert {*tmp_path.rglob("*.kernel")} > given
    finish(start("compile_all", tmp_path))
