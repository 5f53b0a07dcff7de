"""Reading of checkpoints, sharded in any way.

Files contain whole tensors, pieces of distributed checkpoints of PyTorch, or the parts of tensor-parallel ranks. For
pieces in safetensors files, ``DCP_SHARDING_INFO`` in ``__metadata__`` has their offsets in tensors, as
``HuggingFaceStorageWriter`` of torch.distributed.checkpoint writes it.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from anydml.errors import ModelError
from anydml.files.addresses import Address
from anydml.files.located import locate, real_path
from anydml.files.location import Location, names, show
from anydml.stores.checkpoints.composed import StoredTensors
from anydml.stores.checkpoints.joined import join_ranks, parts_of
from anydml.stores.checkpoints.known_axes import Model
from anydml.stores.checkpoints.model_config import config_beside
from anydml.stores.checkpoints.parallel_axes import Axes
from anydml.stores.checkpoints.remarks import (
    OWN_KEYS,
    beside_index,
    check_ends,
    different_metadata,
    left_out,
    others_beside,
)
from anydml.stores.checkpoints.selecting import EVERYTHING, Selection
from anydml.stores.checkpoints.sharded import tensor_of
from anydml.stores.checkpoints.training_folders import TRAINING_FILE_ENDINGS, is_trained, read_trained, remark_on_rank
from anydml.stores.formats.completeness import (
    RANK,
    SHARDING,
    check_numbers,
    check_one,
    check_order,
    ranks_in_order,
    remarks_on_counts,
)
from anydml.stores.formats.joined_metadata import last_values
from anydml.stores.formats.model_files import METADATA, ChosenFiles, choose_files
from anydml.stores.formats.opening import join_files, open, opened_file
from anydml.stores.formats.safetensors import parse_json
from anydml.stores.formats.store import Checkpoint, Store, StoredPiece
from anydml.stores.formats.zarr_metadata import is_zarr_group
from anydml.text import count_noun


class Sources(NamedTuple):
    """The tensors read from checkpoints, and notes on the others.

    Attributes:
        tensors: the tensors by name.
        metadata: the metadata of the files, without keys that describe shards.
        remarks: notes for users on what was left out or could not be checked.
    """

    tensors: StoredTensors
    metadata: dict[str, str]
    remarks: list[str]


def read_sources(
    paths: Sequence[str | os.PathLike[str]],
    axes: Axes,
    follow: bool = True,
    selection: Selection = EVERYTHING,
    name: str = "open",
) -> Sources:
    """Read the headers of a checkpoint.

    Args:
        paths: a checkpoint; or several paths: files whose metadata tell their part, in any order, or else one per
            tensor-parallel rank, in order.
        axes: the axes along which parts of ranks are joined, unless their files record them.
        follow: as in `open`.
        selection: the selection of tensors, by their names in the checkpoint.
        name: the name of the command, for errors of the selection.

    Raises:
        ModelError: a file is broken, shards do not make whole tensors, or the selection does not fit.
    """
    located_paths = [locate(name, path) for path in paths]
    real = [*map(real_path, located_paths)]
    repeated_path = next((path for k, path in enumerate(located_paths) if real[k] in real[:k]), None)
    if repeated_path is not None:
        raise Location(str(repeated_path)).error("is named twice: name the files of each tensor-parallel rank once")
    path = located_paths[0]
    if len(located_paths) > 1:
        return sources_of(
            [file for located_path in located_paths for file in _files(located_path, follow)], axes, selection, name
        )
    chosen = _chosen(path, follow)
    if (folder := _folder_of_training(path, chosen)) is not None:
        tensors, other_objects, unread, remarks = read_trained(folder, axes)
        remarks += others_beside(folder, {file.name for file in _files_of(tensors)}, TRAINING_FILE_ENDINGS)
        return _select(Sources(tensors, {}, remarks), other_objects, unread, selection, name)
    if (files := chosen.files) and files[0].suffix == ".safetensors":
        location = Location(str(path))
        check_numbers(files, location)
        opened = [*map(opened_file, files)]
        is_sharded = any(key in checkpoint.metadata for checkpoint in opened for key in (RANK, SHARDING))
        if not is_sharded:
            check_one(files, location)
        sources = sources_of(opened if is_sharded else [join_files(path, opened, location)], axes, selection, name)
        other_files = others_beside(path, {file.name for file in files}) if is_sharded else []
        return sources._replace(remarks=[*sources.remarks, *other_files])
    remark = remark_on_rank(path) if path.is_file() else None
    sources = sources_of([_checkpoint(path, follow)], axes, selection, name)
    return sources if remark is None else sources._replace(remarks=[remark, *sources.remarks])


def _select(
    sources: Sources, other_objects: Sequence[str], refused: Mapping[str, ModelError], selection: Selection, name: str
) -> Sources:
    """Return the tensors of a selection, with remarks on them and on other objects.

    Raises:
        ModelError: a selected tensor cannot be read.
    """
    all_tensors: dict[str, Any] = {**sources.tensors, **refused}
    tensors, other_objects, remarks = selection.apply(name, all_tensors, other_objects)
    for tensor in tensors.values() if refused else ():
        if isinstance(tensor, ModelError):
            side = " of A, which is given first" if name == "verify" else ""
            raise ModelError(f"{tensor}; drop leaves it out{side}", field=tensor.field)
    return Sources(tensors, sources.metadata, sources.remarks + remarks + left_out(tensors, other_objects))


def sources_of(
    opened: Sequence[Checkpoint], axes: Axes, selection: Selection = EVERYTHING, name: str = "open"
) -> Sources:
    """Return the sources of open checkpoints, as `read_sources` does.

    Args:
        opened: one checkpoint, or several that together are one.
        axes: as in `read_sources`.
        selection: as in `read_sources`.
        name: as in `read_sources`.
    """
    location = Location(str(opened[0].path if len(opened) == 1 else opened[0].path.parent))
    remarks, refused = list[str](), {key: error for checkpoint in opened for key, error in checkpoint.refused.items()}
    tensors: StoredTensors
    metadata_keys = {key for checkpoint in opened for of_file in checkpoint.file_metadata.values() for key in of_file}
    if RANK in metadata_keys:
        ranks = ranks_in_order([*_checkpoint_per_file(opened)], location)
        tensors = parts_of(ranks)
        if (folders := len({rank.path.parent for rank in ranks})) > 1:
            remarks.append(
                f"joins ranks of {folders} folders, whose files do not state whether they were written together"
            )
    elif SHARDING in metadata_keys:
        files = [*_checkpoint_per_file(opened)]
        tensors = _assemble(files, location)
        check_ends(tensors, files[0].path.parent)
        remarks.append(
            f"takes the ends of tensors from {count_noun(len(files), 'file')}, which do not state whether there are "
            "more"
        )
    elif len(opened) > 1:
        tensors, unknown, remarks = _join_ranks(opened, axes)
        refused |= unknown
    else:
        tensors = opened[0].stores
        remarks += beside_index(opened[0])
    remarks += remarks_on_counts(opened)
    if packed := sum(store.packed is not None for checkpoint in opened for store in checkpoint.stores.values()):
        remarks.append(f"unpacks {count_noun(packed, 'compressed tensor')} while they are read")
    remarks += different_metadata(opened)
    other_objects = [name for checkpoint in opened for name in checkpoint.other_objects]
    return _select(Sources(tensors, _plain(opened), remarks), other_objects, refused, selection, name)


def _join_ranks(opened: Sequence[Checkpoint], axes: Axes) -> tuple[StoredTensors, dict[str, ModelError], list[str]]:
    """Return the tensors of ranks or of stages, errors of tensors that cannot be joined, and remarks.

    Raises:
        ModelError: some names are in all ranks, and others are not.
    """
    all_names = {name for checkpoint in opened for name in checkpoint}
    if len(all_names) == sum(map(len, opened)):
        inputs = count_noun(len(opened), "input")
        remark = f"takes {inputs} as parts of one checkpoint, because no tensor is in two of them"
        return {name: store for checkpoint in opened for name, store in checkpoint.stores.items()}, {}, [remark]
    for rank in opened[1:]:
        if different := sorted({*rank} ^ {*opened[0]}):
            location = Location(str(rank.path))
            raise location.error(f"and {opened[0].path} differ in {show(different[0])}: ranks have the same tensors, "
                              "and parts of one checkpoint have none in common")  # fmt: skip
    check_order([checkpoint.path for checkpoint in opened])
    where, unread = opened[0].path, {name for checkpoint in opened for name in checkpoint.refused}
    ranks = [{name: store for name, store in checkpoint.stores.items() if name not in unread} for checkpoint in opened]
    tensors, refused = join_ranks(ranks, axes, Model(ranks[0], config_beside(where), len(ranks), True), where)
    order = names("/".join(checkpoint.path.parts[-2:]) for checkpoint in opened)
    return tensors, refused, [f"joins {len(opened)} inputs as tensor-parallel ranks, in this order: {order}"]


def _checkpoint_per_file(opened: Sequence[Checkpoint]) -> Iterator[Checkpoint]:
    """Yield the same tensors as one checkpoint per file."""
    for checkpoint in opened:
        stores: dict[Path, dict[str, Store]] = {path: {} for path in checkpoint.file_metadata}
        for name, store in checkpoint.items():
            stores[store.path][name] = store
        for path, metadata in checkpoint.file_metadata.items():
            yield Checkpoint(path, stores[path], metadata, {path: metadata})


def _chosen(path: Path, follow: bool) -> ChosenFiles:
    """Return the files of a folder; an empty list if the path is not a folder."""
    return choose_files(path, follow) if path.is_dir() else ChosenFiles(None, [])


def _folder_of_training(path: Path, chosen: ChosenFiles) -> Path | None:
    """Return a training program's folder, or that of a file ``.metadata``, if it has no files of whole tensors."""
    if path.name == METADATA and path.is_file():
        return path.parent
    return path if chosen == (None, []) and path.is_dir() and is_trained(path) else None


def _files_of(tensors: StoredTensors) -> Iterable[Path]:
    """Return the files that contain elements of tensors."""
    # By id, because hashing a path is slow.
    return {id(piece.store.path): piece.store.path for tensor in tensors.values() for piece in tensor.pieces}.values()


def check_apart(paths: Sequence[str | os.PathLike[str]], out: Path) -> None:
    """Refuse an output that would become part of an input: every safetensors file in an input folder without an index.

    Raises:
        ModelError: the file would be in such a folder.
    """
    if out.suffix.lower() != ".safetensors" or isinstance(out, Address):
        return
    for source in paths:
        path = locate("reshard", source)
        if isinstance(path, Address) or not path.is_dir() or real_path(path) != real_path(out.parent):
            continue
        if any(file.suffix == ".safetensors" for file in choose_files(path, True).files):
            raise Location(str(out)).error(
                f"would be one of the files of {path}, which is an input: name another output"
            )


def is_in_pieces(path: Path, follow: bool = True) -> bool:
    """Whether a path is a folder whose files contain pieces of tensors, or parts of ranks.

    Raises:
        ModelError: a file is broken.
    """
    if _folder_of_training(path, chosen := _chosen(path, follow)) is not None:
        return True
    file_metadata = (opened_file(file).metadata for file in chosen.files[:1])
    return any(key in metadata for metadata in file_metadata for key in (RANK, SHARDING))


def _checkpoint(path: Path, follow: bool) -> Checkpoint:
    checkpoint = None if is_zarr_group(path) else open(path, follow)
    if not isinstance(checkpoint, Checkpoint):
        raise Location(str(path)).error("is not a checkpoint: name a .safetensors file, or a folder with such files")
    return checkpoint


def _files(folder: Path, follow: bool) -> list[Checkpoint]:
    """Return the files of one of several inputs, if the files record their ranks; otherwise the input itself."""
    files = _chosen(folder, follow).files
    if files and RANK in opened_file(files[0]).metadata:
        # Missing files are noticed once all inputs are read.
        return [*map(opened_file, files)]
    return [_checkpoint(folder, follow)]


def _plain(checkpoints: Sequence[Checkpoint]) -> dict[str, str]:
    all_metadata = last_values(metadata for checkpoint in checkpoints for metadata in checkpoint.file_metadata.values())
    return {key: value for key, value in all_metadata.items() if key not in OWN_KEYS}


def _assemble(files: Sequence[Checkpoint], folder: Location) -> StoredTensors:
    """Return the tensors of the pieces of a distributed checkpoint."""
    pieces: dict[str, list[StoredPiece]] = {}
    if (unsharded := next((file for file in files if SHARDING not in file.metadata), None)) is not None:
        raise folder.error(
            f"has files of shards, and {unsharded.path.name}, which is none: name only the shards' files"
        )
    check_numbers([file.path for file in files], folder)
    for file in files:
        location = Location(str(file.path)) / "__metadata__" / SHARDING
        sharding = parse_json(file.metadata[SHARDING].encode("utf-8", "replace"), location, "text")
        for name, store in file.items():
            entry = sharding.get(name) if isinstance(sharding, dict) else None
            start = entry.get("saved_offsets") if isinstance(entry, dict) else None
            if (
                not isinstance(start, list)
                or len(start) != store.ndim
                or any(type(n) is not int or not 0 <= n < 1 << 62 for n in start)
            ):
                raise (location / name).error(f"must have saved_offsets of {store.ndim} integers, not {show(start)}")
            pieces.setdefault(name, []).append(StoredPiece.of_store(store, tuple(start)))
    return {name: tensor_of(name, tensor_pieces) for name, tensor_pieces in pieces.items()}
