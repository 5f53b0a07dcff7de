"""Tensors of checkpoints that are sharded in any way.

Files contain whole tensors, pieces of distributed checkpoints of PyTorch, or the parts of tensor-parallel ranks. For
pieces in safetensors files, ``DCP_SHARDING_INFO`` in ``__metadata__`` has their offsets in tensors, as
``HuggingFaceStorageWriter`` of torch.distributed.checkpoint writes it.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Sequence
from itertools import accumulate, product
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from anydml.errors import ModelError
from anydml.files.json_path import JsonPath, show
from anydml.moves.value import MOST_PIECES
from anydml.stores.checkpoints.axes import Axes
from anydml.stores.checkpoints.axis import AxisIntervals, AxisSection
from anydml.stores.checkpoints.composed import ShardedTensor, StoredTensors
from anydml.stores.checkpoints.known_axes import Model
from anydml.stores.checkpoints.model_config import config_beside
from anydml.stores.formats.opening import BIN_INDEX, INDEX, open, opened_file, safetensors_of, united
from anydml.stores.formats.safetensors import parse_json
from anydml.stores.formats.store import Checkpoint, Store, StoredPiece
from anydml.stores.formats.torch_distributed import METADATA, pieces_of
from anydml.text import counted

SHARDING = "DCP_SHARDING_INFO"
DCP_KEYS = (SHARDING, "DCP_VERSION")
RANK, RANKS, PARTS = "anydml_rank", "anydml_ranks", "anydml_parts"
OWN_KEYS = (*DCP_KEYS, RANK, RANKS, PARTS)
"""Keys of ``__metadata__`` that describe shards rather than tensors."""

COMPARED = 1 << 20
"""Bytes of replicas that are compared at a time."""


def read_sources(
    paths: Sequence[str | os.PathLike[str]], axes: Axes, follow: bool = True
) -> tuple[StoredTensors, dict[str, str]]:
    """The tensors of a checkpoint, and its metadata.

    Args:
        paths: a checkpoint; or several, one per tensor-parallel rank, in order.
        axes: along which the parts of ranks are joined.
        follow: as in `open`.

    Raises:
        ModelError: a file is broken, or shards do not make whole tensors.
    """
    if len(paths) > 1:
        real = [os.path.realpath(path) for path in paths]
        twice = next((path for k, path in enumerate(paths) if real[k] in real[:k]), None)
        if twice is not None:
            raise JsonPath(str(twice)).error("is given twice: each input is one tensor-parallel rank")
        ranks = [_checkpoint(path, follow) for path in paths]
        return _joined(ranks, axes), _plain(ranks)
    path = Path(paths[0])
    found: StoredTensors
    if is_distributed(path):
        found = {
            name: _tensor(name, [StoredPiece.whole(*each) for each in own]) for name, own in pieces_of(path).items()
        }
        return found, {}
    if not path.is_dir() or _is_indexed(path):
        checkpoint = _checkpoint(path, follow)
        return checkpoint.stores, _plain([checkpoint])
    opened = [*map(opened_file, safetensors_of(path, follow))]
    if opened and all(SHARDING in each.metadata for each in opened):
        return _assembled(opened), _plain(opened)
    if opened and all(RANK in each.metadata for each in opened):
        return _parts(_in_order(opened)), _plain(opened)
    checkpoint = united(path, opened, JsonPath(str(path))) if opened else _checkpoint(path, follow)
    return checkpoint.stores, _plain([checkpoint])


def is_distributed(path: Path) -> bool:
    """Whether a path is the folder of a distributed checkpoint of PyTorch."""
    return (path / METADATA).is_file() and not _is_indexed(path)


def _is_indexed(folder: Path) -> bool:
    return any(each.name.endswith((INDEX, BIN_INDEX)) for each in folder.iterdir())


def _checkpoint(path: str | os.PathLike[str], follow: bool) -> Checkpoint:
    found = open(path, follow)
    if not isinstance(found, Checkpoint):
        raise JsonPath(str(path)).error("is no checkpoint: name a .safetensors file, or a folder with such files")
    return found


def _plain(checkpoints: Sequence[Checkpoint]) -> dict[str, str]:
    every: dict[str, str] = {}
    for checkpoint in checkpoints:
        every |= checkpoint.metadata
    return {key: value for key, value in every.items() if key not in OWN_KEYS}


def _assembled(files: Sequence[Checkpoint]) -> StoredTensors:
    """Tensors of the pieces of a distributed checkpoint."""
    pieces: dict[str, list[StoredPiece]] = {}
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
    return {name: _tensor(name, found) for name, found in pieces.items()}


def _tensor(name: str, pieces: list[StoredPiece], is_compared: bool = False) -> ShardedTensor | Store:
    """The tensor of pieces that partition it; of equal boxes one is taken."""
    first = pieces[0].store
    place = JsonPath(str(first.path)) / name
    if any(piece.store.dtype != first.dtype or piece.store.ndim != first.ndim for piece in pieces):
        raise place.error("has pieces of several dtypes or dimensions")
    unique: dict[tuple[tuple[int, ...], tuple[int, ...]], StoredPiece] = {}
    for piece in pieces:
        known = unique.setdefault((piece.start, piece.shape), piece)
        if is_compared and known is not piece:
            _check_equal(name, known, piece)
    found = [*unique.values()]
    if len(found) == 1 and found[0].is_whole and not any(found[0].start):
        return first
    ends = [[s + n for s, n in zip(piece.start, piece.shape, strict=True)] for piece in found]
    shape = tuple(max(end[k] for end in ends) for k in range(first.ndim))
    if sum(math.prod(piece.shape) for piece in found) != math.prod(shape) or _overlap(found, ends):
        raise place.error(f"has {counted(len(found), 'piece')}, which overlap or leave holes in shape {list(shape)}")
    if len(found) > MOST_PIECES:
        raise place.error(f"has {len(found)} pieces; {MOST_PIECES} are the most")
    return ShardedTensor(shape, first.dtype, tuple(found))


def _overlap(pieces: Sequence[StoredPiece], ends: Sequence[Sequence[int]]) -> bool:
    """Whether two pieces overlap."""
    starts_at, ends_at = np.array([piece.start for piece in pieces]), np.array(ends)
    if starts_at.shape[-1:] == (0,):
        return len(pieces) > 1
    for k in range(len(pieces) - 1):
        meets = (starts_at[k + 1 :] < ends_at[k]) & (ends_at[k + 1 :] > starts_at[k])
        if meets.all(1).any():
            return True
    return False


def _in_order(files: Sequence[Checkpoint]) -> list[Checkpoint]:
    """The files of ranks, by rank."""
    by_rank = {file.metadata[RANK]: file for file in files}
    count = files[0].metadata.get(RANKS)
    if count != str(len(files)) or {*by_rank} != {str(k) for k in range(len(files))}:
        raise JsonPath(str(files[0].path.parent)).error(
            f"has files of ranks {', '.join(sorted(by_rank))[:200]}, where {show(count)} ranks are expected"
        )
    return [by_rank[str(k)] for k in range(len(files))]


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
    return {name: _tensor(name, own, True) for name, own in pieces.items()}


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
        found[name] = _tensor(name, pieces, True)
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


def _check_equal(name: str, first: StoredPiece, other: StoredPiece) -> None:
    """Refuse replicas that differ, because either might be right."""
    try:
        with first.store.path.open("rb") as one, other.store.path.open("rb") as two:
            is_equal = all(
                _read(one, at, size) == _read(two, to, size)
                for (at, size), (to, _) in zip(_runs(first), _runs(other), strict=True)
            )
    except OSError as error:
        raise ModelError(f"{first.store.path} cannot be read: {error.strerror or error}") from None
    if not is_equal:
        raise (JsonPath(str(other.store.path)) / name).error(
            f"differs from {first.store.path}'s, but every rank has all of it: if ranks have parts of it, say its axis"
        )


def _read(file: BinaryIO, at: int, size: int) -> bytes:
    file.seek(at)
    return file.read(size)


def _runs(piece: StoredPiece) -> Iterator[tuple[int, int]]:
    """Offsets and lengths of the bytes of a piece in its file."""
    store = piece.store
    last = max((k for k, size in enumerate(piece.shape) if size != store.shape[k]), default=0)
    length = math.prod(piece.shape[last:]) * store.dtype.itemsize
    steps = store.strides
    first = store.offset + sum(start * step for start, step in zip(piece.inside, steps, strict=True))
    for digits in np.ndindex(*piece.shape[:last]):
        at = first + sum(digit * step for digit, step in zip(digits, steps, strict=False))
        for done in range(0, length, COMPARED):
            yield at + done, min(COMPARED, length - done)
