"""Values that a function can read besides its arguments: variables, attributes and containers that its code names.

A trace is valid while these are unchanged. Large containers are compared by their lengths, large arrays not at all.
"""

from __future__ import annotations

import collections
import functools
import operator
import os
import sys
import types
from collections.abc import Callable, Collection, Sequence
from functools import partial
from itertools import chain, islice
from typing import Any

import numpy as np

from anydml.tracing.attributes import MAX_ITEMS, Attributes
from anydml.tracing.categories import (
    CYTHON_FUNCTION,
    category_of,
    classes_of,
    is_aliased_rng_factory,
    is_array_like,
    is_compiled_elsewhere,
    is_of_a_library,
    package_of,
    referents_of,
    syntax_methods,
)
from anydml.tracing.clocks import clock_replacement, differs_by_process, differs_by_time
from anydml.tracing.hidden_generators import MAX_SEARCHED, generators_behind, searchable
from anydml.tracing.names_in_code import (
    makes_generators,
    modules_of,
    names_of,
    names_read_by,
    names_that_may_be_missing,
    reads_by_text,
    unsteady_call,
)
from anydml.tracing.surrounding_values import SurroundingValues
from anydml.tracing.write_only_names import is_only_written

MAX_VISITED = 2000
"""Maximum number of objects that are visited."""

MAX_BYTES = 1024
"""Maximum number of bytes of an array that are compared."""


_DEFAULT_DTYPE_FUNCTIONS = ("zeros", "ones", "empty", "full", "tensor")
"""Functions of PyTorch whose results may have the default dtype."""

_ENVIRONMENT_READERS = (
    *(getattr(os, name) for name in ("environ", "getenv", "environb", "getenvb") if hasattr(os, name)),
    *(os.path.expandvars, os.path.expanduser),
)
"""The environment variables, and functions that read them."""

_FIELDS_OF_MODULES = ("_modules", "_buffers", "_parameters")
"""Attributes of PyTorch's modules, which are dicts of further attributes."""

_SKIPPED_TYPES = frozenset((int, float, bool, str, type(None), slice, np.ndarray))


class Surroundings:
    """The surroundings of a function, at the time when the object is created.

    Args:
        function: the function.
        arguments: a structure of its arguments, of which objects that are neither arrays nor numbers are searched, too.

    Attributes:
        objects: the visited objects, by identity.
        hidden_generators: generators of random numbers behind objects that were not visited.
        names: all names in the code of the functions that were visited.
        unsteady: the name of a value that may differ whenever it is read; None if there is none.
        is_doubted: whether `unsteady` is only suspected, so that another trace may find none.
        surrounding_values: all other values that were visited.
    """

    def __init__(self, function: Callable[..., Any], arguments: Any) -> None:
        self.objects: dict[int, Any] = {}
        self._unvisited: list[Any] = []
        self.names: set[str] = set()
        self.unsteady: str | None = None
        self.is_doubted = False
        self.surrounding_values = SurroundingValues()
        self._note = self.surrounding_values.note
        self._is_searched = True
        self._queried: set[str] = set()
        self._codes: list[types.CodeType] = []
        self._functions: list[types.FunctionType] = []
        # The name of each container by identity, and those names whose container has another name, too.
        self._containers: dict[int, str] = {}
        self._aliases: set[str] = set()
        self._waiting: list[tuple[Any, str]] = []
        self._attributes = Attributes(self.surrounding_values, self._waiting)
        self._visit_function(function)
        self._visit_arguments(arguments)
        self._visit_all()
        self.hidden_generators = generators_behind([*self._unvisited, *(value for value, _ in self._waiting)])
        if len(self._functions) > 1:
            # Notebooks that reload a module replace the code of its functions.
            names = [function.__name__ for function in self._functions]
            self._note(partial(map, operator.attrgetter("__code__"), self._functions), "the code of ", names)
        for field in ("__defaults__", "__kwdefaults__"):
            read = operator.attrgetter(field)
            if with_defaults := [function for function in self._functions if read(function)]:
                names = [function.__name__ for function in with_defaults]
                self._note(partial(map, read, with_defaults), "the defaults of ", names)

    @property
    def is_complete(self) -> bool:
        """Whether all objects that the function can reach were visited."""
        return self._is_searched and len(self.objects) < MAX_VISITED

    def change(self) -> str | None:
        """Return the name of a value that has changed, or may have; None if there is none.

        Variables that the function only writes, such as counters, are left out, and no longer watched.
        """
        while changed := self.surrounding_values.change():
            if changed in self._aliases or not is_only_written(changed.rpartition(".")[2], self._codes):
                return changed
            self.surrounding_values.forget(changed)
        return self.unsteady

    def _visit_function(self, function: Any) -> None:
        if type(function) is types.MethodType and package_of(type(function.__self__)) == package_of(Surroundings):
            # A method of one of anydml's own objects, such as an ONNX graph, which nobody changes.
            return
        if type(function) is types.MethodType and type(function.__func__) is types.FunctionType:
            # The object may also be a library's, such as a PyTorch module.
            self._visit_object(function.__self__, "self")
            function = function.__func__
        if type(function) is types.FunctionType:
            self._search_function(function, is_copied=True)
        else:
            self._waiting.append((function, "self"))

    def _visit_arguments(self, arguments: Any) -> None:
        waiting = [arguments]
        while waiting:
            argument = waiting.pop()
            class_ = type(argument)
            if class_ in _SKIPPED_TYPES:
                continue
            if class_ is tuple or class_ is list:
                waiting += argument
            elif isinstance(argument, (tuple, list, dict)):
                waiting += argument.values() if isinstance(argument, dict) else argument
                if class_ is not dict:
                    self._add_object(argument, f"a {class_.__name__} among the arguments", classes_of(class_))
            elif (category := category_of(class_)) not in ("plain", "array", "tensor", "library") and not is_array_like(
                class_
            ):
                self._waiting.append((argument, f"a {class_.__name__} among the arguments"))
            elif category == "library" or not is_of_a_library(class_):
                self._is_searched = False

    def doubt(self, name: str) -> None:
        """Note the name of a value that may differ at every read, unless such a name is noted already."""
        if self.unsteady is None:
            self.unsteady, self.is_doubted = name, True

    def _visit_all(self) -> None:
        while len(self.objects) < MAX_VISITED:
            while self._waiting and len(self.objects) < MAX_VISITED:
                value, label = self._waiting.pop()
                category = category_of(type(value))
                if id(value) in self.objects:
                    self._aliases.add(self._containers.get(id(value), ""))
                elif category != "plain":
                    self.objects[id(value)] = value
                    self._visit(value, label, category)
            if not self._attributes.scan(self.names):
                self._attributes.note_absent(self._queried, self.names)
                if reads_by_text(self.names):
                    # The code may reach any attribute of imported modules, such as a function that makes generators.
                    modules = [name for name in ("random", "numpy.random") if id(sys.modules.get(name)) in self.objects]
                    self.unsteady = modules[0] if modules else self.unsteady
                if not self.names.isdisjoint(("type", "__class__")):
                    # The class of a generator can create another one, seeded by the system.
                    makers = [value for value in self.objects.values() if category_of(type(value)) == "generator"]
                    self.unsteady = f"the class of a {type(makers[0]).__name__}" if makers else self.unsteady
                torch = sys.modules.get("torch")
                if (
                    torch is not None
                    and id(torch) in self.objects
                    and not self.names.isdisjoint(_DEFAULT_DTYPE_FUNCTIONS)
                ):
                    self._note(partial(_result_of, torch.get_default_dtype), "PyTorch's default dtype")
                return

    def _visit(self, value: Any, label: str, category: str) -> None:
        if category == "unsteady" or differs_by_time(value) or is_aliased_rng_factory(value, label):
            self.unsteady = label
        elif differs_by_process(value):
            self._note(partial(_result_of, value), label)
        elif any(value is reader for reader in _ENVIRONMENT_READERS):
            self._visit_container(vars(os.environ)["_data"], "os.environ")
        elif (visit := _VISITS.get(category)) is not None:
            visit(self, value, label)

    def _visit_array(self, array: Any, label: str) -> None:
        if array.nbytes <= MAX_BYTES:
            self.surrounding_values.note_content(array.tobytes, label)
        if array.dtype.hasobject:
            self._visit_items(array.ravel().tolist(), label)
        if type(array) is not np.ndarray:
            self._visit_object(array, label)

    def _visit_items(self, items: Collection[Any], label: str) -> None:
        if len(items) <= MAX_ITEMS:
            self._waiting += [(item, label) for item in items]
            return
        first_items = searchable([*islice(items, MAX_SEARCHED)])
        self._unvisited += first_items
        if any(category_of(class_) in ("unsteady", "file") for class_ in {*map(type, first_items)}):
            self.unsteady = label

    def _visit_buffer(self, buffer: Any, label: str) -> None:
        self.surrounding_values.note_content(memoryview(buffer).tobytes, label)

    def _visit_tensor(self, tensor: Any, label: str) -> None:
        self.surrounding_values.note_content(partial(_version, tensor), label)
        if not is_of_a_library(type(tensor)):
            self._visit_object(tensor, label)

    def _visit_file(self, file: Any, label: str) -> None:
        # Results do not depend on objects that are only written to, such as logs.
        if not file.closed and file.readable():
            self.unsteady = label

    def _visit_reached_function(self, function: Any, label: str) -> None:
        if type(function) is not types.FunctionType:
            # The `__self__` of a builtin function that is not a method is its module.
            if is_compiled_elsewhere(function):
                self.unsteady = label
            elif type(function.__self__) is not types.ModuleType:
                self._waiting.append((function.__self__, label))
        elif not is_of_a_library(function):
            self._search_function(function, is_copied=False)

    def _visit_module(self, module: Any, label: str) -> None:
        is_noted = not is_of_a_library(module)
        self._attributes.add(module, vars(module), (), label, is_noted)
        if is_noted and "__getattr__" in vars(module):
            self._waiting.append((vars(module)["__getattr__"], label))

    def _visit_wrapper(self, wrapper: Any, label: str) -> None:
        if isinstance(wrapper, functools._lru_cache_wrapper) and makes_generators(wrapper.__wrapped__):
            self.unsteady = label
        if type(wrapper).__name__ == CYTHON_FUNCTION and is_compiled_elsewhere(wrapper):
            self.unsteady = label
        self._waiting += [(part, label) for part in referents_of(wrapper)]
        self._add_user_attributes(wrapper, label)

    def _visit_library_object(self, value: Any, label: str) -> None:
        # For another fused function, its original function.
        wrapped = getattr(value, "__dict__", {}).get("__wrapped__")
        if wrapped is not None and not is_of_a_library(wrapped):
            self._waiting.append((wrapped, label))
            self._add_user_attributes(value, label)
        elif isinstance(value, np.ufunc) and value.__name__.endswith(" (vectorized)"):
            # numpy.frompyfunc hides its function.
            self.unsteady = label

    def _add_user_attributes(self, value: Any, label: str) -> None:
        """Note the attributes that users set on a function or on its wrapper."""
        mapping = getattr(value, "__dict__", None)
        if mapping or (mapping is not None and not self._queried.isdisjoint(self.names)):
            self._attributes.add(value, mapping, (), label)

    def _visit_object(self, value: Any, label: str) -> None:
        class_ = type(value)
        if isinstance(value, type) and is_compiled_elsewhere(value):
            self.unsteady = label
        self._add_object(
            value, label, [*classes_of(value), *classes_of(class_)] if isinstance(value, type) else classes_of(class_)
        )
        if isinstance(value, (operator.attrgetter, operator.methodcaller)):
            self.names |= names_read_by(value)
        elif isinstance(value, (collections.UserDict, collections.UserList, collections.ChainMap)):
            self._waiting.append((value.maps if isinstance(value, collections.ChainMap) else value.data, label))

    def _add_object(self, value: Any, label: str, classes: Sequence[type]) -> None:
        self.objects[id(value)] = value
        is_class = isinstance(value, type)
        mapping = {} if is_class else getattr(value, "__dict__", {})
        self._attributes.add(value, mapping, classes, label)
        self._waiting += [(method, label) for class_ in classes for method in syntax_methods(class_, is_class)]
        self._waiting += [(mapping[name], label) for name in _FIELDS_OF_MODULES if name in mapping]

    def _search_function(self, function: types.FunctionType, is_copied: bool) -> None:
        """Note the values that a function reads by its names, and visit them.

        Args:
            function: a Python function.
            is_copied: whether the trace runs a copy of it, in which clocks are replaced.
        """
        self.objects[id(function)] = function
        code, variables = function.__code__, function.__globals__
        self._functions.append(function)
        names = names_of(code)
        self.names |= names
        self._queried |= names_that_may_be_missing(code)
        self._codes.append(code)
        self.unsteady = unsteady_call(code) or self.unsteady
        if "open" in names and "open" not in variables:
            self.unsteady = "open"
        reached = {name: variables[name] for name in names if name in variables}
        self.surrounding_values.note_names(
            variables, [name for name, value in reached.items() if not _is_fixed(value)], ""
        )
        self.surrounding_values.note_names(
            variables, sorted((names & names_that_may_be_missing(code)) - variables.keys()), ""
        )
        for name, cell in zip(code.co_freevars, function.__closure__ or (), strict=True):
            self._note(partial(_cell_content, cell), name)
            reached.update(zip([name], _cell_content(cell), strict=False))
        for name, value in reached.items():
            is_alike = not is_of_a_library(value) or package_of(value) == package_of(function)
            if is_copied and type(value) is types.FunctionType and is_alike:
                if id(value) not in self.objects:
                    self._search_function(value, is_copied=True)
            elif not is_copied or clock_replacement(value) is value:
                self._waiting.append((value, name))
            elif isinstance(value, types.ModuleType):
                attributes = {key: vars(value)[key] for key in names if key in vars(value)}
                self._waiting += [
                    (item, f"{name}.{key}") for key, item in attributes.items() if clock_replacement(item) is item
                ]
        defaults = function.__defaults__ or ()
        self._waiting += zip(
            defaults, code.co_varnames[code.co_argcount - len(defaults) : code.co_argcount], strict=True
        )
        if function.__kwdefaults__:
            self._visit_container(function.__kwdefaults__, f"the defaults of {function.__name__}")
        self._waiting += [(value, value.__name__) for value in modules_of(code)]
        self._add_user_attributes(function, function.__name__)
        if type(registry := function.__dict__.get("registry")) is types.MappingProxyType:
            # The implementations that `singledispatch` chooses from.
            self._visit_container(registry, function.__name__)

    def _visit_container(self, container: Any, label: str) -> None:
        is_dict = isinstance(container, (dict, types.MappingProxyType))
        items = container.values() if is_dict else container
        self._containers[id(container)] = label
        self._visit_items(items, f"{label}[…]")
        if not isinstance(container, (tuple, frozenset)):
            read = partial(chain, container, items) if is_dict else partial(iter, container)
            self._note(read if len(container) <= MAX_ITEMS else partial(iter, ()), label, container=container)
        if isinstance(container, collections.defaultdict):
            self._waiting.append((container.default_factory, label))
        if getattr(container, "__dict__", None) or classes_of(type(container)):
            self._add_object(container, label, classes_of(type(container)))


_VISITS: dict[str, Callable[[Surroundings, Any, str], None]] = {
    "array": Surroundings._visit_array,
    "buffer": Surroundings._visit_buffer,
    "class": Surroundings._visit_object,
    "container": Surroundings._visit_container,
    "file": Surroundings._visit_file,
    "function": Surroundings._visit_reached_function,
    "library": Surroundings._visit_library_object,
    "module": Surroundings._visit_module,
    "object": Surroundings._visit_object,
    "tensor": Surroundings._visit_tensor,
    "wrapper": Surroundings._visit_wrapper,
}


def _is_fixed(value: Any) -> bool:
    """Whether a global variable is a module, or a function or class of a library, which is assumed never to change."""
    return isinstance(value, types.ModuleType) or (callable(value) and is_of_a_library(value))


def _cell_content(cell: types.CellType) -> tuple[Any, ...]:
    try:
        return (cell.cell_contents,)
    except ValueError:  # a variable that has no value yet
        return ()


def _result_of(function: Callable[[], Any]) -> tuple[Any, ...]:
    return (function(),)


def _version(tensor: Any) -> int:
    return -1 if tensor.is_inference() else tensor._version
