"""`anydml rechunk`, and how far it says to be."""

import json
import os
from pathlib import Path

import numpy as np
import pytest

from anydml import stores
from anydml.cli import main
from anydml.errors import BindingError, ModelError
from anydml.stores.running.journal import Journal

zarr = pytest.importorskip("zarr", reason='zarr-python is not installed: pip install "anydml[stores]"')


@pytest.fixture
def x(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    array = np.arange(24 * 18 * 10, dtype=np.int16).reshape(24, 18, 10)
    np.save("x.npy", array)
    target = zarr.create_array(
        store="x.zarr", shape=array.shape, chunks=(1, 18, 10), dtype=array.dtype, attributes={"units": "K"},
        dimension_names=["time", "lat", "lon"],
    )  # fmt: skip
    target[...] = array
    return array


def run(capsys, *arguments):
    with pytest.raises(SystemExit) as ended:
        main([*map(str, arguments)])
    said = capsys.readouterr()
    return ended.value.code or 0, said.out, said.err


@pytest.mark.parametrize("source", ["x.npy", "x.zarr"])
@pytest.mark.parametrize("target", ["y.npy", "y.zarr"])
@pytest.mark.parametrize(
    "options, function",
    [
        ([], lambda x: x),
        (["--permute", "2,0,1"], lambda x: x.transpose(2, 0, 1)),
        (["--slice", "3:20:2,:,-4:", "--flip", "0,-1"], lambda x: x[3:20:2, :, -4:][::-1, :, ::-1]),
        (["--slice", "5", "--permute", "1,0"], lambda x: x[5].T),
        (["--slice", "20:99,::-1"], lambda x: x[20:99, ::-1]),
    ],
)
def test_arrays_are_as_numpy_makes_them(x, capsys, source, target, options, function):
    code, out, err = run(capsys, "rechunk", source, target, *options, "--memory", "40kB")
    assert (code, err) == (0, "")
    assert f"written to '{target}'" in out
    found = np.load(target) if target.endswith("npy") else zarr.open_array(target, mode="r")[...]
    np.testing.assert_array_equal(found, function(x))
    assert found.dtype == x.dtype


def test_chunks_codecs_and_names(x, capsys):
    command = ["rechunk", "x.zarr", "y.zarr", "--chunks", "4,-1,6", "--permute", "1,0,2", "--codec", "gzip:1"]
    assert run(capsys, *command)[0] == 0
    found = zarr.open_array("y.zarr", mode="r")
    assert found.chunks == (4, 24, 6)
    assert found.metadata.dimension_names == ("lat", "time", "lon")
    assert dict(found.attrs) == {"units": "K"}
    assert type(found.compressors[0]).__name__ == "GzipCodec"
    np.testing.assert_array_equal(found[...], x.transpose(1, 0, 2))


def test_dry_run_quiet_and_overwrite(x, capsys):
    code, out, _ = run(capsys, "rechunk", "x.zarr", "y.zarr", "--chunks", "24,6,5", "--dry-run")
    assert code == 0
    assert "writes 8640 B in 6 requests" in out
    assert sorted(os.listdir()) == ["x.npy", "x.zarr"]
    assert run(capsys, "rechunk", "x.zarr", "y.zarr", "--quiet") == (0, "", "")
    code, out, err = run(capsys, "rechunk", "x.zarr", "y.zarr", "--flip", "0")
    assert code == 2
    assert "y.zarr: exists already" in err
    assert run(capsys, "rechunk", "x.npy", "y.zarr", "-q", "--overwrite") == (0, "", "")


@pytest.mark.parametrize(
    "arguments, said",
    [
        (["x.zarr", "x.zarr"], "is an input, too"),
        (["x.zarr", "y.npy", "--chunks", "1,1,1"], "has no chunks"),
        (
            ["x.zarr", "y.zarr", "--chunks", "1,1"],
            "chunks has 2 sizes, (1, 1), but the array has 3 axes, (24, 18, 10): give one size per axis",
        ),
        (["x.zarr", "y.zarr", "--chunks", "a"], "one size per axis, separated by commas"),
        (["x.zarr", "y.zarr", "--permute", "0,0,1"], "must name each of its 3 axes once"),
        (["x.zarr", "y.zarr", "--flip", "3"], "the array has 3 axes"),
        (["x.zarr", "y.zarr", "--slice", "a:b"], "is not a slice"),
        (["x.zarr", "y.zarr", "--slice", "::0"], "is not a slice"),
        (["x.zarr", "y.zarr", "--slice", "99"], "slice takes element 99 of axis 0, whose size is 24"),
        (["x.zarr", "y.zarr", "--slice", ":,-19"], "slice takes element -19 of axis 1, whose size is 18"),
        (
            ["x.zarr", "y.zarr", "--slice", "3:1"],
            "x.zarr: slice 3:1 selects no element of axis 0, whose elements are 0",
        ),
        (["x.npy", "y.npy", "--slice", ":,3:3"], "slice 3:3 selects no element of axis 1, whose elements are 0 to 17"),
        (["x.zarr", "y.npy", "--slice", " 24: "], "slice 24: selects no element of axis 0, whose elements are 0 to 23"),
        (["x.npy", "y.zarr", "--slice", ":,:,1:9:-1"], "slice 1:9:-1 selects no element of axis 2"),
        (["x.zarr", "y.zarr", "--codec", "blosc:10"], "clevel from 0 to 9"),
        (["x.zarr", "y.zarr", "--codec", "gzip:10"], "level from 0 to 9"),
        (["x.zarr", "y.zarr", "--codec", "zstd:23"], "level from -131072 to 22"),
        (["x.zarr", "y.zarr", "--slice", "1,:", "--flip", "0"], "leave it out of flip"),
        (["x.zarr", "y.zarr", "--slice", ":,:,:,:"], "the array has 3 axes"),
        (
            ["x.npy", "y.zarr", "--slice", "time=0:1"],
            'has no axis "time": its axes have no names; write a slice per axis',
        ),
        (["x.zarr", "y.zarr", "--slice", "place=0:1"], 'has no axis "place": its axes are "time", "lat", "lon"'),
        (["x.zarr", "y.zarr", "--chunks", "1,0,1"], "chunks is (1, 0, 1): each size must be 1 or more"),
        (["x.zarr", "y.zarr", "--memory", "10B"], "--memory is 10 B"),
        (["x.zarr", "y.zarr", "--codec", "rot13"], "rot13"),
        *[
            (["x.npy", f"y{suffix}"], f"would be a {suffix} file, which is not written: name a .npy file, or a folder")
            for suffix in (".safetensors", ".gguf", ".npz", ".bin", ".ckpt", ".pt", ".pth", ".json", ".h5", ".n5")
        ],
        (["x.zarr", "y.zarr", "--codec", "zstd:"], "such as zstd:3"),
        (["x.npy", "y.npy", "--memory", "10B"], "must be at least 4096 B"),
        (["x.npy", "x.zarr"], "exists already: name another output, or replace it by --overwrite"),
        (["none.zarr", "y.zarr"], "there is no such file or folder"),
        (["x.npy", "x.zarr/y"], "would be in a Zarr array, which only has chunks: name a folder beside it"),
        (["x.npy", "x.zarr/of/y"], "would be in a Zarr array"),
    ],
)
def test_mistakes_are_one_line_and_exit_2(x, capsys, arguments, said):
    code, _, err = run(capsys, "rechunk", *arguments)
    assert code == 2
    assert said in err
    assert len(err.splitlines()) == 1
    assert sorted(os.listdir()) == ["x.npy", "x.zarr"]


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_an_array_of_a_npz_is_named(x, capsys, save):
    save("x.npz", **{"a": x, "b": np.asfortranarray(x), "layer/kernel": x})
    code, _, err = run(capsys, "rechunk", "x.npz", "y.npy")
    assert (code, err.count("\n")) == (2, 1)
    assert "name one of them, such as x.npz/a, or use anydml reshard" in err
    code, _, err = run(capsys, "rechunk", "x.npz/c", "y.npy")
    message = 'anydml: x.npz/c: is not an array of the file, which has "a", "b", "layer/kernel"'
    assert (code, err.strip()) == (2, message)
    assert not os.path.exists("y.npy")
    os.mkdir("layer")
    for name in ("a", "b", "layer/kernel"):
        assert run(capsys, "rechunk", f"x.npz/{name}", f"{name}.npy")[0] == 0
        np.testing.assert_array_equal(np.load(f"{name}.npy"), x)


@pytest.mark.parametrize("target", ["y.npy", "y.zarr"])
def test_what_has_nothing_is_written_as_it_is(x, capsys, target):
    np.save("none.npy", x[:, :0])
    assert run(capsys, "rechunk", "none.npy", target, "--slice", "2:,:")[0] == 0
    found = np.load(target) if target.endswith("npy") else zarr.open_array(target, mode="r")[...]
    assert (found.shape, found.dtype) == ((22, 0, 10), x.dtype)


@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize("rows", [0, 3])
def test_chunks_may_exceed_the_array(tmp_path, rows, version):
    x = np.arange(24.0).reshape(3, 8)[:rows]
    zarr.create_array(tmp_path / "g" / "x", data=x, chunks=(2, 5), zarr_format=version)
    zarr.open_group(tmp_path / "g", mode="a", zarr_format=version)
    for source, target in (("g/x", "y"), ("g", "h")):
        stores.rechunk(tmp_path / source, tmp_path / target, [7, 100]).run()
    for name in ("y", "h/x"):
        found = zarr.open_array(tmp_path / name, mode="a")
        assert found.chunks == (7, 100)
        assert (found[...] == x).all()
        found.append(x)
        assert (found[...] == np.concatenate([x, x])).all()


def test_as_a_function(x):
    stores.rechunk("x.zarr", "y.zarr", (24, 6, 5), memory="30kB").run()
    np.testing.assert_array_equal(stores.open("y.zarr").read(), x)
    with pytest.raises(ModelError):
        stores.rechunk("x.npy", "y.npy", (1, 1, 1))
    with pytest.raises(BindingError):
        stores.rechunk("x.npy", "z.npy", permute=(0, 1))


def test_stores_lists_zarr_arrays(x, capsys):
    code, out, _ = run(capsys, "stores", "x.zarr")
    assert code == 0
    assert "[24, 18, 10]" in out
    assert "Zarr 3, chunks [1, 18, 10], codec zstd" in out
    stores.rechunk("x.zarr", "s.zarr", (1, 18, 10), shards=(12, 18, 10)).run()
    assert "Zarr 3, chunks [1, 18, 10] in shards [12, 18, 10], codec zstd" in run(capsys, "stores", "s.zarr")[1]
    assert json.loads(run(capsys, "stores", "s.zarr", "--json")[1])["zarr"]["shards"] == [12, 18, 10]


@pytest.mark.parametrize("blocks", [0, 2])
def test_ctrl_c_says_what_is_kept_and_the_same_command_goes_on(x, capsys, monkeypatch, blocks):
    command = ["rechunk", "x.npy", "y.npy", "--permute", "2,1,0", "--memory", "8KB"]
    add, left = Journal.add, [blocks]

    def failing(self, block, size):
        left[0] -= 1
        if left[0] < 0:
            raise KeyboardInterrupt
        add(self, block, size)

    with monkeypatch.context() as patched:
        patched.setattr(Journal, "add", failing)
        code, _, err = run(capsys, *command)
    assert code == 130
    if blocks:
        assert f"anydml: y.npy: interrupted; {blocks} of 3 blocks" in err
        assert err.endswith(f"are kept in {Path.cwd() / '.y.npy.anydml-part'}; repeat the command to resume\n")
    else:
        assert err.endswith("anydml: y.npy: interrupted; nothing is kept\n")
    assert not Path("y.npy").exists()
    code, out, _ = run(capsys, *command)
    assert (code, "resumed: " in out) == (0, blocks > 0)
    np.testing.assert_array_equal(np.load("y.npy"), x.transpose(2, 1, 0))


@pytest.mark.parametrize("to", ["<f4", "float32", "fp32", "fp16", "float", "f8", ">f4"])
@pytest.mark.parametrize("name", ["y.npy", "y.zarr"])
def test_arrays_of_npy_files_get_another_order_of_bytes_or_dtype(tmp_path, to, name):
    values = np.random.default_rng(0).standard_normal((30, 7)).astype(">f4")
    np.save(tmp_path / "x.npy", np.asfortranarray(values))
    plan = stores.rechunk(tmp_path / "x.npy", tmp_path / name, permute=[1, 0], dtype=to)
    plan.run()
    expected = values.T.astype(
        {"fp16": "<f2", "float": "<f4", "f8": "<f8", "float32": "<f4", "fp32": "<f4"}.get(to, to)
    )
    found = stores.open(tmp_path / name)
    if name == "y.npy":
        assert found.dtype == expected.dtype
    assert (found.read() == expected).all()
    said = "" if to == ">f4" else "casts 1 tensor" if to in ("fp16", "f8") else "swaps the bytes of"
    assert [each.startswith(said) for each in plan.remarks] == [True] * bool(said)


@pytest.mark.parametrize(
    ("dtype", "to", "said"),
    [(">i2", "f4", "only floating-point numbers are cast.*such as <i2"), ("<f8", ">f4", "must be one of .* \">f4\""),
     ("<f4", "x", "must be one of .*, not \"x\"")],
)  # fmt: skip
def test_dtypes_that_are_not_written_are_refused(tmp_path, dtype, to, said):
    np.save(tmp_path / "x.npy", np.arange(6).astype(dtype))
    with pytest.raises(ModelError, match=said):
        stores.rechunk(tmp_path / "x.npy", tmp_path / "y.npy", dtype=to)
