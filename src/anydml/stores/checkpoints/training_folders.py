"""Folders that training programs write: their recognition, and their tensors."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from anydml.errors import ModelError
from anydml.files.addresses import Address
from anydml.files.location import Location
from anydml.stores.checkpoints.composed import StoredTensors
from anydml.stores.checkpoints.joined import join_ranks
from anydml.stores.checkpoints.known_axes import Model
from anydml.stores.checkpoints.megatron import FILES, megatron_folder, read_megatron
from anydml.stores.checkpoints.model_config import config_beside
from anydml.stores.checkpoints.parallel_axes import Axes
from anydml.stores.checkpoints.sharded import tensor_of
from anydml.stores.formats.deepspeed import is_model_file, rank_in_name, read_zero, zero_folder
from anydml.stores.formats.model_files import METADATA
from anydml.stores.formats.opening import opened_file
from anydml.stores.formats.store import StoredPiece
from anydml.stores.formats.torch_distributed import DistributedContent, read_distributed
from anydml.text import count_noun

TRAINING_FILE_ENDINGS = (".distcp", "_model_states.pt", "_optim_states.pt")
"""Endings of names of files that are read together, although some may have no tensor of the model."""

_CONSOLIDATED = re.compile(r"consolidated\.(\d{1,9})\.pth")
"""Names of Meta's files of Llama, one per rank."""


class TrainingCheckpoint(NamedTuple):
    """The contents of a folder that a training run wrote.

    Attributes:
        tensors: the tensors by name.
        other_objects: names of objects that are not tensors.
        refused: errors of tensors that cannot be read, by name.
        remarks: notes for users on what was chosen, left out or assumed.
    """

    tensors: StoredTensors
    other_objects: Sequence[str]
    refused: dict[str, ModelError]
    remarks: list[str]


def is_trained(folder: Path) -> bool:
    """Whether a training program wrote a folder.

    Raises:
        ModelError: the folder refers to a folder that does not exist.
    """
    location = Location(str(folder))
    with location.reading():
        return (
            (folder / METADATA).is_file()
            or any(_CONSOLIDATED.fullmatch(entry.name) for entry in folder.iterdir())
            or zero_folder(folder) is not None
            or megatron_folder(folder) is not None
        )


def read_trained(folder: Path, axes: Axes) -> TrainingCheckpoint:
    """Read the headers of such a folder.

    Args:
        folder: a folder for which `is_trained` is true.
        axes: the axes along which ranks share tensors.

    Raises:
        ModelError: files are broken or missing, or do not fit each other.
    """
    if (folder / METADATA).is_file():
        return _read_torch_distributed(read_distributed(folder))
    if (zero := zero_folder(folder)) is not None:
        return _read_torch_distributed(read_zero(zero))
    if (megatron := megatron_folder(folder)) is not None:
        if (megatron / METADATA).is_file():
            return _read_torch_distributed(read_distributed(megatron))
        tensors, refused, remarks = read_megatron(megatron, axes)
        return TrainingCheckpoint(tensors, [], refused, remarks)
    return _read_consolidated(folder, axes)


def _read_torch_distributed(distributed: DistributedContent) -> TrainingCheckpoint:
    tensors = {
        name: tensor_of(name, [StoredPiece.of_store(*piece) for piece in of_tensor], shape)
        for name, (shape, of_tensor) in distributed.tensors.items()
    }
    return TrainingCheckpoint(tensors, distributed.other_objects, distributed.refused, distributed.remarks)


def _read_consolidated(folder: Path, axes: Axes) -> TrainingCheckpoint:
    """Read Meta's files of Llama, one per rank."""
    location = Location(str(folder))
    by_rank = {int(match[1]): entry for entry in folder.iterdir() if (match := _CONSOLIDATED.fullmatch(entry.name))}
    if missing := sorted({*range(max(by_rank) + 1)} - {*by_rank}):
        raise location.error(f"lacks the files consolidated.NN.pth of rank {', '.join(map(str, missing[:10]))}")
    ranks = [opened_file(by_rank[rank]) for rank in range(len(by_rank))]
    for rank in ranks[1:]:
        if different := sorted({*rank} ^ {*ranks[0]}):
            raise location.error(f"has {different[0]} in {rank.path.name} or {ranks[0].path.name}, but not in both")
    config = config_beside(folder)
    unread = {name: error for rank in ranks for name, error in rank.refused.items()}
    of_rank = [{name: store for name, store in rank.stores.items() if name not in unread} for rank in ranks]
    tensors, refused = join_ranks(of_rank, axes, Model(of_rank[0], config, len(ranks), True), folder)
    remarks = [f"joins {count_noun(len(ranks), 'tensor-parallel rank')}"] if len(ranks) > 1 else []
    if config is None and len(ranks) > 1:
        remarks.append("takes the ends of tensors from these files: no params.json states whether there are more")
    return TrainingCheckpoint(tensors, ranks[0].other_objects, {**unread, **refused}, remarks)


def remark_on_rank(path: Path) -> str | None:
    """Return a remark on a file that has one rank's parts by its name, if files of other ranks lie beside it.

    Raises:
        ModelError: the file is of stage 3 of DeepSpeed's ZeRO, whose files contain no tensors of the model.
    """
    if (rank := rank_in_name(path)) is not None:
        raise Location(str(path)).error(f"has the parts of rank {rank} of DeepSpeed's ZeRO: name its folder")
    if isinstance(path, Address) and not path.is_listed:
        return None
    files = sorted(path.parent.iterdir())
    if path.name in FILES and path.parent.name.startswith("mp_rank_"):
        of_rank = [entry for entry in path.parent.parent.iterdir() if entry.name.startswith("mp_rank_")]
        message = "numbers of layers are those of its stage; name the folder above for the whole"
        return f"reads one of {len(of_rank)} ranks of Megatron, whose {message}" if len(of_rank) > 1 else None
    if is_model_file(path):
        of_rank = [entry for entry in files if is_model_file(entry)]
        return (
            f"reads the parts of one of {len(of_rank)} model-parallel ranks of DeepSpeed" if len(of_rank) > 1 else None
        )
    if _CONSOLIDATED.fullmatch(path.name):
        of_rank = [entry for entry in files if _CONSOLIDATED.fullmatch(entry.name)]
        return (
            f"reads the parts of one of {len(of_rank)} ranks; name the folder for the whole"
            if len(of_rank) > 1
            else None
        )
    return None
