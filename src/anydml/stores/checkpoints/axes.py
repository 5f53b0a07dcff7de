"""The axis along which tensor-parallel ranks share a tensor, by its name."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from anydml.errors import ModelError
from anydml.files.json_path import JsonPath, show
from anydml.stores.checkpoints.patterns import Pattern
from anydml.text import counted

AxisIntervals = tuple[tuple[int, int], ...]
"""Intervals of an axis, in order: first element and size of each."""


class AxisSection(NamedTuple):
    """A section of an axis that all ranks share.

    Attributes:
        whole: its size, relative to those of other sections.
        own: that of the part of a rank.
        copies: number of consecutive ranks with the same part.
    """

    whole: int
    own: int
    copies: int


@dataclass(frozen=True, slots=True)
class Axis:
    """How ranks share a tensor.

    Attributes:
        axis: of the tensor; None where every rank has the whole tensor.
        heads: number of heads along the axis, none of which is divided; more ranks than heads replicate them. Several
            numbers where heads of several kinds are concatenated, such as q, k and v.
        parts: number of concatenated parts of equal size, such as gate and up, each of which is shared.
    """

    axis: int | None
    heads: int | tuple[int, ...] | None = None
    parts: int = 1

    def sections(self, ranks: int, name: str) -> list[AxisSection]:
        """The sections of the axis.

        Raises:
            ModelError: neither of heads and ranks divides the other.
        """
        if not isinstance(self.heads, tuple):
            copies = _copies(self.heads, ranks, name)
            return [AxisSection(1, 1, copies)] * self.parts
        return [AxisSection(each, each * _copies(each, ranks, name), _copies(each, ranks, name)) for each in self.heads]

    def cut(self, shape: Sequence[int], rank: int, ranks: int, name: str) -> AxisIntervals:
        """The part of a rank of the axis.

        Raises:
            ModelError: ranks cannot share it evenly.
        """
        size = shape[self.axis or 0]
        sections = self.sections(ranks, name)
        total = sum(each.whole for each in sections)
        heads = self.heads if isinstance(self.heads, int) else total
        if size % total or size % heads:
            what = "heads" if self.heads else "parts"
            raise ModelError(
                f"{show(name)} has {counted(size, 'row')} along axis {self.axis}, which {heads} {what} do not divide"
            )
        found, start = list[tuple[int, int]](), 0
        for whole, _, copies in sections:
            whole *= size // total  # noqa: PLW2901
            if whole % (ranks // copies):
                raise ModelError(
                    f"{show(name)} has shape {[*shape]}, whose axis {self.axis} {counted(ranks // copies, 'rank')} "
                    "cannot share evenly: slices of a layout cut it to a size that they can, and replicate gives all "
                    "of it to each"
                )
            own = whole // (ranks // copies)
            found.append((start + rank // copies * own, own))
            start += whole
        return tuple(found)


def _copies(heads: int | None, ranks: int, name: str) -> int:
    """The number of consecutive ranks with the same heads.

    Raises:
        ModelError: neither of heads and ranks divides the other.
    """
    if heads is None or heads % ranks == 0:
        return 1
    if ranks % heads:
        raise ModelError(
            f"{show(name)} has {heads} heads, which {counted(ranks, 'rank')} cannot share evenly: "
            "other ranks can, or a layout whose [[axes]] say other heads"
        )
    return ranks // heads


ROWS, COLUMNS, ALL = Axis(0), Axis(1), Axis(None)

KNOWN: tuple[tuple[str, Axis], ...] = (
    ("*norm*", ALL),
    ("*.q_proj.*", ROWS),
    ("*.k_proj.*", ROWS),
    ("*.v_proj.*", ROWS),
    ("*.gate_proj.*", ROWS),
    ("*.up_proj.*", ROWS),
    ("*.w1.weight", ROWS),
    ("*.w3.weight", ROWS),
    ("*embed_tokens.weight", ROWS),
    ("lm_head.weight", ROWS),
    ("*.o_proj.bias", ALL),
    ("*.down_proj.bias", ALL),
    ("*.o_proj.weight", COLUMNS),
    ("*.down_proj.weight", COLUMNS),
    ("*.w2.weight", COLUMNS),
    ("*.block_sparse_moe.gate.weight", ALL),
    ("*.mlp.gate.weight", ALL),
    ("*.rotary_emb.inv_freq", ALL),
)
"""Axes of Llama, Mistral, Qwen and Mixtral by the names of transformers; the first pattern that matches applies."""


_NUMBER = re.compile(r"\.[0-9]+(?=\.)")
"""A number in a name, which no pattern of `KNOWN` distinguishes."""


class Axes:
    """Axes by name.

    Args:
        rules: patterns that take precedence over `KNOWN`.
    """

    def __init__(self, rules: Sequence[tuple[Pattern, Axis]] = ()) -> None:
        self._own = [*rules]
        self._rules = [*rules, *((Pattern(text), axis) for text, axis in KNOWN)]

    def alike(self, names: Iterable[str]) -> list[str]:
        """A key per name, equal for names that no pattern distinguishes, such as those of layers and experts."""
        every = [*names]
        if any(pattern.sees_numbers for pattern, _ in self._own):
            return every
        found = _NUMBER.sub(".0", "\n".join(every)).split("\n")
        return found if len(found) == len(every) else every

    def of(self, name: str, dimensions: int, where: str) -> Axis:
        """How ranks share a tensor.

        Raises:
            ModelError: no pattern matches, or the tensor has no such axis.
        """
        found = next((axis for pattern, axis in self._rules if pattern.match(name) is not None), None)
        place = JsonPath(where)
        if found is None:
            raise place.error(f"has {show(name)}, whose axis is not known: say it by [[axes]] in a layout")
        if found.axis is None:
            return found
        axis = found.axis + dimensions if found.axis < 0 else found.axis
        if not 0 <= axis < dimensions:
            raise place.error(
                f"has {show(name)} with {counted(dimensions, 'dimension')}, which is shared along axis {found.axis}"
            )
        return replace(found, axis=axis)
