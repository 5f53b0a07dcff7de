"""`convert`: a checkpoint in the layout of transformers, of its authors, or of another library."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

from anydml.errors import ModelError
from anydml.files.location import Location, show
from anydml.moves.composer import Composer
from anydml.paths import path_text
from anydml.stores.argument_checks import COUNT, checked
from anydml.stores.checkpoints.composed import ComposedTensors
from anydml.stores.checkpoints.model_layouts import cached_layout
from anydml.stores.checkpoints.output_files import Change, plan_checkpoint
from anydml.stores.checkpoints.parallel_axes import Axes
from anydml.stores.checkpoints.placements import Placement
from anydml.stores.checkpoints.presets import LayoutName
from anydml.stores.formats.block_types import is_of_blocks
from anydml.stores.formats.store import uncollected
from anydml.stores.plans import Plan

LAYOUTS: tuple[str, ...] = get_args(LayoutName)
"""Layouts by name."""


@checked(shards=COUNT)
@uncollected()
def convert(
    model: str | os.PathLike[str],
    output: str | os.PathLike[str],
    to: LayoutName = "transformers",
    ranks: int | Mapping[str, int] | None = None,
    memory: int | str = "256MB",
    shard_size: int | str = "5GB",
    overwrite: bool = False,
    extras: bool | str | os.PathLike[str] = True,
    follow: bool = True,
    dtype: Any = None,
    dcp: bool = False,
    shards: int | None = None,
    scratch: str | os.PathLike[str] | None = None,
) -> Plan:
    """Plan to rewrite a model in another layout, by the conversion mappings of the installed transformers.

    Args:
        model: a folder with a safetensors checkpoint and its config.json.
        output: a folder, which gets an index if it has more than one file; or a .safetensors file.
        to: ``"transformers"``, the layout of the model that `from_pretrained` makes; ``"original"``, that of
            `save_pretrained`, in which models are published; ``"per-expert"``, the first with one tensor per expert;
            ``"vllm"`` or ``"megatron"``, those of their parameters.
        ranks: as in `anydml.stores.reshard`; where `to` is ``"transformers"``, tensor-parallel ranks share tensors by
            the plan of transformers for the model; layers and experts keep the numbers of the whole model.
        memory: bytes of all buffers together, or a string such as ``"256MB"``.
        shard_size: maximum bytes of tensors per file; a larger tensor gets a separate file.
        overwrite: whether an existing output may be replaced.
        extras: whether small files, such as config.json and those of a tokenizer, are copied; or another folder from
            which they are copied.
        follow: as in `anydml.stores.open`.
        dtype: the dtype that all floating-point tensors are cast to, such as ``"bfloat16"``; None for no cast.
        dcp: whether the output is a distributed checkpoint of PyTorch, as ``torch.distributed.checkpoint.save`` writes
            it, with a file for each rank.
        shards: as in `anydml.stores.reshard`.
        scratch: as in `anydml.stores.reshard`.

    Returns:
        The plan; nothing is written before its `run`.

    Raises:
        ModelError: transformers is not installed or does not know the model, a converter of its mapping computes, or
            the tensors do not fit the model.
        BindingError: the memory is too small, or the output is an input.

    Examples:
        >>> import transformers
        >>> from anydml import stores
        >>> config = transformers.MixtralConfig(
        ...     vocab_size=16, hidden_size=8, intermediate_size=8, num_hidden_layers=1, num_attention_heads=2,
        ...     num_key_value_heads=1, num_local_experts=2,
        ... )
        >>> transformers.MixtralForCausalLM(config).save_pretrained("mixtral")
        >>> stores.convert("mixtral", "fused").run()
        >>> sorted(name for name in stores.open("fused") if "experts" in name)
        ['model.layers.0.mlp.experts.down_proj', 'model.layers.0.mlp.experts.gate_up_proj']
    """
    composer, change, remarks, axes = conversion(model, to, ranks is not None)
    placement = None if ranks is None else Placement.of("convert", ranks)
    plan = plan_checkpoint(
        composer, [model], output, change, axes, placement,
        memory, shard_size, overwrite, extras, follow, dtype, dcp, shards, scratch=scratch,
    )  # fmt: skip
    plan.remarks = remarks + plan.remarks
    return plan


def conversion(
    model: str | os.PathLike[str], to: str, is_shared: bool = False
) -> tuple[Composer, Change, list[str], Axes]:
    """Return a composer, and a function that changes tensors over its inputs and adds remarks and the axes of ranks.

    Args:
        model: as in `convert`.
        to: the layout to convert to.
        is_shared: whether the axes are needed.

    Raises:
        ModelError: as in `convert`.
    """
    if to not in LAYOUTS:
        raise ModelError(f"convert: to must be one of {', '.join(LAYOUTS)}, not {to!r}")
    folder = Path(path_text("convert", model))
    if not folder.is_dir():
        raise Location(str(folder)).error("is not a folder: name one with a checkpoint and its config.json")
    composer, axes, remarks = Composer("convert"), Axes(), list[str]()

    def change(tensors: ComposedTensors) -> ComposedTensors:
        if (blocks := next((name for name, tensor in tensors.items() if is_of_blocks(tensor.dtype)), None)) is not None:
            raise Location(str(folder)).error(f"has {show(blocks)}, whose elements NumPy does not have: not converted")
        stores = {id(store): store for tensor in tensors.values() for store in tensor.sources}
        numbers = {store: k for k, store in enumerate(stores)}
        numbered = {
            name: replace(tensor, sources=tuple(numbers[id(store)] for store in tensor.sources))
            for name, tensor in tensors.items()
        }
        answer = cached_layout(folder, to, is_shared, numbered)
        vars(composer).update(vars(answer.composer))
        vars(axes).update(vars(answer.axes))
        remarks.extend(answer.remarks)
        sources = [*stores.values()]
        return {
            name: replace(tensor, sources=tuple(sources[k] for k in tensor.sources))
            for name, tensor in answer.tensors.items()
        }

    return composer, change, remarks, axes
