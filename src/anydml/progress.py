"""Progress of long work: a bar on a terminal, a line every ten seconds elsewhere."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TextIO

from anydml.text import bytes_text

BAR_SECONDS = 0.1
"""Minimum time in seconds between two updates of the bar."""

LINE_SECONDS = 10.0
"""Minimum time in seconds between two lines."""

FIRST_SECONDS = 1.0
"""Seconds after which a line says that work of unknown extent goes on."""

CELLS = 24
"""Width of the bar in characters."""


class Progress:
    """A progress report on a stream.

    Args:
        total: all bytes (or items) of the work.
        done: the number of units that were finished before.
        stream: the stream to write to; stderr by default.
        show: formats a count; as bytes by default.
    """

    def __init__(
        self, total: int, done: int = 0, stream: TextIO | None = None, show: Callable[[int], str] = bytes_text
    ) -> None:
        self.total, self.done, self._before = total, done, done
        self._stream = sys.stderr if stream is None else stream
        self._show = show
        self._is_terminal = _is_terminal(self._stream)
        self._start = self._last = time.monotonic()
        self._lock = threading.Lock()
        self._width = 0

    def advance(self, count: int) -> None:
        """Report that `count` more are finished."""
        with self._lock:
            self.done += count
            now = time.monotonic()
            if now - self._last >= (BAR_SECONDS if self._is_terminal else LINE_SECONDS):
                self._last = now
                self._show_progress(now)

    def close(self) -> None:
        """Erase the bar."""
        if self._width:
            self._write("\r" + " " * self._width + "\r")

    def text(self, now: float) -> str:
        """Return share, counts, rate, and time left."""
        spent, done = now - self._start, self.done - self._before
        rate = done / spent if spent > 0 else 0.0
        share = self.done / self.total if self.total else 1.0
        text = f"{share:4.0%} {self._show(self.done)} of {self._show(self.total)}"
        if rate:
            text += f", {self._show(int(rate))}/s, {_duration((self.total - self.done) / rate)} left"
        return text

    def _show_progress(self, now: float) -> None:
        full = min(CELLS, CELLS * self.done // max(1, self.total))
        self.say(self.text(now), f"[{'#' * full}{'.' * (CELLS - full)}] ")

    @property
    def is_terminal(self) -> bool:
        """Whether a line can be erased."""
        return self._is_terminal

    def say(self, text: str, before: str = "") -> None:
        """Write a line, on a terminal in place of the last line; `before` is put in front if there is space."""
        if not self._is_terminal:
            self._write(text.strip() + "\n")
            return
        line = before + text
        columns = _columns(self._stream)
        if columns and len(line) >= columns:
            # A wrapped line could not be erased. The last column stays free: some terminals wrap after it.
            line = text.strip()[: columns - 1]
            self._width = min(self._width, columns - 1)
        self._write("\r" + line.ljust(self._width))
        self._width = len(line)

    def _write(self, text: str) -> None:
        try:
            self._stream.write(text)
            self._stream.flush()
        except (AttributeError, OSError, ValueError):
            # The stream is closed; the work continues without a report.
            self._is_terminal, self._width = False, 0


class Waiting:
    """Says how long work has gone on whose extent is not known yet, from the first second.

    Args:
        message: the name of the work, such as "reshard: planning".
        stream: the stream to write to; stderr by default.
    """

    def __init__(self, message: str, stream: TextIO | None = None) -> None:
        self._message, self._bar, self._start = message, Progress(0, 0, stream), time.monotonic()
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._go_on, daemon=True)
        self._thread.start()

    def _go_on(self) -> None:
        while not self._is_over.wait(self.tick(time.monotonic())):
            pass

    def tick(self, now: float) -> float:
        """Write the progress; return the seconds until the next call."""
        spent = now - self._start
        if spent >= FIRST_SECONDS:
            self._bar.say(f"{self._message}, {_duration(spent)}")
        return FIRST_SECONDS if spent < FIRST_SECONDS or self._bar.is_terminal else LINE_SECONDS

    def close(self) -> None:
        """Stop, and erase the line."""
        self._is_over.set()
        self._thread.join()
        self._bar.close()


@contextmanager
def waiting(message: str, is_shown: bool = True) -> Iterator[None]:
    """Say from the first second how long the work of a block has gone on.

    Args:
        message: the name of the block's work, such as "reshard: planning".
        is_shown: whether to say it.
    """
    if not is_shown:
        yield
        return
    shown_while = Waiting(message)
    try:
        yield
    finally:
        shown_while.close()


def _is_terminal(stream: TextIO | None) -> bool:
    try:
        return stream is not None and stream.isatty()
    except ValueError:
        # The stream is closed.
        return False


def _columns(stream: TextIO) -> int:
    """Return the terminal's width in characters, or 0 if unknown."""
    try:
        return os.get_terminal_size(stream.fileno()).columns
    except (OSError, ValueError):
        return 0


def _duration(seconds: float) -> str:
    rounded = round(seconds)
    if rounded < 60:
        return f"{rounded} s"
    return (
        f"{rounded // 60}:{rounded % 60:02} min" if rounded < 3600 else f"{rounded // 3600}:{rounded % 3600 // 60:02} h"
    )


@contextmanager
def progress_bar(
    total: int,
    done: int = 0,
    progress: bool | Callable[[int], None] = True,
    show: Callable[[int], str] = bytes_text,
) -> Iterator[Callable[[int], None]]:
    """Show progress; the context's value is a function that is called with each count that is finished.

    Args:
        total: all bytes (or items) of the work.
        done: the number of units that were finished before.
        progress: whether to report on stderr, or a function that receives the counts instead.
        show: formats a count.
    """
    if progress is not True:
        yield progress if callable(progress) else lambda count: None
        return
    bar = Progress(total, done, show=show)
    try:
        yield bar.advance
    finally:
        bar.close()
