"""Arrays of Zarr's version 3 whose chunks have several sizes along an axis (chunk grid "rectilinear")."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator, Mapping, Sequence
from operator import index
from typing import Any

from anydml.stores.formats.zarr_shards import inward, is_ordered

GRID = "rectilinear"

MAX_SIZES = 1 << 20
"""Maximum number of chunks along an axis that are listed."""


def edges_of(metadata: Mapping[str, bytes]) -> tuple[tuple[int, ...], ...] | None:
    """Return the boundaries of chunks along each axis; None for arrays whose chunks have one size.

    Raises:
        ValueError: the sizes do not belong to such a grid.
    """
    document = json.loads(metadata.get("zarr.json", b"{}"))
    grid = document.get("chunk_grid") if isinstance(document, dict) else None
    if not isinstance(grid, dict) or grid.get("name") != GRID:
        return None
    options, shape = grid.get("configuration") or {}, document["shape"]
    axis_edges = options.get("chunk_shapes")
    if options.get("kind", "inline") != "inline" or not isinstance(axis_edges, list) or len(axis_edges) != len(shape):
        raise ValueError(f"chunk grid {GRID} must have chunk_shapes of each axis, kind inline")
    return tuple(_edges(of_axis, size) for of_axis, size in zip(axis_edges, shape, strict=True))


def _edges(sizes: Any, size: int) -> tuple[int, ...]:
    if _is_size(sizes):
        sizes = [[sizes, max(1, -(-size // sizes))]]
    edges = tuple(itertools.accumulate(_sizes(sizes), initial=0))
    if edges[-1] < size:
        raise ValueError(f"chunks of {edges[-1]} elements do not cover an axis of {size}")
    return edges


def _sizes(runs: Any) -> Iterator[int]:
    remaining = MAX_SIZES
    for item in runs if isinstance(runs, list) else ():
        size, count = item if isinstance(item, list) and len(item) == 2 else (item, 1)
        if not (_is_size(size) and _is_size(count)) or count > remaining:
            raise ValueError(
                f"chunk_shapes has {str(item)[:40]}, but must have sizes of at least 1, at most {MAX_SIZES} per axis"
            )
        remaining -= count
        yield from itertools.repeat(size, count)


def _is_size(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 1


def with_edges(metadata: Mapping[str, bytes], edges: Sequence[Sequence[int]]) -> dict[str, bytes]:
    """Return metadata of an array of regular chunks, with chunks of several sizes."""
    document = json.loads(metadata["zarr.json"])
    shapes = [[*map(_run, itertools.groupby(map(int.__sub__, axis_edges[1:], axis_edges)))] for axis_edges in edges]
    document["chunk_grid"] = {"name": GRID, "configuration": {"kind": "inline", "chunk_shapes": shapes}}
    return {**metadata, "zarr.json": json.dumps(document, indent=2).encode()}


def _run(group: tuple[int, Iterator[int]]) -> int | list[int]:
    """Return a size, or a pair of a size and its number of repetitions."""
    size, count = group[0], sum(1 for _ in group[1])
    return size if count == 1 else [size, count]


def edges_given(chunks: Sequence[int | Sequence[int]], shape: Sequence[int]) -> tuple[tuple[int, ...], ...]:
    """Return the edges of chunks from given sizes: along each axis one size, or all sizes.

    Raises:
        ValueError: the sizes do not cover an axis, or are not positive integers.
    """
    axis_chunks: list[Any] = [*chunks]
    try:
        sizes = [
            [*map(index, sizes_of_axis)] if hasattr(sizes_of_axis, "__len__") else index(sizes_of_axis)
            for sizes_of_axis in axis_chunks
        ]
    except TypeError:
        raise ValueError(f"each axis must have one size, or a list of all sizes, not {chunks}") from None
    return tuple(map(_edges, sizes, shape))


def as_regular(metadata: Mapping[str, bytes]) -> dict[str, bytes]:
    """Return metadata of an array, with the largest sizes of chunks where there are several."""
    if (edges := edges_of(metadata)) is None:
        return dict(metadata)
    document, largest = (
        json.loads(metadata["zarr.json"]),
        [max(map(int.__sub__, edges_of_axis[1:], edges_of_axis), default=1) for edges_of_axis in edges],
    )
    document["chunk_grid"] = {"name": "regular", "configuration": {"chunk_shape": largest}}
    return {**metadata, "zarr.json": json.dumps(document).encode()}


def readable(metadata: Mapping[str, bytes]) -> dict[str, bytes]:
    """Return metadata of an array that zarr-python opens: `as_regular`, and with transposes behind shards.

    Its elements are those of the array, but files of shards lie otherwise where transposes were before them.
    """
    regular = as_regular(metadata)
    if not is_turned(regular):
        return regular
    document = json.loads(regular["zarr.json"])
    document["codecs"] = inward(document["codecs"], len(document["shape"]))
    return {**regular, "zarr.json": json.dumps(document).encode()}


def is_turned(metadata: Mapping[str, bytes]) -> bool:
    """Whether shards follow a transpose with which zarr-python does not find the chunks."""
    document = json.loads(metadata.get("zarr.json", b"{}"))
    if not isinstance(document, dict) or document.get("node_type") != "array":
        return False
    return not is_ordered(document["codecs"], document["chunk_grid"]["configuration"]["chunk_shape"])
