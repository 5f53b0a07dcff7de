"""Random numbers and times that a function takes while it is traced: later calls would all get the same ones."""

from __future__ import annotations

import ctypes
import pickle
import random
import sys
import threading
import types
from collections.abc import Callable, Container, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from anydml.tracing.clocks import INSTEAD
from anydml.tracing.reading import ANY, is_of_a_library, package_of, sort_of
from anydml.tracing.refusing import broken
from anydml.tracing.surroundings import Surroundings


class _Source(NamedTuple):
    """A generator of random numbers: its name in errors, and a function that returns its state."""

    name: str
    state: Callable[[], Any]


@contextmanager
def none_drawn(name: str, surroundings: Surroundings) -> Iterator[None]:
    """Check that no random numbers are drawn inside the context.

    Noticed are the generators of `random`, NumPy and PyTorch, and those that the function can reach.

    Args:
        name: the name of the function that is traced inside the context.
        surroundings: what it can reach.

    Raises:
        FuseError: the state of a generator differs afterwards.
    """
    seen = surroundings.objects
    # Another thread may draw from what all functions share at any time.
    is_any = threading.active_count() == 1 and not _reaches_only_known(surroundings)
    before = [(source, source.state()) for source in (*_own(seen.values()), *_shared(seen, is_any))]
    yield
    for source, state in before:
        if source.state() != state:
            raise broken(f"{name} drew random numbers from {source.name} while it was traced, {INSTEAD}")


def libraries_that_draw() -> list[str]:
    """The loaded libraries whose generators are noticed; NumPy loads its own when it is first asked for it."""
    return [name for name in ("numpy.random", "torch") if name in sys.modules]


def _own(seen: Iterable[Any]) -> Iterator[_Source]:
    """Yield the generators among objects."""
    torch = sys.modules.get("torch")
    for each in [each for each in seen if sort_of(type(each)) == "generator"]:
        if isinstance(each, random.Random):
            if not isinstance(each, random.SystemRandom):
                yield _Source(_name(each), each.getstate)
        elif torch is not None and isinstance(each, torch.Generator):
            yield _Source(_name(each), partial(_torchs, each))
        else:
            yield _Source(_name(each), partial(_numpys, getattr(each, "bit_generator", each)))


def _reaches_only_known(surroundings: Surroundings) -> bool:
    """Whether a function can call only code that was visited, and NumPy's and this package's functions.

    It can draw from a generator that all functions share only if that was visited, too.
    """
    return (
        surroundings.is_whole
        and _LEAVING.isdisjoint(surroundings.names)
        and all(map(_is_known, surroundings.objects.values()))
    )


_LEADING = """
eval exec compile __import__ import_module reload globals locals vars modules __dict__ __builtins__ __globals__
__getattribute__ __subclasses__ attrgetter methodcaller f_back f_globals f_locals _getframe currentframe get_objects
get_referrers
"""
_LEAVING = {ANY, *_LEADING.split()}
"""Names of what leads to objects that no name in the code says."""

_KNOWN = frozenset(("builtins", "numpy", "anydml", "einops", "math", "operator", "itertools"))
"""Packages whose functions draw only from generators that are theirs, or that they are given."""


def _is_known(each: Any) -> bool:
    """Whether all that an object calls was visited, or draws only from generators of its library."""
    kind = type(each)
    sort = sort_of(kind)
    if sort == "array":
        return kind is np.ndarray and not each.dtype.hasobject
    if sort in ("container", "buffer"):
        return kind.__module__ == "builtins"
    if sort == "module":
        return package_of(each) in _KNOWN or not is_of_a_library(each)
    if sort == "function" and kind is not types.FunctionType and not isinstance(each.__self__, types.ModuleType):
        # What it is bound to was visited.
        return True
    if sort == "wrapper" and kind.__name__ != "cython_function_or_method":
        return True
    if sort == "object" or (sort == "class" and not is_of_a_library(each)):
        bases = (kind if sort == "object" else each).__mro__
        return all(base.__module__ == "builtins" or not is_of_a_library(base) for base in bases)
    if kind is types.FunctionType and not is_of_a_library(each):
        return True
    name = getattr(each, "__name__", None)
    module = sys.modules.get(getattr(each, "__module__", None) or "")
    return package_of(each) in _KNOWN and type(name) is str and getattr(module, name, None) is each


def _shared(known: Container[int], is_any: bool) -> Iterator[_Source]:
    """Yield the generators that all functions share, except those that were seen already.

    Args:
        known: what the function reaches by names.
        is_any: whether it may draw from others.
    """
    generator = random.random.__self__  # type: ignore[attr-defined]
    if id(generator) not in known and (is_any or id(random) in known):
        yield _Source("random", generator.getstate)
    if (numpys := sys.modules.get("numpy.random")) is not None:
        generator = numpys.random.__self__
        if id(numpys) in known:
            yield _Source("numpy.random", partial(_numpys, generator))
        elif is_any and id(generator) not in known and isinstance(bits := numpys.get_bit_generator(), numpys.MT19937):
            # A copy of 624 numbers as Python's would take as long as a trace.
            place = bits.ctypes.state_address
            yield _Source("numpy.random", partial(ctypes.string_at, place, 625 * 4))
    torch = sys.modules.get("torch")
    if torch is not None and hasattr(torch, "default_generator") and (is_any or id(torch) in known):
        yield _Source("torch", partial(_torchs, torch.default_generator))
        for number, generator in enumerate(torch.cuda.default_generators if torch.cuda.is_initialized() else ()):
            yield _Source(f"torch.cuda, device {number}", partial(_torchs, generator))


def _numpys(generator: Any) -> bytes:
    """Return the state of a BitGenerator or RandomState."""
    return pickle.dumps(generator.state if hasattr(generator, "state") else generator.get_state(legacy=False))


def _torchs(generator: Any) -> bytes:
    state: bytes = generator.get_state().numpy().tobytes()
    return state


def _name(generator: Any) -> str:
    return f"a {type(generator).__name__} of {package_of(type(generator))}"
