"""Checks that a function draws no random numbers while it is traced: later calls would all get the same ones."""

from __future__ import annotations

import pickle
import random
import sys
import threading
from collections.abc import Callable, Container, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, NamedTuple

from anydml.tracing.categories import category_of, package_of
from anydml.tracing.clocks import SAME_NUMBERS_LATER
from anydml.tracing.refusing import fuse_error
from anydml.tracing.surroundings import Surroundings
from anydml.tracing.without_draws import cannot_draw


class _Source(NamedTuple):
    """A generator of random numbers.

    Attributes:
        name: the name of the generator in errors.
        state: a function that returns its state.
        is_private: whether only the function can have drawn from it, not another thread.
    """

    name: str
    state: Callable[[], Any]
    is_private: bool = True


@contextmanager
def no_random_draws(name: str, surroundings: Surroundings) -> Iterator[None]:
    """Check that no random numbers are drawn inside the context.

    Unless the function cannot draw, the generators of `random`, NumPy and PyTorch are compared, and those that it can
    reach. If another thread may have drawn the numbers, the surroundings become unsteady, so that the trace is not
    cached.

    Args:
        name: the name of the function that is traced inside the context.
        surroundings: the objects that it can reach.

    Raises:
        FuseError: the state of a generator differs afterwards.
    """
    objects, hidden = surroundings.objects, surroundings.hidden_generators
    if surroundings.is_complete and not hidden and cannot_draw(surroundings.names, objects.values()):
        yield
        return
    before = [
        (source, source.state())
        for source in (*_reachable_generators([*objects.values(), *hidden]), *_global_generators(objects))
    ]
    yield
    for source, state in before:
        if source.state() == state:
            continue
        if source.is_private:
            raise fuse_error(f"{name} drew random numbers from {source.name} while it was traced, {SAME_NUMBERS_LATER}")
        surroundings.doubt(f"random numbers of {source.name}, unless another thread does")


def loaded_random_libraries() -> list[str]:
    """The loaded libraries whose generators are compared; NumPy loads its generators on first use."""
    return [name for name in ("numpy.random", "torch") if name in sys.modules]


def _reachable_generators(objects: Iterable[Any]) -> Iterator[_Source]:
    """Yield the generators among objects."""
    torch = sys.modules.get("torch")
    for generator in [generator for generator in objects if category_of(type(generator)) == "generator"]:
        if isinstance(generator, random.Random):
            if not isinstance(generator, random.SystemRandom):
                yield _Source(_generator_name(generator), generator.getstate)
        elif torch is not None and isinstance(generator, torch.Generator):
            yield _Source(_generator_name(generator), partial(_torch_state, generator))
        else:
            yield _Source(
                _generator_name(generator), partial(_numpy_state, getattr(generator, "bit_generator", generator))
            )


def _global_generators(visited: Container[int]) -> Iterator[_Source]:
    """Yield the generators that all functions share, except those that were yielded already.

    Another thread may draw from them at any time; a draw is the function's only if it reaches the generator by name.
    """
    is_alone = threading.active_count() == 1
    # Tests may replace these functions.
    if id(getattr(random.getstate, "__self__", None)) not in visited:
        yield _Source("random", random.getstate, is_alone or id(random) in visited)
    if (numpy_random := sys.modules.get("numpy.random")) is not None:
        generator = getattr(numpy_random.get_state, "__self__", None)
        if generator is not None and (id(numpy_random) in visited or id(generator) not in visited):
            yield _Source("numpy.random", partial(_numpy_state, generator), is_alone or id(numpy_random) in visited)
    torch = sys.modules.get("torch")
    if torch is not None and hasattr(torch, "default_generator"):
        is_private = is_alone or id(torch) in visited
        yield _Source("torch", partial(_torch_state, torch.default_generator), is_private)
        for gpu, generator in enumerate(torch.cuda.default_generators if torch.cuda.is_initialized() else ()):
            yield _Source(f"torch.cuda, device {gpu}", partial(_torch_state, generator), is_private)


def _numpy_state(generator: Any) -> bytes:
    """Return the state of a BitGenerator or RandomState."""
    return pickle.dumps(generator.state if hasattr(generator, "state") else generator.get_state(legacy=False))


def _torch_state(generator: Any) -> bytes:
    state: bytes = generator.get_state().numpy().tobytes()
    return state


def _generator_name(generator: Any) -> str:
    for module_name, function in (("random", "getstate"), ("numpy.random", "get_state")):
        if getattr(getattr(sys.modules.get(module_name), function, None), "__self__", None) is generator:
            return module_name
    return f"a {type(generator).__name__} of {package_of(type(generator))}"
