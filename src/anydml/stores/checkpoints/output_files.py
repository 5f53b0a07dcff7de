"""Checkpoints that a plan writes: safetensors files, their index, and the small files beside them."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Any

from anydml.errors import ModelError
from anydml.fields import path_text
from anydml.files.json_path import JsonPath, names
from anydml.moves.compose import Composer
from anydml.moves.value import Value
from anydml.stores.checkpoints.axes import Axes
from anydml.stores.checkpoints.casting import cast, config_of, dtype_of
from anydml.stores.checkpoints.composed import ComposedTensor, ComposedTensors, described, program_of
from anydml.stores.checkpoints.model_config import config_beside
from anydml.stores.checkpoints.placements import Placed, Placement
from anydml.stores.checkpoints.sources import read_sources
from anydml.stores.formats.completeness import PARTS, RANK, RANKS
from anydml.stores.formats.distributed_target import NewPiece, new_distributed
from anydml.stores.formats.opening import INDEX, inside
from anydml.stores.formats.store import uncollected
from anydml.stores.formats.target import Content, Target, new_tensors
from anydml.stores.plans import Plan
from anydml.text import bytes_text, parse_size

MOST_BYTES = 64 << 20
"""Most bytes of a small file; tokenizers have tens of millions."""

WEIGHTS = (".safetensors", ".bin", ".pt", ".pth", ".ckpt", ".gguf", ".ggml", ".onnx", ".onnx_data", ".h5", ".msgpack",
           ".npy", ".npz", ".pkl", ".ot", ".tflite", ".mlpackage", ".zip", ".tar", ".gz", ".index.json")  # fmt: skip
"""Suffixes of files with weights, and of their indexes."""


def extras_beside(path: str | os.PathLike[str]) -> tuple[list[Path], list[str]]:
    """The small files of a checkpoint, and the names of other files there.

    Hidden files are neither. Links may lead to files in the folder or in the cache of Hugging Face's hub only, so that
    a model with a link to a private file does not get that file published.

    Args:
        path: the folder, or an index in it; a single file has no small files.

    Raises:
        ModelError: the folder cannot be read.
    """
    folder = Path(path)
    if folder.name.endswith(INDEX):
        folder = folder.parent
    elif not folder.is_dir():
        return [], []
    copied, left = list[Path](), list[str]()
    with JsonPath(str(folder)).reading():
        for each in sorted(folder.iterdir()):
            if each.name.startswith(".") or each.name.endswith((".safetensors", INDEX)):
                continue
            if each.is_dir():
                left.append(f"{each.name}/")
            elif each.name.lower().endswith(WEIGHTS) or not _is_small(folder, each):
                left.append(each.name)
            else:
                copied.append(each)
    return copied, left


def _is_small(folder: Path, path: Path) -> bool:
    try:
        return inside(folder, path.name, JsonPath(str(path))).stat().st_size <= MOST_BYTES
    except ModelError:
        return False


def said_of(what: str, files: list[str], more: str = "") -> list[str]:
    """A remark on files, if there are any."""
    return [f"{what} {names(files)}{more}"] if files else []


OF_OTHERS = (".npy", ".zarr", ".bin", ".pt", ".pth", ".ckpt", ".onnx", ".json", ".toml", ".h5")
"""Suffixes of formats that are not written, and are not taken for folders."""

OutputFile = tuple[Path, ComposedTensors, dict[str, str]]
"""The path, tensors and metadata of a file."""

Change = Callable[[ComposedTensors], ComposedTensors]
"""A function from the tensors of a checkpoint to new ones."""


@uncollected()
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
    dtype: Any = None,
    dcp: bool = False,
) -> Plan:
    """Plan to write a checkpoint with changed tensors.

    Args:
        composer: of the program, whose name errors have.
        inputs: as in `anydml.stores.reshard`.
        output: likewise.
        change: from all tensors, as values of the composer, to the new ones; None for no change.
        axes: along which ranks share tensors.
        placement: of ranks, each of which gets a file; None for whole tensors.
        memory: bytes of all buffers.
        shard_size: bytes of tensors per file.
        overwrite: whether an existing output may be replaced.
        extras: whether small files are copied.
        follow: whether links are followed.
        dtype: to which floating-point numbers are cast; None for no cast.
        dcp: whether the output is a distributed checkpoint of PyTorch.
    """
    name = composer.name
    out = Path(path_text(name, output))
    is_file = check_output(name, out, placement is not None or dcp)
    most = parse_size(shard_size)
    if not most:
        raise ModelError(f"{name}: shard_size is 0, where bytes of a file are expected, such as 5GB")
    to = None if dtype is None else dtype_of(name, dtype)
    tensors, metadata, remarks = read_sources(inputs, axes, follow)
    tensors, casts = (tensors, []) if to is None else cast(name, tensors, to)
    remarks += casts
    made = described(tensors) if change is None else change(described(tensors))
    if not made:
        raise JsonPath(str(out)).error("would have no tensor")
    others: dict[Path, Content] = {}
    placed = Placed(made, axes, placement or Placement(), str(out), config_beside(inputs[0]))
    if dcp:
        pieces = [*_pieces(composer, placed)]
        targets, said = new_distributed(out, [[piece for piece, _ in own] for own in pieces])
        parts: list[ComposedTensor] = [tensor for own in pieces for _, tensor in own]
        others |= said
    else:
        if out.suffix.lower() == ".npz":
            metadata = {}
        elif out.suffix.lower() != ".gguf":
            metadata.setdefault("format", "pt")
        if placement is not None:
            files = [*_ranks(composer, placed, out, metadata)]
        elif is_file:
            files = [(out, made, metadata)]
        else:
            files = [*_shards(made, out, metadata, most)]
            if len(files) > 1:
                others[out / f"model{INDEX}"] = index_of(files)
        targets, parts = outputs_of(files), [each for _, own, _ in files for each in own.values()]
    copied, left = extras_beside(inputs[0]) if extras else ([], [])
    program, stores = program_of(composer, parts)
    read = {path.name for path in {id(store.path): store.path for store in stores}.values()}
    left = [each for each in left if each not in read]
    if is_file:
        copied, left = [], [*(each.name for each in copied), *left]
    others |= {out / each.name: each for each in copied}
    if to is not None:
        others |= {out / each.name: config_of(each, to) for each in copied if each.name == "config.json"}
    plan = Plan(program, stores, targets, memory, overwrite, None if is_file else out, others)
    size = f", {bytes_text(sum(each.stat().st_size for each in copied))}"
    plan.remarks = remarks + placed.remarks
    plan.remarks += said_of("copies", [each.name for each in copied], size) + said_of("leaves behind", left)
    return plan


def outputs_of(parts: Sequence[OutputFile]) -> list[Target]:
    """Targets of all tensors of files."""
    targets: list[Target] = []
    for path, own, said in parts:
        made = new_tensors(path, {name: (each.shape, each.dtype) for name, each in own.items()}, said)
        targets += [made[name] for name in own]
    return targets


def check_output(name: str, out: Path, is_for_ranks: bool) -> bool:
    """Whether the output is one file.

    Raises:
        ModelError: the output has another format, or ranks need a folder.
    """
    is_file = out.name.lower().endswith((".safetensors", ".gguf", ".npz"))
    if out.suffix.lower() in OF_OTHERS:
        raise JsonPath(str(out)).error(
            "would be a file of another kind: name a .safetensors, .gguf or .npz file, or a folder"
        )
    if is_for_ranks and is_file:
        raise JsonPath(str(out)).error("is one file, but every rank gets one: name a folder")
    return is_file


def _shards(tensors: ComposedTensors, out: Path, metadata: dict[str, str], most: int) -> Iterator[OutputFile]:
    """Files of whole tensors, in order, with the names of Hugging Face."""
    groups: list[ComposedTensors] = [{}]
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


def index_of(parts: Sequence[OutputFile]) -> bytes:
    """The content of the index of several files."""
    total = sum(math.prod(each.shape) * each.dtype.itemsize for _, own, _ in parts for each in own.values())
    weight_map = {name: path.name for path, own, _ in parts for name in own}
    content = {"metadata": {"total_size": total}, "weight_map": dict(sorted(weight_map.items()))}
    return (json.dumps(content, indent=2, ensure_ascii=False) + "\n").encode("utf-8")


def _ranks(composer: Composer, placed: Placed, out: Path, metadata: Mapping[str, str]) -> Iterator[OutputFile]:
    """One file per rank."""
    count = placed.placement.ranks
    for rank in range(count):
        own, cuts = ComposedTensors(), dict[str, Any]()
        for name, part, intervals in placed.parts(composer, rank):
            own[name], cuts[name] = part, intervals
        said = {RANK: str(rank), RANKS: str(count), PARTS: json.dumps(cuts, ensure_ascii=False)}
        yield out / f"model-rank-{rank:05}-of-{count:05}.safetensors", own, {**metadata, **said}


def _pieces(composer: Composer, placed: Placed) -> Iterator[list[tuple[NewPiece, ComposedTensor]]]:
    """The pieces of each rank; what several ranks have is that of the first."""
    seen = set[tuple[int, tuple[int, ...]]]()
    alike: dict[tuple[int, tuple[int, ...], tuple[int, ...]], Value] = {}
    first = {kind: placed.tensors[name] for name, kind in placed.kinds.items()}
    for rank in range(placed.placement.ranks):
        boxes: dict[int, list[tuple[tuple[int, ...], tuple[int, ...], Value]]] = {}
        for kind, cuts in placed.shares(rank).items():
            tensor, boxes[kind] = first[kind], []
            for box in product(*cuts):
                start, shape = tuple(at for at, _ in box), tuple(size for _, size in box)
                if (kind, start) in seen or (0 in shape and 0 not in tensor.shape):
                    continue
                seen.add((kind, start))
                key = id(tensor.value), start, shape
                if key not in alike:
                    alike[key] = composer.slice(tensor.value, start, shape, [1] * len(shape))
                boxes[kind].append((start, shape, alike[key]))
        yield [
            (NewPiece(name, tensor.shape, start, shape, tensor.dtype), tensor.changed(value))
            for (name, kind), tensor in zip(placed.kinds.items(), placed.tensors.values(), strict=True)
            for start, shape, value in boxes.get(kind, ())
        ]
