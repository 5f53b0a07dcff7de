"""Mutants that no test can notice, each with the reason; `tests.mutants` reads this."""

EQUIVALENT: dict[str, str] = {
    "core/moving.py: unshared_effort = min(SHARED_EFFORT, stream_from) - 1  →  "
    "unshared_effort = min(SHARED_EFFORT, stream_from) + 1": (
        "moves of just that effort run on one thread without stages, which writes the same"
    ),
    "core/simplifying.py: return True  →  return False": (
        "dimensions that could merge stay apart, or a move that was merged into another also runs by itself: "
        "the same is written"
    ),
    "moves/simplify.py: return Move(columns[-1], destination, source, element_size)  →  "
    "return Move(columns[+1], destination, source, element_size)": (
        "a fill has two columns, the strides of its destination and the sizes"
    ),
    "operators/grids.py: return 0 if x < 0 else size - 1  →  return 0 if x <= 0 else size - 1": (
        "x is infinite or not a number, and so never 0"
    ),
}
