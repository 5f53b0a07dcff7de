"""Differences other than in tensors: config.json and other small files, and `total_size` of indexes."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from anydml.files.located import locate
from anydml.files.location import Location, names
from anydml.stores.checkpoints.extras import extras_beside
from anydml.stores.formats.model_files import BIN_INDEX, INDEX, choose_files
from anydml.stores.formats.opening import open
from anydml.stores.formats.safetensors import parse_json
from anydml.text import count_noun

Sums = Mapping[str, str]
"""The SHA-256 of small files in hexadecimal, by file name."""


def sums_beside(path: str | os.PathLike[str]) -> Sums | None:
    """Return the checksums of the small files beside a checkpoint; None if it is not a folder.

    Raises:
        ModelError: a file cannot be read.
    """
    if not locate("verify", path).is_dir():
        return None
    sums = dict[str, str]()
    for extra in extras_beside(path)[0]:
        with Location(str(extra)).reading():
            sums[extra.name] = hashlib.sha256(extra.read_bytes()).hexdigest()
    return sums


def differences_beside(
    first: str | os.PathLike[str], second: str | os.PathLike[str], known_of_sides: Sequence[Sums | None] = (None, None)
) -> list[str]:
    """Return remarks on differing small files of two folders, and on wrong sizes in their indexes.

    Args:
        first: a checkpoint or a manifest.
        second: the other checkpoint or manifest.
        known_of_sides: the checksums of each side's small files, as a manifest has them.

    Raises:
        ModelError: a file cannot be read.
    """
    remarks = [difference for path in (first, second) for difference in _wrong_sizes(locate("verify", path))]
    paths = first, second
    sums = [
        sums_beside(path) if known_sums is None else known_sums
        for path, known_sums in zip(paths, known_of_sides, strict=True)
    ]
    first_sums, second_sums = sums
    if first_sums is None or second_sums is None:
        side_with_sums = next((k for k, known_sums in enumerate(known_of_sides) if known_sums), None)
        if side_with_sums is not None:
            files = count_noun(len(known_of_sides[side_with_sums] or ()), "small file")
            remarks.append(
                f"{paths[1 - side_with_sums]}: is one file, so that nothing is compared with {files} of "
                f"{paths[side_with_sums]}"
            )
        return remarks
    for path, sums_here, other_sums in ((first, first_sums, second_sums), (second, second_sums, first_sums)):
        if only_here := [name for name in sums_here if name not in other_sums]:
            remarks.append(f"{path}: has {names(only_here)} beside its tensors, which the other lacks")
    if different := [name for name in first_sums if name in second_sums and first_sums[name] != second_sums[name]]:
        remarks.append(
            f"beside the tensors, {names(different)} {'differs' if len(different) == 1 else 'differ'} in content"
        )
    return remarks


def _wrong_sizes(path: Path) -> Iterator[str]:
    """Yield a remark on an index whose total_size differs from the size of its tensors."""
    index = choose_files(path, True).index_file if path.is_dir() else path
    if index is None or not index.name.endswith((INDEX, BIN_INDEX)):
        return
    content = parse_json(index.read_bytes(), Location(str(index)), "text")
    metadata = content.get("metadata") if isinstance(content, dict) else None
    size = metadata.get("total_size") if isinstance(metadata, dict) else None
    tensors = [*open(index).stores.values()]
    total = sum(tensor.nbytes for tensor in tensors)
    # Tensors may share elements in files of torch.save, and are then counted once by some programs.
    shared = sum(size for _, _, size in {(tensor.path, tensor.offset, tensor.nbytes) for tensor in tensors})
    if size not in (total, shared):
        yield f"{index}: total_size is {size}, but the tensors have {total} bytes"
