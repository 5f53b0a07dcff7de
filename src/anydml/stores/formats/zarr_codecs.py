"""Zarr codecs: reading their configuration, and decoding that never yields more bytes than a chunk may have.

Codecs that numcodecs and Zarr come with are bounded; those installed beside them are called as they are.
"""

from __future__ import annotations

import json
import math
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np

from anydml.stores.formats.store import Array

UNWRITTEN = 0xA5
"""Last byte of a buffer before decoding, which shows whether the buffer was filled."""

MAX_DICTIONARY = 128 << 20
"""Maximum size in bytes of the dictionary of an lzma stream; its highest preset needs half of them."""


class Decoder:
    """Decodes chunks by one codec.

    Args:
        codec: numcodecs' configuration.
        size: bytes of a chunk.
    """

    def __init__(self, codec: Mapping[str, Any], size: int) -> None:
        self.size = size
        self._coder = coder_of(codec)
        self._stream = _stream(codec)

    def decode(self, data: bytes, flat: Array | None = None) -> Any:
        """Decode a chunk to at most its bytes.

        Args:
            data: the encoded chunk.
            flat: a buffer of a chunk's size that the result may use.

        Raises:
            Exception: any error of the codec's library, where the file is broken or has more than a chunk.
        """
        if self._stream is not None:
            return self._join(data)
        # Data in these formats begins with the decoded size, and decoders refuse a smaller buffer.
        flat = np.empty(self.size, np.uint8) if flat is None else flat
        flat[-1:] = UNWRITTEN
        decoded = self._coder.decode(data, out=flat)
        if flat.size and flat[-1] != UNWRITTEN:
            return decoded
        # Codecs do not tell how much of a buffer they filled; a buffer that they allocate has the right size.
        del flat, decoded
        return self._coder.decode(data)

    def _join(self, data: bytes) -> bytearray:
        """Decode concatenated streams, up to one byte more than a chunk has."""
        output, remaining = bytearray(), data
        while remaining:
            if self._stream is None:
                raise AssertionError("the codec has no streams")
            stream = self._stream()
            output += stream.decompress(remaining, self.size + 1 - len(output))
            if len(output) > self.size:
                raise ValueError(f"it has more than the {self.size} bytes of a chunk")
            if not stream.eof:
                raise ValueError("it ends too early")
            # Files may be padded by zeros.
            remaining = stream.unused_data.lstrip(b"\0")
        return output


def raise_if_short(error: Exception) -> None:
    """Raise MemoryError for an error that a library raises where memory or threads are too few.

    Raises:
        MemoryError: for such an error.
    """
    text = str(error)
    if isinstance(error, MemoryError) or "start new thread" in text or "Allocation error" in text:
        raise MemoryError(text) from error


def coder_of(codec: Mapping[str, Any]) -> Any:
    """Return the codec of numcodecs with a configuration."""
    import numcodecs

    return numcodecs.get_codec(dict(codec))


def _stream(codec: Mapping[str, Any]) -> Callable[[], Any] | None:
    """Return a factory of decoders for formats that do not state the decoded size; None for others."""
    name = codec.get("id")
    if name in ("gzip", "zlib"):
        return lambda: zlib.decompressobj(31 if name == "gzip" else 15)
    # Some builds of Python have neither bz2 nor lzma.
    if name == "bz2":
        import bz2

        return bz2.BZ2Decompressor
    if name == "lzma":
        import lzma

        form, filters = codec.get("format", lzma.FORMAT_XZ), codec.get("filters")
        max_bytes = None if form == lzma.FORMAT_RAW else MAX_DICTIONARY
        return lambda: lzma.LZMADecompressor(form, max_bytes, filters)
    return None


COMPRESSORS = frozenset({"blosc", "bz2", "gzip", "lz4", "lzma", "zlib", "zstd"})
"""Codecs of numcodecs whose output may have any size."""

EXACT = COMPRESSORS | {
    *("adler32", "base64", "bytes", "crc32", "crc32c", "fletcher32", "jenkins_lookup3", "packbits", "pcodec"),
    *("sharding_indexed", "shuffle", "transpose", "vlen-utf8"),
}
"""Codecs that give back the elements that they got; others may round them."""

OBJECT_CODECS = frozenset({"json2", "msgpack2", "pickle", "vlen-array", "vlen-bytes", "vlen-utf8"})
"""Codecs of numcodecs that make Python objects; pickle even runs code of the file."""


def rounding(metadata: Mapping[str, bytes], dtype: np.dtype[Any]) -> set[str]:
    """Return the names of an array's codecs that may change elements, by rounding."""
    document = json.loads(metadata.get("zarr.json") or metadata[".zarray"])
    # Sums of differences are exact for integers.
    return {*names_of(document)} - (EXACT if dtype.kind in "fc" else EXACT | {"delta"})


MAX_GROWTH = 16
"""Data between two codecs may have at most this many times a chunk's bytes, plus `GROWTH_ALLOWANCE`."""

GROWTH_ALLOWANCE = 64 << 10
"""Bytes that data between two codecs may have beyond `MAX_GROWTH` times a chunk's bytes."""


def names_of(document: Mapping[str, Any]) -> Iterator[str]:
    """Yield names of the codecs in metadata, including nested ones."""
    for option in (document.get("compressor"), *(document.get("filters") or ())):
        if option is not None:
            yield str((option if isinstance(option, Mapping) else option.get_config()).get("id"))
    for name in names_inside(document.get("codecs", ())):
        yield name.removeprefix("numcodecs.")


def names_inside(codecs: Iterable[Any]) -> Iterator[str]:
    """Yield full names of codecs of version 3, including nested ones."""
    for codec in codecs:
        if isinstance(codec, Mapping):
            yield str(codec.get("name"))
            configuration = codec.get("configuration") or {}
            for name in ("codecs", "index_codecs"):
                yield from names_inside(configuration.get(name, ()))


def bounded(array: Any, text_bytes: int | None = None) -> Any:
    """Return an array of zarr-python whose codecs decode no chunk to much more than its bytes.

    For a larger chunk they raise any error of the codec's library.

    Args:
        array: the array.
        text_bytes: maximum bytes of a chunk's strings, if the elements are strings; None for no limit.
    """
    import zarr

    metadata = array.metadata
    is_text = np.dtype(array.dtype).kind == "T"
    if is_text and text_bytes is None:
        return array
    if metadata.zarr_format == 2:
        size = math.prod(array.chunks) * np.dtype(array.dtype).itemsize
        between = MAX_GROWTH * size + GROWTH_ALLOWANCE if text_bytes is None or not is_text else text_bytes
        max_bytes = between if metadata.filters else size
        pipeline_class = _classes()[0]

        def bounded_codec(codec: Any, limit: int) -> Any:
            return pipeline_class(codec, limit) if codec is not None and codec.codec_id in COMPRESSORS else codec

        filters = metadata.filters and tuple(bounded_codec(codec, between) for codec in metadata.filters)
        with_bounds = replace(metadata, compressor=bounded_codec(metadata.compressor, max_bytes), filters=filters)
    else:
        with_bounds = replace(metadata, codecs=_of_v3(metadata.codecs, text_bytes if is_text else None))
    async_array = array.async_array
    return zarr.Array(zarr.AsyncArray(metadata=with_bounds, store_path=array.store_path, config=async_array.config))


def _of_v3(codecs: Iterable[Any], max_bytes: int | None) -> tuple[Any, ...]:
    """Return version 3's codecs in order of encoding, bounded by a number of bytes or by the elements' bytes."""
    from zarr.codecs import BytesCodec, ShardingCodec

    pipeline_class, bounded_codecs, is_exact = _classes()[1], list[Any](), False
    for codec in codecs:
        bounded_codec = codec
        config = _numcodecs_of(codec)
        if config is not None:
            bounded_codec = pipeline_class(codec, config, is_exact, max_bytes)
        elif isinstance(codec, ShardingCodec):
            bounded_codec = ShardingCodec(
                chunk_shape=codec.chunk_shape,
                codecs=_of_v3(codec.codecs, max_bytes),
                index_codecs=_of_v3(codec.index_codecs, None),
                index_location=codec.index_location,
            )
        bounded_codecs.append(bounded_codec)
        # The codec next to the elements decodes to exactly the elements' bytes.
        is_exact = isinstance(codec, BytesCodec)
    return tuple(bounded_codecs)


def _numcodecs_of(codec: Any) -> Mapping[str, Any] | None:
    """Return the configuration, for numcodecs, by which a compressor of version 3 is decoded; None for other codecs."""
    configuration = codec.to_dict()
    name = str(configuration["name"]).removeprefix("numcodecs.")
    if name not in COMPRESSORS:
        return None
    is_numcodecs = configuration["name"] != name
    return {**(configuration.get("configuration") or {}), "id": name} if is_numcodecs else {"id": name}


@cache
def _classes() -> tuple[Any, Any]:
    """Return bounded codec classes for versions 2 and 3."""
    import asyncio

    from numcodecs.abc import Codec
    from zarr.abc.codec import BytesBytesCodec

    class BoundedNumcodec(Codec):  # type: ignore[misc]
        """Decodes to at most a number of bytes."""

        codec_id = "bounded"

        def __init__(self, codec: Any, max_bytes: int) -> None:
            self._codec = codec
            self._decoder = Decoder(codec.get_config(), max_bytes)

        def encode(self, buf: Any) -> Any:
            return self._codec.encode(buf)

        def decode(self, buf: Any, out: Any = None) -> Any:
            return self._decoder.decode(bytes(memoryview(buf).cast("B")))

        def get_config(self) -> Any:
            return self._codec.get_config()

    @dataclass(frozen=True)
    class BoundedCodec(BytesBytesCodec):  # type: ignore[misc]
        """Decodes to at most a number of bytes: those of the elements, or a multiple if another codec follows."""

        codec: Any
        config: Mapping[str, Any]
        is_exact: bool
        max_bytes: int | None

        is_fixed_size = False

        async def _decode_single(self, chunk_bytes: Any, chunk_spec: Any) -> Any:
            size = math.prod(chunk_spec.shape) * chunk_spec.dtype.to_native_dtype().itemsize
            max_bytes = self.max_bytes or (size if self.is_exact else MAX_GROWTH * size + GROWTH_ALLOWANCE)
            decoded = await asyncio.to_thread(Decoder(self.config, max_bytes).decode, chunk_bytes.to_bytes())
            return chunk_spec.prototype.buffer.from_array_like(np.frombuffer(decoded, np.uint8))

        def compute_encoded_size(self, input_byte_length: int, chunk_spec: Any) -> int:
            return int(self.codec.compute_encoded_size(input_byte_length, chunk_spec))

        def to_dict(self) -> Any:
            return self.codec.to_dict()

    return BoundedNumcodec, BoundedCodec


SHUFFLES = {"noshuffle": 0, "shuffle": 1, "bitshuffle": 2}
"""Shuffles of blosc by their names in version 3, and their numbers in version 2."""


def codec_of_v2(document: Mapping[str, Any]) -> tuple[Mapping[str, Any] | None, bool]:
    """Return the codec that metadata of version 2 name, and whether it is the only codec of chunks."""
    compressor = document.get("compressor")
    if compressor is not None and not isinstance(compressor, Mapping):
        compressor = compressor.get_config()
    is_known = compressor is None or compressor.get("id") in COMPRESSORS
    return compressor, is_known and not document.get("filters") and document.get("order", "C") == "C"


def codec_of_v3(document: Mapping[str, Any]) -> tuple[Mapping[str, Any] | None, bool]:
    """Return the same for version 3, by the names of version 2."""
    codecs = [json.loads(json.dumps(codec)) for codec in document["codecs"]]
    first, compressors = codecs[0], codecs[1:]
    if first["name"] != "bytes" or len(compressors) > 1 or document.get("storage_transformers"):
        return None, False
    if not compressors:
        return None, True
    name, options = compressors[0]["name"], compressors[0].get("configuration", {})
    if name == "zstd":
        return {"id": "zstd", "level": options.get("level", 0), "checksum": options.get("checksum", False)}, True
    if name == "gzip":
        return {"id": "gzip", "level": options.get("level", 5)}, True
    if name == "blosc" and options.get("shuffle") in SHUFFLES:
        blosc_options = {key: options[key] for key in ("cname", "clevel", "blocksize") if key in options}
        return {"id": "blosc", **blosc_options, "shuffle": SHUFFLES[options["shuffle"]]}, True
    return None, False


def as_stored(dtype: np.dtype[Any], codecs: Sequence[Mapping[str, Any]]) -> np.dtype[Any]:
    """Return the dtype with the byte order of chunks of version 3, which is in their codecs."""
    endian = dict(codecs[0].get("configuration") or {}).get("endian") if codecs[0]["name"] == "bytes" else None
    if endian is None or dtype.itemsize == 1 or dtype.kind not in "iufcmMU":
        return dtype
    return dtype.newbyteorder(">" if getattr(endian, "value", endian) == "big" else "<")
