"""Decoding of chunks, of which never more is made than a chunk has, whatever their files say."""

from __future__ import annotations

import bz2
import lzma
import zlib
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

Array = np.ndarray[Any, np.dtype[Any]]

UNWRITTEN = 0xA5
"""A byte by which a buffer that was not filled to its end is noticed."""

MOST_DICTIONARY = 128 << 20
"""Bytes that a stream of lzma's may ask for; its highest preset needs half of them."""


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

    def decode(self, data: bytes) -> Any:
        """What a codec makes of a file: of a buffer's size at most, and no byte that it has not written.

        Raises:
            Exception: whatever the codec's library does where the file is broken or has more than a chunk.
        """
        if self._stream is not None:
            return self._joined(data)
        # These say in their first bytes how many there are, and refuse a buffer that is smaller.
        flat = np.empty(self.size, np.uint8)
        flat[-1:] = UNWRITTEN
        found = self._coder.decode(data, out=flat)
        if flat.size and flat[-1] != UNWRITTEN:
            return found
        # Codecs do not say of how many bytes they filled a buffer: one of their own tells.
        del flat, found
        return self._coder.decode(data)

    def _joined(self, data: bytes) -> bytearray:
        """What streams one after the other hold, of which all but the last byte too many is left undone."""
        found, left = bytearray(), data
        while left:
            if self._stream is None:
                raise AssertionError("the codec has no streams")
            stream = self._stream()
            found += stream.decompress(left, self.size + 1 - len(found))
            if len(found) > self.size:
                raise ValueError(f"it has more than the {self.size} bytes of a chunk")
            if not stream.eof:
                raise ValueError("it ends too early")
            # Zeros may fill a file up.
            left = stream.unused_data.lstrip(b"\0")
        return found


def coder_of(codec: Mapping[str, Any]) -> Any:
    """What decodes and encodes chunks, by numcodecs' configuration."""
    import numcodecs

    return numcodecs.get_codec(dict(codec))


def _stream(codec: Mapping[str, Any]) -> Callable[[], Any] | None:
    """What begins a stream of a codec that does not say how many bytes there are."""
    name = codec.get("id")
    if name in ("gzip", "zlib"):
        return lambda: zlib.decompressobj(31 if name == "gzip" else 15)
    if name == "bz2":
        return bz2.BZ2Decompressor
    if name == "lzma":
        form, filters = codec.get("format", lzma.FORMAT_XZ), codec.get("filters")
        most = None if form == lzma.FORMAT_RAW else MOST_DICTIONARY
        return lambda: lzma.LZMADecompressor(form, most, filters)
    return None
