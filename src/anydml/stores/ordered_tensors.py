"""Checkpoints whose tensors are read in their order, by `verify` and `manifest`."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from anydml.moves.composer import Composer
from anydml.stores.checkpoints.casting import changed_dtypes, dtype_of
from anydml.stores.checkpoints.composed import ComposedTensors, compose_stored
from anydml.stores.checkpoints.output_files import Change
from anydml.stores.checkpoints.selecting import Selection
from anydml.stores.checkpoints.sources import read_sources
from anydml.stores.converting import conversion
from anydml.stores.resharding import change_of
from anydml.tracing.trace import Trace
from anydml.tracing.traced_ndarray import TracedNdarray


@dataclass(frozen=True)
class ReadTensors:
    """The tensors of a checkpoint, after changes if there are any.

    Attributes:
        composer: the composer of their values.
        tensors: the tensors by name.
        metadata: the metadata of the files.
        remarks: notes for users on what was left out.
    """

    composer: Composer
    tensors: ComposedTensors
    metadata: Mapping[str, str]
    remarks: list[str]

    @cached_property
    def described(self) -> dict[str, tuple[tuple[int, ...], np.dtype[Any]]]:
        """Shapes and dtypes by name."""
        return {name: (tensor.shape, tensor.dtype) for name, tensor in self.tensors.items()}


def read_tensors(
    name: str,
    path: str | os.PathLike[str],
    layout: str | os.PathLike[str] | None,
    to: str | None,
    follow: bool,
    dtype: Any,
    selection: Selection,
) -> ReadTensors:
    """Read the headers of a checkpoint, and apply a layout, a cast and a selection.

    Args:
        name: the name of the command, for errors.
        path: the checkpoint, as in `anydml.stores.reshard`.
        layout: as in `anydml.stores.reshard`.
        to: as in `anydml.stores.convert`, instead of a layout.
        follow: as in `anydml.stores.open`.
        dtype: as in `anydml.stores.reshard`.
        selection: the selection of tensors.

    Raises:
        ModelError: the checkpoint or the layout is broken, or the changes do not fit the checkpoint.
    """
    change: Change | None
    if to is not None:
        composer, change, _, axes = conversion(path, to)
    else:
        trace = Trace(name, TracedNdarray)
        composer, (change, axes) = trace.composer, change_of(trace, layout)
    tensors, metadata, remarks = read_sources([path], axes, follow, selection, name)
    tensors, casts = changed_dtypes(name, tensors, None if dtype is None else dtype_of(name, dtype), True)
    remarks += casts
    composed = compose_stored(tensors)
    return ReadTensors(composer, composed if change is None else change(composed), metadata, remarks)
