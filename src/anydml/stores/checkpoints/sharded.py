"""Tensors of pieces that partition them."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterator, Sequence
from typing import Any

import numpy as np

from anydml.errors import ModelError
from anydml.files.location import Location
from anydml.moves.value import MAX_PIECES
from anydml.stores.checkpoints.composed import ShardedTensor
from anydml.stores.formats.open_files import OpenFiles, read_at
from anydml.stores.formats.store import Store, StoredPiece
from anydml.text import count_noun

COMPARED = 1 << 20
"""Number of bytes of replicas that are compared at a time."""


CheckedTensors = dict[Hashable, tuple[Any, tuple[int, ...], list[list[int]]]]
"""Checked tensors by the ids of their pieces' properties: the properties, shapes, and numbers of equal boxes."""


def tensor_of(
    name: str,
    pieces: list[StoredPiece],
    size: tuple[int, ...] | None = None,
    files: OpenFiles | None = None,
    checked_tensors: CheckedTensors | None = None,
) -> ShardedTensor | Store:
    """Return the tensor that pieces partition; of pieces with equal boxes, one is used.

    Args:
        name: the name of the tensor.
        pieces: the pieces, at least one.
        size: the shape of the tensor; None if it ends with its pieces.
        files: files for the comparison of equal boxes, which must have equal bytes; None to compare none.
        checked_tensors: tensors that were checked; this one is added.
    """
    checked_tensors = CheckedTensors() if checked_tensors is None else checked_tensors
    # By id, because hashing a dtype is slow.
    key = size, *((id(store.dtype), store.shape, *box) for store, *box in pieces)
    if (checked := checked_tensors.get(key)) is None:
        checked = checked_tensors[key] = [piece.store.dtype for piece in pieces], *_check(name, pieces, size)
    _, shape, groups = checked
    if files is not None:
        for copies in groups:
            if len(copies) > 1:
                _check_equal(name, [pieces[k] for k in copies], files)
    distinct = tuple(pieces[copies[0]] for copies in groups)
    first = pieces[0].store
    if len(distinct) == 1 and distinct[0].is_whole and not any(distinct[0].start) and distinct[0].shape == shape:
        return first
    return ShardedTensor(shape, first.dtype, distinct)


def _check(
    name: str, pieces: Sequence[StoredPiece], size: tuple[int, ...] | None
) -> tuple[tuple[int, ...], list[list[int]]]:
    """Return the shape of a tensor of pieces, and the numbers of pieces with equal boxes.

    Raises:
        ModelError: the pieces do not partition the tensor.
    """
    first = pieces[0].store
    location = Location(str(first.path)) / name
    if any(piece.store.dtype != first.dtype or piece.store.ndim != first.ndim for piece in pieces):
        raise location.error("has pieces of several dtypes or dimensions")
    unique: dict[tuple[tuple[int, ...], tuple[int, ...]], list[int]] = {}
    for k, piece in enumerate(pieces):
        unique.setdefault((piece.start, piece.shape), []).append(k)
    groups = [*unique.values()]
    distinct = [pieces[copies[0]] for copies in groups]
    ends = [[s + n for s, n in zip(piece.start, piece.shape, strict=True)] for piece in distinct]
    end_of_pieces = tuple(max(end[k] for end in ends) for k in range(first.ndim))
    shape = end_of_pieces if size is None else size
    if len(shape) != first.ndim or any(end > size for end, size in zip(end_of_pieces, shape, strict=True)):
        raise location.error(f"has pieces up to {[*end_of_pieces]}, outside its shape {[*shape]}")
    if sum(math.prod(piece.shape) for piece in distinct) != math.prod(shape) or _overlap(distinct, ends):
        raise location.error(
            f"has {count_noun(len(distinct), 'piece')}, which overlap or leave holes in shape {list(shape)}"
        )
    if len(distinct) > MAX_PIECES:
        raise location.error(f"has {len(distinct)} pieces, but the maximum is {MAX_PIECES}")
    return shape, groups


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


def _check_equal(name: str, pieces: Sequence[StoredPiece], files: OpenFiles) -> None:
    """Refuse replicas that differ, because none is known to be right."""
    first = pieces[0].store
    if packed := next((piece.store for piece in pieces if piece.store.packed is not None), None):
        raise (Location(str(packed.path)) / name).error(
            "is compressed, so that it is not compared with that of other ranks: write it again without compression"
        )
    try:
        for (start, size), *other_runs in zip(*map(_runs, pieces), strict=True):
            content = read_at(files.file(first.path), start, size)
            for rank_piece, (to, _) in zip(pieces[1:], other_runs, strict=True):
                if read_at(files.file(rank_piece.store.path), to, size) != content:
                    raise (Location(str(rank_piece.store.path)) / name).error(
                        f"differs from {first.path}'s, but every rank has all of it: if ranks have parts of it, say "
                        "its axis"
                    )
    except OSError as error:
        raise ModelError(f"{first.path} cannot be read: {error.strerror or error}") from None


def _runs(piece: StoredPiece) -> Iterator[tuple[int, int]]:
    """Yield offsets and lengths of the bytes of a piece in its file."""
    store = piece.store
    last = max((k for k, size in enumerate(piece.shape) if size != store.shape[k]), default=0)
    length = math.prod(piece.shape[last:]) * store.dtype.itemsize
    steps = store.strides
    first = store.offset + sum(start * step for start, step in zip(piece.inside, steps, strict=True))
    for digits in np.ndindex(*piece.shape[:last]):
        position = first + sum(digit * step for digit, step in zip(digits, steps, strict=False))
        for start in range(0, length, COMPARED):
            yield position + start, min(COMPARED, length - start)
