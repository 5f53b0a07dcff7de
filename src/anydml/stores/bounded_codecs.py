"""Codecs of arrays that zarr-python reads: none makes much more of a chunk's file than the chunk has.

Those that numcodecs and Zarr come with are bounded; what was installed beside them is called as it is.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np

from anydml.stores.decoding import Decoder

COMPRESSORS = frozenset({"blosc", "bz2", "gzip", "lz4", "lzma", "zlib", "zstd"})
"""Codecs of numcodecs' after which there may be any number of bytes."""

OF_OBJECTS = frozenset({"json2", "msgpack2", "pickle", "vlen-array", "vlen-bytes", "vlen-utf8"})
"""Codecs of numcodecs' that make Python objects; pickle even runs what a file says."""

MOST_GROWTH, MORE = 16, 64 << 10
"""Times a chunk's bytes, and bytes beside, that lie between two of its codecs at most."""


def names_of(said: Mapping[str, Any]) -> Iterator[str]:
    """The codecs that an array's metadata name, those inside others too."""
    for each in (said.get("compressor"), *(said.get("filters") or ())):
        if each is not None:
            yield str((each if isinstance(each, Mapping) else each.get_config()).get("id"))
    yield from _inside(said.get("codecs", ()))


def _inside(codecs: Iterable[Any]) -> Iterator[str]:
    for each in codecs:
        if isinstance(each, Mapping):
            yield str(each.get("name")).removeprefix("numcodecs.")
            configuration = each.get("configuration") or {}
            for name in ("codecs", "index_codecs"):
                yield from _inside(configuration.get(name, ()))


def bounded(array: Any) -> Any:
    """zarr-python's array, of whose chunks none is decoded to much more than it has.

    What its codecs raise for a file that has more is whatever the codec's library raises.
    """
    import zarr

    known = array.metadata
    if known.zarr_format == 2:
        size = math.prod(array.chunks) * np.dtype(array.dtype).itemsize
        most = MOST_GROWTH * size + MORE if known.filters else size
        kind = _classes()[0]

        def one(codec: Any, limit: int) -> Any:
            return kind(codec, limit) if codec is not None and codec.codec_id in COMPRESSORS else codec

        filters = known.filters and tuple(one(codec, MOST_GROWTH * size + MORE) for codec in known.filters)
        found = replace(known, compressor=one(known.compressor, most), filters=filters)
    else:
        found = replace(known, codecs=_of_v3(known.codecs))
    whole = array.async_array
    return zarr.Array(zarr.AsyncArray(metadata=found, store_path=array.store_path, config=whole.config))


def _of_v3(codecs: Iterable[Any]) -> tuple[Any, ...]:
    """Codecs of version 3, in the order in which they encode."""
    from zarr.codecs import BytesCodec, ShardingCodec

    kind, found, is_exact = _classes()[1], list[Any](), False
    for codec in codecs:
        own = codec
        config = _numcodecs_of(codec)
        if config is not None:
            own = kind(codec, config, is_exact)
        elif isinstance(codec, ShardingCodec):
            own = ShardingCodec(
                chunk_shape=codec.chunk_shape,
                codecs=_of_v3(codec.codecs),
                index_codecs=_of_v3(codec.index_codecs),
                index_location=codec.index_location,
            )
        found.append(own)
        # What is next to the elements gives as many bytes as those have.
        is_exact = isinstance(codec, BytesCodec)
    return tuple(found)


def _numcodecs_of(codec: Any) -> Mapping[str, Any] | None:
    """What numcodecs calls the configuration of a compressor of version 3, as far as decoding needs it."""
    said = codec.to_dict()
    name = str(said["name"]).removeprefix("numcodecs.")
    if name not in COMPRESSORS:
        return None
    own = said["name"] != name
    return {**(said.get("configuration") or {}), "id": name} if own else {"id": name}


@cache
def _classes() -> tuple[Any, Any]:
    """A codec of numcodecs', and one of version 3, that are bounded."""
    from numcodecs.abc import Codec
    from zarr.abc.codec import BytesBytesCodec

    class BoundedNumcodec(Codec):  # type: ignore[misc]
        """Decodes to so many bytes at most."""

        codec_id = "bounded"

        def __init__(self, codec: Any, most: int) -> None:
            self._codec = codec
            self._decoder = Decoder(codec.get_config(), most)

        def encode(self, buf: Any) -> Any:
            return self._codec.encode(buf)

        def decode(self, buf: Any, out: Any = None) -> Any:
            return self._decoder.decode(bytes(memoryview(buf).cast("B")))

        def get_config(self) -> Any:
            return self._codec.get_config()

    @dataclass(frozen=True)
    class BoundedCodec(BytesBytesCodec):  # type: ignore[misc]
        """Decodes to as many bytes as the elements have, or, where another codec follows, to some times as many."""

        codec: Any
        config: Mapping[str, Any]
        is_exact: bool

        is_fixed_size = False

        async def _decode_single(self, chunk_bytes: Any, chunk_spec: Any) -> Any:
            size = math.prod(chunk_spec.shape) * chunk_spec.dtype.to_native_dtype().itemsize
            most = size if self.is_exact else MOST_GROWTH * size + MORE
            found = await asyncio.to_thread(Decoder(self.config, most).decode, chunk_bytes.to_bytes())
            return chunk_spec.prototype.buffer.from_array_like(np.frombuffer(found, np.uint8))

        def compute_encoded_size(self, input_byte_length: int, chunk_spec: Any) -> int:
            return int(self.codec.compute_encoded_size(input_byte_length, chunk_spec))

        def to_dict(self) -> Any:
            return self.codec.to_dict()

    return BoundedNumcodec, BoundedCodec
