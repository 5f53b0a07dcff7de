"""Models on ONNX Runtime in a process of its own, which ends there where a kernel ends the process."""

from __future__ import annotations

import contextlib
import os
import pickle
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any, Self

from onnx import ModelProto

from anydml.errors import ModelError
from anydml.files.folder import Folder
from anydml.onnx.checks import reason, serialize
from anydml.proving.constants import with_data
from anydml.proving.running import runner

START = """
import pickle, signal, sys
signal.signal(signal.SIGINT, signal.SIG_DFL)
sys.path[:] = pickle.load(sys.stdin.buffer)
from anydml.proving.runtime_process import main
main()
"""
"""The code of the process, which imports from the same places."""

Source = tuple[ModelProto, Folder | None]
"""A model, and the folder of its external data; None where there is none or it has been loaded."""


class RefusedError(Exception):
    """ONNX Runtime does not run a model, or ends the process; its message says why."""


class Runtime:
    """A process that runs models; it is started when it is first needed, and again when a model has ended it.

    Args:
        sources: the models.
    """

    def __init__(self, sources: Sequence[Source]) -> None:
        self._sources = sources
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: object, trace: TracebackType | None) -> None:
        if self._process is not None:
            # It computes on where this process was interrupted.
            self._process.kill()
        self._end()

    def run(self, number: int, inputs: Mapping[str, Any]) -> list[Any]:
        """Run a model.

        Args:
            number: which of the models.
            inputs: arrays by name.

        Raises:
            RefusedError: the model or the inputs are refused, or the process ended.
            ModelError: a model is too large to be sent, or no process can be started.
        """
        process = self._start()
        try:
            assert process.stdin is not None, "it is a pipe"
            assert process.stdout is not None, "it is a pipe"
            pickle.dump((number, dict(inputs)), process.stdin)
            process.stdin.flush()
            answer = pickle.load(process.stdout)
        except (OSError, EOFError, pickle.UnpicklingError):
            raise RefusedError(self._end()) from None
        if isinstance(answer, str):
            raise RefusedError(answer)
        results: list[Any] = answer
        return results

    def _start(self) -> subprocess.Popen[bytes]:
        if self._process is None:
            models = [(serialize(model), folder) for model, folder in self._sources]
            if not sys.executable or getattr(sys, "frozen", False):
                # An application's own executable would start the application again.
                raise ModelError("models are run by a Python interpreter, and sys.executable names none")
            # -P, because the current folder must not be searched for modules.
            command, pipe = [sys.executable, "-P", "-c", START], subprocess.PIPE
            try:
                self._process = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL)
            except OSError as error:
                raise ModelError(f"{sys.executable}, which would run models, is not started: {reason(error)}") from None
            assert self._process.stdin is not None, "it is a pipe"
            with contextlib.suppress(OSError):  # of a process that has ended, which is seen when it does not answer
                pickle.dump(sys.path, self._process.stdin)
                pickle.dump(models, self._process.stdin)
        return self._process

    def _end(self) -> str:
        """End the process; return how it ended."""
        process, self._process = self._process, None
        if process is None:
            return ""
        with contextlib.suppress(OSError):
            # What was not sent cannot be, once it has ended.
            process.communicate()
        code = process.wait()
        return f"its process ended by {signal.Signals(-code).name}" if code < 0 else f"its process ended with {code}"


def main() -> None:
    """Answer with results, or with a text that says why there are none, until the standard input ends."""
    _write_no_dumps()
    with os.fdopen(os.dup(1), "wb") as answers:
        # Libraries may print.
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
    """Write no dump of memory when the process ends, where the system has such a limit."""
    if sys.platform == "win32":
        return
    import resource

    with contextlib.suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
