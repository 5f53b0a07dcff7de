"""What the command says, and on which stream; a stream may be closed or full."""

from __future__ import annotations

import contextlib
import os
import re
import sys
import warnings
from collections.abc import Iterator
from typing import Any, TextIO

from anydml.text import printable

MOST_CHARACTERS = 2000
"""Of an error, which may repeat what a file says."""

_STRANGE = re.compile(r"[^\n\t -~]+")
"""What may command a terminal; tabs and newlines are ours, those of names are escaped where the line is made."""


def say(line: str) -> None:
    """A line of the output; what may command a terminal is escaped.

    Raises:
        OSError: it cannot be written.
    """
    try:
        print(_STRANGE.sub(lambda match: printable(match[0]), line), flush=True)
    except BrokenPipeError:
        raise
    except OSError as error:
        raise OSError(f"the output cannot be written: {error.strerror}") from None


def warn(line: str) -> None:
    """A warning on standard error, if that is open."""
    # Standard error may be closed; the work goes on without it.
    with contextlib.suppress(OSError):
        print("anydml: warning:", printable(line), file=sys.stderr, flush=True)


@contextlib.contextmanager
def libraries_warnings() -> Iterator[None]:
    """Say in a line each, once, what libraries warn of: Python would add places in their sources."""
    said = set()

    def show(message: Warning | str, *_: Any, **__: Any) -> None:
        line = " ".join(str(message).split())
        if line not in said:
            said.add(line)
            warn(line)

    with warnings.catch_warnings():
        warnings.showwarning = show
        yield


def fail(message: str) -> int:
    """An error of the user's, as one line on standard error; the exit code that it has."""
    try:
        sys.stdout.flush()
    except OSError:
        give_up(sys.stdout)
    line = " ".join(message.splitlines())
    if len(line) > MOST_CHARACTERS:
        line = f"{line[: MOST_CHARACTERS // 2]} … {line[-MOST_CHARACTERS // 2 :]}"
    try:
        print("anydml:", printable(line), file=sys.stderr, flush=True)
    except OSError:
        give_up(sys.stderr)
    return 2


def give_up(stream: TextIO) -> None:
    """Let nothing more be written to a stream that fails; Python would try, and complain, once more at its end."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
