"""Which instructions of a function were executed while it was traced: what they do is known to move elements only.

A run without a trace may use these, and no others, since an instruction that was never traced may compute or mutate.
"""

from __future__ import annotations

import dis
import gc
import inspect
import os
import signal
import sys
import sysconfig
import threading
import types
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from typing import Any

_LIBRARIES = ("numpy", "torch", "jax", "einops")


class NotTracedError(Exception):
    """An instruction is about to be executed that no trace has executed."""


class Executed:
    """The instructions that traces of one function have executed, in all code outside this package and libraries.

    Attributes:
        codes: the code by its identity, since hashing it would take long.
        seen: offsets of instructions by the same.
        is_known: whether any trace was watched; a debugger or a measurement of coverage prevents it.
    """

    def __init__(self) -> None:
        self.codes: dict[int, types.CodeType] = {}
        self.seen: dict[int, set[int]] = {}
        self.is_known = False
        self._is_complete: bool | None = None

    @property
    def is_complete(self) -> bool:
        """Whether traces have executed everything that a call without errors can execute, in all code that they ran."""
        if self._is_complete is None:
            self._is_complete = all(_needed(code) <= self.seen[key] for key, code in self.codes.items())
        return self._is_complete

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Record instructions inside the context."""
        if self._is_complete or sys.gettrace() is not None:
            yield
            return

        def record(frame: types.FrameType, event: str, _: Any) -> Any:
            if event == "opcode":
                self.seen[id(frame.f_code)].add(frame.f_lasti)
            return record

        with _traced_by(self._entering(record)):
            yield
        self.is_known, self._is_complete = True, None

    @contextmanager
    def restricted(self) -> Iterator[None]:
        """Inside the context, raise NotTracedError before an instruction that no trace has executed."""
        if self.is_complete:
            yield
            return

        def check(frame: types.FrameType, event: str, _: Any) -> Any:
            if event == "opcode" and frame.f_lasti not in self.seen[id(frame.f_code)]:
                raise NotTracedError
            return check

        with _traced_by(self._entering(check, may_add=False)):
            yield

    def _entering(self, within: Any, may_add: bool = True) -> Any:
        seen, others = self.seen, set()

        def enter(frame: types.FrameType, event: str, _: Any) -> Any:
            code = frame.f_code
            key = id(code)
            if key in others:
                return None
            if key not in seen:
                if not _is_users(code.co_filename):
                    others.add(key)
                    return None
                if _is_interrupting(frame):
                    return None
                if not may_add:
                    raise NotTracedError
                seen[key], self.codes[key] = set(), code
            frame.f_trace_opcodes, frame.f_trace_lines = True, False
            return within

        return enter


@contextmanager
def _traced_by(enter: Any) -> Iterator[None]:
    sys.settrace(enter)
    try:
        yield
    finally:
        sys.settrace(None)


def _is_interrupting(frame: types.FrameType | None) -> bool:
    """Whether the interpreter called this code between two instructions: a collection, a deletion or a signal did."""
    codes = {getattr(each, "__code__", None) for each in gc.callbacks}
    if threading.current_thread() is threading.main_thread():
        codes.update(getattr(signal.getsignal(each), "__code__", None) for each in signal.valid_signals())
    while frame is not None:
        if frame.f_code in codes or frame.f_code.co_name == "__del__":
            return True
        frame = frame.f_back
    return False


@lru_cache(maxsize=4096)
def _is_users(path: str) -> bool:
    """Whether code is neither this package's nor a library's."""
    folders = [os.path.dirname(os.path.dirname(__file__))]
    folders += [os.path.dirname(sys.modules[each].__file__ or "") for each in _LIBRARIES if each in sys.modules]
    if "site-packages" not in path:
        folders.append(sysconfig.get_path("stdlib"))
    return not path.startswith("<frozen") and not any(path.startswith(each + os.sep) for each in folders if each)


@lru_cache(maxsize=4096)
def _needed(code: types.CodeType) -> frozenset[int]:
    """Return the offsets of instructions that a run without errors can execute, apart from those that only raise.

    If the code handles errors, these are not known: an offset is among them that no instruction has.
    """
    steps = [step for step in dis.get_instructions(code) if step.opname not in ("CACHE", "EXTENDED_ARG")]
    places = {step.offset: k for k, step in enumerate(steps)}
    after: list[list[int]] = []
    for k, step in enumerate(steps):
        following = [] if step.opname in _ENDS or step.opname in _JUMPS or k + 1 == len(steps) else [k + 1]
        if step.opcode in _JUMPING:
            following.append(_place(places, step.argval))
        after.append(following)
    before: list[list[int]] = [[] for _ in steps]
    for k, following in enumerate(after):
        for each in following:
            before[each].append(k)
    reached = _closure([0], after)
    returning = _closure([k for k, step in enumerate(steps) if step.opname.startswith("RETURN_")], before)
    handled = {-1} if code.co_exceptiontable and not code.co_flags & inspect.CO_GENERATOR else set()
    return frozenset({steps[k].offset for k in reached & returning if steps[k].opname not in _SILENT} | handled)


_ENDS = frozenset(("RETURN_VALUE", "RETURN_CONST", "RAISE_VARARGS", "RERAISE"))
_JUMPS = frozenset(("JUMP_FORWARD", "JUMP_BACKWARD", "JUMP_BACKWARD_NO_INTERRUPT"))
_JUMPING = frozenset((*dis.hasjrel, *dis.hasjabs))
_SILENT = frozenset(("RESUME", "COPY_FREE_VARS", "MAKE_CELL", "NOP", "RETURN_GENERATOR", "POP_TOP", "NOT_TAKEN"))
"""Instructions that do nothing to elements, of which some are never reported."""


def _place(places: dict[int, int], offset: int) -> int:
    """Return the number of the instruction at an offset, or of the next one behind it."""
    while offset not in places:
        offset += 2
    return places[offset]


def _closure(roots: list[int], following: list[list[int]]) -> set[int]:
    found, waiting = set(roots), [*roots]
    while waiting:
        for each in following[waiting.pop()]:
            if each not in found:
                found.add(each)
                waiting.append(each)
    return found
