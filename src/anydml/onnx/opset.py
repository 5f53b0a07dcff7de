"""Raise a model's opset for standard nodes that replace others, and drop imports that are no longer needed."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import onnx.version_converter
from onnx import FunctionProto, GraphProto, ModelProto

from anydml.errors import ModelError
from anydml.files.location import show
from anydml.onnx.checks import check, reason
from anydml.onnx.graph import MICROSOFT, opsets_of
from anydml.onnx.walk import Body, bodies, main_graphs, nodes, plain_domain

NEEDED = 13
"""The first opset in which Split takes its sizes as an input."""


def raise_opset(model: ModelProto) -> ModelProto:
    """Return the model with at least opset 13, converted if necessary.

    Raises:
        ModelError: the model is not valid, or onnx's converter cannot convert it without loss.
    """
    version = opsets_of(model.opset_import).get("")
    if version is None:
        # The main graph uses other domains only, so the functions decide.
        versions = [opsets_of(function.opset_import).get("", NEEDED) for function in model.functions]
        _set_version(model.opset_import, max([NEEDED, *versions]))
        return model
    if version >= NEEDED:
        return model
    if not _uses("", main_graphs(model)):
        _set_version(model.opset_import, NEEDED)
        return model
    for field in ("functions", "training_info"):
        if len(getattr(model, field)):
            raise _unsupported_error(version, f"onnx's converter would lose the model's {field}")
    if any(isinstance(body, GraphProto) and body.sparse_initializer for body in bodies([model.graph])):
        raise _unsupported_error(version, "onnx's converter would lose the model's sparse initializers")
    check(model)
    try:
        return onnx.version_converter.convert_version(model, NEEDED)
    except Exception as error:
        raise _unsupported_error(version, f"onnx's converter says: {reason(error)}") from None


def raise_function_opsets(functions: Iterable[FunctionProto], model: ModelProto) -> None:
    """Give functions at least opset 13, in place, and the model an opset if it has none.

    Raises:
        ModelError: a function uses an older opset, which onnx cannot convert.
    """
    models = opsets_of(model.opset_import).get("")
    for function in functions:
        version = opsets_of(function.opset_import).get("")
        if version is not None and version >= NEEDED:
            continue
        if version is not None and _uses("", [function]):
            name = show(function.name)
            reason = f"function {name} has its own opset {version}, and onnx's converter leaves functions out"
            raise _unsupported_error(version, reason)
        raised = max(NEEDED, models or NEEDED)
        _set_version(function.opset_import, raised)
        if models is None:
            models = raised
            _set_version(model.opset_import, raised)


def drop_import(model: ModelProto, domain: str) -> None:
    """Remove unused opset imports of a domain, in place.

    The model keeps the import while one of its functions has it.
    """
    for function in model.functions:
        if not _uses(domain, [function]):
            _remove(function.opset_import, domain)
    if any(domain in opsets_of(function.opset_import) for function in model.functions):
        return
    if not _uses(domain, main_graphs(model)):
        _remove(model.opset_import, domain)


def _uses(domain: str, tops: Iterable[Body]) -> bool:
    return any(plain_domain(node.domain) == domain for node in nodes(tops))


def _set_version(imports: Any, version: int) -> None:
    """Set the version of ONNX's own domain in a repeated field of opset imports."""
    for entry in imports:
        if not plain_domain(entry.domain):
            entry.version = version
            return
    imports.add(domain="", version=version)


def _remove(imports: Any, domain: str) -> None:
    """Remove a domain from a repeated field of opset imports."""
    other_imports = [(entry.domain, entry.version) for entry in imports if entry.domain != domain]
    if len(other_imports) == len(imports):
        return
    # Rebuild the list, since deleting single entries takes quadratic time.
    del imports[:]
    for name, version in other_imports:
        imports.add(domain=name, version=version)


def _unsupported_error(version: int, reason: str) -> ModelError:
    message = f"the model has opset {version}, and Split takes its sizes as an input since opset {NEEDED}; {reason}"
    return ModelError(message, MICROSOFT, "opset_import", f"opset {NEEDED} or later")
