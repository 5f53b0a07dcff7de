"""Sizes of a model's tensors, as declared in a config.json or Meta's params.json."""

from __future__ import annotations

import os
from codecs import BOM_UTF8
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple, TypeGuard

from anydml.files.located import locate
from anydml.files.location import Location
from anydml.stores.formats.safetensors import parse_json

MAX_BYTES = 16 << 20
"""Maximum size in bytes of a config.json."""

EXPERTS = ("num_local_experts", "num_experts", "n_routed_experts", "moe_num_experts")
"""Keys of the number of experts of a layer."""


class Heads(NamedTuple):
    """Heads of attention.

    Attributes:
        number: number of heads.
        size: number of rows of each head.
    """

    number: int
    size: int


class ModelConfig(NamedTuple):
    """A config.json or params.json.

    Attributes:
        path: the path of the file.
        parts: the object in the file, and its objects of text, vision and other parts.
    """

    path: Path
    parts: tuple[Mapping[str, Any], ...]

    @property
    def says_heads(self) -> bool:
        """Whether a part defines a number of heads."""
        return any("num_attention_heads" in part or "n_heads" in part for part in self.parts)

    def heads(self, of_keys: bool) -> Iterator[Heads]:
        """Yield the heads of queries, or of keys and values, for each part of the model that defines heads.

        Args:
            of_keys: whether to return those of keys and values.
        """
        for part in self.parts:
            count, size = part.get("num_attention_heads", part.get("n_heads")), part.get("head_dim")
            if not _is_count(count):
                continue
            if not _is_count(size):
                width = part.get("hidden_size", part.get("dim"))
                if not _is_count(width) or width % count:
                    continue
                size = width // count
            groups = part.get("num_key_value_heads", part.get("n_kv_heads"))
            groups = count if groups is None else groups
            if _is_count(groups):
                yield Heads(groups if of_keys else count, size)

    def block(self, axis: int) -> int | None:
        """Return the number of rows or columns of a weight that share a scale; None if it is not defined."""
        sizes = {tuple(sizes) for part in self.parts for sizes in _blocks_of(part.get("quantization_config"))}
        return sizes.pop()[axis] if len(sizes) == 1 else None

    @property
    def experts(self) -> int | None:
        """The number of experts of a layer; None if none or several are defined."""
        counts = {part[key] for part in self.parts for key in EXPERTS if _is_count(part.get(key))}
        return counts.pop() if len(counts) == 1 else None


def _blocks_of(quantization: Any) -> Iterator[list[int]]:
    """Yield the rows and columns of blocks of weights, by the keys of DeepSeek, transformers or compressed-tensors."""
    if not isinstance(quantization, dict):
        return
    groups = quantization.get("config_groups")
    candidates = [quantization.get("weight_block_size")]
    for group in groups.values() if isinstance(groups, dict) else ():
        weights = group.get("weights") if isinstance(group, dict) else None
        candidates.append(weights.get("block_structure") if isinstance(weights, dict) else None)
    for sizes in candidates:
        if isinstance(sizes, list) and len(sizes) == 2 and all(map(_is_count, sizes)):
            yield sizes


def _is_count(value: Any) -> TypeGuard[int]:
    return type(value) is int and value > 0


def config_beside(path: str | os.PathLike[str]) -> ModelConfig | None:
    """Return the config.json of a checkpoint, or Meta's params.json; None if there is none.

    Args:
        path: a folder, or a file in the same folder.

    Raises:
        ModelError: config.json cannot be read, or is not an object.
    """
    config_path = locate("config.json", path)
    folder = config_path if config_path.is_dir() else config_path.parent
    config = next(
        (candidate for candidate in (folder / "config.json", folder / "params.json") if candidate.is_file()), None
    )
    if config is None:
        return None
    location = Location(str(config))
    with location.reading():
        if config.stat().st_size > MAX_BYTES:
            raise location.error(f"is larger than {MAX_BYTES} bytes")
        content = parse_json(config.read_bytes().removeprefix(BOM_UTF8), location, "text")
    if not isinstance(content, dict):
        raise location.error("is not an object")
    return ModelConfig(config, (content, *(inner for inner in content.values() if isinstance(inner, dict))))
