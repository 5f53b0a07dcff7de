"""Axes of tensors that together replace a weight: those of GPTQ, AWQ, LLM.int8, NVFP4, MLX and LoRA.

Ranks share them as they would share the weight, by rows (outputs) or columns (inputs).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import numpy as np

from anydml.errors import ModelError
from anydml.files.location import show
from anydml.stores.checkpoints.axis import ALL, Axis
from anydml.stores.checkpoints.known_axes import Model, Unknown, known_axis
from anydml.text import count_noun

_PARTS = ("qweight", "qzeros", "scales", "g_idx")
_PACKED = re.compile(rf"(.*)\.({'|'.join(_PARTS)})", re.DOTALL)
_FACTOR = re.compile(r"(.*)\.lora_([AB])((?:\.[^.]+)?)\.weight", re.DOTALL)
_INTEGERS = re.compile(r"(.*)\.(weight|SCB|weight_format)", re.DOTALL)
_SCALES = ("weight_scale", "scales")
_BESIDE_SCALES = ("weight", "weight_packed", "weight_zero_point", "biases")
_IN_GROUPS = re.compile(rf"(.*)\.({'|'.join((*_SCALES, *_BESIDE_SCALES))})", re.DOTALL)
_ALL_PARTS = (*_PARTS, *_BESIDE_SCALES, "weight_scale", "SCB", "weight_format")

_FLOATS = np.dtype(np.float32)


class _Weight(NamedTuple):
    """A weight that is stored as several other tensors."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any] = _FLOATS


class Companion(NamedTuple):
    """One of several tensors that together replace a weight.

    Attributes:
        weight: the name of the weight.
        axis: the axis along which ranks share the tensor.
    """

    weight: str
    axis: Axis | Unknown


def companion(name: str, model: Model) -> Companion | None:
    """Return how ranks share a tensor that replaces a weight together with others; None for other tensors."""
    for pattern, look in (
        (_PACKED, _packed_companion), (_FACTOR, _factor_companion), (_INTEGERS, _integer_companion),
        (_IN_GROUPS, _grouped_companion),
    ):  # fmt: skip
        if (match := pattern.fullmatch(name)) and (found := look(match, model)) is not None:
            return found
    return None


class DependentAxes:
    """The tensors whose axis depends on other tensors; most models have few of them.

    Args:
        patterns: the patterns of all names, as from `Axes.alike`.
    """

    def __init__(self, patterns: Iterable[str]) -> None:
        self._may_depend: dict[str, bool] = {}
        lasts = {pattern.rpartition(".")[2] for pattern in {*patterns}}
        self._has_integers = not lasts.isdisjoint(("SCB", *_SCALES))

    def may_depend(self, pattern: str) -> bool:
        """Whether tensors of a pattern may depend on others."""
        if (depends := self._may_depend.get(pattern)) is None:
            last = pattern.rpartition(".")[2]
            depends = "lora_" in pattern or "scale" in pattern or last in _PARTS
            depends |= self._has_integers and last in _ALL_PARTS
            self._may_depend[pattern] = depends
        return depends


def depends_on(name: str, model: Model) -> tuple[Any, ...]:
    """Return the properties of other tensors that `companion` reads; equal if ranks have the same intervals."""
    module, _, last = name.rpartition(".")
    if last == "weight" and (match := _FACTOR.fullmatch(name)):
        factors = [f"{match[1]}.lora_{letter}{match[3]}.weight" for letter in "AB"]
    elif last in _ALL_PARTS:
        if last == "weight" and not any(f"{module}.{part}" in model.tensors for part in ("SCB", *_SCALES)):
            return ()
        factors = [f"{module}.{part}" for part in _ALL_PARTS]
    else:
        return ()
    order = model.tensors.get(f"{module}.weight_format")
    tensors = (model.tensors.get(companion) for companion in factors)
    return (
        *((tensor.shape, tensor.dtype) if tensor is not None else None for tensor in tensors),
        None if order is None else _number(order),
    )


def _weight_axis(module: str, sizes: tuple[int, int], model: Model) -> Axis | Unknown:
    """Return how ranks would share the weight of a module, by rows and columns."""
    weight = f"{module}.weight"
    weight_axis = known_axis(weight, model._replace(tensors={weight: _Weight(sizes)}))
    if (
        isinstance(weight_axis, Axis)
        and weight_axis.axis == 0
        and isinstance(weight_axis.heads, int)
        and weight_axis.heads % model.ranks
    ):
        return Unknown(f"whose heads in {show(weight)} are copied to several ranks")
    return weight_axis


def _packed_companion(match: re.Match[str], model: Model) -> Companion | None:
    """GPTQ, which packs several inputs into a word, and AWQ, which packs several outputs."""
    module, part = match[1], match[2]
    words, zeros, scales = (model.tensors.get(f"{module}.{part}") for part in ("qweight", "qzeros", "scales"))
    if words is None or zeros is None or scales is None:
        return None
    weight = f"{module}.weight"
    shapes = [tensor.shape for tensor in (words, zeros, scales)]
    if any(len(shape) != 2 or 0 in shape for shape in shapes):
        return Companion(weight, Unknown(f"whose shapes {[[*shape] for shape in shapes]} are not those of GPTQ or AWQ"))
    outputs, groups, per_integer = scales.shape[1], scales.shape[0], scales.shape[1] // zeros.shape[1]
    is_by_inputs = words.shape[1] == outputs
    if (
        zeros.shape != (groups, outputs // per_integer)
        or outputs % per_integer
        or (not is_by_inputs and words.shape[1] != outputs // per_integer)
    ):
        return Companion(weight, Unknown("which packs another number of elements into a word than GPTQ or AWQ do"))
    inputs = words.shape[0] * (per_integer if is_by_inputs else 1)
    shared = _weight_axis(module, (outputs, inputs), model)
    if isinstance(shared, Unknown) or shared.axis is None:
        return Companion(weight, shared)
    ranks = 1 if model.are_parts else model.ranks
    if shared.axis == 0:
        if outputs % ranks or outputs // ranks % per_integer:
            return Companion(weight, _divide(count_noun(per_integer, "output"), outputs, ranks))
        return Companion(weight, ALL if part == "g_idx" else Axis(1))
    # g_idx has the group of each input in the whole weight; without g_idx, groups consist of consecutive inputs.
    has_names, size = f"{module}.g_idx" in model.tensors, inputs // groups
    unit = per_integer if is_by_inputs else 1
    if inputs % ranks or inputs // ranks % unit:
        return Companion(weight, _divide(count_noun(unit, "input"), inputs, ranks))
    if part in ("qweight", "g_idx") or (not has_names and groups > 1):
        if not has_names and groups > 1 and inputs // ranks % size:
            return Companion(weight, _divide(count_noun(size, "input"), inputs, ranks))
        return Companion(weight, Axis(0))
    return Companion(weight, ALL)


def _divide(block: str, size: int, ranks: int) -> Unknown:
    return Unknown(f"of which each is for {block}, of {size} that {count_noun(ranks, 'rank')} would divide")


def _factor_companion(match: re.Match[str], model: Model) -> Companion | None:
    """LoRA, whose factor A reads the inputs, and whose factor B computes the outputs."""
    module, factor, adapter = match.groups()
    first, second = (model.tensors.get(f"{module}.lora_{letter}{adapter}.weight") for letter in "AB")
    if first is None or second is None:
        return None
    weight = f"{module}.weight"
    if len(first.shape) != 2 or len(second.shape) != 2 or first.shape[0] != second.shape[1]:
        return Companion(weight, Unknown("whose factors A and B do not fit each other"))
    shared = _weight_axis(module, (second.shape[0], first.shape[1]), model)
    if isinstance(shared, Unknown) or shared.axis is None:
        return Companion(weight, shared)
    return Companion(weight, shared if factor == ("B" if shared.axis == 0 else "A") else ALL)


def _integer_companion(match: re.Match[str], model: Model) -> Companion | None:
    """Return how ranks share a tensor of LLM.int8 of bitsandbytes, which has one scale per row."""
    module, part = match[1], match[2]
    weight, scales = model.tensors.get(f"{module}.weight"), model.tensors.get(f"{module}.SCB")
    if weight is None or scales is None or weight.dtype != np.int8:
        return None
    if len(weight.shape) != 2 or scales.shape != weight.shape[:1]:
        return Companion(f"{module}.weight", Unknown(f"beside whose weight SCB has shape {[*scales.shape]}"))
    order = model.tensors.get(f"{module}.weight_format")
    if order is not None and _number(order) != 0:
        return Companion(f"{module}.weight", Unknown("whose weight lies in tiles, as its weight_format says"))
    shared = _weight_axis(module, weight.shape, model)
    if isinstance(shared, Unknown) or shared.axis is None or part == "weight":
        return Companion(f"{module}.weight", shared)
    is_shared = part == "SCB" and shared.axis == 0
    return Companion(f"{module}.weight", shared if is_shared else ALL)


def _grouped_companion(match: re.Match[str], model: Model) -> Companion | None:
    """Rows of integers with a scale per row, or per group in a row: int8 and NVFP4 of two libraries, and MLX.

    What a row holds is not looked into: ranks share whole rows, or whole groups of each row.
    """
    module, part = match[1], match[2]
    integers = next(
        (found for name in ("weight_packed", "weight") if (found := model.tensors.get(f"{module}.{name}"))), None
    )
    scales = next((found for name in _SCALES if (found := model.tensors.get(f"{module}.{name}"))), None)
    if integers is None or scales is None or integers.dtype.kind not in "iu":
        return None
    weight = f"{module}.weight"
    if f"{module}.weight_shape" in model.tensors:
        reason = "whose weight_shape states the shape of the whole weight, and would be wrong for the part of a rank"
        return Companion(weight, Unknown(reason))
    shapes = [tensor.shape for tensor in (integers, scales, model.tensors[match[0]])]
    rows, columns = shapes[0] if len(shapes[0]) == 2 else (0, 0)
    if not rows or any(len(shape) != 2 or shape[0] != rows or not shape[1] or columns % shape[1] for shape in shapes):
        return Companion(
            weight, Unknown(f"whose shapes {[[*shape] for shape in shapes]} are not of rows and their groups")
        )
    groups = shapes[1][1]
    shared = _weight_axis(module, (rows, columns), model)
    if isinstance(shared, Unknown) or shared.axis != 1:
        return Companion(weight, shared)
    if groups == 1 and model.are_parts and model.ranks > 1:
        return Companion(weight, Unknown("whose scales have one column in each rank, of one or several in the whole"))
    if groups > 1 and not model.are_parts and groups % model.ranks:
        return Companion(weight, _divide(count_noun(columns // groups, "column"), columns, model.ranks))
    return Companion(weight, ALL if groups == 1 and part not in ("weight", "weight_packed") else shared)


def _number(tensor: Any) -> int | None:
    """Read the only element of a tensor; None if the tensor has several elements or stores."""
    sources = getattr(tensor, "sources", (tensor,))
    read: Callable[[], Any] | None = getattr(sources[0], "read", None) if len(sources) == 1 else None
    if read is None or sources[0].size != 1:
        return None
    try:
        return int(read().reshape(-1)[0])
    except ModelError:
        return None
