"""Moves that reach every kernel with every kind of tail: run lengths, element sizes, columns, index types, strides."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass

from anydml.moves import Access, Fill, Lookup, Move, unless


@dataclass(frozen=True)
class Pattern:
    """Moves, and a name."""

    name: str
    moves: list[Move]


def rows(every: bool) -> Iterator[Pattern]:
    """Runs of all lengths; parts side by side, lines with gaps, backwards and repeated; runs cut into pieces."""
    lengths = [*range(1, 331), *range(505, 520), *range(4090, 4102)]
    for length in lengths:
        yield Pattern(f"run of {length}", [Move((), Access(0, 0, ()), Access(1, 0, ()), length)])
    long = [*range(65, 330, 1 if every else 7), 512, 4097]
    for length, (gap, back) in itertools.product(long, [(0, False), (1, True), (3, False), (64, True)]):
        source = -(length + gap) if back else length + gap
        lines = Move((5,), Access(0, 0, (length + 3,)), Access(1, 0, (source,)), length)
        yield Pattern(f"5 runs of {length}, source {source}", [lines])
    for length in long[:: 1 if every else 3]:
        whole = 3 * length + 5
        parts = [
            Move((2, 3), Access(k, 0, (7 * length, 2 * length)), Access(3, at, (4 * whole, whole)), size)
            for k, (at, size) in enumerate([(0, length), (length, length + 5), (2 * length + 5, length)])
        ]
        yield Pattern(f"3 parts of about {length}", parts)
        again = Move((4,), Access(0, 0, (length + 1,)), Access(1, 0, (0,)), length)
        yield Pattern(f"4 times the same {length}", [again])
    for length in range(513, 513 + 64):
        # Rows that share lines with their neighbours, but for the first and the last of each group.
        to, source = Access(0, 0, (4 * length + 5, length)), Access(1, 0, (4 * length + 9, length + 1))
        yield Pattern(f"2 times 4 runs of {length} without gaps", [Move((2, 4), to, source, length)])
    for length in ((256 << 10) + d for d in (-1, 0, 1, 63, 65)):
        yield Pattern(f"cut run of {length}", [Move((), Access(0, 0, ()), Access(1, 0, ()), length)])


def runs(every: bool) -> Iterator[Pattern]:
    """Many runs of all lengths, each of its own, apart and side by side."""
    for length, gap in itertools.product([*range(1, 70), *range(250, 262), 4097], (0, 1, 64)):
        starts = [*itertools.accumulate((length + k for k in range(11)), initial=0)]
        parts = [
            Move((), Access(0, start + gap * (k + k * k), ()), Access(1, start + gap * k, ()), length + k)
            for k, start in enumerate(starts[:-1])
        ]
        yield Pattern(f"11 runs of about {length}, {gap} apart", parts)


def patterned(every: bool) -> Iterator[Pattern]:
    """Elements that are known, of all sizes, packed and with gaps."""
    for size in range(1, 65):
        for count, gap in itertools.product((1, 2, 3, 7, 33, 130, 1025), (0, 1, 5)):
            for period in {size, size // 2 if size % 2 == 0 else 1}:
                value = Fill(bytes(range(1, period + 1)))
                to = Access(0, 0, ((size + gap) * count + gap, size + gap))
                yield Pattern(f"3 times {count} of {size} B, {period} known", [Move((3, count), to, value, size)])


def elements(every: bool) -> Iterator[Pattern]:
    """Elements of all sizes at strides that no register pattern fits."""
    sizes = range(1, 65) if every else [1, 2, 3, 4, 7, 8, 12, 16, 31, 64]
    for size in sizes:
        counts = [*range(1, 40), 63, 64, 65, 255, 256, 257, 1023, 1024, 1025, 4096 // size + 1]
        for count, far in itertools.product(counts[:: 1 if every else 2], [1, -1]):
            if count == 1:
                continue
            # Sources that are too sparse, with a destination packed and one with gaps.
            sparse = Access(1, 0, (far * (9 * size + 1),))
            packed = Move((count,), Access(0, 0, (size,)), sparse, size)
            yield Pattern(f"{count} of {size} B, source {sparse.strides}", [packed])
            gaps = Move((count,), Access(0, 0, (size + 3,)), Access(1, 0, (far * (size + 1),)), size)
            yield Pattern(f"{count} of {size} B with gaps, {far}", [gaps])
        for lines, count in ((3, 7), (5, 66), (17, 300)):
            turned = Move((lines, count), Access(0, 0, (count * size, size)), Access(1, 0, (size, lines * size)), size)
            yield Pattern(f"{lines}×{count} of {size} B transposed", [turned])
            again = Move((lines, count), Access(0, 0, (count * size, size)), Access(1, 0, (size, 0)), size)
            yield Pattern(f"{lines}×{count} of {size} B repeated", [again])
            pair = [
                Move((lines, count), Access(k, 0, (count * size + 1, size)), Access(2, k * size, (-9, 9 * size)), size)
                for k in range(2)
            ]
            yield Pattern(f"2 parts of {lines}×{count} of {size} B", pair)


def fill(every: bool) -> Iterator[Pattern]:
    """Runs of one element, and runs that have an element of their own."""
    for size in (1, 2, 4, 8, 16, 32, 64):
        short, least = max(2, -(-16 // size)), max(2, -(-128 // size))
        many = 200 if every else 24
        counts = [*range(least, least + many), *(1000 // size + k for k in range(9)), 5000 // size + 1]
        for count in [*range(short, least), *counts]:
            one = Move((count,), Access(0, 0, (size,)), Access(1, 0, (0,)), size)
            yield Pattern(f"{count} times one of {size} B", [one])
        for count, back in itertools.product(counts, [1, -1]):
            line = count * size
            own = Move((3, count), Access(0, 0, (back * (line + 3), size)), Access(1, 0, (back * (size + 1), 0)), size)
            yield Pattern(f"3 runs of {count} times {size} B, {back}", [own])
            lines = Move((2, 3, count), Access(0, 0, (4 * line, line, size)), Access(1, 0, (back * 7, 99, 0)), size)
            yield Pattern(f"2 lines of 3 such runs of {count} times {size} B, {back}", [lines])


COLUMNS = {
    "reversed": (1, [(0, 1)]),
    "every 2nd": (2, [(0, 1)]),
    "every 2nd, at the end": (2, [(1, 1)]),
    "every 3rd": (3, [(0, 1)]),
    "every 4th": (4, [(3, 1)]),
    "2 planes": (2, [(0, 1), (1, 1)]),
    "3 planes": (3, [(0, 1), (1, 1), (2, 1)]),
    "4 planes": (4, [(0, 1), (1, 1), (2, 1), (3, 1)]),
    "8 planes": (8, [(k, 1) for k in range(8)]),
    "2 and 1": (3, [(0, 2), (2, 1)]),
    "1, 2 and 3": (6, [(0, 1), (1, 2), (3, 3)]),
    "7 and 1": (8, [(0, 7), (7, 1)]),
    "first and last of 3": (3, [(0, 1), (2, 1)]),
    "middle of 3": (3, [(1, 1)]),
    "2 of 5 and 1": (5, [(0, 1), (3, 2)]),
    "6 of 8": (8, [(1, 6)]),
    "the same twice": (2, [(0, 1), (0, 1)]),
    "the same three times, with a gap": (2, [(0, 1), (0, 1), (0, 1)]),
    "the same pair twice, with a gap": (3, [(0, 2), (0, 2)]),
}
"""Period and (offset, run) of each column, in words."""


def interleave(every: bool) -> Iterator[Pattern]:
    """Every pattern of columns, forwards and backwards, apart and together, with every number of rows left over."""
    words = [1, 2, 3, 4, 6, 8, 12, 16]
    for number, (name, (period, columns)) in enumerate(COLUMNS.items()):
        for zipped, back in itertools.product((False, True), repeat=2):
            overlapping = len({offset for offset, _ in columns}) < len(columns)
            # A destination has no gaps here.
            if zipped and (overlapping or sum(run for _, run in columns) < period):
                continue
            if period == 1 and (zipped or not back):
                continue
            for word in words if every else [words[(number + 3 * zipped + 5 * back) % len(words)]]:
                if period * word <= 128 and max(run for _, run in columns) * word <= 64:
                    label = f"{name} of {word} B, zipped {zipped}, back {back}"
                    yield from _interleaved(label, word, period, columns, zipped, back)


def _interleaved(label, word, period, columns, zipped, back) -> Iterator[Pattern]:
    width = period * word
    block = min(64, 1 << (512 // width).bit_length() - 1)
    segment = 8192 // width // block * block
    lengths = [*range(2 * block, 3 * block + 2), *range(segment - 1, segment + block + 2, 3), 2 * segment + 1]
    step = -width if back else width

    def moves(sizes: tuple[int, ...], outer: tuple[int, ...], near_outer: tuple[int, ...]) -> list[Move]:
        result = []
        for k, (offset, run) in enumerate(columns):
            size = run * word
            far = Access(k, 0, (*(stride * size for stride in outer), size))
            near = Access(len(columns), offset * word, (*near_outer, step))
            result.append(Move(sizes, near, far, size) if zipped else Move(sizes, far, near, size))
        return result

    for rows in lengths:
        yield Pattern(f"{label}: {rows} rows", moves((rows,), (), ()))
    for rows in (2 * block, 2 * block + 1, 3 * block - 1, segment + 1):
        near = rows * width + word
        yield Pattern(f"{label}: 3 lines of {rows} rows", moves((3, rows), (rows + 1,), (near,)))
        if not zipped:
            yield Pattern(f"{label}: 3 lines of {rows}, upwards", moves((3, rows), (rows + 1,), (-near,)))


PIXELS = {
    "RGB turned": (3, 3, [(0, 2, 1), (1, 1, 1), (2, 0, 1)]),
    "RGBA turned": (4, 4, [(0, 3, 1), (1, 2, 1), (2, 1, 1), (3, 0, 1)]),
    "RGBA to BGR": (3, 4, [(0, 2, 1), (1, 1, 1), (2, 0, 1)]),
    "RGB into RGBA": (4, 3, [(0, 0, 3)]),
    "BGR into RGBA": (4, 3, [(0, 2, 1), (1, 1, 1), (2, 0, 1)]),
    "A into RGBA": (4, 1, [(3, 0, 1)]),
    "G of RGBA into RGB": (3, 4, [(1, 1, 1)]),
    "pairs turned, and once more": (4, 2, [(0, 1, 1), (1, 0, 1), (2, 0, 2)]),
    "threes that overlap": (3, 1, [(0, 0, 3)]),
    "two of five": (5, 4, [(0, 3, 1), (2, 0, 2)]),
}
"""Steps in destination and source, and each run's places and length, in words."""


def pixels(every: bool) -> Iterator[Pattern]:
    """Pixels permuted, with bytes left out on either side, forwards and backwards, with every number left over."""
    for number, (name, (to_step, from_step, runs)) in enumerate(PIXELS.items()):
        # Single runs of 2, 4, 8 … bytes are elements.
        words = [1] if len(runs) == 1 else [1, 2, 4, 8] if every else [(1, 4, 2)[number % 3]]
        for back, word in itertools.product((1, -1), words):
            if max(to_step, from_step) * word > 64:
                continue
            block = 64 // math.gcd(64, to_step * word)
            while block * from_step * word < 128:
                block *= 2
            segment = 16384 // (block * to_step * word) * block

            def moves(lines: int, count: int, gap: int, word=word, to=to_step, source=from_step, back=back, runs=runs):
                strides = (
                    (count * to * word + gap, to * word),
                    (back * (count * source * word + gap), back * source * word),
                )
                ends = [(Access(0, a * word, strides[0]), Access(1, b * word, strides[1]), run) for a, b, run in runs]
                if lines == 1:
                    ends = [
                        (a._replace(strides=a.strides[1:]), b._replace(strides=b.strides[1:]), c) for a, b, c in ends
                    ]
                return [Move((lines, count)[lines == 1 :], a, b, run * word) for a, b, run in ends]

            few = 16 // math.gcd(16, to_step * word)
            while few * from_step * word < 32:
                few *= 2
            lengths = [
                *range(max(few, 2), 4 * few + 2, 1 if every else 5),
                *range(block, 2 * block + 2, 1 if every else 4),
                segment - 1,
                segment,
                segment + 1,
            ]
            for count, lines in [
                *((each, 1) for each in [*lengths, 2 * segment + block // 2]),
                (block + 3, 3),
                (few + 1, 9),
            ]:
                label = f"{lines} lines of {count} pixels, {name} of {word} B, {back}"
                yield Pattern(label, moves(lines, count, word if lines > 1 else 0))


def lookup(every: bool) -> Iterator[Pattern]:
    """Elements and rows of all sizes by indices of all types, at strides, shared between lines, one for all."""
    constants = [*range(1, 257)] if every else [1, 2, 3, 4, 8, 12, 16, 33, 64, 256]
    sizes = [*constants, 257, 300, 512, 513, 2048, 2049, 5000]
    types = ["int32", "int64", "uint32", "uint64"]
    for number, size in enumerate(sizes):
        for dtype in types if every else [types[number % 4], types[(number + number // 4 + 1) % 4]]:
            item, axis = int(dtype[-2:]) // 8, 37
            label = f"{size} B by {dtype}"

            def one(sizes, to, source, index, size=size, dtype=dtype, axis=axis, stride=None):
                looked = Lookup(2, dtype, 0, index, axis, size if stride is None else stride)
                return [Move(sizes, Access(0, 0, to), Access(1, 0, source, (looked,)), size)]

            counts = [*range(2, 60, 1 if every else 3), *([511, 512, 513, 1025] if size <= 512 else [])]
            for count in counts:
                flat = one((count,), (size,), (0,), (item,))
                yield Pattern(f"{count} of {label}", flat)
            yield Pattern(f"one of {label}", one((), (), (), ()))
            few = 50 if size <= 300 else 5
            backwards = one((few,), (size + 1,), (0,), (-item,), stride=-size - 1)
            yield Pattern(f"backwards, gaps: {label}", backwards)
            along = one((few,), (size,), (size * axis,), (item,))
            yield Pattern(f"one a line: {label}", along)
            if size <= 2048:
                shared = one((9, 21), (21 * size + 2, size), (size * axis, 0), (0, item))
                yield Pattern(f"shared by lines: {label}", shared)
                boxed = one((3, 2, 21), (99 * size, 33 * size, size), (size, 0, 0), (2 * item, 0, item))
                yield Pattern(f"a box: {label}", boxed)


IN_LINE = (1, 2, 4, 8, 16, 32, 64)
"""Bytes of elements of near axes that have a kernel of their own."""


def in_line(every: bool) -> Iterator[Pattern]:
    """Elements that each line looks up in a line of its own, or across lines: up to a batch and more, with gaps,
    backwards."""
    for size, dtype in itertools.product(IN_LINE, ["int32", "int64", "uint32", "uint64"]):
        item, axis = int(dtype[-2:]) // 8, 37
        for count in range(2, 300) if every else (2, 3, 21, 127, 128, 129, 300):
            for gap, back in [(0, 1), (3, 1), (1, -1)]:
                wide = size + gap
                looked = Lookup(2, dtype, 0, (count * item, back * item), axis, back * wide)
                to, source = Access(0, 0, (count * wide + gap, wide)), Access(1, 0, (axis * wide, 0), (looked,))
                label = f"3 lines of {count} of {size} B by {dtype}, gaps of {gap}, {back}"
                yield Pattern(label, [Move((3, count), to, source, size)])
                across = looked._replace(size=9, stride=back * count * wide)
                source = Access(1, 0, (0, wide), (across,))
                yield Pattern(f"{label}, across lines", [Move((3, count), to, source, size)])


def transpose(every: bool) -> Iterator[Pattern]:
    """Tiles of all sizes, full and not, at every kind of edge; rows made of several axes, upwards, with gaps."""
    for size in (1, 2, 3, 4, 6, 8, 12, 16):
        side = 64 // {3: 4, 6: 8, 12: 16}.get(size, size)
        lengths = [side - side // 8, side, side + 1, 2 * side - 1, 2 * side + side // 2, *((60,) if side < 64 else ())]
        lengths += [side // 3 + 1] * (side >= 16)
        for rows, columns in itertools.product(lengths, repeat=2):
            filled = min(rows, side) * min(columns, side) / side**2
            if filled < (0.3 if size <= 4 else 0.75):
                continue
            for gap, back, up in [(0, 1, 1), (size, -1, 1), (64, 1, -1), (3, -1, -1)]:
                to = Access(0, 0, (columns * size + gap, size))
                source = Access(1, 0, (back * size, up * (rows * size + gap)))
                label = f"{rows}×{columns} of {size} B, gap {gap}, source {source.strides}"
                yield Pattern(label, [Move((rows, columns), to, source, size)])
        for rows, columns in (
            () if size in (3, 6, 12) else ((side + 13, 2048 // size + side), (1024 // max(size, 2) + 1, 2048 // size))
        ):
            to, source = Access(0, 0, (columns * size, size)), Access(1, 0, (size, rows * size))
            yield Pattern(f"{rows}×{columns} of {size} B", [Move((rows, columns), to, source, size)])
        part = 256 // size // 16 * 16
        for rows, columns in itertools.product((part + 1, part + 5, 2 * part + 7), repeat=2):
            # Large planes are cut into parts, the last of which are short.
            wide = max(1, (72 << 10) // (rows * size) // part) * part + columns
            to, source = Access(0, 0, (wide * size, size)), Access(1, 0, (size, rows * size))
            yield Pattern(f"{rows}×{wide} of {size} B, in parts", [Move((rows, wide), to, source, size)])
        for rows, columns in ((33, 4096 // size), (45, 1024 // size), (70, 2048 // size)):
            # Lines of rows so far apart evict each other.
            wide = columns - (3 if rows == 70 else 0)
            to, source = Access(0, 0, (columns * size, size)), Access(1, 0, (size, rows * size))
            label = f"{rows}×{wide} of {size} B, {columns * size} B apart"
            yield Pattern(label, [Move((rows, wide), to, source, size)])
        few = side // 4 if side >= 16 else side
        shape = (3, 4, few, 5, few)
        for order in [(1, 4, 0, 3, 2), (4, 3, 2, 1, 0), (2, 4, 0, 1, 3), (0, 3, 4, 1, 2)]:
            yield Pattern(f"{shape} by {order} of {size} B", [permutation(shape, order, size)])


def permutation(shape: tuple[int, ...], order: tuple[int, ...], size: int, gap: int = 0) -> Move:
    """A packed copy of an array of this shape, with gaps between its elements, whose axes are put in this order."""

    def packed(sizes: list[int], item: int) -> list[int]:
        return [item * math.prod(sizes[d + 1 :]) for d in range(len(sizes))]

    sizes, source = [shape[d] for d in order], packed(list(shape), size + gap)
    to = Access(0, 0, tuple(packed(sizes, size)))
    return Move(tuple(sizes), to, Access(1, 0, tuple(source[d] for d in order)), size)


def table(every: bool) -> Iterator[Pattern]:
    """Elements of all sizes at strides that fill no tile: short rows, gaps on either side, several axes."""
    shapes = [(3, 5, 7), (2, 3, 4, 5), (3, 2, 2, 2, 2, 2), (50, 3), (5, 56), (10, 3, 2), (17, 40), (3, 7, 2, 11)]
    for size in [*range(1, 25), 32, 48, 63, 64] if every else (1, 2, 3, 4, 5, 6, 7, 8, 12, 16, 24, 64):
        for shape in shapes:
            orders = [
                tuple(reversed(range(len(shape)))),
                (*range(1, len(shape)), 0),
                (len(shape) - 1, *range(len(shape) - 1)),
            ]
            for order, gap in itertools.product(orders, (1, size, 3 * size + 2)):
                move = permutation(shape, order, size, gap)
                yield Pattern(f"{shape} by {order} of {size} B, source with gaps of {gap}", [move])
                wide = tuple(stride * (size + gap) // size for stride in move.destination.strides)
                to, source = move.destination._replace(strides=wide), move.source
                yield Pattern(f"{shape} by {order} of {size} B, gaps of {gap}", [Move(move.sizes, to, source, size)])


def masked(every: bool) -> Iterator[Pattern]:
    """Elements of all sizes that a mask selects, from one source or from two: packed, with gaps, repeated, by rows."""
    sizes = range(1, 130) if every else (1, 2, 3, 4, 6, 8, 12, 16, 24, 64, 65, 80, 256)
    for size, count in itertools.product(sizes, (1, 2, 15, 63, 64, 65, 130, 300)):
        wide = size * count
        for gap, mask in itertools.product((0, 5), [(count, 1), (2 * count, 2), (1, 0), (0, 1)]):
            to, packed = Access(0, 0, (wide + gap, size)), (wide, size)
            for source, base in [(packed, packed), ((0, 0), packed), (packed, (size, 0)), (packed, (0, size))]:
                chosen = Move((3, count), to, Access(1, 0, source, (unless(2, mask),)), size)
                label = f"3 × {count} of {size} B, mask {mask}, sources {source}, {base}, gap {gap}"
                yield Pattern(label, [Move((3, count), to, Access(3, 0, base), size), chosen])
                if base == packed:
                    yield Pattern(f"{label}, one source", [chosen])


def row_blocks(every: bool) -> Iterator[Pattern]:
    """Rows of all sizes in another order, or cut out of longer ones; blocks that are cut, lines that rows share."""
    for size in range(65, 580, 1 if every else 11):
        short = [(3, 5, 7), (2, 3, 11, 9), (45, 7)]
        for shape, gap in itertools.product(short, (0, 3, 64)):
            order = (*range(1, len(shape)), 0)
            move = permutation(shape, order, size, gap)
            yield Pattern(f"{shape} by {order} of {size} B, source with gaps of {gap}", [move])
            if gap:
                *outer, inner = move.destination.strides
                wide = move._replace(destination=Access(0, 0, (*(2 * stride for stride in outer), inner)))
                yield Pattern(f"{shape} by {order} of {size} B, gaps", [wide])
        if size <= 512:
            for back in (1, -1):
                cut = Move((70,), Access(0, 0, (size,)), Access(1, 0, (back * (size + 5),)), size)
                yield Pattern(f"70 of {size} B cut out, {back}", [cut])
    for size in (600, 1023, 1024, 1500, 2047):
        yield Pattern(f"rows of {size} B", [permutation((3, 5, 4), (1, 2, 0), size, 9)])
        yield Pattern(f"rows of {size} B turned", [permutation((3, 5, 4), (2, 0, 1), size)])


GROUPS = {"transpose": transpose, "table": table, "rows": rows, "runs": runs, "row_blocks": row_blocks,
          "elements": elements, "interleave": interleave, "pixels": pixels, "lookup": lookup, "in_line": in_line,
          "fill": fill, "patterned": patterned, "masked": masked}  # fmt: skip
