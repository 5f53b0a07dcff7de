"""Shards in the codecs of Zarr's version 3: wherever they stand, nested ones included."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from anydml.stores.formats.zarr_strings import CODEC

Json = dict[str, Any]

SHARDING = "sharding_indexed"

INDEX_CODECS = [{"name": "bytes", "configuration": {"endian": "little"}}, {"name": "crc32c"}]
"""Index codecs of shards in arrays that had no shards before, as zarr-python writes them."""


def rechunked(
    codecs: list[Json],
    outer: Sequence[int],
    chunks: Sequence[int] | None,
    shards: Sequence[int] | None,
    shape: Sequence[int],
) -> tuple[list[Json], list[int]]:
    """Return the codecs for other chunks, and the sizes of the box in one file.

    Args:
        codecs: the codecs of the array, which may be changed.
        outer: sizes of the box in one file.
        chunks: sizes of a chunk, without shards or of a shard; by default those that the array has.
        shards: sizes of a shard, −1 for a whole axis, empty for none; by default those that the array has, rounded up
            to whole chunks.
        shape: the shape of the array.

    Raises:
        ValueError: chunks do not divide shards, or it is not known which level of nested shards gets the chunks.
    """
    depth = _depth(codecs)
    if not depth or (shards is not None and not shards) or (depth > 1 and chunks is not None and shards):
        plain, inner = flat(codecs, outer)
        chunk = [*map(int, inner if chunks is None else chunks)]
        if not shards:
            return plain, chunk
        configuration = _first(codecs)["configuration"] if depth else {"index_codecs": INDEX_CODECS}
        sharding = [{"name": SHARDING, "configuration": {**configuration, "chunk_shape": chunk, "codecs": plain}}]
        result = sharding, _round(shards, shape, chunk)
    else:
        if depth > 1 and chunks is not None:
            levels = " of ".join(str(level) for level in levels_of(codecs, outer))
            raise ValueError(
                f"it has shards in shards, {levels}: chunks alone do not say which of these they are; give shards "
                "(--shards), too, which may be none"
            )
        inner_configuration, order = _first(codecs)["configuration"], _order(codecs, len(outer))
        inner = _back(inner_configuration["chunk_shape"], order)
        chunk = [*map(int, inner if chunks is None else chunks)]
        inner_configuration["chunk_shape"] = [chunk[k] for k in order]
        result = codecs, _round(shards or [-1] * len(chunk), shape if shards else outer, chunk)
    check_shards(*result)
    return result


def _round(shards: Sequence[int], shape: Sequence[int], chunk: Sequence[int]) -> list[int]:
    """Return sizes of shards, where −1 is a whole axis, rounded up to whole chunks."""
    return [
        max(1, -(-size // max(1, part))) * part if shard == -1 else int(shard)
        for shard, size, part in zip(shards, shape, chunk, strict=True)
    ]


def inward(codecs: Sequence[Json], rank: int) -> list[Json]:
    """Return the codecs with transposes inside of shards, where zarr-python finds the chunks of a shard.

    zarr-python compares sizes of shards and of their chunks by axes before and behind a transpose between them, and
    refuses most.
    """
    codec_number = _place(codecs)
    if codec_number is None:
        return [*codecs]
    order = _order(codecs, rank)
    before = [codec for codec in codecs[:codec_number] if codec["name"] == "transpose"]
    sharding = codecs[codec_number]["configuration"]
    configuration = {
        **sharding,
        "chunk_shape": _back(sharding["chunk_shape"], order),
        "codecs": inward([*before, *sharding["codecs"]], rank),
    }
    other_codecs = [codec for codec in codecs[:codec_number] if codec["name"] != "transpose"]
    return [*other_codecs, {**codecs[codec_number], "configuration": configuration}, *codecs[codec_number + 1 :]]


def is_ordered(codecs: Sequence[Json], outer: Sequence[int]) -> bool:
    """Whether shards consist of whole chunks even without the transposes before them, which zarr-python ignores."""
    codec_number = _place(codecs)
    if codec_number is None:
        return True
    sharding = codecs[codec_number]["configuration"]
    return all(a % b == 0 for a, b in zip(outer, sharding["chunk_shape"], strict=True)) and is_ordered(
        sharding["codecs"], sharding["chunk_shape"]
    )


def without_transposes(codecs: Sequence[Json], rank: int) -> tuple[list[int], list[Json]]:
    """Return the order of axes after the leading transposes, and the codecs without these transposes."""
    order, remaining = [*range(rank)], [*codecs]
    while remaining and remaining[0]["name"] == "transpose":
        order = [order[k] for k in remaining.pop(0)["configuration"]["order"]]
    return order, remaining


def check_shards(codecs: Sequence[Json], outer: Sequence[int]) -> None:
    """Refuse shards that are not whole chunks, on every level.

    Raises:
        ValueError: a shard is not whole chunks.
    """
    levels = levels_of(codecs, outer)
    for outer_shape, part in pairwise(levels):
        if any(b < 1 or a % b for a, b in zip(outer_shape, part, strict=True)):
            raise ValueError(
                f"shards of {outer_shape} are not whole chunks of {part}: each size must be a multiple of the chunk's"
            )


def levels_of(codecs: Sequence[Json], outer: Sequence[int]) -> list[list[int]]:
    """Return the sizes of shards, of shards inside these, and so on to the innermost chunks, by the array's axes."""
    levels = [[*outer]]
    order = [*range(len(outer))]
    while (codec_number := _place(codecs)) is not None:
        order = [order[k] for k in _order(codecs, len(outer))]
        sharding = codecs[codec_number].get("configuration") or {}
        if len(sharding["chunk_shape"]) != len(outer):
            raise ValueError(
                f"shards have chunks of {sharding['chunk_shape']}, but the array has {len(outer)} axes: one size per "
                "axis is needed"
            )
        levels.append(_back(sharding["chunk_shape"], order))
        codecs = sharding["codecs"]
    return levels


def flat(codecs: Sequence[Json], outer: Sequence[int]) -> tuple[list[Json], list[int]]:
    """Return the codecs without any shards, and the sizes of the innermost chunks."""
    inner, flattened = levels_of(codecs, outer)[-1], [*codecs]
    while (codec_number := _place(flattened)) is not None:
        # Transposes outside and inside shards follow each other, as do compressors of shards and of chunks.
        flattened[codec_number : codec_number + 1] = flattened[codec_number]["configuration"]["codecs"]
    return flattened, inner


def compress(codecs: list[Json], compressors: Sequence[Json]) -> None:
    """Replace the compressors of chunks, also those of whole shards; checksums stay."""
    from zarr.abc.codec import ArrayBytesCodec
    from zarr.registry import get_codec_class

    first = next(k for k, codec in enumerate(codecs) if issubclass(get_codec_class(codec["name"]), ArrayBytesCodec))
    if codecs[first]["name"] not in (SHARDING, "bytes", CODEC):
        # Such as pcodec, which is the old compressor itself.
        codecs[first] = {"name": "bytes", "configuration": {"endian": "little"}}
    sums = [codec for codec in codecs[first + 1 :] if codec["name"] == "crc32c"]
    if codecs[first]["name"] == SHARDING:
        compress(codecs[first]["configuration"]["codecs"], compressors)
        codecs[first + 1 :] = sums
    elif compressors and issubclass(get_codec_class(compressors[0]["name"]), ArrayBytesCodec):
        codecs[first:] = [*compressors, *sums]
    else:
        codecs[first + 1 :] = [*compressors, *sums]


def _place(codecs: Sequence[Json]) -> int | None:
    return next((k for k, codec in enumerate(codecs) if codec["name"] == SHARDING), None)


def _first(codecs: Sequence[Json]) -> Json:
    return next(codec for codec in codecs if codec["name"] == SHARDING)


def _depth(codecs: Sequence[Json]) -> int:
    codec_number = _place(codecs)
    return 0 if codec_number is None else 1 + _depth(codecs[codec_number]["configuration"]["codecs"])


def _order(codecs: Sequence[Json], rank: int) -> list[int]:
    """Return the order of axes after the transposes before the shards: for each axis, the array's axis."""
    order = [*range(rank)]
    for codec in codecs[: _place(codecs)]:
        if codec["name"] == "transpose":
            order = [order[k] for k in codec["configuration"]["order"]]
    return order


def _back(sizes: Sequence[int], order: Sequence[int]) -> list[int]:
    """Convert sizes of transposed axes to the order of the array's axes."""
    return [int(sizes[order.index(k)]) for k in range(len(order))]
