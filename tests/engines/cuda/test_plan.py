"""Vectors, tiles, fields and types of a launch, without running it."""

import pytest

import anydml as dml
from anydml.engines.cuda.fields import Kind, encode
from anydml.engines.cuda.launch import arguments
from anydml.engines.cuda.plan import plan
from anydml.engines.cuda.schedule import launches
from anydml.engines.cuda.vector_moves import Alignment
from anydml.moves import Access, Lookup, Move, simplify


def planned(desc, *, shift=0):
    """The plan of a desc whose operands lie at multiples of 4 GiB, `shift` bytes off."""
    (launch,) = launches(simplify(desc.moves()))
    addresses = [(k + 1 << 32) + shift for k in range(64)]
    alignment = Alignment(launch.moves)
    return plan(launch, alignment.vector(addresses), alignment.loads(addresses))


def tensor(data_type, *sizes, strides=None):
    return dml.TensorDesc(data_type, sizes, strides)


def crop(data_type, width, start, taken):
    return dml.SliceOperatorDesc(
        tensor(data_type, 64, width), tensor(data_type, 64, taken), (0, start), (64, taken), (1, 1)
    )


@pytest.mark.parametrize(
    "data_type, width, start, taken, vector",
    [
        ("FLOAT32", 64, 16, 32, 16),
        ("FLOAT32", 64, 2, 32, 8),
        ("FLOAT32", 64, 1, 32, 4),
        ("FLOAT32", 63, 0, 32, 4),
        ("FLOAT32", 64, 0, 31, 4),
        ("UINT8", 48, 16, 16, 16),
        ("UINT8", 64, 3, 16, 1),
        ("FLOAT16", 64, 2, 6, 4),
        ("FLOAT64", 6, 2, 2, 16),
    ],
)
def test_the_widest_vector_that_everything_allows(data_type, width, start, taken, vector):
    assert planned(crop(data_type, width, start, taken)).vector == vector


@pytest.mark.parametrize("shift, vector", [(0, 16), (8, 8), (4, 4), (6, 2), (5, 1), (16, 16)])
def test_addresses_limit_the_vector(shift, vector):
    assert planned(crop("FLOAT32", 64, 16, 32), shift=shift).vector == vector


def test_elements_of_12_bytes_go_by_words_of_4():
    desc = dml.Slice1OperatorDesc(
        tensor("UINT8", 5, 8, 12), tensor("UINT8", 5, 8, 12), (0, 0, 0), (5, 8, 12), (1, -1, 1)
    )
    chosen = planned(desc)
    assert (chosen.vector, chosen.parts[0].sizes, chosen.parts[0].inner) == (4, (5, 24), 3)


def test_short_runs_of_odd_length_share_the_columns_of_a_tile():
    mirror = dml.Slice1OperatorDesc(
        tensor("UINT8", 64, 512, 3), tensor("UINT8", 64, 512, 3), (0, 0, 0), (64, 512, 3), (1, -1, 1)
    )
    chosen = planned(mirror)
    assert (chosen.parts[0].sizes, chosen.parts[0].inner, chosen.tiles.columns) == ((64, 1536), 3, 512)
    rows = planned(dml.GatherOperatorDesc(tensor("UINT8", 9, 3), tensor("INT64", 1, 50), tensor("UINT8", 50, 3), 0, 1))
    assert (rows.parts[0].sizes, rows.parts[0].inner) == ((50, 3), 1), "an index is read once a row"


def test_a_long_run_is_one_row():
    chosen = planned(dml.SplitOperatorDesc(tensor("FLOAT32", 4, 1000), [tensor("FLOAT32", 1, 1000)] * 4, 0))
    assert (chosen.vector, chosen.parts[0].sizes) == (16, (250,))
    assert chosen.tiles.counts == (1,) * 4


def test_a_tile_leaves_few_lanes_idle():
    for taken in (96, 384, 768, 1000, 1030, 5000):
        chosen = planned(crop("FLOAT32", 8192, 16, taken * 4))
        lanes = chosen.tiles.rows * chosen.tiles.columns * sum(chosen.tiles.counts)
        assert lanes <= 1.1 * 64 * taken


def test_parts_that_share_cache_lines_go_together():
    planes = planned(dml.SplitOperatorDesc(tensor("FLOAT32", 1000, 3), [tensor("FLOAT32", 1000, 1)] * 3, 1))
    assert planes.tiles.group == 3
    heads = planned(dml.SplitOperatorDesc(tensor("FLOAT32", 100, 96), [tensor("FLOAT32", 100, 32)] * 3, 1))
    assert heads.tiles.group == 1


def test_small_offsets_take_32_bits_and_large_ones_64():
    assert not planned(crop("FLOAT32", 64, 16, 32)).wide_offsets
    large = tensor("FLOAT32", 2**32 - 2**20)
    reverse = planned(dml.Slice1OperatorDesc(large, large, (0,), large.sizes, (-1,)))
    assert not reverse.wide_rows
    assert not reverse.wide_offsets, "a tile's columns begin at its pointers"
    far = tensor("FLOAT32", 2, 4, strides=(2**31, 1))
    assert planned(dml.SliceOperatorDesc(far, tensor("FLOAT32", 2, 4), (0, 0), (2, 4), (1, 1))).wide_offsets
    tall = tensor("UINT8", 2**31 - 1, 2)
    assert planned(dml.Slice1OperatorDesc(tall, tall, (0, 0), tall.sizes, (1, -1))).wide_rows
    table, indices = tensor("UINT8", 2**31 + 5), tensor("INT64", 9)
    assert planned(dml.GatherOperatorDesc(table, indices, tensor("UINT8", 9), 0, 1)).wide_offsets


def test_indices_that_are_not_aligned_are_loaded_in_pieces():
    desc = dml.GatherOperatorDesc(tensor("UINT8", 9), tensor("INT64", 5), tensor("UINT8", 5), 0, 1)
    (launch,) = launches(simplify(desc.moves()))
    assert [Alignment(launch.moves).loads([0, at, 0]) for at in (0, 4, 2, 7)] == [(8,), (4,), (2,), (1,)]


def compiled_for(chosen):
    """The numbers, but for −1, 0 and 1, that a launch has its kernel compiled for."""
    shape = chosen.fields.shape
    fields = zip(shape[::3], shape[1::3], shape[2::3], strict=True)
    return {number for kind, *line in fields if kind == Kind.CONSTANT for number in line} - {-1, 0, 1}


def test_kernels_are_compiled_for_what_each_element_costs_and_not_for_other_sizes():
    assert compiled_for(planned(crop("FLOAT32", 64, 16, 32))) == set()
    assert compiled_for(planned(crop("FLOAT32", 65536, 16, 32768))) == set(), "long rows cost no division"
    every_third = dml.SliceOperatorDesc(
        tensor("FLOAT32", 6, 3 << 20), tensor("FLOAT32", 6, 1 << 20), (0, 0), (6, 1 << 20), (1, 3)
    )
    assert compiled_for(planned(every_third)) == {3}
    boxes = dml.SliceOperatorDesc(
        tensor("FLOAT32", 50, 40, 300), tensor("FLOAT32", 50, 30, 200), (0, 0, 0), (50, 30, 200), (1, 1, 1)
    )
    assert compiled_for(planned(boxes)) == {30}, "what row numbers are divided by"
    pictures = dml.Slice1OperatorDesc(
        tensor("UINT8", 600, 900, 3), tensor("UINT8", 600, 900, 3), (0, 0, 0), (600, 900, 3), (1, -1, 1)
    )
    assert compiled_for(planned(pictures)) == {-3, 3, 2700}, "bytes are so many that even row strides count"


def test_lanes_are_masked_only_where_a_tile_can_be_cut_off():
    for taken, is_whole in ((1024, True), (1028, False)):
        chosen = planned(crop("FLOAT32", 4096, 16, taken))
        named = arguments(chosen, [1 << 40, 1 << 41], 0)
        assert (named["WHOLE_ROWS"], named["WHOLE_COLUMNS"]) == (True, is_whole)


def test_fields_take_the_cheapest_kind():
    zeros = [[0] * 5 for _ in range(8)]
    for column, kind in (([7] * 5, Kind.COMMON), ([3, 5, 7, 9, 11], Kind.AFFINE), ([3, 5, 7, 9, 12], Kind.BY_VALUE)):
        fields = encode([*zeros[:7], column], {})
        assert fields.shape[21] == kind
    first_tiles = encode([*zeros[:4], [0, 2, 4, 6, 8], *zeros[5:]], {})
    assert first_tiles.shape[12] == Kind.BY_VALUE, "a search needs every first tile"
    many = encode([*[[0] * 33] * 7, [k * k for k in range(33)]], {})
    assert many.shape[21] == Kind.TABLE
    assert many.columns == ([k * k for k in range(33)],)


def test_moves_with_lookups_are_launches_of_their_own():
    indices = Lookup(2, "int64", 0, (8,), 9, 4)
    gathers = [Move((5,), Access(to, 0, (4,)), Access(0, 0, (0,), (indices,)), 4) for to in (3, 4)]
    copies = [Move((), Access(to, 0, ()), Access(1, 0, ()), 16) for to in (5, 6)]
    moves = [gathers[0], copies[0], gathers[1], copies[1]]
    assert [len(launch.moves) for launch in launches(moves)] == [2, 1, 1]
