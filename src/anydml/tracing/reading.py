"""The names in code, which say what it can read, and the sorts of objects that it reaches."""

from __future__ import annotations

import array
import collections
import contextvars
import dis
import functools
import io
import random
import sys
import threading
import types
import weakref
from collections.abc import Iterable, Iterator
from functools import cached_property, lru_cache, partial
from typing import Any

import numpy as np

_LIBRARIES = {"anydml", "numpy", "torch", "jax", "jaxlib", "einops", "dask", "cupy", *sys.stdlib_module_names}
"""Packages whose functions and classes are not searched."""

_BY_TEXT = {"getattr", "hasattr", "attrgetter", "methodcaller", "vars", "globals", "__dict__", "__getattribute__",
            "__getattr__", "getattr_static"}  # fmt: skip
"""Names of what reads a variable or attribute whose name is a string."""

ANY = "*"
"""Stands for all names among those of code that reads attributes whose names are not in it."""

_MAKERS = {"default_rng", "RandomState", "Random", "SeedSequence", "PCG64", "PCG64DXSM", "MT19937", "Philox", "SFC64"}
"""Names of what makes a generator of random numbers, from chance of the system if it is called without a seed."""

_SEEDED = {*_MAKERS, "seed"}
"""Names of what takes chance from the system if it is called without a seed."""

_PLAIN = (int, float, complex, bool, str, bytes, type(None), type(Ellipsis), slice, range, np.dtype, np.generic)


def names_of(code: types.CodeType) -> frozenset[str]:
    """Return the names of global variables and attributes in code and in functions inside it."""
    return _named(code)[0]


def modules_of(code: types.CodeType) -> list[types.ModuleType]:
    """Return the modules that code imports when it runs, as far as they are loaded."""
    return [sys.modules[name] for name in _named(code)[1] if name in sys.modules]


def unsteady_call(code: types.CodeType) -> str | None:
    """Return the name of something that code calls and that gives other values each time; None if there is none."""
    return _named(code)[2]


def asked_for_by_text(code: types.CodeType) -> frozenset[str]:
    """Return the names of attributes in texts of code and of functions inside it, which need not be there."""
    inner = [asked_for_by_text(each) for each in code.co_consts if isinstance(each, types.CodeType)]
    texts = [each for each in _texts(code) if each.isidentifier()] if reads_by_text(code.co_names) else []
    return frozenset(texts).union(*inner)


def reads_by_text(names: Iterable[str]) -> bool:
    """Whether code with some names may read variables or attributes whose names are strings."""
    return not _BY_TEXT.isdisjoint(names)


def makes_generators(function: Any) -> bool:
    """Whether a function makes generators of random numbers."""
    return type(function) is types.FunctionType and not _SEEDED.isdisjoint(names_of(function.__code__))


def opcodes_of(code: types.CodeType) -> frozenset[int]:
    """Return the kinds of instructions in code and in functions inside it."""
    return _named(code)[3]


_Read = tuple[frozenset[str], tuple[str, ...], str | None, frozenset[int]]

_SEEN: dict[int, tuple[types.CodeType, _Read]] = {}
"""Results of `_named` by the identity of their code, since hashing code would take long."""

MOST_CODES_READ = 4096


def _named(code: types.CodeType) -> _Read:
    known = _SEEN.get(id(code))
    if known is not None:
        return known[1]
    if len(_SEEN) >= MOST_CODES_READ:
        _SEEN.clear()
    names = _names_in(code)
    # The code is kept, so that no other one gets its identity.
    _SEEN[id(code)] = code, names
    return names


def _names_in(code: types.CodeType) -> _Read:
    inner = [_named(each) for each in code.co_consts if isinstance(each, types.CodeType)]
    names = {*code.co_names, *(name for each in inner for name in each[0])}
    if reads_by_text(code.co_names):
        names |= {part for each in _texts(code) for part in (each, *each.split("."))}
        if _computes_names(code):
            names.add(ANY)
    # Every other byte is an instruction, or a cache's.
    used = frozenset(code.co_code[::2])
    if _MATCHING in used:
        # A pattern of a class reads attributes, some of which the class names.
        names.add(ANY)
    imported = {name for each in inner for name in each[1]}
    if _IMPORTING in used:
        imported |= {step.argval for step in dis.get_instructions(code) if step.opcode == _IMPORTING}
    unsteady = next((each[2] for each in inner if each[2]), None)
    if not _SEEDED.isdisjoint(code.co_names):
        unsteady = next(_unseeded(code), unsteady)
    if not _RUN.isdisjoint(code.co_names):
        unsteady = next((step.argval for step in _steps(code) if _is_run(step)), unsteady)
    if "datetime64" in code.co_names and not {"now", "today"}.isdisjoint(_texts(code)):
        unsteady = "numpy.datetime64"
    return frozenset(names), tuple(imported), unsteady, used.union(*[each[3] for each in inner])


_RUN = {"eval", "exec"}
"""Functions that run a text, which is not read here."""


def _is_run(step: dis.Instruction) -> bool:
    """Whether an instruction loads such a function, not a method of that name."""
    return step.argval in _RUN and step.opname in ("LOAD_GLOBAL", "LOAD_NAME")


_IMPORTING, _MATCHING = dis.opmap["IMPORT_NAME"], dis.opmap["MATCH_CLASS"]


def _computes_names(code: types.CodeType) -> bool:
    """Whether code calls `getattr` or `hasattr` with other names than texts in it."""
    steps = _steps(code)
    asked = sum(step.argval in ("getattr", "hasattr") for step in steps)
    calls = [(k, step.arg) for k, step in enumerate(steps) if step.opname == "CALL" and step.arg in (2, 3)]
    # The name is the second argument, before a default that is one instruction.
    name_steps = [steps[k - (arg or 0) + 1] for k, arg in calls]
    return asked > sum(each.opname.startswith("LOAD_CONST") and type(each.argval) is str for each in name_steps)


def _steps(code: types.CodeType) -> list[dis.Instruction]:
    """Return the instructions of code, without those that only prepare calls."""
    return [each for each in dis.get_instructions(code) if each.opname not in ("CACHE", "PUSH_NULL", "PRECALL")]


def _texts(code: types.CodeType) -> list[str]:
    return [each for each in code.co_consts if isinstance(each, str)]


def _unseeded(code: types.CodeType) -> Iterator[str]:
    """Yield the names of makers of generators that are not called at once with a constant, as a seed may be None."""
    steps = _steps(code)
    for k, step in enumerate(steps):
        after = steps[k + 1 : k + 4]
        is_call = after[:1] and after[0].opname == "CALL"
        if step.argval == "seed":
            if is_call and not after[0].arg:
                yield step.argval
        elif step.argval in _MAKERS and not step.opname.startswith(("STORE", "LOAD_CONST", "RETURN_CONST")):
            is_check = is_call and after[0].arg == 2 and "isinstance" in code.co_names
            is_import = step.opname == "IMPORT_FROM" and after[0].argval == step.argval
            if not (is_check or is_import or _calls_with_a_constant(after)):
                yield step.argval


def _calls_with_a_constant(steps: list[dis.Instruction]) -> bool:
    """Whether instructions after a function's name begin with a call with one argument, a constant but None."""
    if not steps:
        return False
    constant, *others = steps
    is_constant = constant.opname.startswith(("LOAD_CONST", "LOAD_SMALL_INT")) and constant.argval is not None
    # A keyword's name is an instruction of its own.
    calls = [each for each in others if each.opname not in ("KW_NAMES", "LOAD_CONST")][:1]
    return is_constant and any(call.opname in ("CALL", "CALL_KW") and call.arg == 1 for call in calls)


def is_maker(each: Any, name: str) -> bool:
    """Whether an object makes generators of random numbers, under a name that code does not show.

    Args:
        each: the object.
        name: what code calls it.
    """
    if name.rpartition(".")[2] in _MAKERS:
        return False
    numpys = sys.modules.get("numpy.random")
    if isinstance(each, type):
        kinds = () if numpys is None else (numpys.RandomState, numpys.BitGenerator, numpys.SeedSequence)
        return issubclass(each, (random.Random, *kinds))
    return numpys is not None and each is numpys.default_rng


def sort_of(kind: type) -> str:
    """Return of which sort objects of a type are: what can be read of them."""
    return _sort_of(kind)


@lru_cache(maxsize=4096)
def _sort_of(kind: Any) -> str:
    if issubclass(kind, _PLAIN):
        return "plain"
    if issubclass(kind, np.ndarray):
        return "array"
    if issubclass(kind, (list, tuple, dict, set, frozenset, collections.deque, types.MappingProxyType)):
        return "container"
    if issubclass(kind, (bytearray, array.array)):
        return "buffer"
    if issubclass(kind, (types.FunctionType, types.BuiltinFunctionType)):
        return "function"
    if issubclass(kind, types.ModuleType):
        return "module"
    if issubclass(kind, type):
        return "class"
    if _is_generator(kind):
        return "generator"
    if issubclass(kind, _WRAPPERS) or kind.__name__ == "cython_function_or_method":
        return "wrapper"
    queues = sys.modules.get("queue")
    unsteady = _UNSTEADY if queues is None else (*_UNSTEADY, queues.Queue, queues.SimpleQueue)
    if issubclass(kind, unsteady) or (hasattr(kind, "__next__") and not issubclass(kind, io.IOBase)):
        return "unsteady"
    return _sort_of_a_librarys(kind)


def _sort_of_a_librarys(kind: type) -> str:
    torch = sys.modules.get("torch")
    if torch is not None and issubclass(kind, torch.Tensor):
        return "tensor"
    if torch is not None and issubclass(kind, torch.nn.Module):
        return "object"
    package = package_of(kind)
    if package in sys.stdlib_module_names or package not in _LIBRARIES:
        # Users set attributes of the standard library's objects, too, such as those of SimpleNamespace.
        return "object"
    return "library"


def _is_generator(kind: type) -> bool:
    numpys, torch = sys.modules.get("numpy.random"), sys.modules.get("torch")
    kinds = (numpys.Generator, numpys.RandomState, numpys.BitGenerator) if numpys is not None else ()
    return issubclass(kind, (random.Random, *kinds, *((torch.Generator,) if torch is not None else ())))


_WRAPPERS = (types.MethodType, types.MethodWrapperType, partial, functools._lru_cache_wrapper, property,
             cached_property, classmethod, staticmethod)  # fmt: skip

_UNSTEADY = (contextvars.ContextVar, threading.local, weakref.ref)

_PARTS = ("__self__", "__func__", "__wrapped__", "func", "args", "keywords", "fget")


def parts_of(each: Any) -> list[Any]:
    """Return what a wrapper, such as a method, is made of."""
    return [part for name in _PARTS if (part := getattr(each, name, None)) is not None]


def classes_of(kind: type) -> list[type]:
    """Return a class and its bases, except those of libraries."""
    return [each for each in kind.__mro__ if not is_of_a_library(each)]


def called_by_syntax(kind: type, is_new: bool) -> list[Any]:
    """Return the methods that calls, operators, `len` and so on use of objects of a class, or of new ones."""
    others = _OF_TEXT if is_new else _OF_TEXT | _OF_NEW
    methods = [(name, each) for name, each in vars(kind).items() if type(each) is types.FunctionType]
    return [each for name, each in methods if name.startswith("__") and name not in others]


_OF_NEW = {"__init__", "__new__", "__post_init__"}
_OF_TEXT = {"__del__", "__repr__", "__str__", "__reduce__"}
"""Methods of which results seldom depend."""


def is_of_a_library(each: Any) -> bool:
    """Whether a function, class or module is of a library, whose code is not searched."""
    if isinstance(each, type) and each.__module__ == "builtins":
        # Classes that code without a module defines have this module, too.
        return not each.__flags__ & _DEFINED_LATER
    return package_of(each) in _LIBRARIES


_DEFINED_LATER = 1 << 9
"""Flag of classes that are not part of the interpreter's memory (Py_TPFLAGS_HEAPTYPE)."""


def package_of(each: Any) -> str:
    """Return the name of the package that has a function or class, or a module."""
    name = each.__name__ if isinstance(each, types.ModuleType) else getattr(each, "__module__", None)
    return str(name or "").partition(".")[0]
