"""Experts of transformers models: fused tensors of all experts of a layer, and tensors per expert.

A module of experts states how it stores its tensors: transposed or not, with gate and up concatenated or interleaved.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from anydml.errors import ModelError
from anydml.files.json_path import show
from anydml.moves.compose import Composer
from anydml.stores.checkpoints.composed import ComposedTensor, ComposedTensors, sliced, together
from anydml.stores.checkpoints.missing_members import refused_for


class Projection(NamedTuple):
    """A tensor of all experts of a layer.

    Attributes:
        name: of the tensor.
        prefix: of the module.
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
        """Names of the tensors of an expert."""
        return [f"{self.prefix}.{expert}.{part}.{self.kind}" for part in self.parts]

    def apart(self, composer: Composer, tensor: ComposedTensor) -> Iterator[tuple[str, ComposedTensor]]:
        """One tensor per expert and part."""
        for expert in range(tensor.shape[0]):
            value = composer.reshape(sliced(composer, tensor.value, 0, expert, 1), tensor.shape[1:])
            value = value.permute((1, 0)) if self.is_transposed else value
            count = len(self.parts)
            size = value.sizes[0] // count
            for k, name in enumerate(self.names(expert)):
                start, step = (k * size, 1) if self.is_concatenated else (k, count)
                yield name, tensor.changed(sliced(composer, value, 0, start, size, step))

    def fused(self, composer: Composer, experts: Sequence[Sequence[ComposedTensor]]) -> ComposedTensor:
        """The fused tensor of the parts of all experts."""
        made = []
        count = len(self.parts)
        every, sources = together([each for parts in experts for each in parts])
        for first in range(0, len(every), count):
            values = every[first : first + count]
            if self.is_concatenated:
                value = composer.join(values, 0)
            else:
                apart = [composer.reshape(each, (each.sizes[0], 1, *each.sizes[1:])) for each in values]
                value = composer.join(apart, 1)
                value = composer.reshape(value, (value.sizes[0] * value.sizes[1], *value.sizes[2:]))
            value = value.permute((1, 0)) if self.is_transposed else value
            made.append(composer.reshape(value, (1, *value.sizes)))
        return ComposedTensor(composer.join(made, 0), experts[0][0].dtype, sources)


def projections_of(model: Any) -> Iterator[Projection]:
    """The fused expert tensors of a transformers model."""
    for prefix, module in model.named_modules():
        if not (hasattr(module, "is_concatenated") and hasattr(module, "is_transposed")):
            continue
        for name, parameter in module.named_parameters(recurse=False):
            own, is_bias = name.removesuffix("_bias"), name.endswith("_bias")
            if own not in ("gate_up_proj", "up_proj", "down_proj") or parameter.dim() != 3 - is_bias:
                continue
            parts = ("gate_proj", "up_proj") if own == "gate_up_proj" else (own,)
            is_transposed = module.is_transposed and not is_bias
            kind = "bias" if is_bias else "weight"
            yield Projection(f"{prefix}.{name}", prefix, parts, kind, is_transposed, module.is_concatenated)


def per_expert(composer: Composer, tensors: ComposedTensors, model: Any) -> ComposedTensors:
    """The tensors of a model with one tensor per expert.

    Raises:
        ModelError: a module of experts does not state how it stores them.
    """
    known = {each.name: each for each in projections_of(model)}
    made: ComposedTensors = {}
    for name, tensor in tensors.items():
        if name not in known and "experts" in name.split(".") and len(tensor.shape) > 2:
            raise ModelError(
                f"convert: {show(name)} has all experts of a layer, and transformers does not say how: layout rules do"
            )
        made.update(known[name].apart(composer, tensor) if name in known else {name: tensor})
    return made


def fused(composer: Composer, tensors: ComposedTensors, model: Any) -> ComposedTensors:
    """The tensors of a model with fused experts, from tensors with the names of `per_expert`.

    Raises:
        ModelError: some experts of a layer are missing.
    """
    made = {**tensors}
    shapes = model.state_dict()
    for each in projections_of(model):
        every = [each.names(expert) for expert in range(shapes[each.name].shape[0])]
        gone = [name for own in every for name in own if name not in tensors]
        if gone and len(gone) < sum(map(len, every)):
            raise refused_for(each.name, gone)
        if not gone:
            made[each.name] = each.fused(composer, [[made.pop(name) for name in own] for own in every])
    return made
