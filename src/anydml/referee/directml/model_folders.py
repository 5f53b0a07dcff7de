"""Stored cases of DirectML: their model, the outputs that are expected, and those that were written."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from anydml.dxdispatch import jsonc, load
from anydml.dxdispatch.model import WriteFile
from anydml.dxdispatch.model_text import read_text
from anydml.errors import ModelError
from anydml.files.location import Location
from anydml.operators import NonzeroCoordinatesOperatorDesc, OperatorDesc
from anydml.referee.case_folders import StoredCase, read_about
from anydml.referee.directml.cases import EXPECTED, MODEL, tensor_view
from anydml.referee.external_engines import PRINTED, WRITTEN, OutputError, read_npy, run_method

LINE = re.compile(r"Resource '.*':|\[ *\d+\] ")
"""The beginning of what a print command prints, and of the lines of its verbose form."""

RESOURCE = "such a line begins with Resource 'NAME': as DxDispatch prints it"

TYPE = re.compile(r"(?<=') \(\w+ \[[\d, ]*\]\)(?=:)")


class StoredDirectml(StoredCase):
    """A case of DirectML in a folder."""

    MODEL: ClassVar[str] = MODEL
    form: ClassVar[str] = "dxdispatch"

    @property
    def is_exact(self) -> bool:
        """Whether outputs must be equal: operators that move data have no tolerance."""
        return True

    @property
    def is_printed(self) -> bool:
        """Whether the case expects printed text instead of arrays."""
        return (self.folder / PRINTED).exists()

    @property
    def model(self) -> Path:
        """The model's file."""
        return self.folder / MODEL

    @property
    def operator(self) -> str:
        """The operator; of a folder without `case.json`, the types of all dispatchables."""
        if "operator" in self.about:
            return str(self.about["operator"])
        try:
            return "+".join(dict.fromkeys(desc.OPERATOR for desc in self._descs())) or "no operator"
        except ModelError:
            # What cannot be read may be the engine's to refuse.
            return self.MODEL

    def check(self) -> None:
        """Check that the model is JSON, and, where arrays are expected, has one operator, which keeps its rules.

        Raises:
            ModelError: the folder has no such model, or the model lacks its files.
        """
        location = Location(str(self.model))
        if not isinstance(jsonc.loads(read_text(self.model, location), location), dict):
            raise location.error("is not a JSON object", rule=jsonc.A_MODEL)
        if self.is_valid and not self.is_printed:
            desc = self.desc()
            targets = {command.target.name for command in load(self.model).commands if isinstance(command, WriteFile)}
            if missing := {WRITTEN.format(k) for k in range(len(desc.outputs))} - targets:
                raise ModelError(f"{self.model} does not write {min(missing)}", rule="its commands write all outputs")

    def inputs(self) -> list[Any]:
        """Return None: the model has the inputs."""
        return []

    def outputs(self) -> list[Any]:
        """Return the outputs that are expected."""
        if not self.is_valid:
            return []
        if self.is_printed:
            lines = printed_lines((self.folder / PRINTED).read_text("utf-8", "replace"))
            if not lines.size:
                raise ModelError(f"{self.folder / PRINTED} has no line of a print command", rule=RESOURCE)
            return [lines]
        desc = self.desc()
        arrays = [read_npy(self.folder / EXPECTED.format(k)) for k in range(len(desc.outputs))]
        for (name, tensor), array in zip(desc.outputs, arrays, strict=True):
            if array.dtype != tensor.data_type.dtype or array.shape != (*tensor.sizes,):
                raise ModelError(
                    f"{self.folder}: the expected {name} is {array.dtype} of {[*array.shape]}",
                    rule=f"its desc has {tensor.data_type.name} of {[*tensor.sizes]}",
                )
        return without_undefined(desc, arrays)

    def outputs_by(self, engine: Any, inputs: Sequence[Any]) -> list[Any]:
        """Return the elements of outputs in the memory that an engine has written.

        Args:
            engine: an engine of `anydml.referee.engines`.
            inputs: none.

        Raises:
            NotRunError: the engine takes no such cases.
            OutputError: what was written is too short.
            Exception: what the engine raises.
        """
        outputs, text = run_method(engine, self.form)(self.model)
        if self.is_valid and self.is_printed:
            return [printed_lines(text)]
        if not self.is_valid or not outputs:
            return [*outputs]
        desc = self.desc()
        arrays = []
        for (name, tensor), flat in zip(desc.outputs, outputs, strict=False):
            min_size = 1 + sum((n - 1) * s for n, s in zip(tensor.sizes, tensor.element_strides, strict=True))
            if flat.dtype != tensor.data_type.dtype or flat.size < min_size:
                raise OutputError(f"{name} was written as {flat.size} elements of {flat.dtype}, but needs {min_size}")
            arrays.append(tensor_view(np.ascontiguousarray(flat).reshape(-1), tensor))
        return without_undefined(desc, arrays)

    def desc(self) -> OperatorDesc:
        """Return the desc of its only operator.

        Raises:
            ModelError: the model does not have exactly one operator, or its desc breaks a rule.
        """
        descs = self._descs()
        if len(descs) != 1:
            raise ModelError(f"{self.model} has {len(descs)} operators", rule="a case has one operator")
        return descs[0]

    def _descs(self) -> list[OperatorDesc]:
        return [
            dispatchable.desc
            for dispatchable in load(self.model).dispatchables.values()
            if hasattr(dispatchable, "desc")
        ]


def stored_directml(folder: Path) -> StoredDirectml:
    """Return the case of a folder with `model.json`.

    Raises:
        ModelError: the folder is incomplete.
    """
    stored = StoredDirectml(folder.name, folder, read_about(folder))
    are_written = (folder / EXPECTED.format(0)).exists()
    if stored.is_valid and are_written == stored.is_printed:
        files = f"both {EXPECTED.format(0)} and" if are_written else f"no {EXPECTED.format(0)} and no"
        raise ModelError(f"{folder} has {files} {PRINTED}", rule="a case has what its model must write, or print")
    return stored


def printed_lines(text: str) -> Any:
    """Return the output of print commands for resources: lines, without the type and sizes that anydml adds."""
    lines = [TYPE.sub("", line).rstrip() for line in text.splitlines()]
    return np.array([*filter(LINE.match, lines), None], object)[:-1]


def without_undefined(desc: OperatorDesc, outputs: list[Any]) -> list[Any]:
    """Return outputs without the elements that the document leaves undefined: rows beyond the count."""
    if not isinstance(desc, NonzeroCoordinatesOperatorDesc) or len(outputs) < 2:
        return outputs
    count, rows = outputs
    return [count, rows.reshape(rows.shape[-2:])[: int(count.reshape(-1)[0])]]
