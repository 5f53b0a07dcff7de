"""Where the compiler runs: out of the reach of signals, one piece of work at a time, and not while the process forks.

Python calls signal handlers in the main thread. One that raises, as Ctrl-C does, would leave the compiler imported by
half, and it could not be told from an error of the compiler's. So the main thread lets another one work, and waits: it
can be interrupted, and what was begun is finished all the same.

A child of a fork has the locks, but not the threads that hold them. So a fork waits for compilers that are at work.
"""

from __future__ import annotations

import _thread
import atexit
import importlib
import os
import sys
import threading
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, TypeVar

T = TypeVar("T")

KERNELS = ("rows", "elements", "interleave", "lookup", "sharing")
"""Modules of kernels, which import LLVM, and Numba when something has to be compiled."""

PATIENCE = 30.0
"""Seconds that the end of the process waits for a compiler that is at work at most."""


class NoCompilerError(Exception):
    """Something cannot be compiled here; its cause says why."""


class _Compiler:
    """The turn to compile, and who has it."""

    def __init__(self) -> None:
        self.turn = threading.RLock()
        # Who waits for a turn holds the queue: so a fork comes next, however many want to compile.
        self.queue = threading.RLock()
        self.imported = False
        self.ended = False
        self.watches = False
        self.held: dict[int, list[Any]] = {}


_COMPILER = _Compiler()


def quietly(work: Callable[[], T]) -> T:
    """Do what takes the compiler.

    Raises:
        NoCompilerError: it failed.
        MemoryError: there was too little memory. The next time it may work.
    """
    return between_forks(partial(_tried, work))


def between_forks(work: Callable[[], T]) -> T:
    """Do what a fork waits for, such as imports: a child would wait for ever for one that another thread has begun."""
    if threading.get_ident() != threading.main_thread().ident:
        return _in_turn(work)
    results: list[tuple[T | None, BaseException | None]] = []
    ended = _thread.allocate_lock()
    ended.acquire()

    def run() -> None:
        try:
            results.append((_in_turn(work), None))
        except BaseException as error:
            results.append((None, error))
        finally:
            ended.release()

    try:
        _thread.start_new_thread(run, ())
    except RuntimeError:
        # The system gives no more threads.
        run()
    ended.acquire()
    result, error = results[0]
    if error is not None:
        raise error
    return result  # type: ignore[return-value]


def _in_turn(work: Callable[[], T]) -> T:
    turn: Any = _COMPILER.turn
    if turn._is_owned():
        return work()
    with _COMPILER.queue:
        turn.acquire()
    try:
        _watch_forks()
        return work()
    finally:
        turn.release()


def _tried(work: Callable[[], T]) -> T:
    if _COMPILER.ended:
        raise NoCompilerError("the interpreter is about to end")
    try:
        return work()
    except (NoCompilerError, MemoryError):
        raise
    except Exception as error:
        raise NoCompilerError(f"{type(error).__name__}: {error}") from error


def import_kernels() -> None:
    """Import the kernels, and with them LLVM, if that has not been done.

    Raises:
        NoCompilerError: there is no LLVM.
    """
    if not _COMPILER.imported:
        quietly(_import_kernels)
        _COMPILER.imported = True


def is_imported() -> bool:
    """Whether the kernels have been imported."""
    return _COMPILER.imported


def _import_kernels() -> None:
    for name in KERNELS:
        importlib.import_module(f"anydml.engines.cpu.kernels.{name}")


def _locks() -> Iterator[Any]:
    """All locks that compiling takes, in the order in which it does."""
    yield _COMPILER.queue
    yield _COMPILER.turn
    for path in ("numba.core.compiler_lock", "global_compiler_lock"), ("llvmlite.binding.ffi", "lib", "_lock"):
        found: Any = sys.modules.get(path[0])
        for name in (*path[1:], "_lock"):
            found = getattr(found, name, None)
        if hasattr(found, "_is_owned"):
            yield found


def _watch_forks() -> None:
    """Let forks wait from now on."""
    if not _COMPILER.watches and hasattr(os, "register_at_fork"):
        # What is registered last is called first. The compiler writes logs: were the logs' lock taken before its own,
        # it would wait for the fork that waits for it.
        importlib.import_module("logging")
        # Twice: an interruption may come before the first one has begun. The second then finds what is left to do.
        for _ in range(2):
            os.register_at_fork(before=_before_fork, after_in_parent=_after_fork, after_in_child=_after_fork_in_child)
        _COMPILER.watches = True


def _before_fork() -> None:
    # An interruption may come between any two of Python's steps: so what is held is asked of the locks themselves.
    held = _COMPILER.held.setdefault(threading.get_ident(), [])
    interruption: BaseException | None = None
    while True:
        try:
            for lock in _locks():
                if not lock._is_owned():
                    held.append(lock)
                    lock.acquire()
            break
        except BaseException as error:
            interruption = error
    if interruption is not None:
        raise interruption


def _after_fork() -> None:
    interruption: BaseException | None = None
    while held := _COMPILER.held.get(threading.get_ident()):
        try:
            if held[-1]._is_owned():
                held[-1].release()
            held.pop()
        except BaseException as error:
            interruption = error
    _COMPILER.held.pop(threading.get_ident(), None)
    if interruption is not None:
        raise interruption


def _after_fork_in_child() -> None:
    _after_fork()
    _COMPILER.held = {}


def _finish() -> None:
    """Let nobody begin to compile, and wait for who does: a compiler must not be taken down while it works."""
    _COMPILER.ended = True
    if _COMPILER.turn.acquire(timeout=PATIENCE):
        _COMPILER.turn.release()


atexit.register(_finish)
