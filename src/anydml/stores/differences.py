"""Results of `compare`: differences of checkpoints, and of arrays."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple


class Difference(NamedTuple):
    """A difference of two checkpoints.

    Attributes:
        name: the name of the tensor, or of the key of metadata.
        kind: ``"missing"`` from the second, ``"added"`` in the second, ``"kind"`` for another dtype or shape,
            ``"elements"``, ``"checksum"``, ``"metadata"``, or ``"unread"`` for an array that cannot be compared.
        text: a sentence.
        elements: number of differing elements, if all were compared.

    Examples:
        >>> from anydml import stores
        >>> stores.Difference("w", "missing", '"w" is only in the first').elements
        0
    """

    name: str
    kind: str
    text: str
    elements: int = 0


@dataclass(frozen=True)
class Comparison:
    """The result of `compare`: differences and remarks.

    Attributes:
        differences: the differences, first those of names, dtypes and shapes.
        compared: number of tensors whose elements were compared.
        remarks: notes on what was not compared, and on differences beside the tensors.

    Examples:
        >>> from anydml import stores
        >>> np.save("w.npy", np.ones(3, "f4"))
        >>> files = stores.create("a.safetensors", shape={"w": [3]}, dtype="float32")
        >>> dml.fuse(lambda w: {"w": w}).plan(stores.open("w.npy"), files).run()
        >>> stores.compare("a.safetensors", "a.safetensors").compared
        1
    """

    differences: list[Difference]
    compared: int
    remarks: list[str]
