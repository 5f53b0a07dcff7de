"""Folders of DeepSpeed: whole tensors from the parts of ZeRO's ranks.

Each rank has an interval of the concatenated weights of a group (stages 1 and 2), or of each weight (stage 3). An
interval of a tensor in row-major order is a few boxes, each of which is contiguous in a file.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from anydml.files.location import Location, names, show
from anydml.stores.formats.pickle_reader import dict_of, sizes_of
from anydml.stores.formats.store import Store
from anydml.stores.formats.torch_distributed import DistributedContent
from anydml.stores.formats.torch_save import TorchDict, read_torch_dict
from anydml.text import count_noun

LATEST = "latest"
"""The file in a folder of checkpoints that names the latest one."""

_MODEL = re.compile(r"(?:zero_pp_rank_(?P<rank>\d{1,9})_)?mp_rank_(?P<model>\d{1,9})_model_states\.pt")
_OPTIMIZER = re.compile(r"(?:bf16_)?zero_pp_rank_(?P<rank>\d{1,9})_mp_rank_(?P<model>\d{1,9})_optim_states\.pt")
_OWN = ("_model_states.pt", "_optim_states.pt")

_STATE, _FLAT = "optimizer_state_dict", {3: "fp32_flat_groups"}
_BY_GROUPS = "single_partition_of_fp32_groups"

Place = tuple[Store, tuple[int, ...]]
"""A store, and its first coordinates in a tensor."""


def zero_folder(folder: Path) -> Path | None:
    """Return a checkpoint's folder: a folder itself, or the one that ``latest`` names; None if not DeepSpeed's.

    Raises:
        ModelError: ``latest`` names no folder in the checkpoint.
    """
    if any(entry.name.endswith(_OWN) for entry in folder.iterdir()):
        return folder
    latest = folder / LATEST
    if not latest.is_file() or latest.stat().st_size > 4096:
        return None
    tag = latest.read_text("utf-8", "replace").strip()
    tagged = folder / tag
    if Path(tag).name != tag or not tagged.is_dir():
        raise Location(str(latest)).error(f"names {show(tag)}, which is not a folder beside it")
    return tagged if any(entry.name.endswith(_OWN) for entry in tagged.iterdir()) else None


def rank_in_name(path: Path) -> str | None:
    """Return the rank whose parts a file has, if its name is one of DeepSpeed's ZeRO."""
    match = _OPTIMIZER.fullmatch(path.name) or _MODEL.fullmatch(path.name)
    return match["rank"] if match else None


def is_model_file(path: Path) -> bool:
    """Whether a file's name is that of the weights of stages below 3."""
    return _MODEL.fullmatch(path.name) is not None and rank_in_name(path) is None


def read_zero(folder: Path) -> DistributedContent:
    """Read the headers of a checkpoint of DeepSpeed.

    Args:
        folder: a folder that `zero_folder` returns.

    Raises:
        ModelError: a file is broken or missing, or the shards are not those of the weights.
    """
    location = Location(str(folder))
    model, shards = _files(folder, location)
    first = model[0]
    module = first.under("module")
    if not shards:
        if first.path.name.startswith("zero_"):
            raise location.error("has no file …_optim_states.pt, in which stage 3 of ZeRO keeps the weights")
        return _of_module(first, module)
    stage, groups = _groups(shards, location)
    group_shapes = first.items.get("param_shapes")
    shapes = [_shapes(shape, first) for shape in (group_shapes if isinstance(group_shapes, list) else [group_shapes])]
    tensors: dict[str, tuple[tuple[int, ...], list[Place]]] = {}
    if stage == 3:
        tensors |= _tensors_by_rank(
            [shape for file_shapes in shapes for shape in file_shapes.items()], groups, location
        )
    else:
        paddings = dict_of(shards[0].items.get(_STATE)).get("param_alignment_paddings")
        tensors |= _tensors_by_group(shapes, groups, paddings, location)
    remarks = [
        f"takes weights of {groups[0][0].dtype} from the shards of {count_noun(len(shards), 'rank')} of ZeRO's stage "
        f"{stage}, and leaves out what else the optimizer keeps"
    ]
    tensors |= _frozen(model, stage, location)
    remarks += _add_other_tensors(first, module, tensors, stage)
    # The shapes in the model's files determine where shards are cut.
    described_by = tuple((file.path, file.seen) for file in (*model, *shards))
    for _, pieces in tensors.values():
        for store, _ in pieces:
            store.described_by = described_by
    return DistributedContent(tensors, [], {}, remarks)


def _files(folder: Path, location: Location) -> tuple[list[TorchDict], list[TorchDict]]:
    """Return the files of the model and of the optimizer, by rank; in stages below 3, the model has one file.

    Raises:
        ModelError: a file is of an unknown kind or of a second model-parallel rank, or is missing.
    """
    model, shards = dict[int, Path](), dict[int, Path]()
    for entry in sorted(folder.iterdir()):
        if not entry.name.endswith(_OWN):
            continue
        to = model if (match := _MODEL.fullmatch(entry.name)) else shards
        match = match or _OPTIMIZER.fullmatch(entry.name)
        if match is None:
            raise location.error(
                f"has {entry.name}, of experts or layers that DeepSpeed keeps apart, which are not joined"
            )
        if int(match["model"]):
            raise location.error(
                f"has {entry.name}, of a second model-parallel rank: name the files mp_rank_…_model_states.pt of all "
                "ranks in order, with the axes of a layout and only module"
            )
        to[int(match["rank"] or 0)] = entry
    for noun, by_rank in (("model", model), ("optim", shards)):
        if missing := sorted({*range(max(by_rank, default=0))} - {*by_rank}):
            raise location.error(f"lacks the file …_{noun}_states.pt of rank {', '.join(map(str, missing[:10]))}")
    if not model:
        raise location.error("has no file …_model_states.pt, which tells the shapes of tensors")
    return [*map(read_torch_dict, sorted(model.values(), key=_rank))], [
        *map(read_torch_dict, sorted(shards.values(), key=_rank))
    ]


def _rank(path: Path) -> int:
    return int(rank_in_name(path) or 0)


def _of_module(file: TorchDict, tensors_of_module: Mapping[str, Store]) -> DistributedContent:
    remark = f"takes the weights of {file.path.name}, because there are no shards of ZeRO"
    refused = {name.removeprefix("module."): error for name, error in file.tensors.refused.items() if
               name.startswith("module.")}  # fmt: skip
    tensors = {name: (store.shape, [(store, (0,) * store.ndim)]) for name, store in tensors_of_module.items()}
    return DistributedContent(tensors, [], refused, [remark])


def _groups(shards: Sequence[TorchDict], location: Location) -> tuple[int, list[list[Store]]]:
    """Return the stage, and for each rank the stores of each group of weights.

    Raises:
        ModelError: the files do not match their number of ranks, or have no weights.
    """
    states = [dict_of(shard.items.get(_STATE)) for shard in shards]
    stage, count = states[0].get("zero_stage"), states[0].get("partition_count")
    stage = getattr(stage, "arguments", (stage,))[0]
    if stage not in (1, 2, 3):
        raise Location(str(shards[0].path)).error(f"has zero_stage {show(stage)}, which must be 1, 2 or 3")
    ranks = max(count) if isinstance(count, list) and count else count
    if ranks != len(shards):
        raise location.error(f"has files …_optim_states.pt of {count_noun(len(shards), 'rank')}, which say that "
                          f"{show(ranks)} shared the weights")  # fmt: skip
    if isinstance(count, list) and len({*count}) > 1:
        raise location.error(
            "has groups of weights that different numbers of ranks share, as experts, which are not joined"
        )
    groups = list[list[Store]]()
    for rank_shard in shards:
        key = f"{_STATE}.{_FLAT.get(stage, _BY_GROUPS)}"
        group = rank_shard.under(key)
        flat = [group.get(str(k)) for k in range(len(group))]
        if not flat or any(store is None or store.ndim != 1 for store in flat):
            raise Location(str(rank_shard.path)).error(f"has no flat tensors under {key}")
        groups.append([store for store in flat if store is not None])
    if len({(len(group), *(store.dtype for store in group)) for group in groups}) > 1:
        raise location.error("has files …_optim_states.pt whose groups of weights are not alike")
    return stage, groups


def _shapes(group_shapes: Any, file: TorchDict) -> dict[str, tuple[int, ...]]:
    """Return the shapes of weights by name."""
    shapes = {name: sizes_of(size) for name, size in dict_of(group_shapes).items()}
    if not shapes or None in shapes.values():
        raise Location(str(file.path)).error("has no param_shapes, which tell how shards become tensors")
    return {name: shape for name, shape in shapes.items() if shape is not None}


def _tensors_by_group(
    shapes: Sequence[Mapping[str, tuple[int, ...]]], ranks: Sequence[Sequence[Store]], paddings: Any,
    location: Location,
) -> dict[str, tuple[tuple[int, ...], list[Place]]]:  # fmt: skip
    """Return tensors of stages 1 and 2: concatenated over all ranks, a group has the weights one after the other."""
    shapes_of: dict[str, tuple[tuple[int, ...], list[Place]]] = {}
    if len(shapes) != len(ranks[0]):
        raise location.error(f"has {len(ranks[0])} groups of weights, but param_shapes describe {len(shapes)}")
    for group_number, of_group in enumerate(shapes):
        stores = [rank[group_number] for rank in ranks]
        group_gaps = (
            paddings[group_number] if isinstance(paddings, (list, tuple)) and len(paddings) > group_number else None
        )
        gaps = [0] * len(of_group) if group_gaps is None else list(group_gaps)
        if len(gaps) != len(of_group) or any(type(gap) is not int or not 0 <= gap < 1 << 30 for gap in gaps):
            raise location.error(
                f"has {len(of_group)} weights in group {group_number}, but not as many param_alignment_paddings"
            )
        offset = 0
        for (name, shape), gap in zip(of_group.items(), gaps, strict=True):
            shapes_of[name] = shape, [*_cut(stores, offset, shape, location / name)]
            offset += math.prod(shape) + gap
        # The last rank is padded, to a multiple of twice the number of ranks.
        unit, end = 2 * len(ranks), sum(store.size for store in stores)
        if -(-offset // unit) != -(-end // unit):
            raise location.error(
                f"has {end} elements in group {group_number} of weights, but their shapes add up to {offset}"
            )
    return shapes_of


def _tensors_by_rank(
    shapes: Sequence[tuple[str, tuple[int, ...]]], ranks: Sequence[Sequence[Store]], location: Location
) -> dict[str, tuple[tuple[int, ...], list[Place]]]:
    """Return tensors of stage 3: each rank has an equal interval of each."""
    of_tensor: dict[str, tuple[tuple[int, ...], list[Place]]] = {}
    offset = 0
    for name, shape in shapes:
        rank_size, pieces = -(-math.prod(shape) // len(ranks)), list[Place]()
        for rank, stores in enumerate(ranks):
            start = min(rank * rank_size, math.prod(shape))
            pieces += _cut(stores, offset, shape, location / name, start, min(start + rank_size, math.prod(shape)))
        of_tensor[name] = shape, pieces or [*_cut(ranks[0], offset, shape, location / name)]
        offset += rank_size
    if wrong := next((stores for stores in ranks if sum(store.size for store in stores) != offset), None):
        raise Location(str(wrong[0].path)).error(
            f"has {sum(store.size for store in wrong)} elements of weights, but their shapes add up to {offset} "
            "for a rank"
        )
    return of_tensor


def _cut(
    stores: Sequence[Store],
    first_element: int,
    shape: tuple[int, ...],
    location: Location,
    start: int = 0,
    stop: int | None = None,
) -> Iterator[Place]:
    """Yield the pieces of a tensor's elements from `start` to `stop`.

    Args:
        stores: the stores of the elements, one after the other.
        first_element: the index of the tensor's element `start` in them.
        shape: the shape of the tensor.
        location: the location that errors name.
        start: first element, in row-major order.
        stop: end of the elements; None for the end of the tensor.

    Raises:
        ModelError: the stores are too short.
    """
    end = first_element + (math.prod(shape) if stop is None else stop) - start
    if 0 in shape:
        yield replace(stores[0], shape=shape), (0,) * len(shape)
    base = 0
    for store in stores:
        low, high = max(first_element, base), min(end, base + store.size)
        if low < high:
            offset = store.offset + (low - base) * store.dtype.itemsize
            for first, sizes in boxes(start + low - first_element, start + high - first_element, shape):
                yield replace(store, shape=sizes, offset=offset), first
                offset += math.prod(sizes) * store.dtype.itemsize
        base += store.size
    if base < end:
        raise location.error(f"has shape {[*shape]}, of which the shards lack {count_noun(end - base, 'element')}")


def boxes(start: int, stop: int, shape: Sequence[int]) -> Iterator[tuple[tuple[int, ...], tuple[int, ...]]]:
    """Yield the boxes of a tensor's elements from `start` to `stop` in row-major order.

    Yields:
        First coordinates and sizes.
    """
    if not shape:
        yield (), ()
        return
    inner = math.prod(shape[1:])
    while start < stop:
        row, column = divmod(start, inner)
        if not column and stop - start >= inner:
            rows = (stop - start) // inner
            yield (row, *(0,) * (len(shape) - 1)), (rows, *shape[1:])
            start += rows * inner
        else:
            end = min(stop, (row + 1) * inner)
            for first, sizes in boxes(column, column + end - start, shape[1:]):
                yield (row, *first), (1, *sizes)
            start = end


def _frozen(
    files: Sequence[TorchDict], stage: int, location: Location
) -> Iterable[tuple[str, tuple[tuple[int, ...], list[Place]]]]:
    """Yield frozen weights, whose fragments ranks store beside the model."""
    frozen_shapes = files[0].items.get("frozen_param_shapes")
    for name, size in dict_of(frozen_shapes).items():
        shape, key = sizes_of(size), f"frozen_param_fragments.{name}"
        stores = [file.tensors.stores[key] for file in files if key in file.tensors.stores]
        if shape is None or len(stores) != len(files):
            raise (location / name).error("is not trained, and has no shape, or not a fragment of each rank")
        if stage < 3:
            yield name, (stores[0].shape, [(stores[0], (0,) * stores[0].ndim)])
        else:
            yield name, (shape, [*_cut(stores, 0, shape, location / name)])


def _add_other_tensors(
    file: TorchDict,
    tensors_of_module: Mapping[str, Store],
    tensors: dict[str, tuple[tuple[int, ...], list[Place]]],
    stage: int,
) -> list[str]:
    """Add shared weights and buffers, which are not in the shards; return remarks on them.

    Raises:
        ModelError: a weight of stage 3 is in no shard.
    """
    shared = {
        name: shared_with
        for name, shared_with in dict_of(file.items.get("shared_params")).items()
        if isinstance(shared_with, str)
    }
    indices = {
        (store.offset, store.shape): name for name, store in tensors_of_module.items() if name in tensors and store.size
    }
    buffers, buffer_names = list[str](), file.items.get("buffer_names")
    parameters = (
        {name for name in buffer_names if isinstance(name, str)} if isinstance(buffer_names, list) else set[str]()
    )
    for name, store in tensors_of_module.items():
        if name in tensors:
            continue
        shared_with = shared.get(name, indices.get((store.offset, store.shape)) if store.size else None)
        if shared_with in tensors:
            tensors[name] = tensors[shared_with]
        elif stage < 3 or name in parameters:
            buffers.append(name)
            tensors[name] = store.shape, [(store, (0,) * store.ndim)]
        else:
            raise (Location(str(file.path)) / name).error("is a weight of stage 3 of ZeRO, but in no shard: drop it")
    message = f"takes {count_noun(len(buffers), 'tensor')} from {file.path.name}, as no shard has them"
    return [f"{message}: {names(buffers)}"] if buffers else []
