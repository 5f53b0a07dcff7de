"""The one kernel: a tile of rows × columns of some part of some moves, whatever their strides and lookups.

A program finds its part and tile, reads the part's fields (an argument, a first value and a step, one argument a part,
a column of a table, or constants), works out one offset a row and one step a column, loads, then stores. Offsets
count words; a vector is one word, or two of 8 bytes, so that a thread moves 16 bytes at once.

Fields in order: destination address and offset, source address and offset, first tile, columns, destination and source
step a column; for each row dimension size, destination and source stride; for each lookup address, offset, last
coordinate, stride, step a column, and a stride for each row dimension. Where several coordinates may write one element,
the table of winners: address, entry of coordinate 0, step a column, a stride for each row dimension, a stride for each
lookup, and its length.
"""

import triton
import triton.language as tl

BIAS = tl.constexpr(1 << 60)
"""What `encoded` in `fields.py` adds."""


# Everything is in one function: Triton's interpreter takes milliseconds for every call of another.
@triton.jit(do_not_specialize=["table", "parts"])
def move_tiles(
    values,
    shape,
    lookups,
    table,
    parts,
    FIELDS: tl.constexpr,
    DIMS: tl.constexpr,
    LOOKUPS: tl.constexpr,
    FIRST: tl.constexpr,
    EACH: tl.constexpr,
    SLOTS: tl.constexpr,
    SEARCH: tl.constexpr,
    STEPS: tl.constexpr,
    GROUP: tl.constexpr,
    ONE_GROUP: tl.constexpr,
    ONE_COLUMN_TILE: tl.constexpr,
    WHOLE_ROWS: tl.constexpr,
    WHOLE_COLUMNS: tl.constexpr,
    WORD: tl.constexpr,
    VECTOR: tl.constexpr,
    LANES: tl.constexpr,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
    FLAT: tl.constexpr,
    INNER: tl.constexpr,
    WINNERS: tl.constexpr,
    WINNER: tl.constexpr,
    IS_RUN: tl.constexpr,
    IN_ROUNDS: tl.constexpr,
    INDEX: tl.constexpr,
    OFFSET: tl.constexpr,
):
    """Move one tile of GROUP parts.

    Args:
        values: integers that `shape` refers to, as `encoded` in `fields.py`: addresses in bytes, the rest in vectors.
        shape: the kinds of all fields, then a position each, then another one; see `fields.py`.
        lookups: for each six numbers, those inside others before them: is it signed, bytes of an index, bytes of a
            load, does it change along columns, whose address it adds to (0 destination, 1 source, 2 + n lookup n), what
            happens outside its axis (0 the nearest end is taken, 1 the element is left as it is, 2 it is left as it is
            where the index is inside).
        table: address of INT64 columns of `parts` entries, or 0.
        parts: number of parts.
        FIELDS, DIMS, LOOKUPS: how many fields, row dimensions and lookups there are.
        FIRST, EACH: the first field of a lookup, and the fields of each.
        SLOTS: arguments of a field that has one a part: `parts` rounded up, 1 where no field has them.
        SEARCH: 0 where all parts have equally many tiles, 1 by arguments, 2 by bisecting a column in STEPS steps.
        GROUP: parts that one program moves together; they share their source's sectors.
        ONE_GROUP: all parts are in one group.
        ONE_COLUMN_TILE: no part has more than COLUMNS columns.
        WHOLE_ROWS, WHOLE_COLUMNS: ROWS or COLUMNS divide those of every part, so that no lane has to be masked.
        WORD: integer type of a load; a vector of VECTOR bytes is LANES of them.
        ROWS, COLUMNS: of a tile, in vectors.
        FLAT: whether a tile is one line of lanes, rows one after the other, and no matrix. Triton would deal the lanes
            of a matrix to threads down its columns where it sees no run of addresses along rows.
        INNER: columns that are one contiguous run; steps a column count runs.
        WINNERS: 0 where no two coordinates write one element; 1 to enter coordinates, by their number in row-major
            order, in the table of winners, which keeps the largest, and move nothing; 2 to move the winners' elements.
        WINNER: type of an entry.
        IS_RUN: whether the columns are one element, so that rows are its coordinates.
        IN_ROUNDS: whether the table holds only some of the entries, and other coordinates' turn comes later.
        INDEX: unsigned type that counts rows.
        OFFSET: signed type that counts words inside a tile's columns and between its rows.
    """
    tile = tl.program_id(0)
    column = tl.cast(tl.cast(table, tl.int64), tl.pointer_type(tl.int64))
    first_part = 0
    if SEARCH == 0:
        if not ONE_GROUP:
            groups = parts // GROUP
            first_part = (tile % groups) * GROUP
            tile = tile // groups
    elif SEARCH == 1:
        for k in tl.static_range(1, SLOTS):
            first_part += (((values[shape[FIELDS + 4] + k] - BIAS) >> 2) <= tile).to(tl.int32)
    else:
        for step in tl.static_range(STEPS):
            middle = first_part + (1 << (STEPS - 1 - step))
            start = tl.load(column + shape[FIELDS + 4] * parts + tl.minimum(middle, parts - 1))
            first_part = tl.where((middle < parts) & (start <= tile), middle, first_part)

    pointers = ()
    masks = ()
    loaded = ()
    if FLAT:
        lanes = tl.arange(0, ROWS * COLUMNS * LANES)
        down = lanes // (COLUMNS * LANES)
    else:
        lanes = tl.arange(0, COLUMNS * LANES)
        down = tl.arange(0, ROWS)
    lane = lanes % LANES
    for member in tl.static_range(GROUP):
        part = first_part + member
        field = ()
        for f in tl.static_range(FIELDS):
            if shape[f] == 4:
                value = tl.cast(shape[FIELDS + f], tl.int64)
                if shape[2 * FIELDS + f] != 0:
                    value += tl.cast(shape[2 * FIELDS + f], tl.int64) * part
            elif shape[f] == 0:
                value = (values[shape[FIELDS + f]] - BIAS) >> 2
            elif shape[f] == 1:
                step = (values[shape[2 * FIELDS + f]] - BIAS) >> 2
                value = ((values[shape[FIELDS + f]] - BIAS) >> 2) + step * part
            elif shape[f] == 2:
                value = values[shape[FIELDS + f]]
                for k in tl.static_range(1, SLOTS):
                    value = tl.where(part == k, values[shape[FIELDS + f] + k], value)
                value = (value - BIAS) >> 2
            else:
                value = tl.load(column + shape[FIELDS + f] * parts + part)
            field = field + (value,)

        row_tile = tile
        if SEARCH != 0:
            row_tile = (tile - field[4]).to(tl.int32)
        # Where a tile's columns begin is a matter of its pointers: offsets inside it stay small.
        skipped = tl.full((), 0, tl.int64)
        if not ONE_COLUMN_TILE:
            column_tiles = ((field[5] + (COLUMNS - 1)) // COLUMNS).to(tl.int32)
            skipped = (row_tile % column_tiles).to(tl.int64) * COLUMNS
            row_tile = row_tile // column_tiles
        unit = lanes // LANES % COLUMNS
        if WHOLE_COLUMNS:
            in_columns = tl.full(unit.shape, True, tl.int1)
        else:
            in_columns = unit < tl.minimum(field[5] - skipped, COLUMNS).to(tl.int32)
        inside = tl.full(unit.shape, 0, OFFSET)
        if INNER > 1:
            unit = unit + (skipped % INNER).to(tl.int32)
            inside = (unit % INNER).to(OFFSET)
            unit = unit // INNER
            skipped = skipped // INNER
        unit = unit.to(OFFSET)
        row = row_tile.to(INDEX) * ROWS + down.to(INDEX)
        number_of_row = row

        rows = tl.full((), 1, INDEX)
        for d in tl.static_range(DIMS):
            rows = rows * field[8 + 3 * d].to(INDEX)
        if WHOLE_ROWS:
            in_rows = tl.full(row.shape, True, tl.int1)
        else:
            in_rows = row < rows
        if FLAT:
            mask = in_rows & in_columns
        else:
            mask = in_rows[:, None] & in_columns[None, :]
        is_moved = mask

        to = tl.full(down.shape, 0, OFFSET)
        source = to
        at = ()
        for i in tl.static_range(DIMS):
            if i < DIMS - 1:
                size = field[8 + 3 * (DIMS - 1 - i)].to(INDEX)
                coordinate = (row % size).to(OFFSET)
                row = row // size
            else:
                coordinate = row.to(OFFSET)
            at = at + (coordinate,)
            to += coordinate * field[9 + 3 * (DIMS - 1 - i)].to(OFFSET)
            source += coordinate * field[10 + 3 * (DIMS - 1 - i)].to(OFFSET)

        offset = (unit * field[7].to(OFFSET) + inside) * LANES + lane
        if not FLAT:
            offset = offset[None, :]
        coordinates = ()
        for n in tl.static_range(LOOKUPS):
            spot = tl.full(down.shape, 0, OFFSET)
            for i in tl.static_range(DIMS):
                spot += at[i] * field[FIRST + EACH * n + 4 + DIMS - i].to(OFFSET)
            for inner in tl.static_range(n):
                if lookups[6 * inner + 4] == n + 2 and lookups[6 * inner + 3] == 0:
                    spot += coordinates[inner] * field[FIRST + EACH * inner + 3].to(OFFSET)
            seen = in_rows
            if lookups[6 * n + 3] == 1:
                step = unit * field[FIRST + EACH * n + 4].to(OFFSET)
                if FLAT:
                    spot += step
                else:
                    spot = spot[:, None] + step[None, :]
                for inner in tl.static_range(n):
                    if lookups[6 * inner + 4] == n + 2 and lookups[6 * inner + 3] == 1:
                        spot += coordinates[inner] * field[FIRST + EACH * inner + 3].to(OFFSET)
                seen = mask
            begin = field[FIRST + EACH * n + 1] + skipped * field[FIRST + EACH * n + 4]
            base = field[FIRST + EACH * n] + begin * lookups[6 * n + 2]
            # An index that is not aligned comes in pieces.
            if lookups[6 * n + 1] == 8:
                index = tl.full(spot.shape, 0, tl.uint64)
            else:
                index = tl.full(spot.shape, 0, tl.uint32)
            for piece in tl.static_range(lookups[6 * n + 1] // lookups[6 * n + 2]):
                if lookups[6 * n + 2] == 8:
                    raw = tl.load(tl.cast(base, tl.pointer_type(tl.uint64)) + spot, mask=seen, other=0)
                elif lookups[6 * n + 2] == 4:
                    raw = tl.load(tl.cast(base, tl.pointer_type(tl.uint32)) + (spot + piece), mask=seen, other=0)
                elif lookups[6 * n + 2] == 2:
                    raw = tl.load(tl.cast(base, tl.pointer_type(tl.uint16)) + (spot + piece), mask=seen, other=0)
                else:
                    raw = tl.load(tl.cast(base, tl.pointer_type(tl.uint8)) + (spot + piece), mask=seen, other=0)
                index = index | (raw.to(index.dtype) << (8 * lookups[6 * n + 2] * piece))
            last = field[FIRST + EACH * n + 2]
            if lookups[6 * n] == 1:
                if lookups[6 * n + 1] == 8:
                    number = index.to(tl.int64)
                else:
                    number = index.to(tl.int32).to(tl.int64)
                number = tl.where(number < 0, number + (last + 1), number)
                if lookups[6 * n + 5] != 0:
                    kept = (number >= 0) & (number <= last)
                number = tl.minimum(tl.maximum(number, 0), last)
            else:
                if lookups[6 * n + 5] != 0:
                    kept = index.to(tl.uint64) <= last.to(tl.uint64)
                number = tl.minimum(index.to(tl.uint64), last.to(tl.uint64))
            if lookups[6 * n + 5] != 0:
                if lookups[6 * n + 5] == 2:
                    kept = kept == 0
                if not FLAT and lookups[6 * n + 3] == 0:
                    kept = kept[:, None]
                is_moved = is_moved & kept
            number = number.to(OFFSET)
            coordinates = coordinates + (number,)
            number = number * field[FIRST + EACH * n + 3].to(OFFSET)
            if lookups[6 * n + 4] == 1:
                if lookups[6 * n + 3] == 1:
                    offset = offset + number * LANES
                else:
                    source += number
            elif lookups[6 * n + 4] == 0 and lookups[6 * n + 3] == 0:
                to += number

        if WINNERS != 0:
            spot = tl.full(down.shape, 0, OFFSET)
            for i in tl.static_range(DIMS):
                spot += at[i] * field[FIRST + EACH * LOOKUPS + 2 + DIMS - i].to(OFFSET)
            along = unit * field[FIRST + EACH * LOOKUPS + 2].to(OFFSET)
            order = number_of_row.to(WINNER)
            in_row = unit.to(WINNER) + skipped.to(WINNER)
            if not IS_RUN:
                order = order * field[5].to(WINNER)
            if not FLAT:
                spot = spot[:, None]
                along = along[None, :]
                order = order[:, None]
                in_row = in_row[None, :]
            spot = spot + along
            if not IS_RUN:
                order = order + in_row
            for n in tl.static_range(LOOKUPS):
                if lookups[6 * n + 4] == 0:
                    number = coordinates[n] * field[FIRST + EACH * LOOKUPS + 3 + DIMS + n].to(OFFSET)
                    if not FLAT and lookups[6 * n + 3] == 0:
                        number = number[:, None]
                    spot = spot + number
            begin = field[FIRST + EACH * LOOKUPS + 1] + skipped * field[FIRST + EACH * LOOKUPS + 2]
            entry = spot.to(tl.int64) + begin
            if IN_ROUNDS:
                is_moved = is_moved & (entry >= 0) & (entry < field[FIRST + EACH * LOOKUPS + 3 + DIMS + LOOKUPS])
            winner = tl.cast(field[FIRST + EACH * LOOKUPS], tl.pointer_type(WINNER)) + entry
            if WINNERS == 1:
                tl.atomic_max(winner, order, mask=is_moved, sem="relaxed")
            else:
                is_moved = is_moved & (tl.load(winner, mask=is_moved, other=-1) == order)

        if WINNERS != 1:
            pointer = tl.cast(field[2] + (field[3] + skipped * field[7]) * VECTOR, tl.pointer_type(WORD))
            pointer = tl.multiple_of(pointer, VECTOR)
            start = pointer + source * LANES
            if not FLAT:
                start = start[:, None]
            value = tl.load(start + offset, mask=is_moved)
            pointer = tl.cast(field[0] + (field[1] + skipped * field[6]) * VECTOR, tl.pointer_type(WORD))
            pointer = tl.multiple_of(pointer, VECTOR)
            offset = (unit * field[6].to(OFFSET) + inside) * LANES + lane
            start = pointer + to * LANES
            if not FLAT:
                start = start[:, None]
                offset = offset[None, :]
            for n in tl.static_range(LOOKUPS):
                if lookups[6 * n + 4] == 0 and lookups[6 * n + 3] == 1:
                    offset = offset + coordinates[n] * field[FIRST + EACH * n + 3].to(OFFSET) * LANES
            pointers = pointers + (start + offset,)
            masks = masks + (is_moved,)
            loaded = loaded + (value,)
    if WINNERS != 1:
        # All loads stand before the first store, so that they are in flight together.
        for member in tl.static_range(GROUP):
            tl.store(pointers[member], loaded[member], mask=masks[member])
