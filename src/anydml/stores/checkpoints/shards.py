"""How tensors are divided into files, and the index of these."""

from __future__ import annotations

import json
import math
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import accumulate
from pathlib import Path

from anydml.errors import ModelError
from anydml.files.json_path import show
from anydml.stores.checkpoints.composed import ComposedTensor, ComposedTensors
from anydml.text import counted

OutputFile = tuple[Path, ComposedTensors, dict[str, str]]
"""The path, tensors and metadata of a file."""


def check_shards(name: str, shards: int | None, out: Path, is_whole: bool) -> None:
    """Check a number of files.

    Args:
        name: of the command.
        shards: the number, if one is given.
        out: the output.
        is_whole: whether it is to be a folder of whole tensors.

    Raises:
        ModelError: it is no count from 1, or the output is another.
    """
    if shards is None:
        return
    if type(shards) is not int or shards < 1:
        raise ModelError(f"{name}: shards is {show(shards)}, where a number of files from 1 is expected")
    if not is_whole:
        raise ModelError(f"{name}: shards is the number of files of whole tensors in a folder, which {out} is not")


def files_of_shards(
    name: str, tensors: ComposedTensors, out: Path, metadata: dict[str, str], most: int, count: int | None
) -> Iterator[OutputFile]:
    """Files of whole tensors, in order, with the names of Hugging Face.

    Args:
        name: of the command, for errors.
        tensors: by name.
        out: the folder.
        metadata: of each file.
        most: bytes of a file, unless `count` is given; a larger tensor gets a file of its own.
        count: of files, of about equal size.
    """
    most = most if count is None else _most_of(name, tensors, count)
    groups: list[ComposedTensors] = [{}]
    size = 0
    for number, (key, each) in enumerate(tensors.items()):
        own = bytes_of(each)
        is_last = count is not None and len(tensors) - number <= count - len(groups)
        if groups[-1] and (size + own > most or is_last):
            groups.append({})
            size = 0
        groups[-1][key] = each
        size += own
    for k, group in enumerate(groups):
        file = "model.safetensors" if len(groups) == 1 else f"model-{k + 1:05}-of-{len(groups):05}.safetensors"
        yield out / file, group, metadata


def bytes_of(tensor: ComposedTensor) -> int:
    """Bytes of all elements."""
    return math.prod(tensor.shape) * tensor.dtype.itemsize


def _most_of(name: str, tensors: ComposedTensors, count: int) -> int:
    """The smallest size of files of which `count` hold all tensors in order.

    Raises:
        ModelError: there are fewer tensors than files.
    """
    if len(tensors) < count:
        raise ModelError(f"{name}: shards is {count}, but there {_are(len(tensors))}: a file has one at least")
    ends = list(accumulate(map(bytes_of, tensors.values())))
    low, high = max(map(bytes_of, tensors.values())), ends[-1]
    while low < high:
        most, files, done = (low + high) // 2, 0, 0
        while files <= count and done < ends[-1]:
            files, done = files + 1, ends[bisect_right(ends, done + most) - 1]
        low, high = (most + 1, high) if files > count else (low, most)
    return low


def _are(count: int) -> str:
    return f"{'is' if count == 1 else 'are'} {counted(count, 'tensor')}"


def index_of(parts: Sequence[OutputFile]) -> bytes:
    """The content of the index of several files."""
    total = sum(bytes_of(each) for _, own, _ in parts for each in own.values())
    weight_map = {name: path.name for path, own, _ in parts for name in own}
    content = {"metadata": {"total_size": total}, "weight_map": dict(sorted(weight_map.items()))}
    return (json.dumps(content, indent=2, ensure_ascii=False) + "\n").encode("utf-8")
