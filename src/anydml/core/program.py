"""Programs as C structs: moves packed once, bound to operands, and run any number of times."""

from array import array

import cython
import numpy as np
from cython.cimports.anydml.core.moving import SHARED_EFFORT, describe, effort, run, run_backwards
from cython.cimports.anydml.core.simplifying import has_invalid_index
from cython.cimports.cpython.tuple import PyTuple_GET_ITEM, PyTuple_GET_SIZE
from cython.cimports.libc.stdint import int32_t
from cython.cimports.numpy import NPY_ARRAY_WRITEABLE, PyArray_DATA, PyArray_FLAGS, ndarray

from anydml.core.forms import UnfitError


class Registers(dict):
    """Registers of constants, numbered in order of first use."""

    def __missing__(self, number):
        self[number] = register = len(self)
        return register


class Compiled:
    """Packed moves between numbered operands: a form whose numbers are all constants.

    Args:
        moves: moves of `anydml.moves`.
        operand_count: number of operands; moves refer to them by lower numbers.

    Raises:
        UnfitError: a move has more dimensions or lookups than the structs hold.
    """

    def __cinit__(self, moves, operand_count: cython.int):
        numbers: Registers = Registers()
        nonempty = [move for move in moves if 0 not in move.sizes and move.element_size]
        self.operand_count = operand_count
        self.form = Form(nonempty, operand_count, numbers.__getitem__)
        self.number_bytes = array("q", numbers).tobytes()
        self.numbers = cython.cast(cython.pointer(int64_t), cython.cast(cython.p_char, self.number_bytes))
        self.memory = bytearray(self.form.size)
        self.moves = cython.cast(cython.pointer(Move), cython.cast(cython.p_char, self.memory))
        # The moves as they are for operands that are far apart from each other.
        self.count = make_moves(self, [k << 44 for k in range(1, operand_count + 1)], self.moves)
        if self.count < 0:
            raise UnfitError("a move has too many dimensions, even in its simplest form")

    def is_shared(self):
        """Whether there is enough work for more than one thread."""
        return effort(self.moves, self.count) >= SHARED_EFFORT

    def stages(self):
        """Describe how the moves are run if their operands are far apart from each other (see `describe`)."""
        return describe(self.moves, self.count)

    def bind(self, operands, on_invalid_index=None):
        """Bind the moves to the addresses of operands.

        Args:
            operands: arrays; offsets count from their first elements. They are kept alive.
            on_invalid_index: called to raise an error if an index that must be in range is not; by default IndexError
                is raised.
        """
        # NumPy scalars, which are only read, are copied to arrays.
        arrays = [np.asarray(operand) if isinstance(operand, np.generic) else operand for operand in operands]
        return Bound(self, tuple(arrays), on_invalid_index)


class Bound:
    """Moves between addresses; a call of the object runs them."""

    def __cinit__(self, compiled: Compiled, operands: tuple, on_invalid_index):
        if len(operands) != compiled.operand_count:
            raise ValueError(f"{len(operands)} operands, but the moves are between {compiled.operand_count}")
        self.compiled = compiled
        self.operands = operands
        self.on_invalid_index = on_invalid_index
        self.written_arrays = ()
        self.refusing = []
        self.memory = bytearray(compiled.form.size)
        self.moves = cython.cast(cython.pointer(Move), cython.cast(cython.p_char, self.memory))
        addresses = [cython.cast(cython.size_t, address(operand)) for operand in operands]
        self.count = make_moves(compiled, addresses, self.moves)
        for k in range(self.count):
            lookup_mask: cython.int = 0
            for look in range(self.moves[k].lookups):
                # Indices are checked before each run rather than during it.
                lookup_mask |= (self.moves[k].lookup[look].refused != cython.NULL) << look
                self.moves[k].lookup[look].refused = cython.NULL
            if lookup_mask:
                self.refusing.append((k, lookup_mask))

    def requiring_writable(self, arrays, read_only):
        """Return a copy that calls `read_only`, which raises, if one of the arrays has become read-only."""
        bound: Bound = Bound(self.compiled, self.operands, self.on_invalid_index)
        for argument in arrays:
            if not isinstance(argument, ndarray):
                raise TypeError(f"{type(argument).__name__} is not a NumPy array")
        bound.written_arrays = tuple(arrays)
        bound.read_only = read_only
        return bound

    def __call__(self):
        """Run the moves, as if one after the other.

        Raises:
            IndexError: or another error that `on_invalid_index` raises: an index that must be in range is not.
            Exception: raised by `read_only`. In either case nothing is written.
        """
        for k in range(PyTuple_GET_SIZE(self.written_arrays)):
            if not PyArray_FLAGS(cython.cast(ndarray, PyTuple_GET_ITEM(self.written_arrays, k))) & NPY_ARRAY_WRITEABLE:
                self.read_only()
        if self.refusing:
            self.check_indices()
        run(self.moves, self.count, 0)

    def check_indices(self):
        """Check every index that must be in range."""
        move_number: int64_t
        lookup_mask: cython.int
        is_outside: cython.bint
        for move_number, lookup_mask in self.refusing:
            with cython.nogil:
                is_outside = has_invalid_index(self.moves + move_number, lookup_mask)
            if is_outside:
                if self.on_invalid_index is not None:
                    self.on_invalid_index()
                raise IndexError("an index is out of range for its axis")


def make_moves(compiled, addresses, moves):
    """Make the moves between operands at these addresses; returns as `Form.make_moves`."""
    refused: int32_t
    address_bytes = array("q", addresses).tobytes()
    at: cython.pointer(cython.p_char) = cython.cast(
        cython.pointer(cython.p_char), cython.cast(cython.p_char, address_bytes)
    )
    return compiled.form.make_moves(compiled.numbers, at, moves, cython.address(refused))


def address(array):
    """Return the address of an array's first element."""
    if not isinstance(array, ndarray):
        raise TypeError(f"{type(array).__name__} is not a NumPy array")
    return cython.cast(cython.p_char, PyArray_DATA(cython.cast(ndarray, array)))


def run_moves(moves, operands, backwards=False):
    """Run moves between arrays once (see `Compiled`).

    Args:
        moves: see `Compiled`.
        operands: see `Compiled.bind`.
        backwards: run the units of each stage one by one, from the last to the first.

    Raises:
        IndexError: an index that must be in range is not.
        UnfitError: a move has more dimensions or lookups than the structs hold.
    """
    bound: Bound = Compiled(moves, len(operands)).bind(operands)
    if backwards:
        run_backwards(bound.moves, bound.count)
    else:
        bound()
