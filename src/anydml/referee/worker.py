"""A process that runs one engine over cases, with one line of JSON per case.

It reads the folder of a case from its input and writes a verdict to its output. The engine's own output goes to
standard error.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sys
import threading
import time
import warnings
from pathlib import Path

from anydml.errors import AnydmlError, ModelError
from anydml.referee.engines import open_engine
from anydml.referee.find_cases import find_case
from anydml.referee.verdicts import unreadable, verdict_of


def main(engine: str, memory: int) -> None:
    """Answer cases until the input ends.

    Args:
        engine: the engine's name.
        memory: maximum bytes beyond those of the loaded engine; 0 for no limit.
    """
    with os.fdopen(os.dup(1), "w", encoding="utf-8") as answers:
        os.dup2(2, 1)
        warnings.simplefilter("ignore")
        try:
            loaded = open_engine(engine)
        except AnydmlError as error:
            print(json.dumps({"error": str(error)}), file=answers, flush=True)
            return
        _limit(memory)
        threading.Thread(target=_end_with_parent, args=(os.getppid(),), daemon=True).start()
        print(json.dumps({"version": loaded.version}), file=answers, flush=True)
        for line in sys.stdin:
            path, test_number, name = json.loads(line)
            stored = find_case(Path(path), test_number, name)
            try:
                verdict = verdict_of(stored, loaded)
            except ModelError as error:
                verdict = unreadable(stored, error)
            print(json.dumps(verdict._asdict()), file=answers, flush=True)


def _end_with_parent(parent: int) -> None:
    """End when the parent process ends, even during a case, and end the engine's child processes."""
    while os.getppid() == parent:
        time.sleep(1)
    if sys.platform == "win32":
        os._exit(1)
    os.killpg(os.getpgid(0), signal.SIGKILL)


def _limit(memory: int) -> None:
    """Disable core dumps and limit the address space, on systems that have these limits."""
    if sys.platform == "win32":
        return
    import resource

    with contextlib.suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if not memory:
        return
    with contextlib.suppress(OSError, ValueError):
        pages = int(Path("/proc/self/statm").read_text("ascii").split()[0])
        limit = pages * resource.getpagesize() + memory
        resource.setrlimit(resource.RLIMIT_AS, (limit, resource.getrlimit(resource.RLIMIT_AS)[1]))
