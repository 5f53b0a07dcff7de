"""Clocks and stateless sources of random numbers, which a function must not read while it is traced."""

from __future__ import annotations

import datetime
import io
import os
import pathlib
import random
import sys
import threading
import time
import types
from collections.abc import Callable
from functools import lru_cache
from typing import Any, NoReturn

import numpy as np

from anydml.tracing.refusing import fuse_error

SAME_NUMBERS_LATER = "and later calls would use the same numbers: pass them as arguments"

_CLOCK_NAMES = ["time", "monotonic", "perf_counter", "process_time", "thread_time"]

_CLOCKS = {
    **{
        getattr(time, name + suffix): f"time.{name}{suffix}"
        for name in _CLOCK_NAMES
        for suffix in ("", "_ns")
        if hasattr(time, name)
    },
    os.urandom: "os.urandom",
    **({os.getrandom: "os.getrandom"} if hasattr(os, "getrandom") else {}),
}
"""Names of functions whose results differ in every call, apart from those of `_RANDOM_PREFIXES`."""

_RANDOM_PREFIXES = {"secrets": ("token", "rand", "choi"), "uuid": ("uuid1", "uuid4")}
"""Modules that are not imported here, because that takes long, and prefixes of the names of such functions in them."""

_UNSTEADY_FUNCTIONS = {
    *_CLOCKS,
    *(getattr(time, name) for name in ("localtime", "gmtime", "ctime", "strftime", "asctime")),
    *(getattr(time, name) for name in ("clock_gettime", "clock_gettime_ns") if hasattr(time, name)),
    *(os.times, os.listdir, os.scandir, os.stat, os.lstat, os.access, os.readlink, os.popen, os.system, io.open),
    *(os.path.exists, os.path.lexists, os.path.isfile, os.path.isdir, os.path.islink, os.path.ismount),
    *(os.path.getsize, os.path.getmtime, os.path.getatime, os.path.getctime),
    *(np.load, np.fromfile, np.loadtxt, np.memmap, np.genfromtxt),
}
"""These functions, and others whose results may differ in the next call, or depend on a file."""

_READERS = {
    "glob": ("glob", "iglob"),
    "numpy.lib._format_impl": ("open_memmap", "read_array"),
    "numpy.lib.format": ("open_memmap", "read_array"),
    "resource": ("getrusage",),
    "subprocess": ("run", "call", "check_call", "check_output", "getoutput", "getstatusoutput"),
    "torch.serialization": ("load",),
}
"""Names of further such functions, by the modules in which they are defined, which are not imported here."""


def _clock_name(function: Any) -> str | None:
    """Return the name of a function whose results differ in every call; None for any other."""
    if function in _CLOCKS:
        return _CLOCKS[function]
    for module, prefixes in _RANDOM_PREFIXES.items():
        if module in sys.modules:
            function_name = getattr(function, "__name__", "")
            if function_name.startswith(prefixes) and getattr(sys.modules[module], function_name, None) == function:
                return f"{module}.{function_name}"
    return None


def differs_by_time(value: Any) -> bool:
    """Whether an object is a function or class whose results may differ in every call."""
    class_ = type(value)
    if class_ in (types.BuiltinFunctionType, types.FunctionType, types.MethodType):
        is_reader = getattr(value, "__name__", "") in _READERS.get(value.__module__ or "", ())
        return is_reader or value in _UNSTEADY_FUNCTIONS or _clock_name(value) is not None
    return isinstance(value, (random.SystemRandom, pathlib.Path)) or (
        class_ is type and issubclass(value, (random.SystemRandom, pathlib.Path, datetime.date, io.FileIO))
    )


def differs_by_process(value: Any) -> bool:
    """Whether an object is a function whose results depend on the process, the thread, or their settings."""
    if type(value) not in (types.FunctionType, types.BuiltinFunctionType):
        return False
    torch = sys.modules.get("torch")
    is_of_torch = torch is not None and value in _torch_settings(torch)
    return is_of_torch or value.__name__ == "get_worker_info" or value in _PROCESS_FUNCTIONS


_PROCESS_FUNCTIONS = {os.getpid, os.getcwd, threading.get_ident, threading.get_native_id, threading.active_count}


@lru_cache(maxsize=1)
def _torch_settings(torch: Any) -> set[Any]:
    settings = {torch.get_default_dtype, torch.is_grad_enabled, torch.is_inference_mode_enabled, torch.get_num_threads}
    return settings | {torch.initial_seed}


_CLOCK_MODULES = (time, os, datetime)


def clock_replacement(value: Any) -> Any:
    """Return the replacement of a value that a traced function reads by a name; most values are returned unchanged."""
    class_ = type(value)
    if class_ is types.ModuleType:
        return _RefusingModule(value) if value in _CLOCK_MODULES or value.__name__ in _RANDOM_PREFIXES else value
    if class_ in (types.BuiltinFunctionType, types.FunctionType, types.MethodType) and (name := _clock_name(value)):
        return _refusing_function(name)
    if isinstance(value, random.SystemRandom):
        return _RefusingSystemRandom()
    return _RefusingDatetime if value is datetime.datetime else _RefusingDate if value is datetime.date else value


class _RefusingModule(types.ModuleType):
    """A module whose functions are `clock_replacement`."""

    def __init__(self, module: types.ModuleType) -> None:
        super().__init__(module.__name__)
        self._module = module

    def __getattr__(self, name: str) -> Any:
        return clock_replacement(getattr(self._module, name))


def _refusing_function(name: str) -> Callable[..., Any]:
    def refuse(*_: Any, **__: Any) -> NoReturn:
        raise fuse_error(f"{name} was read while a function was traced, {SAME_NUMBERS_LATER}")

    return refuse


class _RefusingSystemRandom:
    """Replacement of a generator without a state."""

    def __getattr__(self, name: str) -> Any:
        return _refusing_function(f"random.SystemRandom.{name}")


class _RefusingDatetime(datetime.datetime):
    now = utcnow = today = _refusing_function("the time of day")


class _RefusingDate(datetime.date):
    today = _refusing_function("the date")
