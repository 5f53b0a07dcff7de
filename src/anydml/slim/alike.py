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


def are_alike(
    before: ModelProto,
    after: ModelProto,
    folder: Folder | None,
    pairs: Sequence[tuple[Following, Following]] | None = None,
) -> bool:
    """Whether all fingerprints are the same; not where there are none, as with too many elements.

    Args:
        before: a model.
        after: the other one.
        folder: where external data lies.
        pairs: both as they were followed; None follows them for small sizes.
    """
    old = {tensor.name: tensor for tensor in before.graph.initializer}
    if any(old.get(tensor.name, tensor) != tensor for tensor in after.graph.initializer):
        return False
    if pairs is None:
        several = sizes_of(size_names(before))
        pairs = [(Following(before, sizes), Following(after, sizes)) for sizes in several]
    first, second = Constants(folder, before), Constants(folder, after)
    try:
        return all(fingerprints(a, first) == fingerprints(b, second) for a, b in pairs)
    except NoFingerprintError:
        return False
