"""The names in code: the variables and attributes that it can read."""

from __future__ import annotations

import dis
import sys
import types
from collections.abc import Iterable, Iterator
from typing import Any

from anydml.tracing.categories import GENERATOR_MAKERS

_TEXT_READERS = {"getattr", "hasattr", "attrgetter", "methodcaller", "vars", "globals", "__dict__", "__getattribute__",
            "__getattr__", "getattr_static"}  # fmt: skip
"""Names of functions and attributes that read a variable or attribute whose name is a string."""

_READERS_OF_ALL = {"vars", "__dict__"}
"""Names of functions and attributes that return all attributes of an object."""

ANY_NAME = "*"
"""Stands for all names, in code that reads attributes whose names it does not contain."""

_SEEDED_FUNCTIONS = {*GENERATOR_MAKERS, "seed"}
"""Names of functions that the system seeds if they are called without a seed."""


def names_of(code: types.CodeType) -> frozenset[str]:
    """Return the names of global variables and attributes in code and in functions inside it."""
    return _cached_names(code)[0]


def modules_of(code: types.CodeType) -> list[types.ModuleType]:
    """Return the loaded modules among those that code imports when it runs."""
    return [sys.modules[name] for name in _cached_names(code)[1] if name in sys.modules]


def unsteady_call(code: types.CodeType) -> str | None:
    """Return the name of a function that code calls and whose results differ each time; None if there is none."""
    return _cached_names(code)[2]


def names_that_may_be_missing(code: types.CodeType) -> frozenset[str]:
    """Return the names in code that may be missing: in texts, assigned, or where errors are handled."""
    return _cached_names(code)[4]


def reads_by_text(names: Iterable[str]) -> bool:
    """Whether code with some names may read variables or attributes whose names are strings."""
    return not _TEXT_READERS.isdisjoint(names)


def names_read_by(reader: Any) -> set[str]:
    """Return the names of attributes that an `operator.attrgetter` or `operator.methodcaller` reads."""
    maker, arguments = reader.__reduce__()[:2]
    # A getter that is called with keywords is made by a partial.
    texts = [text for text in (*getattr(maker, "args", ()), *arguments) if isinstance(text, str)]
    return {name for text in texts for name in text.split(".")}


def makes_generators(function: Any) -> bool:
    """Whether a function makes generators of random numbers."""
    return type(function) is types.FunctionType and not _SEEDED_FUNCTIONS.isdisjoint(names_of(function.__code__))


def opcodes_of(code: types.CodeType) -> frozenset[int]:
    """Return the kinds of instructions in code and in functions inside it."""
    return _cached_names(code)[3]


_VARIABLE_INSTRUCTIONS = frozenset(dis.opmap[name] for name in ("STORE_GLOBAL", "DELETE_GLOBAL", "LOAD_BUILD_CLASS"))
_VARIABLE_READERS = frozenset(("globals", "eval", "exec"))


def reaches_variables(code: types.CodeType) -> bool:
    """Whether code assigns global variables, or may reach them by other ways than their names.

    The body of a class is such a way: Python reads its names without asking the dictionary's class.
    """
    if not _VARIABLE_INSTRUCTIONS.isdisjoint(opcodes_of(code)):
        return True
    # Methods may have these names, too, as PyTorch's `eval`.
    return not _VARIABLE_READERS.isdisjoint(names_of(code)) and _calls_reader(code)


def _calls_reader(code: types.CodeType) -> bool:
    return any(
        step.opname == "LOAD_GLOBAL" and step.argval in _VARIABLE_READERS for step in dis.get_instructions(code)
    ) or any(_calls_reader(nested) for nested in code.co_consts if isinstance(nested, types.CodeType))


_CodeNames = tuple[frozenset[str], tuple[str, ...], str | None, frozenset[int], frozenset[str]]

_CACHE: dict[int, tuple[types.CodeType, _CodeNames]] = {}
"""Results of `_cached_names` by the identity of their code, since hashing code would take long."""

MAX_CODES_READ = 4096


def _cached_names(code: types.CodeType) -> _CodeNames:
    cached = _CACHE.get(id(code))
    if cached is not None:
        return cached[1]
    if len(_CACHE) >= MAX_CODES_READ:
        _CACHE.clear()
    names = _names_in(code)
    # The code is kept alive, so that no other object gets its identity.
    _CACHE[id(code)] = code, names
    return names


def _names_in(code: types.CodeType) -> _CodeNames:
    nested = [_cached_names(constant) for constant in code.co_consts if isinstance(constant, types.CodeType)]
    names = {*code.co_names, *(name for nested_names in nested for name in nested_names[0])}
    if reads_by_text(code.co_names):
        names |= {part for text in _texts(code) for part in (text, *text.split("."))}
        if not _READERS_OF_ALL.isdisjoint(code.co_names) or _computes_names(code):
            names.add(ANY_NAME)
    # Every second byte is an instruction, or belongs to a cache.
    opcodes = frozenset(code.co_code[::2])
    if _MATCH_CLASS in opcodes:
        # A pattern of a class reads attributes, some of which the class names.
        names.add(ANY_NAME)
    imported = {name for nested_names in nested for name in nested_names[1]}
    if _IMPORT_NAME in opcodes:
        imported |= {step.argval for step in dis.get_instructions(code) if step.opcode == _IMPORT_NAME}
    if not _TEXT_IMPORTERS.isdisjoint(code.co_names):
        imported.update(_texts(code))
    unsteady = next((nested_names[2] for nested_names in nested if nested_names[2]), None)
    if not _SEEDED_FUNCTIONS.isdisjoint(code.co_names):
        unsteady = next(_unseeded(code), unsteady)
    if not _TEXT_RUNNERS.isdisjoint(code.co_names):
        unsteady = next((step.argval for step in _steps(code) if _runs_text(step)), unsteady)
    if "datetime64" in code.co_names and not {"now", "today"}.isdisjoint(_texts(code)):
        unsteady = "numpy.datetime64"
    missing_names = frozenset(_names_that_may_be_missing(code, opcodes)).union(
        *[nested_names[4] for nested_names in nested]
    )
    return (
        frozenset(names),
        tuple(imported),
        unsteady,
        opcodes.union(*[nested_names[3] for nested_names in nested]),
        missing_names,
    )


def _names_that_may_be_missing(code: types.CodeType, opcodes: frozenset[int]) -> Iterator[str]:
    if reads_by_text(code.co_names):
        yield from (text for text in _texts(code) if text.isidentifier())
    is_handling = _PUSH_EXC_INFO in opcodes and _WITH_EXCEPT_START not in opcodes
    if is_handling or not _MISSING_NAME_ERRORS.isdisjoint(code.co_names):
        yield from code.co_names
    elif _STORE_ATTR in opcodes:
        yield from (step.argval for step in dis.get_instructions(code) if step.opcode == _STORE_ATTR)


_MISSING_NAME_ERRORS = {"AttributeError", "NameError", "Exception"}
"""Errors that are raised for missing names."""

_PUSH_EXC_INFO, _WITH_EXCEPT_START = dis.opmap["PUSH_EXC_INFO"], dis.opmap["WITH_EXCEPT_START"]
_STORE_ATTR = dis.opmap["STORE_ATTR"]


_TEXT_RUNNERS = {"eval", "exec"}
"""Functions that run code from a text, which is not analysed here."""


def _runs_text(step: dis.Instruction) -> bool:
    """Whether an instruction loads such a function, not a method of that name."""
    return step.argval in _TEXT_RUNNERS and step.opname in ("LOAD_GLOBAL", "LOAD_NAME")


_IMPORT_NAME, _MATCH_CLASS = dis.opmap["IMPORT_NAME"], dis.opmap["MATCH_CLASS"]
_TEXT_IMPORTERS = {"import_module", "__import__", "modules"}


def _computes_names(code: types.CodeType) -> bool:
    """Whether code calls `getattr` or `hasattr` with names other than literal texts."""
    steps = _steps(code)
    queries = sum(step.argval in ("getattr", "hasattr") for step in steps)
    calls = [(k, step.arg) for k, step in enumerate(steps) if step.opname == "CALL" and step.arg in (2, 3)]
    # The name is the second argument, before a default that is one instruction.
    name_steps = [steps[k - (arg or 0) + 1] for k, arg in calls]
    return queries > sum(step.opname.startswith("LOAD_CONST") and type(step.argval) is str for step in name_steps)


def _steps(code: types.CodeType) -> list[dis.Instruction]:
    """Return the instructions of code without those that only prepare calls."""
    return [step for step in dis.get_instructions(code) if step.opname not in ("CACHE", "PUSH_NULL", "PRECALL")]


def _texts(code: types.CodeType) -> list[str]:
    return [constant for constant in code.co_consts if isinstance(constant, str)]


def _unseeded(code: types.CodeType) -> Iterator[str]:
    """Yield the names of makers of generators that are not called with a constant: another seed may be None."""
    steps = _steps(code)
    for k, step in enumerate(steps):
        after = steps[k + 1 : k + 4]
        is_call = after[:1] and after[0].opname == "CALL"
        if step.argval == "seed":
            if is_call and not after[0].arg:
                yield step.argval
        elif step.argval in GENERATOR_MAKERS and not step.opname.startswith(("STORE", "LOAD_CONST", "RETURN_CONST")):
            is_check = is_call and after[0].arg == 2 and "isinstance" in code.co_names
            is_import = step.opname == "IMPORT_FROM" and after[0].argval == step.argval
            if not (is_check or is_import or _calls_with_a_constant(after)):
                yield step.argval


def _calls_with_a_constant(steps: list[dis.Instruction]) -> bool:
    """Whether instructions after a function's name begin with a call with one argument, a constant other than None."""
    if not steps:
        return False
    constant, *other_steps = steps
    is_constant = constant.opname.startswith(("LOAD_CONST", "LOAD_SMALL_INT")) and constant.argval is not None
    # The name of a keyword is a separate instruction.
    calls = [step for step in other_steps if step.opname not in ("KW_NAMES", "LOAD_CONST")][:1]
    return is_constant and any(call.opname in ("CALL", "CALL_KW") and call.arg == 1 for call in calls)
