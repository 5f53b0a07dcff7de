"""Tensors of checkpoints, whatever they are sharded by.

Files have whole tensors, pieces of PyTorch's distributed checkpoints, or the parts of tensor-parallel ranks. Of pieces
in safetensors files, ``DCP_SHARDING_INFO`` in ``__metadata__`` says where in its tensor each begins, as
``HuggingFaceStorageWriter`` of torch.distributed.checkpoint writes it.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from anydml.errors import ModelError
from anydml.files.json_path import JsonPath, show
from anydml.moves.value import MOST_PIECES
from anydml.stores.axes import Axes, Axis
from anydml.stores.distributed import METADATA, pieces_of
from anydml.stores.opening import BIN_INDEX, INDEX, open, safetensors_of, together
from anydml.stores.safetensors_header import parse_json
from anydml.stores.store import Checkpoint, Piece, Store
from anydml.text import counted

SHARDING = "DCP_SHARDING_INFO"
DCP_KEYS = (SHARDING, "DCP_VERSION")
RANK, RANKS, RANK_AXES = "anydml_tp_rank", "anydml_tp_size", "anydml_tp_axes"
OWN_KEYS = (*DCP_KEYS, RANK, RANKS, RANK_AXES)
"""Keys of ``__metadata__`` that speak of shards, and not of the tensors."""

COMPARED = 1 << 20
"""Bytes of copies that are compared at a time."""


@dataclass(frozen=True, slots=True)
class Tensor:
    """A tensor in pieces, which have each of its elements once."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    pieces: tuple[Piece, ...]

    @property
    def nbytes(self) -> int:
        """Bytes of the elements."""
        return math.prod(self.shape) * self.dtype.itemsize


Tensors = Mapping[str, Tensor | Store]
"""By name; a store is a tensor of one piece."""


def read_sources(
    paths: Sequence[str | os.PathLike[str]], axes: Axes, follow: bool = True
) -> tuple[Tensors, dict[str, str]]:
    """The tensors of a checkpoint, and its metadata.

    Args:
        paths: a checkpoint; or, where there are several, one for each tensor-parallel rank, in their order.
        axes: along which ranks are joined.
        follow: as `open` has it.

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
    if is_distributed(path):
        return {name: _tensor(name, [Piece(*each) for each in own]) for name, own in pieces_of(path).items()}, {}
    if not path.is_dir() or _is_indexed(path):
        checkpoint = _checkpoint(path, follow)
        return checkpoint.stores, _plain([checkpoint])
    opened = [together(file, [file], JsonPath(str(file))) for file in safetensors_of(path, follow)]
    if opened and all(SHARDING in each.metadata for each in opened):
        return _assembled(opened), _plain(opened)
    if opened and all(RANK in each.metadata for each in opened):
        ranks = _in_order(opened)
        return _joined(ranks, axes.with_known(_recorded(ranks[0]))), _plain(ranks)
    checkpoint = _checkpoint(path, follow)
    return checkpoint.stores, _plain([checkpoint])


def is_distributed(path: Path) -> bool:
    """Whether a path is the folder of a distributed checkpoint of PyTorch's."""
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


def _assembled(files: Sequence[Checkpoint]) -> dict[str, Tensor]:
    """Tensors of the pieces of a distributed checkpoint."""
    pieces: dict[str, list[Piece]] = {}
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
            pieces.setdefault(name, []).append(Piece(store, tuple(start)))
    return {name: _tensor(name, found) for name, found in pieces.items()}


def _tensor(name: str, pieces: list[Piece]) -> Tensor:
    """A tensor of pieces that cover it, once."""
    first = pieces[0].store
    place = JsonPath(str(first.path)) / name
    if any(piece.store.dtype != first.dtype or piece.store.ndim != first.ndim for piece in pieces):
        raise place.error("has pieces of several dtypes or dimensions")
    # Copies that several ranks have saved are one.
    unique = [*{(piece.start, piece.store.shape): piece for piece in reversed(pieces)}.values()][::-1]
    ends = [[s + n for s, n in zip(piece.start, piece.store.shape, strict=True)] for piece in unique]
    shape = tuple(max(end[k] for end in ends) for k in range(first.ndim))
    if sum(piece.store.size for piece in unique) != math.prod(shape) or _overlap(unique, ends):
        raise place.error(f"has {counted(len(unique), 'piece')}, which overlap or leave holes in shape {list(shape)}")
    if len(unique) > MOST_PIECES:
        raise place.error(f"has {len(unique)} pieces; {MOST_PIECES} are the most")
    return Tensor(shape, first.dtype, tuple(unique))


def _overlap(pieces: Sequence[Piece], ends: Sequence[Sequence[int]]) -> bool:
    """Whether two pieces have an element in common."""
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


def _recorded(rank: Checkpoint) -> dict[str, Axis]:
    """The axes that were written into a rank's file."""
    place = JsonPath(str(rank.path)) / "__metadata__" / RANK_AXES
    said = parse_json(rank.metadata.get(RANK_AXES, "").encode("utf-8", "replace"), place, "text")
    if not isinstance(said, dict):
        raise place.error(f"is {show(said)}, where an object is expected")
    found = {}
    for name, entry in said.items():
        axis, heads = entry if isinstance(entry, list) and len(entry) == 2 else (entry, -1)
        if any(value is not None and (type(value) is not int or not 0 <= value < 1 << 31) for value in (axis, heads)):
            raise (place / name).error(f"is {show(entry)}, where an axis and a count of heads are expected")
        found[name] = Axis(axis, heads)
    return found


def _joined(ranks: Sequence[Checkpoint], axes: Axes) -> Tensors:
    """Tensors of which every rank has a part, or all of it."""
    for rank in ranks[1:]:
        if different := sorted({*rank} ^ {*ranks[0]}):
            place = JsonPath(str(rank.path))
            raise place.error(f"and {ranks[0].path} differ in {show(different[0])}: ranks have the same tensors")
    found: dict[str, Tensor | Store] = {}
    for name in ranks[0]:
        stores = [rank[name] for rank in ranks]
        axis = axes.of(name, stores[0].ndim, str(ranks[0].path))
        if axis.axis is None:
            _check_equal(name, stores)
            found[name] = stores[0]
            continue
        copies = axis.copies(len(ranks), name)
        for first in range(0, len(ranks), copies):
            _check_equal(name, stores[first : first + copies])
        pieces, at = [], 0
        for store in stores[::copies]:
            start = [0] * store.ndim
            start[axis.axis] = at
            at += store.shape[axis.axis]
            pieces.append(Piece(store, tuple(start)))
        found[name] = _tensor(name, pieces)
    return found


def _check_equal(name: str, stores: Sequence[Store]) -> None:
    """Refuse ranks' copies that differ: nobody could say which one is right."""
    first = stores[0]
    for other in stores[1:]:
        if (other.shape, other.dtype) != (first.shape, first.dtype) or not _same_bytes(first, other):
            raise (JsonPath(str(other.path)) / name).error(
                f"differs from {first.path}'s, but every rank has all of it: if ranks have parts of it, say its axis"
            )


def _same_bytes(first: Store, second: Store) -> bool:
    try:
        with first.path.open("rb") as one, second.path.open("rb") as other:
            one.seek(first.offset)
            other.seek(second.offset)
            left = first.nbytes
            while left:
                count = min(COMPARED, left)
                if one.read(count) != other.read(count):
                    return False
                left -= count
    except OSError as error:
        raise ModelError(f"{first.path} cannot be read: {error.strerror or error}") from None
    return True


def recorded(axes: Mapping[str, Axis]) -> str:
    """Axes as ranks' files say them."""
    return json.dumps({name: [axis.axis, axis.heads] for name, axis in axes.items()})
