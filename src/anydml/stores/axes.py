"""Along which axis tensor-parallel ranks share each tensor, by its name."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from anydml.errors import ModelError
from anydml.files.json_path import JsonPath, show
from anydml.stores.patterns import Pattern
from anydml.text import counted


@dataclass(frozen=True, slots=True)
class Axis:
    """How ranks share a tensor.

    Attributes:
        axis: of the tensor; None where every rank has all of it.
        heads: into how many the axis falls, none of which is cut; where there are more ranks, heads are replicated.
    """

    axis: int | None
    heads: int | None = None

    def copies(self, ranks: int, name: str) -> int:
        """How many ranks that follow each other have the same part.

        Raises:
            ModelError: heads and ranks do not divide.
        """
        if self.heads is None or self.heads % ranks == 0:
            return 1
        if ranks % self.heads:
            raise ModelError(
                f"{show(name)} has {self.heads} heads, which {counted(ranks, 'rank')} cannot share evenly: "
                "other ranks can, or a layout whose [[axes]] say other heads"
            )
        return ranks // self.heads


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
        known: axes of names, which come before all patterns.
    """

    def __init__(self, rules: Sequence[tuple[Pattern, Axis]] = (), known: Mapping[str, Axis] | None = None) -> None:
        self._rules = [*rules, *((Pattern(text), axis) for text, axis in KNOWN)]
        self._own = [*rules]
        self._known = dict(known or {})

    def with_known(self, known: Mapping[str, Axis]) -> Axes:
        """The same with axes of names."""
        return Axes(self._own, known)

    def alike(self, names: Iterable[str]) -> list[str]:
        """A name for each, the same for those that no pattern tells apart, as layers and experts mostly are."""
        if self._known or any(pattern.sees_numbers for pattern, _ in self._own):
            return [*names]
        return [_NUMBER.sub("0", name) for name in names]

    def of(self, name: str, dimensions: int, where: str) -> Axis:
        """How ranks share a tensor.

        Raises:
            ModelError: nothing says so, or it has no such axis.
        """
        found = self._known.get(name)
        if found is None:
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
