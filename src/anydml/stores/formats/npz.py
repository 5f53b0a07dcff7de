"""Zip files, and ``.npz`` files, whose entries are arrays, compressed or not."""

from __future__ import annotations

import io
import struct
import zipfile
from pathlib import Path
from typing import BinaryIO, NamedTuple

from anydml.errors import ModelError
from anydml.files import npy
from anydml.files.location import Location, show
from anydml.stores.formats.packed import DeflatedEntry
from anydml.stores.formats.store import FileContent, Store, reader_of

_LOCAL = struct.Struct("<4s22xHH")
"""The header before an entry: its signature, and the sizes of the name and of the extra field after it."""

MAX_ENTRIES = 1 << 20


class ZipEntry(NamedTuple):
    """An entry of a zip file.

    Attributes:
        offset: the offset of its content in the file, or, if that is compressed, 0.
        size: the size of its content, in bytes.
        packed: unpacks the content; None if it is not compressed.
    """

    offset: int
    size: int
    packed: DeflatedEntry | None = None


class FileSection(io.RawIOBase):
    """A part of a file, as a file."""

    def __init__(self, file: BinaryIO, start: int, size: int) -> None:
        self._file, self._start, self._size, self._at = file, start, size, 0

    def seekable(self) -> bool:
        """Return True."""
        return True

    def readable(self) -> bool:
        """Return True."""
        return True

    def tell(self) -> int:
        """Return the position in the part."""
        return self._at

    def seek(self, offset: int, whence: int = 0) -> int:
        """Set the position in the part."""
        self._at = max(0, offset + (0, self._at, self._size)[whence])
        return self._at

    def read(self, size: int | None = -1) -> bytes:
        """Return the next bytes."""
        remaining = max(0, self._size - self._at)
        self._file.seek(self._start + self._at)
        content = self._file.read(remaining if size is None or size < 0 else min(size, remaining))
        self._at += len(content)
        return content


def entries(
    path: Path, location: Location, start: int = 0, length: int | None = None, may_be_packed: bool = False
) -> dict[str, ZipEntry]:
    """Return the entries of a zip file, by name.

    Args:
        path: the zip file, or a file that contains one.
        location: the location that errors name.
        start: offset of the zip file in that file.
        length: the size of the file in bytes; None if it extends to the end of the file.
        may_be_packed: whether entries may be compressed.

    Raises:
        ModelError: the file is not a zip file, is broken, or has an entry with encryption or unsupported compression.
    """
    with location.reading():
        return _entries(path, location, start, length, may_be_packed)


def _entries(
    path: Path, location: Location, start: int, length: int | None, may_be_packed: bool
) -> dict[str, ZipEntry]:
    entries: dict[str, ZipEntry] = {}
    try:
        size = path.stat().st_size - start if length is None else length
        with path.open("rb") as outer, zipfile.ZipFile(file := FileSection(outer, start, size)) as archive:
            infos = archive.infolist()
            if len(infos) > MAX_ENTRIES:
                raise location.error(f"has {len(infos)} entries; the maximum is {MAX_ENTRIES}")
            for entry in infos:
                # Not by is_dir(), which fails for an empty name.
                if entry.filename.endswith("/"):
                    continue
                if "/code/__torch__" in entry.filename:
                    raise location.error(
                        "is a model of TorchScript: save the state_dict() of torch.jit.load(…) instead"
                    )
                is_packed = may_be_packed and entry.compress_type == zipfile.ZIP_DEFLATED
                if not (is_packed or entry.compress_type == zipfile.ZIP_STORED) or entry.flag_bits & 1:
                    how = "encrypted, or compressed in another way than by deflate" if may_be_packed else (
                        "compressed or encrypted")  # fmt: skip
                    raise location.error(
                        f"has {show(entry.filename)}, which is {how}: write it again without compression"
                    )
                file.seek(entry.header_offset)
                local = file.read(_LOCAL.size)
                if entry.filename in entries:
                    raise location.error(f"has two entries named {show(entry.filename)}")
                if len(local) < _LOCAL.size or local[:4] != b"PK\x03\x04":
                    at = f"byte {entry.header_offset}, where no entry begins"
                    raise location.error(f"lists {show(entry.filename)} at {at}")
                _, name, extra = _LOCAL.unpack(local)
                offset = entry.header_offset + _LOCAL.size + name + extra
                if (not is_packed and entry.file_size != entry.compress_size) or offset + entry.compress_size > size:
                    raise location.error(f"has {show(entry.filename)}, which is longer than the file")
                if is_packed:
                    extent = start + offset, entry.compress_size, entry.file_size, entry.CRC
                    entries[entry.filename] = ZipEntry(0, entry.file_size, DeflatedEntry(path, entry.filename, *extent))
                else:
                    entries[entry.filename] = ZipEntry(start + offset, entry.file_size)
    except ModelError:
        raise
    except (zipfile.BadZipFile, NotImplementedError, struct.error, ValueError, OverflowError) as error:
        raise location.error(f"is not a zip file that can be read: {str(error)[:200]}") from None
    return entries


def npz_array(path: Path) -> tuple[Path, str] | None:
    """Return the .npz file and the array's name that a path such as ``x.npz/a`` consists of; None for other paths."""
    files = (parent for parent in path.parents if parent.suffix.lower() == ".npz" and parent.is_file())
    file = next(files, None)
    return None if file is None else (file, path.relative_to(file).as_posix())


def read_npz(path: Path, location: Location) -> FileContent:
    """Return the arrays of a .npz file; arrays of Python objects and of records are refused one by one.

    Raises:
        ModelError: the file is broken, or its compression is not NumPy's.
    """
    stores, refused = dict[str, Store](), dict[str, ModelError]()
    for name, entry in entries(path, location, may_be_packed=True).items():
        if not name.endswith(".npy"):
            raise (location / name).error("is not a .npy file, but every entry of a .npz file must be one")
        first = None
        if entry.packed is not None:
            first = bytearray(min(entry.size, npy.MAX_START))
            with path.open("rb") as file:
                entry.packed.fill(memoryview(first), 0, reader_of(file))
        tensor_name = name.removesuffix(".npy")
        try:
            header = npy.read_header(path, location / name, entry.offset, entry.size, first)
        except ModelError as error:
            if error.rule != npy.ELEMENTS:
                raise
            refused[tensor_name] = error
            continue
        stores[tensor_name] = store = Store(path, tensor_name, header.shape, header.dtype, header.offset, header.order)
        if entry.packed is not None:
            store.stored, store.packed = header.dtype, entry.packed
    return FileContent(stores, {}, refused=refused)
