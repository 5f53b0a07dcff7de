"""Cases as folders in the form of ONNX's backend tests: `model.onnx`, `test_data_set_0/*.pb`, and also `case.json`.

The outputs of folders without `case.json`, such as those of the package onnx, are compared with onnx's tolerances.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path
from typing import Any, ClassVar

import onnx
from onnx import TensorProto

from anydml._version import __version__
from anydml.errors import ModelError
from anydml.referee.cases import Case
from anydml.referee.nodes import Value
from anydml.referee.protos import fits_info, load_values, message_of, model_of, read_model
from anydml.referee.readings import engines_by_reading
from anydml.text import count_noun

MODEL, DATA, ABOUT, INDEX = "model.onnx", "test_data_set_0", "case.json", "cases.json"
READINGS = "reading_"
"""The prefix of folders with the outputs of other readings."""


@dataclass(frozen=True)
class StoredCase:
    """A case of ONNX in a folder.

    Attributes:
        name: the folder's name.
        folder: the path of the folder.
        about: the contents of `case.json`; empty if there is none.
        form: the form of its files: "onnx", "webnn" or "dxdispatch".
    """

    name: str
    folder: Path
    about: Mapping[str, Any]
    form: ClassVar[str] = "onnx"

    @property
    def model(self) -> Path:
        """The model's file."""
        return self.folder / MODEL

    @property
    def is_valid(self) -> bool:
        """Whether the text allows the node."""
        return not self.about.get("broken")

    @property
    def is_exact(self) -> bool:
        """Whether outputs must be equal bit for bit, except for NaN."""
        return bool(self.about)

    @property
    def operator(self) -> str:
        """The operator; for a folder without `case.json`, the operators of all nodes."""
        if "operator" in self.about:
            return str(self.about["operator"])
        model = read_model(self.model)
        return "+".join(dict.fromkeys(node.op_type for node in model.graph.node)) or "no node"

    def check(self) -> None:
        """Check the files that engines get.

        Raises:
            ModelError: the model cannot be read, lacks nodes, an opset, outputs or external data, or is not the one
                node that `case.json` describes.
        """
        model = read_model(self.model)
        graph = model.graph
        for part, noun in ((graph.node, "node"), (graph.output, "output"), (model.opset_import, "opset")):
            if not len(part):
                raise ModelError(f"{self.model} has no {noun}", rule="a case has a model of ONNX")
        if self.about and len(graph.node) != 1:
            raise ModelError(f"{self.model} has {len(graph.node)} nodes", rule="a case has one node of ONNX")
        if self.about and graph.node[0].op_type != self.about["operator"]:
            raise ModelError(f"{self.model} has a {graph.node[0].op_type}", rule=f"{ABOUT} has {self.operator}")
        self._check_external(graph)

    def _check_external(self, graph: onnx.GraphProto) -> None:
        for initializer in graph.initializer:
            for entry in initializer.external_data if initializer.data_location == TensorProto.EXTERNAL else ():
                if entry.key == "location" and not (self.folder / entry.value).is_file():
                    raise ModelError(f"{self.folder / entry.value} is missing", rule=f"{MODEL} has elements there")

    def inputs(self) -> list[Any]:
        """Return the arrays that are passed at run time, in the graph's order.

        Raises:
            ModelError: the values do not fit the model.
        """
        graph = read_model(self.model).graph
        constants = {initializer.name for initializer in graph.initializer}
        return self._values("input", [value_info for value_info in graph.input if value_info.name not in constants])

    def outputs(self) -> list[Any]:
        """Return the expected outputs; none for an invalid case.

        Raises:
            ModelError: the values do not fit the model.
        """
        return self._values("output", [*read_model(self.model).graph.output]) if self.is_valid else []

    def _values(self, prefix: str, infos: Sequence[onnx.ValueInfoProto]) -> list[Any]:
        folder = self.folder / DATA
        values = load_values(folder, prefix, infos)
        if len(values) < len(infos) or (self.about and len(values) > len(infos)):
            raise ModelError(
                f"{folder} has {count_noun(len(values), prefix)}", rule=f"the model beside it has {len(infos)}"
            )
        for info, value in zip(infos, values, strict=False):
            if self.about and not fits_info(info.type, value):
                raise ModelError(f"{folder}: {prefix} {info.name!r} is not as the model says", rule="types must agree")
        return values

    def outputs_by(self, engine: Any, inputs: Sequence[Any]) -> list[Any]:
        """Return the outputs of an engine.

        Args:
            engine: an engine of `anydml.referee.engines`.
            inputs: the arrays that are passed at run time.

        Raises:
            Exception: whatever the engine raises.
        """
        return list(engine.run(self.model, inputs))

    @property
    def weight(self) -> int:
        """The size of its files, in bytes."""
        return sum(path.stat().st_size for path in self.folder.rglob("*") if path.is_file() and path.name != ABOUT)

    def readings(self) -> list[tuple[Mapping[str, str], list[Any] | None]]:
        """Return other readings of the document and their outputs; None for one that refuses the node."""
        readings = list[tuple[Mapping[str, str], list[Any] | None]]()
        for k, reading in enumerate(self.about.get("readings", ())):
            infos, folder = read_model(self.model).graph.output, self.folder / f"{READINGS}{k}"
            outputs = None if reading["refuses"] else load_values(folder, "output", infos)
            if outputs is not None and len(outputs) != len(infos):
                raise ModelError(
                    f"{folder} has {count_noun(len(outputs), 'output')}", rule=f"the model has {len(infos)}"
                )
            readings.append((reading, outputs))
        return readings


def write_case(case: Case, folder: Path) -> int:
    """Write a case to a new folder, and return 1."""
    target = folder / case.name
    (target / DATA).mkdir(parents=True)
    is_valid = not case.broken
    (target / MODEL).write_bytes(model_of(case.node, case.outputs, is_valid).SerializeToString())
    _write_values(target / DATA, "input", case.node.run_inputs)
    _write_values(target / DATA, "output", case.outputs if is_valid else ())
    for k, reading in enumerate(case.alternatives):
        if reading.outputs is not None:
            (target / f"{READINGS}{k}").mkdir()
            _write_values(target / f"{READINGS}{k}", "output", reading.outputs)
    about = {
        "operator": case.node.operator,
        "opset": case.node.opset,
        "document": case.document,
        "sentence": case.sentence,
        "broken": case.broken,
        "readings": [
            {
                "question": alternative.question,
                "words": alternative.words,
                "instead_of": alternative.first,
                "refuses": alternative.outputs is None,
                "taken_by": engines_by_reading(case.operator, alternative.question, alternative.words),
                "instead_of_taken_by": engines_by_reading(case.operator, alternative.question, alternative.first),
            }
            for alternative in case.alternatives
        ],
        "features": case.features,
    }
    (target / ABOUT).write_text(json.dumps(about), encoding="utf-8")
    return 1


def write_cases(
    cases: Iterable[Any],
    folder: Path,
    write: Callable[[Any, Path], int] = write_case,
    form: str = "onnx",
    **metadata: Any,
) -> int:
    """Write cases to a folder that does not exist or is empty; return their number.

    Args:
        cases: the cases.
        folder: the folder.
        write: writes a case, or several that share a file, and returns their number.
        form: the form of the files.
        metadata: further fields of the folder's index, such as the seed.

    Raises:
        ModelError: the folder is not empty, or cannot be written.
    """
    check_new(folder)
    count, waiting = 0, iter(cases)
    # Errors in the operators' names are raised by the first case, before the folder is created.
    first = [*islice(waiting, 1)]
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for case in chain(first, waiting):
            count += write(case, folder)
        index = {"format": form, "cases": count, "anydml": __version__, "onnx": onnx.__version__, **metadata}
        (folder / INDEX).write_text(json.dumps(index, indent=1), encoding="utf-8")
    except OSError as error:
        raise ModelError(f"{folder} cannot be written: {error.strerror}") from None
    return count


def check_new(folder: Path) -> None:
    """Check that cases can be written to a folder.

    Raises:
        ModelError: the folder is not empty.
    """
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise ModelError(f"{folder} exists and is not an empty folder", rule="cases are written to a new folder")


def _write_values(folder: Path, prefix: str, values: Sequence[Value]) -> None:
    for k, value in enumerate(values):
        (folder / f"{prefix}_{k}.pb").write_bytes(message_of(value, f"{prefix}_{k}").SerializeToString())


def stored_onnx(folder: Path) -> StoredCase:
    """Return the case of a folder with `model.onnx`.

    Raises:
        ModelError: the case is incomplete.
    """
    about = read_about(folder)
    if not (folder / DATA).is_dir():
        raise ModelError(f"{folder} has no {DATA}", rule="a case is a folder with model.onnx and test_data_set_0")
    stored = StoredCase(folder.name, folder, about)
    if stored.is_valid and not any((folder / DATA).glob("output_*.pb")):
        raise ModelError(f"{folder / DATA} has no outputs", rule="a valid case has output_0.pb and so on")
    return stored


def read_about(folder: Path) -> Mapping[str, Any]:
    """Return the contents of `case.json`; an empty dict if there is no such file.

    Raises:
        ModelError: the file does not describe a case.
    """
    path = folder / ABOUT
    if not path.exists():
        return {}
    try:
        about: Mapping[str, Any] = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError, RecursionError):
        about = {}
    if not describes_case(about):
        raise ModelError(f"{path} does not describe a case", rule="`anydml cases` writes these files")
    return about


def describes_case(about: Any) -> bool:
    """Whether the contents of `case.json` have the fields that reports read."""
    return (
        isinstance(about, dict)
        and all(isinstance(about.get(key), str) for key in ("operator", "document", "sentence"))
        and isinstance(about.get("broken", ""), str)
        and all(isinstance(about.get(key), list) for key in ("readings", "features"))
        and all(
            isinstance(reading, dict)
            and all(
                isinstance(reading.get(key), class_)
                for key, class_ in (("words", str), ("question", str), ("refuses", bool))
            )
            for reading in about["readings"]
        )
        and all(isinstance(feature, str) for feature in about["features"])
    )
