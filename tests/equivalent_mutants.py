"""Mutants that no test can notice, each with the reason; `tests.mutants` reads this."""

EQUIVALENT: dict[str, str] = {
    "tensor.py: if stride < reach:  →  if stride <= reach:": (
        "the quick answer for tensors without gaps is only skipped: the exact solver gives the same, later"
    ),
}
