"""What coverage looks at: tests, not what pytest does around them, nor more cases of what it has seen for long."""

import collections
import contextlib
import os
import re
import sys

SECONDS = 0.25
"""Of a processor that coverage looks at cases which differ in numbers alone: it takes as long as the tests themselves,
and such cases run the same lines. What is measured can only become less by it."""

FUNCTION_SECONDS = 2.0
"""Likewise for all cases of one test function."""


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


class Repetitions:
    """How long each kind of case has been measured.

    Args:
        clock: seconds of a processor until now.
        tracer: gives what can be stopped and started, if anything measures.
    """

    def __init__(self, clock=cpu_seconds, tracer=tracer_of_coverage):
        self._clock, self._find = clock, tracer
        self._seconds = collections.Counter()
        self._tracer = None

    def between(self):
        """From now on, only what runs within `measured` is looked at."""
        self._tracer = self._find()
        if self._tracer is not None:
            self._tracer.stop()

    @contextlib.contextmanager
    def measured(self, name):
        """Within this a test of this name runs, measured unless its kind was for long enough."""
        function, _, case = name.partition("[")
        kind = function, re.sub(r"\d+", "0", case)
        if self._tracer is None or self._seconds[kind] > SECONDS or self._seconds[function] > FUNCTION_SECONDS:
            yield
            return
        start = self._clock()
        self._tracer.start()
        try:
            yield
        finally:
            self._tracer.stop()
            seconds = self._clock() - start
            self._seconds[kind] += seconds
            self._seconds[function] += seconds
