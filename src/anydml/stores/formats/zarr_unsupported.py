"""Features of Zarr's version 3 that are not supported, each by its name."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from anydml.files.location import names, show
from anydml.stores.formats.zarr_codecs import names_of
from anydml.stores.formats.zarr_rectilinear import GRID
from anydml.stores.formats.zarr_shards import check_shards, is_ordered, without_transposes


def unsupported(metadata: Mapping[str, bytes]) -> str | None:
    """Return which unsupported feature an array has, and what to do; None if no such feature is known.

    Metadata that are broken are left to zarr-python.
    """
    try:
        document = json.loads(metadata["zarr.json"])
        return _of_array(document) if document["node_type"] == "array" else None
    except (OSError, ValueError, TypeError, LookupError, AttributeError, RecursionError):
        return None


def _of_array(document: Mapping[str, Any]) -> str | None:
    import zarr
    from zarr.registry import get_codec_class

    if (grid := document["chunk_grid"]["name"]) not in ("regular", GRID):
        return (
            f"has chunk grid {show(grid)}, and only arrays whose chunks all have one size are read: rewrite it with "
            "such chunks by a program that reads it"
        )
    if transformers := document.get("storage_transformers"):
        return (
            f"has storage transformer {names(str(transformer['name']) for transformer in transformers)}, which "
            "zarr-python does not know: rewrite it without by the program that made it"
        )
    for codec_name in names_of(document):
        classes = (
            [codec_name]
            if any(codec.get("name") == codec_name for codec in document["codecs"])
            else [codec_name, f"numcodecs.{codec_name}"]
        )
        if not any(_is_known(get_codec_class, name) for name in classes):
            return (
                f"has codec {show(codec_name)}, which zarr-python {zarr.__version__} does not have: install the "
                "package that brings it, or a newer zarr-python"
            )
    if grid == GRID:
        return None
    codecs, files = document["codecs"], document["chunk_grid"]["configuration"]["chunk_shape"]
    # Shards that are not whole chunks by the specification either are refused when the array is opened.
    check_shards(codecs, files)
    order, remaining_codecs = without_transposes(codecs, len(files))
    if not is_ordered(codecs, files) and not is_ordered(remaining_codecs, [files[k] for k in order]):
        return (
            "has a transpose between shards and shards in those, which zarr-python does not read where their sizes "
            "differ: rewrite it by TensorStore, without the transpose"
        )
    return None


def _is_known(find: Any, name: str) -> bool:
    try:
        find(name)
    except LookupError:
        return False
    return True
