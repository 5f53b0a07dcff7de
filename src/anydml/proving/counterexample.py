"""Inputs for which two models differ, found by running both on random inputs."""

from __future__ import annotations

import importlib.util
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from onnx import ModelProto

from anydml.errors import ModelError
from anydml.files.folder import Folder
from anydml.proving.running import MAX_ERROR_ULPS, error_of, random_inputs
from anydml.proving.runtime_process import DEFAULT_SECONDS, RefusedError, Runtime, UnansweredError
from anydml.proving.sizes import Size, evaluate

RANDOM_INPUT_COUNT = 4
"""Number of random inputs."""

MAX_ERROR_CHARACTERS = 200
"""Maximum number of characters of an error of ONNX Runtime that are quoted."""


@dataclass(frozen=True)
class RunComparison:
    """The result of running both models.

    Attributes:
        sizes: sizes of dimensions by name.
        inputs: the input for which they differ most.
        output: the output that differs; empty if none differs by more than rounding.
        error: the difference, in units in the last place of the largest number; infinite if rounding cannot explain it.
        note: why a model could not be run; empty if both were.
    """

    sizes: dict[str, int]
    inputs: dict[str, Any]
    output: str
    error: float
    note: str = ""


def compare_runs(
    first: ModelProto,
    second: ModelProto,
    folders: tuple[Folder | None, Folder | None],
    sizes_of_case: Mapping[str, Size],
    seconds: float = DEFAULT_SECONDS,
) -> RunComparison | None:
    """Run two models on random inputs; return the largest difference; None without ONNX Runtime.

    Args:
        first: a model.
        second: the other model, with the same inputs and outputs.
        folders: folders of their external data.
        sizes_of_case: sizes of the first model's dimensions.
        seconds: the limit of a run.
    """
    if importlib.util.find_spec("onnxruntime") is None:
        return None
    names = [output.name for output in first.graph.output]
    worst: RunComparison | None = None
    refused: RunComparison | None = None
    with Runtime([*zip((first, second), folders, strict=True)], seconds) as runtime:
        for run_number in range(RANDOM_INPUT_COUNT):
            values = {key: (2, 3, 5, 4)[(run_number + k) % 4] for k, key in enumerate(sizes_of_case)}
            sizes = {key: evaluate(size, values) or 0 for key, size in sizes_of_case.items()}
            try:
                inputs = random_inputs(first, sizes, run_number)
                expected, repeated = (runtime.run(0, inputs) for _ in range(2))
            except (RefusedError, ModelError, MemoryError) as error:
                # The model does not support these sizes, for whatever reason.
                failure = "ONNX Runtime refuses A" if isinstance(error, RefusedError) else "A is not run"
                refused = RunComparison(sizes, {}, "", 0, f"{failure}: {str(error)[:MAX_ERROR_CHARACTERS]}")
                continue
            except UnansweredError as error:
                refused = RunComparison(sizes, {}, "", 0, f"A is not run to its end: {error}")
                break
            try:
                results = runtime.run(1, inputs)
            except RefusedError as error:
                note = f"ONNX Runtime refuses B: {str(error)[:MAX_ERROR_CHARACTERS]}"
                return RunComparison(sizes, inputs, names[0], math.inf, note)
            except UnansweredError as error:
                refused = RunComparison(sizes, {}, "", 0, f"B is not run to its end: {error}")
                break
            for name, wanted_output, repeated_output, second_output in zip(
                names, expected, repeated, results, strict=True
            ):
                if error_of(wanted_output, repeated_output):
                    continue
                off = error_of(wanted_output, second_output)
                if worst is None or off > worst.error:
                    worst = RunComparison(sizes, inputs, name if off > MAX_ERROR_ULPS else "", off)
            if worst is not None and worst.error == math.inf:
                break
    return worst or refused
