"""Threads, processes, forks and interrupts: nothing hangs, and every result is whole."""

import os
import subprocess
import sys

import pytest

from trust.children import forking

HANG = 600
needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")


@pytest.mark.parametrize(
    "scenario",
    [
        "threads",
        "threads_come_and_go",
        pytest.param("fork", marks=needs_fork),
        "spawn",
        pytest.param("forkserver", marks=needs_fork),
        "interrupt",
    ],
)
def test_nothing_is_lost(scenario):
    # Not measured: another thread may hold coverage's own lock at a fork, and the child would wait for it forever.
    command = [sys.executable, "-X", "faulthandler", "-W", "error::RuntimeWarning", "-m", "trust.many", scenario]
    done = subprocess.run(command, check=False, env=forking(), capture_output=True, text=True, timeout=HANG)
    assert (done.returncode, done.stdout) == (0, "well\n"), done.stderr
