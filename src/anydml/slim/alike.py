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
        shared = _matrices(before) & _matrices(after)
        names = frozenset(name for name, *_ in shared) - frozenset(
            name for name, *_ in _matrices(before) ^ _matrices(after)
        )
        return all(fingerprints(a, first, names) == fingerprints(b, second, names) for a, b in pairs)
    except NoFingerprintError:
        return False


def _matrices(model: ModelProto) -> set[tuple[str, int, bool, str]]:
    """Initializers that are multiplied by, and how."""
    constants = {tensor.name for tensor in model.graph.initializer}
    found = set()
    for node in model.graph.node:
        turned = tuple(each.i for each in node.attribute if each.name in ("transA", "transB"))
        for k, name in enumerate(node.input[:2]):
            if name in constants:
                found.add((name, k, node.op_type in ("MatMul", "Gemm"), f"{turned}"))
    return found
