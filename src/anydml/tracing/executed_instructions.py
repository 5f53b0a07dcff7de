"""The instructions of a function that were executed while it was traced, and therefore only move elements.

A run without a trace may execute no others, since an instruction that was never traced may compute or mutate.
"""

from __future__ import annotations

import dis
import gc
import inspect
import os
import signal
import sys
import threading
import types
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import lru_cache, partial
from typing import Any, NoReturn

from anydml.core import instruction_watch

Follow = Callable[[types.FunctionType | None, types.FrameType], types.FunctionType | None]

_LIBRARIES = ("numpy", "torch", "jax", "einops")
_CODE_GENERATORS = frozenset(("anydml", *_LIBRARIES))


class NotTracedError(BaseException):
    """No trace has executed the next instruction.

    Functions seldom catch this error, since it is not an `Exception`.
    """


class ExecutedInstructions:
    """The instructions that traces of a function have executed, in all code except this package's and libraries'.

    Args:
        function: the function.

    Attributes:
        codes: the code by its identity, since hashing it would take long.
        marks: by the same keys, a byte per two bytes of instructions, which is 1 if they were executed.
        has_watched: whether any trace was watched; debuggers and measurements of coverage prevent it.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        self.codes: dict[int, types.CodeType] = {}
        self.marks: dict[int, bytearray] = {}
        self.has_watched = False
        self._function_code = getattr(function, "__code__", None)
        self._is_complete: bool | None = None
        self._asks_classes: bool | None = None

    @property
    def is_complete(self) -> bool:
        """Whether traces have executed all instructions that calls without errors can reach, in all code that ran."""
        if self._is_complete is None:
            self._is_complete = all(self._is_executed(code) for code in self.codes.values())
        return self._is_complete

    @property
    def asks_classes(self) -> bool:
        """Whether code that traces have executed may ask for the class or the identity of an object."""
        if self._asks_classes is None:
            self._asks_classes = any(map(_asks_classes, self.codes.values()))
        return self._asks_classes

    def _is_executed(self, code: types.CodeType) -> bool:
        required, marks = _required_offsets(code), self.marks[id(code)]
        return required is not None and all(marks[offset // 2] for offset in required)

    @contextmanager
    def watched(self, follow: Follow) -> Iterator[None]:
        """Record instructions inside the context.

        Args:
            follow: as for `core.instruction_watch.Watch`.
        """
        if instruction_watch is None or sys.gettrace() is not None:
            yield
            return
        with self._watching(None, follow):
            yield
        self.has_watched, self._is_complete, self._asks_classes = True, None, None

    def call(self, function: Callable[..., Any], arguments: Sequence[Any], keywords: Mapping[str, Any]) -> Any:
        """Call a function, but raise NotTracedError before an instruction that no trace has executed.

        Raises:
            NotTracedError: there is such an instruction, or a debugger prevents watching.
        """
        if self.is_complete:
            return function(*arguments, **keywords)
        if sys.gettrace() is not None:
            raise NotTracedError
        refusals = []

        def refuse() -> NoReturn:
            refusals.append(NotTracedError())
            raise refusals[-1]

        with self._watching(refuse, None):
            (result,) = _in_frame_of_its_own(function, arguments, keywords)
        if refusals:
            # The function caught the exception.
            raise refusals[0]
        return result

    @contextmanager
    def _watching(self, refuse: Callable[[], NoReturn] | None, follow: Follow | None) -> Iterator[None]:
        def enter(frame: types.FrameType) -> bool | None:
            code = frame.f_code
            if not _is_user_code(code.co_filename, str(frame.f_globals.get("__name__", ""))):
                return None
            if code is not self._function_code and _is_interrupting(frame):
                return False
            if refuse is not None:
                refuse()
            self.marks[id(code)], self.codes[id(code)] = bytearray(len(code.co_code) // 2), code
            return True

        watch = instruction_watch.Watch(self.marks, enter, refuse, follow)
        watch.begin()
        try:
            yield
        finally:
            watch.end()


def _in_frame_of_its_own(
    function: Callable[..., Any], arguments: Sequence[Any], keywords: Mapping[str, Any]
) -> Iterator[Any]:
    """Yield the result of a call.

    If a refusal interrupts an exception handler, Python still handles that error: until this generator ends.
    """
    yield function(*arguments, **keywords)


def _call(function: Callable[..., Any], *arguments: Any) -> Any:
    return function(*arguments)


unwatched: Callable[..., Any] = _call if instruction_watch is None else instruction_watch.unwatched
"""Calls a function of this package from watched code, without watching the function, which would slow it down."""


def _is_interrupting(frame: types.FrameType | None) -> bool:
    """Whether this code was called for a garbage collection, a finalizer or a signal, or searches for a module."""
    if frame is not None and frame.f_back is not None:
        back = frame.f_back
        if dis.opname[back.f_code.co_code[back.f_lasti]].startswith(_CALLING_NOTHING):
            # A removed object had a weak reference with a callback.
            return True
    codes = {getattr(callback, "__code__", None) for callback in gc.callbacks} | {weakref.finalize.__call__.__code__}
    if threading.current_thread() is threading.main_thread():
        codes.update([getattr(_handler(signal_number), "__code__", None) for signal_number in range(1, signal.NSIG)])
    while frame is not None:
        code = frame.f_code
        if code in codes or code.co_name == "__del__" or (code.co_name, code.co_filename) == _FIND_SPEC:
            return True
        frame = frame.f_back
    return False


_handler = getattr(sys.modules.get("_signal"), "getsignal", signal.getsignal)
"""Returns the handler of a signal, faster than the function of Python's module `signal`."""

_FIND_SPEC = "_find_spec", "<frozen importlib._bootstrap>"
"""Python's function that calls import hooks, which are no part of the function that imports a module."""

_CALLING_NOTHING = ("STORE_FAST", "STORE_DEREF", "STORE_GLOBAL", "DELETE_FAST", "DELETE_DEREF", "POP_", "RETURN_")
"""Prefixes of the names of instructions that call no Python function."""


def is_watched(function: Callable[..., Any]) -> bool:
    """Whether calls of a function, or of a partial of one, are watched."""
    called: Any = function.func if isinstance(function, partial) else function
    return _is_user_code(called.__code__.co_filename, str(called.__globals__.get("__name__", "")))


@lru_cache(maxsize=4096)
def _is_user_code(path: str, module: str) -> bool:
    """Whether code of a file and module belongs neither to this package nor to a library nor to a named tuple."""
    if path == "<string>" and (module.partition(".")[0] in _CODE_GENERATORS or module.startswith("namedtuple_")):
        return False
    folders = [os.path.dirname(os.path.dirname(__file__))]
    folders += [
        os.path.dirname(sys.modules[library].__file__ or "") for library in _LIBRARIES if library in sys.modules
    ]
    if "site-packages" not in path:
        folders.append(os.path.dirname(os.__file__))
    return not path.startswith("<frozen") and not any(path.startswith(folder + os.sep) for folder in folders if folder)


@lru_cache(maxsize=4096)
def _required_offsets(code: types.CodeType) -> frozenset[int] | None:
    """Return the offsets of the instructions that a run without errors can reach; None if the code handles errors."""
    if code.co_exceptiontable and not code.co_flags & inspect.CO_GENERATOR:
        return None
    steps = [step for step in dis.get_instructions(code) if step.opname not in ("CACHE", "EXTENDED_ARG")]
    places = {step.offset: k for k, step in enumerate(steps)}
    after: list[list[int]] = []
    for k, step in enumerate(steps):
        following = (
            []
            if step.opname in _LAST_INSTRUCTIONS or step.opname in _UNCONDITIONAL_JUMPS or k + 1 == len(steps)
            else [k + 1]
        )
        if step.opcode in _JUMP_OPCODES:
            following.append(_instruction_at(places, step.argval))
        after.append(following)
    before: list[list[int]] = [[] for _ in steps]
    for k, following in enumerate(after):
        for successor in following:
            before[successor].append(k)
    reached = _reachable_from([0], after)
    returning = _reachable_from([k for k, step in enumerate(steps) if step.opname.startswith("RETURN_")], before)
    return frozenset(steps[k].offset for k in reached & returning if steps[k].opname not in _WITHOUT_EFFECT)


@lru_cache(maxsize=4096)
def _asks_classes(code: types.CodeType) -> bool:
    """Whether code names functions that tell classes or objects apart, or compares by `is` with anything but None."""
    if not _CLASS_QUERIES.isdisjoint(code.co_names) or any(
        type(constant) is str and constant in _CLASS_QUERIES for constant in code.co_consts
    ):
        return True
    steps = [*dis.get_instructions(code)]
    loads_none = [step.opname == "LOAD_CONST" and step.argval is None for step in steps]
    return any(step.opname == "IS_OP" and not before for step, before in zip(steps[1:], loads_none, strict=False))


_CLASS_QUERIES = frozenset(("type", "__class__", "id", "is_", "is_not"))

_LAST_INSTRUCTIONS = frozenset(("RETURN_VALUE", "RETURN_CONST", "RAISE_VARARGS", "RERAISE"))
_UNCONDITIONAL_JUMPS = frozenset(("JUMP_FORWARD", "JUMP_BACKWARD", "JUMP_BACKWARD_NO_INTERRUPT"))
_JUMP_OPCODES = frozenset((*dis.hasjrel, *dis.hasjabs))
_WITHOUT_EFFECT = frozenset(
    ("RESUME", "COPY_FREE_VARS", "MAKE_CELL", "NOP", "RETURN_GENERATOR", "POP_TOP", "NOT_TAKEN", "END_FOR")
)
"""Instructions without an effect on elements; some of these are never reported."""


def _instruction_at(places: dict[int, int], offset: int) -> int:
    """Return the number of the instruction at an offset, or of the next one behind it."""
    while offset not in places:
        offset += 2
    return places[offset]


def _reachable_from(roots: list[int], following: list[list[int]]) -> set[int]:
    reached, waiting = set(roots), [*roots]
    while waiting:
        for successor in following[waiting.pop()]:
            if successor not in reached:
                reached.add(successor)
                waiting.append(successor)
    return reached
