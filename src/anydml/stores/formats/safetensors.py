"""Safetensors files: data types, and headers, which are written, and read without being trusted.

A file is 8 bytes with the header's length N (little-endian), N bytes of JSON, and the tensors, without gaps.
The document: https://github.com/huggingface/safetensors, "Format".
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from operator import itemgetter
from pathlib import Path
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np

from anydml.errors import ModelError
from anydml.files.location import Location, show
from anydml.stores.formats.block_types import blocks_of
from anydml.stores.formats.store import FileContent, Store
from anydml.text import missing_bytes

DTYPES: Mapping[str, np.dtype[Any]] = {
    "BOOL": np.dtype("?"),
    "U8": np.dtype("u1"),
    "I8": np.dtype("i1"),
    "F8_E5M2": np.dtype(ml_dtypes.float8_e5m2),
    "F8_E4M3": np.dtype(ml_dtypes.float8_e4m3fn),
    "F8_E8M0": np.dtype(ml_dtypes.float8_e8m0fnu),
    "F8_E4M3FNUZ": np.dtype(ml_dtypes.float8_e4m3fnuz),
    "F8_E5M2FNUZ": np.dtype(ml_dtypes.float8_e5m2fnuz),
    "I16": np.dtype("<i2"),
    "U16": np.dtype("<u2"),
    "F16": np.dtype("<f2"),
    "BF16": np.dtype(ml_dtypes.bfloat16),
    "I32": np.dtype("<i4"),
    "U32": np.dtype("<u4"),
    "F32": np.dtype("<f4"),
    "I64": np.dtype("<i8"),
    "U64": np.dtype("<u8"),
    "F64": np.dtype("<f8"),
    "C64": np.dtype("<c8"),
}
"""Data types by the format's names; elements are little-endian."""

NAMES = {dtype: name for name, dtype in DTYPES.items()}

PARTS_OF_BYTES = {"F4": 4, "F6_E2M3": 6, "F6_E3M2": 6}
"""Bits per element of types whose elements are not whole bytes."""


def is_numpy_dtype(dtype: np.dtype[Any]) -> bool:
    """Whether a dtype is NumPy's own, so that a .npy file can store it."""
    return dtype.isbuiltin != 2 and not dtype.hasobject and dtype.names is None and dtype.subdtype is None


MAX_HEADER = 100_000_000
"""Maximum size in bytes of a header, as in the safetensors library."""

MAX_DIMENSIONS = 64
"""NumPy's."""

METADATA = "__metadata__"
"""Name of the object of a header that holds metadata."""

ENTRY = ("dtype", "shape", "data_offsets")
"""Names of the fields of a tensor's object, in the usual order."""


def read_safetensors(path: Path, location: Location) -> FileContent:
    """Read the header of a safetensors file: its tensors, in file order, and its metadata.

    Raises:
        ModelError: the file cannot be read, the header is not JSON of the format, or tensors overlap, leave gaps, or
            do not end with the file.
    """
    with location.reading(), path.open("rb") as file:
        size = file.seek(0, 2)
        file.seek(0)
        length = int.from_bytes(file.read(8), "little")
        if not size:
            raise location.error("is not a safetensors file: it is empty")
        if size < 8 or (length > size - 8 and (length > MAX_HEADER or file.read(1) not in (b"", b"{"))):
            raise location.error(f"is not a safetensors file: {size} bytes cannot hold a header of {length}")
        if length > size - 8:
            raise location.error(f"is cut off within its header, of which {missing_bytes(length - size + 8)}")
        if length > MAX_HEADER:
            raise location.error(f"has a header of {length} bytes, but the maximum is {MAX_HEADER}")
        text = file.read(length)

    def refuse(constant: str) -> None:
        raise location.error(f"has a header that is not JSON: it says {constant}")

    content = parse_json(text, location, "header", _compact(), refuse)
    del text
    content = content.pairs if isinstance(content, _Entry) else content
    if not isinstance(content, tuple):
        raise location.error(f"has a header that is not an object, but {show(content)}")
    try:
        entries = unique(content, location, "header")
        metadata_entry = entries.pop(METADATA, None)
        # As in the safetensors library, null means no metadata.
        metadata = {} if metadata_entry is None else _metadata(_plain(metadata_entry, location), location / METADATA)
        stores, refused = _stores(path, entries, 8 + length, size, location)
        further = (
            (name, key)
            for name, metadata_entry in entries.items()
            if len(metadata_entry) > len(ENTRY)
            for key, _ in metadata_entry
        )
        return FileContent(stores, metadata, [f"{name}.{key}" for name, key in further if key not in ENTRY], refused)
    except RecursionError:
        raise location.error("has a header that is nested too deep") from None


class _Entry(NamedTuple):
    """The entry of a tensor in the header, with its fields in order.

    Attributes:
        kind: dtype, shape, and the JSON of both, which equal entries share.
        first: offset of the first byte.
        last: offset after the last byte.
    """

    kind: tuple[Any, Any, str]
    first: int
    last: int

    @property
    def pairs(self) -> tuple[tuple[str, Any], ...]:
        """Names and values of the object."""
        dtype, shape, _ = self.kind
        return tuple(zip(ENTRY, (dtype, shape, [self.first, self.last]), strict=True))


def _compact() -> Callable[[Sequence[tuple[str, Any]]], tuple[Any, ...]]:
    """Return a hook that parses a header's entries to `_Entry` and other JSON objects to tuples, to save memory."""
    kinds: dict[str, tuple[Any, Any, str]] = {}

    def fields_of_pairs(pairs: Sequence[tuple[str, Any]]) -> tuple[Any, ...]:
        try:
            (first_key, dtype), (two, shape), (three, (first, last)) = pairs
        except (TypeError, ValueError):
            return tuple(pairs)
        if (first_key, two, three) != ENTRY or type(dtype) is not str or type(shape) is not list:
            return tuple(pairs)
        if any(type(number) is not int for number in (first, last, *shape)):
            return tuple(pairs)
        key = f"{dtype!r} {shape!r}"
        return _Entry(kinds.setdefault(key, (dtype, shape, key)), first, last)

    return fields_of_pairs


def parse_json(
    text: bytes,
    location: Location,
    noun: str,
    made_of: Callable[[Sequence[tuple[str, Any]]], Any] | None = None,
    constant: Callable[[str], Any] | None = None,
) -> Any:
    """Parse JSON in UTF-8.

    Args:
        text: the JSON.
        location: the place in errors.
        noun: a noun for it, for errors.
        made_of: converts the names and values of each object; by default `unique`, which returns a dict.
        constant: converts NaN, Infinity and -Infinity, which only Python's JSON has; by default to a float.

    Raises:
        ModelError: the text is not JSON, an object repeats a name, it is nested too deep, or it has half a
            surrogate pair, which is not a character and cannot be written.
    """
    hook = made_of or (lambda pairs: unique(pairs, location, noun))
    try:
        document = json.loads(text.decode("utf-8"), object_pairs_hook=hook, parse_constant=constant)
        if b"\\u" in text:
            json.dumps(document, ensure_ascii=False).encode()
    except ModelError:
        raise
    except RecursionError:
        raise location.error(f"has a {noun} that is nested too deep") from None
    except UnicodeEncodeError as error:
        half = f"\\u{ord(error.object[error.start]):04x}"
        raise location.error(f"has a {noun} with {half} alone, which is not a character") from None
    except UnicodeDecodeError as error:
        raise location.error(f"has a {noun} that is not UTF-8 at byte {error.start}") from None
    except json.JSONDecodeError as error:
        message = f"is not JSON: {error.msg.removesuffix(' starting at')} at character {error.pos}"
        raise location.error(message if noun == "text" else f"has a {noun} that {message}") from None
    except ValueError:
        raise location.error(f"has a {noun} with a number of too many digits") from None
    return document


def unique(pairs: Sequence[tuple[str, Any]], location: Location, noun: str) -> dict[str, Any]:
    """Return an object of JSON.

    Raises:
        ModelError: a name is repeated.
    """
    mapping = dict(pairs)
    if len(mapping) != len(pairs):
        earlier_keys: set[str] = set()
        repeated_key = next(key for key, _ in pairs if key in earlier_keys or earlier_keys.add(key))  # type: ignore[func-returns-value]
        raise location.error(f"has {show(repeated_key)} twice in its {noun}")
    return mapping


def _plain(value: Any, location: Location) -> Any:
    """Return a parsed value with dicts in place of tuples of pairs."""
    value = value.pairs if isinstance(value, _Entry) else value
    if isinstance(value, tuple):
        return unique([(name, _plain(inner, location)) for name, inner in value], location, "header")
    return [_plain(inner, location) for inner in value] if isinstance(value, list) else value


def _metadata(metadata: Any, location: Location) -> dict[str, str]:
    if not isinstance(metadata, dict):
        raise location.error(f"must be an object, not {show(metadata)}")
    for key, value in metadata.items():
        if not isinstance(value, str):
            raise (location / key).error(f"must be a string, not {show(value)}")
    return metadata


def _stores(
    path: Path, entries: dict[str, Any], start: int, size: int, location: Location
) -> tuple[dict[str, Store], dict[str, ModelError]]:
    """Return the tensors, and errors for tensors whose elements are not whole bytes, by name."""
    kinds: dict[str, tuple[np.dtype[Any] | None, str, tuple[int, ...], int]] = {}
    rows = []
    for name, entry in entries.items():
        (dtype, shape, key), first, last = entry if isinstance(entry, _Entry) else _fields(entry, location, name)
        if (kind := kinds.get(key)) is None:
            kind = kinds[key] = _kind(_plain(dtype, location), _plain(shape, location), location / name)
        rows.append((first, last, name, kind))
    rows.sort(key=itemgetter(0, 1))
    stores, refused, end = dict[str, Store](), dict[str, ModelError](), 0
    for first, last, name, (dtype, said_dtype, shape, count) in rows:
        if not 0 <= first <= last:
            raise _not_rising([first, last], location / name)
        if last - first != count:
            raise (location / name).error(
                f"has {last - first} bytes, which do not fit shape {list(shape)} of {said_dtype}"
            )
        if first != end:
            reason = "overlaps the tensor before it" if first < end else "leaves a hole before it"
            raise (location / name).error(f"begins at byte {first}, which {reason}: {end} is next")
        end = last
        if dtype is not None:
            stores[name] = Store(path, name, shape, dtype, start + first)
            continue
        try:
            stores[name] = Store(path, name, *blocks_of(said_dtype, shape, location / name), start + first)
        except ModelError as error:
            refused[name] = error
    if start + end > size:
        raise location.error(f"is cut off after {size} bytes: {missing_bytes(start + end - size)}")
    if start + end < size:
        raise location.error(
            f"has {size - start} bytes of tensors, but its header lists {end}; copy or download it again"
        )
    return stores, refused


def _fields(entry: Any, location: Location, name: str) -> _Entry:
    """Return the entry of an object with further fields, or with its fields in another order."""
    fields = _plain(entry, location)
    # Like the safetensors library, ignore keys that are not in the format.
    ends = fields.get("data_offsets") if isinstance(fields, dict) and {*fields} >= {*ENTRY} else None
    if not isinstance(ends, list) or len(ends) != 2 or any(type(number) is not int for number in ends):
        raise _incomplete_error(fields, location / name)
    dtype, shape = fields["dtype"], fields["shape"]
    # The text is compared, because equal values, such as true and 1, may not both be valid.
    return _Entry((dtype, shape, f"{dtype!r} {shape!r}"), *ends)


def _incomplete_error(entry: Any, location: Location) -> ModelError:
    """Return the error of an incomplete entry."""
    if not isinstance(entry, dict):
        return location.error(f"must be an object, not {show(entry)}")
    if missing := [key for key in ENTRY if key not in entry]:
        return location.error(f"has no {missing[0]}")
    return _not_rising(entry["data_offsets"], location)


def _not_rising(offsets: Any, location: Location) -> ModelError:
    is_pair = isinstance(offsets, list) and len(offsets) == 2
    shown = f"{show(offsets[0])} and {show(offsets[1])}" if is_pair else show(offsets)
    return (location / "data_offsets").error(f"must be two integers from 0 in ascending order, not {shown}")


def _kind(name: Any, sizes: Any, location: Location) -> tuple[np.dtype[Any] | None, str, tuple[int, ...], int]:
    """Return an entry's dtype, its name, the shape and the bytes, which fit 64 bits, as in the safetensors library.

    The dtype is None if elements are not whole bytes.
    """
    if not isinstance(name, str) or (name not in DTYPES and name not in PARTS_OF_BYTES):
        raise (location / "dtype").error(f"must be one of {', '.join(DTYPES)}, not {show(name)}")
    dtype, shape = DTYPES.get(name), _sizes(sizes, location / "shape")
    count = PARTS_OF_BYTES[name] if dtype is None else dtype.itemsize * 8
    for extent in shape:
        count *= extent
        if count >= 1 << 67:
            raise (location / "shape").error(f"is {show(sizes)}, whose bytes 64 bits cannot count")
    if count % 8:
        raise (location / "shape").error(f"is {show(sizes)}, whose elements of {name} are not whole bytes")
    return dtype, name, shape, count // 8


def _sizes(sizes: Any, location: Location) -> tuple[int, ...]:
    if not isinstance(sizes, list) or len(sizes) > MAX_DIMENSIONS:
        raise location.error(f"must be an array of at most {MAX_DIMENSIONS} sizes, not {show(sizes)}")
    for axis, value in enumerate(sizes):
        if type(value) is not int or not 0 <= value < 1 << 63:
            raise (location / axis).error(f"must be an integer from 0, not {show(value)}")
    return tuple(sizes)
