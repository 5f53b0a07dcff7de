"""Tensors of checkpoints that are sharded in any way.

Files contain whole tensors, pieces of distributed checkpoints of PyTorch, or the parts of tensor-parallel ranks. For
pieces in safetensors files, ``DCP_SHARDING_INFO`` in ``__metadata__`` has their offsets in tensors, as
``HuggingFaceStorageWriter`` of torch.distributed.checkpoint writes it.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate, product
from pathlib import Path
from typing import Any, NamedTuple

from anydml.errors import ModelError
from anydml.fields import path_text
from anydml.files.json_path import JsonPath, show
from anydml.moves.value import MOST_PIECES
from anydml.stores.checkpoints.axes import Axes
from anydml.stores.checkpoints.axis import AxisIntervals, AxisSection
from anydml.stores.checkpoints.composed import StoredTensors
from anydml.stores.checkpoints.known_axes import Model
from anydml.stores.checkpoints.model_config import config_beside
from anydml.stores.checkpoints.remarks import beside_index, check_ends, left_out
from anydml.stores.checkpoints.selecting import EVERYTHING, Selection
from anydml.stores.checkpoints.sharded import tensor_of
from anydml.stores.formats.completeness import PARTS, RANK, RANKS, SHARDING, check_numbers, is_one_of, ranks_in_order
from anydml.stores.formats.opening import BIN_INDEX, INDEX, open, opened_file, safetensors_of, united
from anydml.stores.formats.safetensors import parse_json
from anydml.stores.formats.store import Checkpoint, Store, StoredPiece
from anydml.stores.formats.torch_distributed import METADATA, read_distributed
from anydml.text import counted

DCP_KEYS = (SHARDING, "DCP_VERSION")
OWN_KEYS = (*DCP_KEYS, RANK, RANKS, PARTS)
"""Keys of ``__metadata__`` that describe shards rather than tensors."""


class Sources(NamedTuple):
    """What was read of a checkpoint.

    Attributes:
        tensors: by name.
        metadata: of its files, without what describes shards.
        remarks: what was left out or could not be checked, for users.
    """

    tensors: StoredTensors
    metadata: dict[str, str]
    remarks: list[str]


def read_sources(
    paths: Sequence[str | os.PathLike[str]],
    axes: Axes,
    follow: bool = True,
    selection: Selection = EVERYTHING,
    name: str = "open",
) -> Sources:
    """Read the headers of a checkpoint.

    Args:
        paths: a checkpoint; or several: files that say which part of it they hold, in any order, otherwise one per
            tensor-parallel rank, in order.
        axes: along which the parts of ranks are joined that do not say so themselves.
        follow: as in `open`.
        selection: of tensors, by their names in the checkpoint.
        name: of the command, for errors of the selection.

    Raises:
        ModelError: a file is broken, shards do not make whole tensors, or the selection does not fit.
    """
    for each in paths:
        path_text("open", each)
    real = [os.path.realpath(path) for path in paths]
    twice = next((path for k, path in enumerate(paths) if real[k] in real[:k]), None)
    if twice is not None:
        raise JsonPath(str(twice)).error("is given twice: each input is one tensor-parallel rank")
    path = Path(paths[0])
    if len(paths) > 1:
        return sources_of([each for one in paths for each in _files(one, follow)], axes, selection, name)
    if is_distributed(path):
        distributed = read_distributed(path)
        tensors = {
            name: tensor_of(name, [StoredPiece.whole(*each) for each in own], shape)
            for name, (shape, own) in distributed.tensors.items()
        }
        return _selected(Sources(tensors, {}, []), distributed.others, distributed.refused, selection, name)
    if path.is_dir() and not _is_indexed(path) and (files := safetensors_of(path, follow)):
        place = JsonPath(str(path))
        check_numbers(files, place)
        opened = [*map(opened_file, files)]
        is_sharded = any(key in each.metadata for each in opened for key in (RANK, SHARDING))
        return sources_of(opened if is_sharded else [united(path, opened, place)], axes, selection, name)
    return sources_of([_checkpoint(path, follow)], axes, selection, name)


def _selected(
    found: Sources, others: Sequence[str], refused: Mapping[str, ModelError], selection: Selection, name: str
) -> Sources:
    """The tensors that a selection takes, with remarks on those and on other objects.

    Raises:
        ModelError: it takes one that cannot be read.
    """
    every: dict[str, Any] = {**found.tensors, **refused}
    tensors, others, remarks = selection.apply(name, every, others)
    for each in tensors.values() if refused else ():
        if isinstance(each, ModelError):
            raise ModelError(f"{each}; drop leaves it out", field=each.field)
    return Sources(tensors, found.metadata, found.remarks + remarks + left_out(tensors, others))


def sources_of(
    opened: Sequence[Checkpoint], axes: Axes, selection: Selection = EVERYTHING, name: str = "open"
) -> Sources:
    """What `read_sources` returns, of checkpoints that are open.

    Args:
        opened: one, or several that together are one.
        axes: as in `read_sources`.
        selection: likewise.
        name: likewise.
    """
    place = JsonPath(str(opened[0].path if len(opened) == 1 else opened[0].path.parent))
    remarks = list[str]()
    tensors: StoredTensors
    said = {key for each in opened for of_file in each.file_metadata.values() for key in of_file}
    if RANK in said:
        ranks = ranks_in_order([*_by_file(opened)], place)
        tensors = _parts(ranks)
        if (folders := len({rank.path.parent for rank in ranks})) > 1:
            remarks.append(
                f"joins ranks of {folders} folders, whose files cannot tell whether they were written together"
            )
    elif SHARDING in said:
        files = [*_by_file(opened)]
        tensors = _assembled(files, place)
        check_ends(tensors, files[0].path.parent)
        remarks.append(
            f"takes the ends of tensors from {counted(len(files), 'file')}, which cannot tell of further ones"
        )
    elif len(opened) > 1:
        tensors = _joined(opened, axes)
    else:
        tensors = opened[0].stores
        remarks += beside_index(opened[0])
        if (count := _count_of(opened[0])) > 1 and opened[0].path.is_file():
            remarks.append(f"reads one of {count} files of a checkpoint, without the tensors of the others")
    others = [name for each in opened for name in each.others]
    refused = {key: error for each in opened for key, error in each.refused.items()}
    return _selected(Sources(tensors, _plain(opened), remarks), others, refused, selection, name)


def _count_of(opened: Checkpoint) -> int:
    """The number of files of which a file is one, as its name or, of a GGUF file, its metadata say; or 1."""
    said = opened.metadata.get("split.count", "")
    return max(is_one_of(opened.path), int(said) if said.isdecimal() and len(said) < 10 else 1)


def _by_file(opened: Sequence[Checkpoint]) -> Iterator[Checkpoint]:
    """The same tensors, one checkpoint a file."""
    for each in opened:
        stores: dict[Path, dict[str, Store]] = {path: {} for path in each.file_metadata}
        for name, store in each.items():
            stores[store.path][name] = store
        for path, said in each.file_metadata.items():
            yield Checkpoint(path, stores[path], said, {path: said})


def is_distributed(path: Path) -> bool:
    """Whether a path is the folder of a distributed checkpoint of PyTorch."""
    return (path / METADATA).is_file() and not _is_indexed(path)


def is_in_pieces(path: Path, follow: bool = True) -> bool:
    """Whether a path is a folder whose files have pieces of tensors, or parts of ranks.

    Raises:
        ModelError: a file is broken.
    """
    if is_distributed(path):
        return True
    files = safetensors_of(path, follow) if path.is_dir() and not _is_indexed(path) else []
    said = (opened_file(each).metadata for each in files[:1])
    return any(key in each for each in said for key in (RANK, SHARDING))


def _is_indexed(folder: Path) -> bool:
    return any(each.name.endswith((INDEX, BIN_INDEX)) for each in folder.iterdir())


def _checkpoint(path: str | os.PathLike[str], follow: bool) -> Checkpoint:
    found = open(path, follow)
    if not isinstance(found, Checkpoint):
        raise JsonPath(str(path)).error("is no checkpoint: name a .safetensors file, or a folder with such files")
    return found


def _files(path: str | os.PathLike[str], follow: bool) -> list[Checkpoint]:
    """One of several inputs: the files of a folder that says which ranks they are of, otherwise all of it."""
    folder = Path(path)
    if folder.is_dir() and not _is_indexed(folder):
        files = safetensors_of(folder, follow)
        if files and RANK in opened_file(files[0]).metadata:
            # Whether all are there is known once all inputs are read.
            return [*map(opened_file, files)]
    return [_checkpoint(path, follow)]


def _plain(checkpoints: Sequence[Checkpoint]) -> dict[str, str]:
    every: dict[str, str] = {}
    for checkpoint in checkpoints:
        every |= checkpoint.metadata
    return {key: value for key, value in every.items() if key not in OWN_KEYS}


def _assembled(files: Sequence[Checkpoint], whole: JsonPath) -> StoredTensors:
    """Tensors of the pieces of a distributed checkpoint."""
    pieces: dict[str, list[StoredPiece]] = {}
    if (other := next((each for each in files if SHARDING not in each.metadata), None)) is not None:
        raise whole.error(f"has files of shards, and {other.path.name}, which is none: name only the shards' files")
    check_numbers([each.path for each in files], whole)
    for file in files:
        place = JsonPath(str(file.path)) / "__metadata__" / SHARDING
        said = parse_json(file.metadata[SHARDING].encode("utf-8", "replace"), place, "text")
        for name, store in file.items():
            entry = said.get(name) if isinstance(said, dict) else None
            start = entry.get("saved_offsets") if isinstance(entry, dict) else None
            if (
                not isinstance(start, list)
                or len(start) != store.ndim
                or any(type(n) is not int or not 0 <= n < 1 << 62 for n in start)
            ):
                raise (place / name).error(
                    f"says {show(start)}, where saved_offsets with {store.ndim} integers are expected"
                )
            pieces.setdefault(name, []).append(StoredPiece.whole(store, tuple(start)))
    return {name: tensor_of(name, found) for name, found in pieces.items()}


def _parts(ranks: Sequence[Checkpoint]) -> StoredTensors:
    """Tensors of the parts that the metadata of ranks' files describe."""
    pieces: dict[str, list[StoredPiece]] = {}
    for rank in ranks:
        place = JsonPath(str(rank.path)) / "__metadata__" / PARTS
        said = parse_json(rank.metadata.get(PARTS, "").encode("utf-8", "replace"), place, "text")
        for name, store in rank.items():
            cuts = said.get(name) if isinstance(said, dict) else None
            if cuts is None or not _is_cuts(cuts, store.shape):
                raise (place / name).error(f"is {show(cuts)}, where intervals of {store.ndim} axes are expected")
            pieces.setdefault(name, []).extend(_boxes(store, cuts))
    return {name: tensor_of(name, own, is_compared=True) for name, own in pieces.items()}


def _is_cuts(cuts: Any, shape: tuple[int, ...]) -> bool:
    """Whether these are intervals of each axis, whose sizes add up to the shape."""
    if not isinstance(cuts, list) or len(cuts) != len(shape):
        return False
    for cut, size in zip(cuts, shape, strict=True):
        if not isinstance(cut, list) or not all(isinstance(each, list) and len(each) == 2 for each in cut):
            return False
        if any(type(n) is not int or not 0 <= n < 1 << 62 for each in cut for n in each):
            return False
        if sum(each[1] for each in cut) != size:
            return False
    return math.prod(map(len, cuts)) <= MOST_PIECES


def _boxes(store: Store, cuts: Sequence[AxisIntervals]) -> Iterator[StoredPiece]:
    """The pieces of a store that consists of intervals of a tensor along each axis."""
    places = [[*accumulate((size for _, size in cut), initial=0)] for cut in cuts]
    for digits in product(*(range(len(cut)) for cut in cuts)):
        own = [cut[digit] for cut, digit in zip(cuts, digits, strict=True)]
        inside = tuple(place[digit] for place, digit in zip(places, digits, strict=True))
        yield StoredPiece(store, tuple(start for start, _ in own), inside, tuple(size for _, size in own))


def _joined(ranks: Sequence[Checkpoint], axes: Axes) -> StoredTensors:
    """Tensors that ranks share along axes, or replicate."""
    for rank in ranks[1:]:
        if different := sorted({*rank} ^ {*ranks[0]}):
            place = JsonPath(str(rank.path))
            raise place.error(f"and {ranks[0].path} differ in {show(different[0])}: ranks have the same tensors")
    model = Model(ranks[0], config_beside(ranks[0].path), len(ranks), True)
    found = {}
    for name in ranks[0]:
        stores = [rank[name] for rank in ranks]
        axis = axes.of(name, model, str(ranks[0].path))
        if axis.axis is None or len({store.ndim for store in stores}) > 1:
            pieces = [StoredPiece.whole(store) for store in stores]
        else:
            pieces = [*_shares(stores, axis.axis, axis.sections(len(ranks), name))]
        found[name] = tensor_of(name, pieces, is_compared=True)
    return found


def _shares(stores: Sequence[Store], axis: int, sections: Sequence[AxisSection]) -> Iterator[StoredPiece]:
    """The parts of ranks of each section of an axis."""
    total = sum(each.own for each in sections)
    sizes = [store.shape[axis] for store in stores]
    base = done = 0
    for _, own, copies in sections:
        at = base
        for rank, store in enumerate(stores):
            shape, start, inside = [*store.shape], [0] * store.ndim, [0] * store.ndim
            shape[axis], inside[axis] = sizes[rank] * own // total, sizes[rank] * done // total
            start[axis] = at
            yield StoredPiece(store, tuple(start), tuple(inside), tuple(shape))
            at += shape[axis] if rank % copies == copies - 1 else 0
        base, done = at, done + own
