"""Models before and after on ONNX Runtime: the same random inputs, the same results bit for bit."""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping
from typing import Any

import numpy as np
from onnx import ModelProto, ValueInfoProto

from anydml.errors import ModelError
from anydml.files.json_path import show
from anydml.onnx.checks import inlined, serialized
from anydml.onnx.tensors import numpy_type, tensor_type
from anydml.slim.sizes import free_name
from anydml.text import counted

SMALL = 3
"""What a size is that only has a name."""


LARGEST = 1 << 10
"""Units in the last place of its largest number by which a result may be off, where sums are made in other blocks."""


def compared(before: ModelProto, after: ModelProto, is_exact: bool = True) -> str:
    """Run both, as they are, and say how they compare.

    Args:
        before: a model.
        after: the other one.
        is_exact: whether results must be the same bit for bit, not only but for how dot products are added up.

    Raises:
        ModelError: their results differ, or ONNX Runtime refuses the second model alone.
    """
    if importlib.util.find_spec("onnxruntime") is None:
        raise ModelError("--prove runs both models on ONNX Runtime: pip install onnxruntime")
    try:
        given = _inputs(before)
        expected = _run(before, given)
        again = _run(before, given)
    except Exception as error:
        # Whatever it is, the model has it from the start.
        return f"not run: ONNX Runtime does not run the model as it was ({str(error).splitlines()[0][:200]})"
    if not _equal(expected, again):
        return "not compared: two runs of the model as it was differ"
    try:
        found = _run(after, given)
    except Exception as error:
        message = f"ONNX Runtime refuses the model that was made: {str(error).splitlines()[0][:200]}"
        raise ModelError(message, rule="both models must run") from None
    are = "are" if len(expected) > 1 else "is"
    if _equal(expected, found):
        return f"{counted(len(expected), 'output')} {are} the same bit for bit on ONNX Runtime"
    if is_exact:
        raise ModelError("ONNX Runtime's results differ before and after", rule="results must be the same bit for bit")
    off = [_off(*pair) for pair in zip(expected, found, strict=True)]
    if max(off) > LARGEST:
        message = f"ONNX Runtime's results differ before and after, by {max(off):.0f} units in the last place"
        raise ModelError(message, rule=f"products may be off by {LARGEST} units in the last place of the largest")
    return (
        f"{counted(len(expected), 'output')} {are} the same on ONNX Runtime but for {max(off):.0f} units in the last"
        " place of the largest number: it adds up products of other shapes in other blocks"
    )


def _run(model: ModelProto, given: Mapping[str, Any]) -> list[Any]:
    import onnxruntime  # type: ignore[import-untyped,unused-ignore]

    options = onnxruntime.SessionOptions()
    # Otherwise it may compute in another order, products by constants included.
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.add_session_config_entry("session.disable_prepacking", "1")
    options.log_severity_level = 4
    # It would not end where functions call each other often, which `inlined` refuses.
    session = onnxruntime.InferenceSession(serialized(inlined(model)), options, providers=["CPUExecutionProvider"])
    found: list[Any] = session.run(None, dict(given))
    return found


def _equal(first: list[Any], second: list[Any]) -> bool:
    return len(first) == len(second) and all(map(_same, first, second))


def _same(first: Any, second: Any) -> bool:
    if not isinstance(first, np.ndarray) or first.dtype.hasobject:
        return bool(np.array_equal(first, second))
    return bool(first.shape == second.shape and first.dtype == second.dtype and first.tobytes() == second.tobytes())


def _off(first: Any, second: Any) -> float:
    """How far results are apart, in units in the last place of the largest of their numbers."""
    if _same(first, second):
        return 0
    if not isinstance(first, np.ndarray) or first.dtype.kind != "f" or first.shape != second.shape:
        return np.inf
    wide, other = first.astype(np.float64), second.astype(np.float64)
    known = np.isfinite(wide)
    if not np.array_equal(known, np.isfinite(other)) or not np.array_equal(first[~known], second[~known], True):
        return np.inf
    scale = float(np.abs(wide[known]).max(initial=0)) * float(np.finfo(first.dtype).eps)
    return float(np.abs(wide[known] - other[known]).max(initial=0)) / scale if scale else np.inf


def _inputs(model: ModelProto) -> dict[str, Any]:
    defaults = {tensor.name for tensor in model.graph.initializer}
    random, sizes = np.random.default_rng(0), dict[str, int]()
    return {value.name: _input(value, random, sizes) for value in model.graph.input if value.name not in defaults}


def _input(value: ValueInfoProto, random: np.random.Generator, known: dict[str, int]) -> Any:
    elem_type, sizes = tensor_type(value)
    dtype = numpy_type(elem_type)
    if sizes is None or dtype is None:
        raise ModelError(f"input {show(value.name)} has no shape or no type")
    shape = [
        size if isinstance(size, int) else known.setdefault(size or free_name(value.name, axis), SMALL + len(known))
        for axis, size in enumerate(sizes)
    ]
    if dtype.hasobject:
        return np.full(shape, "a", dtype)
    if dtype.kind in "iub":
        # Indices of any table.
        return random.integers(0, 2, shape).astype(dtype)
    return random.standard_normal(shape).astype(dtype)
