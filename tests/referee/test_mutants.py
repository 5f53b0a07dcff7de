"""Cases show what is wrong with a formula: some mutants here, all of them by ``python -m tests.referee.mutants``."""

from __future__ import annotations

import random

from anydml.referee import make_cases
from anydml.referee.operators import OPERATORS

from .equivalent_mutants import EQUIVALENT
from .mutants import every_mutant, formulas, mutants, shown_by, survivors

SOME = ["Slice", "Gather", "Concat", "ScatterND", "Trilu"]


def test_cases_show_mutants():
    every = [each for each in every_mutant(SOME) if each[0].name not in EQUIVALENT]
    assert len(every) > 200
    todo = random.Random(1).sample(every, 120)
    left = [mutant.name for mutant, case in survivors(todo, 60, seed=3) if not case]
    assert len(left) <= 0.05 * len(todo), left


def test_a_formula_is_as_before_after_a_mutant():
    (case, *_) = make_cases(["Transpose"], 5, seed=1)
    (function, *_) = formulas(OPERATORS["Transpose"])
    assert any(shown_by(mutant, [case]) for mutant in mutants(function))
    again = next(make_cases(["Transpose"], 5, seed=1))
    assert (again.outputs[0] == case.outputs[0]).all()
