"""`rechunk` of a group: some of its arrays get other chunks, the others are copied."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from anydml.errors import BindingError
from anydml.files.addresses import Address
from anydml.files.located import file_size, map_concurrently, real_path
from anydml.files.location import Location, names, show
from anydml.stores.formats.inside_files import PathInFile, remarks_on_reading
from anydml.stores.formats.n5 import as_plain
from anydml.stores.formats.packing import is_packed
from anydml.stores.formats.target import remarks_on_folder
from anydml.stores.formats.zarr_array import ZarrStore, open_zarr
from anydml.stores.formats.zarr_groups import ZarrGroup
from anydml.stores.formats.zarr_metadata import codecs_beside_spec, is_of_xarray, is_same, shard_levels
from anydml.stores.formats.zarr_target import ChunkSizes as Sizes
from anydml.stores.formats.zarr_target import ZarrTarget, new_zarr
from anydml.stores.functions import plan_function
from anydml.stores.plans import Plan
from anydml.text import bytes_text, count_noun

SAME = "this writes the same chunks by the same codecs, as a copy of the folder has them"
"""A remark on arrays that are rewritten without a change."""

GroupSizes = Sizes | Mapping[str, Sizes]


def rechunk_group(
    source: Path,
    target: Path,
    chunks: GroupSizes | None,
    shards: Sequence[int] | None,
    codec: str | None,
    memory: int | str,
    overwrite: bool,
    version: int | None = None,
    slices: Mapping[str, slice] | None = None,
) -> Plan:
    """Like `rechunk`, for a group.

    Args:
        source: the folder of the group.
        target: the folder of the new group.
        chunks: sizes for all arrays with as many axes that are not coordinates, or sizes by the names of arrays.
        shards: sizes of shards, given like `chunks`.
        codec: the codec of the same arrays; without `chunks`, the codec of all arrays that are not coordinates.
        memory: as in `rechunk`.
        overwrite: as in `rechunk`.
        version: the version of the format; if it differs from the source's, all arrays are written again.
        slices: slices by names of axes, for all arrays that have these axes.
    """
    location, group = Location(str(source)), ZarrGroup(source)
    if not group.arrays:
        reasons = "".join(f"; {show(name)} {reason}" for name, reason in group.refused.items())
        raise location.error(f"has no arrays{' that can be read' if reasons else ''}{reasons}")
    sliced = _slice(group, slices or {}, location)
    # A file becomes a folder, or a folder a file, even if nothing else changes.
    is_moved = (isinstance(source, PathInFile) or is_packed(target)) and not sliced
    is_moved &= chunks is None and shards is None and codec is None
    is_other = version not in (None, group.version) or is_rewritten(source) or is_moved
    if (is_other or sliced) and chunks is None and shards is None and codec is None:
        requested = dict[str, Sizes | None]()
    else:
        requested = _choose(group, chunks, shards, codec, location)
    chosen = {name: requested.get(name) for name in group.arrays if is_other or name in requested or name in sliced}
    real = [Path(real_path(path)) for path in (source, target)]
    if real[0].is_relative_to(real[1]) or real[1].is_relative_to(real[0]):
        raise BindingError(f"rechunk: {target} is an input, too: name another output")
    stores = [open_zarr(source / name) for name in chosen]
    indices = [sliced.get(name, (...,)) for name in chosen]
    targets: list[ZarrTarget] = []
    shapes = [
        np.broadcast_to(np.int8(), store.shape)[index].shape for store, index in zip(stores, indices, strict=True)
    ]
    if chunks is not None and not isinstance(chunks, Mapping) and not shards:
        chosen |= _within(
            {name: shape for name, shape in zip(chosen, shapes, strict=True) if name in requested}, chunks
        )
    for (name, sizes), store, shape in zip(chosen.items(), stores, shapes, strict=True):
        if 0 in shape and 0 not in store.shape:
            raise BindingError(
                f"rechunk: {location}: slices select no element of {show(name)}, whose shape is {[*store.shape]}"
            )
        options = (codec, None, shards) if name in requested else (None, None, None)
        targets.append(new_zarr(target / name, shape, store.dtype, sizes, like(store), *options, version))
    new_metadata = {name: target.metadata for name, target in zip(chosen, targets, strict=True)}
    files = group.metadata_in(int(version or group.version), new_metadata) if is_other else group.metadata(new_metadata)
    unchanged = [name for name in group.arrays if name not in chosen]
    copied = [path for name in unchanged for path in group.files_of(name)]
    other_files = {target / name: content for name, content in files.items()}
    other_files |= {target / str(path.relative_to(source)): path for path in copied}

    def function(*arrays: Any) -> Any:
        return tuple(array[index] for array, index in zip(arrays, indices, strict=True))

    plan = plan_function(function, "rechunk", tuple(stores), tuple(targets), memory, overwrite, target, other_files)
    for name, store, new in zip(chosen, stores, targets, strict=True):
        remarks = array_remarks(store, new, shards if name in requested else None)
        plan.remarks += [f"{name}: {remark}" for remark in remarks]
    same = [name for name, store, new, index in zip(chosen, stores, targets, indices, strict=True)
            if is_same(store.metadata, new.metadata) and _is_whole(index, store.shape)]  # fmt: skip
    if same and not is_moved:
        plan.remarks.append(f"changes nothing of {names(same)}: {SAME}")
    if isinstance(chunks, Mapping) and _are_axes(group, chunks):
        plan.remarks.append(
            f"takes {names(chunks)} for names of arrays, not of axes: other arrays keep their chunks, unless they are "
            "named with a size for each axis"
        )
    if unchanged:
        size = bytes_text(
            sum(map_concurrently(file_size, copied) if isinstance(source, Address) else map(file_size, copied))
        )
        they = "it is" if len(unchanged) == 1 else "they are"
        plan.remarks.append(f"copies {names(unchanged)} as {they}, {size} in {count_noun(len(copied), 'file')}")
    plan.remarks += [f"leaves out {show(name)}, which {reason}" for name, reason in group.refused.items()]
    plan.remarks += remarks_on_reading(source) + remarks_on_folder(target)
    if group.left:
        plan.remarks.append(f"leaves behind {names(group.left)}")
    return plan


def is_rewritten(path: Path) -> bool:
    """Whether arrays are stored in a way in which anydml does not write."""
    return isinstance(path, PathInFile) and bool(path.references.remark)


def like(store: ZarrStore) -> ZarrStore:
    """Return the array that a new one takes its properties from."""
    if not is_rewritten(store.path):
        return store
    return replace(store, layout=replace(store.layout, edges=None), metadata=as_plain(store.metadata))


def _is_whole(index: Sequence[Any], shape: Sequence[int]) -> bool:
    """Whether slices select every axis whole and unchanged."""
    return all(entry is ... or range(size)[entry] == range(size) for entry, size in zip(index, shape, strict=False))


def _slice(group: ZarrGroup, slices: Mapping[str, slice], location: Location) -> dict[str, tuple[slice, ...]]:
    """Return the slices of each array that has an axis of these names."""
    all_axes = {axis for member in group.arrays.values() for axis in member.axes}
    if unknown := [name for name in slices if name not in all_axes]:
        axis_names = (
            names(sorted(str(axis) for axis in all_axes if axis is not None)) if all_axes else "none with a name"
        )
        raise location.error(f"has no axis {show(unknown[0])}; it has {axis_names}")
    return {
        name: tuple(slices.get(axis, slice(None)) for axis in member.axes)
        for name, member in group.arrays.items()
        if any(axis in slices for axis in member.axes)
    }


def _are_axes(group: ZarrGroup, chunks: Mapping[str, Sizes]) -> bool:
    """Whether every array that gets other chunks has the name of an axis of another array."""
    return {axis for name, member in group.arrays.items() if name not in chunks for axis in member.axes} >= {*chunks}


def _choose(
    group: ZarrGroup, chunks: GroupSizes | None, shards: Sequence[int] | None, codec: str | None, location: Location
) -> dict[str, Sizes | None]:
    """Return the arrays that are rewritten, and their chunks."""
    if isinstance(chunks, Mapping):
        if unknown := [name for name in chunks if name not in group.arrays]:
            raise location.error(f"has no array {show(unknown[0])}; it has {names(group.arrays)}")
        return dict(chunks)
    sizes = shards or None if chunks is None else chunks
    if sizes is None and shards is None and codec is None:
        raise location.error(
            f"is a group of version {group.version}: say what is to be another in OUT, by --chunks, --shards, --codec, "
            "--slice or another --zarr-format"
        )
    coordinates = group.coordinates()
    selected = [
        name
        for name, member in group.arrays.items()
        if name not in coordinates and (sizes is None or member.rank == len(sizes))
    ]
    if not selected:
        ranks = ", ".join(f"{show(name)} of {count_noun(member.rank, 'axis')}" for name, member in group.arrays.items())
        of_rank = "" if sizes is None else f" of {count_noun(len(sizes), 'axis')}"
        raise location.error(
            f"has no array{of_rank} beside coordinates; it has {ranks}; name arrays by --chunks NAME=N,…"
        )
    return dict.fromkeys(selected, chunks)


def _within(shapes: Mapping[str, tuple[int, ...]], chunks: Sizes) -> dict[str, Sizes]:
    """Return chunks no larger than each array, along axes along which the largest array is no smaller than a chunk."""
    largest = [max(sizes) for sizes in zip(*shapes.values(), strict=True)]

    def size_within(size: int, chunk: Any, most: int) -> Any:
        return min(chunk, size or chunk) if isinstance(chunk, (int, np.integer)) and chunk <= most else chunk

    return {name: [*map(size_within, shape, chunks, largest)] for name, shape in shapes.items()}


def array_remarks(store: ZarrStore, new: ZarrTarget, shards: Sequence[int] | None) -> list[str]:
    """Return remarks on properties of an array that change although no argument says so."""
    remarks = _shards_remarks(store, new, shards)
    if store.layout.version != new.layout.version and any(is_of_xarray(array.metadata) for array in (store, new)):
        remarks.append("keeps the fill value, which xarray takes for a missing one in version 2 alone")
    added = [*codecs_beside_spec(new.metadata) - codecs_beside_spec(store.metadata)]
    if added:
        remarks.append(f"has codec {names(added)}, which is not in Zarr's specification: zarr-python reads it")
    return remarks


def _shards_remarks(store: ZarrStore, new: ZarrTarget, shards: Sequence[int] | None) -> list[str]:
    old_levels, new_levels = shard_levels(store.metadata), shard_levels(new.metadata)
    if shards is None and len(old_levels) > 1 and new.layout.version == 2:
        return ["writes each chunk to a file, for version 2 of Zarr has no shards"]
    if shards and len(new_levels) < len(old_levels):
        return [f"makes shards of chunks; the input has {len(old_levels) - 1} levels of shards"]
    if shards is None and len(new_levels) > 1 and new_levels[0] != old_levels[0] and len(store.shape) == len(new.shape):
        return [f"makes shards of {new_levels[0]}, whole chunks, of those of {old_levels[0]}"]
    return []
