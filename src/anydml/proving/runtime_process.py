"""Runs of models on ONNX Runtime in another process, so that a crash of a kernel ends that process only."""

from __future__ import annotations

import contextlib
import os
import pickle
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any, Self

from onnx import ModelProto

from anydml.files.folder import Folder
from anydml.onnx.checks import reason, serialize
from anydml.processes import start_python
from anydml.proving.constants import with_data
from anydml.proving.running import runner

START = """
import pickle, signal, sys
signal.signal(signal.SIGINT, signal.SIG_DFL)
sys.path[:] = pickle.load(sys.stdin.buffer)
from anydml.proving.runtime_process import main
main()
"""
"""The code of the process, which has the same import path."""

Source = tuple[ModelProto, Folder | None]
"""A model and the folder of its external data, which is None if it has none or its data has been loaded."""


DEFAULT_SECONDS = 60.0
"""Limit of a run, in which a model is also loaded if it is its first."""


class RefusedError(Exception):
    """ONNX Runtime refuses a model or ends the process; the message says why."""


class UnansweredError(Exception):
    """The process ended before the result was known; the message says why."""


class Runtime:
    """A process that runs models; started at first use, and again after a model has ended the process.

    Args:
        sources: the models.
        seconds: the limit of a run.
    """

    def __init__(self, sources: Sequence[Source], seconds: float = DEFAULT_SECONDS) -> None:
        self._sources, self._seconds = sources, seconds
        self._process: subprocess.Popen[bytes] | None = None
        self._unsent: list[Any] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, error_class: type[BaseException] | None, error: object, trace: TracebackType | None) -> None:
        if self._process is not None:
            # If this process was interrupted, the other one still computes.
            self._process.kill()
        self._end()

    def run(self, run_number: int, inputs: Mapping[str, Any]) -> list[Any]:
        """Run a model.

        Args:
            run_number: the number of the model.
            inputs: arrays by name.

        Raises:
            RefusedError: the model or the inputs are refused, or the process ended.
            UnansweredError: the process took longer than the limit, or something else killed it.
            ModelError: a model is too large to be sent, or no process can be started.
        """
        if self._process is None:
            self._start()
        process = self._process
        assert process is not None, "it is started"
        late = threading.Event()

        def end() -> None:
            late.set()
            process.kill()

        timer = threading.Timer(min(self._seconds, threading.TIMEOUT_MAX), end)
        timer.start()
        try:
            assert process.stdin is not None, "it is a pipe"
            assert process.stdout is not None, "it is a pipe"
            while self._unsent:
                pickle.dump(self._unsent.pop(0), process.stdin)
            pickle.dump((run_number, dict(inputs)), process.stdin)
            process.stdin.flush()
            answer = pickle.load(process.stdout)
        except (OSError, EOFError, pickle.UnpicklingError):
            how = self._end()
            if late.is_set():
                more = "anydml prove --seconds allows more"
                raise UnansweredError(f"it takes longer than {self._seconds:g} s; {more}") from None
            # The system kills processes that take too much memory; either model may be the cause.
            raise (UnansweredError if how.endswith("SIGKILL") else RefusedError)(how) from None
        finally:
            timer.cancel()
        if isinstance(answer, str):
            raise RefusedError(answer)
        results: list[Any] = answer
        return results

    def _start(self) -> None:
        models, pipe = [(serialize(model), folder) for model, folder in self._sources], subprocess.PIPE
        self._process = start_python(START, "to run models", stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL)
        self._unsent = [sys.path, models]

    def _end(self) -> str:
        """End the process; return how it ended."""
        process, self._process = self._process, None
        if process is None:
            return ""
        with contextlib.suppress(OSError):
            # Closing the pipe flushes its buffer, which fails once the process has ended.
            process.communicate()
        code = process.wait()
        return f"its process ended by {signal.Signals(-code).name}" if code < 0 else f"its process ended with {code}"


def main() -> None:
    """Answer each request with results or an error message, until the standard input ends."""
    _write_no_dumps()
    with os.fdopen(os.dup(1), "wb") as answers:
        # Libraries may print to the standard output.
        os.dup2(2, 1)
        sources = pickle.load(sys.stdin.buffer)
        runners = dict[int, Any]()
        while True:
            try:
                number, inputs = pickle.load(sys.stdin.buffer)
            except EOFError:
                return
            answer: object
            try:
                if number not in runners:
                    data, folder = sources[number]
                    runners[number] = runner(with_data(ModelProto.FromString(data), folder))
                answer = runners[number](inputs)
            except Exception as error:  # ONNX Runtime raises errors of several types
                answer = reason(error)
            pickle.dump(answer, answers)
            answers.flush()


def _write_no_dumps() -> None:
    """Disable core dumps, on systems that have this limit."""
    if sys.platform == "win32":
        return
    import resource

    with contextlib.suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
