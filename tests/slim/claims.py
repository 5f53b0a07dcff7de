"""A claim that one model was made of another, for the proof to accept or refuse."""

from __future__ import annotations

import re

from anydml.errors import ModelError
from anydml.slim import Slimmed, proved
from anydml.slim.costs import NOTHING
from anydml.slim.graph import Graph
from anydml.slim.slimming import Stage


def claimed(after, what):
    """The claim, with `what` is done to nodes that compute; empty where movement alone is said to change."""
    return Slimmed(after, stages=[Stage(Graph.of(after), what, (NOTHING, NOTHING), is_exact=False)])


def is_accepted(before, after):
    """Whether both are found to compute the same, before they are run."""
    try:
        proved(before, claimed(after, "something else is computed"))
    except ModelError as error:
        if not re.search("other numbers are computed|is not the same", str(error)):
            raise
        return False
    return True
