"""Headers of safetensors files: read without believing them, and written.

A file is 8 bytes with the header's length N (little-endian), N bytes of JSON, and the tensors, one after the other
without gaps. The document: https://github.com/huggingface/safetensors, "Format".
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from anydml.errors import ModelError
from anydml.files.json_path import JsonPath, show
from anydml.stores.dtypes import DTYPES, NAMES, PARTS_OF_BYTES

MOST_HEADER = 100_000_000
"""Bytes of a header, as the safetensors library has it."""

MOST_DIMENSIONS = 64
"""NumPy's."""

METADATA = "__metadata__"


@dataclass(frozen=True, slots=True)
class Entry:
    """What a header says of a tensor.

    Attributes:
        offset: bytes from the file's beginning to the first element.
    """

    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    offset: int

    @property
    def byte_count(self) -> int:
        """Bytes of the elements."""
        return math.prod(self.shape) * self.dtype.itemsize


@dataclass(frozen=True, slots=True)
class Header:
    """A header that agrees with its file.

    Attributes:
        entries: tensors by name, in the order of the file's bytes.
        metadata: texts by name.
    """

    entries: Mapping[str, Entry]
    metadata: Mapping[str, str]


def read_header(path: Path, place: JsonPath) -> Header:
    """Read and check the header of a safetensors file; the tensors are not read.

    Raises:
        ModelError: the file cannot be read, the header is no JSON of the format, or tensors overlap, leave holes, or
            do not end with the file.
    """
    try:
        with path.open("rb") as file:
            size = file.seek(0, 2)
            file.seek(0)
            length = int.from_bytes(file.read(8), "little")
            if not size:
                raise place.error("is no safetensors file: it is empty")
            if size < 8 or length > size - 8:
                raise place.error(f"is no safetensors file: {size} bytes cannot hold a header of {length}")
            if length > MOST_HEADER:
                raise place.error(f"has a header of {length} bytes; {MOST_HEADER} are the most")
            text = file.read(length)
    except OSError as error:
        raise place.error(f"cannot be read: {error.strerror or error}") from None
    content = parse_json(text, place, "header")
    if not isinstance(content, dict):
        raise place.error(f"has a header that is {show(content)}, where an object is expected")
    metadata = _metadata(content.pop(METADATA, {}), place / METADATA)
    return Header(_entries(content, 8 + length, size, place), metadata)


def parse_json(text: bytes, place: JsonPath, what: str) -> Any:
    """JSON in UTF-8 in which no object has a name twice.

    Raises:
        ModelError: it is none, or too deep.
    """

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) != len(pairs):
            seen: set[str] = set()
            twice = next(key for key, _ in pairs if key in seen or seen.add(key))  # type: ignore[func-returns-value]
            raise place.error(f"has {show(twice)} twice in its {what}")
        return found

    try:
        return json.loads(text.decode("utf-8"), object_pairs_hook=unique)
    except ModelError:
        raise
    except RecursionError:
        raise place.error(f"has a {what} that is nested too deep") from None
    except UnicodeDecodeError as error:
        raise place.error(f"has a {what} that is not UTF-8 at byte {error.start}") from None
    except json.JSONDecodeError as error:
        raise place.error(
            f"has a {what} that is no JSON: {error.msg.removesuffix(' starting at')} at character {error.pos}"
        ) from None
    except ValueError:
        raise place.error(f"has a {what} with a number of too many digits") from None


def _metadata(given: Any, place: JsonPath) -> dict[str, str]:
    if not isinstance(given, dict):
        raise place.error(f"is {show(given)}, where an object is expected")
    for key, value in given.items():
        if not isinstance(value, str):
            raise (place / key).error(f"is {show(value)}, where a text is expected")
    return given


def _entries(content: dict[str, Any], start: int, size: int, place: JsonPath) -> dict[str, Entry]:
    found: dict[str, tuple[Entry, int]] = {}
    for name, said in content.items():
        found[name] = _entry(said, start, size, place / name)
    ordered = sorted(found.items(), key=lambda item: (item[1][0].offset, item[1][1]))
    end = start
    for name, (entry, entry_end) in ordered:
        if entry.offset != end:
            what = "overlaps the tensor before it" if entry.offset < end else "leaves a hole before it"
            raise (place / name).error(f"begins at byte {entry.offset - start}, which {what}: {end - start} is next")
        end = entry_end
    if end != size:
        raise place.error(f"has {size - start} bytes of tensors, but its header speaks of {end - start}")
    return {name: entry for name, (entry, _) in ordered}


def _entry(said: Any, start: int, size: int, place: JsonPath) -> tuple[Entry, int]:
    """An entry, and where its bytes end."""
    if not isinstance(said, dict):
        raise place.error(f"is {show(said)}, where an object is expected")
    for key in ("dtype", "shape", "data_offsets"):
        if key not in said:
            raise place.error(f"has no {key}")
    dtype = _dtype(said["dtype"], place)
    shape, offsets = (_sizes(said[key], place, key) for key in ("shape", "data_offsets"))
    if len(offsets) != 2 or not offsets[0] <= offsets[1] <= size - start:
        raise (place / "data_offsets").error(f"are {show(said['data_offsets'])} {list(offsets[:4])}, where two rising "
                                             f"numbers up to {size - start} are expected")  # fmt: skip
    entry = Entry(dtype, shape, start + offsets[0])
    # Dimension by dimension, as many large numbers make a product that nobody has the time for.
    elements = 0 if 0 in shape else 1
    for extent in shape:
        elements *= extent
        if elements > size:
            break
    if elements * dtype.itemsize != offsets[1] - offsets[0]:
        raise place.error(
            f"has {offsets[1] - offsets[0]} bytes, which do not fit shape {list(shape)} of {NAMES[dtype]}"
        )
    return entry, start + offsets[1]


def _dtype(name: Any, place: JsonPath) -> np.dtype[Any]:
    if not isinstance(name, str) or name not in DTYPES:
        if isinstance(name, str) and name in PARTS_OF_BYTES:
            raise (place / "dtype").error(
                f"is {name}, whose elements have {PARTS_OF_BYTES[name]} bits; whole bytes can be moved"
            )
        raise (place / "dtype").error(f"is {show(name)}, where one of {', '.join(DTYPES)} is expected")
    return DTYPES[name]


def _sizes(given: Any, place: JsonPath, key: str) -> tuple[int, ...]:
    if not isinstance(given, list) or len(given) > MOST_DIMENSIONS:
        raise (place / key).error(f"is {show(given)}, where an array of at most {MOST_DIMENSIONS} is expected")
    for number, value in enumerate(given):
        if type(value) is not int or not 0 <= value < 1 << 63:
            raise (place / key / number).error(f"is {show(value)}, where an integer from 0 is expected")
    return tuple(given)


def make_header(
    tensors: Mapping[str, tuple[tuple[int, ...], np.dtype[Any]]], metadata: Mapping[str, str]
) -> tuple[bytes, dict[str, int], int]:
    """The header for a new file.

    Tensors lie in the order in which they are given, those of larger elements first, so that all are aligned.

    Args:
        tensors: shape and dtype by name; dtypes are values of `DTYPES`.
        metadata: texts by name.

    Returns:
        The bytes before the tensors, where each tensor begins, and the file's size; all counted from its beginning.
    """
    content: dict[str, Any] = {METADATA: dict(metadata)} if metadata else {}
    relative, end = {}, 0
    for name, (shape, dtype) in sorted(tensors.items(), key=lambda item: -item[1][1].itemsize):
        size = math.prod(shape) * dtype.itemsize
        content[name] = {"dtype": NAMES[dtype], "shape": list(shape), "data_offsets": [end, end + size]}
        relative[name] = end
        end += size
    text = json.dumps(content, ensure_ascii=False, separators=(",", ":")).encode("utf-8")
    text += b" " * (-len(text) % 8)
    start = 8 + len(text)
    return len(text).to_bytes(8, "little") + text, {name: start + at for name, at in relative.items()}, start + end
