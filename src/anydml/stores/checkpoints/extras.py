"""The small files beside a checkpoint, such as config.json and those of a tokenizer."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from anydml.errors import ModelError
from anydml.files.located import locate
from anydml.files.location import Location, names
from anydml.stores.checkpoints.casting import config_of
from anydml.stores.checkpoints.megatron import TRACKER
from anydml.stores.formats.deepspeed import LATEST
from anydml.stores.formats.model_files import BIN_INDEX, INDEX, METADATA, WEIGHTS, file_in_folder
from anydml.stores.formats.target import Content
from anydml.text import bytes_text

Extras = bool | str | os.PathLike[str]
"""Whether small files are copied, or the folder that they are copied from."""

MAX_BYTES = 64 << 20
"""Maximum size in bytes of a small file; tokenizers have tens of millions."""


def extras_beside(path: str | os.PathLike[str]) -> tuple[list[Path], list[str]]:
    """Return the small files of a checkpoint, and the names of its other files.

    Hidden files and those of `WEIGHTS` are left out. Links must lead to files in the folder or in the cache of Hugging
    Face's hub, so that a link to a private file does not publish that file.

    Args:
        path: the folder, or an index or ``.metadata`` in it; a single file has no small files.

    Raises:
        ModelError: the folder cannot be read.
    """
    folder = locate("extras", path)
    if folder.name.endswith((INDEX, BIN_INDEX)) or (folder.name == METADATA and folder.is_file()):
        folder = folder.parent
    elif not folder.is_dir():
        return [], []
    copied, not_copied = list[Path](), list[str]()
    with Location(str(folder)).reading():
        for entry in sorted(folder.iterdir()):
            if entry.name.startswith("."):
                continue
            if entry.is_dir():
                not_copied.append(f"{entry.name}/")
            elif entry.name.lower().endswith(WEIGHTS):
                continue
            elif entry.name in (TRACKER, LATEST) or not _is_small(folder, entry):
                not_copied.append(entry.name)
            else:
                copied.append(entry)
    return copied, not_copied


def _is_small(folder: Path, path: Path) -> bool:
    try:
        return file_in_folder(folder, path.name, Location(str(path))).stat().st_size <= MAX_BYTES
    except ModelError:
        return False


def remark_on_files(description: str, files: list[str], advice: str = "") -> list[str]:
    """Return a remark on files, if there are any."""
    return [f"{description} {names(files)}{advice}"] if files else []


def check_extras(name: str, extras: Extras, out: Path, is_file: bool) -> None:
    """Check that the source of small files and the output are folders.

    Raises:
        ModelError: a file is not of that kind.
    """
    if isinstance(extras, bool):
        return
    if not locate(name, extras).is_dir():
        raise Location(str(extras)).error("is not a folder with config.json and other small files")
    if is_file:
        raise Location(str(out)).error("is one file, beside which no small files are copied: name a folder")


def extras_for(
    out: Path,
    beside: str | os.PathLike[str],
    read: Collection[str],
    is_file: bool,
    dtype: np.dtype[Any] | None,
    new_rows: Mapping[int, int],
) -> tuple[dict[Path, Content], list[Path], list[str]]:
    """Return the small files of an output, those that it gets in a changed copy, and remarks on them.

    Args:
        out: the output.
        beside: the checkpoint that has the files, as in `extras_beside`.
        read: names of the files with tensors.
        is_file: whether the output is a single file, which gets no small files.
        dtype: the dtype of the tensors, if they are cast.
        new_rows: the new number of rows of vocabularies that are cut, by the old one.
    """
    copied, not_copied = extras_beside(beside)
    copied, not_copied = (
        [path for path in copied if path.name not in read],
        [file_name for file_name in not_copied if file_name not in read],
    )
    if is_file:
        copied, not_copied = [], [*(path.name for path in copied), *not_copied]
    contents: dict[Path, Content] = {out / path.name: path for path in copied}
    changed_files = [path for path in copied if path.name == "config.json" and (dtype is not None or new_rows)]
    remarks_on_sizes = list[str]()
    for path in changed_files:
        contents[out / path.name], remarks_on_sizes = config_of(path, dtype, new_rows)
    size = f", {bytes_text(sum(path.stat().st_size for path in copied))}"
    remarks = remark_on_files("copies", [path.name for path in copied], size)
    return contents, changed_files, remarks + remarks_on_sizes + remark_on_files("leaves behind", not_copied)
