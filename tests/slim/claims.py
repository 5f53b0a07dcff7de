"""Whether a model is proved to compute what another one does, for tests of what slim makes."""

from __future__ import annotations

from anydml.proving import prove


def proved(before, after):
    """Assert that both compute the same, and return what is known."""
    found = prove(before, after, runs=False)
    assert found.verdict in ("proved", "rounded") or found.samples, found
    return found


def is_accepted(before, after):
    """Whether both are found to compute the same, before they are run."""
    found = prove(before, after, runs=False)
    return found.verdict in ("proved", "rounded") or bool(found.samples)
