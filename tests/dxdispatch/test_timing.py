from __future__ import annotations

import itertools
import math

import pytest

from anydml.dxdispatch import timing as module
from anydml.dxdispatch.timing import Timing, measure, report


@pytest.fixture
def clock(monkeypatch):
    """A clock on which every dispatch takes 2 ms, and which sleeps are added to."""

    class Clock:
        now = 0.0
        dispatches = 0

        def dispatch(self):
            self.now += 0.002
            self.dispatches += 1

        def sleep(self, seconds):
            self.now += seconds

    made = Clock()
    monkeypatch.setattr(module.time, "perf_counter", lambda: made.now)
    monkeypatch.setattr(module.time, "sleep", made.sleep)
    return made


def test_iterations_and_repeats(clock):
    samples = measure(clock.dispatch, Timing(iterations=3, repeat=4))
    assert samples == pytest.approx([2, 2, 2])
    assert clock.dispatches == 12


def test_no_iterations_say_nothing(clock):
    assert measure(clock.dispatch, Timing(iterations=0)) == []
    assert list(report("x", [], Timing(iterations=0))) == []


def test_milliseconds_override_iterations(clock):
    assert len(measure(clock.dispatch, Timing(iterations=1, milliseconds=9))) == 5


def test_the_interval_is_slept_through(clock):
    assert measure(clock.dispatch, Timing(iterations=3, interval=10)) == pytest.approx([2, 2, 2])
    assert clock.now == pytest.approx(0.03)


def test_the_interval_counts_against_the_time_to_run(clock):
    # 2 + 8 ms of sleep reach 10; a second sample would end after 20, more than 15.
    assert len(measure(clock.dispatch, Timing(milliseconds=15, interval=10))) == 2


def lines(samples, **options):
    return list(report("x", samples, Timing(**options)))


@pytest.mark.parametrize(
    ("count", "warmup", "cold", "hot"), [(1, 2, 0, 1), (2, 2, 1, 1), (3, 2, 2, 1), (4, 2, 2, 2), (5, 0, 0, 5)]
)
def test_cold_and_hot(count, warmup, cold, hot):
    found = lines([1.0] * count, warmup=warmup, verbosity=1)
    counts = [line.partition(": ")[2].split()[0] for line in found[1:]]
    assert counts == [str(n) for n in (cold, hot) if n]


def test_the_lines_of_each_verbosity():
    samples = [9.0, 1.0, 4.0, 2.0, 3.0]
    assert lines(samples) == ["Dispatch 'x': 5 iterations, 3.0000 ms median (CPU)"]
    extended = [
        "Dispatch 'x': 5 iterations",
        "CPU Timings (Cold) : 1 samples, 9.0000 ms average, 9.0000 ms min, 9.0000 ms median, 9.0000 ms max",
        "CPU Timings (Hot)  : 4 samples, 2.5000 ms average, 1.0000 ms min, 3.0000 ms median, 4.0000 ms max",
    ]
    assert lines(samples, verbosity=1) == extended
    every = [f"iteration {i}: {sample:.4f} ms (CPU)" for i, sample in zip(itertools.count(), samples, strict=False)]
    assert lines(samples, verbosity=2) == [*extended, "The timings of each iteration: ", *every]


NUMBERS = ("iterations", "repeat", "milliseconds", "interval", "warmup")


@pytest.mark.parametrize(
    "wrong", [{"repeat": 0}, {"verbosity": 3}, *({n: number} for n in NUMBERS for number in (-1, 1 << 32, math.nan))]
)
def test_numbers_out_of_range(wrong):
    (name,) = wrong
    with pytest.raises(ValueError, match=f"^{name} must be"):
        Timing(**wrong)


@pytest.mark.parametrize("timing, wanted", [(Timing(7), 7), (Timing(9, milliseconds=20, interval=3), 20)])
def test_it_says_how_far_it_is(timing, wanted):
    seen = []
    measure(lambda: None, timing, seen.append)
    assert sum(seen) == wanted if timing.milliseconds is None else 0 < sum(seen) <= wanted
