"""Plans over sizes that are only declared: to make and to print them takes no time or memory that grows with them."""

import itertools
import json
import tracemalloc
from unittest import mock

import numpy as np
import pytest

import anydml as dml
from anydml import stores
from anydml.cli import main
from anydml.stores.planning import choosing, file_blocking, grid_blocking, regions, transfers

MAX_BYTES = 64 << 20
"""That a plan may take beside its buffers: one that lists the blocks of an array of 2⁴⁰ elements takes more."""

MAX_LOOKS = 20_000
"""Blocks that may be looked at: hundreds to choose their shape, and a few thousand to count what they come to."""

PLANS = {
    "npy": {},
    "turned": {"permute": [1, 0]},
    "backwards": {"flip": [0, 1]},
    "steps": {"slices": "1::3,::2"},
}


def declared(path, shape, chunks, codec=None):
    """A Zarr array without a chunk."""
    path.mkdir()
    said = {"zarr_format": 2, "shape": shape, "chunks": chunks, "dtype": "<f4", "fill_value": 0, "order": "C",
            "compressor": codec, "filters": None}  # fmt: skip
    (path / ".zarray").write_text(json.dumps(said))
    return path


def with_holes(path, shape):
    """A .npy file that takes no disk."""
    file = stores.create(path, shape, "f4").file
    with path.open("wb") as out:
        out.write(file.start)
        try:
            out.truncate(file.size)
        except OSError:
            pytest.skip("this file system has no files of that size")
    return path


def bounded(make):
    """What `make` gives, which looks at few blocks and takes little memory."""
    looks = itertools.count()

    def counted(function):
        def called(*given):
            next(looks)
            return function(*given)

        return called

    within, block_io = regions.RegionMap.parts_writing, choosing.block_io
    tracemalloc.start()
    found = None
    with (
        mock.patch.object(regions.RegionMap, "parts_writing", counted(within)),
        mock.patch("anydml.stores.planning.choosing.block_io", counted(block_io)),
        mock.patch("anydml.stores.planning.file_blocking.block_io", counted(block_io)),
    ):
        try:
            found = make()
        except (dml.BindingError, dml.ModelError) as error:
            found = str(error)
            assert "\n" not in found
        finally:
            # A command ends by SystemExit.
            peak = tracemalloc.get_traced_memory()[1]
            tracemalloc.stop()
    assert peak < MAX_BYTES
    assert next(looks) < MAX_LOOKS
    return found


@pytest.mark.parametrize("name", PLANS)
@pytest.mark.parametrize("power, codec", [(40, {"id": "zstd", "level": 1}), (60, None)], ids=["packed", "plain"])
def test_arrays_in_chunks(tmp_path, power, name, codec):
    pytest.importorskip("zarr", reason='zarr-python is not installed: pip install "anydml[stores]"')
    n = 1 << power
    x = declared(tmp_path / "x.zarr", [n, 6], [max(1 << 12, n >> 22), 6], codec)
    for target, memory in (("y.npy", "512MB"), ("y.zarr", "40GB")):
        plan = bounded(
            lambda target=target, memory=memory: stores.rechunk(x, tmp_path / target, memory=memory, **PLANS[name])
        )
        if isinstance(plan, str):
            assert any(
                why in plan for why in ("no file system holds", "more memory", "must be at least", "larger ones")
            )
            assert power > 30
            continue
        text = bounded(plan.__str__)
        assert ("about" in text) == (plan.blocking.count > file_blocking.MAX_COUNTED_BLOCKS)
        assert plan.totals.bytes_written == 4 * np.prod([int(k) for k in plan.outputs[0].shape], dtype=object)


@pytest.mark.parametrize("name", PLANS)
@pytest.mark.parametrize("power", [20, 38])
@pytest.mark.parametrize("memory", ["64MB", "2GB"])
def test_plain_files(tmp_path, power, name, memory):
    x = with_holes(tmp_path / "x.npy", (1 << power, 6))
    plan = bounded(lambda: stores.rechunk(x, tmp_path / "y.npy", memory=memory, **PLANS[name]))
    if isinstance(plan, str):
        assert "blocks, but the maximum is 1048576: give more memory" in plan
        assert power > 30
        return
    assert plan.totals.bytes_written == plan.outputs[0].nbytes
    assert ("about" in bounded(lambda: str(plan))) == (plan.blocking.count > file_blocking.MAX_COUNTED_BLOCKS)
    assert bounded(lambda: str(dml.explain(plan)))


def test_a_dry_run_says_about(tmp_path, capsys):
    pytest.importorskip("zarr", reason='zarr-python is not installed: pip install "anydml[stores]"')
    x = declared(tmp_path / "x.zarr", [1 << 40, 6], [1 << 20, 6])
    given = ["rechunk", str(x), str(tmp_path / "y.npy"), "--memory", "1GB", "--dry-run"]
    with pytest.raises(SystemExit) as ended:
        bounded(lambda: main(given))
    assert not ended.value.code
    out = capsys.readouterr().out
    assert "in about" in out
    assert "writes about 26.39 TB" in out


X = np.random.default_rng(1).integers(0, 1 << 31, (300, 70)).astype("f4")


@pytest.mark.parametrize("kind", ["npy", "zarr"])
@pytest.mark.parametrize("name", PLANS)
def test_estimates_are_near_and_runs_are_whole(tmp_path, kind, name):
    zarr = pytest.importorskip("zarr") if kind == "zarr" else None
    path = tmp_path / f"x.{kind}"
    if zarr:
        zarr.create_array(str(path), data=X, chunks=(10, 10), zarr_format=2)
    else:
        np.save(path, X)
    few = {"MAX_COUNTED_BLOCKS": 6, "SAMPLED_BLOCKS": 4}
    chunks = {} if kind == "npy" else {"chunks": [7, 5]}

    def made(target):
        return stores.rechunk(path, tmp_path / target, memory=9000, **chunks, **PLANS[name])

    exact = made(f"exact.{kind}")
    with mock.patch.multiple(file_blocking, **few), mock.patch.multiple(grid_blocking, **few):
        plan = made(f"y.{kind}")
    assert plan.blocking.is_estimate
    assert "in about" in str(plan)
    assert plan.totals.bytes_written == pytest.approx(exact.totals.bytes_written, 0.02)
    for what in ("bytes_read", "reads", "writes"):
        assert getattr(exact.totals, what) / 3 <= getattr(plan.totals, what) <= 3 * getattr(exact.totals, what)
    assert len(exact.blocks) / 2 <= plan.blocking.count <= 2 * len(exact.blocks)
    plan.run()
    assert plan.totals == exact.totals
    assert str(plan).splitlines()[1:] == str(exact).splitlines()[1:]
    expected = {"npy": X, "turned": X.T, "backwards": X[::-1, ::-1], "steps": X[1::3, ::2]}[name]
    np.testing.assert_array_equal(stores.open(tmp_path / f"y.{kind}").read() if kind == "npy"
                                  else zarr.open(str(tmp_path / "y.zarr"))[...], expected)  # fmt: skip


@pytest.mark.parametrize("name", PLANS)
def test_blocks_of_few_runs(tmp_path, monkeypatch, name):
    np.save(tmp_path / "x.npy", X)
    monkeypatch.setattr(transfers, "MAX_RUNS_OF_BLOCK", 20)
    stores.rechunk(tmp_path / "x.npy", tmp_path / "y.npy", memory=100_000, **PLANS[name]).run()
    expected = {"npy": X, "turned": X.T, "backwards": X[::-1, ::-1], "steps": X[1::3, ::2]}[name]
    np.testing.assert_array_equal(np.load(tmp_path / "y.npy"), expected)
