"""Whether two graphs compute the same, by fingerprints of their results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from anydml.slim.fingerprints import NoFingerprintError, fingerprints
from anydml.slim.following import Following
from anydml.slim.graph import Graph

SIZES = (1, 2, 3, 5, 8)
"""What each named size is, from one comparison to the next; the second named size begins with the next, and so on."""


def sizes_of(names: Sequence[str]) -> list[Mapping[str, int]]:
    """Small sizes for names, several times."""
    if not names:
        return [{}]
    return [{name: SIZES[(k + n) % len(SIZES)] for n, name in enumerate(names)} for k in range(len(SIZES))]


def are_alike(before: Following, after: Following, names: Sequence[str]) -> bool:
    """Whether all fingerprints are the same; not where there are none, as with too many elements.

    Args:
        before: a graph as it was followed, constants of whose name are the same in both.
        after: the other one.
        names: of sizes; if there are any, both are followed for small sizes instead.
    """
    pairs = [(before, after)]
    if names:
        pairs = [(Following(before.graph, sizes), Following(after.graph, sizes)) for sizes in sizes_of(names)]
    first, second = _matrices(before.graph), _matrices(after.graph)
    shared = frozenset(name for name, *_ in first & second) - {name for name, *_ in first ^ second}
    try:
        return all(fingerprints(a, shared) == fingerprints(b, shared) for a, b in pairs)
    except NoFingerprintError:
        return False


def _matrices(graph: Graph) -> set[tuple[str, int, bool, str]]:
    """Constants that are multiplied by, and how."""
    found: set[tuple[str, int, bool, str]] = set()
    for op in graph.ops:
        names = [(k, name) for k, name in enumerate(op.inputs[:2]) if name in graph.constants]
        if names:
            flags = f"{[op.integer(flag, 0) for flag in ('transA', 'transB')]}"
            found.update((name, k, op.kind in ("MatMul", "Gemm"), flags) for k, name in names)
    return found
