"""Manifests: the SHA-256 of every tensor of a checkpoint, by which a copy is verified without its source."""

from __future__ import annotations

import hashlib
import json
import math
import os
import re
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np

from anydml.files.folder import check_replaceable, write_whole
from anydml.files.located import locate
from anydml.files.location import Location, show
from anydml.paths import path_text
from anydml.progress import progress_bar
from anydml.stores.argument_checks import checked
from anydml.stores.checkpoints.selecting import Selection, Strings
from anydml.stores.checkpoints.small_file_differences import Sums, sums_beside
from anydml.stores.formats.block_types import DTYPES_OF_BLOCKS, blocks_of, is_of_blocks, name_of, shape_in_elements
from anydml.stores.formats.model_files import BIN_INDEX, INDEX
from anydml.stores.formats.safetensors import DTYPES, MAX_HEADER, is_numpy_dtype, parse_json
from anydml.stores.formats.store import Array, uncollected
from anydml.stores.ordered_tensors import ReadTensors, read_tensors
from anydml.stores.planning.identities import check_unchanged, identities_of_stores
from anydml.stores.streaming import TensorStream, memory_of, parts_of

KEY = "anydml_manifest"
"""The key that marks a manifest."""

VERSION = 1
"""The version of the form of manifests."""

_SUM = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True)
class Manifest:
    """The checksums of a checkpoint's tensors.

    Attributes:
        described: shapes and dtypes of tensors, by name.
        hashes: SHA-256 of their elements in C order, in hexadecimal, by name.
        metadata: the metadata of the files.
        files: SHA-256 of small files beside the tensors, by name; None where the checkpoint was not a folder.
        remarks: notes for users.
    """

    described: dict[str, tuple[tuple[int, ...], np.dtype[Any]]]
    hashes: dict[str, str]
    metadata: dict[str, str]
    files: Sums | None = None
    remarks: Sequence[str] = ()


def hashes_of(
    read: ReadTensors,
    described: Mapping[str, tuple[tuple[int, ...], np.dtype[Any]]],
    memory: int,
    advance: Callable[[int], None],
) -> dict[str, str]:
    """The SHA-256 of tensors, by name.

    Args:
        read: the checkpoint.
        described: the tensors of the checkpoint that are hashed.
        memory: bytes of all buffers.
        advance: called with the numbers of hashed bytes.
    """
    streamed = TensorStream(read.composer, read.tensors, memory // 2)
    identities = identities_of_stores("manifest", streamed.sources)
    sums = {name: hashlib.sha256() for name in described}

    def update(name: str, contents: Sequence[Array]) -> None:
        for content in contents:
            sums[name].update(content.data)
            advance(content.size)

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        waiting = list[Future[None]]()
        for parts, contents in streamed.read(parts_of(described, memory // 8)):
            # While these parts are hashed, the next ones are read.
            for future in waiting:
                future.result()
            pairs = groupby(zip(parts, contents, strict=True), lambda pair: pair[0].name)
            waiting = [pool.submit(update, name, [content for _, content in pairs_of]) for name, pairs_of in pairs]
        for future in waiting:
            future.result()
    check_unchanged("manifest", identities)
    return {name: digest.hexdigest() for name, digest in sums.items()}


def is_manifest(path: str | os.PathLike[str]) -> bool:
    """Whether a path may be a manifest: a JSON file that is not an index."""
    location = locate("verify", path)
    return location.suffix.lower() == ".json" and not location.name.endswith((INDEX, BIN_INDEX)) and location.is_file()


def read_manifest(path: str | os.PathLike[str]) -> Manifest:
    """Read a manifest.

    Raises:
        ModelError: the file is not a manifest.
    """
    location = Location(str(path))
    with location.reading():
        if (manifest_path := locate("verify", path)).stat().st_size > MAX_HEADER:
            raise location.error(f"is larger than {MAX_HEADER} bytes")
        text = manifest_path.read_bytes()
    content = parse_json(text, location, "text") if KEY.encode() in text else None
    if not isinstance(content, dict) or KEY not in content:
        writes = f"`anydml manifest MODEL {manifest_path.name}` writes one"
        raise location.error(f"is not a checkpoint or a manifest: {writes}")
    if content[KEY] != VERSION:
        reads = f"this version of anydml reads version {VERSION}: write it again with `anydml manifest`"
        raise location.error(f"is a manifest of version {show(content[KEY])}, but {reads}")
    tensors, metadata, files = content.get("tensors"), content.get("metadata", {}), content.get("files")
    if not isinstance(tensors, dict) or not isinstance(metadata, dict):
        raise location.error("is a manifest without tensors")
    if files is not None and not isinstance(files, dict):
        raise (location / "files").error(f"must be an object, not {show(files)}")
    for name, checksum in (files or {}).items():
        if not isinstance(checksum, str) or not _SUM.fullmatch(checksum):
            raise (location / "files" / name).error(f"must be 64 hexadecimal digits, not {show(checksum)}")
    result = Manifest({}, {}, {key: str(value) for key, value in metadata.items()}, files)
    for name, entry in tensors.items():
        tensor_location = location / "tensors" / name
        if not isinstance(entry, dict) or not {"dtype", "shape", "sha256"} <= {*entry}:
            raise tensor_location.error("is not an object with dtype, shape and sha256")
        dtype, shape, checksum = entry["dtype"], entry["shape"], entry["sha256"]
        tensor_dtype = _dtype(dtype)
        if tensor_dtype is None:
            raise (tensor_location / "dtype").error(f"must be a dtype that this version knows, not {show(dtype)}")
        if not isinstance(shape, list) or any(type(size) is not int or size < 0 for size in shape):
            raise (tensor_location / "shape").error(f"must be a list of integers from 0, not {str(shape)[:40]}")
        if not isinstance(checksum, str) or not _SUM.fullmatch(checksum):
            raise (tensor_location / "sha256").error(f"must be 64 hexadecimal digits, not {show(checksum)}")
        is_kept = is_of_blocks(tensor_dtype)
        result.described[name] = (
            blocks_of(dtype, tuple(shape), tensor_location / "shape") if is_kept else (tuple(shape), tensor_dtype)
        )
        result.hashes[name] = checksum
    return result


def _dtype(text: Any) -> np.dtype[Any] | None:
    """Return the dtype of a name in NumPy or ml_dtypes."""
    dtypes = {str(dtype): dtype for dtype in DTYPES.values()} | {**DTYPES_OF_BLOCKS}
    if not isinstance(text, str) or text in dtypes:
        return dtypes.get(text) if isinstance(text, str) else None
    try:
        numpy_dtype: np.dtype[Any] = np.dtype(text)
    except (TypeError, ValueError, SyntaxError):
        return None
    return numpy_dtype if is_numpy_dtype(numpy_dtype) and str(numpy_dtype) == text else None


@checked()
@uncollected()
def manifest(
    model: str | os.PathLike[str],
    output: str | os.PathLike[str] | None = None,
    memory: int | str = "256MB",
    follow: bool = True,
    overwrite: bool = False,
    progress: bool | Callable[[int], None] = False,
    only: Strings = (),
    drop: Strings = (),
    remark: Callable[[str], None] | None = None,
) -> dict[str, str]:
    """The SHA-256 of each tensor of a checkpoint, which do not depend on its files and ranks.

    Args:
        model: a checkpoint, as in `anydml.stores.reshard`.
        output: a .json file, which gets names, dtypes, shapes and sums, and those of the small files of a folder, and
            which `verify` takes; None to write none.
        memory: bytes of all buffers together, or a string such as ``"256MB"``.
        follow: as in `anydml.stores.open`.
        overwrite: whether an existing file may be replaced.
        progress: as in `anydml.stores.Plan.run`.
        only: as in `anydml.stores.reshard`.
        drop: as in `anydml.stores.reshard`.
        remark: is called with each line on what was left out or assumed.

    Returns:
        Sums of the elements in C order, little-endian, in hexadecimal, by name.

    Raises:
        ModelError: the checkpoint is broken, or the file exists or cannot be written.
        BindingError: the memory is too small.

    Examples:
        >>> from anydml import stores
        >>> np.save("w.npy", np.ones(3, "f4"))
        >>> files = stores.create("a.safetensors", shape={"w": [3]}, dtype="float32")
        >>> dml.fuse(lambda w: {"w": w}).plan(stores.open("w.npy"), files).run()
        >>> stores.manifest("a.safetensors", "a.manifest.json")["w"][:16]
        '8a31a40ecac0ceb4'
        >>> stores.verify("a.manifest.json", "a.safetensors")
    """
    read = read_tensors("manifest", model, None, None, follow, None, Selection.of(only, drop, (), ()))
    if remark is not None:
        for note in read.remarks:
            remark(note)
    out = None if output is None else Path(path_text("manifest", output))
    if out is not None:
        if out.suffix.lower() != ".json" or out.name.endswith((INDEX, BIN_INDEX)):
            raise Location(str(out)).error("is not a name for a manifest: it must end in .json, but not in .index.json")
        check_replaceable(out, [locate("manifest", model)], overwrite, Location(str(out)))
    described = read.described
    total = sum(math.prod(shape) * dtype.itemsize for shape, dtype in described.values())
    with progress_bar(total, 0, progress) as advance:
        hashes = hashes_of(read, described, memory_of("manifest", memory), advance)
    if out is not None:
        tensors = {
            name: {"dtype": name_of(dtype), "shape": [*shape_in_elements(shape, dtype)], "sha256": hashes[name]}
            for name, (shape, dtype) in described.items()
        }
        files = sums_beside(model)
        extra_fields = {} if files is None else {"files": files}
        content = {KEY: VERSION, "metadata": dict(read.metadata), **extra_fields, "tensors": tensors}
        text = json.dumps(content, indent=2, ensure_ascii=False) + "\n"
        write_whole(out, lambda file: file.write(text.encode()), Location(str(out)))
    return hashes
