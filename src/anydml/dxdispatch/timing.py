"""The dispatch loop and its statistics, following DxDispatch's executor and its output for the CPU."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass

from anydml.progress import progress_bar
from anydml.text import count_noun


@dataclass(frozen=True)
class Timing:
    """DxDispatch's timing options.

    Attributes:
        iterations: samples to take (``-i``).
        repeat: dispatches per sample (``-r``); a sample is their mean.
        milliseconds: if given, sample for this time and ignore `iterations` (``-t``).
        interval: minimum time in milliseconds between the starts of two samples (``-I``).
        warmup: maximum number of samples counted as cold (``-w``); at least one always counts as hot.
        verbosity: 0 for the hot median, 1 for initialization, cold and hot timings, 2 for every sample as well
            (``-v``).

    Raises:
        ValueError: a number is out of range.

    Examples:
        >>> from anydml.dxdispatch import Timing
        >>> Timing(iterations=10, verbosity=1).warmup
        1
    """

    iterations: int = 1
    repeat: int = 1
    milliseconds: float | None = None
    interval: float = 0
    warmup: int = 1
    verbosity: int = 0

    def __post_init__(self) -> None:
        if self.repeat < 1:
            raise ValueError(f"repeat must be 1 or more, not {self.repeat}: a sample needs a dispatch")
        for name in ("iterations", "repeat", "milliseconds", "interval", "warmup"):
            count = getattr(self, name) or 0
            if not 0 <= count < 1 << 32:
                raise ValueError(f"{name} must be 0 or more and less than 2³², as in DxDispatch, not {count}")
        if self.verbosity not in (0, 1, 2):
            raise ValueError(f"verbosity must be 0, 1 or 2, not {self.verbosity}")


def measure(
    dispatch: Callable[[], object], timing: Timing, progress: bool | Callable[[int], None] = False
) -> list[float]:
    """Dispatch repeatedly and measure.

    Args:
        dispatch: dispatches once.
        timing: number of samples, or time to sample.
        progress: as for `anydml.progress.progress_bar`; counts are samples, or milliseconds if `timing` limits these.

    Returns:
        The time of each sample in milliseconds.
    """
    with _progress(timing, progress) as advance:
        return _measure(dispatch, timing, advance)


def _progress(timing: Timing, progress: bool | Callable[[int], None]) -> AbstractContextManager[Callable[[int], None]]:
    if timing.milliseconds is None:
        return progress_bar(timing.iterations, progress=progress, show=lambda count: f"{count} samples")
    return progress_bar(int(timing.milliseconds), progress=progress, show=lambda count: f"{count} ms")


def _measure(dispatch: Callable[[], object], timing: Timing, advance: Callable[[int], None]) -> list[float]:
    samples: list[float] = []
    reported = 0
    begin = time.perf_counter()
    while timing.milliseconds is not None or len(samples) < timing.iterations:
        start = time.perf_counter()
        for _ in range(timing.repeat):
            dispatch()
        elapsed = _seconds_since(start)
        samples.append(elapsed / timing.repeat)
        reached = (
            len(samples) if timing.milliseconds is None else min(int(_seconds_since(begin)), int(timing.milliseconds))
        )
        advance(reached - reported)
        reported = reached
        seconds_left = max(0.0, timing.interval - _seconds_since(start))
        if timing.milliseconds is not None and _seconds_since(begin) + seconds_left > timing.milliseconds:
            break
        if seconds_left:
            time.sleep(seconds_left / 1000)
    return samples


def _seconds_since(start: float) -> float:
    return (time.perf_counter() - start) * 1000


def report(name: str, samples: Sequence[float], timing: Timing) -> Iterator[str]:
    """Yield DxDispatch's report on the samples of a dispatch command; nothing if there are none."""
    if not samples:
        return
    cold_count = min(len(samples) - 1, timing.warmup)
    cold, hot = samples[:cold_count], samples[cold_count:]
    head = f"Dispatch '{name}': {count_noun(len(samples), 'iteration')}"
    if timing.verbosity == 0:
        yield f"{head}, {_median(hot):.4f} ms{' median' if len(hot) > 1 else ''} (CPU)"
        return
    yield head
    if cold:
        yield f"CPU Timings (Cold) : {_statistics(cold)}"
    yield f"CPU Timings (Hot)  : {_statistics(hot)}"
    if timing.verbosity == 2:
        yield "The timings of each iteration: "
        for i, sample in enumerate(samples):
            yield f"iteration {i}: {sample:.4f} ms (CPU)"


def _median(samples: Sequence[float]) -> float:
    # Of two middle samples, DxDispatch takes the upper one.
    return sorted(samples)[len(samples) // 2]


def _statistics(samples: Sequence[float]) -> str:
    mean, low, middle, high = sum(samples) / len(samples), min(samples), _median(samples), max(samples)
    return f"{len(samples)} samples, {mean:.4f} ms average, {low:.4f} ms min, {middle:.4f} ms median, {high:.4f} ms max"
