"""Zarr arrays and groups in one file: zip stores, references of kerchunk, HDF5; read, listed, verified, and refused."""

import base64
import json
import math
import shutil
import struct
import zipfile

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from anydml import stores
from anydml.cli import main
from anydml.errors import BindingError, ModelError

zarr = pytest.importorskip("zarr", reason='zarr-python is not installed: pip install "anydml[stores]"')
h5py = pytest.importorskip("h5py")

pytestmark = [
    pytest.mark.filterwarnings("ignore:Numcodecs codecs"),
    pytest.mark.filterwarnings("ignore:The data type"),
]

X = np.arange(6 * 8 * 10, dtype="f4").reshape(6, 8, 10)


def zipped(path, make):
    store = zarr.storage.ZipStore(str(path), mode="w")
    make(store)
    store.close()


def out_of(capsys, *arguments):
    with pytest.raises(SystemExit) as ended:
        main([*map(str, arguments)])
    said = capsys.readouterr()
    return ended.value.code or 0, said.out, said.err


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"zarr_format": 2},
        {"compressors": None},
        {"shards": (4, 4, 10)},
        {"shards": (4, 4, 10), "compressors": None},
        {"filters": [zarr.codecs.TransposeCodec(order=(2, 0, 1))]},
    ],
)
def test_a_zip_store_is_an_array(tmp_path, options):
    path = tmp_path / "x.zip"
    zipped(path, lambda store: zarr.create_array(store, data=X, chunks=(2, 4, 5), **options))
    np.save(tmp_path / "x.npy", X)
    store = stores.open(path)
    np.testing.assert_array_equal(store.read(), X)
    assert stores.verify(path, tmp_path / "x.npy") is None
    plan = stores.rechunk(path, tmp_path / "y", [3, 8, 10], slices="::2", memory="1MB")
    plan.run()
    assert plan.verify() is None
    np.testing.assert_array_equal(zarr.open_array(str(tmp_path / "y"), mode="r")[...], X[::2])


def test_a_group_in_a_zip_store(tmp_path, capsys):
    def make(store):
        group = zarr.open_group(store, mode="w", attributes={"title": "maps"})
        group.create_array("deep/t", data=X, chunks=(2, 4, 5))
        group.create_array("u", data=np.arange(5))

    zipped(tmp_path / "x.zip", make)
    with zipfile.ZipFile(tmp_path / "x.zip", "a") as file:
        file.writestr("notes.txt", "x")
    plan = stores.rechunk(tmp_path / "x.zip", tmp_path / "y", [6, 8, 10])
    assert any('copies "u" as it is' in each for each in plan.remarks)
    assert 'leaves behind "notes.txt"' in plan.remarks
    plan.run()
    group = zarr.open_group(str(tmp_path / "y"), mode="r")
    assert group.attrs.asdict() == {"title": "maps"}
    np.testing.assert_array_equal(group["deep/t"][...], X)
    np.testing.assert_array_equal(group["u"][...], np.arange(5))
    assert stores.verify(tmp_path / "x.zip", tmp_path / "y") is None
    np.testing.assert_array_equal(stores.open(tmp_path / "x.zip/deep/t").read(), X)
    code, out, _ = out_of(capsys, "stores", tmp_path / "x.zip")
    assert code == 0
    assert [line.split()[0] for line in out.splitlines()[:2]] == ["u", "deep/t"]
    for source, target, said in (
        ("x.zip/none", "z", "there is no such file or folder"),
        ("x.zip/notes.txt", "z", "is not a file of arrays: expected .npy"),
        ("y/u", "x.zip/z", "x.zip, which is only read"),
        ("y/u", "x.zip", "exists already"),
    ):
        code, _, err = out_of(capsys, "rechunk", tmp_path / source, tmp_path / target, "-q")
        assert (code, said in err, len(err.splitlines())) == (2, True, 1), err


@pytest.mark.parametrize("name", ["x.h5", "x.nc", "x.mat"])
@pytest.mark.parametrize("inside", ["", "/t"])
def test_a_file_that_only_its_name_calls_hdf5(tmp_path, capsys, name, inside):
    (tmp_path / name).write_bytes(b"CDF\1" + bytes(100))
    for command in (["stores"], ["rechunk", tmp_path / "y.zarr"]):
        code, _, err = out_of(capsys, command[0], f"{tmp_path / name}{inside}", *command[1:])
        assert (code, "is not an HDF5 or NetCDF-4 file" in err, len(err.splitlines())) == (2, True, 1), err


def test_a_group_in_a_file_is_copied_to_an_address(tmp_path):
    pytest.importorskip("obstore")
    zipped(
        tmp_path / "x.zip", lambda store: zarr.open_group(store, mode="w").create_array("u", data=X, chunks=(6, 8, 5))
    )
    zarr.open_group(zarr.storage.ZipStore(str(tmp_path / "x.zip"), mode="a"), mode="a").create_array("t", data=X[0])
    stores.rechunk(tmp_path / "x.zip", "memory://inside/y", {"t": [2, 5]}, overwrite=True).run()
    assert stores.verify(tmp_path / "x.zip", "memory://inside/y") is None


def test_a_file_that_changes_is_noticed(tmp_path):
    path = tmp_path / "x.zip"
    zipped(path, lambda store: zarr.create_array(store, data=X, chunks=(2, 4, 5)))
    plan = stores.rechunk(path, tmp_path / "y")
    path.unlink()
    zipped(path, lambda store: zarr.create_array(store, data=X + 1, chunks=(6, 4, 5)))
    with pytest.raises(BindingError, match="has changed since it was opened"):
        plan.run()
    np.testing.assert_array_equal(stores.open(path).read(), X + 1)


def test_compressed_and_broken_zip_files_are_refused(tmp_path):
    zipped(tmp_path / "x.zip", lambda store: zarr.create_array(store, data=X))
    with (
        zipfile.ZipFile(tmp_path / "x.zip") as file,
        zipfile.ZipFile(tmp_path / "y.zip", "w", zipfile.ZIP_DEFLATED) as new,
    ):
        for name in file.namelist():
            new.writestr(name, file.read(name))
    with pytest.raises(ModelError, match=r'has entry "(zarr\.json|c/0/0/0)", which the zip file compresses'):
        stores.open(tmp_path / "y.zip")
    data = (tmp_path / "x.zip").read_bytes()
    (tmp_path / "z.zip").write_bytes(data.replace(b"PK\3\4", b"PK\3\5"))
    with pytest.raises(ModelError, match="there is no header of entry"):
        stores.open(tmp_path / "z.zip")


DATASETS = {
    "plain": (X, {}),
    "gzip": (X, {"chunks": (2, 4, 5), "compression": "gzip"}),
    "shuffled": (X, {"chunks": (4, 4, 5), "compression": "gzip", "shuffle": True, "fletcher32": True}),
    "shuffled alone": (X.astype(">i2"), {"chunks": (4, 4, 5), "shuffle": True}),
    "scalar": (np.float64(5), {}),
    "bools": (X > 3, {"chunks": (3, 3, 3)}),
    "complex": (X.astype("c8"), {}),
    "texts": (np.array([b"ab", b"c"]), {}),
    "records": (np.array([(1, 2.5)], [("a", "i4"), ("b", "f8")]), {}),
    "empty": (np.zeros((0, 3), "f4"), {}),
    "sub/deep": (np.arange(10), {}),
}


def hdf5(path, **options):
    with h5py.File(path, "w", **options) as file:
        file.attrs.update({"title": "T", "n": np.float32(3), "of": np.arange(2)})
        for name, (content, more) in DATASETS.items():
            file.create_dataset(name, data=content, **more)
        part = file.create_dataset("part", shape=X.shape, dtype="f8", chunks=(2, 4, 5), fillvalue=np.nan)
        part[2:4] = X[2:4]
        file.create_dataset("never", shape=(3, 4), dtype="i2", fillvalue=6)
        _with_unknown_filter(file, "unknown")
        file.create_dataset("references", data=["a", "b"], dtype=h5py.string_dtype())
        file["linked"], file["beyond"] = h5py.SoftLink("/never"), h5py.ExternalLink("y.h5", "/t")
        for axis, size in ("time", 6), ("lat", 8), ("lon", 10):
            file[axis] = np.arange(float(size))
            file[axis].make_scale(axis)
        for number, axis in enumerate(("time", "lat", "lon")):
            file["gzip"].dims[number].attach_scale(file[axis])
        file["gzip"].attrs["units"] = "K"


def _with_unknown_filter(file, name):
    """Create a dataset with a filter that no library has."""
    plist = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    plist.set_chunk((6,))
    plist.set_filter(32768, h5py.h5z.FLAG_OPTIONAL, ())
    h5py.h5d.create(file.id, name.encode(), h5py.h5t.NATIVE_INT32, h5py.h5s.create_simple((6,)), plist)


@pytest.mark.parametrize("options", [{}, {"libver": "latest"}, {"userblock_size": 512}, {"userblock_size": 2048}])
@pytest.mark.parametrize("version", [None, 3])
def test_hdf5_is_a_group(tmp_path, options, version):
    hdf5(tmp_path / "x.h5", **options)
    plan = stores.rechunk(tmp_path / "x.h5", tmp_path / "y", [6, 4, 10], zarr_format=version)
    assert (
        'leaves out "unknown", which has filter 32768, which h5py does not have: replace it by h5repack -f GZIP=4'
        in plan.remarks
    )
    assert any(each.startswith('leaves out "references", which is of dtype object') for each in plan.remarks)
    assert 'leaves out "linked", which is a link to "/never", which is not followed' in plan.remarks
    assert 'leaves out "beyond", which is a link to "/t" in the file "y.h5", which is not followed' in plan.remarks
    plan.run()
    assert plan.verify() is None
    differences = stores.compare(tmp_path / "x.h5", tmp_path / "y").differences
    left_out = ["unknown", "references", "linked", "beyond"]
    assert {(each.name, each.kind) for each in differences} == {(n, k) for n in left_out for k in ("unread", "missing")}
    group = zarr.open_group(str(tmp_path / "y"), mode="r")
    assert group.attrs.asdict() == {"title": "T", "n": 3.0, "of": [0, 1]}
    with h5py.File(tmp_path / "x.h5") as file:
        for name in (*DATASETS, "part", "never", "time"):
            assert group[name].dtype in (file[name].dtype, file[name].dtype.newbyteorder())
            np.testing.assert_array_equal(group[name][...], file[name][()])
            np.testing.assert_array_equal(stores.open(tmp_path / "x.h5" / name).read(), file[name][()])
    own = group["gzip"]
    axes = own.metadata.dimension_names if version else own.attrs["_ARRAY_DIMENSIONS"]
    assert ([*axes], own.attrs["units"]) == (["time", "lat", "lon"], "K")
    with pytest.raises(ModelError, match='linked: cannot be read: it is a link to "/never"'):
        stores.open(tmp_path / "x.h5/linked")
    with pytest.raises(ModelError, match="references: cannot be read: it is of dtype object"):
        stores.open(tmp_path / "x.h5/references")


def test_attributes_of_hdf5_that_json_cannot_hold_are_named(tmp_path):
    with h5py.File(tmp_path / "x.h5", "w") as file:
        file["t"] = X
        file["t"].attrs.update({"units": "K", "of": file["t"].ref, "raw": np.bytes_(b"\xff")})
        file.attrs.update({"z": 1j, "none": h5py.Empty("f4"), "title": np.bytes_(b"T")})
    plan = stores.rechunk(tmp_path / "x.h5", tmp_path / "y", [6, 4, 10])
    assert 'leaves out attributes that JSON cannot hold: "none", "z", "t.of", "t.raw"' in plan.remarks
    plan.run()
    group = zarr.open_group(str(tmp_path / "y"), mode="r")
    assert (group.attrs.asdict(), group["t"].attrs.asdict()) == ({"title": "T"}, {"units": "K"})
    same = stores.compare(tmp_path / "x.h5/t", tmp_path / "y/t")
    assert any("attributes that JSON cannot hold are not compared" in remark for remark in same.remarks)
    plan = stores.rechunk(tmp_path / "x.h5/t", tmp_path / "z", [6, 4, 10])
    assert 'leaves out attributes that JSON cannot hold: "t.of", "t.raw"' in plan.remarks


def test_chunks_that_are_counted_from_behind_the_user_block(tmp_path, monkeypatch):
    from anydml.stores.formats import hdf5 as module

    hdf5(tmp_path / "x.mat", userblock_size=1024)
    chunks, by = module._chunks, [-1024]
    monkeypatch.setattr(
        module, "_chunks", lambda data: [each._replace(byte_offset=each.byte_offset + by[0]) for each in chunks(data)]
    )
    np.testing.assert_array_equal(stores.open(tmp_path / "x.mat/gzip").read(), DATASETS["gzip"][0])
    by[0] = 5
    hdf5(tmp_path / "y.mat", userblock_size=1024)
    with pytest.raises(ModelError, match="has chunks whose places behind the user block are not known"):
        stores.open(tmp_path / "y.mat/gzip")


def test_chunks_of_zeros_do_not_tell_what_offsets_count_from(tmp_path, monkeypatch):
    from anydml.stores.formats import hdf5 as module

    x = np.arange(40_000, dtype="f4").reshape(40, 1000)
    x[:8] = 0
    with h5py.File(tmp_path / "v.mat", "w", userblock_size=512) as file:
        file["mask"] = np.zeros(4096, "u1")
        file.create_dataset("x", data=x, chunks=(4, 1000))
    chunks = module._chunks
    for by in 0, -512:
        monkeypatch.setattr(
            module, "_chunks", lambda data, by=by: [c._replace(byte_offset=c.byte_offset + by) for c in chunks(data)]
        )
        (tmp_path / f"{-by}.mat").write_bytes((tmp_path / "v.mat").read_bytes())
        np.testing.assert_array_equal(stores.open(tmp_path / f"{-by}.mat/x").read(), x)


def test_hdf5_without_its_library_is_named(tmp_path, monkeypatch):
    hdf5(tmp_path / "x.nc")
    monkeypatch.setattr("importlib.util.find_spec", lambda name, *_: None)
    with pytest.raises(ModelError, match=r"is an HDF5 or NetCDF-4 file, which h5py reads: pip install .anydml\[hdf5\]"):
        stores.open(tmp_path / "x.nc")


def kerchunk(path, url, **more):
    with h5py.File(path.parent / "x.h5") as file:
        at = int(file["plain"].id.get_offset())
    said = {"zarr_format": 2, "shape": [7, 8, 10], "chunks": [6, 8, 10], "dtype": "<f4", "order": "C", "fill_value": 0,
            "compressor": None, "filters": None}  # fmt: skip
    refs = {
        ".zgroup": {"zarr_format": 2}, ".zattrs": "base64:" + base64.b64encode(b'{"a": 1}').decode(),
        "t/.zarray": json.dumps(said), "t/0.0.0": [url, at, X.nbytes],
    }  # fmt: skip
    path.write_text(json.dumps({"version": 1, **more, "refs": refs} if more else refs))


@pytest.mark.parametrize("way", ["flat", "template", "whole path"])
def test_references_of_kerchunk(tmp_path, way):
    hdf5(tmp_path / "x.h5")
    more = {"flat": {}, "template": {"templates": {"u": "x"}}, "whole path": {"templates": {}}}[way]
    kerchunk(tmp_path / "k.json", {"flat": "x.h5", "template": "{{u}}.h5"}.get(way, str(tmp_path / "x.h5")), **more)
    plan = stores.rechunk(tmp_path / "k.json", tmp_path / "y", [4, 4, 4])
    assert any("x.h5" in each and "to which" in each for each in plan.remarks)
    plan.run()
    group = zarr.open_group(str(tmp_path / "y"), mode="r")
    np.testing.assert_array_equal(group["t"][...], np.concatenate([X, np.zeros_like(X[:1])]))
    assert group.attrs.asdict() == {"a": 1}
    (tmp_path / "x.h5").unlink()
    with pytest.raises((BindingError, ModelError), match=r"refers to .*x\.h5, which does not exist"):
        stores.rechunk(tmp_path / "k.json", tmp_path / "z", [4, 4, 4])


@pytest.mark.parametrize(
    "refs, more, said",
    [
        ({"a": 3}, {}, "must be a string, or a path with an offset and a size, not 3"),
        ({"a": ["x", -1, 2]}, {}, "must be a string, or a path"),
        ({"a": ["{{f(1)}}", 0, 2]}, {}, "a template that computes"),
        ({"a": ["{{u}}", 0, 2]}, {}, 'uses the template "u"'),
        ({"a": "base64:%"}, {}, "is not base64"),
        ({}, {"gen": [1]}, "computed"),
        ([], {}, "has no object of references"),
    ],
)
def test_broken_references_are_refused(tmp_path, refs, more, said):
    (tmp_path / "k.json").write_text(json.dumps({"version": 1, "refs": refs, **more}))
    with pytest.raises(ModelError, match=said):
        stores.open(tmp_path / "k.json")


def test_fill_values_that_version_2_leaves_out_are_zeros_in_3(tmp_path):
    for dtype in ("f4", "?", "S3", "U2", "c8", "i2"):
        made = zarr.create_array(
            str(tmp_path / "x"), shape=(4,), chunks=(2,), dtype=dtype, zarr_format=2, fill_value=None
        )
        made[:2] = np.ones(2, "i2").astype(dtype)
        stores.rechunk(tmp_path / "x", tmp_path / "y", zarr_format=3).run()
        expected = np.zeros(4, dtype)
        expected[:2] = np.ones(2, "i2").astype(dtype)
        np.testing.assert_array_equal(zarr.open_array(str(tmp_path / "y"), mode="r")[...], expected)
        for name in "xy":
            shutil.rmtree(tmp_path / name)


def test_groups_become_folders_and_files_with_nothing_else_asked(tmp_path):
    group = zarr.open_group(str(tmp_path / "g"), mode="w", zarr_format=2, attributes={"title": "maps"})
    group.create_array("x", data=np.arange(60).reshape(6, 10), chunks=(2, 5))
    group.create_array("deep/names", data=np.array(["a", "long"], np.dtypes.StringDType()))
    for source, target in ("g", "g.zip"), ("g.zip", "h"):
        stores.rechunk(tmp_path / source, tmp_path / target).run()
        assert stores.verify(tmp_path / "g", tmp_path / target) is None
    found = zarr.open_group(str(tmp_path / "h"), mode="r")
    assert (found.attrs["title"], [*found["deep/names"][...]]) == ("maps", ["a", "long"])
    np.testing.assert_array_equal(found["x"][...], group["x"][...])
    with pytest.raises(ModelError, match="say what is to be another"):
        stores.rechunk(tmp_path / "g", tmp_path / "k")


def _with_refused(path, **plain):
    """Write a file with an array that cannot be read, beside plain ones."""
    with h5py.File(path, "w") as file:
        _with_unknown_filter(file, "v")
        for name, array in plain.items():
            file.create_dataset(name, data=array)


def test_a_file_without_readable_arrays_says_why(tmp_path, capsys):
    path, out = tmp_path / "x.h5", tmp_path / "x.zarr"
    _with_refused(path)
    for options in ((), ("--chunks", "3")):
        code, _, error = out_of(capsys, "rechunk", path, out, *options)
        assert (code, 'has no arrays that can be read; "v" has filter 32768' in error) == (2, True)
    with h5py.File(path, "w") as file:
        file.create_group("g")
    assert out_of(capsys, "rechunk", path, out)[::2] == (2, f"anydml: {path}: has no arrays\n")
    assert not out.exists()


@pytest.mark.parametrize("second", ["copied", "the same file"])
def test_arrays_that_cannot_be_read_are_not_said_to_be_the_same(tmp_path, capsys, second):
    path, out = tmp_path / "x.h5", tmp_path / "x.zarr"
    _with_refused(path, w=np.arange(4))
    code, text, error = out_of(capsys, "rechunk", path, out, "-q")
    assert (code, text) == (0, "")
    assert error.startswith('anydml: warning: rechunk leaves out "v", which has filter 32768')
    code, text, _ = out_of(capsys, "verify", path, out if second == "copied" else path)
    assert (code, f'"v" is not compared, because in {path} it has filter 32768' in text) == (1, True)
    assert "1 not compared" in text.splitlines()[-1]
    assert text.endswith("; 1 array compared\n")
    assert ('"v" is only in the first' in text) == (second == "copied")


@settings(max_examples=15, deadline=None)
@given(data=st.data())
def test_filters_that_h5py_alone_has(tmp_path_factory, data):
    folder = tmp_path_factory.mktemp("lzf")
    shape = tuple(data.draw(st.lists(st.integers(1, 40), min_size=1, max_size=3)))
    chunks = tuple(data.draw(st.integers(1, size)) for size in shape)
    dtype = data.draw(st.sampled_from(("u1", "<f8", ">i4", "c8", "?", "f2", "S3")))
    filters = {"compression": "lzf", "shuffle": data.draw(st.booleans()), "fletcher32": data.draw(st.booleans())}
    if dtype == ">i4" and data.draw(st.booleans()):
        filters = {"scaleoffset": 0}
    rng = np.random.default_rng(0)
    elements = rng.integers(0, data.draw(st.sampled_from((1, 5))), shape).astype(dtype)
    if dtype in ("u1", "<f8"):
        # LZF leaves out chunks that it does not shrink.
        elements = rng.integers(0, 256, elements.nbytes, np.uint8).view(dtype).reshape(shape)
    with h5py.File(folder / "x.h5", "w") as file:
        file.create_dataset("x", data=elements, chunks=chunks, maxshape=[None for _ in shape], **filters)
    plan = stores.rechunk(folder / "x.h5/x", folder / "y.zarr", shape, memory="2MB")
    plan.run()
    assert plan.verify() is None
    with h5py.File(folder / "x.h5") as file:
        np.testing.assert_array_equal(zarr.open_array(folder / "y.zarr", mode="r")[...], file["x"][...])
    np.testing.assert_array_equal(stores.open(folder / "x.h5/x").read(), elements)


@settings(max_examples=20, deadline=None)
@given(data=st.data())
def test_strings_padded_in_each_way_of_hdf5(tmp_path_factory, data):
    folder = tmp_path_factory.mktemp("strings")
    padding = data.draw(st.sampled_from((h5py.h5t.STR_NULLTERM, h5py.h5t.STR_NULLPAD, h5py.h5t.STR_SPACEPAD)))
    size, count = data.draw(st.integers(2, 5)), data.draw(st.integers(1, 7))
    text, as_numpy = h5py.h5t.C_S1.copy(), h5py.h5t.C_S1.copy()
    for string_type, ending in ((text, padding), (as_numpy, h5py.h5t.STR_NULLPAD)):
        string_type.set_size(size)
        string_type.set_strpad(ending)
    is_record, creation = data.draw(st.booleans()), h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    strings = np.array([b" a", b"a b", b"", b"abcde", b"b "] * 2, f"S{size}")[:count]
    elements, kind, memory = strings, text, as_numpy
    if is_record:
        elements = np.zeros(count, [("s", f"S{size}"), ("n", "<i4")])
        elements["s"], elements["n"] = strings, range(count)
        kind, memory = (h5py.h5t.create(h5py.h5t.COMPOUND, size + 4) for _ in range(2))
        for record, member in ((kind, text), (memory, as_numpy)):
            record.insert(b"s", 0, member)
            record.insert(b"n", size, h5py.h5t.STD_I32LE)
    if data.draw(st.booleans()):
        creation.set_chunk((data.draw(st.integers(1, count)),))
        if data.draw(st.booleans()):
            creation.set_deflate(1)
    with h5py.File(folder / "x.h5", "w") as file:
        dataset = h5py.h5d.create(file.id, b"x", kind, h5py.h5s.create_simple((count,)), creation)
        dataset.write(h5py.h5s.ALL, h5py.h5s.ALL, elements, mtype=memory)
    stores.rechunk(folder / "x.h5/x", folder / "y.zarr", (2,), zarr_format=2).run()
    with h5py.File(folder / "x.h5") as file:
        np.testing.assert_array_equal(zarr.open_array(folder / "y.zarr", mode="r")[...], file["x"][...])


@pytest.mark.parametrize(("padding", "rest"), [("NULLTERM", b"\0zz"), ("SPACEPAD", b"   "), ("NULLPAD", b"\0\0\0")])
def test_strings_with_anything_after_their_end(tmp_path, padding, rest):
    """Contiguous, as C and Fortran write them: single strings, and more than fit in the memory."""
    string_type = h5py.h5t.C_S1.copy()
    string_type.set_size(8)
    string_type.set_strpad(getattr(h5py.h5t, f"STR_{padding}"))
    with h5py.File(tmp_path / "x.h5", "w") as file:
        for name, shape in (("scalar", ()), ("few", (2, 3)), ("many", (1500, 1000))):
            strings = np.tile(np.frombuffer(b"ab cd" + rest, "V8"), math.prod(shape)).reshape(shape)
            dataset = h5py.h5d.create(file.id, name.encode(), string_type, h5py.h5s.create_simple(shape))
            dataset.write(h5py.h5s.ALL, h5py.h5s.ALL, strings, mtype=string_type)
    memory = "40MB" if padding == "NULLPAD" else "10MB"
    stores.rechunk(tmp_path / "x.h5", tmp_path / "y.zarr", memory=memory).run()
    group = zarr.open_group(tmp_path / "y.zarr", mode="r")
    with h5py.File(tmp_path / "x.h5") as file:
        for name, dataset in file.items():
            np.testing.assert_array_equal(group[name][...], np.asarray(dataset[...], "S8"))
            np.testing.assert_array_equal(group[name][...], np.full(dataset.shape, b"ab cd", "S8"))


def test_numbers_in_other_forms_than_those_of_numpy_are_refused(tmp_path):
    integer, number = h5py.h5t.NATIVE_INT32.copy(), h5py.h5t.IEEE_F32LE.copy()
    integer.set_precision(24)
    number.set_fields(31, 26, 5, 0, 26)
    record = h5py.h5t.create(h5py.h5t.COMPOUND, 4)
    record.insert(b"a", 0, integer)
    types = {"i": integer, "f": number, "r": record, "plain": h5py.h5t.STD_I16BE}
    with h5py.File(tmp_path / "x.h5", "w") as file:
        for name, kind in types.items():
            h5py.h5d.create(file.id, name.encode(), kind, h5py.h5s.create_simple((4,)))
        file["plain"][...] = file["i"][...] = [1, -2, 3, -4]
    plan = stores.rechunk(tmp_path / "x.h5", tmp_path / "y", zarr_format=3)
    left = [remark for remark in plan.remarks if "has numbers in a form that NumPy lacks" in remark]
    assert [remark.partition(",")[0] for remark in left] == [f'leaves out "{name}"' for name in "fir"]
    plan.run()
    np.testing.assert_array_equal(zarr.open_array(tmp_path / "y/plain", mode="r")[...], [1, -2, 3, -4])


def test_fill_values_of_any_sign_and_datasets_that_zarr_has_no_dtype_for(tmp_path):
    nested = np.dtype([("a", "i4"), ("n", [("x", "f4")])])
    refused = {
        "nested": np.zeros(3, nested), "fields": np.zeros(3, [("v", "f4", (2,))]), "long": np.zeros(3, np.longdouble),
        "complex": np.zeros(3, np.clongdouble), "null": h5py.Empty("f4"),
    }  # fmt: skip
    with h5py.File(tmp_path / "x.h5", "w") as file:
        for name, content in refused.items():
            file[name] = content
        for value in (complex(np.nan, -0.0), complex(-0.0, 1), complex(-0.0, 0.0), complex(0.0, -np.inf)):
            name = f"fill {value}"
            file.create_dataset(name, (5,), "c8", chunks=(2,), fillvalue=value)
            assert stores.open(tmp_path / "x.h5" / name).read().tobytes() == file[name][...].tobytes()
    for name, said in {
        "nested": "no records of records or arrays: write each of these fields as a dataset",
        "fields": "no records of records or arrays: write each of these fields as a dataset",
        "long": "which Zarr does not have: write it as float64",
        "complex": "which Zarr does not have: write it as float64",
        "null": "has no elements, not even a shape",
    }.items():  # fmt: skip
        with pytest.raises(ModelError, match=said):
            stores.open(tmp_path / "x.h5" / name)


@pytest.mark.parametrize("options", [{}, {"chunks": (4,)}, {"chunks": (4,), "compression": "gzip", "shuffle": True}])
def test_records_with_bytes_between_their_fields(tmp_path, options):
    record = np.dtype({"names": ["b", "a"], "formats": [">f8", "i1"], "offsets": [8, 0], "itemsize": 20})
    x = np.zeros(10, record)
    x["a"], x["b"] = range(10), np.linspace(-1, 1, 10)
    fill = np.array((2.5, -3), record)
    with h5py.File(tmp_path / "x.h5", "w") as file:
        file.create_dataset("x", data=x, fillvalue=fill, **options)
        file.create_dataset("none", (7,), record, fillvalue=fill, **options)
    stores.rechunk(tmp_path / "x.h5", tmp_path / "y").run()
    for name in ("x", "none"):
        with h5py.File(tmp_path / "x.h5") as file:
            wanted = file[name][...]
        for found in (stores.open(tmp_path / "x.h5" / name).read(), zarr.open_array(tmp_path / "y" / name)[...]):
            assert found.dtype == np.dtype([("b", ">f8"), ("a", "i1")]) or found.dtype.isnative
            for field in "ab":
                np.testing.assert_array_equal(found[field], wanted[field])


@pytest.mark.parametrize("fill", [np.float32(-9), np.float32(np.nan), np.int16(-9)])
def test_missing_values_of_netcdf_in_version_3_are_as_xarray_writes_them(tmp_path, fill):
    with h5py.File(tmp_path / "x.h5", "w") as file:
        file.create_dataset("x", data=np.arange(4).astype(fill.dtype), fillvalue=fill).attrs["_FillValue"] = fill
    stores.rechunk(tmp_path / "x.h5", tmp_path / "y", zarr_format=3).run()
    attribute = json.loads((tmp_path / "y/x/zarr.json").read_text())["attributes"]["_FillValue"]
    number = struct.unpack("<d", base64.b64decode(attribute))[0] if fill.dtype == "f4" else attribute
    np.testing.assert_equal(number, fill.item())


@pytest.mark.parametrize(("old", "new"), [(2, 3), (3, 2)])
def test_fill_values_that_xarray_reads_otherwise_in_the_other_version_are_said(tmp_path, old, new):
    x = zarr.create_array(
        tmp_path / "x", shape=(4,), dtype="f4", fill_value=0, zarr_format=old,
        **({"dimension_names": ["time"]} if old == 3 else {"attributes": {"_ARRAY_DIMENSIONS": ["time"]}}),
    )  # fmt: skip
    x[...] = 1
    plan = stores.rechunk(tmp_path / "x", tmp_path / "y", zarr_format=new)
    assert "keeps the fill value, which xarray takes for a missing one in version 2 alone" in plan.remarks
