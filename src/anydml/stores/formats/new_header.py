"""Headers of new safetensors files; their bytes are generated when they are written."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from json.encoder import encode_basestring

import numpy as np

from anydml.files.location import Location
from anydml.stores.formats.block_types import name_of, not_of_format, shape_in_elements
from anydml.stores.formats.columns import FileTensors, TensorNames, digits_of, escape_json
from anydml.stores.formats.safetensors import MAX_HEADER, METADATA, NAMES, PARTS_OF_BYTES
from anydml.stores.formats.store import PAGE, Numbers

_encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


@dataclass(frozen=True, slots=True, eq=False)
class RankParts:
    """Metadata of a rank's file that describe the parts of its tensors, as JSON.

    Attributes:
        key: the key of the metadata.
        names: the names of all tensors.
        name: the numbers of the names that the rank has.
        intervals: different parts, as JSON, by their numbers.
        part: the number of the part, for each name.
    """

    key: str
    names: TensorNames
    name: Numbers
    intervals: Mapping[int, str]
    part: Numbers

    @property
    def size(self) -> int:
        """The bytes of the text inside a JSON string."""
        counts = np.bincount(self.part, minlength=max(self.intervals, default=0) + 1).tolist()
        length: int = sum(counts[part] * len(escape_json(interval)) for part, interval in self.intervals.items())
        count = self.name.size
        return int(self.names.sizes_inside[self.name].sum()) + length + 4 * count + 2 - 2 * bool(count)

    def text(self) -> str:
        """Return the text inside a JSON string."""
        texts = self.names.texts
        intervals = {part: escape_json(interval) for part, interval in self.intervals.items()}
        pairs = zip(self.name.tolist(), self.part.tolist(), strict=True)
        lines = (f"{escape_json(encode_basestring(texts[name]))}: {intervals[part]}" for name, part in pairs)
        return f"{{{', '.join(lines)}}}"


@dataclass(frozen=True, slots=True, eq=False)
class NewHeader:
    """The header of a new file.

    Attributes:
        tensors: the tensors of the file.
        entries: the header's entry for each kind of tensors in the file, up to the offsets.
        metadata: the metadata of the file, without the parts of a rank and the closing brackets.
        ranks: the parts of a rank.
        length: bytes of the text, with the spaces that follow it.
    """

    tensors: FileTensors
    entries: Sequence[str]
    metadata: str
    ranks: RankParts | None
    length: int

    def make(self) -> bytes:
        """Return the bytes of the header."""
        tensors, entries = self.tensors.of_own_kinds(), self.entries
        names, (order, starts, ends) = tensors.names.texts, _laid_out(tensors)
        columns = (column.tolist() for column in (tensors.name[order], tensors.kind[order], starts, ends))
        lines = [self.metadata + (f'{self.ranks.text()}"' if self.ranks else "") + "}"] if self.metadata else []
        lines += [
            f"{encode_basestring(names[name])}:{entries[kind]}[{start},{end}]}}"
            for name, kind, start, end in zip(*columns, strict=True)
        ]
        text = f"{{{','.join(lines)}}}".encode()
        if not self.length - PAGE < len(text) <= self.length:
            raise AssertionError("a header has another length than was planned")
        return self.length.to_bytes(8, "little") + text.ljust(self.length)


def make_header(
    tensors: FileTensors, metadata: Mapping[str, str], location: Location, ranks: RankParts | None = None
) -> tuple[NewHeader, Numbers, int]:
    """Return the header of a new file.

    Tensors are in the given order, but those with larger elements come first, so that all are aligned.

    Args:
        tensors: the tensors of the file.
        metadata: strings by name.
        location: the location that errors name.
        ranks: the parts of a rank that the tensors are.

    Returns:
        The bytes before the tensors, the offset of each tensor in the file, and the size of the file.

    Raises:
        ModelError: the format has no such dtype or name, or the header would be too long.
    """
    all_tensors, tensors = tensors, tensors.of_own_kinds()
    entries = list[str]()
    for tensor_number, (shape, dtype) in enumerate(tensors.kinds):
        dtype_name = name_of(dtype) if name_of(dtype) in PARTS_OF_BYTES else NAMES.get(dtype)
        if dtype_name is None:
            name = tensors.names.texts[tensors.name[np.flatnonzero(tensors.kind == tensor_number)[0]]]
            raise (location / name).error(not_of_format(dtype, "safetensors", NAMES.values()))
        entries.append(f'{{"dtype":"{dtype_name}","shape":{_encode(shape_in_elements(shape, dtype))},"data_offsets":')
    texts = tensors.names.texts
    if METADATA in texts and texts.index(METADATA) in tensors.name:
        raise location.error(f"cannot have a tensor called {METADATA}")
    encoded = ""
    if metadata or ranks:
        encoded = f"{_encode(METADATA)}:{_encode(dict(metadata))[:-1]}"
        encoded += f'{"," if metadata else ""}{_encode(ranks.key)}:"' if ranks else ""
    order, starts, ends = _laid_out(tensors)
    fixed = np.array([len(entry) for entry in entries], np.int64)
    length = int(tensors.names.sizes[tensors.name].sum() + fixed[tensors.kind].sum())
    length += int(digits_of(starts).sum() + digits_of(ends).sum()) + len(":[,]}") * order.size
    count = order.size
    if encoded:
        length, count = length + len(encoded.encode()) + (ranks.size + 1 if ranks else 0) + 1, count + 1
    length += max(0, count - 1) + len("{}")
    if length > MAX_HEADER - PAGE:
        raise location.error(f"would have a header of {length} bytes; the maximum is {MAX_HEADER}: write several files")
    length += -(8 + length) % PAGE
    offsets = np.empty(order.size, np.int64)
    offsets[order] = 8 + length + starts
    return (
        NewHeader(all_tensors, entries, encoded, ranks, length),
        offsets,
        8 + length + (int(ends[-1]) if ends.size else 0),
    )


def _laid_out(tensors: FileTensors) -> tuple[Numbers, Numbers, Numbers]:
    """Return the order of tensors in the file, and the start and end of each among the elements."""
    units = np.array([dtype.itemsize for _, dtype in tensors.kinds], np.int64)
    order = np.argsort(-units[tensors.kind], kind="stable").astype(np.int32)
    sizes = tensors.bytes_of_kinds[tensors.kind[order]]
    ends = np.cumsum(sizes)
    return order, ends - sizes, ends
