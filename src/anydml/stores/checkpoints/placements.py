"""Placements: the part of each tensor that a rank has, by pipeline, expert and tensor parallelism and FSDP."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from anydml.errors import ModelError
from anydml.files.location import names, show
from anydml.moves.composer import Composer
from anydml.moves.value import Value
from anydml.stores.checkpoints.axis import MAX_RANKS, AxisIntervals, near_divisors
from anydml.stores.checkpoints.companions import DependentAxes, depends_on
from anydml.stores.checkpoints.composed import ComposedTensor, ComposedTensors, Parts, WholeTensors, slice_value
from anydml.stores.checkpoints.known_axes import Model, weight_of
from anydml.stores.checkpoints.model_config import ModelConfig
from anydml.stores.checkpoints.parallel_axes import Axes
from anydml.stores.formats.store import Numbers
from anydml.text import count_noun

_LAYER = re.compile(r"(?:(.*?)\.)?([0-9]+)\.", re.DOTALL)
_EXPERT = re.compile(r".*(?:\b|_)experts\.([0-9]+)\.", re.DOTALL)
_LAST = re.compile(r"(?!.*embed).*(norm|lm_head|output|score|classifier)", re.DOTALL)


class Placement(NamedTuple):
    """Numbers of ranks of each kind; tensor-parallel ranks are consecutive, then expert-parallel ones.

    Attributes:
        pp: stages of consecutive layers.
        fsdp: ranks that share the first axis of each tensor; the last one has fewer rows, as in PyTorch.
        ep: ranks that share experts.
        tp: ranks that share tensors along axes.
    """

    pp: int = 1
    fsdp: int = 1
    ep: int = 1
    tp: int = 1

    @classmethod
    def of(cls, name: str, ranks: int | Mapping[str, int]) -> Placement:
        """Return the placement for a number of tensor-parallel ranks, or for numbers by name.

        Raises:
            ModelError: a name is not known, or a number is not valid.
        """
        counts = {"tp": ranks} if isinstance(ranks, int) else {**ranks}
        if unknown := [key for key in counts if key not in cls._fields]:
            raise ModelError(f"{name}: ranks has the unknown key {show(unknown[0])}: use {', '.join(cls._fields)}")
        for key, count in counts.items():
            if type(count) is not int or not 1 <= count <= MAX_RANKS:
                raise ModelError(f"{name}: {key} is {show(count)}, but must be 1 to {MAX_RANKS}")
        placement = cls(**counts)
        if placement.ranks > MAX_RANKS:
            raise ModelError(f"{name}: the number of ranks must be from 1 to {MAX_RANKS}, not {placement.ranks}")
        return placement

    @property
    def ranks(self) -> int:
        """The total number of ranks."""
        return math.prod(self)

    def indices_of(self, rank: int) -> Placement:
        """Return the index of a rank among the ranks of each kind."""
        ranks = []
        for count in reversed(self):
            rank, index = divmod(rank, count)
            ranks.append(index)
        return Placement(*reversed(ranks))


class RankTensors:
    """The tensors of a checkpoint, divided among ranks.

    Args:
        tensors: the tensors by name.
        axes: the axes along which tensor-parallel ranks share them.
        placement: the placement of the ranks.
        where: the checkpoint, for errors.
        config: the content of config.json, if there is one.

    Attributes:
        made: the tensors, with the values of parts.

    Raises:
        ModelError: there are more stages than layers, or experts cannot be shared evenly.
    """

    def __init__(
        self, tensors: ComposedTensors, axes: Axes, placement: Placement, where: str, config: ModelConfig | None
    ) -> None:
        self.axes, self.placement, self.tensors, self._where = axes, placement, tensors, where
        self.whole_tensors = WholeTensors([*tensors.items()])
        self._is_divided = False
        self._values: dict[tuple[int, tuple[AxisIntervals, ...]], Value] = {}
        self._model = Model(tensors, config, placement.tp)
        all_names = [*tensors]
        layers = ((name, match) for name in all_names if (match := _LAYER.match(name))) if placement.pp > 1 else ()
        self._layer = {name: (match[1], int(match[2])) for name, match in layers}
        stacks = Counter(stack for stack, _ in self._layer.values())
        self._stack = max(stacks, key=lambda stack: stacks[stack], default=None)
        self._layers = 1 + max((layer for stack, layer in self._layer.values() if stack == self._stack), default=-1)
        if placement.pp > 1 and self._layers < placement.pp:
            possible = (
                "1" if self._layers < 2 else f"1 or {self._layers}" if self._layers == 2 else f"1 to {self._layers}"
            )
            raise ModelError(
                f"{where} has {count_noun(self._layers, 'layer')}, too few for {count_noun(placement.pp, 'stage')}: "
                f"--pp (pp=) can be {possible}"
            )
        numbers = [int(match[1]) for name in all_names if (match := _EXPERT.match(name))] if placement.ep > 1 else []
        self._experts = 1 + max(numbers, default=-1)
        if placement.ep > 1 and not numbers and not any(_is_of_experts(name) for name in all_names):
            raise ModelError(
                f"{where} has no tensor of experts, such as …experts.0.…, and each of {placement.ep} expert-parallel "
                "ranks would get all tensors: leave out --ep (ep=)"
            )
        if self._experts % placement.ep:
            raise ModelError(
                f"{where} has {self._experts} experts, which {placement.ep} ranks cannot share evenly: "
                f"use {near_divisors(self._experts, placement.ep)} ranks"
            )
        expert_count = config.experts if config is not None and placement.ep > 1 else None
        if config is not None and expert_count and numbers and self._experts != expert_count:
            raise ModelError(f"{where} has {self._experts} experts, but {config.path} states {expert_count}")
        self._is_tied = placement.pp > 1 and not any("lm_head" in name or "output" in name for name in all_names)

    @property
    def remarks(self) -> list[str]:
        """The assumptions made so far, as notes for users."""
        remarks = self.axes.remarks
        if self.placement.tp > 1 and not self._is_divided:
            remarks.append(
                f"divides no tensor among {self.placement.tp} tensor-parallel ranks: each gets all that the others get"
            )
        if self.placement.pp > 1:
            first = [name for name in self.tensors if not self._stages(name)]
            if first:
                remarks.append(
                    f"puts {count_noun(len(first), 'tensor')} of no known stage in the first: {names(first)}"
                )
        return remarks

    def holds(self, name: str, rank: int) -> bool:
        """Whether a rank has a part of a tensor."""
        indices, placement = self.placement.indices_of(rank), self.placement
        if placement.pp > 1 and indices.pp not in (self._stages(name) or (0,)):
            return False
        expert = _EXPERT.match(name) if placement.ep > 1 else None
        return expert is None or int(expert[1]) * placement.ep // self._experts == indices.ep

    @cached_property
    def kinds(self) -> Numbers:
        """Return a number per tensor, equal for tensors of which each rank has the same intervals."""
        kind_numbers: dict[Any, int] = {}
        numbers = list[int]()
        placement = self.placement
        patterns = self.axes.pattern_keys(self.tensors)
        looks, pattern_of = DependentAxes(patterns), dict(zip(self.tensors, patterns, strict=True))
        for (name, tensor), pattern in zip(self.tensors.items(), patterns, strict=True):
            stages = self._stages(name) if placement.pp > 1 else ()
            expert = _EXPERT.match(name) if placement.ep > 1 else None
            group = expert and int(expert[1]) * placement.ep // self._experts
            about = None
            if looks.may_depend(pattern):
                weight = weight_of(name, self._model)
                about = weight and (id(self.tensors[weight].value), pattern_of[weight]), depends_on(name, self._model)
            # Dtypes by id, because hashing a dtype is slow; equal dtypes with several ids only give more kinds.
            key = id(tensor.value), id(tensor.dtype), pattern, about, stages, group
            numbers.append(kind_numbers.setdefault(key, len(kind_numbers)))
        return np.array(numbers, np.int32)

    @cached_property
    def _firsts(self) -> list[str]:
        """The first tensor of each kind."""
        texts, (_, first) = self.whole_tensors.names.texts, np.unique(self.kinds, return_index=True)
        return [texts[k] for k in first.tolist()]

    def first(self, kind: int) -> ComposedTensor:
        """Return the first tensor of a kind."""
        return self.tensors[self._firsts[kind]]

    def shares(self, rank: int) -> dict[int, tuple[AxisIntervals, ...]]:
        """Return a rank's intervals of the tensors of each kind; kinds of which the rank has nothing are left out.

        Raises:
            ModelError: as `cuts`.
        """
        return {
            kind: self.cuts(name, self.tensors[name].shape, rank)
            for kind, name in enumerate(self._firsts)
            if self.holds(name, rank)
        }

    def parts(self, composer: Composer, rank: int) -> tuple[Parts, dict[int, tuple[AxisIntervals, ...]]]:
        """Return the parts of a rank, and the intervals of each part by the number of its value.

        Raises:
            ModelError: as `cuts`.
        """
        shares, cuts_of = self.shares(rank), dict[int, tuple[AxisIntervals, ...]]()
        value_of_kind = np.full(len(self._firsts), -1, np.int32)
        for kind, cuts in shares.items():
            tensor = self.first(kind)
            key = id(tensor.value), cuts
            if (value := self._values.get(key)) is None:
                value = self._values[key] = _part(composer, tensor.value, cuts)
            value_number = value_of_kind[kind] = self.whole_tensors.number(value, tensor.dtype)
            cuts_of[value_number] = cuts
        values = value_of_kind[self.kinds]
        tensors = np.flatnonzero(values >= 0).astype(np.int32)
        return Parts(self.whole_tensors, tensors, values[tensors]), cuts_of

    def _stages(self, name: str) -> Sequence[int]:
        """Return the stages that have a tensor: tied embeddings are in the first and the last; none if unknown."""
        last = self.placement.pp - 1
        layer = self._layer.get(name)
        if layer and layer[0] == self._stack:
            return (layer[1] * self.placement.pp // self._layers,)
        if layer is None and _LAST.match(name):
            return (last,)
        if layer is None and "embed" in name:
            return (0, last) if self._is_tied else (0,)
        return ()

    def cuts(self, name: str, shape: Sequence[int], rank: int) -> tuple[AxisIntervals, ...]:
        """Return the part of a tensor that a rank has, as intervals of each axis.

        Raises:
            ModelError: an axis is unknown, or cannot be shared evenly.
        """
        intervals: list[AxisIntervals] = [((0, size),) for size in shape]
        indices, counts = self.placement.indices_of(rank), self.placement
        if counts.tp > 1:
            axis = self.axes.of(name, self._model, self._where)
            if axis.axis is not None:
                self._is_divided = True
                intervals[axis.axis] = axis.cut(shape, indices.tp, counts.tp, name)
        is_stacked = len(shape) > 1 and _is_of_experts(name) and not _EXPERT.match(name)
        if counts.ep > 1 and is_stacked:
            config = self._model.config
            if config is not None and config.experts and shape[0] % config.experts:
                raise ModelError(
                    f"{show(name)} has shape {[*shape]}, whose axis 0 is not that of the {config.experts} experts that "
                    f"{config.path} states"
                )
            if shape[0] % counts.ep:
                raise ModelError(
                    f"{show(name)} has shape {[*shape]}, whose axis 0 {count_noun(counts.ep, 'rank')} "
                    f"cannot share evenly: use {near_divisors(shape[0], counts.ep)} ranks"
                )
            if intervals[0] != ((0, shape[0]),):
                raise ModelError(
                    f"{show(name)} has shape {[*shape]}, whose axis 0 tensor-parallel ranks share already, "
                    "so expert-parallel ranks cannot: leave one of --ep (ep=) and --tp (tp=) out"
                )
            intervals[0] = ((shape[0] // counts.ep * indices.ep, shape[0] // counts.ep),)
        if counts.fsdp > 1 and shape:
            rows = sum(size for _, size in intervals[0])
            rows_per_rank = -(-rows // counts.fsdp)
            intervals[0] = _between(
                intervals[0], min(rows, rows_per_rank * indices.fsdp), min(rows, rows_per_rank * (indices.fsdp + 1))
            )
        return tuple(intervals)


def _is_of_experts(name: str) -> bool:
    """Whether a tensor belongs to one expert by its name, or to all experts along its first axis."""
    return "experts" in name.split(".") or _EXPERT.match(name) is not None


def _between(cut: AxisIntervals, start: int, stop: int) -> AxisIntervals:
    """Return the elements from `start` to `stop`, counted through all intervals."""
    intervals, position = list[tuple[int, int]](), 0
    for first, size in cut:
        low, high = max(start, position), min(stop, position + size)
        if low < high:
            intervals.append((first + low - position, high - low))
        position += size
    return tuple(intervals) or ((cut[-1][0] + cut[-1][1], 0),)


def _part(composer: Composer, value: Value, cuts: Sequence[AxisIntervals]) -> Value:
    """Return a rank's part of a tensor."""
    for axis, cut in enumerate(cuts):
        if cut != ((0, value.sizes[axis]),):
            slices = [slice_value(composer, value, axis, start, size) for start, size in cut]
            value = slices[0] if len(slices) == 1 else composer.join(slices, axis)
    return value
