"""Mutants that no test can notice, each with the reason; `tests.mutants` reads this."""

EQUIVALENT: dict[str, str] = {}
