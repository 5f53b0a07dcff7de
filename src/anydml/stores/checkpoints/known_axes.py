"""Axes of tensors with known names, unless their dtypes, shapes or config.json contradict.

A name alone does not tell how ranks share a tensor: names of a quantized weight's tensors contain the weight's name,
and rows of keys and values are divided by heads only. Unknown axes are not guessed.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from anydml.files.location import show
from anydml.stores.checkpoints.axis import ALL, COLUMNS, ROWS, Axis
from anydml.stores.checkpoints.model_config import Heads, ModelConfig
from anydml.stores.checkpoints.patterns import Pattern
from anydml.stores.formats.block_types import is_of_blocks, name_of, shape_in_elements
from anydml.stores.formats.safetensors import is_numpy_dtype
from anydml.text import count_noun

_BY_ROWS, _BY_COLUMNS = ("q_proj", "k_proj", "v_proj", "gate_proj", "up_proj"), ("o_proj", "down_proj")

_BY_COLUMNS_OF_MEGATRON = (
    *("linear_proj", "linear_fc2", "dense_4h_to_h"),
    *("self_attention.dense", "attention.dense", "inter_attention.dense"),
)

KNOWN_AXES: tuple[tuple[Pattern, Axis, int], ...] = tuple(
    (Pattern(text), axis, dimensions)
    for text, axis, dimensions in (
        *((f"*.{name}.weight", ROWS, 2) for name in _BY_ROWS),
        *((f"*.{name}.bias", ROWS, 1) for name in _BY_ROWS),
        *((f"*.{name}.weight", COLUMNS, 2) for name in _BY_COLUMNS),
        *((f"*.{name}.bias", ALL, 1) for name in _BY_COLUMNS),
        *((f"*.{name}.weight", ROWS, 2) for name in ("experts.{k}.w1", "experts.{k}.w3")),
        *((f"*.{name}.weight", ROWS, 2) for name in ("feed_forward.w1", "feed_forward.w3")),
        *((f"*.{name}.weight", COLUMNS, 2) for name in ("experts.{k}.w2", "feed_forward.w2")),
        *((f"{name}.weight", ROWS, 2) for name in ("embed_tokens", "*.embed_tokens", "lm_head")),
        *((f"*.{name}.weight", ALL, 2) for name in ("block_sparse_moe.gate", "mlp.gate", "mlp.shared_expert_gate")),
        ("*norm.weight", ALL, 1),
        ("*norm.bias", ALL, 1),
        ("*.rotary_emb.inv_freq", ALL, 1),
        *((f"*.attention.{name}.weight", ROWS, 2) for name in ("wq", "wk", "wv")),
        ("*.attention.wo.weight", COLUMNS, 2),
        ("output.weight", ROWS, 2),
        ("rope.freqs", ALL, 1),
        *((f"*.{name}.weight", ROWS, 2) for name in ("linear_qkv", "query_key_value", "word_embeddings")),
        *((f"{name}.weight", ROWS, 2) for name in ("output_layer", "*.output_layer", "word_embeddings_for_head")),
        *((f"*.{name}.bias", ROWS, 1) for name in ("linear_qkv", "query_key_value")),
        *((f"*.{name}.weight", COLUMNS, 2) for name in _BY_COLUMNS_OF_MEGATRON),
        *((f"*.{name}.bias", ALL, 1) for name in _BY_COLUMNS_OF_MEGATRON),
        ("*.experts.linear_fc2.weight*", COLUMNS, 2),
        ("*.layer_norm_weight", ALL, 1),
        ("*.layer_norm_bias", ALL, 1),
        *((f"*.{name}.weight", ALL, 2) for name in ("router", "position_embeddings")),
    )
)
"""Patterns of names, their axes, and their dimensions.

First those of Llama, Mistral, Qwen and Mixtral in transformers, then those of Meta's files of Llama, and of Megatron.
"""

_ATTENTION = re.compile(r".*\.(?:([qkv]_proj)|attention\.(w[qkv]))\.(?:weight|bias)", re.DOTALL)
_OF_HEADS = re.compile(r".*\.(?:linear_qkv|query_key_value)\.(?:weight|bias)", re.DOTALL)
_UP = re.compile(r"(.*\.)(linear_fc1|dense_h_to_4h)\.(weight|bias)([0-9]*)", re.DOTALL)
_DOWN = {"linear_fc1": "linear_fc2", "dense_h_to_4h": "dense_4h_to_h"}
_SCALE = re.compile(r"(.*\.weight)_scale(?:_inv)?", re.DOTALL)
_ONE_SCALE = re.compile(
    r".*\.(?:weight_scale(?:_inv|_2)?|(?:input|[qkv])_scale|(?:weight|input)_global_scale|input_zero_point)", re.DOTALL
)
_NUMBERED = re.compile(r".*\.[0-9]+(?=\.)", re.DOTALL)


class Unknown(NamedTuple):
    """The reason why a tensor's axis is unknown, and the line of a layout that would define the axis.

    Attributes:
        reason: continues a sentence that begins with the name.
        line: the line of the layout, without the pattern.
    """

    reason: str
    line: str = "replicate = true"


class Model(NamedTuple):
    """Properties of a model that the names of its tensors do not show.

    Attributes:
        tensors: the tensors with shapes and dtypes, by name.
        config: the content of config.json, if there is one.
        ranks: the number of ranks that share the tensors.
        are_parts: whether the tensors are the parts of one rank.
    """

    tensors: Mapping[str, Any]
    config: ModelConfig | None
    ranks: int
    are_parts: bool = False

    @property
    def says_heads(self) -> bool:
        """Whether a number of heads is known."""
        return self.config is not None and self.config.says_heads


def known_axis(name: str, model: Model) -> Axis | Unknown:
    """Return the axis along which ranks share a tensor, or the reason why it is not known."""
    tensor = model.tensors[name]
    if math.prod(tensor.shape) == 1 and _ONE_SCALE.fullmatch(name):
        return ALL
    axis_and_parts = next(((axis, n) for pattern, axis, n in KNOWN_AXES if pattern.match(name) is not None), None)
    assignment = _up_or_embedding(name, model) if axis_and_parts is None else axis_and_parts
    if isinstance(assignment, Unknown):
        return assignment
    axis, dimensions = assignment
    if len(tensor.shape) != dimensions and not tensor.shape and is_of_blocks(tensor.dtype):
        sizes = shape_in_elements((), tensor.dtype)
        return Unknown(f"whose rows of {sizes[-1]} elements of {name_of(tensor.dtype)} are not whole bytes")
    if len(tensor.shape) != dimensions:
        return Unknown(f"whose shape {[*tensor.shape]} should have {count_noun(dimensions, 'dimension')}")
    if not _is_floating(tensor.dtype) and (siblings := _sibling_tensors(name, model)):
        return Unknown(f"which is {tensor.dtype}, and may be packed, for there is {show(siblings[0])}")
    if not model.are_parts and model.ranks > 1 and _OF_HEADS.fullmatch(name):
        return Unknown("whose rows are groups of heads, whose number is not known", "axis = 0, heads = N")
    part = projection_of(name)
    return axis if part is None or not model.says_heads else _head_axis(name, part not in ("q_proj", "wq"), model)


def _up_or_embedding(name: str, model: Model) -> tuple[Axis, int] | Unknown:
    """Return the axis and dimensions of a tensor that depend on other tensors."""
    tensors, sizes = model.tensors, model.tensors[name].shape
    if match := _UP.fullmatch(name):
        weight, down = (f"{match[1]}{middle}.weight{match[4]}" for middle in (match[2], _DOWN[match[2]]))
        if weight not in tensors or down not in tensors or len(tensors[down].shape) != 2:
            return Unknown(f"which may be of two parts, and there is no {show(down)} to decide", "axis = 0, parts = N")
        rows, width = tensors[weight].shape[0], tensors[down].shape[1]
        if rows not in (width, 2 * width):
            message = (
                f"whose {count_noun(rows, 'row')} are neither as many as {show(down)} has columns, nor twice as many"
            )
            return Unknown(message, "axis = 0, parts = N")
        return Axis(0, parts=rows // width), 2 if match[3] == "weight" else 1
    if name == "tok_embeddings.weight" and len(sizes) == 2 and "norm.weight" in tensors:
        # Llama 1 and 2 share columns, Llama 3 rows.
        width = tensors["norm.weight"].shape[-1]
        if model.are_parts and model.ranks > 1 and width in (sizes[1], sizes[1] * model.ranks):
            return (ROWS if width == sizes[1] else COLUMNS), 2
        return Unknown("of which ranks share columns in Llama 1 and 2, and rows in Llama 3", "axis = 0")
    return Unknown("whose axis is not known")


def projection_of(name: str) -> str | None:
    """Return the projection with heads that a weight or bias belongs to: q_proj, k_proj or v_proj; or wq, wk or wv."""
    match = _ATTENTION.fullmatch(name)
    return match and (match[1] or match[2])


def _sibling_tensors(name: str, model: Model) -> list[str]:
    """Return the other tensors in the module of a weight or bias, such as those of its quantization."""
    module = name.rpartition(".")[0]
    names = {f"{module}.weight", f"{module}.bias"}
    return [sibling for sibling in model.tensors if sibling.startswith(f"{module}.") and sibling not in names]


def _is_floating(dtype: np.dtype[Any]) -> bool:
    return dtype.kind == "f" or not is_numpy_dtype(dtype)


def _head_axis(name: str, of_keys: bool, model: Model) -> Axis | Unknown:
    """Return an axis whose rows are divided by heads; in parts of ranks, heads may be replicated."""
    config, rows, ranks = model.config, model.tensors[name].shape[0], model.ranks
    assert config is not None

    def fits(heads: Heads) -> Any:
        if not model.are_parts:
            return heads.number * heads.size == rows
        if heads.number % ranks:
            return ranks % heads.number == 0 and heads.size == rows
        return heads.number * heads.size == rows * ranks

    fitting = [projection.number for projection in config.heads(of_keys) if fits(projection)]
    if not fitting:
        message = f"whose {count_noun(rows, 'row')} do not fit the heads in {config.path}"
        return Unknown(message, "axis = 0, heads = N")
    wrong = next((count for count in fitting if count % ranks), None)
    if wrong is None:
        return Axis(0, fitting[0])
    if model.are_parts and len({*fitting}) == 1:
        return Axis(0, wrong)
    message = f"whose {count_noun(wrong, 'head')} ({config.path}) {count_noun(ranks, 'rank')} cannot share evenly"
    if ranks % wrong:
        return Unknown(f"{message}; a number of ranks that divides {wrong} or is a multiple of it can")
    return Unknown(f"{message} without copies of heads", f"axis = 0, heads = {wrong}")


def weight_of(name: str, model: Model) -> str | None:
    """Return the weight that scales belong to; None for other tensors, and for a single scale of a whole weight."""
    match = _SCALE.fullmatch(name) if "scale" in name else None
    if match is None or match[1] not in model.tensors or math.prod(model.tensors[name].shape) == 1:
        return None
    return match[1] if _is_floating(model.tensors[match[1]].dtype) else None


def axis_of_scales(name: str, weight: str, shared: Axis, model: Model) -> Axis | Unknown:
    """Return how ranks share the scales of a weight, which has one scale per row, or per block of rows and columns.

    Args:
        name: the name of the scales.
        weight: the name of the weight.
        shared: the way in which ranks share the weight.
        model: the model of both.
    """
    if shared.axis is None:
        return ALL
    axis, scales, sizes = shared.axis, model.tensors[name].shape, model.tensors[weight].shape
    if len(scales) != 2 or len(sizes) != 2 or shared.parts > 1 or isinstance(shared.heads, tuple):
        return Unknown(f"whose shape {[*scales]} does not tell which rows and columns of {show(weight)} they are for")
    if shared.heads is not None and shared.heads % model.ranks:
        return Unknown(f"whose heads in {show(weight)} are copied to several ranks")
    if scales[axis] == 1 and not model.are_parts:
        return ALL
    if scales[axis] == sizes[axis]:
        return Axis(axis)
    block = None if model.config is None else model.config.block(axis)
    if block is None:
        return Unknown(f"which are for blocks of {show(weight)} whose sizes no config.json states as weight_block_size")
    noun = ("row", "column")[axis]
    if scales[axis] != -(-sizes[axis] // block):
        return Unknown(f"whose shape is {[*scales]} for {[*sizes]}, and not one for each {count_noun(block, noun)}")
    rank_size = sizes[axis] if model.are_parts else sizes[axis] // model.ranks
    if rank_size % block:
        return Unknown(
            f"of which each is for {count_noun(block, noun)}, but a rank has {rank_size}, which would divide one"
        )
    return Axis(axis)


def line_for(name: str, fields: str) -> str:
    """Return the line of a layout that defines the axis of tensors with this name, in all layers."""
    numbered = _NUMBERED.match(name)
    pattern = name if numbered is None else f"*{name[numbered.end() :]}"
    # TOML writes strings as JSON does; a shortened string would match nothing.
    return f"axes = [{{match = {json.dumps(pattern, ensure_ascii=False)}, {fields}}}]"
