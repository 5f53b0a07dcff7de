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

from anydml.tracing.refusing import broken

INSTEAD = "and later calls would use the same numbers: pass them as arguments"

_NAMES = ["time", "monotonic", "perf_counter", "process_time", "thread_time"]

_CLOCKS = {
    **{getattr(time, name + end): f"time.{name}{end}" for name in _NAMES for end in ("", "_ns") if hasattr(time, name)},
    os.urandom: "os.urandom",
    **({os.getrandom: "os.getrandom"} if hasattr(os, "getrandom") else {}),
}
"""Names of functions whose results differ in every call, apart from those of `_CHANCE`."""

_CHANCE = {"secrets": ("token", "rand", "choi"), "uuid": ("uuid1", "uuid4")}
"""Modules that are not imported here, because that takes long, and prefixes of the names of such functions in them."""

_DIFFERING = {
    *_CLOCKS,
    *(getattr(time, name) for name in ("localtime", "gmtime", "ctime", "strftime", "asctime")),
    *(getattr(time, name) for name in ("clock_gettime", "clock_gettime_ns") if hasattr(time, name)),
    *(os.times, os.listdir, os.scandir, os.stat, io.open),
    *(os.path.exists, os.path.isfile, os.path.isdir, os.path.getsize, os.path.getmtime),
    *(np.load, np.fromfile, np.loadtxt, np.memmap, np.genfromtxt),
}
"""These functions, and others whose results may differ in the next call, or depend on a file."""


def _reading(function: Any) -> str | None:
    """Return the name of a function whose results differ in every call; None for any other."""
    if function in _CLOCKS:
        return _CLOCKS[function]
    for module, names in _CHANCE.items():
        if module in sys.modules:
            function_name = getattr(function, "__name__", "")
            if function_name.startswith(names) and getattr(sys.modules[module], function_name, None) == function:
                return f"{module}.{function_name}"
    return None


def differs_by_time(value: Any) -> bool:
    """Whether an object is a function or class whose results may differ in every call."""
    kind = type(value)
    if kind in (types.BuiltinFunctionType, types.FunctionType, types.MethodType):
        return value in _DIFFERING or _reading(value) is not None
    return isinstance(value, (random.SystemRandom, pathlib.Path)) or (
        kind is type and issubclass(value, (random.SystemRandom, pathlib.Path, datetime.date))
    )


def differs_by_process(value: Any) -> bool:
    """Whether an object is a function whose results depend on the process, the thread, or their settings."""
    if type(value) not in (types.FunctionType, types.BuiltinFunctionType):
        return False
    torch = sys.modules.get("torch")
    is_of_torch = torch is not None and value in _settings_of(torch)
    return is_of_torch or value.__name__ == "get_worker_info" or value in _SETTINGS


_SETTINGS = {os.getpid, os.getcwd, threading.get_ident, threading.get_native_id, threading.active_count}


@lru_cache(maxsize=1)
def _settings_of(torch: Any) -> set[Any]:
    settings = {torch.get_default_dtype, torch.is_grad_enabled, torch.is_inference_mode_enabled, torch.get_num_threads}
    return settings | {torch.initial_seed}


_MODULES = (time, os, datetime)


def watched(value: Any) -> Any:
    """Return the replacement of a value that a traced function reads by a name; most values are returned unchanged."""
    kind = type(value)
    if kind is types.ModuleType:
        return _Watched(value) if value in _MODULES or value.__name__ in _CHANCE else value
    if kind in (types.BuiltinFunctionType, types.FunctionType, types.MethodType) and (name := _reading(value)):
        return _refusing(name)
    if isinstance(value, random.SystemRandom):
        return _System()
    return _Datetime if value is datetime.datetime else _Date if value is datetime.date else value


class _Watched(types.ModuleType):
    """A module whose functions are `watched`."""

    def __init__(self, module: types.ModuleType) -> None:
        super().__init__(module.__name__)
        self._module = module

    def __getattr__(self, name: str) -> Any:
        return watched(getattr(self._module, name))


def _refusing(name: str) -> Callable[..., Any]:
    def refuse(*_: Any, **__: Any) -> NoReturn:
        raise broken(f"{name} was read while a function was traced, {INSTEAD}")

    return refuse


class _System:
    """Replacement of a generator without a state."""

    def __getattr__(self, name: str) -> Any:
        return _refusing(f"random.SystemRandom.{name}")


class _Datetime(datetime.datetime):
    now = utcnow = today = _refusing("the time of day")


class _Date(datetime.date):
    today = _refusing("the date")
