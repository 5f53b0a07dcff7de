"""`open`: arrays and checkpoints by their path."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from anydml.errors import PATH_NOT_FOUND, ModelError, nothing_at
from anydml.files import npy
from anydml.files.addresses import Address
from anydml.files.location import Location, names, show
from anydml.stores.argument_checks import checked
from anydml.stores.formats.completeness import (
    RANK,
    SHARDING,
    check_numbers,
    check_one,
    count_in_name,
    ranks_in_order,
    set_of,
)
from anydml.stores.formats.gguf import read_gguf
from anydml.stores.formats.hdf5 import SUFFIXES as HDF5_SUFFIXES
from anydml.stores.formats.inside_files import PathInFile, locate_inside
from anydml.stores.formats.joined_metadata import JoinedMetadata
from anydml.stores.formats.model_files import BIN_INDEX, INDEX, METADATA, choose_files, file_in_folder
from anydml.stores.formats.n5 import is_n5
from anydml.stores.formats.npz import npz_array, read_npz
from anydml.stores.formats.safetensors import MAX_HEADER, parse_json, read_safetensors
from anydml.stores.formats.store import Checkpoint, FileContent, Store, file_state, uncollected
from anydml.stores.formats.torch_save import read_torch
from anydml.stores.formats.zarr_array import ZarrStore, open_zarr
from anydml.stores.formats.zarr_metadata import is_zarr
from anydml.stores.formats.zip_store import is_zip_store

N5_FOLDER_ERROR = (
    "has attributes.json, as folders of N5 have, but not those of an array, or of a container on this machine, which "
    "are read: name one of these"
)
"""The error message for other folders."""


@checked()
@uncollected()
def open(path: str | os.PathLike[str], follow: bool = True) -> Any:  # read as anydml.stores.open
    """Open arrays in files, reading only their headers.

    Args:
        path: a .npy file; a .safetensors, .npz or .gguf file, or one of ``torch.save`` (.pt, .pth, .bin, .ckpt); an
            index (….safetensors.index.json), a folder with an index or with .safetensors files; or the folder of a
            Zarr array. Zarr arrays and .npy files may lie at an address, such as ``s3://bucket/x.zarr``.
        follow: whether .safetensors files of a folder may be links that lead out of it. Those that an index names
            never may, except for links into the cache of Hugging Face's hub.

    Returns:
        A `Store` for a .npy file, or an array of a .npz file (``x.npz/a``); a `ZarrStore` for a Zarr array; otherwise a
        `Checkpoint`, which maps the names of tensors to `Store` objects.

    Raises:
        ModelError: the path is none of these, cannot be read, or its header or index is broken.

    Examples:
        >>> import numpy as np, tempfile, anydml.stores
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     np.save(f"{folder}/x.npy", np.zeros((2, 3), np.float32))
        ...     x = anydml.stores.open(f"{folder}/x.npy")
        >>> x.shape, x.dtype
        ((2, 3), dtype('float32'))
    """
    located_path = locate_inside("open", path)
    location = Location(str(located_path))
    if isinstance(located_path, Address):
        return _elsewhere(located_path, location)
    try:
        is_folder, is_file = located_path.is_dir(), located_path.is_file()
    except (OSError, ValueError) as error:
        raise location.error(f"is not a path: {error}") from None
    if is_folder:
        return open_zarr(located_path) if is_zarr(located_path) else _folder(located_path, location, follow)
    if not is_file and (of_npz := npz_array(located_path)) is not None:
        return _array_of_npz(*of_npz, location)
    if not is_file:
        raise location.error("is not a file" if located_path.exists() else nothing_at(located_path))
    if located_path.name.lower().endswith(".npy"):
        with location.reading():
            state = file_state(located_path)
        header = npy.read_header(located_path, location)
        return Store(located_path, "", header.shape, header.dtype, header.offset, header.order, seen=state)
    if located_path.suffix.lower() in READERS:
        return opened_file(located_path)
    if located_path.name.endswith((INDEX, BIN_INDEX)):
        return _read_indexed(located_path, location)
    if located_path.name == METADATA:
        raise location.error(_DISTRIBUTED_ERROR)
    raise location.error(
        f"{_NOT_READ}, also in .zip, .json (kerchunk), {', '.join(HDF5_SUFFIXES)}; write it as one of these"
    )


def _elsewhere(path: Address, location: Location) -> Store | ZarrStore | Checkpoint:
    """Open an address."""
    with location.reading():
        if path.suffix.lower() == ".npy" and path.is_file():
            state = file_state(path)
            header = npy.read_header(path, location)
            return Store(path, "", header.shape, header.dtype, header.offset, header.order, seen=state)
        if path.suffix.lower() in READERS and path.is_file():
            return opened_file(path)
        if path.name.endswith((INDEX, BIN_INDEX)) and path.is_file():
            return _read_indexed(path, location)
        if is_zarr(path):
            return open_zarr(path)
        if not isinstance(path, PathInFile) and path.is_dir():
            suffixes = (METADATA, INDEX, BIN_INDEX, *READERS)
            if any(entry.name.lower().endswith(suffixes) for entry in path.iterdir()):
                return _folder(path, location, True)
        if isinstance(path, PathInFile) and (reason := path.references.refused.get(path.key)) is not None:
            raise location.error(f"cannot be read: it {reason}")
        if path.is_file():
            of_others = f"; copy others, such as .zip and {HDF5_SUFFIXES[0]}, to this machine first"
            raise location.error(f"{_NOT_READ}{'' if isinstance(path, PathInFile) else of_others}")
        if (of_npz := npz_array(path)) is not None:
            return _array_of_npz(*of_npz, location)
        if not path.exists():
            raise location.error(PATH_NOT_FOUND)
        if (path / "snapshots").is_dir() and (path / "manifests").is_dir():
            raise location.error(
                "is a repository of Icechunk, which is read on this machine's disks alone: copy it there"
            )
        if (path / "attributes.json").is_file():
            raise location.error(N5_FOLDER_ERROR)
    raise location.error("has no metadata of Zarr: name the folder of an array in it")


def _array_of_npz(file: Path, name: str, location: Location) -> Store:
    arrays = opened_file(file)
    if name not in arrays:
        raise location.error(f"is not an array of the file, which has {names([*arrays])}")
    return arrays[name]


def _folder(path: Path, location: Location, follow: bool) -> Checkpoint:
    index, files = choose_files(path, follow)
    if index is not None:
        checkpoint = _read_indexed(index, Location(str(index)))
        # transformers and diffusers read a file of such a name first.
        for name in ("model.safetensors", index.name.removesuffix(".index.json")):
            if path / name not in checkpoint.file_metadata and (path / name).is_file():
                raise location.error(
                    f"has {show(name)} beside {show(index.name)}, which does not name it: name one of the two"
                )
        return checkpoint
    with location.reading():
        entries = sorted(path.iterdir())
    if not files:
        files = [entry for entry in entries if entry.suffix.lower() == ".gguf" and count_in_name(entry) > 1]
        # Two models, such as two quantizations, are not one checkpoint.
        files = files if len({set_of(file) for file in files}) == 1 else []
    if not files and (path / METADATA).is_file():
        raise location.error(_DISTRIBUTED_ERROR)
    if not files:
        raise location.error(_what_is_in(entries))
    check_numbers(files, location)
    opened = [*map(opened_file, files)]
    if not any(key in checkpoint.metadata for checkpoint in opened for key in (RANK, SHARDING)):
        check_one(files, location)
    merged = join_files(path, opened, location)
    if any(RANK in checkpoint.metadata for checkpoint in opened):
        ranks_in_order(opened, location)
    return merged


_DISTRIBUTED_ERROR = "is a distributed checkpoint of PyTorch's: anydml reshard makes whole tensors of it"


def _what_is_in(entries: Sequence[Path]) -> str:
    """Return the error for a folder that cannot be opened: it says what the folder holds, and what to do."""
    if not entries:
        return "is an empty folder: name a file, or a folder with files"
    folder_names = {entry.name for entry in entries if entry.is_dir()}
    if (entries[0].parent / "attributes.json").is_file():
        return N5_FOLDER_ERROR
    if {"blobs", "snapshots"} <= folder_names:
        snapshots = names(sorted(entry.name for entry in (entries[0].parent / "snapshots").iterdir()))
        return f"is a model in the cache of Hugging Face's hub: name one of its snapshots/, {snapshots}"
    if any(entry.name == ".zmetadata" for entry in entries):
        return "has .zmetadata alone, as references of kerchunk in Parquet, which are not read: write them as JSON"
    readable = [entry.name for entry in entries if entry.suffix.lower() in (".npy", *READERS) and entry.is_file()]
    readable += [entry.name for entry in entries if entry.suffix.lower() == ".zip" and is_zip_store(entry)]
    folders = {name: entries[0].parent / name for name in sorted(folder_names)}
    readable += [name for name, folder in folders.items() if is_zarr(folder) or is_n5(folder) or _has_tensors(folder)]
    if readable:
        return f"has no index that says which files are one checkpoint: name one of them, such as {names(readable[:3])}"
    return (
        f"has {names(entry.name for entry in entries)}, but neither an array nor a checkpoint: name a Zarr array, a "
        f"file of .npy, {', '.join(READERS)}, or a folder with such files"
    )


def _has_tensors(folder: Path) -> bool:
    """Whether a folder looks like a checkpoint, by the names in it."""
    with suppress(OSError):
        entries = [entry.name.lower() for entry in folder.iterdir()]
        return any(entry.endswith((METADATA, *READERS)) or entry.startswith("mp_rank_") for entry in entries)
    return False


def opened_file(path: Path) -> Checkpoint:
    """Return the tensors of a file.

    Raises:
        ModelError: the file is broken, or of no format with several arrays.
    """
    location = Location(str(path))
    if path.suffix.lower() not in READERS:
        raise location.error(f"is not a file of tensors: expected one of {', '.join(READERS)}")
    with location.reading():
        state = file_state(path)
        checkpoint = READERS[path.suffix.lower()](path, location)
    for store in checkpoint.stores.values():
        store.seen = state
    return Checkpoint(
        path,
        checkpoint.stores,
        checkpoint.metadata,
        {path: checkpoint.metadata},
        checkpoint.other_objects,
        checkpoint.refused,
    )


def join_files(path: Path, files: Iterable[Checkpoint], location: Location) -> Checkpoint:
    """Return the tensors of several files as one checkpoint, in the order of the files.

    Raises:
        ModelError: two files have a tensor of the same name.
    """
    stores: dict[str, Store] = {}
    by_file: dict[Path, Mapping[str, str]] = {}
    other_objects: list[str] = []
    refused: dict[str, ModelError] = {}
    for file in files:
        if (repeated := next(filter(stores.__contains__, file.stores), None)) is not None:
            raise location.error(
                f"has tensor {show(repeated)} in both {stores[repeated].path.name} and {file.path.name}: leave one "
                "out, or, if these are ranks, name all files, in order, as inputs of anydml reshard, which joins them"
            )
        stores |= file.stores
        by_file |= file.file_metadata
        other_objects += file.other_objects
        refused |= file.refused
    return Checkpoint(path, stores, JoinedMetadata(path, by_file), by_file, other_objects, refused)


READERS: Mapping[str, Callable[[Path, Location], FileContent]] = {
    ".safetensors": read_safetensors,
    ".pt": read_torch,
    ".pth": read_torch,
    ".bin": read_torch,
    ".ckpt": read_torch,
    ".npz": read_npz,
    ".gguf": read_gguf,
}
"""Readers of files of several arrays, by suffix."""


def _read_indexed(index: Path, location: Location) -> Checkpoint:
    with location.reading():
        if index.stat().st_size > MAX_HEADER:
            raise location.error(f"is larger than {MAX_HEADER} bytes")
        content = parse_json(index.read_bytes(), location, "text")
    weight_map = content.get("weight_map") if isinstance(content, dict) else None
    if not isinstance(weight_map, dict):
        message = "is missing" if weight_map is None else f"is {show(weight_map)}"
        raise (location / "weight_map").error(f"{message}, but must be an object with the file of each tensor")
    files: dict[str, Path] = {}
    texts: dict[str, str] = {}
    for name, written in weight_map.items():
        if not isinstance(written, str):
            raise (location / "weight_map" / name).error(f"must be a file's name, not {show(written)}")
        if written not in files:
            files[written] = file_in_folder(index.parent, written, location / "weight_map" / name)
        # One string per file, not one per tensor.
        weight_map[name] = texts.setdefault(written, written)
    missing = list[str]()

    def opened() -> Iterator[Checkpoint]:
        for written in sorted(files):
            file = opened_file(files[written])
            for name in file:
                if weight_map.get(name) != written:
                    missing.append(name)
                else:
                    del weight_map[name]
            yield file

    merged = join_files(index.parent, opened(), location)
    for name, written in weight_map.items():
        raise (location / "weight_map" / name).error(f"is {show(written)}, which has no tensor of this name")
    if missing:
        raise (location / "weight_map").error(
            f"does not have {names(missing)}, which the files have: add them, or name the files instead of the folder"
        )
    return merged


_NOT_READ = f"is not a file of arrays: expected .npy, {', '.join(READERS)} or {INDEX[1:]}, or a Zarr array or group"
