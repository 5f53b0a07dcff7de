"""Random numbers and times that a function takes while it is traced: later calls would all get the same ones."""

from __future__ import annotations

import ctypes
import inspect
import pickle
import random
import sys
import threading
import types
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache, partial
from typing import Any, NamedTuple

import numpy as np

from anydml.tracing.refusing import broken

INSTEAD = "and later calls would use the same numbers: pass them as arguments"

MOST_VISITED = 2000
"""Most objects among which generators are searched."""

_LIBRARIES = frozenset(("anydml", "numpy", "torch", "jax", "jaxlib", "einops", "builtins", "dask", "cupy"))
"""Packages whose objects and functions are not searched."""


class _Source(NamedTuple):
    """A generator of random numbers: its name in errors, and a function that returns its state."""

    name: str
    state: Callable[[], Any]


@contextmanager
def none_drawn(name: str, function: Callable[..., Any], arguments: Any) -> Iterator[None]:
    """Check that no random numbers are drawn inside the context.

    Noticed are the generators of `random`, NumPy and PyTorch, and those that the function can reach.

    Args:
        name: the function's name.
        function: the function that is traced inside the context.
        arguments: its arguments.

    Raises:
        FuseError: the state of a generator differs afterwards.
    """
    seen = _reached([function, arguments])
    known = {id(each) for each in seen}
    before = [(source, source.state()) for source in (*_own(seen), *_shared(known))]
    yield
    for source, state in before:
        if source.state() != state:
            raise broken(f"{name} drew random numbers from {source.name} while it was traced, {INSTEAD}")


def _own(seen: Sequence[Any]) -> Iterator[_Source]:
    """Yield the generators among objects."""
    numpys, torch = sys.modules.get("numpy.random"), sys.modules.get("torch")
    for each in seen:
        if isinstance(each, random.Random) and not isinstance(each, random.SystemRandom):
            yield _Source(_name(each), each.getstate)
        elif numpys is not None and isinstance(each, (numpys.Generator, numpys.RandomState, numpys.BitGenerator)):
            yield _Source(_name(each), partial(_numpys, getattr(each, "bit_generator", each)))
        elif torch is not None and isinstance(each, torch.Generator):
            yield _Source(_name(each), partial(_torchs, each))


def _shared(known: set[int]) -> Iterator[_Source]:
    """Yield the generators that all functions share, except those that were seen already.

    Another thread may draw from them at any time; with several threads, a function must reach them by name.
    """
    is_alone = threading.active_count() == 1
    own = random.random.__self__  # type: ignore[attr-defined]
    if id(own) not in known and (is_alone or id(random) in known):
        yield _Source("random", own.getstate)
    if (numpys := sys.modules.get("numpy.random")) is not None:
        own = numpys.random.__self__
        if id(numpys) in known:
            yield _Source("numpy.random", partial(_numpys, own))
        elif is_alone and id(own) not in known and isinstance(bits := numpys.get_bit_generator(), numpys.MT19937):
            # A copy of 624 numbers as Python's would take as long as a trace.
            place = bits.ctypes.state_address
            yield _Source("numpy.random", partial(ctypes.string_at, place, 625 * 4))
    torch = sys.modules.get("torch")
    if torch is not None and hasattr(torch, "default_generator") and (is_alone or id(torch) in known):
        yield _Source("torch", partial(_torchs, torch.default_generator))
        for number, own in enumerate(torch.cuda.default_generators if torch.cuda.is_initialized() else ()):
            yield _Source(f"torch.cuda, device {number}", partial(_torchs, own))


def _numpys(generator: Any) -> bytes:
    """Return the state of a BitGenerator or RandomState."""
    return pickle.dumps(generator.state if hasattr(generator, "state") else generator.get_state(legacy=False))


def _torchs(generator: Any) -> bytes:
    state: bytes = generator.get_state().numpy().tobytes()
    return state


def _name(generator: Any) -> str:
    return f"a {type(generator).__name__} of {_package(type(generator))}"


def _reached(roots: list[Any]) -> list[Any]:
    """Return objects that a function can reach by its names, variables, defaults and arguments."""
    found: list[Any] = []
    visited: set[int] = set()
    waiting = [*roots]
    while waiting and len(visited) < MOST_VISITED:
        each = waiting.pop()
        kind = type(each)
        if kind in _PLAIN or id(each) in visited:
            continue
        visited.add(id(each))
        found.append(each)
        waiting += _parts(each, kind)
    return found


_PLAIN = frozenset((int, float, bool, str, bytes, type(None), slice, np.ndarray, np.dtype, type))


def _parts(each: Any, kind: type) -> list[Any]:
    if kind in (list, tuple, set, frozenset):
        return [*each]
    if kind is dict:
        return [*each.values()]
    if kind is types.FunctionType:
        return _parts_of_function(each)
    if kind is types.MethodType:
        return [each.__func__, each.__self__]
    if kind is partial:
        return [each.func, each.args, each.keywords]
    if kind is types.BuiltinMethodType or kind.__name__ == "cython_function_or_method":
        return [each.__self__] if getattr(each, "__self__", None) is not None else []
    if kind is types.ModuleType or _package(kind) in _LIBRARIES:
        # Of another fused function, its own function is searched.
        return [own] if (own := getattr(each, "__dict__", {}).get("__wrapped__")) is not None else []
    return [*getattr(each, "__dict__", {}).values(), inspect.getattr_static(kind, "__call__", None)]


def _parts_of_function(function: types.FunctionType) -> list[Any]:
    names, values = _names(function.__code__), function.__globals__
    found = [values[name] for name in names if name in values]
    # Attributes of modules, such as `settings.generator` and `np.random`.
    modules = [each for each in found if type(each) is types.ModuleType]
    found += [vars(each)[name] for each in modules for name in names if name in vars(each)]
    if np in modules and "random" in names:
        # NumPy imports it when it is asked for.
        found.append(np.random)
    for cell in function.__closure__ or ():
        try:
            found.append(cell.cell_contents)
        except ValueError:  # a variable that has no value yet
            continue
    found = [each for each in found if type(each) is not types.FunctionType or _package(each) not in _LIBRARIES]
    return [*found, function.__defaults__, function.__kwdefaults__]


@lru_cache(maxsize=1024)
def _names(code: types.CodeType) -> tuple[str, ...]:
    """Return the global names and attributes in a code object and in functions inside it."""
    inner = [each for each in code.co_consts if isinstance(each, types.CodeType)]
    return tuple({*code.co_names, *(name for each in inner for name in _names(each))})


def _package(each: Any) -> str:
    return str(getattr(each, "__module__", None) or "").partition(".")[0]
