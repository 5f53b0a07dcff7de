"""Runs `guard_child` again and again, each time in a fork of its own: to import the compiler takes a second.

Every line that is read is the arguments, as JSON, with a file for what is printed before them; every line that is
written is how that process ended.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import traceback
from pathlib import Path

from . import guard_child
from .children import environment

HANG = 900
"""Seconds after which a process is ended."""


class Forks:
    """The process that forks, seen from that of the tests."""

    def __enter__(self) -> Forks:
        command = [sys.executable, "-m", "trust.guard_forks"]
        self._process = subprocess.Popen(
            command, env=environment(), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        return self

    def __exit__(self, *_: object) -> None:
        self._process.communicate()

    def run(self, printed: Path, *arguments: str) -> int:
        """How `guard_child` with these arguments ended: its exit code, or less than 0 and a signal's number."""
        self._process.stdin.write(json.dumps([str(printed), *arguments]) + "\n")
        self._process.stdin.flush()
        return int(self._process.stdout.readline())


def run(printed: str, *arguments: str) -> int:
    """Run it in a fork."""
    if child := os.fork():
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    code = 1
    try:
        signal.alarm(HANG)
        file = os.open(printed, os.O_CREAT | os.O_WRONLY | os.O_TRUNC)
        for number in (1, 2):
            os.dup2(file, number)
        guard_child.main(arguments)
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def main() -> None:
    """Import what every kernel takes, then serve."""
    import numba
    from anydml.engines.cpu.kernels import driver  # noqa: F401

    # With its first function Numba reads what it knows of Python's.
    numba.njit("int64()")(lambda: 0)
    for line in sys.stdin:
        print(run(*json.loads(line)), flush=True)


if __name__ == "__main__":
    main()
