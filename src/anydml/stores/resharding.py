"""`reshard`: plans that consolidate, shard or rearrange a checkpoint."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from anydml.errors import ModelError
from anydml.files.location import Location, show
from anydml.moves.composer import Composer
from anydml.paths import path_text
from anydml.stores.argument_checks import COUNT, checked
from anydml.stores.checkpoints.apply_rules import apply_rule
from anydml.stores.checkpoints.composed import ComposedTensors, WholeTensors, compose_stored, program_of
from anydml.stores.checkpoints.layout_rules import read_layout
from anydml.stores.checkpoints.output_files import Change, outputs_of, plan_checkpoint
from anydml.stores.checkpoints.parallel_axes import Axes
from anydml.stores.checkpoints.placements import Placement
from anydml.stores.checkpoints.rules_in_python import apply_python, read_python
from anydml.stores.checkpoints.selecting import Selection, Strings
from anydml.stores.checkpoints.shards import NewIndex, OutputFile
from anydml.stores.checkpoints.sources import read_sources
from anydml.stores.formats.model_files import INDEX
from anydml.stores.plans import Plan
from anydml.tracing.trace import Trace
from anydml.tracing.traced_ndarray import TracedNdarray


@checked(shards=COUNT)
def reshard(
    inputs: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    output: str | os.PathLike[str],
    layout: str | os.PathLike[str] | None = None,
    ranks: int | Mapping[str, int] | None = None,
    memory: int | str = "256MB",
    shard_size: int | str = "5GB",
    overwrite: bool = False,
    extras: bool | str | os.PathLike[str] = True,
    follow: bool = True,
    dtype: Any = None,
    dcp: bool = False,
    shards: int | None = None,
    only: Strings = (),
    drop: Strings = (),
    strip: Strings = (),
    rename: Mapping[str, str] | Sequence[tuple[str, str]] = (),
    vocab_size: int | None = None,
    scratch: str | os.PathLike[str] | None = None,
) -> Plan:
    """Plan to rewrite a checkpoint of any format as safetensors, GGUF, .npz, or a distributed checkpoint of PyTorch.

    Args:
        inputs: a file, an index or a folder of whole tensors, of pieces of a distributed checkpoint of PyTorch, of
            DeepSpeed, Megatron or Meta's Llama, or of ranks as this function writes them; or several: files of such
            ranks or pieces, or with no tensor in common, in any order; otherwise one per tensor-parallel rank, in
            order.
        output: a .safetensors, .gguf or .npz file, or a folder of .safetensors files, which gets an index if it has
            more than one.
        layout: a TOML file with rules for tensors and axes for ranks; or a Python file (.py), which is run, and whose
            function ``layout`` is traced: it takes a dict of all tensors by name, and returns one of the new tensors.
        ranks: the number of tensor-parallel ranks, each of which gets a file; or the number of ranks of each kind by
            name: ``tp``, ``ep`` for experts, ``pp`` for stages, and ``fsdp``, which shares the first axis of the rest;
            None for whole tensors.
        memory: bytes of all buffers together, or a string such as ``"256MB"``.
        shard_size: maximum bytes of tensors per file; a larger tensor gets a separate file.
        overwrite: whether an existing output may be replaced.
        extras: whether small files, such as config.json and those of a tokenizer, are copied from folder to folder; or
            another folder from which they are copied.
        follow: as in `anydml.stores.open`.
        dtype: the dtype to which floating-point tensors are cast when read, such as ``"bfloat16"`` or ``"bf16"``; None
            for no cast.
        dcp: whether the output is a distributed checkpoint of PyTorch, as ``torch.distributed.checkpoint.save`` writes
            it, with a file for each rank.
        shards: the number of files, of about equal size, instead of `shard_size`.
        only: names, prefixes of names up to a dot, or patterns of the selected tensors; by default all tensors.
        drop: the same for tensors that are left out.
        strip: prefixes of names, such as ``"model."``, that are removed.
        rename: new names by patterns, such as ``{"*.gamma": "*.weight"}``, which are applied in order.
        vocab_size: rows of embeddings and output layers, without rows of padding; None keeps all rows.
        scratch: a folder for the local copy of an output at an address, such as ``s3://bucket/model``.

    Returns:
        The plan; nothing is written before its `run`.

    Raises:
        ModelError: an input or the layout is broken, rules or the selection do not fit, or an axis cannot be shared.
        BindingError: the memory is too small, or the output is an input.

    Examples:
        >>> from anydml import stores
        >>> np.save("w.npy", np.ones((4, 2), "f4"))
        >>> files = stores.create("whole.safetensors", shape={"w": [4, 2]}, dtype="float32")
        >>> dml.fuse(lambda w: {"w": w}).plan(stores.open("w.npy"), files).run()
        >>> plan = stores.reshard(["whole.safetensors"], "parts", shard_size="1MB")
        >>> plan.run()
        >>> list(stores.open("parts"))
        ['w']
    """
    inputs = [inputs] if isinstance(inputs, (str, os.PathLike)) else inputs
    if not inputs:
        raise ModelError("reshard: name a checkpoint")
    trace = Trace("reshard", TracedNdarray)
    change, axes = change_of(trace, layout)
    placement = None if ranks is None else Placement.of("reshard", ranks)
    return plan_checkpoint(
        trace.composer, inputs, output, change, axes, placement,
        memory, shard_size, overwrite, extras, follow, dtype, dcp, shards, Selection.of(only, drop, strip, rename),
        vocab_size, scratch,
    )  # fmt: skip


def change_of(trace: Trace, layout: str | os.PathLike[str] | None) -> tuple[Change | None, Axes]:
    """Read a layout.

    Args:
        trace: a trace whose inputs are the tensors.
        layout: the file, as for `reshard`.

    Returns:
        The change that it makes to tensors, or None; and the axes along which it shares them.

    Raises:
        ModelError: the file cannot be read, or is not a layout.
    """
    path = None if layout is None else Path(path_text(f"{trace.composer.name}: layout", layout))
    if path is not None and path.suffix.lower() == ".py":
        function, axes = read_python(path)
        return lambda tensors: apply_python(trace, tensors, function, path), Axes(axes)
    layout_file = read_layout(path)
    if not layout_file.rules:
        return None, layout_file.axes

    def change(tensors: ComposedTensors) -> ComposedTensors:
        for rule in layout_file.rules:
            tensors = apply_rule(trace.composer, tensors, rule)
        return tensors

    return change, layout_file.axes


def consolidate(
    folder: str | os.PathLike[str],
    output: str | os.PathLike[str],
    numbers: Mapping[str, int],
    memory: int | str = "256MB",
) -> Plan:
    """Plan to write the tensors of a checkpoint into numbered files of a folder, with the names of PyTorch.

    Args:
        folder: a distributed checkpoint of PyTorch, or any that `reshard` reads.
        output: a folder, in which files of the same names are replaced.
        numbers: the number of its file, from 1, for each tensor by name; other tensors are left out.
        memory: bytes of all buffers together, or a string such as ``"256MB"``.

    Returns:
        The plan.

    Raises:
        ModelError: a file is broken, or a tensor does not exist.
        BindingError: the memory is too small, or an output is an input.
    """
    path_text("consolidate", output)
    tensors = read_sources([folder], Axes()).tensors
    if missing := [name for name in numbers if name not in tensors]:
        raise Location(str(folder)).error(f"has no tensor {show(missing[0])}")
    if not numbers:
        raise Location(str(output)).error("would have no tensor")
    if (first_number := min(numbers.values())) < 1:
        raise Location(str(output)).error(f"would have file {first_number}: the numbers of files begin at 1")
    count, out = max(numbers.values()), Path(output)
    wholes = WholeTensors([*compose_stored({name: tensors[name] for name in numbers}).items()]).as_parts
    file, files = np.array([*numbers.values()]), list[OutputFile]()
    parts = wholes.subset(np.argsort(file, kind="stable"))
    ends = np.cumsum(np.bincount(file, minlength=count + 1)).tolist()
    for file_number in np.unique(file).tolist():
        path = out / f"model-{file_number:05}-of-{count:05}.safetensors"
        files.append(OutputFile(path, parts.subset(slice(ends[file_number - 1], ends[file_number])), {"format": "pt"}))
    program, stores = program_of(Composer("consolidate"), parts)
    return Plan(program, stores, outputs_of(files, parts), memory, True, None, {out / f"model{INDEX}": NewIndex(files)})
