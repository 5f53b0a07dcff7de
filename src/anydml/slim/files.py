"""Writing of slimmed models: external data stays external, and large constants made from it become external, too."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import BinaryIO

import numpy as np
from onnx import ModelProto

from anydml.errors import ModelError
from anydml.files.folder import Folder, check_replaceable, write_whole
from anydml.files.location import Location
from anydml.onnx.checks import check, serialize
from anydml.onnx.external import external_files
from anydml.onnx.graph_values import Array
from anydml.onnx.tensor_protos import bits_of
from anydml.paths import path_text
from anydml.slim.slimmed_model import SlimmedModel

MIN_EXTERNAL_BYTES = 1024
"""Minimum bytes of a new constant that becomes external data."""

ALIGNMENT = 4096
"""Alignment of tensors in a data file, so that it can be mapped."""


def write(
    model: ModelProto,
    slimmed: SlimmedModel,
    target: Path,
    folder: Folder,
    overwrite: bool = False,
    sources: Sequence[Path] = (),
) -> None:
    """Write a slimmed model.

    Args:
        model: the original model.
        slimmed: the result of `slim`.
        target: the file. New constants of a model with external data are written to ``NAME.onnx.data`` beside it.
        folder: folder of the model's external data.
        overwrite: whether existing files may be replaced.
        sources: files that the model was read from, besides external data.

    Raises:
        ModelError: the file cannot be written, exists already, or its folder is not that of the external data.
    """
    path_text("write", target)
    old = external_files(model, folder.root)
    check_replaceable(target, old, overwrite, Location(str(target)))
    if old and target.resolve().parent != folder.root:
        raise ModelError(f"the model has external data beside it; write {target.name} into the same folder")
    graph = slimmed.stages[-1].graph if slimmed.stages else None
    result, large = slimmed.original, list[tuple[Array, int]]()
    path = target.with_name(f"{target.name}.data")
    if graph is not None:
        size = 0

        def external_data(array: Array) -> dict[str, str] | None:
            """Return the location of a new constant in external data; None if the constant stays in the model."""
            nonlocal size
            if array.nbytes < MIN_EXTERNAL_BYTES or array.dtype.hasobject or bits_of(array.dtype) != 8 * array.itemsize:
                return None
            large.append((array, -size % ALIGNMENT))
            offset = size + -size % ALIGNMENT
            size = offset + array.nbytes
            return {"location": path.name, "offset": str(offset), "length": str(array.nbytes)}

        result = graph.to_model(external_data if old else None)
    if large:
        check_replaceable(path, old, overwrite, Location(str(path)))
    check(result)
    data = serialize(result)
    if large:
        write_whole(path, lambda file: _write_data(file, large), Location(str(path)), [*sources, *old])
    write_whole(target, lambda file: file.write(data), Location(str(target)), [*sources, *old])


def _write_data(file: BinaryIO, arrays: Sequence[tuple[Array, int]]) -> None:
    """Write arrays in little-endian byte order, each after some zeros."""
    for array, gap in arrays:
        file.write(bytes(gap))
        little = array if sys.byteorder == "little" else array.byteswap()
        file.write(little.reshape(-1).view(np.uint8).data)
