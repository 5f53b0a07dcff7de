"""The functions that have a compiled way; how to leave it out; and what a call comes to."""

import contextlib

import numpy as np
from function_cases import called
from odd_arrays import content

import anydml as dml
from anydml import core
from anydml.operators import registry

FUNCTIONS = {name: getattr(dml, name) for name in (*registry.FUNCTIONS, "copy") if core.native(name) is not None}


@contextlib.contextmanager
def by_way_of(changed):
    """Have functions ask ``changed(native)`` first, where they would ask `native`.

    Args:
        changed: makes the one of the other.
    """
    kept = {}
    for name, function in FUNCTIONS.items():
        kept[name] = function.__globals__, function.__globals__["native"]
    try:
        for names, native in kept.values():
            names["native"] = changed(native)
        yield
    finally:
        for names, native in kept.values():
            names["native"] = native


def in_python():
    """Have functions go Python's long way."""
    return by_way_of(lambda native: lambda *given: None)


@contextlib.contextmanager
def counted():
    """The calls that compiled code did, one for one."""
    done = []

    def changed(native):
        def asked(*given):
            found = native(*given)
            if found is not None:
                done.append(native)
            return found

        return asked

    with by_way_of(changed):
        yield done


def held(value):
    """What a result or an argument holds, with all that a caller sees of it."""
    if isinstance(value, (list, tuple)):
        return type(value), [held(each) for each in value]
    if isinstance(value, np.ndarray):
        flags = value.flags
        return type(value), content(value), value.strides, flags.c_contiguous, flags.writeable, flags.aligned
    return type(value), repr(value)


def outcome(function, given, **named):
    """What a call gives, or the error that it raises; and what its arguments hold afterwards."""
    try:
        found = called(function, given, **named)
    except Exception as error:
        found = type(error), str(error)
    return held(found), held(given), held([*named.values()])
