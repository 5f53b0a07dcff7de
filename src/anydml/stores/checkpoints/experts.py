"""Experts of transformers models, as fused tensors of all experts of a layer, or as tensors per expert.

A module of experts states how it stores its tensors: transposed or not, with gate and up concatenated or interleaved.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from anydml.errors import ModelError
from anydml.files.location import show
from anydml.moves.composer import Composer
from anydml.stores.checkpoints.composed import ComposedTensor, ComposedTensors, slice_value, together
from anydml.stores.checkpoints.missing_members import refused_for


class Projection(NamedTuple):
    """A tensor of all experts of a layer.

    Attributes:
        name: the name of the tensor.
        prefix: the prefix of the module.
        parts: names of the projections that it contains.
        kind: weight or bias.
        is_transposed: whether rows of a projection are columns of the tensor.
        is_concatenated: whether parts are concatenated; otherwise their rows alternate.
    """

    name: str
    prefix: str
    parts: tuple[str, ...]
    kind: str
    is_transposed: bool
    is_concatenated: bool

    def names(self, expert: int) -> list[str]:
        """Return names of the tensors of an expert."""
        return [f"{self.prefix}.{expert}.{part}.{self.kind}" for part in self.parts]

    def split_experts(self, composer: Composer, tensor: ComposedTensor) -> Iterator[tuple[str, ComposedTensor]]:
        """Yield one tensor per expert and part."""
        for expert in range(tensor.shape[0]):
            value = composer.reshape(slice_value(composer, tensor.value, 0, expert, 1), tensor.shape[1:])
            value = value.permute((1, 0)) if self.is_transposed else value
            count = len(self.parts)
            size = value.sizes[0] // count
            for k, name in enumerate(self.names(expert)):
                start, step = (k * size, 1) if self.is_concatenated else (k, count)
                yield name, tensor.with_value(slice_value(composer, value, 0, start, size, step))

    def fuse(self, composer: Composer, experts: Sequence[Sequence[ComposedTensor]]) -> ComposedTensor:
        """Return the fused tensor of the parts of all experts."""
        projected = []
        count = len(self.parts)
        joined_values, sources = together([part for parts in experts for part in parts])
        for first in range(0, len(joined_values), count):
            values = joined_values[first : first + count]
            if self.is_concatenated:
                value = composer.join(values, 0)
            else:
                rows = [composer.reshape(value, (value.sizes[0], 1, *value.sizes[1:])) for value in values]
                value = composer.join(rows, 1)
                value = composer.reshape(value, (value.sizes[0] * value.sizes[1], *value.sizes[2:]))
            value = value.permute((1, 0)) if self.is_transposed else value
            projected.append(composer.reshape(value, (1, *value.sizes)))
        return ComposedTensor(composer.join(projected, 0), experts[0][0].dtype, sources)


def projections_of(model: Any) -> Iterator[Projection]:
    """Yield the fused expert tensors of a transformers model."""
    for prefix, module in model.named_modules():
        if not (hasattr(module, "is_concatenated") and hasattr(module, "is_transposed")):
            continue
        for name, parameter in module.named_parameters(recurse=False):
            stem, is_bias = name.removesuffix("_bias"), name.endswith("_bias")
            if stem not in ("gate_up_proj", "up_proj", "down_proj") or parameter.dim() != 3 - is_bias:
                continue
            parts = ("gate_proj", "up_proj") if stem == "gate_up_proj" else (stem,)
            is_transposed = module.is_transposed and not is_bias
            member = "bias" if is_bias else "weight"
            yield Projection(f"{prefix}.{name}", prefix, parts, member, is_transposed, module.is_concatenated)


def per_expert(composer: Composer, tensors: ComposedTensors, model: Any) -> ComposedTensors:
    """Return the tensors of a model with one tensor per expert.

    Raises:
        ModelError: a module of experts does not state how it stores them.
    """
    by_name = {projection.name: projection for projection in projections_of(model)}
    changed_tensors: ComposedTensors = {}
    for name, tensor in tensors.items():
        if name not in by_name and "experts" in name.split(".") and len(tensor.shape) > 2:
            raise ModelError(
                f"convert: {show(name)} has all experts of a layer, and transformers does not state their order: split "
                "them by a layout of anydml reshard"
            )
        changed_tensors.update(by_name[name].split_experts(composer, tensor) if name in by_name else {name: tensor})
    return changed_tensors


def fuse_experts(composer: Composer, tensors: ComposedTensors, model: Any) -> ComposedTensors:
    """Return the tensors of a model with fused experts, from tensors with the names of `per_expert`.

    Raises:
        ModelError: some experts of a layer are missing.
    """
    result = {**tensors}
    shapes = model.state_dict()
    for projection in projections_of(model):
        names_of_experts = [projection.names(expert) for expert in range(shapes[projection.name].shape[0])]
        missing = [name for expert_names in names_of_experts for name in expert_names if name not in tensors]
        if missing and len(missing) < sum(map(len, names_of_experts)):
            raise refused_for(projection.name, missing)
        if not missing:
            result[projection.name] = projection.fuse(
                composer, [[result.pop(name) for name in expert_names] for expert_names in names_of_experts]
            )
    return result
