"""Engines outside of this process: a program that runs a case, or outputs that another machine has written."""

from __future__ import annotations

import shlex
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from anydml.errors import ModelError


class NotRunError(Exception):
    """The engine's interface cannot be given the case, which says nothing of the engine."""


class OutsideError(Exception):
    """What an engine outside of this process says of a case that it refuses."""


class CrashError(Exception):
    """An engine outside of this process ended by a signal."""


class Command:
    """A program: it is given the model, the folder of the inputs, and the folder to write output_0.pb and so on to."""

    def __init__(self, command: str) -> None:
        self.version = command
        self._words = shlex.split(command)
        if not self._words:
            raise ModelError("--engine command: has no program", rule="write command:'program arguments'")

    def run(self, model: Path, inputs: Sequence[Any]) -> list[Any]:
        """Run a model."""
        from anydml.referee.folders import DATA, loaded

        with tempfile.TemporaryDirectory() as results:
            given = [*self._words, str(model), str(model.parent / DATA), results]
            done = subprocess.run(given, capture_output=True, text=True, errors="replace", check=False)
            said = (done.stderr.strip().splitlines() or [f"it ended with {done.returncode}"])[-1]
            if done.returncode < 0:
                raise CrashError(said)
            if done.returncode:
                raise OutsideError(said)
            return loaded(Path(results), "output")


class Written:
    """Outputs that another machine has written beside the cases: CASE/NAME/output_0.pb, or CASE/NAME/error.txt."""

    def __init__(self, name: str) -> None:
        self.version, self._name = f"outputs in {name}", name

    def run(self, model: Path, inputs: Sequence[Any]) -> list[Any]:
        """Read the outputs of a model."""
        from anydml.referee.folders import loaded

        folder = model.parent / self._name
        if (folder / "error.txt").exists():
            raise OutsideError((folder / "error.txt").read_text("utf-8", "replace").strip())
        if not folder.is_dir():
            raise NotRunError(f"there is no folder {self._name} beside the case")
        return loaded(folder, "output")
