# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""Calls of fused functions: found by what their arguments are, and done from there to the results.

What is unusual is left to Python, which says what is wrong with it: then nothing was done.
"""

import cython
from cython.cimports.anydml.core.arrays import (
    Kind,
    View,
    apart,
    make,
    target,
    tell,
)
from cython.cimports.anydml.core.memory import new_array
from cython.cimports.anydml.core.moving import Lookup, Move, run
from cython.cimports.anydml.core.program import Compiled, address, new
from cython.cimports.anydml.core.refusals import first_outside
from cython.cimports.anydml.core.signatures import Given, see_all
from cython.cimports.cpython.bytes import PyBytes_FromStringAndSize
from cython.cimports.cpython.dict import PyDict_GetItem
from cython.cimports.cpython.list import PyList_CheckExact
from cython.cimports.cpython.mem import PyMem_Free
from cython.cimports.cpython.ref import PyObject
from cython.cimports.cpython.tuple import PyTuple_CheckExact
from cython.cimports.libc.stdint import int64_t
from cython.cimports.numpy import dtype, import_array, npy_intp

import_array()

MOST_CALLS = cython.declare(int64_t, 4096)
MOST_BYTES = cython.declare(int64_t, 32 << 20)
"""Calls that are kept for a function, and bytes of all of them together, about: where there are more, all go."""

FIXED_WEIGHT = cython.declare(int64_t, 1024)
MOVE_WEIGHT = cython.declare(int64_t, 512)
"""Bytes of a call in any case, and for each move."""


class Slot:
    """The place of a result in a structure.

    Args:
        number: the result's.
    """

    def __cinit__(self, number: cython.int):
        self.number = number


class Result:
    """A packed array that a call makes.

    Args:
        shape: its sizes.
        kind: NumPy's dtype.
        like: the number of an argument of its dtype, where arrays are another library's.
    """

    def __cinit__(self, shape: tuple, kind, like: cython.int):
        self.rank = len(shape)
        for k in range(self.rank):
            self.n[k] = shape[k]
        self.dtype = kind
        self.like = like


class Call:
    """What is done for arguments that look alike.

    Args:
        compiled: the moves, between inputs, results, constants and scratch.
        constants: arrays.
        scratch: arrays' shapes and dtypes.
        results: of `Result`.
        tree: the structure that is given back, with a `Slot` for each result.
    """

    def __cinit__(self, compiled: Compiled, constants: tuple, scratch: tuple, results: tuple, tree):
        self.compiled = compiled
        self.constants = constants
        self.scratch = scratch
        self.results = results
        self.tree = tree
        self.is_one = isinstance(tree, Slot)

    def run(self, given, out):
        """The results, or `out`; None where Python has to look at it."""
        views: View[64]
        at: cython.p_char[256]
        k: cython.int
        j: cython.int
        kind: Kind
        result: Result
        count: cython.int = len(self.results)
        compiled: Compiled = self.compiled
        if count > 64 or compiled.operand_count > 256:
            return None
        held: list = [cython.cast(object, given.arrays[k]) for k in range(given.count)]
        made: list = []
        if out is None:
            for k in range(count):
                result = self.results[k]
                kind = kind_of(result, given)
                array = make(cython.address(kind), result.rank, result.n, cython.address(views[k]))
                if array is None:
                    return None
                made.append(array)
        elif not taken(self.tree, out, made) or self.targets(made, given, views):
            return None
        for k in range(given.count):
            at[k] = given.views[k].data
        j = given.count
        for k in range(count):
            at[j] = views[k].data
            j += 1
        for array in self.constants:
            at[j] = address(array)
            j += 1
        for shape, each in self.scratch:
            size: npy_intp = shape
            array = new_array(1, cython.address(size), each)
            held.append(array)
            at[j] = address(array)
            j += 1
        moves: cython.pointer(Move) = cython.cast(
            cython.pointer(Move),
            new(1, compiled.count * cython.sizeof(Move) + compiled.lookup_count * cython.sizeof(Lookup)),
        )
        try:
            compiled.place(at, moves, cython.cast(cython.pointer(Lookup), moves + compiled.count))
            for number, lookup, _ in compiled.refusing:
                if first_outside(moves + cython.cast(int64_t, number), lookup) != cython.NULL:
                    return None
            run(moves, compiled.count)
        finally:
            PyMem_Free(moves)
        if out is not None:
            for array in made:
                tell(array, given.kinds)
            return out
        return made[0] if self.is_one else built(self.tree, made)

    def targets(self, found, given, views):
        """Look at the caller's arrays; returns 1 where Python has to: they are not packed, or may overlap."""
        k: cython.int
        j: cython.int
        d: cython.int
        step: int64_t
        kind: Kind
        result: Result
        for k in range(len(found)):
            result = self.results[k]
            kind = kind_of(result, given)
            if target(found[k], cython.address(kind), result.rank, result.n, cython.address(views[k])):
                return 1
            step = kind.element
            for d in range(result.rank - 1, -1, -1):
                if result.n[d] > 1 and views[k].s[d] != step:
                    return 1
                step *= result.n[d]
            for j in range(given.count):
                if not apart(
                    cython.address(views[k]), kind.element, cython.address(given.views[j]), given.kinds[j].element
                ):
                    return 1
            for j in range(k):
                # Elements of other results are at most this long.
                if not apart(cython.address(views[k]), kind.element, cython.address(views[j]), 64):
                    return 1
        return 0


class Calls:
    """The calls of one function."""

    def __cinit__(self):
        self.found = {}
        self.bytes = 0

    def take(self, arguments: tuple, keywords: dict, out):
        """What a call gives that was kept; None where Python has to look at it."""
        given: Given
        if not self.found or see_all(cython.address(given), arguments, keywords):
            return None
        key: bytes = PyBytes_FromStringAndSize(given.key, given.used)
        found = PyDict_GetItem(self.found, key)
        if found == cython.NULL:
            return None
        call: Call = cython.cast(Call, found)
        return call.run(cython.address(given), out)

    def keep(self, arguments: tuple, keywords: dict, call: Call):
        """Have calls with such arguments done so."""
        given: Given
        if see_all(cython.address(given), arguments, keywords):
            return
        if len(self.found) >= MOST_CALLS or self.bytes > MOST_BYTES:
            self.found.clear()
            self.bytes = 0
        self.bytes += FIXED_WEIGHT + MOVE_WEIGHT * call.compiled.count
        for array in call.constants:
            self.bytes += array.nbytes
        self.found[PyBytes_FromStringAndSize(given.key, given.used)] = call


def kind_of(result, given):
    """The kind of a result: of the argument that it is like, or NumPy's of its dtype."""
    kind: Kind = given.kinds[result.like if given.kinds[0].library != cython.NULL else 0]
    if kind.library == cython.NULL:
        kind.descr = cython.cast(cython.pointer(PyObject), result.dtype)
        kind.element = cython.cast(dtype, result.dtype).itemsize
    return kind


def built(tree, results):
    """A structure with results in their places."""
    if isinstance(tree, Slot):
        return results[cython.cast(Slot, tree).number]
    if PyList_CheckExact(tree):
        return [built(each, results) for each in tree]
    if isinstance(tree, tuple):
        items = [built(each, results) for each in tree]
        return tuple(items) if PyTuple_CheckExact(tree) else type(tree)(*items)
    if type(tree) is dict:
        return {name: built(each, results) for name, each in tree.items()}
    return tree


def taken(tree, out, found):
    """Find what stands in the places of results, in a structure of the caller's; False where they differ."""
    if isinstance(tree, Slot):
        found.append(out)
        return True
    # Nothing of the caller's own may run, now that its arrays were looked at.
    if isinstance(tree, (list, tuple)):
        if not (PyList_CheckExact(out) or PyTuple_CheckExact(out)) or len(out) != len(tree):
            return False
        for k in range(len(tree)):
            if not taken(tree[k], out[k], found):
                return False
        return True
    if type(tree) is dict:
        if type(out) is not dict or len(out) != len(tree):
            return False
        for name in out:
            if type(name) is not str:
                return False
        for name, each in tree.items():
            if type(name) is not str or name not in out or not taken(each, out[name], found):
                return False
    return True
