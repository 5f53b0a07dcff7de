"""Remarks on checkpoints: tensors that are left out or belong to training, and checks of declared sizes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from pathlib import Path

from anydml.files.location import Location, names, show
from anydml.stores.checkpoints.composed import StoredTensors
from anydml.stores.checkpoints.model_config import ModelConfig, config_beside
from anydml.stores.formats.completeness import PARTS, RANK, RANKS, SHARDING, count_in_name, remarks_on_names
from anydml.stores.formats.gguf import SPLIT
from anydml.stores.formats.joined_metadata import are_different
from anydml.stores.formats.model_files import BIN_INDEX, INDEX, WEIGHTS
from anydml.stores.formats.store import Checkpoint
from anydml.text import count_noun

TRAINING = (
    "optim",
    "scheduler",
    "lr_",
    "rng",
    "random",
    "cuda_rng",
    "scaler",
    "grad_scaler",
    "dataloader",
    "train",
    "ema",
)
"""Prefixes of names, or of their second parts, that belong to training and not to the model."""

STATES = ("exp_avg", "exp_avg_sq", "max_exp_avg_sq", "momentum_buffer", "square_avg")
"""Endings of the names of the states that PyTorch's optimizers have per tensor of a model."""

OWN_KEYS = (SHARDING, "DCP_VERSION", RANK, RANKS, PARTS, *SPLIT)
"""Keys of metadata that describe one of several files, rather than tensors."""


def left_out(tensors: Iterable[str], others: Iterable[str]) -> list[str]:
    """Return remarks on the content of a checkpoint that is not part of a model.

    Args:
        tensors: names of all tensors.
        others: names of objects that are not tensors.
    """
    remarks = list[str]()
    all_names = [*tensors]
    # States of an optimizer for one tensor have equal names up to the last part.
    ends = tuple(f".{state}" for state in STATES)
    states = {name.rpartition(".")[0] for name in all_names if name.endswith(ends)}
    first = Counter[str]()
    depths: dict[str, int] = {}
    for name in all_names:
        before_dot, dot, after_dot = name.partition(".")
        begins = before_dot + dot + after_dot.partition(".")[0]
        if (depth := depths.get(begins)) is None:
            depth = depths[begins] = _training(begins.split("."))
        if depth or (states and name.rpartition(".")[0] in states):
            first[".".join(begins.split(".")[: depth or 1])] += 1
    if first:
        groups = ", ".join(f"{count} of {name}" for name, count in first.most_common(10))
        remarks.append(
            f"contains tensors that train a model, under their own names: {groups}; drop of reshard leaves them out"
        )
    if left_out_objects := [*others]:
        count = len(left_out_objects)
        predicate = "is not a tensor" if count == 1 else "are not tensors"
        remarks.append(f"leaves out {count_noun(count, 'object')} that {predicate}: {names(left_out_objects)}")
    return remarks


def _training(parts: list[str]) -> int:
    """Count the leading parts of a name that mark training state, such as an optimizer's; 0 if there are none."""
    for depth, part in enumerate(parts[:2], 1):
        if part.lower().startswith(TRAINING):
            return depth
    return 0


def remarks_on(checkpoint: Checkpoint) -> list[str]:
    """Return remarks on files that were opened singly: their part of a checkpoint, and the files that are left out."""
    remarks = beside_index(checkpoint) + left_out(checkpoint, checkpoint.other_objects)
    remarks += different_metadata([checkpoint])
    remarks += [f"cannot read {error}" for error in checkpoint.refused.values()]
    for path, metadata in checkpoint.file_metadata.items():
        if RANK in metadata:
            remarks.append(f"{path.name} holds the parts of rank {metadata[RANK]} of {metadata.get(RANKS)}")
        elif SHARDING in metadata:
            remarks.append(f"{path.name} holds pieces, at offsets that it records")
        elif (count := count_in_name(path)) > 1 and len(checkpoint.file_metadata) == 1:
            remarks.append(f"{path.name} is one of {count} files, by its name")
    return remarks


def different_metadata(checkpoints: Sequence[Checkpoint]) -> list[str]:
    """Return remarks on keys of metadata whose values differ between files; the last file's values are kept."""
    last, differing = dict[str, tuple[Path, str]](), set[str]()
    for checkpoint in checkpoints:
        for path, metadata in checkpoint.file_metadata.items():
            for key, value in metadata.items():
                if key not in OWN_KEYS and key in last and are_different(last[key][1], value):
                    differing.add(key)
                last[key] = path, value
    remarks = list[str]()
    for path in {last[key][0]: None for key in sorted(differing)}:
        keys = sorted(key for key in differing if last[key][0] == path)
        remarks.append(f"files differ in their metadata {names(keys)}: the values of {path.name} are taken")
    return remarks


def beside_index(checkpoint: Checkpoint) -> list[str]:
    """Return remarks on files that an index does not name, although they lie beside the index or have numbered names.

    Without an index, return remarks on files whose names do not show that they belong together.
    """
    if not checkpoint.path.is_dir():
        return []
    indexed_names, files = {path.name for path in checkpoint.file_metadata}, [*checkpoint.path.iterdir()]
    remarks = list[str]()
    says_itself = any(key in metadata for metadata in checkpoint.file_metadata.values() for key in (RANK, SHARDING))
    if not says_itself and not any(file.name.endswith((INDEX, BIN_INDEX)) for file in files):
        remarks += remarks_on_names(checkpoint.file_metadata)
    remarks += others_beside(checkpoint.path, indexed_names)
    max_files = max(map(count_in_name, checkpoint.file_metadata), default=1)
    if max_files > len(indexed_names):
        remarks.append(
            f"reads {len(indexed_names)} of {max_files} files that their names count, because the index names no others"
        )
    return remarks


def others_beside(folder: Path, read: Collection[str], along: tuple[str, ...] = ()) -> list[str]:
    """Return a remark on files of weights or states that are not read.

    Args:
        folder: the folder that is read.
        read: names of the files in it that are read.
        along: endings of the names of other files that are opened, although no tensor is taken from them.
    """
    along = INDEX, BIN_INDEX, *along
    all_names = {entry.name for entry in folder.iterdir()} - {*read}
    other_names = sorted(name for name in all_names if name.lower().endswith(WEIGHTS) and not name.endswith(along))
    if not other_names:
        return []
    return [f"leaves out {count_noun(len(other_names), 'other file')} in the folder: {names(other_names)}"]


def check_ends(tensors: StoredTensors, folder: Path) -> None:
    """Check tensors whose files do not state their size against other tensors and config.json.

    Args:
        tensors: the tensors by name.
        folder: the folder, which may have a config.json.

    Raises:
        ModelError: a tensor is too short.
    """
    for name, rows, source in _minimum_rows(tensors, config_beside(folder)):
        if name in tensors and tensors[name].ndim and tensors[name].shape[0] < rows:
            rows_text = count_noun(tensors[name].shape[0], "row")
            raise (Location(str(folder)) / name).error(
                f"has {rows_text} in these files, but {source} says {rows}: files are missing"
            )


def _minimum_rows(tensors: StoredTensors, config: ModelConfig | None) -> Iterator[tuple[str, int, str]]:
    """Yield names of tensors, the minimum number of rows of each, and the source of that number."""
    for name, tensor in tensors.items():
        module, _, last = name.rpartition("down_proj.weight")
        if not last and tensor.ndim == 2:
            for projection in ("up_proj", "gate_proj"):
                yield f"{module}{projection}.weight", tensor.shape[1], show(name)
        elif name.endswith("embed_tokens.weight") and tensor.ndim == 2:
            width, prefix = tensor.shape[1], name.removesuffix("embed_tokens.weight")
            yield f"{prefix}norm.weight", width, show(name)
            for shown in tensors:
                if shown.startswith(prefix) and shown.endswith(
                    ("input_layernorm.weight", "post_attention_layernorm.weight")
                ):
                    yield shown, width, show(name)
            for part in config.parts if config else ():
                if type(part.get("vocab_size")) is int and part.get("hidden_size") == width:
                    yield name, part["vocab_size"], "vocab_size of config.json"
