"""Texts of any length in Zarr arrays: rewritten, compared, in groups, by other processes; or refused."""

import json
import subprocess
import sys
import tracemalloc
from contextlib import ExitStack

import numpy as np
import pytest

import anydml
from anydml import stores
from anydml.cli import main
from anydml.errors import AnydmlError
from anydml.stores import task_plans
from anydml.stores.formats import zarr_strings

zarr = pytest.importorskip("zarr", reason='zarr-python is not installed: pip install "anydml[stores]"')

WORDS = ["", "a", "äöü", "long " * 300, "x\0y", "日本", "end\0"]


def texts(shape):
    return np.random.default_rng(1).choice(WORDS, size=shape).astype(np.dtypes.StringDType())


def written(path, x, version=3, **options):
    options = {"fill_value": "none", "chunks": tuple(min(3, size) or 1 for size in x.shape)} | options
    made = zarr.create_array(str(path), shape=x.shape, dtype=str, zarr_format=version, **options)
    if x.size:
        made[...] = x
    return made


def read(path):
    array = zarr.open_array(str(path), mode="r")
    return np.asarray(array[...], array.dtype)


@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize("shape", [(), (0, 4), (1,), (7, 9), (5, 4, 3)])
@pytest.mark.parametrize(
    "options",
    [{}, {"zarr_format": 2}, {"zarr_format": 3}, {"codec": "blosc"}, {"codec": "none"}, {"slices": "::-1"},
     {"chunks": 2}, {"chunks": 2, "shards": 4, "zarr_format": 3}],
)  # fmt: skip
def test_texts_are_rewritten_and_compared(tmp_path, version, shape, options):
    x = texts(shape)
    written(tmp_path / "x", x, version)
    options = {key: [value] * len(shape) if isinstance(value, int) and key != "zarr_format" else value
               for key, value in options.items()}  # fmt: skip
    wanted = x
    if "slices" in options:
        options["slices"] = ",".join(["::-2"] * len(shape)) or None
        wanted = x[(slice(None, None, -2),) * len(shape)]
    plan = stores.rechunk(tmp_path / "x", tmp_path / "y", memory="1MB", **options)
    plan.run()
    np.testing.assert_array_equal(read(tmp_path / "y"), wanted)
    np.testing.assert_array_equal(stores.open(tmp_path / "y").read(), wanted)
    assert zarr.open_array(str(tmp_path / "y"), mode="r").fill_value == "none"
    assert plan.verify() is None
    if "slices" not in options:
        assert stores.verify(tmp_path / "x", tmp_path / "y") is None


@pytest.mark.parametrize("shards", [None, (6, 6)])
def test_chunks_that_are_not_there_have_the_fill_value(tmp_path, shards):
    x = np.full((9, 9), "none", np.dtypes.StringDType())
    x[4, 4] = "some"
    written(tmp_path / "x", x, shards=shards)
    stores.rechunk(tmp_path / "x", tmp_path / "y", [9, 2], shards=()).run()
    np.testing.assert_array_equal(read(tmp_path / "y"), x)


def test_longer_texts_than_a_chunk_has_bytes_of_numbers(tmp_path):
    x = np.array(["x" * 1_000_000, "y" * 3_000_000], np.dtypes.StringDType())
    written(tmp_path / "x", x)
    stores.rechunk(tmp_path / "x", tmp_path / "y", [1]).run()
    np.testing.assert_array_equal(read(tmp_path / "y"), x)


def test_a_difference_shows_the_texts(tmp_path):
    x = texts((7, 9))
    written(tmp_path / "x", x)
    x[5, 6] = "other"
    written(tmp_path / "y", x, version=2)
    assert stores.verify(tmp_path / "x", tmp_path / "y").endswith("and 'other'")


def test_those_of_groups_are_cut_and_written_in_the_other_version(tmp_path):
    group, x = zarr.open_group(str(tmp_path / "g"), mode="w", zarr_format=2), texts((7,))
    for name, data in ("name", x), ("value", np.arange(7)):
        made = group.create_array(name, shape=7, dtype=data.dtype, attributes={"_ARRAY_DIMENSIONS": ["station"]})
        made[...] = data
    stores.rechunk(tmp_path / "g", tmp_path / "h", slices="station=2:6", zarr_format=3).run()
    found = zarr.open_group(str(tmp_path / "h"), mode="r")
    np.testing.assert_array_equal(found["name"][...], x[2:6])
    np.testing.assert_array_equal(found["value"][...], np.arange(2, 6))


def test_another_process_writes_what_it_has_not_read(tmp_path):
    written(tmp_path / "x", np.full(9, "", np.dtypes.StringDType()))
    zarr.open_array(str(tmp_path / "x"), mode="r+")[:4] = "here"
    stores.plan_tasks(tmp_path / "plan.json", tmp_path / "x", tmp_path / "y", 3, chunks=[2])
    for task in range(3):
        code = f"from anydml import stores; stores.run_task({str(tmp_path / 'plan.json')!r}, {task})"
        subprocess.run([sys.executable, "-c", code], check=True)
    stores.finish_tasks(tmp_path / "plan.json")
    np.testing.assert_array_equal(read(tmp_path / "y"), ["here"] * 4 + [""] * 5)


def test_a_new_array_of_texts(tmp_path):
    x = texts((7, 9))
    written(tmp_path / "x", x)
    source = stores.open(tmp_path / "x")
    target = stores.create(tmp_path / "y.zarr", (9, 14), source.dtype)
    anydml.fuse(lambda x: np.concatenate([x, x]).T).plan(source, target).run()
    np.testing.assert_array_equal(read(tmp_path / "y.zarr"), np.concatenate([x, x]).T)


def test_workers_of_a_cluster_write_them(tmp_path):
    distributed = pytest.importorskip("distributed", reason="Dask is not installed")
    x = texts((40, 9))
    x[20:30] = "none"
    written(tmp_path / "x", x)
    with distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster:
        plan = stores.rechunk(tmp_path / "x", tmp_path / "y", [5, 9], memory="1MB")
        plan.run(scheduler=cluster.scheduler_address)
    np.testing.assert_array_equal(read(tmp_path / "y"), x)
    assert stores.verify(tmp_path / "x", tmp_path / "y") is None


@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize("shards", [None, 3])
def test_a_chunk_that_is_short_only_while_it_is_compressed_is_refused(tmp_path, version, shards):
    x = np.array(["", "a" * 5_000_000, "", ""], np.dtypes.StringDType())
    options = {} if shards is None or version == 2 else {"shards": (shards,)}
    written(tmp_path / "x", x, version, **options)
    tracemalloc.start()
    try:
        with pytest.raises(AnydmlError, match="with more memory more"):
            stores.rechunk(tmp_path / "x", tmp_path / "y", [1], memory="4MB", shards=()).run()
        assert tracemalloc.get_traced_memory()[1] < 5_000_000
    finally:
        tracemalloc.stop()
    assert not (tmp_path / "y").exists()
    stores.rechunk(tmp_path / "x", tmp_path / "y", [1], memory="200MB", shards=()).run()
    np.testing.assert_array_equal(read(tmp_path / "y"), x)


def test_different_texts_are_within_the_memory(tmp_path):
    x = np.array([f"{k:060}" for k in range(40_000)], np.dtypes.StringDType())
    written(tmp_path / "x", x, chunks=(1000,))
    with pytest.raises(AnydmlError, match=r"different strings that were met need .* give at least 1\.1 times as much"):
        stores.rechunk(tmp_path / "x", tmp_path / "y", [500], memory="8MB").run()
    plan = stores.rechunk(tmp_path / "x", tmp_path / "y", [500], memory="40MB")
    plan.run()
    assert plan.verify() is None
    np.testing.assert_array_equal(read(tmp_path / "y"), x)
    # No text is known when all runs have ended but those of fill values.
    assert zarr_strings._KNOWN_STRINGS.strings_by_run == {0: {}}


def test_texts_of_runs_that_overlap_are_known_until_their_own_end():
    def met(k):
        return np.array([f"run {k}, text {j}" for j in range(1000)] + ["of all"], np.dtypes.StringDType())

    runs = [ExitStack() for _ in range(20)]
    numbers_met = list[np.ndarray]()
    for k, run in enumerate(runs):
        run.enter_context(zarr_strings.strings_within(1_200_000))
        numbers_met.append(zarr_strings.numbers_of(met(k)))
        if k:
            np.testing.assert_array_equal(zarr_strings.strings_of(numbers_met[k - 1]), met(k - 1))
            runs[k - 1].close()
        np.testing.assert_array_equal(zarr_strings.strings_of(numbers_met[k]), met(k))
    runs[-1].close()
    numbers = zarr_strings._KNOWN_STRINGS
    assert (numbers.strings_by_run, numbers.limits, numbers.under_way, numbers.size) == ({0: {}}, {}, [], 0)


def test_equal_texts_of_a_chunk_are_within_the_memory(tmp_path):
    x = np.full(3000, "long " * 200, np.dtypes.StringDType())
    written(tmp_path / "x", x, chunks=(10,))
    with pytest.raises(AnydmlError, match=r"cannot be encoded: the strings of a chunk.* give at least [0-9.]+ times"):
        stores.rechunk(tmp_path / "x", tmp_path / "y", [3000], memory="8MB").run()
    stores.rechunk(tmp_path / "x", tmp_path / "y", [3000], memory="80MB").run()
    np.testing.assert_array_equal(read(tmp_path / "y"), x)


def test_tasks_are_as_many_as_files_of_texts_need(tmp_path, monkeypatch):
    monkeypatch.setattr(task_plans, "TASK_BYTES", 50_000)
    words = np.random.default_rng(0).integers(32, 127, (400, 1000), np.uint8)
    x = np.array([row.tobytes().decode() for row in words], np.dtypes.StringDType())
    written(tmp_path / "x", x, chunks=(10,), compressors=None)
    plan = stores.plan_tasks(tmp_path / "plan.json", tmp_path / "x", tmp_path / "y", chunks=[20], memory="20MB")
    assert len(json.loads((tmp_path / "plan.json").read_text())["tasks"]) == 9
    assert "string of any length" in repr(plan.outputs[0])
    stores.finish_tasks(tmp_path / "plan.json")
    np.testing.assert_array_equal(read(tmp_path / "y"), x)


def test_their_type_has_a_name_in_lists_and_messages(tmp_path, capsys):
    written(tmp_path / "x", texts((7,)))
    written(tmp_path / "y", texts((8,)))
    with pytest.raises(SystemExit):
        main(["stores", str(tmp_path / "x"), "--json"])
    assert json.loads(capsys.readouterr().out)["arrays"][0]["dtype"] == "string of any length"
    assert repr(stores.open(tmp_path / "x")).endswith("string of any length (7,) in chunks (3,)>")
    assert "string of any length [7] and string of any length [8]" in stores.verify(tmp_path / "x", tmp_path / "y")


@pytest.mark.parametrize("name", ["y.npy", "y.npz", "y.safetensors"])
def test_files_without_a_place_for_them(tmp_path, name):
    written(tmp_path / "x", texts((7,)))
    dtype = stores.open(tmp_path / "x").dtype
    with pytest.raises(AnydmlError):
        stores.create(tmp_path / name, {"a": ((7,), dtype)} if name != "y.npy" else (7,), dtype)
    if name == "y.npy":
        with pytest.raises(AnydmlError, match="cannot hold strings of variable length"):
            stores.rechunk(tmp_path / "x", tmp_path / name)
