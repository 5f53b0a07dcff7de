"""Plans of very many blocks: their lists are small, and what no run would end is refused at once."""

import json
import os
import tracemalloc

import numpy as np
import pytest

import anydml as dml
from anydml import stores
from anydml.stores.planning import block_list
from anydml.stores.planning.interval_unions import IntervalUnion

HUGE = 10**9


def huge_zarr(folder, shape, chunks, version):
    pytest.importorskip("zarr", reason='zarr-python is not installed: pip install "anydml[stores]"')
    folder.mkdir()
    if version == 2:
        said = {"zarr_format": 2, "shape": shape, "chunks": chunks, "dtype": "<f4", "compressor": None,
                "fill_value": 0, "order": "C", "filters": None}  # fmt: skip
    else:
        said = {"zarr_format": 3, "node_type": "array", "shape": shape, "data_type": "float32", "fill_value": 0,
                "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": chunks}},
                "chunk_key_encoding": {"name": "default"}, "codecs": [{"name": "bytes", "configuration":
                {"endian": "little"}}, {"name": "gzip", "configuration": {"level": 1}}]}  # fmt: skip
    (folder / (".zarray" if version == 2 else "zarr.json")).write_text(json.dumps(said))
    return stores.open(folder)


@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize(
    ("shape", "chunks", "target", "said"),
    [
        ([HUGE, HUGE], [2, 3], "y.zarr", "blocks, but the maximum is 1048576: give more memory"),
        ([HUGE, HUGE], [2, 3], "y.npy", "blocks, but the maximum is 1048576: give more memory"),
        ([10**8, 4], [1, 1], "y.zarr", "chunks to write, but the maximum is 16777216: ask for larger ones"),
        ([10**8, 4], [1, 4], "y.npy", "chunks to read, but the maximum is 16777216: give more memory"),
    ],
)
def test_no_long_list_is_made(tmp_path, version, shape, chunks, target, said):
    huge_zarr(tmp_path / "x.zarr", shape, chunks, version)
    tracemalloc.start()
    with pytest.raises(dml.BindingError, match=said):
        stores.rechunk(tmp_path / "x.zarr", tmp_path / target, memory="2GB")
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert most < 200 << 20
    assert os.listdir(tmp_path) == ["x.zarr"]


def test_little_of_what_is_huge_is_read(tmp_path):
    huge_zarr(tmp_path / "x.zarr", [HUGE, HUGE], [2, 3], 3)
    plan = stores.rechunk(tmp_path / "x.zarr", tmp_path / "y.npy", slices="5:9,999999990:", memory="1MB")
    assert plan.totals.bytes_written == 4 * 10 * 4
    plan.run()
    assert not np.load(tmp_path / "y.npy").any()


def test_a_file_with_holes(tmp_path):
    shape = (1 << 40, 2)
    np.save(tmp_path / "x.npy", np.zeros((1, 2), np.float32))
    head = stores.create(tmp_path / "x.npy", shape, "f4").file
    with open(tmp_path / "x.npy", "wb") as file:
        file.write(head.start)
        file.truncate(head.size)
    with pytest.raises(dml.BindingError, match="give more memory, or take less at once"):
        dml.fuse(lambda x: x.T).plan(
            stores.open(tmp_path / "x.npy"), stores.create(tmp_path / "y.npy", (2, 1 << 40), "f4")
        )


def test_as_many_as_may_be(monkeypatch):
    monkeypatch.setattr(block_list, "MAX_LISTED", 3)
    blocks = block_list.BlockList("f", 2)
    given = [(k, 0, ((0, k), (k, 9))[:k]) for k in range(3)]
    for each in given:
        blocks.append(block_list.Block(*each))
    assert [*blocks] == given
    assert blocks[-1] == given[2]
    assert blocks[::2] == given[::2]
    with pytest.raises(IndexError):
        blocks[3]
    with pytest.raises(dml.BindingError, match="f: the plan needs more than 3 blocks"):
        blocks.append(block_list.Block(*given[0]))


def test_a_union_counts_each_byte_once(monkeypatch):
    monkeypatch.setattr("anydml.stores.planning.interval_unions.MIN_UNMERGED", 4)
    rng, covered, seen = np.random.default_rng(1), IntervalUnion(), np.zeros(2000, bool)
    for _ in range(40):
        starts = rng.integers(0, 1900, rng.integers(1, 9))
        lengths = rng.integers(1, 99, starts.size)
        covered.add(starts, lengths)
        for start, length in zip(starts, lengths, strict=True):
            seen[start : start + length] = True
        assert covered.size == seen.sum()
