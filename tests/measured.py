"""What coverage looks at: tests and the processes that they start, not what pytest does around them, nor more cases of
what it has seen for long."""

import collections
import contextlib
import os
import re
import sys
import threading

SECONDS = 0.25
"""Of a processor that coverage looks at cases which differ in numbers alone: it takes as long as the tests themselves,
and such cases run the same lines. What is measured can only become less by it."""

FUNCTION_SECONDS = 2.0
"""Likewise for all cases of one test function."""

PATIENCE = 0.2
"""The part of both after which such cases are left out where they have run no line that no test had run before."""

OF_PROCESSES = "COVERAGE_PROCESS_CONFIG"
"""The variable by which coverage measures processes that begin, too; it takes each as long as its imports."""


def tracer_of_coverage():
    """What coverage has Python tell of every call in this thread, if it does."""
    tracer = sys.gettrace()
    return tracer if type(tracer).__module__.startswith("coverage") else None


@contextlib.contextmanager
def unmeasured():
    """Within this, coverage looks at nothing this thread does, where it would have to be told of every call."""
    tracer = tracer_of_coverage()
    if tracer is None:
        yield
        return
    # Its own methods, not `sys.settrace`: so it does not lose count of the frames it is in.
    tracer.stop()
    try:
        yield
    finally:
        tracer.start()


def cpu_seconds():
    """What this process and those that it waited for have worked."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


class Measuring:
    """All of what measures here: this thread, threads and processes that begin, together.

    Args:
        tracer: what coverage has Python tell of every call in this thread.
    """

    def __init__(self, tracer):
        self._tracer = tracer
        self._of_threads, self._of_processes = threading.gettrace(), os.environ.get(OF_PROCESSES)

    def start(self):
        """Look at what this thread does, and at what begins from now on."""
        threading.settrace(self._of_threads)
        if self._of_processes is not None:
            os.environ[OF_PROCESSES] = self._of_processes
        self._tracer.start()

    def stop(self):
        """Look at none of it."""
        self._tracer.stop()
        os.environ.pop(OF_PROCESSES, None)
        threading.settrace(None)

    def seen(self):
        """How many ways from line to line this process was seen to go, by all tests so far."""
        return sum(map(len, list(self._tracer.data.values())))


def measuring():
    """What measures here, if anything does."""
    tracer = tracer_of_coverage()
    return None if tracer is None else Measuring(tracer)


class Repetitions:
    """How long each kind of case has been measured.

    Args:
        clock: seconds of a processor until now.
        find: gives what can be started and stopped and tells how much it has seen, if anything measures.
    """

    def __init__(self, clock=cpu_seconds, find=measuring):
        self._clock, self._find = clock, find
        self._seconds, self._in_vain = collections.Counter(), collections.Counter()
        self._measuring = None

    def between(self):
        """From now on, only what runs within `measured` is looked at."""
        self._measuring = self._find()
        if self._measuring is not None:
            self._measuring.stop()

    @contextlib.contextmanager
    def measured(self, name):
        """Within this a test of this name runs, measured unless its kind was for long enough."""
        function, _, case = name.partition("[")
        limits = {(function, re.sub(r"\d+", "0", case)): SECONDS, function: FUNCTION_SECONDS}
        if self._measuring is None or any(self._is_known(of, seconds) for of, seconds in limits.items()):
            yield
            return
        start, seen = self._clock(), self._measuring.seen()
        self._measuring.start()
        try:
            yield
        finally:
            self._measuring.stop()
            seconds, is_new = self._clock() - start, self._measuring.seen() > seen
            for of in limits:
                self._seconds[of] += seconds
                self._in_vain[of] = 0 if is_new else self._in_vain[of] + seconds

    def _is_known(self, of, seconds):
        return self._seconds[of] > seconds or self._in_vain[of] > PATIENCE * seconds
