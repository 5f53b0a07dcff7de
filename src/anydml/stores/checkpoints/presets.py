"""Layouts of vLLM and Megatron Core, and tensor-parallel plans of transformers, as rules and axes of ranks.

Numbers of layers and experts stay those of the whole model on every rank.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Literal

from anydml.errors import ModelError
from anydml.files.location import Location, show
from anydml.moves.composer import Composer
from anydml.stores.checkpoints.apply_rules import apply_rule
from anydml.stores.checkpoints.axis import ALL, Axis
from anydml.stores.checkpoints.composed import ComposedTensors
from anydml.stores.checkpoints.experts import projections_of
from anydml.stores.checkpoints.known_axes import projection_of
from anydml.stores.checkpoints.layout_rules import LayoutRules, parse_layout
from anydml.stores.checkpoints.parallel_axes import Axes
from anydml.stores.checkpoints.patterns import Pattern

VLLM = """
rules = [
  {to = "{L}.self_attn.qkv_proj.{kind}", axis = 0, join = [
    "{L}.self_attn.q_proj.{kind}", "{L}.self_attn.k_proj.{kind}", "{L}.self_attn.v_proj.{kind}"]},
  {to = "{L}.mlp.gate_up_proj.{kind}", axis = 0, join = ["{L}.mlp.gate_proj.{kind}", "{L}.mlp.up_proj.{kind}"]},
  {to = "{L}.mlp.{shared}.gate_up_proj.{kind}", axis = 0, join = [
    "{L}.mlp.{shared}.gate_proj.{kind}", "{L}.mlp.{shared}.up_proj.{kind}"]},
  {match = "{L}.mlp.experts.gate_up_proj", rename = "{L}.mlp.experts.w13_weight"},
  {match = "{L}.mlp.experts.down_proj", rename = "{L}.mlp.experts.w2_weight"},
]
axes = [
  {match = "*.qkv_proj.{kind}", axis = 0, heads = [HEADS, GROUPS, GROUPS]},
  {match = "*.gate_up_proj.{kind}", axis = 0, parts = 2},
  {match = "*.experts.w13_weight", axis = 1, parts = 2},
  {match = "*.experts.w2_weight", axis = 2},
]
"""
"""Rules of `QKVParallelLinear`, `MergedColumnParallelLinear` and `FusedMoE`."""

MEGATRON = """
rules = [
  {match = "{L}.self_attn.q_proj.{kind}", unflatten = 0, sizes = [GROUPS, -1]},
  {match = "{L}.self_attn.k_proj.{kind}", unflatten = 0, sizes = [GROUPS, -1]},
  {match = "{L}.self_attn.v_proj.{kind}", unflatten = 0, sizes = [GROUPS, -1]},
  {to = "{D}.self_attention.linear_qkv.{kind}", axis = 1, join = [
    "{L}.self_attn.q_proj.{kind}", "{L}.self_attn.k_proj.{kind}", "{L}.self_attn.v_proj.{kind}"]},
  {match = "{D}.self_attention.linear_qkv.{kind}", flatten = [0, 1]},
  {match = "{L}.self_attn.o_proj.{kind}", rename = "{D}.self_attention.linear_proj.{kind}"},
  {match = "{L}.self_attn.q_norm.weight", rename = "{D}.self_attention.q_layernorm.weight"},
  {match = "{L}.self_attn.k_norm.weight", rename = "{D}.self_attention.k_layernorm.weight"},
  {to = "{D}.mlp.linear_fc1.{kind}", axis = 0, join = ["{L}.mlp.gate_proj.{kind}", "{L}.mlp.up_proj.{kind}"]},
  {match = "{L}.mlp.down_proj.{kind}", rename = "{D}.mlp.linear_fc2.{kind}"},
  {to = "{D}.mlp.experts.local_experts.{k}.linear_fc1.{kind}", axis = 0, join = [
    "{L}.mlp.experts.{k}.gate_proj.{kind}", "{L}.mlp.experts.{k}.up_proj.{kind}"]},
  {match = "{L}.mlp.experts.{k}.down_proj.{kind}", rename = "{D}.mlp.experts.local_experts.{k}.linear_fc2.{kind}"},
  {match = "{L}.mlp.gate.weight", rename = "{D}.mlp.router.weight"},
  {match = "{L}.input_layernorm.weight", rename = "{D}.input_layernorm.weight"},
  {match = "{L}.post_attention_layernorm.weight", rename = "{D}.pre_mlp_layernorm.weight"},
  {match = "model.norm.weight", rename = "decoder.final_layernorm.weight"},
  {match = "model.embed_tokens.weight", rename = "embedding.word_embeddings.weight"},
  {match = "lm_head.weight", rename = "output_layer.weight"},
]
axes = [
  {match = "*.linear_qkv.{kind}", axis = 0, heads = GROUPS},
  {match = "*.linear_fc1.{kind}", axis = 0, parts = 2},
  {match = "*.linear_proj.bias", replicate = true},
  {match = "*.linear_fc2.bias", replicate = true},
  {match = "*.linear_proj.weight", axis = 1},
  {match = "*.linear_fc2.weight", axis = 1},
  {match = "*.router.weight", replicate = true},
  {match = "embedding.word_embeddings.weight", axis = 0},
  {match = "output_layer.weight", axis = 0},
]
"""
"""Rules of `GPTModel` without Transformer Engine: each group of heads has the rows of q, then those of k and v."""

LayoutName = Literal["transformers", "original", "per-expert", "vllm", "megatron"]
"""Layouts by name: those of transformers, and `PRESETS`."""

PRESETS = {"vllm": VLLM, "megatron": MEGATRON}


def preset_of(to: str, model: Any) -> LayoutRules:
    """Return a named layout for a model.

    Raises:
        ModelError: the configuration of the model has no number of heads.
    """
    config = model.config.get_text_config()
    heads = getattr(config, "num_attention_heads", None)
    groups = getattr(config, "num_key_value_heads", None) or heads
    if type(heads) is not int or type(groups) is not int:
        raise ModelError(f"convert: the configuration of {type(model).__name__} has no num_attention_heads")
    text = PRESETS[to].replace("{L}", "model.layers.{n}").replace("{D}", "decoder.layers.{n}")
    text = text.replace("HEADS", str(heads)).replace("GROUPS", str(groups))
    return parse_layout(text, Location(f"the layout of {to}"))


def arrange(composer: Composer, tensors: ComposedTensors, to: str, layout: LayoutRules, model: Any) -> ComposedTensors:
    """Return the tensors of a model, named as in transformers, in a named layout.

    Raises:
        ModelError: the layout does not know a tensor of the model.
    """
    if to == "vllm" and (
        transposed := [projection for projection in projections_of(model) if projection.is_transposed]
    ):
        raise ModelError(f"convert: {show(transposed[0].name)} is transposed, which the layout of {to} does not know")
    for rule in layout.rules:
        if any(rule.match.match(name) is not None for name in tensors):
            tensors = apply_rule(composer, tensors, rule)
    if to == "megatron" and (unchanged := [name for name in tensors if name.startswith("model.")]):
        raise ModelError(f"convert: the layout of {to} does not know {show(unchanged[0])}")
    return tensors


WHOLE = ("replicate", "replicated_with_grad_allreduce", "all_reduce", "sequence_parallel", "moe_tp_experts",
         "moe_identity_expert", "mla_kv_a_proj", "ep_dispatch_experts")  # fmt: skip
"""Styles that replicate parameters."""


def axes_of(model: Any) -> Axes:
    """Return the axes of a model's tensor-parallel plan; parameters that the plan does not name are replicated.

    Raises:
        ModelError: the model has no plan, or the plan has an unknown style.
    """
    plan: Mapping[str, str] = getattr(model, "tp_plan", None) or {}
    if not plan:
        raise ModelError(
            f"convert: {type(model).__name__} has no tensor-parallel plan in transformers: "
            "reshard what convert writes, with [[axes]]"
        )
    axes: dict[str, Axis] = {}
    for name, parameter in model.state_dict().items():
        pattern = re.sub(r"(?<![^.])[0-9]+(?![^.])", "*", name)
        style = plan.get(pattern, plan.get(pattern.rpartition(".")[0]))
        if style == "colwise" and projection_of(name) is not None:
            # The plan does not define heads, which must not be divided; config.json does.
            continue
        if pattern not in axes:
            axes[pattern] = ALL if style is None else _axis(style, parameter.dim(), name)
    return Axes([(Pattern(pattern), axis) for pattern, axis in axes.items()])


def _axis(style: str, dimensions: int, name: str) -> Axis:
    """Return the axis of a parameter in a style."""
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
