# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""Programs as C structs: moves packed once, bound to operands, and run any number of times."""

import sys

import cython
import numpy as np
from cython.cimports.anydml.core.indices import first_outside
from cython.cimports.anydml.core.moving import (
    ANYDML_CLAMP,
    ANYDML_LOOKUPS,
    ANYDML_RANK,
    ANYDML_SKIP,
    SHARED_EFFORT,
    Lookup,
    Move,
    Stage,
    effort,
    moved,
    name_of,
    plan,
    run,
    run_backwards,
    written_by,
)
from cython.cimports.anydml.core.simplifying import simplify
from cython.cimports.cpython.mem import PyMem_Calloc, PyMem_Free
from cython.cimports.cpython.tuple import PyTuple_GET_ITEM, PyTuple_GET_SIZE
from cython.cimports.libc.stdint import int32_t, int64_t
from cython.cimports.libc.string import memcpy
from cython.cimports.numpy import NPY_ARRAY_WRITEABLE, PyArray_DATA, PyArray_FLAGS, ndarray

if not cython.compiled:
    raise ImportError("this module has to be compiled")

TYPES = {"int32": -4, "int64": -8, "uint32": 4, "uint64": 8, "uint8": 1}
"""How structs write the types of indices."""

DIMENSIONS = cython.declare(cython.int, 64)
"""Of moves that are not simple yet: as many as NumPy's arrays have at most."""


class UnfitError(Exception):
    """Moves have more dimensions or lookups than compiled structs hold: NumPy has to do them."""


class Compiled:
    """Moves between numbered operands, packed.

    Args:
        moves: of `anydml.moves`; those with lookups in their simplest form.
        operand_count: how many operands there are: moves name them by lower numbers.

    Raises:
        UnfitError: there are more dimensions or lookups than the structs hold.
    """

    def __cinit__(self, moves, operand_count: cython.int):
        every = [move for move in moves if 0 not in move.sizes and move.element_size]
        self.operand_count = operand_count
        self.patterns = []
        self.refusing = []
        count: int64_t = len(every)
        lookups: int64_t = sum([depth(move.destination) + depth(move.source) for move in every])
        self.moves = cython.cast(cython.pointer(Move), new(count, cython.sizeof(Move)))
        self.lookups = cython.cast(cython.pointer(Lookup), new(lookups, cython.sizeof(Lookup)))
        self.written = cython.cast(cython.pointer(int32_t), new(count, cython.sizeof(int32_t)))
        self.read = cython.cast(cython.pointer(int32_t), new(count, cython.sizeof(int32_t)))
        self.looked = cython.cast(cython.pointer(int32_t), new(lookups, cython.sizeof(int32_t)))
        for move in every:
            self.pack(move)

    def __dealloc__(self):
        PyMem_Free(self.moves)
        PyMem_Free(self.lookups)
        PyMem_Free(self.written)
        PyMem_Free(self.read)
        PyMem_Free(self.looked)

    def pack(self, move):
        """Append a move, with offsets where addresses will be."""
        sizes, to, source, element_size = move
        m: cython.pointer(Move) = self.moves + self.count
        n: int64_t[64]
        a: int64_t[64]
        b: int64_t[64]
        k: cython.int
        rank: cython.int = len(sizes)
        m.element = element_size
        m.to = cython.cast(cython.p_char, cython.cast(cython.size_t, cython.cast(int64_t, to.offset)))
        m.lookup = self.lookups + self.lookup_count
        self.written[self.count] = operand(to.operand, self.operand_count)
        if is_fill(source):
            pattern: bytes = source.pattern
            self.patterns.append(pattern)
            m.pattern = len(pattern)
            m.source = pattern
            self.read[self.count] = -1
        else:
            m.source = cython.cast(cython.p_char, cython.cast(cython.size_t, cython.cast(int64_t, source.offset)))
            self.read[self.count] = operand(source.operand, self.operand_count)
        if rank > DIMENSIONS:
            raise UnfitError(f"{rank} dimensions")
        for k in range(rank):
            n[k] = sizes[k]
            a[k] = to.strides[k]
            b[k] = 0 if m.pattern else source.strides[k]
        if depth(to) + depth(source) == 0:
            if simplify(m, rank, n, a, b, cython.NULL) < 0:
                raise UnfitError(f"{rank} dimensions: {move}")
        else:
            if rank > ANYDML_RANK or depth(to) + depth(source) > ANYDML_LOOKUPS:
                raise UnfitError(f"{rank} dimensions, {depth(to) + depth(source)} lookups: {move}")
            m.rank = rank
            for k in range(rank):
                m.n[k] = n[k]
                m.a[k] = a[k]
                m.b[k] = b[k]
            self.pack_end(m, to.lookups, -2)
            if not m.pattern:
                self.pack_end(m, source.lookups, -1)
        self.count += 1

    def pack_end(self, m, lookups, into):
        """Append what an address depends on to the move's lookups, and before each of them what its own depends on."""
        k: cython.int
        for each in lookups:
            first: cython.int = m.lookups
            self.pack_end(m, each.lookups, -3)
            number: cython.int = m.lookups
            for k in range(first, number):
                if m.lookup[k].into == -3:
                    m.lookup[k].into = number
            packed: cython.pointer(Lookup) = m.lookup + number
            packed.at = cython.cast(cython.p_char, cython.cast(cython.size_t, cython.cast(int64_t, each.offset)))
            for k in range(m.rank):
                packed.b[k] = each.strides[k]
            packed.size = each.size
            packed.stride = each.stride
            packed.type = TYPES[each.dtype]
            packed.outside = ANYDML_SKIP if each.outside == "skip" else ANYDML_CLAMP
            packed.into = into
            if each.outside == "refuse":
                self.refusing.append((self.count, number, each))
            self.looked[self.lookup_count] = operand(each.operand, self.operand_count)
            self.lookup_count += 1
            m.lookups += 1

    def place(self, at, moves, lookups):
        """The same moves and lookups where operands have these addresses."""
        k: int64_t
        memcpy(moves, self.moves, self.count * cython.sizeof(Move))
        memcpy(lookups, self.lookups, self.lookup_count * cython.sizeof(Lookup))
        for k in range(self.count):
            moves[k].to = moved(moves[k].to, number(at[self.written[k]]))
            if self.read[k] >= 0:
                moves[k].source = moved(moves[k].source, number(at[self.read[k]]))
            moves[k].lookup = lookups + (self.moves[k].lookup - self.moves[0].lookup)
        for k in range(self.lookup_count):
            lookups[k].at = moved(lookups[k].at, number(at[self.looked[k]]))

    def is_shared(self):
        """Whether there is enough work for more than one thread."""
        return effort(self.moves, self.count) >= SHARED_EFFORT

    def stages(self):
        """How the moves are done, where their operands lie far apart from each other.

        Returns:
            For each stage, whose moves may be done at once, the kernels' names, how many moves there are, whether some
            are written past the caches, and how many parts there are that threads may share.
        """
        stage: Stage
        k: cython.int
        done: int64_t
        first: int64_t = 0
        moves: cython.pointer(Move) = cython.cast(cython.pointer(Move), new(self.count, cython.sizeof(Move)))
        found: list = []
        try:
            memcpy(moves, self.moves, self.count * cython.sizeof(Move))
            for k in range(self.count):
                moves[k].to = moved(moves[k].to, cython.cast(int64_t, self.written[k] + 1) << 44)
                moves[k].source = moved(moves[k].source, cython.cast(int64_t, self.read[k] + 1) << 44)
            written: int64_t = written_by(moves, self.count)
            while first < self.count:
                done = plan(cython.address(stage), moves + first, self.count - first, written)
                names: list = []
                past: cython.int = 0
                for k in range(stage.steps):
                    name = name_of(cython.address(stage.step[k])).decode()
                    past |= stage.step[k].streamed
                    if name not in names:
                        names.append(name)
                found.append((tuple(names), done, bool(past), stage.units))
                first += done
        finally:
            PyMem_Free(moves)
        return found

    def bind(self, operands, outside=None):
        """The same moves between operands' addresses.

        Args:
            operands: arrays, whose first elements are what offsets count from. They are kept alive.
            outside: makes an error, given a lookup that refuses it and an index; an IndexError by default.
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
        count: int64_t = compiled.count
        k: int64_t
        if len(operands) != compiled.operand_count:
            raise ValueError(f"{len(operands)} operands, but the moves are between {compiled.operand_count}")
        self.compiled = compiled
        self.operands = operands
        self.outside = outside
        self.watching = ()
        self.refuses = len(compiled.refusing) > 0
        self.moves = cython.cast(cython.pointer(Move), new(count, cython.sizeof(Move)))
        self.lookups = cython.cast(cython.pointer(Lookup), new(compiled.lookup_count, cython.sizeof(Lookup)))
        at: cython.pointer(cython.p_char) = cython.cast(
            cython.pointer(cython.p_char), new(len(operands), cython.sizeof(cython.p_char))
        )
        try:
            for k in range(len(operands)):
                at[k] = address(operands[k])
            compiled.place(at, self.moves, self.lookups)
        finally:
            PyMem_Free(at)

    def __dealloc__(self):
        PyMem_Free(self.moves)
        PyMem_Free(self.lookups)

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
            IndexError: or what else `outside` makes: an index is outside its axis and may not be.
            Exception: what `read_only` raises. Nothing was written, either way.
        """
        k: cython.Py_ssize_t
        for k in range(PyTuple_GET_SIZE(self.watching)):
            if not PyArray_FLAGS(cython.cast(ndarray, PyTuple_GET_ITEM(self.watching, k))) & NPY_ARRAY_WRITEABLE:
                self.read_only()
        if self.refuses:
            self.check_indices()
        run(self.moves, self.compiled.count)

    def check_indices(self):
        """Look at every index that may not be outside its axis."""
        number: int64_t
        k: cython.int
        at: cython.p_const_char
        for number, k, lookup in self.compiled.refusing:
            with cython.nogil:
                at = first_outside(self.moves + number, k)
            if at != cython.NULL:
                index: bytes = at[: abs(TYPES[lookup.dtype])]
                found = int.from_bytes(index, sys.byteorder, signed=lookup.dtype[0] == "i")
                if self.outside is None:
                    raise IndexError(f"index {found} is out of range for an axis of size {lookup.size}")
                raise self.outside(lookup, found)


def is_fill(source):
    """Whether a move's source is a pattern."""
    return hasattr(source, "pattern")


def depth(end):
    """How many lookups an end of a move has, those that lookups depend on included."""
    if is_fill(end):
        return 0
    return sum([1 + depth(lookup) for lookup in end.lookups])


def operand(number, count):
    """The number of an operand, if there is one of that number."""
    if not 0 <= number < count:
        raise ValueError(f"there is no operand {number}, but {count} of them")
    return number


def new(count, size):
    """Memory for so many structs, all 0."""
    found: cython.p_void = PyMem_Calloc(max(count, 1), size)
    if found == cython.NULL:
        raise MemoryError
    return found


def number(at):
    """An address as a number."""
    return cython.cast(int64_t, cython.cast(cython.size_t, at))


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
        run_backwards(bound.moves, bound.compiled.count)
    else:
        bound()
