"""Which kernel does what, and what a person is told about it."""

from types import SimpleNamespace

import numpy as np
import pytest
from anydml.engines.cpu.kernel_call import CHUNK, PIECES, units_per_claim
from anydml.engines.cpu.machine import (
    DEFAULT_CACHE,
    DEFAULT_CORE_CACHE,
    _caches,
    again_share,
    core_cache,
    last_level_cache,
    most_cached,
    processor,
)

import anydml as dml
from anydml.engines.cpu import engine, plan
from anydml.moves import simplify
from anydml.text import counted

FLOAT32, UINT8 = dml.DataType.FLOAT32, dml.DataType.UINT8


def tensor(*sizes, data_type=FLOAT32):
    return dml.TensorDesc(data_type, sizes)


def split(shape, axis, parts, data_type=FLOAT32):
    outputs = [tensor(*shape[:axis], part, *shape[axis + 1 :], data_type=data_type) for part in parts]
    return dml.SplitOperatorDesc(tensor(*shape, data_type=data_type), outputs, axis)


def join(shape, axis, parts):
    desc = split(shape, axis, parts)
    return dml.JoinOperatorDesc(desc.output_tensors, desc.input_tensor, axis)


def slice1(shape, offsets, sizes, strides, data_type=FLOAT32):
    output = [1 + (size - 1) // abs(stride) for size, stride in zip(sizes, strides, strict=True)]
    whole = tensor(*shape, data_type=data_type)
    return dml.Slice1OperatorDesc(whole, tensor(*output, data_type=data_type), offsets, sizes, strides)


def gather(shape, indices, axis, data_type="INT64"):
    output = (*shape[:axis], *indices, *shape[axis + 1 :])
    rank = max(len(shape), len(output))

    def padded(sizes):
        return (1,) * (rank - len(sizes)) + tuple(sizes)

    index = dml.TensorDesc(data_type, padded(indices))
    axis += rank - len(shape)
    return dml.GatherOperatorDesc(tensor(*padded(shape)), index, tensor(*padded(output)), axis, len(indices))


BIG = 40 * last_level_cache() // 8

CASES = {
    "long rows of a split": (split((512, 3072), 1, [1024] * 3), "rows"),
    "a split of the first axis": (split((64, 10000), 0, [16] * 4), "rows"),
    "colour planes": (split((50_000, 3), 1, [1] * 3, UINT8), "interleave"),
    "three fours": (split((40_000, 12), 1, [4] * 3), "interleave"),
    "two, one, three": (split((40_000, 6), 1, [2, 1, 3]), "interleave"),
    "planes together": (join((50_000, 3), 1, [1] * 3), "interleave"),
    "a reversal": (slice1((512, 512), (0, 0), (512, 512), (1, -1)), "interleave"),
    "mirrored pictures": (slice1((4, 8, 800, 3), (0,) * 4, (4, 8, 800, 3), (1, 1, -1, 1), UINT8), "interleave"),
    "small mirrored pictures": (slice1((16, 64, 64, 3), (0,) * 4, (16, 64, 64, 3), (1, 1, -1, 1), UINT8), "pixels"),
    "every second": (slice1((512, 512), (0, 0), (512, 512), (1, 2)), "interleave"),
    "a crop": (slice1((4, 3, 256, 256), (0, 0, 64, 64), (4, 3, 128, 128), (1,) * 4), "rows"),
    "rows backwards": (slice1((512, 512), (0, 0), (512, 512), (-1, 1)), "rows"),
    "every ninth": (slice1((512, 9000), (0, 0), (512, 9000), (1, 9)), "elements"),
    "many columns": (split((5_000, 40), 1, [1] * 40), "elements"),
    "short rows with non-temporal stores": (split((BIG // 4096, 1024), 1, [64] * 16), "elements"),
    "rows by index": (gather((1000, 64), (2000,), 0), "lookup rows"),
    "scalars by index": (gather((5000,), (50_000,), 0), "in_line"),
    "scalars of a large table": (gather((500_000,), (50_000,), 0), "lookup elements"),
    "columns by index": (gather((512, 512), (512,), 1), "lookup lines"),
    "a table of indices": (gather((8, 512, 32), (8, 16), 1, "INT32"), "lookup rows"),
    "one value": (dml.FillValueConstantOperatorDesc(tensor(300, 300), "FLOAT32", 7), "fill"),
    "one value a row": (
        dml.ElementWiseIdentityOperatorDesc(dml.TensorDesc("FLOAT32", [300, 300], [1, 0]), tensor(300, 300)),
        "fill",
    ),
    "a choice": (
        dml.ElementWiseIfOperatorDesc(tensor(300, 300, data_type=UINT8), *[tensor(300, 300)] * 3),
        "select",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_each_kind_of_work_has_its_kernel(name):
    desc, kernel = CASES[name]
    operator = dml.Device("cpu").compile_operator(desc)
    steps = operator._program.steps
    assert [step.kernel for step in steps] == [kernel]
    lines = str(operator).splitlines()
    assert lines[0].startswith(f"{desc.OPERATOR} on cpu: ")
    assert lines[1] == f"  {kernel}: {steps[0].reason}"
    assert len(lines) == 2 + len(operator._program.moves)


def test_a_split_is_one_pass_however_many_parts():
    for parts in (2, 64, 1024):
        program = dml.Device("cpu").compile_operator(split((64, 65536), 1, [65536 // parts] * parts))._program
        assert len(program.steps) == 1
        assert len(program.steps[0].moves) == parts


def test_columns_of_several_rows_are_taken_apart_row_by_row():
    x = np.arange(2 * 3 * 64 * 512, dtype=np.float32).reshape(2, 3, 64, 512)

    def focus(x):
        return np.concatenate([x[..., a::2, b::2] for b in (0, 1) for a in (0, 1)], axis=1)

    fused = dml.fuse(focus)
    steps = plan.plan(simplify(fused.lower(x).moves), 0)
    assert [(step.kernel, len(step.moves)) for step in steps] == [("interleave", 2)] * 2
    assert np.array_equal(fused(x), focus(x))


def test_what_is_read_once_is_read_in_its_order(monkeypatch):
    # Heads of 256 bytes that three results take from rows of a source: as one pass over the source.
    monkeypatch.setattr(plan, "most_cached", lambda: -1)
    x = np.arange(4 * 33 * 3 * 5 * 64, dtype=np.float32).reshape(4, 33, 960)

    def heads(x):
        return [part.reshape(4, 33, 5, 64).transpose(0, 2, 1, 3) for part in np.split(x, 3, axis=-1)]

    fused = dml.fuse(heads)
    (step,) = plan.plan(simplify(fused.lower(x).moves), 1 << 40)
    assert step.kernel == "rows"
    assert "in the source's order" in step.reason
    assert all(move.sizes == (4, 33, 5) for move in step.moves)
    for found, expected in zip(fused(x), heads(x), strict=True):
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("order", [(2, 0, 1, 3), (0, 2, 1, 3), (2, 1, 0, 3)])
def test_pages_found_by_an_index_are_read_page_by_page(order):
    cache = np.arange(40 * 4 * 3 * 64, dtype=np.float32).reshape(40, 4, 3, 64)
    table = np.random.default_rng(1).permutation(40)
    fused = dml.fuse(lambda cache, table: cache[table].transpose(order))
    (step,) = plan.plan(simplify(fused.lower(cache, table).moves), 0)
    assert step.kernel == "lookup rows"
    assert step.moves[0].sizes[0] == 40
    np.testing.assert_array_equal(fused(cache, table), cache[table].transpose(order))


def test_small_work_is_numpys_and_says_why():
    operator = dml.Device("cpu").compile_operator(split((6, 2), 0, [2, 1, 3]))
    assert operator._program.steps is None
    assert str(operator).splitlines()[1] == "  at once: 48 B in 3 moves: too small for a kernel of its own to pay"


def test_explanations_count_bytes_and_threads():
    threads = dml.get_num_threads()
    small, large = split((100, 300), 1, [100] * 3), split((4096, 3072), 1, [1024] * 3)
    assert str(dml.Device().compile_operator(small)).startswith(
        "DML_SPLIT on cpu: 120000 B to read, 120000 B to write, 1 thread\n"
    )
    assert str(dml.Device().compile_operator(large)).startswith(
        f"DML_SPLIT on cpu: 50331648 B to read, 50331648 B to write, {counted(threads, 'thread')}\n"
    )


def test_claims_cover_work_in_pieces():
    for units, moved in ((1, 1), (10, 10 * CHUNK), (1_000_000, 64_000_000), (64, 1 << 40)):
        claimed = units_per_claim(units, moved)
        assert 1 <= claimed <= max(units, CHUNK)
        assert -(-units // claimed) <= max(PIECES + 1, moved // CHUNK + 1)


def test_stores_go_past_the_caches_only_where_outputs_are_large(monkeypatch):
    desc = split((512, 3072), 1, [1024] * 3)
    for cache, past in ((1 << 40, 0), (1 << 20, 1)):
        monkeypatch.setattr(plan, "most_cached", lambda cache=cache: cache)
        (step,) = engine.program("split", desc.moves()).steps
        assert step.template[2] == past


def test_what_is_touched_again_stays_in_the_caches(monkeypatch):
    monkeypatch.setattr(plan, "most_cached", lambda: 1 << 20)
    monkeypatch.setattr(plan, "again_share", lambda: 8)
    for rows, streamed in ((128, 0), (512, 0), (2048, 1)):
        whole, index = tensor(rows, 1024), tensor(rows, 1024, data_type="INT64")
        desc = dml.ScatterOperatorDesc(whole, index, whole, whole, 1)
        steps = engine.program("scatter", desc.moves()).steps
        assert [int(step.template[2]) for step in steps] == [streamed] * 2
    (copied,) = engine.program("copy", split((512, 1024), 0, [512]).moves()).steps
    assert copied.template[2]


@pytest.mark.parametrize(("model", "cached"), [("AMD EPYC", 75 << 20), ("Intel(R) Xeon(R) Processor", 3 << 20)])
def test_outputs_share_the_last_cache_where_it_is_near(model, cached, monkeypatch, tmp_path):
    (tmp_path / "cpuinfo").write_text(f"processor: 0\nmodel name: {model}\n\nprocessor: 1\n")
    monkeypatch.setattr("anydml.engines.cpu.machine.last_level_cache", lambda: 300 << 20)
    monkeypatch.setattr("anydml.engines.cpu.machine.core_cache", lambda: 2 << 20)
    monkeypatch.setattr("anydml.engines.cpu.machine.POOL", SimpleNamespace(threads=3))
    monkeypatch.setattr("anydml.engines.cpu.machine.Path", lambda _: tmp_path / "cpuinfo")
    processor.cache_clear()
    try:
        assert most_cached() == cached
        assert again_share() == (75 << 20) // cached
        monkeypatch.setattr("anydml.engines.cpu.machine.Path", lambda _: tmp_path / "nothing")
        monkeypatch.setattr("platform.processor", lambda: model)
        processor.cache_clear()
        assert most_cached() == cached
        monkeypatch.setattr("anydml.engines.cpu.machine.last_level_cache", lambda: 2 << 20)
        assert most_cached() == 1 << 19
    finally:
        processor.cache_clear()


def test_the_last_level_cache_is_read_or_assumed(monkeypatch, tmp_path):
    assert last_level_cache() >= 1 << 18
    monkeypatch.setattr("anydml.engines.cpu.machine.Path", lambda _: tmp_path)
    _caches.cache_clear()
    try:
        assert last_level_cache() == DEFAULT_CACHE
        assert core_cache() == DEFAULT_CORE_CACHE
        sizes = (
            ("48K\n", "1"),
            ("32K\n", "1"),
            ("2M\n", "2\n"),
            ("4M", "3"),
            ("nonsense\n", "4"),
            ("", "5"),
            ("8M", ""),
        )
        for index, (size, level) in enumerate(sizes):
            (tmp_path / f"index{index}").mkdir()
            (tmp_path / f"index{index}" / "size").write_text(size)
            (tmp_path / f"index{index}" / "level").write_text(level)
        _caches.cache_clear()
        assert last_level_cache() == 4 << 20
        assert core_cache() == 2 << 20
    finally:
        _caches.cache_clear()


def test_tables_hold_addresses_where_the_template_has_offsets():
    (step,) = engine.program("split", split((512, 3072), 1, [1024] * 3).moves()).steps
    addresses = np.array([1 << 40, 2 << 40, 3 << 40, 4 << 40], np.uint64)
    changed = step.table(addresses) - step.template
    assert sorted(set(changed.tolist())) == [0, 1 << 40, 2 << 40, 3 << 40, 4 << 40]
    assert (changed != 0).sum() == (step.operands >= 0).sum()
