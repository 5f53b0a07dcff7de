"""Workers stay off their caller's core, and keep to the cores that they were given."""

import os
import subprocess
import sys
import threading

import pytest

from anydml.backends.cpu.placement import Placement, current_core

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells where a thread runs")


@pytest.fixture
def sleeper():
    """The number of a thread that does nothing, and the cores that it may use."""
    done = threading.Event()
    thread = threading.Thread(target=done.wait)
    thread.start()
    yield thread.native_id, os.sched_getaffinity(thread.native_id)
    done.set()
    thread.join()


def test_the_current_core_is_the_one_that_a_thread_is_tied_to():
    def look():
        for core in sorted(os.sched_getaffinity(0)):
            os.sched_setaffinity(0, {core})
            seen.append((core, current_core()))

    seen = []
    thread = threading.Thread(target=look)
    thread.start()
    thread.join()
    assert seen
    assert all(tied == current for tied, current in seen)


def test_one_core_after_the_other_is_avoided_and_given_back(sleeper):
    number, allowed = sleeper
    placement = Placement(number)
    for core in [*sorted(allowed), min(allowed)]:
        placement.avoid(core)
        assert os.sched_getaffinity(number) == (allowed - {core} or allowed)
    placement.avoid(-1)
    assert os.sched_getaffinity(number) == allowed


def test_what_others_allow_later_counts(sleeper):
    number, allowed = sleeper
    placement = Placement(number)
    first, last = min(allowed), max(allowed)
    placement.avoid(first)
    os.sched_setaffinity(number, {first})
    for core in (last, first, -1):
        placement.avoid(core)
        assert os.sched_getaffinity(number) == {first}


def test_a_thread_that_has_ended_is_nobodys_problem():
    thread = threading.Thread(target=int)
    thread.start()
    thread.join()
    Placement(thread.native_id).avoid(current_core())


DISPATCH = """
import os, threading, numpy as np, anydml as dml
dml.set_num_threads(2)
allowed = os.sched_getaffinity(0)
x = np.ones((64, 1 << 18), np.float32)
dml.split(x, 4)
for core in sorted(allowed):
    os.sched_setaffinity(0, {core})
    dml.split(x, 4)
    worker, = [t for t in threading.enumerate() if t.name.startswith("anydml-")]
    assert os.sched_getaffinity(worker.native_id) == (allowed - {core} or allowed), core
"""


def test_a_dispatch_keeps_its_workers_off_the_callers_core():
    subprocess.run([sys.executable, "-c", DISPATCH], check=True)
