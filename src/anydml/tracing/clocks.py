"""Clocks and sources of chance without a state, which a function must not read while it is traced."""

from __future__ import annotations

import datetime
import os
import random
import secrets
import time
import types
import uuid
from collections.abc import Callable
from typing import Any, NoReturn

from anydml.tracing.draws import INSTEAD
from anydml.tracing.refusing import broken

_NAMES = ["time", "monotonic", "perf_counter", "process_time", "thread_time"]

_READING = {
    **{getattr(time, name + end): f"time.{name}{end}" for name in _NAMES for end in ("", "_ns") if hasattr(time, name)},
    **{
        getattr(secrets, name): f"secrets.{name}"
        for name in secrets.__all__
        if name.startswith(("token", "rand", "choi"))
    },
    **{each: f"uuid.{each.__name__}" for each in (uuid.uuid1, uuid.uuid4)},
    os.urandom: "os.urandom",
}
"""Names of functions whose results differ in every call."""

_MODULES = (time, secrets, uuid, os, datetime)


def watched(value: Any) -> Any:
    """Return what a traced function gets in place of a value that it reaches by a name: mostly the value itself."""
    kind = type(value)
    if kind is types.ModuleType:
        return _Watched(value) if value in _MODULES else value
    if kind in (types.BuiltinFunctionType, types.FunctionType, types.MethodType) and value in _READING:
        return _refusing(_READING[value])
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
