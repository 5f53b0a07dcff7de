"""Exit without a traceback when the command is interrupted by Ctrl-C while its modules are still being imported.

Python may run a signal handler at any point of an import, and an exception raised there can surface as an unrelated
error. Importing this module therefore installs a handler that exits the process, which stays in place until `main`
begins. Programs that import anydml as a library keep their own handling.

An import here could be interrupted, too, so this module imports only built-in modules and `os`, which is loaded before
any user code. That is why it uses `_signal`: `signal` would import `enum` and its dependencies.
"""

import _signal as signal  # type: ignore[import-not-found]
import os
import sys

INTERRUPTED = 130
"""Exit code by which shells report a process ended by SIGINT: 128 + 2."""


def is_command(arguments: list[str]) -> bool:
    """Return whether the process was started as ``anydml`` or ``python -m anydml``.

    Valid only while the package is being imported.

    Args:
        arguments: `sys.argv`. With ``python -m`` its first item is ``-m`` until Python has located the module.
    """
    program = arguments[0] if arguments else ""
    return program == "-m" or os.path.basename(program) in ("anydml", "anydml.exe")


def end_quietly() -> None:
    """Exit at once on SIGINT, if this process is the command and no other handler is installed."""
    if is_command(sys.argv) and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        try:
            signal.signal(signal.SIGINT, _end)
        except ValueError:
            # Not the main thread, which alone can install handlers and receives KeyboardInterrupt.
            return


def handle_as_usual() -> None:
    """Restore Python's default handler, which raises KeyboardInterrupt."""
    if signal.getsignal(signal.SIGINT) is _end:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _end(number: int, frame: object) -> None:
    try:
        os.write(2, b"\nanydml: interrupted\n")
    finally:
        # Standard error may be closed.
        os._exit(INTERRUPTED)


end_quietly()
