"""What lies beside the tensors of two checkpoints, and differs: small files, and what indexes count."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from anydml.files.json_path import JsonPath, names
from anydml.stores.checkpoints.extras import extras_beside
from anydml.stores.formats.opening import INDEX
from anydml.stores.formats.safetensors import MOST_HEADER, parse_json, read_safetensors


def differences_beside(first: str | os.PathLike[str], second: str | os.PathLike[str]) -> list[str]:
    """Remarks on files beside two checkpoints that are folders, and on wrong sizes in their indexes.

    Raises:
        ModelError: a file cannot be read.
    """
    one, other = Path(first), Path(second)
    remarks = [*_wrong_sizes(one), *_wrong_sizes(other)]
    if not (one.is_dir() and other.is_dir()):
        return remarks
    here, there = ({each.name: each for each in extras_beside(path)[0]} for path in (one, other))
    for path, own, others in ((first, here, there), (second, there, here)):
        if alone := [name for name in own if name not in others]:
            remarks.append(f"{path}: has {names(alone)} beside its tensors, which the other has not")
    if different := [name for name in here if name in there and not _is_same(here[name], there[name])]:
        remarks.append(f"{names(different)} beside the tensors differ in content")
    return remarks


def _is_same(one: Path, other: Path) -> bool:
    with JsonPath(str(one)).reading():
        return one.stat().st_size == other.stat().st_size and one.read_bytes() == other.read_bytes()


def _wrong_sizes(path: Path) -> Iterator[str]:
    """A remark on an index whose total_size is not that of the tensors of its files."""
    index = path / f"model{INDEX}" if path.is_dir() else path
    if not index.name.endswith(INDEX) or not index.is_file() or index.stat().st_size > MOST_HEADER:
        return
    content = parse_json(index.read_bytes(), JsonPath(str(index)), "text")
    said = content.get("metadata") if isinstance(content, dict) else None
    size = said.get("total_size") if isinstance(said, dict) else None
    files = {index.parent / name for name in content.get("weight_map", {}).values()}
    found = sum(each.nbytes for file in files for each in read_safetensors(file, JsonPath(str(file))).stores.values())
    if size != found:
        yield f"{index}: total_size is {size}, where the tensors have {found} bytes"
