"""Checks that nodes take their inputs, as far as these are known without running a model."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from onnx import ModelProto

from anydml.errors import ModelError
from anydml.onnx.checks import check
from anydml.onnx.declared_types import check_types
from anydml.onnx.node_descs import Descriptions, input_sizes
from anydml.onnx.translation_findings import Finding


def check_nodes(model: ModelProto, sizes: Mapping[str, int] | None = None) -> None:
    """Check that a model is valid, and that its nodes take their inputs, as far as sizes are known.

    Args:
        model: any model. Its functions are read if they can be inlined, and bodies if they are sure to run.
        sizes: values of symbolic sizes; names that no input has do not matter.

    Raises:
        ModelError: the model breaks a rule of ONNX, or a node refuses the types, sizes or indices that it gets.
    """
    check(model)
    check_types(model)
    names = input_sizes(model)
    known_sizes = {name: size for name, size in (sizes or {}).items() if name in names}
    try:
        findings = [*Descriptions(model, 0, known_sizes, skips_empty=True).findings()]
    except ModelError:
        # What cannot be read, such as a function or a type of an input, is left to callers.
        return
    refuse_invalid(findings)


def refuse_invalid(findings: Iterable[Finding]) -> None:
    """Raise the first error of a node that no runtime can run.

    Raises:
        ModelError: a node breaks a rule of ONNX.
    """
    for finding in findings:
        if finding.is_invalid and finding.error is not None:
            raise finding.error
