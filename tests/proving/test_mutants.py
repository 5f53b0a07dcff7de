"""Mutants of random models: one that is proved equal computes the same, on ONNX Runtime, for random inputs."""

from __future__ import annotations

from collections import Counter

import numpy as np
import onnx
import pytest
from how_many import how_many
from proving import more_mutants, mutants
from proving.random_bodies import drawn_bodies
from proving.random_operators import drawn as drawn_operators
from slim.random_movement import drawn

from anydml.errors import ModelError
from anydml.proving import prove
from anydml.proving.running import error_of, run
from anydml.slim import slim

MOST = 64
"""Units in the last place by which sums in another order may be off."""


def movement(random, is_open):
    return drawn(lambda first, last: int(random.integers(first, last + 1)), is_open)[0]


def inputs_of(model, random, size):
    found, defaults = {}, {tensor.name for tensor in model.graph.initializer}
    for value in model.graph.input:
        if value.name in defaults:
            continue
        shape = [dim.dim_value or size for dim in value.type.tensor_type.shape.dim]
        found[value.name] = random.standard_normal(shape).astype(np.float32)
    return found


LACKING = "NOT_IMPLEMENTED", "Subgraph must have the shape set for all outputs", "two nodes with same node name"
"""Parts of messages with which ONNX Runtime refuses what ONNX allows."""


def run_or_lack(model, given):
    """What a model computes; None if ONNX Runtime has no kernel for a node of it."""
    try:
        return run(model, given)
    except Exception as error:  # ONNX Runtime raises errors of several types
        if any(text in str(error) for text in LACKING):
            return None
        raise


@pytest.mark.parametrize(
    ("source", "mutant"),
    [
        (movement, mutants.mutant),
        (drawn_operators, mutants.mutant),
        (drawn_operators, more_mutants.mutant),
        (drawn_bodies, more_mutants.mutant),
    ],
    ids=["movement", "operators", "more mutants of operators", "more mutants of bodies"],
)
@pytest.mark.parametrize("is_open", [False, True], ids=["known sizes", "a size with a name"])
def test_no_mutant_that_computes_something_else_is_proved(is_open, source, mutant):
    random, count = np.random.default_rng(is_open), Counter()
    while count["tried"] < how_many(50):
        model = source(random, is_open)
        try:
            found = None if model is None else mutant(slim(model).model if random.integers(2) else model, random)
        except ModelError:
            # Nodes of a random model may not fit.
            continue
        if found is None:
            continue
        other, what = found
        try:
            onnx.checker.check_model(other, full_check=True)
        except Exception:  # the checker raises errors of several types
            continue
        count["tried"] += 1
        try:
            proof = prove(model, other, runs=False)
        except ModelError:
            # Types of nodes, or of what functions pass, may not fit.
            count["invalid"] += 1
            continue
        count[proof.verdict] += 1
        if proof.verdict not in ("proved", "rounded") and not proof.samples:
            continue
        for size in (1, 2, 4) if proof.verdict in ("proved", "rounded") else (2, 5):
            given = inputs_of(model, random, size)
            try:
                expected = run(model, given)
            except Exception:  # ONNX Runtime raises errors of several types
                # What a model refuses need not be computed alike.
                count["refused"] += 1
                continue
            results = run_or_lack(other, given)
            if results is None:
                count["lacking"] += 1
                continue
            for name, a, b in zip(proof.outputs, expected, results, strict=True):
                assert error_of(a, b) <= MOST, (what, name, size)
    # Many mutants are equal, such as those of what nothing reads; and all else must be left.
    assert count["proved"] > count["tried"] // 10
    assert count["undecided"] > count["tried"] // 10
