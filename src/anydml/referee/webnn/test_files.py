"""Files of WebNN's tests, in the JSON of web-platform-tests."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from anydml.errors import ModelError
from anydml.referee.case_folders import StoredCase, describes_case
from anydml.referee.external_engines import run_method

RULE = 'a file of WebNN\'s tests has "tests", each with a "name" and a "graph" of inputs, operators, expectedOutputs'


DATA_TYPES = ("float32", "float16", "int32", "uint32", "int64", "uint64", "int8", "uint8")
"""Data types whose elements are numbers of JSON."""

TENSORS = ("input", "indices", "updates", "condition", "trueValue", "falseValue")
"""Arguments that are tensors."""

REQUIRED: Mapping[str, Sequence[str]] = {
    "cast": ("input", "type"),
    "concat": ("inputs", "axis"),
    "expand": ("input", "newShape"),
    "gather": ("input", "indices"),
    "gatherElements": ("input", "indices"),
    "gatherND": ("input", "indices"),
    "identity": ("input",),
    "pad": ("input", "beginningPadding", "endingPadding"),
    "resample2d": ("input",),
    "reshape": ("input", "newShape"),
    "reverse": ("input",),
    "scatterElements": ("input", "indices", "updates"),
    "scatterND": ("input", "indices", "updates"),
    "slice": ("input", "starts", "sizes"),
    "split": ("input", "splits"),
    "tile": ("input", "repetitions"),
    "transpose": ("input",),
    "triangular": ("input",),
    "where": ("condition", "trueValue", "falseValue"),
}
"""The arguments without which no method of WebNN's interface can be called, by operator; its options may be omitted."""


@dataclass(frozen=True)
class StoredWebnn(StoredCase):
    """A test of a file; `folder` is the file.

    Attributes:
        number: the number of the test in the file.
        test: the test.
    """

    number: int
    test: Mapping[str, Any]
    form: ClassVar[str] = "webnn"

    @property
    def model(self) -> Path:
        """The file."""
        return self.folder

    @property
    def is_exact(self) -> bool:
        """Whether outputs must be equal: operators that move data have no tolerance."""
        return True

    @property
    def operator(self) -> str:
        """The names of its operators."""
        return "+".join(dict.fromkeys(operator["name"] for operator in self.test["graph"]["operators"]))

    @property
    def weight(self) -> int:
        """The length of its text."""
        return len(json.dumps(self.test["graph"]))

    def check(self) -> None:
        """Check the tensors of the test, and that operators and expected outputs name existing ones.

        Raises:
            ModelError: one cannot be read, a name is unknown, or nothing is expected of a valid test.
        """
        where = f"{self.folder}: {self.name!r}"
        try:
            problem = self._problem()
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            problem = f"cannot be read: {type(error).__name__}: {error}"
        if problem:
            raise ModelError(f"{where} {problem}", rule=RULE)

    def _problem(self) -> str:
        """Return the problem of the test; empty if there is none."""
        graph, names = self.test["graph"], set()
        for name, tensor in graph["inputs"].items():
            array_of(tensor)
            names.add(name)
        for operator in graph["operators"]:
            arguments = arguments_of(operator)
            if missing := [name for name in REQUIRED.get(operator["name"], ()) if name not in arguments]:
                return f"has {operator['name']} without {' and '.join(missing)}"
            used = [value for key, value in arguments.items() if key in TENSORS] + [*arguments.get("inputs", ())]
            for name in used:
                if name not in names:
                    return f"has no tensor {name!r}"
            names |= {*outputs_of(operator)}
        for name, tensor in graph["expectedOutputs"].items():
            array_of(tensor)
            if name not in names:
                return f"expects {name!r}, which no operator gives"
        return "expects no outputs" if self.is_valid and not graph["expectedOutputs"] else ""

    def outputs(self) -> list[Any]:
        """Return the outputs that are expected."""
        return [array_of(output) for output in self.test["graph"]["expectedOutputs"].values()]

    def inputs(self) -> list[Any]:
        """Return None: the test has the inputs."""
        return []

    def outputs_by(self, engine: Any, inputs: Sequence[Any]) -> list[Any]:
        """Return the outputs of an engine, as in `StoredCase`."""
        return run_method(engine, self.form)(self.test, self.folder, self.number)


def arguments_of(operator: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of an operator by name, its options among them."""
    return {key: value for argument in operator["arguments"] for key, value in argument.items()}


def outputs_of(operator: Mapping[str, Any]) -> list[str]:
    """Return the names of an operator's outputs."""
    names = operator["outputs"]
    return [names] if isinstance(names, str) else [*names]


def array_of(tensor: Mapping[str, Any]) -> Any:
    """Return the array of a tensor."""
    descriptor = tensor["descriptor"]
    if descriptor["dataType"] not in DATA_TYPES:
        raise ValueError(f"dataType is {descriptor['dataType']!r}")
    if None in np.array(tensor["data"], object).reshape(-1).tolist():
        raise ValueError("data has a null")
    data, shape = np.array(tensor["data"], np.dtype(descriptor["dataType"])), descriptor["shape"]
    # One number may stand for all elements.
    return data.reshape(shape) if data.size == math.prod(shape) else np.broadcast_to(data.reshape(()), shape)


def tests_of(path: Path) -> Iterator[StoredWebnn]:
    """Yield the tests of a file.

    Raises:
        ModelError: the file has no tests.
    """
    try:
        document = json.loads(path.read_text("utf-8"))
        for test_number, test in enumerate(document["tests"]):
            graph = test["graph"]
            if not {"inputs", "operators", "expectedOutputs"} <= graph.keys():
                raise KeyError(test["name"])
            name, about = test["name"], test.get("case", {})
            if not isinstance(name, str) or not (about == {} or describes_case(about)):
                raise TypeError(name)
            yield StoredWebnn(name, path, about, test_number, test)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise ModelError(f"{path} has no tests of WebNN", rule=RULE) from None
