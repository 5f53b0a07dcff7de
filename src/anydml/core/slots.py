"""Structures with slots for results, as functions return them."""

import cython
from cython.cimports.cpython.list import PyList_CheckExact
from cython.cimports.cpython.tuple import PyTuple_CheckExact

from anydml.fields import with_items


class Slot:
    """The place of a result in a structure.

    Args:
        number: the result's number.
    """

    def __cinit__(self, number: cython.int):
        self.number = number


def fill_slots(tree, results):
    """Return a structure with results in place of its slots."""
    if isinstance(tree, Slot):
        return results[cython.cast(Slot, tree).number]
    if PyList_CheckExact(tree):
        return [fill_slots(branch, results) for branch in tree]
    if isinstance(tree, tuple):
        items = [fill_slots(branch, results) for branch in tree]
        return tuple(items) if PyTuple_CheckExact(tree) else type(tree)(*items)
    if isinstance(tree, dict):
        branches = {name: fill_slots(branch, results) for name, branch in tree.items()}
        return branches if type(tree) is dict else with_items(tree, branches)
    return tree


def match_slots(tree, out, outputs):
    """Append the caller's objects in place of the slots to `outputs`; returns False if the structures differ."""
    if isinstance(tree, Slot):
        outputs.append(out)
        return True
    # No user code may run, as arrays have been read.
    if isinstance(tree, (list, tuple)):
        if not (PyList_CheckExact(out) or PyTuple_CheckExact(out)) or len(out) != len(tree):
            return False
        for k in range(len(tree)):
            if not match_slots(tree[k], out[k], outputs):
                return False
        return True
    if type(tree) is dict:
        if type(out) is not dict or len(out) != len(tree):
            return False
        for name in out:
            if type(name) is not str:
                return False
        for name, branch in tree.items():
            if type(name) is not str or name not in out or not match_slots(branch, out[name], outputs):
                return False
    return True
