"""What Zarr's metadata say of codecs, of either version, as one: a codec by its name in version 2, and a dtype."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from anydml.stores.bounded_codecs import COMPRESSORS

_SHUFFLES = {"noshuffle": 0, "shuffle": 1, "bitshuffle": 2}


def codec_of_v2(said: Mapping[str, Any]) -> tuple[Mapping[str, Any] | None, bool]:
    """The only codec, and whether chunks need nothing else."""
    compressor = said.get("compressor")
    if compressor is not None and not isinstance(compressor, Mapping):
        compressor = compressor.get_config()
    is_known = compressor is None or compressor.get("id") in COMPRESSORS
    return compressor, is_known and not said.get("filters") and said.get("order", "C") == "C"


def codec_of_v3(said: Mapping[str, Any]) -> tuple[Mapping[str, Any] | None, bool]:
    """The same of version 3, by the names that version 2 has for it."""
    codecs = [json.loads(json.dumps(each)) for each in said["codecs"]]
    first, rest = codecs[0], codecs[1:]
    if first["name"] != "bytes" or len(rest) > 1 or said.get("storage_transformers"):
        return None, False
    if not rest:
        return None, True
    name, options = rest[0]["name"], rest[0].get("configuration", {})
    if name == "zstd":
        return {"id": "zstd", "level": options.get("level", 0), "checksum": options.get("checksum", False)}, True
    if name == "gzip":
        return {"id": "gzip", "level": options.get("level", 5)}, True
    if name == "blosc" and options.get("shuffle") in _SHUFFLES:
        known = {key: options[key] for key in ("cname", "clevel", "blocksize") if key in options}
        return {"id": "blosc", **known, "shuffle": _SHUFFLES[options["shuffle"]]}, True
    return None, False


def as_stored(dtype: np.dtype[Any], codecs: Sequence[Mapping[str, Any]]) -> np.dtype[Any]:
    """A dtype with the order of bytes that chunks of version 3 have, which its own name does not say."""
    endian = dict(codecs[0].get("configuration") or {}).get("endian") if codecs[0]["name"] == "bytes" else None
    if endian is None or dtype.itemsize == 1 or dtype.kind not in "iufcmMU":
        return dtype
    return dtype.newbyteorder(">" if getattr(endian, "value", endian) == "big" else "<")
