"""The axes along which tensor-parallel ranks share tensors, by the tensors' names."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace

from anydml.files.location import Location, show
from anydml.stores.checkpoints.axis import Axis
from anydml.stores.checkpoints.companions import companion
from anydml.stores.checkpoints.known_axes import (
    Model,
    Unknown,
    axis_of_scales,
    known_axis,
    line_for,
    projection_of,
    weight_of,
)
from anydml.stores.checkpoints.patterns import Pattern
from anydml.text import count_noun

_NUMBER = re.compile(r"\.[0-9]+(?=\.)")
"""A number in a name; no known pattern depends on numbers."""


class Axes:
    """Axes by name.

    Args:
        rules: patterns that take precedence over the known ones.

    Attributes:
        rules: the patterns and their axes.
    """

    def __init__(self, rules: Sequence[tuple[Pattern, Axis]] = ()) -> None:
        self.rules = [*rules]
        self._assumed: set[str] = set()

    @property
    def remarks(self) -> list[str]:
        """The assumptions made so far, as notes for users."""
        if not self._assumed:
            return []
        assumed = ", ".join(sorted(self._assumed))
        message = f"assumes that ranks share the heads of {assumed} evenly, without copies"
        return [f"{message}: no config.json states their number"]

    def pattern_keys(self, names: Iterable[str]) -> list[str]:
        """Return a key per name, equal for names that no pattern distinguishes, such as names in different layers."""
        all_names = [*names]
        numbered = _NUMBER.sub(".0", "\n".join(all_names)).split("\n")
        if len(numbered) != len(all_names):
            return all_names
        if any(pattern.sees_numbers for pattern, _ in self.rules):
            matches = [pattern.match for pattern, _ in self.rules]
            for k, name in enumerate(all_names):
                pattern_number = next((n for n, match in enumerate(matches) if match(name) is not None), None)
                if pattern_number is not None:
                    numbered[k] = f"{pattern_number} {numbered[k]}"
        return numbered

    def of(self, name: str, model: Model, where: str) -> Axis:
        """Return the axis along which ranks share a tensor.

        Args:
            name: the name of the tensor.
            model: the model of the tensor.
            where: the checkpoint, for errors.

        Raises:
            ModelError: no pattern matches, the tensor does not fit the pattern, or it has no such axis.
        """
        dimensions = len(model.tensors[name].shape)
        matching = (axis for pattern, axis in self.rules if pattern.match(name) is not None)
        result: Axis | Unknown | None = next(matching, None)
        if result is None and (weight := weight_of(name, model)) is not None:
            result = axis_of_scales(name, weight, self.of(weight, model, where), model)
        elif result is None:
            sibling = companion(name, model)
            weight, result = (name, known_axis(name, model)) if sibling is None else sibling
            if not model.says_heads and isinstance(result, Axis) and (part := projection_of(weight)) is not None:
                self._assumed.add(part)
        location = Location(where)
        if isinstance(result, Unknown):
            line = line_for(name, result.line)
            hint = ", or axis = 0 in place of replicate" if dimensions and "replicate" in line else ""
            raise location.error(
                f"has {show(name)}, {result.reason}: say so in a layout for anydml reshard --layout, by {line}{hint}"
            )
        if result.axis is None:
            return result
        axis = result.axis + dimensions if result.axis < 0 else result.axis
        if not 0 <= axis < dimensions:
            raise location.error(
                f"has {show(name)} with {count_noun(dimensions, 'dimension')}, but ranks are to share it along axis "
                f"{result.axis}: the axis must be {-dimensions} to {dimensions - 1}"
            )
        return replace(result, axis=axis)
