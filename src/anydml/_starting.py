"""Ctrl-C while the command is still being imported: it ends, as it does later, without a traceback.

Python calls a handler between any two steps of an import, and what it raises there may come out as any other error. So
until `main` has begun, the process just ends: to import this module is enough. A program that imports anydml keeps its
own handling. Whatever this module imports could itself be interrupted: so it is what is built into Python, and `os`,
which Python has imported by then. (`signal` imports `enum`, and what that needs.)
"""

import _signal as signal  # type: ignore[import-not-found]
import os
import sys

INTERRUPTED = 130
"""What a shell says of a process that SIGINT has ended: 128 + 2."""


def is_command(arguments: list[str]) -> bool:
    """Whether a process was started as ``anydml`` or by ``python -m anydml``, while its package is being imported.

    Args:
        arguments: `sys.argv`, whose first is ``-m`` until the module that was asked for has been found.
    """
    program = arguments[0] if arguments else ""
    return program == "-m" or os.path.basename(program) in ("anydml", "anydml.exe")


def end_quietly() -> None:
    """Let an interruption end the process at once, if this is the command and nobody else handles it."""
    if is_command(sys.argv) and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        try:
            signal.signal(signal.SIGINT, _end)
        except ValueError:
            # Only the main thread may, and only there is anything interrupted.
            return


def handle_as_usual() -> None:
    """From here on an interruption raises KeyboardInterrupt again."""
    if signal.getsignal(signal.SIGINT) is _end:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _end(number: int, frame: object) -> None:
    os._exit(INTERRUPTED)


end_quietly()
