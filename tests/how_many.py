"""How many random programs, chains or graphs a test draws: few by default, and as many as one asks for."""

import os


def how_many(usual):
    """``ANYDML_RANDOM_PROGRAMS`` from the environment, or `usual` where it is not set."""
    return int(os.environ.get("ANYDML_RANDOM_PROGRAMS", usual))
