"""Proofs of successive rewrites of one model, whose graphs share constants and terms."""

from __future__ import annotations

from collections.abc import Sequence

from onnx import ModelProto

from anydml.proving.constants import Constants
from anydml.proving.model_terms import Read, Reader
from anydml.proving.movement_terms import Form
from anydml.proving.proof import marked_outputs, nodes_that_may_refuse
from anydml.proving.sizes import Size, name
from anydml.proving.terms import Term


class Proofs:
    """Proves that graphs with the same inputs and constants compute the same, for all sizes.

    Args:
        constants: the constants of all graphs.
        names: names of symbolic sizes.
        reads_files: whether to read constants in other files; if not, those of equal names are equal.
        form: which terms are equal.
    """

    def __init__(
        self, constants: Constants, names: Sequence[str], reads_files: bool = True, form: Form = "floats"
    ) -> None:
        self._constants, self._names, self._reads_files, self._form = constants, names, reads_files, form
        self._readers: dict[tuple[str, int], Reader] = {}
        # What the first graph refuses, later ones may compute in any way.
        self._refused = set[tuple[str, int]]()
        self._last: dict[tuple[str, int], list[tuple[ModelProto, Read]]] = {}

    def are_proved(self, first: ModelProto, second: ModelProto) -> bool:
        """Whether a model computes the same as another for all inputs that the first one accepts.

        Args:
            first: a model without initializers, which are looked up in the constants.
            second: the other model.
        """
        limits = self._proved_below(first, second)
        if not limits:
            return limits is not None
        # A size above its limit is the limit plus another size of at least 1.
        above: dict[Size, str] = {name(size_name): size_name for size_name in self._names}
        return all(
            size in above and self._proved_below(first, second, above[size], limit) == {}
            for size, limit in limits.items()
        )

    def limits(self) -> dict[str, int]:
        """Return the numbers that sizes are assumed not to exceed, by name."""
        assumed = self._reader().mover.assumed
        return {size_name: assumed[name(size_name)] for size_name in self._names if name(size_name) in assumed}

    def terms(self, model: ModelProto) -> dict[str, Term | None]:
        """Return the terms of a model's values by name."""
        return self._read(model).values

    def inner(self, model: ModelProto) -> dict[str, list[dict[str, Term | None]]]:
        """Return the terms of the values in bodies, by the first output of the node with the bodies."""
        return self._read(model).inner

    def _reader(self, size_name: str = "", above: int = 0) -> Reader:
        return self._readers.setdefault((size_name, above), Reader(self._form, self._reads_files))

    def _read(self, model: ModelProto, size_name: str = "", above: int = 0) -> Read:
        """Read a model; the last two reads are cached, because a rewrite is often compared with the one before."""
        last = self._last.setdefault((size_name, above), [])
        read_model = next((read for read_before, read in last if read_before is model), None)
        if read_model is None:
            sizes: dict[str, Size] = {
                known_name: name(known_name) + above * (known_name == size_name) for known_name in self._names
            }
            read_model = self._reader(size_name, above).read(model, self._constants, sizes)
        self._last[size_name, above] = [*(entry for entry in last if entry[0] is not model), (model, read_model)][-2:]
        return read_model

    def _proved_below(
        self, first: ModelProto, second: ModelProto, size_name: str = "", above: int = 0
    ) -> dict[Size, int] | None:
        """Return upper limits of sizes up to which two models are proved to compute the same; None without a proof.

        Args:
            first: a model.
            second: the other model.
            size_name: the name of a size of which only larger values are compared; empty for all sizes.
            above: compare only values of this size that are larger than this.
        """
        if (size_name, above) in self._refused:
            return {}
        a = self._read(first, size_name, above)
        if a.refuses_all():
            self._refused.add((size_name, above))
            return {}
        b = self._read(second, size_name, above)
        outputs, marks = marked_outputs(a, b, self._names, [])
        is_proved = all(outputs.values()) and not nodes_that_may_refuse(a, b, marks)
        return self._reader(size_name, above).mover.assumed if is_proved else None
