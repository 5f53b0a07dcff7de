"""`anydml rechunk` of Zarr groups: some arrays in other chunks, all else as it was."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from anydml import stores
from anydml.cli import main
from anydml.errors import BindingError, ModelError

zarr = pytest.importorskip("zarr", reason='zarr-python is not installed: pip install "anydml[stores]"')

pytestmark = pytest.mark.filterwarnings(
    "ignore:.*does not have a Zarr V3", "ignore:Consolidated metadata", "ignore:Object at"
)

TIME, LAT, LON = 20, 9, 12


@pytest.fixture(scope="module", params=[2, 3])
def version(request):
    return request.param


@pytest.fixture
def source(tmp_path, dataset, monkeypatch):
    """The dataset as a folder of the test's own, in the folder that it works in."""
    monkeypatch.chdir(tmp_path)
    shutil.copytree(dataset, "x.zarr")
    return Path("x.zarr")


@pytest.fixture(scope="module")
def dataset(tmp_path_factory, version):
    """A dataset as xarray writes it: coordinates, one of them of text, two variables, and a group inside."""
    path = str(tmp_path_factory.mktemp("dataset") / "x.zarr")
    root = zarr.open_group(path, mode="w", zarr_format=version, attributes={"title": "weather"})

    def array(group, name, values, axes, chunks, **attributes):
        named = {"dimension_names": axes} if version == 3 else {}
        attributes |= {} if version == 3 else {"_ARRAY_DIMENSIONS": axes}
        made = group.create_array(
            name, shape=values.shape, dtype=values.dtype, chunks=chunks, attributes=attributes, **named
        )
        made[...] = values

    rng = np.random.default_rng(1)
    array(root, "time", np.arange(TIME, dtype="i8"), ["time"], (5,), units="days since 2000-01-01")
    array(root, "lat", np.linspace(-4, 4, LAT), ["lat"], (LAT,))
    array(root, "lon", np.linspace(0, 11, LON), ["lon"], (LON,))
    array(root, "name", np.array(["a", "bc"] * 10), ["time"], (TIME,))
    array(root, "area", rng.random((LAT, LON)), ["lat", "lon"], (LAT, LON))
    array(root, "crs", np.array(4326), [], ())
    temp = rng.standard_normal((TIME, LAT, LON)).astype("f4")
    array(root, "temp", temp, ["time", "lat", "lon"], (1, LAT, LON), units="K", coordinates="area")
    array(root, "rain", (temp * 9).astype("i2"), ["time", "lat", "lon"], (2, LAT, LON), scale_factor=0.1)
    inner = root.create_group("below", attributes={"level": 3})
    array(inner, "wind", temp[::-1], ["time", "lat", "lon"], (TIME, 3, 3))
    zarr.consolidate_metadata(path, zarr_format=version)
    return path


def run(capsys, *arguments):
    with pytest.raises(SystemExit) as ended:
        main(["rechunk", *map(str, arguments)])
    said = capsys.readouterr()
    return ended.value.code or 0, said.out, said.err


def arrays_of(path):
    group = zarr.open_group(str(path), mode="r", use_consolidated=False)
    return {name: each for name, each in group.members(max_depth=None) if isinstance(each, zarr.Array)}


def files_of(folder):
    return {str(path.relative_to(folder)): path.read_bytes() for path in Path(folder).rglob("*") if path.is_file()}


def without_chunks(said):
    """Metadata of either version without sizes of chunks."""
    said = json.loads(json.dumps(said))
    said.pop("chunks", None), said.pop("chunk_grid", None)
    return said


def check(source, target, chunks):
    """A group is another one, but that some arrays have these chunks."""
    old, new = arrays_of(source), arrays_of(target)
    assert sorted(old) == sorted(new)
    for name, array in old.items():
        np.testing.assert_array_equal(new[name][...], array[...])
        assert new[name].chunks == chunks.get(name, array.chunks), name
        was, now = (json.loads(json.dumps(each.metadata.to_dict(), default=str)) for each in (array, new[name]))
        assert without_chunks(was) == without_chunks(now)
        if name not in chunks:
            assert files_of(Path(source) / name) == files_of(Path(target) / name)
    # What is consolidated says the same as the arrays.
    told = zarr.open_group(str(target), mode="r", use_consolidated=True)
    assert dict(told.attrs) == {"title": "weather"}
    assert {name: each.chunks for name, each in told.members(max_depth=None) if isinstance(each, zarr.Array)} == {
        name: each.chunks for name, each in new.items()
    }
    for folder in (source, Path(source) / "below"):
        other = target / folder.relative_to(source)
        assert {*os.listdir(folder)} == {*os.listdir(other)}
    assert (Path(source) / ".zmetadata").exists() == (Path(target) / ".zmetadata").exists()


@pytest.mark.parametrize("memory", ["20kB", "1MB"])
def test_one_rule_for_all_arrays_of_so_many_axes(source, capsys, memory):
    code, out, err = run(capsys, source, "y.zarr", "--chunks", "-1,3,4", "--memory", memory)
    assert (code, err) == (0, "")
    check(source, Path("y.zarr"), dict.fromkeys(["temp", "rain", "below/wind"], (TIME, 3, 4)))
    line = next(line for line in out.splitlines() if line.startswith("  copies"))
    assert all(f'"{name}"' in line for name in ("time", "lat", "lon", "name", "area", "crs"))
    assert sorted(os.listdir()) == ["x.zarr", "y.zarr"]


def test_a_rule_for_each(source, capsys):
    code, _, err = run(
        capsys, source, "y.zarr", "--chunks", "temp=10,3,4", "--chunks", "below/wind=4,-1,2", "--chunks", "time=7"
    )
    assert (code, err) == (0, "")
    check(source, Path("y.zarr"), {"temp": (10, 3, 4), "below/wind": (4, LAT, 2), "time": (7,)})


def test_coordinates_are_no_arrays_of_a_rule(source, capsys):
    """Of one axis there are coordinates alone, and a text; of two one that an attribute lists."""
    for axes, chunks in ((2, "3,3"), (4, "1,1,1,1")):
        code, _, err = run(capsys, source, "y.zarr", "--chunks", chunks)
        assert code == 2
        assert f"has no array of {axes} axes beside coordinates" in err
        assert "name arrays by --chunks NAME=N" in err
    for chunks, is_said in (({"time": [7]}, True), ({"time": [7], "area": [3, 3]}, False), ({"area": [3, 3]}, False)):
        remarks = stores.rechunk(source, "y.zarr", chunks=chunks).remarks
        assert any('takes "time" for names of arrays, not of axes' in remark for remark in remarks) == is_said
    stores.rechunk(source, "y.zarr", chunks={"area": [3, 3]}).run()
    check(source, Path("y.zarr"), {"area": (3, 3)})


def test_another_codec_alone(source, capsys, version):
    (source / "notes.txt").write_text("mine")
    code, out, err = run(capsys, source, "y.zarr", "--codec", "gzip:2")
    assert (code, err) == (0, "")
    assert 'leaves behind "notes.txt"' in out
    old, new = arrays_of(source), arrays_of("y.zarr")
    for name, array in old.items():
        np.testing.assert_array_equal(new[name][...], array[...])
        own = str(new[name].compressors[0]).lower()
        assert ("gzip" in own) == (name in ("temp", "rain", "below/wind", "crs", "name")), (name, own)


def test_dry_run_and_what_is_there(source, capsys):
    before = files_of(".")
    code, out, _ = run(capsys, source, "y.zarr", "--chunks", "5,3,4", "--dry-run")
    assert code == 0
    assert out.count("<target 'y.zarr/") == 3
    assert files_of(".") == before
    assert run(capsys, source, "y.zarr", "--chunks", "5,3,4", "-q") == (0, "", "")
    after = files_of("y.zarr")
    # Groups are never replaced.
    code, _, err = run(capsys, source, "y.zarr", "--chunks", "5,3,4", "--overwrite")
    assert (code, err.count("\n")) == (2, 1)
    assert "is not a Zarr array, and is not replaced" in err
    assert files_of("y.zarr") == after


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (
            ["x.zarr", "y.zarr"],
            "say what is to be another in OUT, by --chunks, --shards, --codec, --slice or another --zarr-format",
        ),
        (["x.zarr", "y.zarr", "--permute", "0"], "is a group, but permute and flip apply to one array"),
        (["x.zarr", "y.zarr", "--slice", "0"], "but must be a slice of a named axis, such as time=0:10"),
        (["x.zarr", "y.npy", "--chunks", "1,1,1"], "is a group, but y.npy would hold one array"),
        (["x.zarr", "y.zarr", "--chunks", "none=1,1"], 'has no array "none"; it has "area", "crs"'),
        (["x.zarr", "y.zarr", "--chunks", "below=1,1"], 'has no array "below"'),
        (["x.zarr", "y.zarr", "--chunks", "temp=1,1"], "temp: --chunks has 2 sizes, (1, 1), but the array has 3 axes"),
        (["x.zarr", "y.zarr", "--chunks", "temp=a"], "must be one size per axis"),
        (["x.zarr", "y.zarr", "--chunks", "1,1,1", "--chunks", "temp=1,1,1"], "not as NAME=N"),
        (["x.zarr/temp", "y.zarr", "--chunks", "temp=1,1,1"], "write chunks without a name"),
        (["x.zarr", "x.zarr/y.zarr", "--chunks", "1,1,1"], "is an input, too"),
        (["x.zarr", "x.zarr", "--chunks", "1,1,1"], "is an input, too"),
    ],
)
def test_mistakes_are_one_line(source, capsys, arguments, said):
    before = files_of(".")
    code, _, err = run(capsys, *arguments)
    assert (code, len(err.splitlines())) == (2, 1)
    assert said in err
    assert files_of(".") == before


@pytest.mark.skipif(os.name != "posix", reason="links need rights on Windows")
def test_links_are_left_behind(source, capsys):
    (source / "back").symlink_to(".")
    (source / "temp2").symlink_to("temp")
    code, out, _ = run(capsys, source, "y.zarr", "--chunks", "5,3,4")
    assert code == 0
    assert 'leaves behind "back", "temp2"' in out
    assert not os.path.lexists("y.zarr/back")


def test_broken_groups_are_one_line(source, capsys, version):
    file = source / ("zarr.json" if version == 3 else ".zmetadata")
    sound = file.read_text()
    inner = source / "time" / ("zarr.json" if version == 3 else ".zarray")
    for path, text in ((file, "{"), (file, "[]"), (inner, "[1]"), (inner, '{"shape": 3, "node_type": "array"}')):
        was = path.read_text()
        path.write_text(text)
        code, _, err = run(capsys, source, "y.zarr", "--chunks", "5,3,4")
        path.write_text(was)
        assert (code, len(err.splitlines())) == (2, 1), err
    file.write_text(sound)
    assert run(capsys, source, "y.zarr", "--chunks", "5,3,4", "-q") == (0, "", "")


def test_what_changes_meanwhile_is_noticed(source):
    plan = stores.rechunk(source, "y.zarr", chunks=[5, 3, 4])
    chunk = next(
        path for path in (source / "lat").rglob("*") if path.is_file() and path.name not in (".zarray", ".zattrs")
    )
    chunk.write_bytes(chunk.read_bytes() + b"x")
    with pytest.raises(BindingError, match="has changed since it was opened"):
        plan.run()
    assert sorted(os.listdir()) == ["x.zarr"]


KILLED = """
import os, signal, sys
from anydml.cli import main
from anydml.stores.running import chunk_writer
from anydml.stores.running import staging

left = int(sys.argv[1])
write = chunk_writer.ChunkWriter.write

def killing(self, *given):
    global left
    left -= len(given[0])
    if left <= 0:
        os.kill(os.getpid(), signal.SIGKILL)
    write(self, *given)

chunk_writer.ChunkWriter.write = killing
main(sys.argv[2:])
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="processes are killed")
def test_killed_it_goes_on(source, capsys):
    command = ["rechunk", str(source), "y.zarr", "--chunks", "5,3,4", "--memory", "10kB"]
    child = [sys.executable, "-c", KILLED]
    assert subprocess.run([*child, "60", *command], capture_output=True, timeout=600, check=False).returncode == -9
    assert sorted(os.listdir()) == [".y.zarr.anydml-journal", ".y.zarr.anydml-part", "x.zarr"]
    code, out, _ = run(capsys, *command[1:])
    assert code == 0
    assert "blocks were already written" in out
    check(source, Path("y.zarr"), dict.fromkeys(["temp", "rain", "below/wind"], (5, 3, 4)))
    assert sorted(os.listdir()) == ["x.zarr", "y.zarr"]


def test_shards_of_a_group(source, version):
    if version == 2:
        with pytest.raises(ModelError, match="version 2 of Zarr has no shards"):
            stores.rechunk(source, "y.zarr", chunks=[5, 3, 4], shards=[10, 9, 12])
        return
    stores.rechunk(source, "y.zarr", chunks=[5, 3, 4], shards=[10, 9, 12]).run()
    found = arrays_of("y.zarr")
    assert (found["temp"].chunks, found["temp"].shards) == ((5, 3, 4), (10, 9, 12))
    assert found["time"].shards is None
    np.testing.assert_array_equal(found["temp"][...], arrays_of(source)["temp"][...])


@pytest.mark.parametrize(
    ("chunks", "expected"),
    [([5, 4], {"a": (5, 4), "b": (3, 1), "e": (5, 4)}), ([-1, 30], {"a": (20, 30), "b": (3, 30), "e": (1, 30)})],
)
def test_small_arrays_of_a_group_are_not_padded(tmp_path, chunks, expected):
    group = zarr.open_group(tmp_path / "x", mode="w")
    shapes = {"a": (20, 9), "b": (3, 1), "e": (0, 9)}
    for name, shape in shapes.items():
        group.create_array(name, data=np.arange(np.prod(shape)).reshape(shape), chunks=(2, 3))
    stores.rechunk(tmp_path / "x", tmp_path / "y", chunks).run()
    output = zarr.open_group(tmp_path / "y", mode="r")
    assert {name: output[name].chunks for name in shapes} == expected
    for name in shapes:
        np.testing.assert_array_equal(output[name][...], group[name][...])
