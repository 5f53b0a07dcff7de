"""Tensor-parallel plans of Hugging Face's transformers, as axes: the installed library says what each style is for."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from anydml.errors import ModelError
from anydml.files.json_path import show
from anydml.stores.axes import ALL, Axes, Axis
from anydml.stores.patterns import Pattern

WHOLE = ("replicate", "replicated_with_grad_allreduce", "all_reduce", "sequence_parallel", "moe_tp_experts",
         "moe_identity_expert", "mla_kv_a_proj", "ep_dispatch_experts")  # fmt: skip
"""Styles that leave parameters whole."""


def axes_of(model: Any) -> Axes:
    """Along which axes the plan of a model shares its parameters; those that it does not name stay whole.

    Raises:
        ModelError: the model has no plan, or one with a style that is not known.
    """
    plan: Mapping[str, str] = getattr(model, "tp_plan", None) or {}
    if not plan:
        raise ModelError(
            f"convert: {type(model).__name__} has no tensor-parallel plan in transformers: "
            "reshard what convert writes, with [[axes]]"
        )
    found: dict[str, Axis] = {}
    for name, parameter in model.state_dict().items():
        kind = re.sub(r"(?<![^.])[0-9]+(?![^.])", "*", name)
        style = plan.get(kind, plan.get(kind.rpartition(".")[0]))
        if kind not in found:
            found[kind] = ALL if style is None else _axis(style, parameter.dim(), name)
    return Axes([(Pattern(kind), axis) for kind, axis in found.items()])


def _axis(style: str, dimensions: int, name: str) -> Axis:
    """What a style makes of a parameter."""
    if style in WHOLE or (style.endswith(("rowwise", "rowwise_split_input", "rowwise_rep")) and dimensions == 1):
        return ALL
    if style == "embedding_rowwise":
        return Axis(0)
    parts = 2 if style.startswith("packed_") and dimensions > 1 else 1
    if style in ("colwise", "colwise_gather_output", "colwise_rep", "packed_colwise"):
        return Axis(max(dimensions - 2, 0), None, parts)
    if style in ("rowwise", "rowwise_split_input", "rowwise_rep", "packed_rowwise", "embedding_colwise"):
        return Axis(dimensions - 1, None, parts)
    raise ModelError(
        f"convert: transformers shares {show(name)} in the style {show(style)}, which is not known: "
        "reshard what convert writes, with [[axes]]"
    )
