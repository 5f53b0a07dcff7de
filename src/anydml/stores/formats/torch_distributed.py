"""Checkpoints of torch.distributed.checkpoint: ``.metadata``, read as data, and ``.distcp`` files of pieces.

Each piece is a file of ``torch.save`` inside a file.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from anydml.errors import ModelError
from anydml.files.location import Location, show
from anydml.stores.formats.model_files import METADATA, file_in_folder
from anydml.stores.formats.pickle_reader import (
    PickledCall,
    PickledDict,
    PickledName,
    fields_of,
    read_pickle,
    sizes_of,
)
from anydml.stores.formats.piece_reader import PieceReader
from anydml.stores.formats.store import Store, file_state
from anydml.stores.formats.torch_save import DTYPES_OF_TORCH

MAX_METADATA = 512 << 20
"""Maximum bytes of the file ``.metadata``; that of a million pieces has 100 million."""


class DistributedContent(NamedTuple):
    """The contents of a distributed checkpoint.

    Attributes:
        tensors: their shapes, and their pieces with first coordinates, by name.
        other_objects: names of objects that are not tensors.
        refused: errors of tensors that cannot be read, by name.
        remarks: remarks for users on what was chosen or left out.
    """

    tensors: dict[str, tuple[tuple[int, ...], list[tuple[Store, tuple[int, ...]]]]]
    other_objects: list[str]
    refused: dict[str, ModelError]
    remarks: list[str]


def read_distributed(folder: Path) -> DistributedContent:
    """Read the metadata of a distributed checkpoint and the headers of its pieces.

    Args:
        folder: the folder, with a ``.metadata`` file.

    Raises:
        ModelError: a file is broken, missing or compressed, or a piece does not have the shape in the metadata.
    """
    location = Location(str(folder / METADATA))
    with location.reading(), (folder / METADATA).open("rb") as file:
        described_by = ((folder / METADATA, file_state(folder / METADATA)),)
        content = read_pickle(file.read(MAX_METADATA + 1), location, MAX_METADATA)
    state = fields_of(content)
    distributed = DistributedContent({}, [], {}, [])
    chunks: dict[tuple[str, tuple[int, ...] | None], tuple[int, ...] | None] = {}
    dtypes: dict[str, np.dtype[Any] | None] = {}
    for name, entry in _pairs(state.get("state_dict_metadata")):
        fields = fields_of(entry)
        if not isinstance(name, str) or "chunks" not in fields:
            distributed.other_objects.append(str(name))
            continue
        shape = sizes_of(fields.get("size"))
        if shape is None:
            raise (location / name).error("has no size, which each tensor of .metadata has")
        if not isinstance(fields["chunks"], list) or not fields["chunks"]:
            raise (location / name).error(f"has no pieces for its shape {[*shape]}")
        distributed.tensors[name] = shape, []
        dtypes[name] = _declared(fields.get("properties"))
        for chunk in fields["chunks"]:
            box = fields_of(chunk)
            chunks[name, sizes_of(box.get("offsets"))] = sizes_of(box.get("sizes"))
    with PieceReader() as pieces:
        _add_pieces(folder, state.get("storage_data"), distributed, chunks, dtypes, pieces)
    if chunks:
        raise location.error(f"has no place for a piece of {show(next(iter(chunks))[0])}")
    for name in distributed.refused:
        del distributed.tensors[name]
    for _, pieces_of in distributed.tensors.values():
        for store, _ in pieces_of:
            store.described_by = described_by
    return distributed


def _add_pieces(
    folder: Path,
    places: Any,
    distributed: DistributedContent,
    chunks: dict[tuple[str, tuple[int, ...] | None], tuple[int, ...] | None],
    dtypes: Mapping[str, np.dtype[Any] | None],
    pieces: PieceReader,
) -> None:
    """Add the pieces of tensors.

    Args:
        folder: the folder of the checkpoint.
        places: the places of pieces and objects in files, as ``.metadata`` has them.
        distributed: the content to which the pieces are added.
        chunks: sizes by name and first coordinates, of which those of the pieces are taken.
        dtypes: the dtypes by tensor name.
        pieces: reads them.

    Raises:
        ModelError: a piece is not declared, or is broken.
    """
    location, files = Location(str(folder / METADATA)), dict[str, tuple[Path, tuple[Any, ...]]]()
    for index, info in _pairs(places):
        fields = fields_of(index)
        name, start = fields.get("fqn"), sizes_of(fields.get("offset"))
        if start is None:
            # The place of an object that is not an array.
            continue
        size = chunks.pop((name, start), None) if isinstance(name, str) else None
        if not isinstance(name, str) or size is None:
            raise (location / str(name)).error(
                f"has a stored piece at {[*start]}, which no chunk of the tensor declares"
            )
        if len(start) != len(size):
            raise (location / name).error(f"has a piece of shape {[*size]} at {[*start]}")
        try:
            where_read = pieces, files, folder
            piece = _piece(where_read, name, size, dtypes.get(name), fields_of(info), location / name)
        except ModelError as error:
            distributed.refused[name] = error
            continue
        distributed.tensors[name][1].append((piece, start))


def _piece(
    where_read: tuple[PieceReader, dict[str, tuple[Path, tuple[Any, ...]]], Path],
    name: str,
    shape: tuple[int, ...],
    dtype: np.dtype[Any] | None,
    info: Mapping[str, Any],
    location: Location,
) -> Store:
    """Return the store of a piece, which has the shape and the dtype that ``.metadata`` declares."""
    written, offset, length = (info.get(key) for key in ("relative_path", "offset", "length"))
    if not isinstance(written, str) or type(offset) is not int or type(length) is not int or min(offset, length) < 0:
        raise location.error("has a place without a path, an offset and a length")
    if info.get("transform_descriptors"):
        raise location.error("is compressed or otherwise transformed: save the checkpoint without extensions")
    pieces, files, folder = where_read
    if written not in files:
        path = file_in_folder(folder, written, location)
        with location.reading():
            files[written] = path, file_state(path)
    path, state = files[written]
    try:
        with location.reading():
            tensor = pieces.read(path, location, offset, length)
            if isinstance(tensor, Store):
                store = tensor
            else:
                for error in tensor.refused.values():
                    raise error
                (store,) = tensor.stores.values()
    except ModelError:
        raise
    except ValueError:
        raise location.error(f"is not a tensor at {offset} of {show(written)}") from None
    if store.shape != shape:
        raise location.error(f"must have shape {[*shape]} at {offset} of {show(written)}, not {[*store.shape]}")
    if dtype is not None and store.dtype != dtype:
        raise location.error(f"has {store.dtype} at {offset} of {show(written)}, but {dtype} is declared")
    return replace(store, name=name, seen=state)


def _declared(properties: Any) -> np.dtype[Any] | None:
    """Return the dtype in the properties of a tensor; None if the dtype is missing or unknown."""
    state = properties.state if isinstance(properties, PickledCall) else None
    first = state[0] if isinstance(state, tuple) and state else None
    return DTYPES_OF_TORCH.get(first.name) if isinstance(first, PickledName) and first.module == "torch" else None


def _pairs(value: Any) -> Iterator[tuple[Any, Any]]:
    return iter(value if isinstance(value, PickledDict) else ())
