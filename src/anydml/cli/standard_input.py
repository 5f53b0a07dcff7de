"""Models that are piped into a command, whose argument MODEL is then -."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from anydml.errors import AnydmlError, ModelError

STANDARD_INPUT = "-"
"""The argument that stands for standard input."""


@dataclass(frozen=True)
class ModelFile:
    """A model to read.

    Attributes:
        path: the file, which is a temporary copy of standard input if `name` is -.
        name: the command's argument.
        folder: the folder that relative paths in the model start from; None for that of the file.
    """

    path: str
    name: str
    folder: Path | None = None

    def with_name(self, text: str) -> str:
        """Return a message that names the argument instead of the temporary copy."""
        return text if self.path == self.name else text.replace(self.path, "standard input")


@contextmanager
def model_file(model: str) -> Iterator[ModelFile]:
    """Yield the file of an argument MODEL: itself, or a copy of standard input, which lasts as long as the context.

    The copy is taken for JSON if it begins like a JSON text or a comment, otherwise for ONNX. Relative paths in it
    start from the current folder.

    Raises:
        ModelError: standard input is closed.
        AnydmlError: those raised in the context; their messages name standard input instead of the copy.
    """
    if model != STANDARD_INPUT:
        yield ModelFile(model, model)
        return
    if sys.stdin is None:
        raise ModelError("standard input is closed: name a file, or pipe a model into the command")
    stream = sys.stdin.buffer
    with TemporaryDirectory() as folder:
        begin = stream.read(1)
        is_text = begin.isspace() or begin in (b"{", b"[", b"/", b"\xef")
        path = Path(folder, "model.json" if is_text else "model.onnx")
        with path.open("wb") as file:
            file.write(begin)
            shutil.copyfileobj(stream, file)
        try:
            here = Path.cwd()
        except OSError:
            message = "standard input: the current folder, from which paths in the model start, was removed"
            raise ModelError(message) from None
        copied = ModelFile(str(path), model, here)
        try:
            yield copied
        except AnydmlError as error:
            error.args = (copied.with_name(str(error)), *error.args[1:])
            raise
