"""Random programs full of hazards: moves that read what others wrote, and write what others read or wrote."""

import numpy as np

from anydml.moves import Access, Fill, Lookup, Move, Operand, Program
from anydml.moves.dependencies import reads_what_it_writes
from anydml.moves.move import byte_range
from anydml.moves.simplify import is_injective

SPACE = 480
"""Bytes of an operand that moves read and write; there is as much around it, which must stay as it is."""

INDEX_DTYPES = ("int32", "int64", "uint32", "uint64")
MAX_LOOKUPS = 3


def index_values(rng, dtype, count, size, is_inside):
    """Indices of an axis, some of them from its end, and outside unless `is_inside`."""
    low, high = (-size, size) if is_inside else (-size - 3, size + 3)
    values = rng.integers(0 if dtype[0] == "u" else low, high, count).astype(dtype)
    if not is_inside and rng.random() < 0.2:
        limits = np.iinfo(dtype)
        values[rng.integers(count)] = limits.max if rng.random() < 0.5 else limits.min
    return values


class Draw:
    """One random program, and the bytes of its operands."""

    def __init__(self, rng, scale=1, outside=("clamp", "skip")):
        self.rng, self.scale, self.outside = rng, scale, outside
        self.space = SPACE * scale
        inputs, outputs, constants, scratch = (
            int(rng.integers(*bounds)) for bounds in ((1, 3), (1, 3), (0, 2), (0, 2))
        )
        self.operands = [Operand("input", f"in{k}") for k in range(inputs)]
        self.operands += [Operand("output", f"out{k}") for k in range(outputs)]
        self.operands += [Operand("constant", f"constant{k}", value=self._bytes()) for k in range(constants)]
        self.operands += [Operand("scratch", f"scratch{k}", 3 * self.space, reason="a test") for k in range(scratch)]
        self.arrays = [self._bytes() for _ in range(inputs + outputs)]
        self.indices = {}
        # What nobody wrote is not the same twice.
        moves = [
            Move((), Access(n, 0, ()), Fill(bytes([int(rng.integers(256)), 7])), operand.size)
            for n, operand in enumerate(self.operands)
            if operand.role == "scratch"
        ]
        while len(moves) < int(rng.integers(2, 8)):
            move = self._move()
            if move is not None:
                moves.append(move)
        self.program = Program("random", tuple(self.operands), tuple(moves))

    def _bytes(self):
        return self.rng.integers(0, 256, 3 * self.space, np.uint8)

    def _strides(self, sizes, element):
        rng, strides, step = self.rng, [0] * len(sizes), element
        order = list(reversed(range(len(sizes)))) if rng.random() < 0.6 else rng.permutation(len(sizes))
        for d in order:
            strides[d] = int(step * rng.choice([1, 1, 1, 1, -1]))
            step *= sizes[d]
            if rng.random() < 0.2:
                step += int(rng.integers(1, 4))
        return strides

    def _lookup(self, sizes, depth=0):
        """A lookup by an operand of indices, made for it: new inputs come before the outputs, so they are appended."""
        rng = self.rng
        dtype = str(rng.choice(INDEX_DTYPES))
        item = np.dtype(dtype).itemsize
        strides, step = [], 1
        for size in reversed(sizes):
            used = int(rng.choice([0, 1, 1, -1]))
            strides.append(step * item * used)
            step *= size if used else 1
        strides.reverse()
        inner = ()
        size = int(rng.integers(1, 6))
        count = step
        if depth == 0 and rng.random() < 0.25:
            nested = self._lookup(sizes, 1)
            nested = nested._replace(stride=item * step)
            inner, count = (nested,), step * nested.size
        is_inside = rng.random() < 0.4
        outside = str(rng.choice(self.outside))
        values = index_values(rng, dtype, count + 2, size, is_inside and outside != "error")
        key = f"indices{len(self.indices)}"
        self.indices[key] = values
        lowest = sum(min(0, s * (n - 1)) for s, n in zip(strides, sizes, strict=True))
        return Lookup(key, dtype, item - lowest, tuple(strides), size, 0, outside, inner)

    def _access(self, operand, sizes, element, is_destination):
        rng = self.rng
        strides = self._strides(sizes, element)
        lookups = []
        for _ in range(int(rng.choice([0, 0, 0, 1, 1, 2]))):
            lookup = self._lookup(sizes)
            stride = element * int(rng.choice([1, 2, 5, -1, max(sizes, default=1)]))
            lookups.append(lookup._replace(stride=stride))
            for d in range(len(sizes)):
                if lookup.strides[d] and rng.random() < 0.7:
                    strides[d] = 0
        if not is_destination:
            strides = [0 if rng.random() < 0.1 else stride for stride in strides]
        access = Access(operand, 0, tuple(strides), tuple(lookups))
        first, end = byte_range(access, sizes, element)
        if end - first > self.space:
            return None
        offset = int(rng.integers(0, self.space - (end - first) + 1)) - first + self.space
        return access._replace(offset=offset)

    def _move(self):
        rng = self.rng
        sizes = tuple(
            int(rng.choice([1, 2, 3, 4, 7])) * (self.scale if d == 0 else 1) for d in range(int(rng.integers(0, 4)))
        )
        element = int(rng.choice([1, 2, 4, 8, 3]))
        writable = [n for n, operand in enumerate(self.operands) if operand.role in ("output", "scratch")]
        to = self._access(int(rng.choice(writable)), sizes, element, True)
        if to is None or (not to.lookups and not is_injective(zip(sizes, to.strides, strict=True), element)):
            return None
        if rng.random() < 0.25:
            patterns = [n for n in (1, 2, 3, 4, 8) if element % n == 0]
            return Move(sizes, to, Fill(rng.integers(0, 256, int(rng.choice(patterns)), np.uint8).tobytes()), element)
        readable = [n for n, operand in enumerate(self.operands) if operand.role != "constant" or rng.random() < 0.5]
        source = self._access(int(rng.choice(readable)), sizes, element, False)
        if source is None:
            return None
        move = Move(sizes, to, source, element)
        # An operand of indices never meets a destination; its name stands for a number that is not known yet.
        return None if _meets(move) else move

    def finished(self):
        """The program with its index operands numbered, and the arrays of inputs and outputs."""
        inputs = sum(operand.role == "input" for operand in self.operands)
        names = list(self.indices)
        extra = [Operand("input", name) for name in names]
        operands = (*self.operands[:inputs], *extra, *self.operands[inputs:])

        def number(operand):
            if isinstance(operand, str):
                return inputs + names.index(operand)
            return operand + (len(names) if operand >= inputs else 0)

        def renamed(access):
            return access._replace(operand=number(access.operand), lookups=tuple(map(renamed, access.lookups)))

        moves = tuple(
            move._replace(
                destination=renamed(move.destination),
                source=move.source if isinstance(move.source, Fill) else renamed(move.source),
            )
            for move in self.program.moves
        )
        arrays = [*self.arrays[:inputs], *(self.indices[name] for name in names), *self.arrays[inputs:]]
        return Program("random", operands, moves), arrays


def _meets(move):
    """Whether a move reads what it writes; index operands, which are only named so far, are nobody's."""

    def bare(access):
        return access._replace(lookups=tuple(each._replace(operand=-1, lookups=()) for each in access.lookups))

    return reads_what_it_writes(move._replace(destination=bare(move.destination), source=bare(move.source)))


def random_program(seed, scale=1, outside=("clamp", "skip")):
    """A program, and arrays for its inputs and outputs."""
    return Draw(np.random.default_rng(seed), scale, outside).finished()
