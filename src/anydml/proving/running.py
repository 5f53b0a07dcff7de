"""Runs of models on ONNX Runtime with random inputs, and the differences of their results."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from onnx import ModelProto, ValueInfoProto

from anydml.errors import ModelError
from anydml.files.location import show
from anydml.onnx.checks import inline_functions, serialize
from anydml.onnx.tensor_protos import numpy_type, tensor_type
from anydml.proving.names import unnamed_size
from anydml.proving.rounding import max_ulps

FIRST_SIZE = 3
"""Value of the first symbolic size; each further one is larger by 1."""

MAX_ELEMENTS = sys.maxsize // 8
"""Maximum number of elements of an array of 64-bit numbers."""

MAX_ERROR_ULPS = 1 << 10
"""Largest allowed error of sums in another order, in units in the last place of a result's largest number."""


def run(model: ModelProto, inputs: Mapping[str, Any]) -> list[Any]:
    """Run a model on ONNX Runtime, without optimizations; return its outputs."""
    return runner(model)(inputs)


def runner(model: ModelProto) -> Callable[[Mapping[str, Any]], list[Any]]:
    """Return a function that runs a model on ONNX Runtime, without optimizations, and returns its outputs."""
    import onnxruntime  # type: ignore[import-untyped,unused-ignore]

    options = onnxruntime.SessionOptions()
    # With optimizations or prepacking, ONNX Runtime may add in another order.
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.add_session_config_entry("session.disable_prepacking", "1")
    options.log_severity_level = 4
    # ONNX Runtime inlines recursive functions endlessly; `inline_functions` refuses them.
    session = onnxruntime.InferenceSession(
        serialize(inline_functions(model)), options, providers=["CPUExecutionProvider"]
    )
    return lambda inputs: list(session.run(None, dict(inputs)))


def are_equal(first: list[Any], second: list[Any]) -> bool:
    """Whether results are equal bit for bit."""
    return len(first) == len(second) and all(map(_is_equal, first, second))


def _is_equal(first: Any, second: Any) -> bool:
    if not isinstance(first, np.ndarray) or first.dtype.hasobject:
        return bool(np.array_equal(first, second))
    return bool(first.shape == second.shape and first.dtype == second.dtype and first.tobytes() == second.tobytes())


def error_of(first: Any, second: Any) -> float:
    """Return the largest difference of two results, in units in the last place of their largest number."""
    if _is_equal(first, second):
        return 0
    if not isinstance(first, np.ndarray) or first.dtype.kind != "f":
        return np.inf
    if (first.dtype, first.shape) != (second.dtype, second.shape):
        return np.inf
    return max_ulps(first, second)


def random_inputs(model: ModelProto, sizes: Mapping[str, int] | None = None, seed: int = 0) -> dict[str, Any]:
    """Return random inputs for a model; integers are 0 or 1, which are valid indices of most tables.

    Raises:
        ModelError: an input has no shape or no type, or too many elements for an array.
        MemoryError: an input does not fit into memory.
    """
    random, known_sizes = np.random.default_rng(seed), dict(sizes or {})
    defaults = {tensor.name for tensor in model.graph.initializer}
    return {value.name: _input(value, random, known_sizes) for value in model.graph.input if value.name not in defaults}


def _input(value: ValueInfoProto, random: np.random.Generator, known_sizes: dict[str, int]) -> Any:
    elem_type, sizes = tensor_type(value)
    dtype = numpy_type(elem_type)
    if sizes is None or dtype is None:
        raise ModelError(f"input {show(value.name)} has no shape or no type")
    shape = [
        size
        if isinstance(size, int)
        else known_sizes.setdefault(size or unnamed_size(value.name, axis), FIRST_SIZE + len(known_sizes))
        for axis, size in enumerate(sizes)
    ]
    if math.prod(shape) > MAX_ELEMENTS:
        raise ModelError(f"input {show(value.name)} has too many elements for an array: {math.prod(shape)}")
    if dtype.hasobject:
        return np.full(shape, "a", dtype)
    if dtype.kind in "iub":
        return random.integers(0, 2, shape).astype(dtype)
    return random.standard_normal(shape).astype(dtype)
