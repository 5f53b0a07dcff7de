"""Folders of Megatron: ``mp_rank_00/model_optim_rng.pt`` and others, each of which numbers layers and experts from 0.

Each rank has the layers of a stage in one model, or in several if stages are interleaved. Layers and experts get their
numbers in the whole model.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from anydml.errors import ModelError
from anydml.files.location import Location, names, show
from anydml.stores.checkpoints.composed import StoredTensors
from anydml.stores.checkpoints.joined import join_ranks
from anydml.stores.checkpoints.known_axes import Model
from anydml.stores.checkpoints.parallel_axes import Axes
from anydml.stores.formats.pickle_reader import fields_of
from anydml.stores.formats.store import Store
from anydml.stores.formats.torch_save import TorchDict, read_torch_dict
from anydml.text import count_noun

TRACKER = "latest_checkpointed_iteration.txt"
"""The file in a folder of checkpoints that names the latest one."""

FILES = ("model_optim_rng.pt", "model_rng.pt")

_RANK = re.compile(r"mp_rank_(\d{2,4})(?:_(\d{3,4}))?(?:_(\d{3,4}))?")
_MODEL = re.compile(r"model(\d*)\.(.*)", re.DOTALL)
_LAYER = re.compile(r"((?:.*\.)?layers\.)(\d+)(\..*)", re.DOTALL)
_EXPERT = re.compile(r"(.*\.local_experts\.)(\d+)(\..*)|(.*\.experts\.linear_fc[12]\.(?:weight|bias))(\d+)", re.DOTALL)


class RankIndex(NamedTuple):
    """The rank of a file, by tensor parallelism, stage and experts."""

    tp: int
    pp: int
    ep: int


def megatron_folder(folder: Path) -> Path | None:
    """Return the folder of a checkpoint: a folder itself, or its latest iteration; None if Megatron did not write it.

    Raises:
        ModelError: the iteration does not exist.
    """
    if any(_RANK.fullmatch(entry.name) for entry in folder.iterdir()):
        return folder
    tracker = folder / TRACKER
    if not tracker.is_file() or tracker.stat().st_size > 4096:
        return None
    iteration = tracker.read_text("utf-8", "replace").strip()
    name = f"iter_{int(iteration):07}" if iteration.isdecimal() else iteration
    if Path(name).name != name or not (folder / name).is_dir():
        raise Location(str(tracker)).error(
            f"names iteration {show(iteration)}, but there is no folder {show(name)} beside it"
        )
    return folder / name


def read_megatron(folder: Path, axes: Axes) -> tuple[StoredTensors, dict[str, ModelError], list[str]]:
    """Return the tensors of the model, errors of those that cannot be joined, and remarks.

    Args:
        folder: a folder that `megatron_folder` returns.
        axes: the axes along which tensors are shared.

    Raises:
        ModelError: files are missing or broken, or ranks do not fit each other.
    """
    location = Location(str(folder))
    files, args = _files(folder, location)
    # Numbers of layers depend on the earlier stages.
    described_by = tuple((file.path, file.seen) for file in files.values())
    tp, pp, ep = (1 + max(numbers) for numbers in zip(*files, strict=True))
    chunks = sorted({match[1] for file in files.values() for name in file.tensors.stores
                     if (match := _MODEL.match(name))}, key=lambda text: int(text or 0))  # fmt: skip
    if not chunks or any(int(chunk or k) != k for k, chunk in enumerate(chunks)):
        raise location.error("has no tensors under model, or not under model0, model1 and so on")
    _check(files, args, tp, location)
    ranks: list[dict[str, list[Store]]] = [{} for _ in range(tp)]
    numbers = _LayerNumbers(location)
    left_out = dict[str, None]()
    for chunk in chunks:
        for stage in range(pp):
            base = numbers.layers
            for rank_index in (RankIndex(rank, stage, expert) for expert in range(ep) for rank in range(tp)):
                tensors = files[rank_index].under(f"model{chunk}")
                numbers.see(tensors)
                for name, store in tensors.items():
                    store.described_by = described_by
                    if name.endswith("_extra_state"):
                        left_out[name] = None
                    else:
                        ranks[rank_index.tp].setdefault(numbers.whole_name(name, base, rank_index.ep), []).append(store)
            numbers.next()
    layer_count = args.get("num_layers")
    if type(layer_count) is int and numbers.layers and layer_count not in numbers.layers.values():
        raise location.error(f"has {count_noun(max(numbers.layers.values()), 'layer')}, but args state {layer_count}")
    for rank in ranks[1:]:
        if different := sorted({*rank} ^ {*ranks[0]}):
            raise location.error(f"has {show(different[0])} in some ranks only")
    first = [{name: stores[0] for name, stores in rank.items()} for rank in ranks]
    further = {name: [*zip(*(rank[name][1:] for rank in ranks), strict=True)] for name in first[0]}
    changed_tensors, refused = join_ranks(first, axes, Model(first[0], None, tp, True), folder, further)
    return changed_tensors, refused, _remarks(files, folder, RankIndex(tp, pp, ep), [*left_out], changed_tensors)


def _files(folder: Path, location: Location) -> tuple[dict[RankIndex, TorchDict], dict[str, Any]]:
    """Return the files by rank, and the arguments of the program that wrote them.

    Raises:
        ModelError: a file is missing, or does not tell its rank.
    """
    rank_files = {match: entry for entry in sorted(folder.iterdir()) if (match := _RANK.fullmatch(entry.name))}
    paths = dict[tuple[str | None, ...], Path]()
    for match, rank_file in rank_files.items():
        files_inside = [rank_file / name for name in FILES if (rank_file / name).is_file()]
        if not files_inside:
            raise location.error(f"has {rank_file.name}, in which there is no {FILES[0]}")
        paths[match.groups()] = files_inside[0]
    files = {key: read_torch_dict(path) for key, path in paths.items()}
    args = fields_of(next(iter(files.values())).items.get("args"))
    stages, experts = (args.get(f"{kind}_model_parallel_size") for kind in ("pipeline", "expert"))
    kinds = {(second is not None, third is not None) for _, second, third in files}
    if len(kinds) > 1:
        raise location.error(f"has folders of several kinds: {names(entry.name for entry in rank_files.values())}")
    if kinds == {(True, False)} and (stages in (None, 1)) == (experts in (None, 1)):
        raise location.error("has folders mp_rank_00_000, and no args that state whether their second numbers are of "
                          "stages or of experts")  # fmt: skip
    is_of_experts = kinds == {(True, False)} and stages in (None, 1)
    by_rank = {
        RankIndex(
            int(first or 0), 0 if is_of_experts else int(second or 0), int((second if is_of_experts else third) or 0)
        ): file
        for (first, second, third), file in files.items()
    }
    counts = [1 + max(numbers) for numbers in zip(*by_rank, strict=True)]
    expected_counts = [args.get("tensor_model_parallel_size"), stages, experts]
    for count, expected, noun in zip(
        counts, expected_counts, ("tensor-parallel ranks", "stages", "ranks of experts"), strict=True
    ):
        if type(expected) is int and expected != count:
            raise location.error(f"has folders of {count} {noun}, but args state {expected}: add the missing folders")
    if len(by_rank) != counts[0] * counts[1] * counts[2]:
        raise location.error(f"must have {counts[0]} × {counts[1]} × {counts[2]} folders of ranks, not {len(by_rank)}")
    return by_rank, args


def _check(files: Mapping[RankIndex, TorchDict], args: Mapping[str, Any], tp: int, location: Location) -> None:
    """Refuse tensors that ranks share, but not along an axis.

    Raises:
        ModelError: there are such tensors.
    """
    if tp == 1:
        return
    file = next(iter(files.values()))
    version = file.items.get("checkpoint_version", 0)
    if any("query_key_value" in name for name in file.tensors.stores) and version not in (2.0, 3.0):
        raise location.error(
            f"has checkpoint_version {version}, in which queries, keys and values are in another order"
        )
    groups = args.get("num_query_groups") if args.get("group_query_attention") else None
    if type(groups) is int and groups % tp:
        raise location.error(f"has {count_noun(groups, 'group')} of queries for {tp} ranks, which have copies of them: "
                          "they are not joined")  # fmt: skip
    if args.get("expert_tensor_parallel_size") not in (None, tp) and args.get("num_experts"):
        raise location.error(f"has experts that {args['expert_tensor_parallel_size']} ranks share, and other tensors "
                          f"that {tp} do: they are not joined")  # fmt: skip


class _LayerNumbers:
    """Computes the numbers of layers and experts in the whole model.

    Attributes:
        layers: the number of layers of earlier stages, by the prefix of their names.
    """

    def __init__(self, location: Location) -> None:
        self.layers: dict[str, int] = {}
        self._location, self._own, self._experts = location, dict[str, int](), dict[str, int]()

    def see(self, stage: Mapping[str, Store]) -> None:
        """Count the layers and experts of a rank in a stage.

        Raises:
            ModelError: numbers do not begin at 0, or ranks of the stage differ.
        """
        layers, experts = dict[str, set[int]](), dict[str, set[int]]()
        for name in stage:
            if match := _LAYER.fullmatch(name):
                layers.setdefault(match[1], set()).add(int(match[2]))
            if match := _EXPERT.fullmatch(name):
                experts.setdefault("", set()).add(int(match[2] or match[5]))
        for kind, counts in ((layers, self._own), (experts, self._experts)):
            for key, numbers in kind.items():
                if numbers != {*range(len(numbers))} or counts.setdefault(key, len(numbers)) != len(numbers):
                    raise self._location.error(
                        f"has a rank with numbers {min(numbers)} to {max(numbers)} of {key or 'experts'}, but all of "
                        "a stage have the same from 0 on"
                    )

    def whole_name(self, name: str, before: Mapping[str, int], rank: int) -> str:
        """Return the name of a tensor in the whole model.

        Args:
            name: the tensor's name in its rank.
            before: the number of layers of earlier stages.
            rank: the rank among those that share experts.
        """
        if match := _EXPERT.fullmatch(name):
            whole_number = int(match[2] or match[5]) + rank * self._experts[""]
            name = f"{match[1]}{whole_number}{match[3]}" if match[1] else f"{match[4]}{whole_number}"
        if match := _LAYER.fullmatch(name):
            name = f"{match[1]}{int(match[2]) + before.get(match[1], 0)}{match[3]}"
        return name

    def next(self) -> None:
        """Begin the next stage."""
        self.layers = {key: self.layers.get(key, 0) + self._own.get(key, 0) for key in {**self.layers, **self._own}}
        self._own = {}


def _remarks(
    files: Mapping[RankIndex, TorchDict],
    folder: Path,
    counts: RankIndex,
    left_out: Sequence[str],
    tensors: StoredTensors,
) -> list[str]:
    counts_text = [count_noun(counts.tp, "tensor-parallel rank"), count_noun(counts.pp, "stage")]
    counts_text += [f"{counts.ep} ranks of experts"] if counts.ep > 1 else []
    remarks = [f"joins {', '.join(counts_text)} of {folder.name}"]
    other_count = sum(not _MODEL.match(name) for file in files.values() for name in file.tensors.stores)
    if other_count:
        remarks.append(f"leaves out {count_noun(other_count, 'tensor')} of the optimizer and of random numbers")
    if left_out:
        remarks.append(
            f"leaves out {count_noun(len(left_out), 'tensor')} …_extra_state, which are not weights: {names(left_out)}"
        )
    padded = [name for name in tensors if name.endswith(("word_embeddings.weight", "output_layer.weight"))]
    if padded:
        rows = tensors[padded[0]].shape[0]
        remarks.append(f"keeps all {count_noun(rows, 'row')} of {names(padded)}, of which the last may fill up the "
                       "vocabulary: --vocab-size says how many are words")  # fmt: skip
    return remarks
