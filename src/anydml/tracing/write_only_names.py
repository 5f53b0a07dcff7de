"""Variables and attributes that code only writes, such as counters, so that results do not depend on them."""

from __future__ import annotations

import dis
import types
from collections.abc import Iterable, Sequence
from itertools import accumulate

from anydml.tracing.names_in_code import reads_by_text

_ADDING_METHODS = frozenset(("append", "appendleft", "add", "extend", "update", "insert"))
"""Methods of containers that add to them."""


def is_only_written(name: str, codes: Iterable[types.CodeType]) -> bool:
    """Whether code, and functions inside it, read a variable or attribute only to assign it or to add to it."""
    all_codes = [*codes]
    for code in all_codes:
        all_codes += [step for step in code.co_consts if isinstance(step, types.CodeType)]
    is_mentioned = False
    for code in all_codes:
        steps = [step for step in dis.get_instructions(code) if step.opname not in ("CACHE", "EXTENDED_ARG")]
        places = [k for k, step in enumerate(steps) if _mentions(step, name)]
        if reads_by_text(code.co_names) and name in code.co_consts:
            return False
        if not all(_writes(steps, k) for k in places if "LOAD" in steps[k].opname):
            return False
        is_mentioned = is_mentioned or bool(places)
    return is_mentioned


_NAMING_INSTRUCTIONS = frozenset(("LOAD_CLOSURE", "MAKE_CELL", "IMPORT_NAME"))
"""Instructions that name a variable, but do not read it."""


def _mentions(step: dis.Instruction, name: str) -> bool:
    # Some load two variables.
    names_variable = name in step.argval if isinstance(step.argval, tuple) else step.argval == name
    return names_variable and step.opname not in _NAMING_INSTRUCTIONS


def _writes(steps: Sequence[dis.Instruction], start: int) -> bool:
    """Whether the value that an instruction loads is changed by an operator and stored again, or is added to."""
    name, following = steps[start].argval, steps[start + 1 :]
    if isinstance(name, tuple):
        return False
    after = next((k for k, step in enumerate(following) if step.argval == name), None)
    if after is not None and following[after].opname.startswith("STORE_"):
        before = [step for step in following[:after] if step.opname != "SWAP"]
        depths = [*accumulate(map(_stack_effect, before), initial=1)]
        return len(before) > 1 and before[-1].opname == "BINARY_OP" and min(depths) == 1
    depth, is_adding = 1, following[0].argval in _ADDING_METHODS and following[0].opname in ("LOAD_METHOD", "LOAD_ATTR")
    for k, step in enumerate(following):
        depth += _stack_effect(step)
        if is_adding and step.opname == "CALL" and depth <= 1:
            return following[k + 1].opname == "POP_TOP"
        if depth < 1:
            return step.opname == "STORE_SUBSCR"
    return False


def _stack_effect(step: dis.Instruction) -> int:
    """Return by how many values an instruction grows the stack; a branch or an end empties the stack."""
    if "JUMP" in step.opname or step.opname.startswith("RETURN"):
        return -1_000_000
    return dis.stack_effect(step.opcode, step.arg, jump=False)
