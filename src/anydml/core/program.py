"""Programs as C structs: moves packed once, bound to operands, and run any number of times."""

import cython
import numpy as np
from cython.cimports.anydml.core.forms import Form, new
from cython.cimports.anydml.core.moving import SHARED_EFFORT, described, effort, refuses, run, run_backwards
from cython.cimports.cpython.mem import PyMem_Free
from cython.cimports.cpython.tuple import PyTuple_GET_ITEM, PyTuple_GET_SIZE
from cython.cimports.libc.stdint import int32_t, int64_t
from cython.cimports.numpy import NPY_ARRAY_WRITEABLE, PyArray_DATA, PyArray_FLAGS, ndarray

from anydml.core.forms import UnfitError


class Numbers(dict):
    """Registers for numbers that are known, in the order in which they are asked for."""

    def __missing__(self, number):
        self[number] = register = len(self)
        return register


class Compiled:
    """Moves between numbered operands, packed: a form whose numbers are all known.

    Args:
        moves: of `anydml.moves`.
        operand_count: how many operands there are: moves name them by lower numbers.

    Raises:
        UnfitError: there are more dimensions or lookups than the structs hold.
    """

    def __cinit__(self, moves, operand_count: cython.int):
        numbers: Numbers = Numbers()
        every = [move for move in moves if 0 not in move.sizes and move.element_size]
        k: cython.int
        refused: int32_t
        self.operand_count = operand_count
        self.form = Form(every, operand_count, numbers.__getitem__)
        self.numbers = cython.cast(cython.pointer(int64_t), new(len(numbers), 8))
        for register, number in enumerate(numbers):
            self.numbers[cython.cast(cython.int, register)] = number
        # As they are where operands lie far apart from each other.
        self.moves = self.form.room(cython.NULL, 0)
        at: cython.pointer(cython.p_char) = cython.cast(
            cython.pointer(cython.p_char), new(operand_count, cython.sizeof(cython.p_char))
        )
        for k in range(operand_count):
            at[k] = cython.cast(cython.p_char, cython.cast(cython.size_t, k + 1) << 44)
        self.count = self.form.fill(self.numbers, at, self.moves, cython.address(refused))
        PyMem_Free(at)
        if self.count < 0:
            raise UnfitError("a move has too many dimensions, even in its simplest form")

    def __dealloc__(self):
        PyMem_Free(self.numbers)
        PyMem_Free(self.moves)

    def is_shared(self):
        """Whether there is enough work for more than one thread."""
        return effort(self.moves, self.count) >= SHARED_EFFORT

    def stages(self):
        """How the moves are done, where their operands lie far apart from each other (see `described`)."""
        return described(self.moves, self.count)

    def bind(self, operands, outside=None):
        """The same moves between operands' addresses.

        Args:
            operands: arrays, whose first elements are what offsets count from. They are kept alive.
            outside: raises an error where an index is outside its axis and may not be; an IndexError by default.
        """
        # A scalar of NumPy, which is read alone, has an array of its own.
        arrays = [
            each if isinstance(each, ndarray) else np.asarray(each) if isinstance(each, np.generic) else each
            for each in operands
        ]
        return Bound(self, tuple(arrays), outside)


class Bound:
    """Moves between addresses: a call runs them."""

    def __cinit__(self, compiled: Compiled, operands: tuple, outside):
        k: int64_t
        look: cython.int
        refused: int32_t
        if len(operands) != compiled.operand_count:
            raise ValueError(f"{len(operands)} operands, but the moves are between {compiled.operand_count}")
        self.compiled = compiled
        self.operands = operands
        self.outside = outside
        self.watching = ()
        self.refusing = []
        self.moves = compiled.form.room(cython.NULL, 0)
        at: cython.pointer(cython.p_char) = cython.cast(
            cython.pointer(cython.p_char), new(len(operands), cython.sizeof(cython.p_char))
        )
        try:
            for k in range(len(operands)):
                at[k] = address(operands[k])
            self.count = compiled.form.fill(compiled.numbers, at, self.moves, cython.address(refused))
        finally:
            PyMem_Free(at)
        for k in range(self.count):
            which: cython.int = 0
            for look in range(self.moves[k].lookups):
                # They are looked at before each call, which then need not.
                which |= (self.moves[k].lookup[look].refused != cython.NULL) << look
                self.moves[k].lookup[look].refused = cython.NULL
            if which:
                self.refusing.append((k, which))

    def __dealloc__(self):
        PyMem_Free(self.moves)

    def watched(self, arrays, read_only):
        """The same, which calls `read_only` where one of some arrays cannot be written any more; that raises."""
        bound: Bound = Bound(self.compiled, self.operands, self.outside)
        for array in arrays:
            if not isinstance(array, ndarray):
                raise TypeError(f"{type(array).__name__} is no NumPy array")
        bound.watching = tuple(arrays)
        bound.read_only = read_only
        return bound

    def __call__(self):
        """Run the moves, as if one after the other.

        Raises:
            IndexError: or what else `outside` raises: an index is outside its axis and may not be.
            Exception: what `read_only` raises. Nothing was written, either way.
        """
        k: cython.Py_ssize_t
        for k in range(PyTuple_GET_SIZE(self.watching)):
            if not PyArray_FLAGS(cython.cast(ndarray, PyTuple_GET_ITEM(self.watching, k))) & NPY_ARRAY_WRITEABLE:
                self.read_only()
        if self.refusing:
            self.check_indices()
        run(self.moves, self.count)

    def check_indices(self):
        """Look at every index that may not be outside its axis."""
        number: int64_t
        which: cython.int
        is_outside: cython.bint
        for number, which in self.refusing:
            with cython.nogil:
                is_outside = refuses(self.moves + number, which)
            if is_outside:
                if self.outside is not None:
                    self.outside()
                raise IndexError("an index is out of range for its axis")


def address(array):
    """Of an array's first element."""
    if not isinstance(array, ndarray):
        raise TypeError(f"{type(array).__name__} is no NumPy array")
    return cython.cast(cython.p_char, PyArray_DATA(cython.cast(ndarray, array)))


def run_moves(moves, operands, backwards=False):
    """Run moves between arrays once (see `Compiled`).

    Args:
        moves: likewise.
        operands: likewise.
        backwards: take the units of work that threads may do at once one by one, the last of them first.

    Raises:
        IndexError: an index is outside its axis and may not be.
        UnfitError: there are more dimensions or lookups than the structs hold.
    """
    bound: Bound = Compiled(moves, len(operands)).bind(operands)
    if backwards:
        run_backwards(bound.moves, bound.count)
    else:
        bound()
