"""What coverage looks at: not at kernels that are interpreted, nor at more cases of what it has seen for long."""

import collections
import contextlib
import os
import re
import sys

SECONDS = 0.5
"""Of a processor that coverage looks at cases which differ in numbers alone: it takes as long as the tests themselves,
and such cases run the same lines. What is measured can only become less by it."""

FUNCTION_SECONDS = 4.0
"""Likewise for all cases of one test function."""


@contextlib.contextmanager
def unmeasured():
    """Within this, coverage looks at nothing this thread does, where it would have to be told of every call."""
    tracer = sys.gettrace()
    if not type(tracer).__module__.startswith("coverage"):
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
        without: a context within which nothing is measured.
    """

    def __init__(self, clock=cpu_seconds, without=unmeasured):
        self._clock, self._without = clock, without
        self._seconds = collections.Counter()

    @contextlib.contextmanager
    def measured(self, name):
        """Within this a test of this name runs, measured unless its kind was for long enough."""
        function, _, case = name.partition("[")
        kind = function, re.sub(r"\d+", "0", case)
        if self._seconds[kind] > SECONDS or self._seconds[function] > FUNCTION_SECONDS:
            with self._without():
                yield
            return
        start = self._clock()
        try:
            yield
        finally:
            seconds = self._clock() - start
            self._seconds[kind] += seconds
            self._seconds[function] += seconds
