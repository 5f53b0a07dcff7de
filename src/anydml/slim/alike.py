"""Whether two models compute the same, by fingerprints of their results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from onnx import ModelProto

from anydml.files.folder import Folder
from anydml.slim.constants import Constants
from anydml.slim.fingerprints import NoFingerprintError, fingerprints
from anydml.slim.following import Following, size_names

SIZES = (1, 2, 3, 5, 8)
"""What each named size is, from one comparison to the next; the second named size begins with the next, and so on."""


def sizes_of(names: Sequence[str]) -> list[Mapping[str, int]]:
    """Small sizes for names, several times."""
    if not names:
        return [{}]
    return [{name: SIZES[(k + n) % len(SIZES)] for n, name in enumerate(names)} for k in range(len(SIZES))]


def are_alike(before: ModelProto, after: ModelProto, folder: Folder | None) -> bool:
    """Whether all fingerprints are the same; not where there are none, as with too many elements."""
    old = {tensor.name: tensor for tensor in before.graph.initializer}
    if any(old.get(tensor.name, tensor) != tensor for tensor in after.graph.initializer):
        return False
    try:
        return all(
            fingerprints(Following(before, sizes), Constants(folder, before))
            == fingerprints(Following(after, sizes), Constants(folder, after))
            for sizes in sizes_of(size_names(before))
        )
    except NoFingerprintError:
        return False
