"""Layouts in Python, which are traced functions of all tensors."""

from __future__ import annotations

import runpy
import traceback
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from anydml.errors import FuseError, ModelError
from anydml.files.location import Location, show
from anydml.stores.checkpoints.axis import Axis
from anydml.stores.checkpoints.composed import ComposedTensors, together, without_unread_sources
from anydml.stores.checkpoints.patterns import Pattern
from anydml.stores.formats.block_types import is_of_blocks
from anydml.tracing.refusing import COMPUTE_OUTSIDE
from anydml.tracing.trace import Trace
from anydml.tracing.traced_results import Result, results_of

LayoutFunction = Callable[[dict[str, Any]], Any]


def read_python(path: Path) -> tuple[LayoutFunction, list[tuple[Pattern, Axis]]]:
    """Run a file; return its function ``layout`` and its ``axes``, an empty list if there are none.

    Raises:
        ModelError: the file cannot be read or run, or does not have a valid ``layout`` and ``axes``.
    """
    location = Location(str(path))
    try:
        namespace = runpy.run_path(str(path))
    except OSError as error:
        raise location.error(f"cannot be read: {error.strerror or error}") from None
    except SyntaxError as error:
        raise location.error(f"is not Python: line {error.lineno}: {error.msg}") from None
    except (Exception, SystemExit) as error:
        raise _error_in_file(location, path, error) from None
    function = namespace.get("layout")
    if not callable(function):
        raise location.error("has no function layout(tensors), which gives the new tensors by name")
    axes = namespace.get("axes", {})
    if not isinstance(axes, Mapping):
        raise (location / "axes").error(f"must be a dict of patterns, not {axes!r:.60}")
    return function, [_axis(pattern, axis, location / "axes") for pattern, axis in axes.items()]


def apply_python(trace: Trace, tensors: ComposedTensors, function: LayoutFunction, path: Path) -> ComposedTensors:
    """Return the tensors that a layout function returns.

    Args:
        trace: the trace of the function.
        tensors: the function's argument, as traced arrays by name.
        function: the layout function.
        path: the path of its file.

    Raises:
        ModelError: the function computes, fails, or does not return arrays by name.
    """
    location = Location(str(path))
    if (blocks := next((name for name, tensor in tensors.items() if is_of_blocks(tensor.dtype)), None)) is not None:
        raise location.error(
            f"is given {show(blocks)}, whose elements NumPy does not have: use rules in TOML, or drop it"
        )
    values, sources = together([*tensors.values()])
    for store in sources:
        trace.composer.input(store.name, store.shape, store.strides, store.dtype.itemsize)
    arguments = {
        name: trace.new_array(value, tensor.dtype)
        for (name, tensor), value in zip(tensors.items(), values, strict=True)
    }
    try:
        returned = function(arguments)
        message = "layout must return a dict of arrays by name"
        if not isinstance(returned, dict):
            raise location.error(f"{message}, not {type(returned).__name__}")
        for name in returned:
            if not isinstance(name, str):
                raise location.error(f"{message}, but has the key {name!r:.60}")
        tree, _ = results_of(trace, returned, [None], [])
    except ModelError:
        raise
    except (Exception, SystemExit) as error:
        raise _error_in_file(location, path, error) from None
    finally:
        trace.is_over = True
    for name, array in tree.items():
        if not isinstance(array, Result):
            raise (location / name).error(f"must be an array, not {type(returned[name]).__name__}")
    return {
        name: without_unread_sources(array.array.value, array.array.element, sources) for name, array in tree.items()
    }


def _error_in_file(location: Location, path: Path, error: BaseException) -> ModelError:
    """Return an error in the file, with its line."""
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == str(path)]
    line_text = f"line {lines[-1]}: " if lines else ""
    if isinstance(error, FuseError) and error.reason and lines:
        # There is no fused function, and the line is named already.
        return location.error(f"{line_text}{error.reason.removesuffix(f': {COMPUTE_OUTSIDE}')}")
    text = " ".join(str(error).split())[:500]
    return location.error(
        f"{line_text}{text if type(error).__module__ == 'anydml.errors' else f'{type(error).__name__}: {text}'}"
    )


def _axis(pattern: Any, axis: Any, location: Location) -> tuple[Pattern, Axis]:
    if not isinstance(pattern, str):
        raise location.error(f"must have patterns of names as keys, not {pattern!r:.60}")
    location /= pattern
    parts = axis if isinstance(axis, tuple) else (axis, None)
    heads = parts[1] if len(parts) == 2 and isinstance(parts[1], tuple) and parts[1] else parts[1:]
    is_axis = len(parts) == 2 and type(parts[0]) is int and all(n is None or (type(n) is int and n > 0) for n in heads)
    if axis is not None and not is_axis:
        raise location.error(f"must be an axis, an axis and counts of heads, or None, not {axis!r:.60}")
    try:
        return Pattern(pattern), Axis(None) if axis is None else Axis(*parts)
    except ModelError as error:
        raise location.error(f"{show(pattern)}: {error}") from None
