"""Checkpoints that a plan writes: safetensors files, their index, and the small files beside them."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from anydml.errors import ModelError
from anydml.files.json_path import JsonPath
from anydml.moves.compose import Composer
from anydml.moves.value import Value
from anydml.stores.applying import Described, Tensors
from anydml.stores.axes import Axes
from anydml.stores.extras import extras_beside, said_of
from anydml.stores.opening import INDEX
from anydml.stores.placements import Placed, Placement, part_of
from anydml.stores.plans import Plan
from anydml.stores.sizes import parse_size
from anydml.stores.sources import PARTS, RANK, RANKS, Tensor, read_sources
from anydml.stores.staging import Content
from anydml.stores.store import Store
from anydml.stores.targets import Target, new_safetensors
from anydml.text import bytes_text

OF_OTHERS = (".npy", ".npz", ".zarr", ".bin", ".pt", ".pth", ".ckpt", ".gguf", ".onnx", ".json", ".toml", ".h5")
"""What names of files end with that are not written; a folder of such a name would be a surprise."""

Part = tuple[Path, Tensors, dict[str, str]]
"""A file, its tensors and its metadata."""

Change = Callable[[Tensors], Tensors]
"""What becomes of the tensors of a checkpoint."""


def plan_checkpoint(
    composer: Composer,
    inputs: Sequence[str | os.PathLike[str]],
    output: str | os.PathLike[str],
    change: Change | None,
    axes: Axes,
    placement: Placement | None,
    memory: int | str,
    shard_size: int | str,
    overwrite: bool,
    extras: bool,
    follow: bool,
) -> Plan:
    """Plan to write a checkpoint, changed.

    Args:
        composer: of the program; errors have its name.
        inputs: as `anydml.stores.reshard`, like all arguments that follow `axes`.
        output: likewise.
        change: given all tensors, described by this composer's values, gives the new ones; None where they stay.
        axes: along which ranks share tensors.
        placement: of ranks, each of which gets a file; or None.
        memory: bytes for all buffers.
        shard_size: bytes of tensors in a file.
        overwrite: whether an output that exists may be replaced.
        extras: whether small files are copied.
        follow: whether links are followed.
    """
    name, out = composer.name, Path(output)
    is_file = check_output(name, out, placement is not None)
    most = parse_size(shard_size)
    if not most:
        raise ModelError(f"{name}: shard_size is 0, where bytes of a file are expected, such as 5GB")
    tensors, metadata = read_sources(inputs, axes, follow)
    stores: list[Store] = []
    described = {name: input_of(composer, tensor, stores) for name, tensor in tensors.items()}
    described = described if change is None else change(described)
    if not described:
        raise JsonPath(str(out)).error("would have no tensor")
    metadata.setdefault("format", "pt")
    others: dict[Path, Content] = {}
    if placement is not None:
        parts = [*_ranks(composer, described, axes, placement, out, metadata)]
    elif is_file:
        parts = [(out, described, metadata)]
    else:
        parts = [*_shards(described, out, metadata, most)]
        if len(parts) > 1:
            others[out / f"model{INDEX}"] = index_of(parts)
    copied, left = extras_beside(inputs[0]) if extras else ([], [])
    read = {store.path.name for store in stores}
    left = [each for each in left if each not in read]
    if is_file:
        copied, left = [], [*(each.name for each in copied), *left]
    others |= {out / each.name: each for each in copied}
    targets = outputs_of(composer, parts)
    plan = Plan(composer.program(), stores, targets, memory, overwrite, None if is_file else out, others)
    size = f", {bytes_text(sum(each.stat().st_size for each in copied))}"
    plan.remarks = said_of("copies", [each.name for each in copied], size) + said_of("leaves behind", left)
    return plan


def outputs_of(composer: Composer, parts: Sequence[Part]) -> list[Target]:
    """Targets for all tensors of files, which are outputs of the program from here on."""
    targets: list[Target] = []
    for path, own, said in parts:
        made = new_safetensors(path, {name: (each.shape, each.dtype) for name, each in own.items()}, said)
        for name, each in own.items():
            composer.output(f"{path.name}: {name}", each.value)
            targets.append(made[name])
    return targets


def check_output(name: str, out: Path, is_for_ranks: bool) -> bool:
    """Whether the output is one file."""
    is_file = out.name.endswith(".safetensors")
    if out.suffix.lower() in OF_OTHERS:
        raise JsonPath(str(out)).error("would be a file of another kind: name a .safetensors file, or a folder")
    if is_for_ranks and is_file:
        raise JsonPath(str(out)).error("is one file, but every rank gets one: name a folder")
    return is_file


def input_of(composer: Composer, tensor: Tensor | Store, stores: list[Store]) -> Described:
    """A tensor over new inputs of the program, one for each store that has some of it."""
    values: dict[int, Value] = {}
    pieces = []
    for piece in tensor.pieces:
        store = piece.store
        if id(store) not in values:
            name, size = f"{store.path.name}: {store.name}", store.dtype.itemsize
            values[id(store)] = composer.input(name, store.shape, store.strides, size)
            stores.append(store)
        value = values[id(store)].slice(piece.inside, piece.shape, [1] * store.ndim)
        # A box of an input begins at zeros.
        pieces += [each._replace(start=piece.start) for each in value.pieces]
    return Described(Value(tensor.shape, tensor.dtype.itemsize, tuple(pieces)), tensor.dtype)


def _shards(tensors: Tensors, out: Path, metadata: dict[str, str], most: int) -> Iterator[Part]:
    """Files of whole tensors, in order, named as Hugging Face does."""
    groups: list[Tensors] = [{}]
    size = 0
    for name, each in tensors.items():
        own = math.prod(each.shape) * each.dtype.itemsize
        if groups[-1] and size + own > most:
            groups.append({})
            size = 0
        groups[-1][name] = each
        size += own
    for k, group in enumerate(groups):
        name = "model.safetensors" if len(groups) == 1 else f"model-{k + 1:05}-of-{len(groups):05}.safetensors"
        yield out / name, group, metadata


def index_of(parts: Sequence[Part]) -> bytes:
    """The index of several files."""
    total = sum(math.prod(each.shape) * each.dtype.itemsize for _, own, _ in parts for each in own.values())
    weight_map = {name: path.name for path, own, _ in parts for name in own}
    content = {"metadata": {"total_size": total}, "weight_map": dict(sorted(weight_map.items()))}
    return (json.dumps(content, indent=2, ensure_ascii=False) + "\n").encode("utf-8")


def _ranks(
    composer: Composer, tensors: Tensors, axes: Axes, placement: Placement, out: Path, metadata: Mapping[str, str]
) -> Iterator[Part]:
    """A file for each rank."""
    placed = Placed(tensors, axes, placement, str(out))
    count = placement.ranks
    for rank in range(count):
        cuts = {name: placed.cuts(name, each.shape, rank) for name, each in tensors.items() if placed.holds(name, rank)}
        own = {name: part_of(composer, tensors[name], each) for name, each in cuts.items()}
        said = {RANK: str(rank), RANKS: str(count), PARTS: json.dumps(cuts, ensure_ascii=False)}
        yield out / f"model-rank-{rank:05}-of-{count:05}.safetensors", own, {**metadata, **said}
