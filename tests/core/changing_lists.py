"""Calls whose lists a finalizer changes while they run: a script, for a process of its own that must not crash.

In Python 3.11 the garbage collector, and so any finalizer, runs when memory is allocated. Prints how many calls gave
the result of the arguments as they were, how many that of changed ones or an error.
"""

import gc
import sys

import numpy as np
from drawn_calls import DRAW, NUMBERS
from function_cases import called, some

import anydml as dml

try:
    from torch import tensor

    TENSORS = (tensor,)
except ImportError:
    TENSORS = ()


class Changing:
    """Garbage, a cycle, that changes lists at a later collection."""

    def __init__(self, lists, later):
        self.lists, self.later, self.own = lists, later, self

    def __del__(self):
        if self.later:
            Changing(self.lists, self.later - 1)
            return
        for each in self.lists:
            each[:] = each[:1] if len(each) % 2 else []


class Listing:
    """What NumPy makes an array of, and what changes lists when it does."""

    lists = ()

    def __init__(self, array):
        self.array = array

    def __array__(self, dtype=None, copy=None):
        for each in self.lists:
            each.clear()
        return self.array.copy()


class Numbering(Listing):
    """The same by NumPy's older protocol."""

    __array__ = None

    @property
    def __array_interface__(self):
        for each in self.lists:
            each.clear()
        return self.array.__array_interface__


class Size(np.int64):
    """A size that is another each time that it is asked for."""

    asked = 0

    def __index__(self):
        self.asked += 1
        return int(np.int64(self)) * 10 ** (6 * (self.asked > 2))


def copied(value, lists):
    """The same value with new lists, which are appended to `lists`."""
    if isinstance(value, list):
        lists.append([copied(each, lists) for each in value])
        return lists[-1]
    if isinstance(value, tuple):
        return tuple([copied(each, lists) for each in value])
    return value.copy() if isinstance(value, np.ndarray) else value


def tried(function, given, named, lists, later):
    Changing(lists, later)
    gc.set_threshold(1, 1, 1)
    try:
        return function(given, named)
    except Exception as error:  # whatever is said of changed lists
        return error
    finally:
        gc.set_threshold(0)


def same(found, expected):
    if isinstance(expected, (list, tuple)):
        return len(found) == len(expected) and all(map(same, found, expected))
    return isinstance(found, np.ndarray) and np.array_equal(found, expected)


def main(seed, count):
    rng = np.random.default_rng(seed)
    gc.collect()
    kept = changed = 0
    fused = dml.fuse(lambda a, b: [np.concatenate(a), {"b": [each.T for each in b]}])
    for _ in range(count):
        name, later = some(rng, *DRAW), int(rng.integers(0, 12))
        given, _ = DRAW[name](rng, some(rng, *NUMBERS))
        expected = tried(lambda g, n, name=name: called(getattr(dml, name), g, **n), given, {}, [], 0)
        lists, named = [], {}
        new = copied(given, lists)
        if isinstance(expected, (np.ndarray, list)) and rng.random() < 0.5:
            named = {"out": copied([np.empty_like(each) for each in expected] if isinstance(expected, list) else
                                   np.empty_like(expected), lists)}  # fmt: skip
        found = tried(lambda g, n, name=name: called(getattr(dml, name), g, **n), new, named, lists, later)
        if isinstance(expected, Exception) or isinstance(found, Exception) or not same(found, expected):
            changed += 1
        else:
            kept += 1
        arrays = [np.full((200, 30), k) for k in range(int(rng.integers(2, 12)))]
        lists = [arrays]
        for function in (dml.join, dml.stack, dml.concat_training, fused):
            make = some(rng, np.copy, Listing, Numbering, *TENSORS)
            lists = [[make(each) for each in arrays], [make(each) for each in arrays]]
            if make in (Listing, Numbering):
                lists[0][0].lists = lists
            tried(lambda g, n, f=function: f(*g[: 1 + (f is fused)]), lists, {}, lists, int(rng.integers(0, 4)))
        lists = [[100, 50, 20, 30], [np.empty((n, 30)) for n in (100, 50, 20, 30)]]
        tried(lambda g, n: dml.split(np.ones((200, 30)), g[0], out=g[1]), lists, {}, lists, later % 4)
        tried(lambda g, n: dml.split(np.ones((200, 30)), g), [Size(80), Size(120)], {}, [], 0)
    print(kept, changed)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
