"""The words by which whole calls are found (see `whole`).

A table begins with Python's functions and objects by their addresses, then the number of recipes, and how many calls
are under way: until there are none, what was taken out of the table is kept. For each recipe follow a key, made from
what calls look at first, and the recipe's address. A recipe has the words that are named below, then what makes each
result, 0 for an array of NumPy's, then of each argument that is no array four words: itself, its type, how to
compare it, and how many bytes that takes, or how many items follow, with four words each.
"""

from __future__ import annotations

from anydml.engines.cpu.kernels.atomics import call_word
from anydml.engines.cpu.kernels.language import helper, uint64

NONE, ARRAY, LIST, ZERO, INCREF, DECREF, LIST_SIZE, LIST_ITEM, LIST_NEW, LIST_PUT, CALL, CALL_WITH, NUMBER = range(13)
"""Python's objects and functions."""

GUEST, ALIKE, READER, STRUCTURE = range(13, 17)
"""Another library's type of arrays, or 0, and one that is as good; what describes one of them, and the words that it
takes (see `tensors`)."""

COUNT, UNDER_WAY, LISTS, WIDE, NEW_ARRAY, FIRST_KEY = range(17, 23)
"""How many recipes there are, and calls under way; whether lists of numbers are as good as tuples; what does calls
whose recipes need more than a small workspace, the same function with a large one; and what makes NumPy's
arrays (see `anydml.memory.results`)."""

BLOCK, START, INPUTS, RESULTS, IS_LIST, HAS_PARTS, HAS_OUT, PLAIN, SPACE, FIRST_MAKER = range(10)
"""Words of a recipe: the block of `launch`; what does larger work in Python, or 0; how many inputs and results there
are; whether the inputs are a list, and the results; whether they are the caller's; how many arguments are no arrays;
and the bytes of workspace that it needs."""


@helper
def refer(table, item, change):
    """Count a reference more, or less."""
    call_word(table, change, item, uint64(0), uint64(0))
