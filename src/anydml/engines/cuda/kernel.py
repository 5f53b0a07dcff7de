"""The kernel of all moves: it moves a tile of rows × columns of one part, with any strides and lookups.

A program finds its part and tile, reads the part's fields (an argument, a first value and a step, one argument per
part, a column of a table, or constants), computes one offset per row and one step per column, loads, then stores.
Offsets are in words; a vector is one word, or two of 8 bytes, so that a thread moves 16 bytes at once.

Fields in order: destination address and offset, source address and offset, first tile, columns, destination and source
step per column; per row dimension size, destination and source stride; per lookup address, offset, last coordinate,
stride, step per column, and one stride per row dimension. If several coordinates may write one element, also the table
of winners: address, entry of coordinate 0, step per column, one stride per row dimension, one stride per lookup, and
length.
"""

import triton
import triton.language as tl

BIAS = tl.constexpr(1 << 60)
"""The offset that `encode_number` in `fields.py` adds."""


# Everything is in one function: every further call takes Triton's interpreter milliseconds.
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
        values: integers that `shape` refers to, as `fields.encode_number` returns them: addresses in bytes, others in
            vectors.
        shape: the kinds of all fields, then a first and a second position of each; see `fields.py`.
        lookups: six numbers per lookup, nested ones first: whether it is signed, bytes per index, bytes per load,
            whether it varies along columns, the address that it adds to (0 destination, 1 source, 2 + n lookup n), and
            the treatment of an index out of range (0 clamp it, 1 skip the element, 2 skip all elements but these).
        table: address of INT64 columns of `parts` entries, or 0.
        parts: number of parts.
        FIELDS, DIMS, LOOKUPS: numbers of fields, row dimensions and lookups.
        FIRST, EACH: the first lookup's first field, and the number of fields per lookup.
        SLOTS: arguments of a field that is passed by value: `parts` rounded up; 1 if no field is.
        SEARCH: how a program finds its part: 0 by division, 1 by arguments, 2 by bisecting a column in STEPS steps.
        GROUP: parts that one program moves, which share their source's sectors.
        ONE_GROUP: whether all parts are in one group.
        ONE_COLUMN_TILE: whether no part has more than COLUMNS columns.
        WHOLE_ROWS, WHOLE_COLUMNS: whether ROWS or COLUMNS divide those of every part, so that no lane is masked.
        WORD: integer type of a load; a vector of VECTOR bytes is LANES of them.
        ROWS, COLUMNS: a tile's sizes in vectors.
        FLAT: whether a tile is one line of lanes, row by row, instead of a matrix. Triton would assign the lanes of a
            matrix to threads column by column if it sees no run of addresses along rows.
        INNER: columns per contiguous run; steps per column are steps per run.
        WINNERS: 0 if no two coordinates write one element; 1 to record the largest row-major number of a coordinate per
            element in the table of winners, and move nothing; 2 to move the winners' elements.
        WINNER: type of an entry.
        IS_RUN: whether the columns form one element, so that rows are its coordinates.
        IN_ROUNDS: whether the table contains only the entries of one round.
        INDEX: unsigned type of row numbers.
        OFFSET: signed type of offsets in words, within a tile's columns and between its rows.
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
        # A tile's first column is added to its pointers, so that offsets within the tile stay small.
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
            read_mask = in_rows
            if lookups[6 * n + 3] == 1:
                step = unit * field[FIRST + EACH * n + 4].to(OFFSET)
                if FLAT:
                    spot += step
                else:
                    spot = spot[:, None] + step[None, :]
                for inner in tl.static_range(n):
                    if lookups[6 * inner + 4] == n + 2 and lookups[6 * inner + 3] == 1:
                        spot += coordinates[inner] * field[FIRST + EACH * inner + 3].to(OFFSET)
                read_mask = mask
            begin = field[FIRST + EACH * n + 1] + skipped * field[FIRST + EACH * n + 4]
            base = field[FIRST + EACH * n] + begin * lookups[6 * n + 2]
            # An index that is not aligned is loaded in pieces.
            if lookups[6 * n + 1] == 8:
                index = tl.full(spot.shape, 0, tl.uint64)
            else:
                index = tl.full(spot.shape, 0, tl.uint32)
            for piece in tl.static_range(lookups[6 * n + 1] // lookups[6 * n + 2]):
                if lookups[6 * n + 2] == 8:
                    raw = tl.load(tl.cast(base, tl.pointer_type(tl.uint64)) + spot, mask=read_mask, other=0)
                elif lookups[6 * n + 2] == 4:
                    raw = tl.load(tl.cast(base, tl.pointer_type(tl.uint32)) + (spot + piece), mask=read_mask, other=0)
                elif lookups[6 * n + 2] == 2:
                    raw = tl.load(tl.cast(base, tl.pointer_type(tl.uint16)) + (spot + piece), mask=read_mask, other=0)
                else:
                    raw = tl.load(tl.cast(base, tl.pointer_type(tl.uint8)) + (spot + piece), mask=read_mask, other=0)
                index = index | (raw.to(index.dtype) << (8 * lookups[6 * n + 2] * piece))
            last = field[FIRST + EACH * n + 2]
            if lookups[6 * n] == 1:
                if lookups[6 * n + 1] == 8:
                    element_index = index.to(tl.int64)
                else:
                    element_index = index.to(tl.int32).to(tl.int64)
                element_index = tl.where(element_index < 0, element_index + (last + 1), element_index)
                if lookups[6 * n + 5] != 0:
                    is_inside = (element_index >= 0) & (element_index <= last)
                element_index = tl.minimum(tl.maximum(element_index, 0), last)
            else:
                if lookups[6 * n + 5] != 0:
                    is_inside = index.to(tl.uint64) <= last.to(tl.uint64)
                element_index = tl.minimum(index.to(tl.uint64), last.to(tl.uint64))
            if lookups[6 * n + 5] != 0:
                if lookups[6 * n + 5] == 2:
                    is_inside = is_inside == 0
                if not FLAT and lookups[6 * n + 3] == 0:
                    is_inside = is_inside[:, None]
                is_moved = is_moved & is_inside
            element_index = element_index.to(OFFSET)
            coordinates = coordinates + (element_index,)
            element_index = element_index * field[FIRST + EACH * n + 3].to(OFFSET)
            if lookups[6 * n + 4] == 1:
                if lookups[6 * n + 3] == 1:
                    offset = offset + element_index * LANES
                else:
                    source += element_index
            elif lookups[6 * n + 4] == 0 and lookups[6 * n + 3] == 0:
                to += element_index

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
                    element_index = coordinates[n] * field[FIRST + EACH * LOOKUPS + 3 + DIMS + n].to(OFFSET)
                    if not FLAT and lookups[6 * n + 3] == 0:
                        element_index = element_index[:, None]
                    spot = spot + element_index
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
        # All loads precede the first store, so that they are in flight concurrently.
        for member in tl.static_range(GROUP):
            tl.store(pointers[member], loaded[member], mask=masks[member])
