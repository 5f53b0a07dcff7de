"""Division of tensors into files, and the index of these files."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate, pairwise
from json.encoder import encode_basestring
from pathlib import Path
from typing import NamedTuple

from anydml.errors import ModelError
from anydml.files.location import show
from anydml.stores.checkpoints.composed import Parts, StoredTensors
from anydml.stores.formats.new_header import RankParts
from anydml.stores.formats.store import Store
from anydml.text import count_noun

_STEM = re.compile(r"(adapter_model|diffusion_pytorch_model|pytorch_lora_weights|consolidated(?!.*\.pth$))[-.]")
"""Prefixes of file names that other programs look for; not Meta's consolidated.NN.pth, which no program looks for as
.safetensors."""

_ONE_FILE = {"adapter_model": "PEFT", "pytorch_lora_weights": "diffusers"}
"""The libraries that read a single file of a name, but no numbered files, by that name."""


def stem_of(tensors: StoredTensors, composed_names: Iterable[str]) -> str:
    """Return the prefix of output file names: the inputs' prefix, if other programs look for it.

    Args:
        tensors: the tensors of the inputs.
        composed_names: names of the tensors that are written.
    """
    stores = (tensor if isinstance(tensor, Store) else tensor.pieces[0].store for tensor in tensors.values())
    # By id, because hashing a path is slow.
    files = {id(store.path): store.path for store in stores}
    stems = {match[1] if (match := _STEM.match(file.name)) else "model" for file in files.values()}
    stem = stems.pop() if len(stems) == 1 else "model"
    # Mistral's programs do not read files in another layout.
    return "model" if stem == "consolidated" and not {*composed_names} <= tensors.keys() else stem


class OutputFile(NamedTuple):
    """A file that a plan writes.

    Attributes:
        path: the path of the file.
        parts: the parts of tensors, in the file's order.
        metadata: strings by key.
        ranks: the description of the parts in the metadata, if the file is of one rank.
    """

    path: Path
    parts: Parts
    metadata: Mapping[str, str]
    ranks: RankParts | None = None


def check_shards(name: str, shards: int | None, out: Path, is_whole: bool) -> None:
    """Check a number of files.

    Args:
        name: the name of the command.
        shards: the number; None if it is not given.
        out: the output.
        is_whole: whether the output is a folder of whole tensors.

    Raises:
        ModelError: the number is below 1, or the output is not such a folder.
    """
    if shards is None:
        return
    if type(shards) is not int or shards < 1:
        raise ModelError(f"{name}: shards must be a number of files, at least 1, not {show(shards)}")
    if not is_whole:
        raise ModelError(
            f"{name}: shards is the number of files of whole tensors in a folder, and {out} has ranks or is one file: "
            "leave shards out"
        )


def files_of_shards(
    name: str, parts: Parts, out: Path, stem: str, metadata: dict[str, str], max_bytes: int, count: int | None
) -> list[OutputFile]:
    """Return files of whole tensors, in order, with the names of Hugging Face.

    Args:
        name: the name of the command, for errors.
        parts: the tensors.
        out: the folder.
        stem: the prefix of their names.
        metadata: the metadata of each file.
        max_bytes: the maximum size in bytes of a file, unless `count` is given; a larger tensor gets a file of its own.
        count: the number of files, of about equal size.

    Raises:
        ModelError: there are fewer tensors than files, or PEFT or diffusers could not read several files.
    """
    sizes = parts.sizes.tolist()
    max_bytes = max_bytes if count is None else _most_of(name, sizes, count)
    firsts, size = [0], 0
    for file_number, numbers in enumerate(sizes):
        is_last = count is not None and len(sizes) - file_number <= count - len(firsts)
        if file_number > firsts[-1] and (size + numbers > max_bytes or is_last):
            firsts.append(file_number)
            size = 0
        size += numbers
    if stem in _ONE_FILE and len(firsts) > 1:
        raise ModelError(
            f"{name}: {out} would get {count_noun(len(firsts), 'file')}, of which {_ONE_FILE[stem]} reads none: write "
            "one, without shards, and with a larger shard_size"
        )
    files = list[OutputFile]()
    for k, (first, last) in enumerate(pairwise([*firsts, len(sizes)])):
        file = f"{stem}.safetensors" if len(firsts) == 1 else f"{stem}-{k + 1:05}-of-{len(firsts):05}.safetensors"
        files.append(OutputFile(out / file, parts.subset(slice(first, last)), metadata))
    return files


def _most_of(name: str, sizes: Sequence[int], count: int) -> int:
    """Return the smallest size of files with which `count` files hold all tensors in order.

    Raises:
        ModelError: there are fewer tensors than files.
    """
    if len(sizes) < count:
        raise ModelError(
            f"{name}: shards is {count}, but there {_are(len(sizes))}: ask for at most one file for each tensor"
        )
    ends = list(accumulate(sizes))
    low, high = max(sizes), ends[-1]
    while low < high:
        max_size, files, end = (low + high) // 2, 0, 0
        while files <= count and end < ends[-1]:
            files, end = files + 1, ends[bisect_right(ends, end + max_size) - 1]
        low, high = (max_size + 1, high) if files > count else (low, max_size)
    return low


def _are(count: int) -> str:
    return f"{'is' if count == 1 else 'are'} {count_noun(count, 'tensor')}"


class NewIndex:
    """The index of several files, whose bytes are generated when they are written.

    Args:
        files: the files.
    """

    def __init__(self, files: Sequence[OutputFile]) -> None:
        self._total = sum(int(file.parts.sizes.sum()) for file in files)
        self._names = files[0].parts.whole_tensors.names
        self._tensors = [(file.path.name, file.parts.tensor) for file in files]

    def make(self) -> bytes:
        """Return the content of the index."""
        texts, lines = self._names.texts, list[tuple[str, str]]()
        for file, tensor in self._tensors:
            lines += [(texts[number], encode_basestring(file)) for number in tensor.tolist()]
        # The same as json.dumps, which is slow with indentation.
        weight_map = ",\n".join([f"    {encode_basestring(name)}: {file}" for name, file in sorted(lines)])
        metadata = f'"metadata": {{\n    "total_size": {self._total}\n  }}'
        return f'{{\n  {metadata},\n  "weight_map": {{\n{weight_map}\n  }}\n}}\n'.encode()
