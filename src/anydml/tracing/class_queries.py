"""Queries for the class of a traced tensor.

Python code is told PyTorch's class. Compiled code that learned it would read the tensor's memory, which there is not.
"""

from __future__ import annotations

import dis
import types
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Any

from anydml.errors import FuseError
from anydml.tracing.open_sizes import OpenSize
from anydml.tracing.refusing import fuse_error
from anydml.tracing.short_integers import ShortInteger
from anydml.tracing.structure import leaves
from anydml.tracing.traced_fields import TracedFields


def asks_for_class(frame: types.FrameType) -> bool:
    """Whether the current instruction of a frame is `isinstance`, a pattern of a class, or ``x.__class__``.

    Raises:
        FuseError: it may ask for one of PyTorch's old classes, such as torch.FloatTensor, which are compiled code.
    """
    code = frame.f_code
    if frame.f_globals.get("__name__", "").startswith("anydml."):
        # This package asks for its own class of traced tensors.
        return False
    query = _query(code, frame.f_lasti)
    if not query or (query == "isinstance" and frame.f_builtins.get("isinstance") is not isinstance):
        # In copies of functions, `isinstance` itself answers (see `open_builtins`).
        return False
    import torch

    is_named = any(kind.__name__ in code.co_names for kind in torch._tensor_classes)
    if is_named or names_old_class(_values_named_in(frame)):
        raise old_class_error()
    return True


def old_class_error() -> FuseError:
    """Return the error of a question whether a traced tensor is of one of PyTorch's old classes."""
    return fuse_error(
        "isinstance with one of PyTorch's old classes, such as torch.FloatTensor: use torch.Tensor and the dtype"
    )


def names_old_class(values: Iterable[Any]) -> bool:
    """Whether one of PyTorch's old classes is among values, which may be tuples and unions of classes."""
    import torch

    return not torch._tensor_classes.isdisjoint(_classes_in(values))


@lru_cache(maxsize=4096)
def _query(code: types.CodeType, offset: int) -> str:
    """Return by what an instruction asks for a class: ``"isinstance"``, ``"class"``, or nothing."""
    steps = {step.offset: step for step in dis.get_instructions(code)}
    step = steps[offset]
    if not step.opname.startswith(("CALL", "PRECALL")):
        return "class" if step.opname == "MATCH_CLASS" or step.argval == "__class__" else ""
    # A call begins where the name of its function does, as far as places are known.
    start = _start(step)
    queries = [query for query in steps.values() if query.argval == "isinstance"]
    return "isinstance" if any(None in start or _start(query) == start for query in queries) else ""


def _start(step: dis.Instruction) -> tuple[int | None, int | None]:
    """Return the line and column at which an instruction's expression begins, if they are known."""
    positions = step.positions
    return (None, None) if positions is None else (positions.lineno, positions.col_offset)


def _values_named_in(frame: types.FrameType) -> Iterator[Any]:
    """Yield the values of variables, and those of their attributes, that code names."""
    names = frame.f_code.co_names
    values = [frame.f_globals[name] for name in names if name in frame.f_globals] + [*frame.f_locals.values()]
    yield from values
    for value in values:
        if not _is_traced(value) and type(value) not in _WITHOUT_CLASSES:
            for attributes in map(_attributes_of, (value, *type(value).__mro__)):
                yield from (attributes[name] for name in names if name in attributes)


_WITHOUT_CLASSES = frozenset((types.ModuleType, int, float, str, list, tuple, dict, type(None)))
"""Types of values whose attributes are not searched for classes."""


def _attributes_of(owner: Any) -> Mapping[str, Any]:
    try:
        attributes: Mapping[str, Any] = vars(owner)
        return attributes
    except Exception:  # without attributes, or an error of the user's `__getattr__`
        return {}


def _classes_in(values: Iterable[Any]) -> Iterator[type]:
    """Yield the classes among values, and those in tuples and unions of classes."""
    for value in values:
        # `isinstance` of a traced tensor would ask for its class again.
        kind = type(value)
        if issubclass(kind, type):
            yield value
        elif kind is tuple and value and issubclass(type(value[0]), (type, tuple, types.UnionType)):
            yield from _classes_in(value)
        elif kind is types.UnionType:
            yield from _classes_in(value.__args__)


def refuse_type_of_traced(frame: types.FrameType) -> None:
    """Refuse a function that begins with traced arguments and may ask for their `type`.

    Copies of functions have a `type` of their own (see `open_builtins`), but functions that define classes, and those
    that assign global variables or reach them by other ways than their names, are not copied. Questions in a statement
    that raises an error are left out, because the error only shows the class.

    Raises:
        FuseError: the code may ask for the `type` of a traced argument.
    """
    code, arguments = frame.f_code, frame.f_locals
    if not any(any(map(_is_traced, leaves(value))) for value in arguments.values()):
        return
    for name in _uses_of_type(code):
        if name not in arguments or _is_traced(arguments[name]):
            raise fuse_error(
                f"type in {code.co_qualname} would not return the classes of arguments, because fuse does not copy "
                "functions with global, class, globals, eval or exec: use isinstance"
            )


def _is_traced(value: Any) -> bool:
    return issubclass(type(value), (TracedFields, OpenSize, ShortInteger))


@lru_cache(maxsize=4096)
def _uses_of_type(code: types.CodeType) -> list[str]:
    """Return the local variable that each use of `type` asks for, or an empty text for anything else."""
    steps = [step for step in dis.get_instructions(code) if step.opname not in ("CACHE", "PUSH_NULL", "PRECALL")]
    uses = []
    for number, step in enumerate(steps):
        if (step.opname, step.argval) == ("LOAD_GLOBAL", "type") and not _is_raised(steps[number:]):
            argument, call = steps[number + 1 : number + 3]
            # An instruction that loads a function to call it loads NULL, too, or follows one that does.
            is_call = "NULL" in step.argrepr and call.opname.startswith("CALL")
            uses.append(argument.argval if is_call and argument.opname == "LOAD_FAST" else "")
    return uses + [
        use for nested in code.co_consts if isinstance(nested, types.CodeType) for use in _uses_of_type(nested)
    ]


def _is_raised(steps: list[dis.Instruction]) -> bool:
    """Whether the value that instructions compute next becomes part of an error that is raised."""
    ends = ("RAISE", "RETURN", "STORE", "POP_JUMP", "JUMP", "POP_TOP", "YIELD", "FOR_ITER")
    end = next((step.opname for step in steps if step.opname.startswith(ends)), "")
    return end.startswith("RAISE")
