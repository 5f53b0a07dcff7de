"""Engines outside this process: a program that runs cases, or outputs that another machine has written."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from anydml.errors import ModelError


class NotRunError(Exception):
    """The engine's interface cannot express the case, so there is no verdict."""


class ExternalEngineError(Exception):
    """An engine outside this process refuses a case; the message is the engine's."""


class CrashError(Exception):
    """An engine outside this process was ended by a signal."""


class MissingError(NotRunError):
    """The outputs of another machine lack a case."""


class OutputError(Exception):
    """An engine has run a case, but its outputs cannot be read."""


class RunResult(NamedTuple):
    """The results of running a model file of DxDispatch.

    Attributes:
        arrays: the arrays that its commands wrote, as output_0.npy and so on.
        text: the text that it printed.
    """

    arrays: list[Any]
    text: str


class Command:
    """A program that gets the model, the folder of the inputs, and the folder for output_0.pb and so on."""

    def __init__(self, command: str) -> None:
        self.version = command
        rule = "write command:'program arguments'"
        try:
            self._words = shlex.split(command)
        except ValueError as error:
            raise ModelError(f"command:{command} cannot be read: {error}", rule=rule) from None
        if not self._words:
            raise ModelError("--engine command: has no program", rule=rule)
        program = shutil.which(self._words[0])
        if program is None:
            raise ModelError(f"command:{command}: there is no program {self._words[0]}", rule=rule)
        # Cases of DirectML are run in another folder.
        self._words[0] = os.path.abspath(program)

    def run(self, model: Path, inputs: Sequence[Any]) -> list[Any]:
        """Run a model."""
        from anydml.referee.case_folders import DATA

        with tempfile.TemporaryDirectory() as results:
            self._call(model, model.parent / DATA, Path(results))
            return _values(Path(results), model)

    def run_dxdispatch(self, model: Path) -> RunResult:
        """Run a model file of DxDispatch, in the folder that its commands write to."""
        with tempfile.TemporaryDirectory() as results:
            text = self._call(model, model.parent, Path(results), Path(results))
            return RunResult(written_outputs(Path(results)), text)

    def run_webnn(self, test: Mapping[str, Any], path: Path, test_number: int) -> list[Any]:
        """Run a test of WebNN, which the program gets as a separate file."""
        with tempfile.TemporaryDirectory() as results:
            alone = Path(results) / "test.json"
            alone.write_text(json.dumps({"tests": [test]}), encoding="utf-8")
            self._call(alone, Path(results), Path(results))
            return written_outputs(Path(results))

    def _call(self, model: Path, inputs: Path, results: Path, inside: Path | None = None) -> str:
        words = [*self._words, str(model), str(inputs), str(results)]
        # A file, not a pipe: processes that the program leaves behind may hold its output open.
        with tempfile.TemporaryFile() as errors:
            code = subprocess.run(words, stdout=errors, stderr=errors, check=False, cwd=inside).returncode
            errors.seek(0)
            text = errors.read().decode("utf-8", "replace")
        lines = text.strip().splitlines()
        if code < 0:
            raise CrashError(" ".join([signal.Signals(-code).name, *lines[-1:]]))
        if code:
            raise ExternalEngineError(lines[-1] if lines else f"it ended with {code}")
        return text


class WrittenOutputs:
    """Outputs that another machine has written beside the cases: CASE/NAME/output_0.pb, or CASE/NAME/error.txt."""

    def __init__(self, name: str) -> None:
        self.version, self._name = f"outputs in {name}", name

    def run(self, model: Path, inputs: Sequence[Any]) -> list[Any]:
        """Read the outputs of a model."""
        return _values(self._folder(model.parent / self._name), model)

    def run_dxdispatch(self, model: Path) -> RunResult:
        """Read the arrays and the text that a model file of DxDispatch wrote."""
        folder = self._folder(model.parent / self._name)
        printed = folder / PRINTED
        if (model.parent / PRINTED).exists() and not printed.exists():
            raise OutputError(f"there is no {PRINTED} in {self._name}")
        return RunResult(written_outputs(folder), printed.read_text("utf-8", "replace") if printed.exists() else "")

    def run_webnn(self, test: Mapping[str, Any], path: Path, test_number: int) -> list[Any]:
        """Read the outputs of a test of WebNN: of the third in gather.json, NAME/gather/2/output_0.npy and so on."""
        return written_outputs(self._folder(path.parent / self._name / path.stem / str(test_number)))

    def _folder(self, folder: Path) -> Path:
        if (folder / "error.txt").exists():
            raise ExternalEngineError((folder / "error.txt").read_text("utf-8", "replace").strip())
        if not folder.is_dir():
            raise MissingError(f"there is no folder {self._name} beside the case")
        return folder


def run_method(engine: Any, form: str) -> Callable[..., list[Any]]:
    """Return the engine's method that runs cases of a form.

    Raises:
        NotRunError: the engine does not support the form.
    """
    method: Callable[..., list[Any]] | None = getattr(engine, f"run_{form}", None)
    if method is None:
        raise NotRunError(f"this engine takes no cases of {form}")
    return method


WRITTEN = "output_{}.npy"
"""Names of outputs of WebNN and DirectML."""


PRINTED = "printed.txt"
"""The file with the text that a model of DxDispatch prints."""


def read_npy(path: Path) -> Any:
    """Return the array of a file.

    Raises:
        ModelError: the file has no array.
    """
    try:
        return np.load(path, allow_pickle=False)
    except (OSError, ValueError, EOFError):
        raise ModelError(f"{path} is not an array of NumPy", rule="outputs are .npy files") from None


def written_outputs(folder: Path) -> list[Any]:
    """Return the outputs that an engine has written to a folder: output_0.npy and so on.

    Raises:
        OutputError: an output is missing, or not an array.
    """
    count = len([*folder.glob(WRITTEN.format("*"))])
    try:
        return [read_npy(folder / WRITTEN.format(k)) for k in range(count)]
    except ModelError as error:
        raise OutputError(str(error)) from None


def _values(folder: Path, model: Path) -> list[Any]:
    """Return the outputs of a model that an engine has written to a folder: output_0.pb and so on.

    Raises:
        OutputError: an output does not have the type that the model declares.
    """
    from anydml.referee.protos import load_values, read_model

    try:
        return load_values(folder, "output", read_model(model).graph.output)
    except ModelError as error:
        raise OutputError(str(error)) from None
    except OSError as error:
        raise OutputError(f"{folder}: {error.strerror}") from None
