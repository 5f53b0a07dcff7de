"""GGUF files; their headers are not trusted. Quantized tensors are moved in whole blocks.

The document: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md
"""

from __future__ import annotations

import math
import struct
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from anydml.errors import ModelError
from anydml.files.location import Location, show
from anydml.stores.formats.block_types import DTYPES_OF_BLOCKS, not_of_format, shape_in_blocks, shape_in_elements
from anydml.stores.formats.columns import FileTensors
from anydml.stores.formats.safetensors import DTYPES, NAMES
from anydml.stores.formats.store import FileContent, Numbers, Store
from anydml.text import count_noun, missing_bytes

ARCHITECTURE = "general.architecture"
"""The key that programs need to interpret the tensors."""

FILE_TYPE = "general.file_type"
"""The key with the dtype of most tensors."""

FILE_TYPES = {"F32": 0, "F16": 1, "BF16": 32}
"""Its values, by unquantized dtypes of safetensors."""

SPLIT = ("split.no", "split.count", "split.tensors.count")
"""Keys of a file that has a part of a model."""

ALIGNMENT = 32
"""Default alignment of tensors, which a key may change."""

MAX_NAME = 63
"""Maximum size in bytes of a tensor's name that ggml reads; the document says 64."""

MAX_KEY = (1 << 16) - 1
"""Maximum size in bytes of a key."""

MAX_TENSORS, MAX_KEYS, MAX_TEXT, MAX_DIMENSIONS, MAX_DEPTH = 1 << 20, 1 << 16, 1 << 24, 4, 4

MAX_VALUE = 1 << 28
"""Maximum size in bytes of the value of a key; tokenizers have some megabytes."""

TYPES: Mapping[int, np.dtype[Any]] = {
    0: DTYPES["F32"],
    1: DTYPES["F16"],
    24: DTYPES["I8"],
    25: DTYPES["I16"],
    26: DTYPES["I32"],
    27: DTYPES["I64"],
    28: DTYPES["F64"],
    30: DTYPES["BF16"],
}
"""Unquantized types of tensors."""

QUANTIZED = {
    2: "Q4_0", 3: "Q4_1", 6: "Q5_0", 7: "Q5_1", 8: "Q8_0", 9: "Q8_1", 10: "Q2_K", 11: "Q3_K", 12: "Q4_K", 13: "Q5_K",
    14: "Q6_K", 15: "Q8_K", 16: "IQ2_XXS", 17: "IQ2_XS", 18: "IQ3_XXS", 19: "IQ1_S", 20: "IQ4_NL", 21: "IQ3_S",
    22: "IQ2_S", 23: "IQ4_XS", 29: "IQ1_M", 34: "TQ1_0", 35: "TQ2_0", 39: "MXFP4", 40: "NVFP4", 41: "Q1_0",
}  # fmt: skip
"""Names of quantized types."""

_VALUES = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
_TEXT, _ARRAY = 8, 9


class KeyText(str):
    """The value of a key as a string, which is written unchanged to another GGUF file.

    Attributes:
        raw: the type and the bytes of the value.
        is_array: whether the string is only the length of an array.
    """

    __slots__ = ("is_array", "raw")
    raw: bytes
    is_array: bool

    @classmethod
    def of(cls, value: Any, raw: bytes) -> KeyText:
        """Format a value; for None, which stands for an array, the array's length."""
        is_array = value is None
        text = cls(f"array of {struct.unpack_from('<Q', raw, 8)[0]}" if is_array else str(value))
        text.raw, text.is_array = raw, is_array
        return text


class _Reader:
    """Reads numbers and strings of a file in sequence."""

    def __init__(self, file: BinaryIO, size: int, location: Location) -> None:
        self._file, self._location = file, location
        self.bytes_left = size

    def take(self, size: int) -> bytes:
        """Read a number of bytes."""
        content = self._file.read(size) if size <= self.bytes_left else b""
        if len(content) != size:
            raise self._location.error("ends within its header: copy or download it again")
        self.bytes_left -= size
        return content

    def number(self, struct_code: str) -> Any:
        """Return a number."""
        return struct.unpack(f"<{struct_code}", self.take(struct.calcsize(f"<{struct_code}")))[0]

    def text(self) -> str:
        """Read a string."""
        size = self.number("Q")
        if size > MAX_TEXT:
            raise self._location.error(f"has a string of {size} bytes; the maximum is {MAX_TEXT}")
        return self.take(size).decode("utf-8", "replace")

    def value(self, value_type: int, depth: int = 0) -> Any:
        """Return the value of a key; None for an array, which is skipped."""
        if value_type == _TEXT:
            return self.text()
        if value_type == _ARRAY and depth < MAX_DEPTH:
            inner, count = self.number("I"), self.number("Q")
            if inner in _VALUES:
                self.skip(count * struct.calcsize(f"<{_VALUES[inner]}"))
            else:
                for _ in range(min(count, self.bytes_left)):
                    self.value(inner, depth + 1)
            return None
        if value_type not in _VALUES:
            raise self._location.error(
                f"has a value of the unknown type {value_type}: the file is damaged, or newer than this version of "
                "anydml"
            )
        return self.number(_VALUES[value_type])

    def skip(self, size: int) -> None:
        """Skip bytes."""
        if size > self.bytes_left:
            raise self._location.error("ends within its header: copy or download it again")
        self._file.seek(size, 1)
        self.bytes_left -= size


def read_gguf(path: Path, location: Location) -> FileContent:
    """Read the header of a GGUF file: its tensors, and its keys.

    Raises:
        ModelError: the file is broken.
    """
    size = path.stat().st_size
    with path.open("rb") as file:
        reader = _Reader(file, size, location)
        magic, version = reader.take(4), reader.number("I")
        if magic != b"GGUF" or version not in (2, 3):
            raise location.error("is not a GGUF file of version 2 or 3 in little-endian order")
        tensors, keys = reader.number("Q"), reader.number("Q")
        if tensors > MAX_TENSORS or keys > MAX_KEYS:
            raise location.error(f"says that it has {tensors} tensors and {keys} keys: too many")
        metadata, texts = dict[str, Any](), dict[str, str]()
        for _ in range(keys):
            key = reader.text()
            if key in metadata:
                raise location.error(f"has the key {show(key)} twice")
            first = file.tell()
            value = metadata[key] = reader.value(reader.number("I"))
            length = file.tell() - first
            if length > MAX_VALUE:
                raise (location / key).error(f"has {length} bytes; the maximum is {MAX_VALUE}")
            file.seek(first)
            texts[key] = KeyText.of(value, file.read(length))
        descriptions = []
        for _ in range(tensors):
            name = reader.text()
            rank = reader.number("I")
            if rank > MAX_DIMENSIONS:
                raise (location / name).error(f"has {rank} dimensions; the maximum is {MAX_DIMENSIONS}")
            shape = tuple(reader.number("Q") for _ in range(rank))[::-1]
            descriptions.append((name, shape, reader.number("I"), reader.number("Q")))
        alignment = metadata.get("general.alignment", ALIGNMENT)
        if type(alignment) is not int or not 0 < alignment <= 1 << 20 or alignment & (alignment - 1):
            raise (location / "general.alignment").error(f"must be a power of two, not {show(alignment)}")
        start = -(-(size - reader.bytes_left) // alignment) * alignment
    stores, refused = _stores(path, descriptions, start, alignment, size, location)
    return FileContent(stores, texts, refused=refused)


def _stores(
    path: Path,
    descriptions: Sequence[tuple[str, tuple[int, ...], int, int]],
    start: int,
    alignment: int,
    size: int,
    location: Location,
) -> tuple[dict[str, Store], dict[str, ModelError]]:
    """Return the tensors, and errors for tensors of unknown types, by name, from names, shapes, types and offsets."""
    stores, refused, ends = dict[str, Store](), dict[str, ModelError](), list[tuple[int, int, str]]()
    for name, shape, tensor_type, offset in descriptions:
        if name in stores or name in refused:
            raise location.error(f"has {show(name)} twice")
        try:
            sizes, dtype = _kind(shape, tensor_type, location / name)
        except ModelError as error:
            refused[name] = error
            continue
        end = start + offset + math.prod(sizes) * dtype.itemsize
        if end >= 1 << 63 or max(shape, default=0) >= 1 << 48:
            raise (location / name).error(f"has shape {[*shape]} at {offset}, which no file can hold")
        if offset % alignment:
            raise (location / name).error(
                f"begins at byte {offset}, which is not a multiple of the alignment, {alignment}"
            )
        ends.append((start + offset, end, name))
        stores[name] = Store(path, name, sizes, dtype, start + offset)
    ends.sort()
    for (_, end, _), (first, _, name) in pairwise(ends):
        if first < end:
            raise (location / name).error("overlaps the tensor before it")
    if ends and (end := ends[-1][1]) > size:
        raise location.error(f"is cut off after {size} bytes: {missing_bytes(end - size)}")
    # Writers pad the last tensor, too. The ends of tensors of unknown types are unknown.
    if ends and not refused and size > (max_size := start + -(-(end - start) // alignment) * alignment):
        raise location.error(
            f"has {count_noun(size - max_size, 'byte')} behind its last tensor, which its header does not name"
        )
    return stores, refused


def _kind(shape: tuple[int, ...], tensor_type: int, location: Location) -> tuple[tuple[int, ...], np.dtype[Any]]:
    """Return the shape and dtype of a type, perhaps in blocks.

    Raises:
        ModelError: the type is not known, or rows are not whole blocks.
    """
    if tensor_type in TYPES:
        return shape, TYPES[tensor_type]
    if tensor_type not in QUANTIZED:
        raise location.error(f"is of the unknown type {tensor_type}")
    return shape_in_blocks(QUANTIZED[tensor_type], shape, location), DTYPES_OF_BLOCKS[QUANTIZED[tensor_type]]


def with_file_type(metadata: Mapping[str, str], dtype: np.dtype[Any] | None) -> dict[str, str]:
    """Return the keys of a file whose unquantized tensors are cast to a dtype; None for no cast.

    The key with the dtype of most tensors, if that is unquantized, gets the new dtype, or is left out.
    """
    new_metadata = {**metadata}
    old = {f"{file_type}" for file_type in FILE_TYPES.values()}
    if dtype is not None and new_metadata.get(FILE_TYPE) in old:
        del new_metadata[FILE_TYPE]
        if (file_type := FILE_TYPES.get(NAMES.get(dtype, ""))) is not None:
            new_metadata[FILE_TYPE] = KeyText.of(file_type, struct.pack("<II", 4, file_type))
    return new_metadata


def make_gguf_header(
    tensors: FileTensors, metadata: Mapping[str, str], location: Location
) -> tuple[bytes, Numbers, int]:
    """Return the header of a new file, like `make_header` for safetensors files.

    Raises:
        ModelError: the format does not support the dtype or the number of dimensions, or a name or key is too long.
    """
    type_numbers = {dtype: tensor_type for tensor_type, dtype in TYPES.items()}
    type_numbers |= {DTYPES_OF_BLOCKS[name]: tensor_type for tensor_type, name in QUANTIZED.items()}
    descriptions, relative, end = list[bytes](), list[int](), 0
    for name, (shape, dtype) in tensors.items():
        if dtype not in type_numbers:
            raise (location / name).error(not_of_format(dtype, "GGUF", map(str, TYPES.values())))
        if not 0 < len(shape) <= MAX_DIMENSIONS:
            raise (location / name).error(
                f"has shape {[*shape]}; GGUF has 1 to {MAX_DIMENSIONS} dimensions: flatten it by a layout, or leave it "
                "out by --drop (drop=)"
            )
        if (length := len(name.encode())) > MAX_NAME:
            raise (location / name).error(
                f"has a name of {length} bytes; GGUF's readers take {MAX_NAME} at most: rename it by a layout"
            )
        end = -(-end // ALIGNMENT) * ALIGNMENT
        relative.append(end)
        descriptions.append(
            _encode_text(name)
            + struct.pack(
                f"<I{len(shape)}QIQ", len(shape), *shape_in_elements(shape, dtype)[::-1], type_numbers[dtype], end
            )
        )
        end += math.prod(shape) * dtype.itemsize
    if wrong := [key for key in metadata if not key.isascii() or len(key) > MAX_KEY]:
        raise location.error(f"cannot have the key {show(wrong[0])}: GGUF has ASCII of at most {MAX_KEY} bytes")
    new_metadata = {key: value for key, value in metadata.items() if key != "general.alignment"}
    keys = [
        _encode_text(key)
        + (value.raw if isinstance(value, KeyText) else struct.pack("<I", _TEXT) + _encode_text(value))
        for key, value in new_metadata.items()
    ]
    header = b"".join([b"GGUF", struct.pack("<I2Q", 3, len(relative), len(keys)), *keys, *descriptions])
    start = -(-len(header) // ALIGNMENT) * ALIGNMENT
    return header.ljust(start, b"\0"), start + np.array(relative, np.int64), start + end


def _encode_text(text: str) -> bytes:
    content = text.encode()
    return struct.pack("<Q", len(content)) + content
