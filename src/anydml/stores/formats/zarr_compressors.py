"""Compressors that users name, such as ``zstd:3`` or ``blosc:lz4,5,bitshuffle``, as configurations of Zarr."""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from anydml.files.location import Location
from anydml.stores.formats.zarr_codecs import SHUFFLES, coder_of
from anydml.text import count_noun

Json = dict[str, Any]


class _Option(NamedTuple):
    """An option of a codec: the name in numcodecs, and all values, or the lowest and the highest value."""

    name: str
    values: tuple[str, ...] | tuple[int, int]

    @property
    def is_number(self) -> bool:
        return isinstance(self.values[0], int)

    def read(self, text: str) -> str | int | None:
        """Return the value that a string stands for; None if the option has no such value."""
        if not self.is_number:
            return text if text in self.values else None
        digits = text.removeprefix("-")
        if not (digits.isascii() and digits.isdecimal()) or len(digits) > 6:
            return None
        low, high = self.values
        return int(text) if int(low) <= int(text) <= int(high) else None

    def __str__(self) -> str:
        low, *_, high = self.values
        return f"{self.name} from {low} to {high}" if self.is_number else f"one of {', '.join(map(str, self.values))}"


_LEVEL = _Option("level", (0, 9))

COMPRESSORS: Mapping[str, tuple[_Option, ...]] = {
    "none": (),
    "zstd": (_Option("level", (-131072, 22)),),
    "gzip": (_LEVEL,),
    "blosc": (
        _Option("cname", ("blosclz", "lz4", "lz4hc", "zlib", "zstd")),
        _Option("clevel", (0, 9)),
        _Option("shuffle", ("noshuffle", "shuffle", "bitshuffle")),
    ),
    "lz4": (_Option("acceleration", (1, 65537)),),
    "zlib": (_LEVEL,),
    "bz2": (_Option("level", (1, 9)),),
    "lzma": (_Option("preset", (0, 9)),),
    "pcodec": (_Option("level", (0, 12)),),
}
"""Compressors by name, and their options in the order in which they are written."""

EXAMPLE = {"blosc": "blosc:lz4,5,bitshuffle", "lz4": "lz4:1", "pcodec": "pcodec:8"}


def compressors_of(codec: str, version: int, dtype: np.dtype[Any], location: Location) -> list[Json]:
    """Return configurations of a codec in the form of users.

    Args:
        codec: a name, and after a colon values of its options.
        version: the version of Zarr, 2 or 3.
        dtype: the dtype of the elements.
        location: names the array in errors.

    Raises:
        ModelError: there is no such codec, or its library is not installed.
    """
    name, colon, text = codec.partition(":")
    if name not in COMPRESSORS:
        *other_names, last = COMPRESSORS
        raise location.error(
            f"codec must be {', '.join(other_names)} or {last}, not {codec!r:.40}: write it such as zstd:3 or "
            "blosc:lz4,5,bitshuffle"
        )
    options = _options(codec, name, text.split(",") if colon else [], location)
    if name == "none":
        return []
    if name == "pcodec" and importlib.util.find_spec("pcodec") is None:
        raise location.error("codec is pcodec, whose library is not installed: pip install pcodec")
    if version == 2:
        if "shuffle" in options:
            options["shuffle"] = SHUFFLES[options["shuffle"]]
        return [coder_of({"id": name, **options}).get_config()]
    import zarr.codecs

    if name == "blosc":
        # Zarr's own choice would be made for elements of one byte.
        shuffle = "shuffle" if dtype.itemsize > 1 else "bitshuffle"
        codec_document = zarr.codecs.BloscCodec(
            **{"typesize": max(1, dtype.itemsize), "shuffle": shuffle, **options}
        ).to_dict()
    elif name in ("zstd", "gzip"):
        codec_document = (zarr.codecs.ZstdCodec if name == "zstd" else zarr.codecs.GzipCodec)(**options).to_dict()
    else:
        config = coder_of({"id": name, **options}).get_config()
        del config["id"]
        codec_document = {"name": f"numcodecs.{name}", "configuration": config}
    return [codec_document]


def _options(codec: str, name: str, texts: list[str], location: Location) -> Json:
    """Return the options of a codec by their names."""
    allowed = COMPRESSORS[name]
    if texts and not allowed:
        raise location.error(f"codec is {codec!r:.40}, but {name} has no options")
    options: Json = {}
    remaining = [*allowed]
    for text in texts:
        # A number alone is a level, also where another option stands before it.
        option = next((option for option in remaining if option.read(text) is not None), None)
        if option is None:
            expected = " and ".join(map(str, remaining)) or f"no more than {count_noun(len(allowed), 'option')}"
            raise location.error(
                f"codec must have {expected}, such as {EXAMPLE.get(name, f'{name}:3')}, not {codec!r:.40}"
            )
        options[option.name] = option.read(text)
        remaining = remaining[remaining.index(option) + 1 :]
    return options
