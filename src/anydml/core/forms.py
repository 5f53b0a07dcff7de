"""Forms: moves whose numbers are in registers, so that one trace makes the moves of every call (see `tapes`)."""

import cython
from cython.cimports.anydml.core.moving import (
    ANYDML_CLAMP,
    ANYDML_LOOKUPS,
    ANYDML_SKIP,
    Lookup,
    offset_by,
)
from cython.cimports.anydml.core.simplifying import extend_move, has_invalid_index, simplify

TYPES = {"int32": -4, "int64": -8, "uint32": 4, "uint64": 8, "uint8": 1}
"""Codes of index dtypes in lookups."""

DIMENSIONS = cython.declare(cython.int, 64)
"""Maximum number of dimensions before simplification, as in NumPy."""

MOVE_HEAD = cython.declare(cython.int, 8)
"""Length of the code of a move before its numbers per dimension."""

LOOKUP_HEAD = cython.declare(cython.int, 8)
"""Length of the code of a lookup before its numbers per dimension."""


class UnfitError(Exception):
    """Moves have more dimensions or lookups than the compiled structs hold; NumPy must do them."""


class Form:
    """Moves between numbered operands.

    Args:
        moves: moves of `anydml.moves`, whose sizes, strides and offsets are integers or open sizes.
        operand_count: number of operands.
        register: returns the number of the register of such an integer or open size.

    Raises:
        UnfitError: a move has more dimensions or lookups than the compiled structs hold.
    """

    def __cinit__(self, moves, operand_count: cython.int, register):
        codes: list = []
        self.patterns = []
        for sizes, to, source, element in moves:
            lookups: list = []
            add_lookups(lookups, to.lookups, -2)
            pattern = getattr(source, "pattern", None)
            if pattern is None:
                add_lookups(lookups, source.lookups, -1)
                source_address = check_operand(source.operand, operand_count), register(source.offset)
                strides = source.strides
            else:
                self.patterns.append(pattern)
                source_address = cython.cast(cython.size_t, cython.cast(cython.p_char, pattern)), 0
                strides = (0,) * len(sizes)
            if len(sizes) > DIMENSIONS or len(lookups) > ANYDML_LOOKUPS:
                raise UnfitError(f"{len(sizes)} dimensions, {len(lookups)} lookups")
            codes += [len(sizes), register(element), len(pattern or b"")]
            codes += [check_operand(to.operand, operand_count), register(to.offset), *source_address, len(lookups)]
            codes += [register(number) for number in (*sizes, *to.strides, *strides)]
            for lookup, into in lookups:
                codes += [
                    *(check_operand(lookup.operand, operand_count), register(lookup.offset)),
                    *(register(lookup.size), register(lookup.stride), TYPES[lookup.dtype]),
                    *(ANYDML_SKIP if lookup.outside == "skip" else ANYDML_CLAMP, into, lookup.outside == "error"),
                    *[register(number) for number in lookup.strides],
                ]
            self.lookup_count += len(lookups)
            self.count += 1
        self.code_length = len(codes)
        self.code_bytes = bytearray(8 * self.code_length)
        self.codes = cython.cast(cython.pointer(int64_t), cython.cast(cython.p_char, self.code_bytes))
        for k in range(self.code_length):
            self.codes[k] = codes[k]
        # The bytes that a call needs for its moves and lookups.
        self.size = self.count * cython.sizeof(Move) + self.lookup_count * cython.sizeof(Lookup)

    def make_moves(self, registers, at, moves, refused):
        """Make the simplified moves of a call.

        Args:
            registers: the registers.
            at: the operands' addresses.
            moves: memory of `size` bytes.
            refused: set by running the moves if an index that must be in range is not; NULL to check now.

        Returns:
            The number of moves; −1 to fall back to Python, which may reject an index.
        """
        n: int64_t[64]
        a: int64_t[64]
        b: int64_t[64]
        strides: int64_t[16][64]
        columns: cython.pointer(cython.const[int64_t])[16]
        m: cython.pointer(Move) = moves
        look: cython.pointer(Lookup) = cython.cast(cython.pointer(Lookup), moves + self.count)
        code: cython.pointer(int64_t) = self.codes
        for _ in range(self.count):
            rank = cython.cast(cython.int, code[0])
            lookup_count = cython.cast(cython.int, code[7])
            m.element = registers[code[1]]
            m.to = offset_by(at[code[3]], registers[code[4]])
            m.lookups = lookup_count
            m.lookup = look
            m.pattern = code[2]
            if m.pattern:
                m.source = cython.cast(cython.p_char, code[5])
            else:
                m.source = offset_by(at[code[5]], registers[code[6]])
            code += MOVE_HEAD
            for d in range(rank):
                n[d] = registers[code[d]]
                a[d] = registers[code[rank + d]]
                b[d] = registers[code[2 * rank + d]]
            code += 3 * rank
            if lookup_count == 0:
                result = simplify(m, rank, n, a, b, cython.NULL)
            else:
                for k in range(lookup_count):
                    look[k].at = offset_by(at[code[0]], registers[code[1]])
                    look[k].size = registers[code[2]]
                    look[k].stride = registers[code[3]]
                    look[k].type = code[4]
                    look[k].outside = code[5]
                    look[k].into = code[6]
                    look[k].refused = refused if code[7] else cython.NULL
                    columns[k] = strides[k]
                    for d in range(rank):
                        strides[k][d] = registers[code[LOOKUP_HEAD + d]]
                    code += LOOKUP_HEAD + rank
                result = simplify(m, rank, n, a, b, columns)
            if result < 0:
                return -1
            if result == 0:
                refusing: cython.int = 0
                for k in range(lookup_count if refused == cython.NULL else 0):
                    # `code` is at the next move already.
                    refusing |= (code[(k - lookup_count) * (LOOKUP_HEAD + rank) + 7] != 0) << k
                if refusing and has_invalid_index(m, refusing):
                    return -1
                if m == moves or not extend_move(m - 1, m, False):
                    m += 1
                    look += lookup_count
        return m - moves


def add_lookups(all_lookups, lookups, into):
    """Append lookups, each after those that its address depends on, and with what its index is added to."""
    for lookup in lookups:
        first = len(all_lookups)
        add_lookups(all_lookups, lookup.lookups, -3)
        for k in range(first, len(all_lookups)):
            if all_lookups[k][1] == -3:
                all_lookups[k] = (all_lookups[k][0], len(all_lookups))
        all_lookups.append((lookup, into))


def check_operand(operand, count):
    """Return an operand's number; raises ValueError if there is no such operand."""
    if not 0 <= operand < count:
        raise ValueError(f"there is no operand {operand}, but {count} of them")
    return operand
