"""Ctrl-C while the command is still being imported: it ends, as it does later, without a traceback.

Python calls a handler between any two steps of an import, and what it raises there may come out as any other error. So
until `main` has begun, the process just ends: to import this module is enough. A program that imports anydml keeps its
own handling.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from pathlib import PurePath
from typing import Any

INTERRUPTED = 130
"""What a shell says of a process that SIGINT has ended: 128 + 2."""


def is_command(arguments: list[str]) -> bool:
    """Whether a process was started as ``anydml`` or by ``python -m anydml``, while its package is being imported.

    Args:
        arguments: `sys.argv`, whose first is ``-m`` until the module that was asked for has been found.
    """
    program = PurePath(arguments[0]) if arguments else PurePath()
    return str(program) == "-m" or program.name in ("anydml", "anydml.exe")


def end_quietly() -> None:
    """Let an interruption end the process at once, if this is the command and nobody else handles it."""
    main = threading.current_thread() is threading.main_thread()
    if main and is_command(sys.argv) and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _end)


def handle_as_usual() -> None:
    """From here on an interruption raises KeyboardInterrupt again."""
    if signal.getsignal(signal.SIGINT) is _end:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _end(number: int, frame: Any) -> None:
    os._exit(INTERRUPTED)


end_quietly()
