"""Categories of the objects that functions reach, which say what can be read of an object."""

from __future__ import annotations

import array
import collections
import contextvars
import functools
import io
import mmap
import random
import sys
import threading
import types
import weakref
from functools import cached_property, lru_cache, partial
from typing import Any

import numpy as np

_LIBRARIES = {"anydml", "numpy", "torch", "jax", "jaxlib", "einops", "dask", "cupy", *sys.stdlib_module_names}
"""Packages whose functions and classes are not searched."""

GENERATOR_MAKERS = {"default_rng", "RandomState", "Random", "SeedSequence", "PCG64", "PCG64DXSM", "MT19937", "Philox",
                    "SFC64"}  # fmt: skip
"""Names of functions and classes that make generators of random numbers, seeded by the system if no seed is passed."""

_PLAIN_TYPES = (int, float, complex, bool, str, bytes, type(None), type(Ellipsis), slice, range, np.dtype, np.generic)


def is_aliased_rng_factory(value: Any, name: str) -> bool:
    """Whether an object makes generators of random numbers, but has another name in the code.

    Args:
        value: the object.
        name: the name of the object in the code.
    """
    if name.rpartition(".")[2] in GENERATOR_MAKERS:
        return False
    numpy_random = sys.modules.get("numpy.random")
    if isinstance(value, type):
        kinds = (
            ()
            if numpy_random is None
            else (numpy_random.RandomState, numpy_random.BitGenerator, numpy_random.SeedSequence)
        )
        return issubclass(value, (random.Random, *kinds))
    return numpy_random is not None and value is numpy_random.default_rng


def category_of(class_: type) -> str:
    """Return the category of the objects of a type."""
    return _category_of(class_)


@lru_cache(maxsize=4096)
def _category_of(class_: Any) -> str:
    if issubclass(class_, _PLAIN_TYPES) and not issubclass(class_, np.void):
        # Objects of users' classes have attributes.
        return "plain" if class_ in _PLAIN_TYPES or is_of_a_library(class_) else "object"
    if issubclass(class_, np.ndarray):
        return "array"
    if issubclass(class_, _CONTAINER_TYPES):
        return "container"
    if issubclass(class_, (bytearray, array.array, memoryview, mmap.mmap, np.void)):
        return "buffer"
    if issubclass(class_, (types.FunctionType, types.BuiltinFunctionType)):
        return "function"
    if issubclass(class_, types.ModuleType):
        return "module"
    if issubclass(class_, type):
        return "class"
    if _is_generator(class_):
        return "generator"
    if issubclass(class_, _WRAPPER_TYPES) or class_.__name__ == CYTHON_FUNCTION:
        return "wrapper"
    queues = sys.modules.get("queue")
    unsteady = _UNSTEADY_TYPES if queues is None else (*_UNSTEADY_TYPES, queues.Queue, queues.SimpleQueue)
    if issubclass(class_, unsteady) or (hasattr(class_, "__next__") and not issubclass(class_, io.IOBase)):
        return "unsteady"
    return "file" if issubclass(class_, io.IOBase) else _category_in_library(class_)


def _category_in_library(class_: type) -> str:
    torch = sys.modules.get("torch")
    if torch is not None and issubclass(class_, torch.Tensor):
        return "tensor"
    if torch is not None and issubclass(class_, torch.nn.Module):
        return "object"
    package = package_of(class_)
    if package in _LIBRARIES and package not in sys.stdlib_module_names:
        return "library"
    # Users set attributes of the standard library's objects, too, such as those of SimpleNamespace.
    return "unsteady" if any(map(_is_opaque, class_.__mro__)) else "object"


def _is_opaque(class_: type) -> bool:
    """Whether objects of a class may have state that cannot be compared, since its methods are compiled or not read."""
    package = package_of(class_)
    if class_ is object or package in _STEADY_MODULES:
        return False
    if package in sys.stdlib_module_names:
        return not issubclass(class_, BaseException)
    return _has_compiled_methods(class_)


def _has_compiled_methods(class_: type) -> bool:
    return any(type(base) in _COMPILED_METHODS for name, base in vars(class_).items() if name not in _IN_EVERY_CLASS)


_COMPILED_METHODS = (types.MethodDescriptorType, types.GetSetDescriptorType)
_IN_EVERY_CLASS = {"__dict__", "__weakref__"}

_STEADY_MODULES = {"_abc", "abc", "argparse", "builtins", "collections", "contextlib", "dataclasses", "datetime",
                   "decimal", "enum", "fractions", "functools", "inspect", "ipaddress", "logging", "numbers",
                   "operator", "os", "pathlib", "re", "string", "struct", "_struct", "_thread", "types", "typing",
                   "uuid", "zoneinfo"}  # fmt: skip
"""Modules of the standard library whose objects are immutable, or show their state in attributes."""


def is_array_like(class_: type) -> bool:
    """Whether objects of a class can be converted to arrays without a copy."""
    return any(hasattr(class_, name) for name in ("__dlpack__", "__array_interface__", "__cuda_array_interface__"))


def _is_generator(class_: type) -> bool:
    numpy_random, torch = sys.modules.get("numpy.random"), sys.modules.get("torch")
    kinds = (
        (numpy_random.Generator, numpy_random.RandomState, numpy_random.BitGenerator)
        if numpy_random is not None
        else ()
    )
    return issubclass(class_, (random.Random, *kinds, *((torch.Generator,) if torch is not None else ())))


_DICT_VIEWS = tuple(map(type, ({}.keys(), {}.values(), {}.items())))
_CONTAINER_TYPES = (list, tuple, dict, set, frozenset, collections.deque, types.MappingProxyType, *_DICT_VIEWS)

_WRAPPER_TYPES = (types.MethodType, types.MethodWrapperType, partial, functools._lru_cache_wrapper, property,
             cached_property, classmethod, staticmethod, np.vectorize)  # fmt: skip

CYTHON_FUNCTION = "cython_function_or_method"
"""Name of the types of functions that Cython has compiled."""

_UNSTEADY_TYPES = (contextvars.ContextVar, threading.local, weakref.ref)

_WRAPPED_ATTRIBUTES = ("__self__", "__func__", "__wrapped__", "func", "args", "keywords", "fget", "pyfunc")


def referents_of(wrapper: Any) -> list[Any]:
    """Return the objects that a wrapper, such as a method, refers to."""
    return [part for name in _WRAPPED_ATTRIBUTES if (part := getattr(wrapper, name, None)) is not None]


def classes_of(class_: type) -> list[type]:
    """Return a class and its bases, except those of libraries."""
    return [base for base in class_.__mro__ if not is_of_a_library(base)]


def syntax_methods(class_: type, is_new: bool) -> list[Any]:
    """Return the methods that syntax calls on objects of a class, such as operators and `len`.

    Args:
        class_: the class.
        is_new: whether objects are also created, which calls `__init__` and similar methods.
    """
    ignored = _IGNORED_METHODS if is_new else _IGNORED_METHODS | _CREATION_METHODS
    methods = [
        (name, method) for name, method in vars(class_).items() if type(method) in (types.FunctionType, staticmethod)
    ]
    return [method for name, method in methods if name.startswith("__") and name not in ignored]


_CREATION_METHODS = {"__init__", "__new__", "__post_init__"}
_IGNORED_METHODS = {"__del__", "__repr__", "__str__", "__reduce__"}
"""Methods that results seldom depend on."""


def is_of_a_library(value: Any) -> bool:
    """Whether a function, class or module belongs to a library whose code is not searched."""
    if isinstance(value, type) and value.__module__ == "builtins":
        # Classes that are defined by code without a module name have this module, too.
        return not value.__flags__ & _RUNTIME_CLASS
    return package_of(value) in _LIBRARIES


def is_compiled_elsewhere(value: Any) -> bool:
    """Whether a class or compiled function has compiled code of another library, which may read a file or draw."""
    if isinstance(value, type):
        return any(map(_has_compiled_methods, classes_of(value)))
    return bool(package_of(value)) and not is_of_a_library(value)


_RUNTIME_CLASS = 1 << 9
"""Flag of classes that are created at run time (Py_TPFLAGS_HEAPTYPE)."""


def package_of(value: Any) -> str:
    """Return the name of the package that a function, class or module belongs to."""
    name = value.__name__ if isinstance(value, types.ModuleType) else getattr(value, "__module__", None)
    return str(name or "").partition(".")[0]
