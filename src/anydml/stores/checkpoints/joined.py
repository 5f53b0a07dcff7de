"""Tensors joined from the parts of ranks: by intervals that files record, or along axes."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate, product
from pathlib import Path
from types import MappingProxyType
from typing import Any

from anydml.errors import ModelError
from anydml.files.location import Location, show
from anydml.moves.value import MAX_PIECES
from anydml.stores.checkpoints.axis import ALL, AxisIntervals, AxisSection
from anydml.stores.checkpoints.composed import ShardedTensor, StoredTensors
from anydml.stores.checkpoints.known_axes import Model
from anydml.stores.checkpoints.parallel_axes import Axes
from anydml.stores.checkpoints.sharded import CheckedTensors, tensor_of
from anydml.stores.formats.completeness import PARTS
from anydml.stores.formats.open_files import OpenFiles
from anydml.stores.formats.safetensors import parse_json
from anydml.stores.formats.store import Checkpoint, Store, StoredPiece


def parts_of(ranks: Sequence[Checkpoint]) -> StoredTensors:
    """Return the tensors whose parts the metadata of ranks' files describe."""
    pieces: dict[str, list[StoredPiece]] = {}
    boxes_by_key: dict[tuple[str, tuple[int, ...]], list[_Box]] = {}
    for rank in ranks:
        location = Location(str(rank.path)) / "__metadata__" / PARTS
        cuts_by_name = parse_json(rank.metadata.get(PARTS, "").encode("utf-8", "replace"), location, "text")
        for name, store in rank.items():
            cuts = cuts_by_name.get(name) if isinstance(cuts_by_name, dict) else None
            # The text is compared, because true equals 1 in Python, but is not valid here.
            key = repr(cuts), store.shape
            if (boxes := boxes_by_key.get(key)) is None:
                if cuts is None or not _is_cuts(cuts, store.shape):
                    raise (location / name).error(f"must be intervals of {store.ndim} axes, not {show(cuts)}")
                boxes = boxes_by_key[key] = [*_boxes(cuts)]
            pieces.setdefault(name, []).extend(StoredPiece(store, *box) for box in boxes)
    checked_tensors = CheckedTensors()
    with OpenFiles() as files:
        return {
            name: tensor_of(name, tensor_pieces, files=files, checked_tensors=checked_tensors)
            for name, tensor_pieces in pieces.items()
        }


_Box = tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]
"""First coordinates in the tensor and in the store, and sizes."""


def _is_cuts(cuts: Any, shape: tuple[int, ...]) -> bool:
    """Whether there are valid intervals of each axis, whose sizes add up to the shape."""
    if not isinstance(cuts, list) or len(cuts) != len(shape):
        return False
    for cut, size in zip(cuts, shape, strict=True):
        if not isinstance(cut, list) or not all(isinstance(interval, list) and len(interval) == 2 for interval in cut):
            return False
        if any(type(n) is not int or not 0 <= n < 1 << 62 for interval in cut for n in interval):
            return False
        if sum(interval[1] for interval in cut) != size:
            return False
    return math.prod(map(len, cuts)) <= MAX_PIECES


def _boxes(cuts: Sequence[AxisIntervals]) -> Iterator[_Box]:
    """Yield the boxes of a store that has intervals of a tensor along each axis."""
    places = [[*accumulate((size for _, size in cut), initial=0)] for cut in cuts]
    for digits in product(*(range(len(cut)) for cut in cuts)):
        box = [cut[digit] for cut, digit in zip(cuts, digits, strict=True)]
        start_in_part = tuple(coordinate[digit] for coordinate, digit in zip(places, digits, strict=True))
        yield tuple(start for start, _ in box), start_in_part, tuple(size for _, size in box)


def join_ranks(
    ranks: Sequence[Mapping[str, Store]],
    axes: Axes,
    model: Model,
    where: Path,
    further: Mapping[str, Sequence[Sequence[Store]]] = MappingProxyType({}),
) -> tuple[StoredTensors, dict[str, ModelError]]:
    """Return the tensors that ranks share along axes or replicate, and errors of those that cannot be joined.

    Args:
        ranks: the parts of each rank by name; all ranks have the same names.
        axes: the axes along which tensors are shared.
        model: the model of the parts.
        where: the checkpoint, for errors.
        further: further copies of the parts of all ranks, by name, which must be equal.
    """
    tensors, refused, checked_tensors = dict[str, ShardedTensor | Store](), dict[str, ModelError](), CheckedTensors()
    with OpenFiles() as files:
        for name in ranks[0]:
            try:
                axis = axes.of(name, model, str(where)) if len(ranks) > 1 else ALL
                pieces = list[StoredPiece]()
                for stores in ([rank[name] for rank in ranks], *further.get(name, ())):
                    if axis.axis is None or len({store.ndim for store in stores}) > 1:
                        pieces += [StoredPiece.of_store(store) for store in stores]
                    else:
                        pieces += _shares(stores, axis.axis, axis.sections(len(ranks), name))
                tensors[name] = tensor_of(name, pieces, files=files, checked_tensors=checked_tensors)
            except ModelError as error:
                refused[name] = error
    return tensors, refused


def _shares(stores: Sequence[Store], axis: int, sections: Sequence[AxisSection]) -> Iterator[StoredPiece]:
    """Yield the parts of ranks, for each section of an axis."""
    total = sum(section.rank_size for section in sections)
    sizes = [store.shape[axis] for store in stores]
    base = joined_size = 0
    for _, rank_size, copies in sections:
        offset = base
        for rank, store in enumerate(stores):
            shape, start, start_in_part = [*store.shape], [0] * store.ndim, [0] * store.ndim
            shape[axis], start_in_part[axis] = sizes[rank] * rank_size // total, sizes[rank] * joined_size // total
            start[axis] = offset
            yield StoredPiece(store, tuple(start), tuple(start_in_part), tuple(shape))
            offset += shape[axis] if rank % copies == copies - 1 else 0
        base, joined_size = offset, joined_size + rank_size
