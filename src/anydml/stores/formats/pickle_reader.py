"""Pickles read as data: nothing is imported or called.

A call becomes a `PickledCall` with its function and arguments.
"""

from __future__ import annotations

import pickletools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, BinaryIO, NamedTuple

from anydml.errors import ModelError
from anydml.files.location import Location

MAX_BYTES = 64 << 20
"""Maximum size in bytes of a pickle beside tensors."""


class PickledName(NamedTuple):
    """A name in a module."""

    module: str
    name: str

    def __str__(self) -> str:
        return f"{self.module}.{self.name}"


@dataclass(eq=False)
class PickledCall:
    """A call that a pickle asks for.

    Attributes:
        function: usually a `PickledName`.
        items: items that are set on the result, in order.
        state: the state of the result.
    """

    function: Any
    arguments: Any
    items: list[tuple[Any, Any]] = field(default_factory=list)
    state: Any = None


class PickledReference(NamedTuple):
    """An object outside the pickle, by its persistent identity."""

    identity: Any


class PickledDict(list[tuple[Any, Any]]):
    """The items of a dict, in order; keys may be of any kind."""


def dict_of(value: Any) -> dict[str, Any]:
    """Return the items of a dict, or of an object with items such as an OrderedDict, whose keys are strings."""
    items = value.items if isinstance(value, PickledCall) else value if isinstance(value, PickledDict) else ()
    return {key: value for key, value in items if isinstance(key, str)}


def fields_of(value: Any) -> dict[str, Any]:
    """Return the attributes of an object."""
    return dict_of(value.state) if isinstance(value, PickledCall) else {}


def sizes_of(value: Any) -> tuple[int, ...] | None:
    """Return a torch.Size as a tuple; None for another value."""
    is_call = isinstance(value, PickledCall) and isinstance(value.arguments, tuple) and value.arguments
    inner = value.arguments[0] if is_call else None
    is_size = isinstance(inner, tuple) and all(type(number) is int and 0 <= number < 1 << 48 for number in inner)
    return inner if is_size else None


class _Mark:
    pass


_MARK = _Mark()
_CONSTANTS: dict[str, Any] = {"NONE": None, "NEWTRUE": True, "NEWFALSE": False}
_EMPTY: dict[str, Callable[[], Any]] = {
    "EMPTY_DICT": PickledDict,
    "EMPTY_LIST": list,
    "EMPTY_TUPLE": tuple,
    "EMPTY_SET": list,
}
_LITERALS = frozenset(
    {
        *("BININT", "BININT1", "BININT2", "INT", "LONG", "LONG1", "LONG4", "BINFLOAT", "FLOAT"),
        *("UNICODE", "BINUNICODE", "SHORT_BINUNICODE", "BINUNICODE8", "STRING", "BINSTRING", "SHORT_BINSTRING"),
        *("BINBYTES", "SHORT_BINBYTES", "BINBYTES8", "BYTEARRAY8"),
    }
)
_NOTHING = frozenset(("PROTO", "FRAME"))


def read_pickle(content: bytes, location: Location, max_bytes: int = MAX_BYTES) -> Any:
    """Return the content of a pickle: numbers, strings, lists, tuples, and objects of the classes of this module.

    Raises:
        ModelError: the pickle is broken, or too large.
    """
    if len(content) > max_bytes:
        raise location.error(f"has a pickle of more than {max_bytes} bytes")
    with _refusing(location):
        return _Machine().run(content)


class _BoundedReader:
    """A file with a limit of the bytes that are read."""

    def __init__(self, file: BinaryIO, max_bytes: int) -> None:
        self._file, self._left = file, max_bytes

    def read(self, size: int) -> bytes:
        self._take(size)
        return self._file.read(size)

    def readline(self) -> bytes:
        line = self._file.readline(self._left + 1)
        self._take(len(line))
        return line

    def _take(self, size: int) -> None:
        if size > self._left:
            raise ValueError("it is too large")
        self._left -= size


def next_pickle(file: BinaryIO, location: Location) -> Any:
    """Return the content of the next pickle in a file, as `read_pickle` does, and advance the file behind it.

    Raises:
        ModelError: the pickle is broken, or too large.
    """
    with _refusing(location):
        return _Machine().run(_BoundedReader(file, MAX_BYTES))


@contextmanager
def _refusing(location: Location) -> Iterator[None]:
    """Refuse broken pickles.

    Raises:
        ModelError: one is.
    """
    try:
        yield
    except (ValueError, IndexError, KeyError, TypeError, AttributeError, OverflowError, MemoryError) as error:
        if isinstance(error, ModelError):
            raise
        raise location.error("has a pickle that is broken") from None


class _Machine:
    """The stack machine that runs a pickle."""

    def __init__(self) -> None:
        self._stack: list[Any] = []
        self._memo: dict[int, Any] = {}

    def run(self, content: Any) -> Any:
        for opcode, argument, _ in pickletools.genops(content):
            name = opcode.name
            if name == "STOP":
                (result,) = self._stack
                return result
            self._step(name, argument)
        raise ValueError("it does not stop")

    def _step(self, name: str, argument: Any) -> None:
        stack = self._stack
        if name in _LITERALS:
            stack.append(argument)
        elif name in ("BINGET", "LONG_BINGET", "GET"):
            stack.append(self._memo[int(argument)])
        elif name in ("BINPUT", "LONG_BINPUT", "PUT"):
            self._memo[int(argument)] = stack[-1]
        elif name == "MEMOIZE":
            self._memo[len(self._memo)] = stack[-1]
        elif name in _EMPTY:
            stack.append(_EMPTY[name]())
        elif name in _CONSTANTS:
            stack.append(_CONSTANTS[name])
        elif name == "MARK":
            stack.append(_MARK)
        elif name == "POP":
            stack.pop()
        elif name == "POP_MARK":
            self._mark()
        elif name == "DUP":
            stack.append(stack[-1])
        elif name not in _NOTHING:
            getattr(self, f"_{name.lower()}")(argument)

    def _mark(self) -> list[Any]:
        """Pop everything down to the last mark."""
        position = len(self._stack) - 1
        while self._stack[position] is not _MARK:
            position -= 1
            if position < 0:
                raise ValueError("there is no mark")
        items = self._stack[position + 1 :]
        del self._stack[position:]
        return items

    def _few(self, count: int) -> None:
        self._stack[-count:] = [tuple(self._stack[-count:])]

    def _tuple1(self, _: Any) -> None:
        self._few(1)

    def _tuple2(self, _: Any) -> None:
        self._few(2)

    def _tuple3(self, _: Any) -> None:
        self._few(3)

    def _tuple(self, _: Any) -> None:
        self._stack.append(tuple(self._mark()))

    def _list(self, _: Any) -> None:
        self._stack.append(self._mark())

    _frozenset = _list

    def _dict(self, _: Any) -> None:
        flat = self._mark()
        self._stack.append(PickledDict(zip(flat[::2], flat[1::2], strict=True)))

    def _append(self, _: Any) -> None:
        value = self._stack.pop()
        self._extend([value])

    def _appends(self, _: Any) -> None:
        self._extend(self._mark())

    _additems = _appends

    def _extend(self, values: list[Any]) -> None:
        value = self._stack[-1]
        if isinstance(value, PickledCall):
            # A deque, or an object of a subclass of list.
            value.items.extend(enumerate(values, len(value.items)))
        elif type(value) is list:
            value.extend(values)
        else:
            raise TypeError("no list")

    def _setitem(self, _: Any) -> None:
        value, key = self._stack.pop(), self._stack.pop()
        _items(self._stack[-1]).append((key, value))

    def _setitems(self, _: Any) -> None:
        flat = self._mark()
        _items(self._stack[-1]).extend(zip(flat[::2], flat[1::2], strict=True))

    def _global(self, argument: str) -> None:
        self._stack.append(PickledName(*argument.split(" ", 1)))

    def _stack_global(self, _: Any) -> None:
        name, module = self._stack.pop(), self._stack.pop()
        self._stack.append(PickledName(str(module), str(name)))

    def _reduce(self, _: Any) -> None:
        arguments, function = self._stack.pop(), self._stack.pop()
        self._stack.append(PickledCall(function, arguments))

    _newobj = _reduce

    def _newobj_ex(self, _: Any) -> None:
        _, arguments, class_ = self._stack.pop(), self._stack.pop(), self._stack.pop()
        self._stack.append(PickledCall(class_, arguments))

    def _build(self, _: Any) -> None:
        state = self._stack.pop()
        if isinstance(self._stack[-1], PickledCall):
            self._stack[-1].state = state

    def _binpersid(self, _: Any) -> None:
        self._stack.append(PickledReference(self._stack.pop()))


def _items(value: Any) -> list[tuple[Any, Any]]:
    if isinstance(value, PickledCall):
        return value.items
    if not isinstance(value, PickledDict):
        raise TypeError("no dict")
    return value
