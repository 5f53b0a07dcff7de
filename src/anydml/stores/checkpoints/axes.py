"""Along which axis tensor-parallel ranks share each tensor, by its name."""

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
"""Intervals of an axis, in order: the first element of each, and how many it has."""


class AxisSection(NamedTuple):
    """Something that lies along an axis beside others, and is shared by all ranks.

    Attributes:
        whole: its size, relative to the others'.
        own: that of a rank's part.
        copies: how many ranks that follow each other have the same part.
    """

    whole: int
    own: int
    copies: int


@dataclass(frozen=True, slots=True)
class Axis:
    """How ranks share a tensor.

    Attributes:
        axis: of the tensor; None where every rank has all of it.
        heads: into how many the axis falls, none of which is cut; where there are more ranks, heads are replicated.
            Several where heads of several kinds lie one after the other, such as those of q, k and v.
        parts: how many of the same size lie one after the other, such as gate and up, and are shared one by one.
    """

    axis: int | None
    heads: int | tuple[int, ...] | None = None
    parts: int = 1

    def sections(self, ranks: int, name: str) -> list[AxisSection]:
        """What lies along the axis.

        Raises:
            ModelError: heads and ranks do not divide.
        """
        if not isinstance(self.heads, tuple):
            copies = _copies(self.heads, ranks, name)
            return [AxisSection(1, 1, copies)] * self.parts
        return [AxisSection(each, each * _copies(each, ranks, name), _copies(each, ranks, name)) for each in self.heads]

    def cut(self, shape: Sequence[int], rank: int, ranks: int, name: str) -> AxisIntervals:
        """What a rank has of the axis.

        Raises:
            ModelError: ranks cannot share it.
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
    """How many ranks that follow each other have the same heads.

    Raises:
        ModelError: heads and ranks do not divide.
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
"""Names of Llama, Mistral, Qwen and Mixtral, as Hugging Face's transformers writes them; the first that fits counts."""


_NUMBER = re.compile(r"(?<![^.])[0-9]+(?![^.])")
"""A part of a name; those that are known see none."""


class Axes:
    """Axes by name.

    Args:
        rules: patterns that come before those that are known.
    """

    def __init__(self, rules: Sequence[tuple[Pattern, Axis]] = ()) -> None:
        self._own = [*rules]
        self._rules = [*rules, *((Pattern(text), axis) for text, axis in KNOWN)]

    def alike(self, names: Iterable[str]) -> list[str]:
        """A name for each, the same for those that no pattern tells apart, as layers and experts mostly are."""
        if any(pattern.sees_numbers for pattern, _ in self._own):
            return [*names]
        return [_NUMBER.sub("0", name) for name in names]

    def of(self, name: str, dimensions: int, where: str) -> Axis:
        """How ranks share a tensor.

        Raises:
            ModelError: nothing says so, or it has no such axis.
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
