"""`verify` of arrays and groups, and `rechunk --verify`: equal however they are chunked, and each change is found."""

import json
import warnings
from pathlib import Path

import numpy as np
import pytest

from anydml import stores
from anydml.cli import main
from anydml.errors import BindingError, ModelError

zarr = pytest.importorskip("zarr", reason='zarr-python is not installed: pip install "anydml[stores]"')

BIG = zarr.codecs.BytesCodec(endian="big")
WAYS = {
    "chunks": {"chunks": (7, 5)},
    "plain chunks": {"chunks": (8, 17), "compressors": None},
    "shards": {"chunks": (4, 5), "shards": (12, 10)},
    "big-endian": {"chunks": (5, 5), "serializer": BIG},
    "big-endian shards": {"chunks": (5, 5), "shards": (10, 10), "serializer": BIG},
    "transposed": {"chunks": (5, 9), "filters": [zarr.codecs.TransposeCodec(order=(1, 0))]},
    "version 2": {"chunks": (6, 4), "zarr_format": 2, "order": "F"},
}


def array():
    return np.arange(24 * 17, dtype="f4").reshape(24, 17)


def written(path, x, **options):
    made = zarr.create_array(store=str(path), shape=x.shape, dtype=x.dtype, fill_value=0, **options)
    made[...] = x
    return made


def found(capsys, *arguments):
    with pytest.raises(SystemExit) as ended:
        main([*map(str, arguments)])
    said = capsys.readouterr()
    return ended.value.code or 0, said.out, said.err


@pytest.mark.parametrize("memory", ["40kB", "64MB"])
@pytest.mark.parametrize("other", [*WAYS, "npy", "npy in other order"])
@pytest.mark.parametrize("way", ["chunks", "shards"])
def test_each_changed_element_is_found_however_arrays_are_chunked(tmp_path, way, other, memory):
    x = array()
    y = x.copy()
    written(tmp_path / "a", x, **WAYS[way])
    for name, content in ("b", x), ("c", y):
        if name == "c":
            y[[3, 20, 20], [16, 2, 5]] = -1, np.nan, -0.0
        if other.startswith("npy"):
            np.save(tmp_path / f"{name}.npy", np.asfortranarray(content) if "order" in other else content)
        else:
            written(tmp_path / name, content, **WAYS[other])
    same, changed = (tmp_path / (name + ".npy" * other.startswith("npy")) for name in "bc")
    for one, another in ((tmp_path / "a", same), (same, tmp_path / "a")):
        assert stores.verify(one, another, memory=memory) is None
    for one, another, values in (
        (tmp_path / "a", changed, "67.0 and -1.0"),
        (changed, tmp_path / "a", "-1.0 and 67.0"),
    ):
        (difference,) = stores.compare(one, another, memory=memory).differences
        assert (difference.kind, difference.elements) == ("elements", 3)
        assert difference.text == f"the array differs at [3, 16]: {values}"


def test_values_that_are_equal_as_text_are_shown_as_bytes(tmp_path):
    quiet, other = (np.array([bits], np.uint32).view("f4") for bits in (0x7FC00000, 0x7FC00001))
    np.save(tmp_path / "a.npy", quiet)
    np.save(tmp_path / "b.npy", other)
    assert stores.verify(tmp_path / "a.npy", tmp_path / "a.npy") is None
    assert stores.verify(tmp_path / "a.npy", tmp_path / "b.npy") == "the array differs at [0]: 0000c07f and 0100c07f"


def test_what_lies_beside_elements_is_compared(tmp_path):
    x = array()
    for name, fill, axes, attributes in (
        ("a", 1, ["t", "x"], {"units": "K"}),
        ("b", 2, ["t", "y"], {"units": "C", "more": 1}),
    ):
        zarr.create_array(str(tmp_path / name), data=x, fill_value=fill, dimension_names=axes, attributes=attributes)
    texts = [each.text for each in stores.compare(tmp_path / "a", tmp_path / "b").differences]
    assert texts == [
        "fill values of the array differ: 1.0 and 2.0",
        'names of axes of the array differ: ["t", "x"] and ["t", "y"]',
        'attribute "units" of the array differs: "K" and "C"',
        'attribute "more" of the array differs: none and 1',
    ]


def test_attributes_are_compared_to_their_ends(tmp_path):
    for name, history in ("a", "x" * 500 + "A"), ("b", "x" * 500 + "B"):
        attributes = {"history": history, "of": {"p": 1, "q": 2} if name == "a" else {"q": 2, "p": 1}}
        zarr.create_array(str(tmp_path / name), data=array(), attributes=attributes)
    (found,) = stores.compare(tmp_path / "a", tmp_path / "b").differences
    assert found.text.startswith('attribute "history" of the array differs from character 501 on: …xx')
    assert 'A"…' in found.text
    assert 'B"…' in found.text


def of_any_length(group, name, pieces):
    """An array of pieces of bytes, which zarr-python alone reads."""
    with warnings.catch_warnings(action="ignore"):
        made = group.create_array(name, shape=len(pieces), dtype=zarr.dtype.VariableLengthBytes())
        made[...] = np.array([piece.encode() for piece in pieces], object)


def test_arrays_that_cannot_be_read_are_compared_by_their_files(tmp_path):
    for name, pieces in ("a", ["x", "y"]), ("b", ["x", "y"]), ("c", ["x", "z"]), ("d", None):
        group = zarr.open_group(str(tmp_path / name), mode="w")
        group.create_array("x", data=array())
        if pieces:
            of_any_length(group, "s", pieces)
    same = stores.compare(tmp_path / "a", tmp_path / "b")
    assert (same.differences, same.compared) == ([], 1)
    assert same.remarks[0].startswith('"s" is compared file by file: ')
    (other,) = stores.compare(tmp_path / "a", tmp_path / "c").differences
    assert other.text.startswith('"s" has other files in each')
    assert [each.text for each in stores.compare(tmp_path / "a", tmp_path / "d").differences] == [
        '"s" is only in the first'
    ]
    assert [each.kind for each in stores.compare(tmp_path / "d", tmp_path / "a").differences] == ["added"]


@pytest.mark.parametrize("shape", [(), (0, 3), (1,)])
def test_small_and_empty_arrays(tmp_path, shape):
    x = np.ones(shape, "i2")
    for name in "ab":
        zarr.create_array(str(tmp_path / name), data=x)
    np.save(tmp_path / "c.npy", x[..., None])
    assert stores.compare(tmp_path / "a", tmp_path / "b").compared == 1
    assert stores.verify(tmp_path / "a", tmp_path / "b") is None
    assert f"int16 {[*shape]} and int16 {[*shape, 1]}" in stores.verify(tmp_path / "a", tmp_path / "c.npy")


def group_of(path, x, version=3, **more):
    group = zarr.open_group(str(path), mode="w", zarr_format=version, attributes={"title": "maps"})
    names = {"dimension_names": ["t", "x"]} if version == 3 else {"attributes": {"_ARRAY_DIMENSIONS": ["t", "x"]}}
    group.create_array("temp", data=x, chunks=(5, 5), **names, **more)
    names = {"dimension_names": ["t"]} if version == 3 else {"attributes": {"_ARRAY_DIMENSIONS": ["t"]}}
    group.create_array("t", data=np.arange(len(x)), chunks=(5,), **names)
    group.create_group("deep").create_array("y", data=x[:3])
    return group


def test_groups_are_compared_array_by_array(tmp_path, capsys):
    x = array()
    group_of(tmp_path / "a", x)
    group_of(tmp_path / "b", x, 2)
    assert found(capsys, "verify", tmp_path / "a", tmp_path / "b")[:2] == (
        0, f"'{tmp_path / 'a'}' and '{tmp_path / 'b'}' hold the same arrays\n",
    )  # fmt: skip
    group = zarr.open_group(str(tmp_path / "b"), mode="r+")
    group.attrs["title"] = "other"
    group["deep/y"][2, 4] = 9
    del group["t"]
    group.create_array("new", data=x)
    code, out, _ = found(capsys, "verify", tmp_path / "a", tmp_path / "b")
    assert code == 1
    assert out.splitlines() == [
        '"t" is only in the first',
        '"new" is only in the second',
        'attribute "title" of the group differs: "maps" and "other"',
        '"deep/y" differs at [2, 4]: 38.0 and 9.0',
        "4 differences: 1 only in the first, 1 only in the second, 1 in metadata, 1 with other elements; "
        "2 arrays compared",
    ]


def test_what_is_not_compared_by_elements_is_named(tmp_path):
    for name in "ab":
        group = group_of(tmp_path / name, array())
        of_any_length(group, "texts", ["x", "y"])
    (tmp_path / "a/notes.txt").write_text("x")
    remarks = stores.compare(tmp_path / "a", tmp_path / "b").remarks
    assert any("is compared file by file:" in each and "dtype object" in each for each in remarks)
    assert any('these are not compared: "notes.txt"' in each for each in remarks)


@pytest.mark.parametrize(
    "arguments, said",
    [
        (["a", "b"], "is a group of arrays, and"),
        (["b", "a"], "is a group of arrays, and"),
        (["a", "none"], "none: there is no such file or folder"),
        (["a", "a", "--dtype", "bf16"], "are for checkpoints"),
        (["a", "a", "--only", "x"], "are for checkpoints"),
        (["a", "a", "--memory", "9kB"], "--memory is 9000 B, but must be at least"),
    ],
)
def test_mistakes(tmp_path, capsys, monkeypatch, arguments, said):
    monkeypatch.chdir(tmp_path)
    written("b", array(), chunks=(24, 17))
    group = group_of("a", array())
    group.create_array("whole", data=np.zeros((100, 100)), chunks=(100, 100))
    code, _, err = found(capsys, "verify", *arguments)
    assert (code, said in err, len(err.splitlines())) == (2, True, 1)


OPTIONS = {
    "chunks": ["--chunks", "5,4"],
    "views": ["--chunks", "3,9", "--permute", "1,0", "--flip", "1", "--slice", "2:20,::3"],
    "shards": ["--shards", "-1,10"],
    "version 2": ["--zarr-format", "2", "--codec", "blosc:lz4"],
}


@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.parametrize("source", ["big-endian shards", "chunks", "npy"])
@pytest.mark.parametrize("kind", ["zarr", "npy"])
def test_rechunk_reads_both_again(tmp_path, capsys, monkeypatch, options, source, kind):
    path = tmp_path / ("x.npy" if source == "npy" else "x")
    if source == "npy":
        np.save(path, array())
    else:
        written(path, array(), **WAYS[source])
    given = OPTIONS[options]
    if kind == "npy":
        given = given[2:] if options == "views" else []
    elif source == "npy" and options == "shards":
        given = [*given, "--chunks", "4,5"]
    output = tmp_path / ("y.npy" if kind == "npy" else "y")
    code, out, _ = found(capsys, "rechunk", path, output, *given, "--verify")
    assert (code, out.splitlines()[-1]) == (0, "verified: it holds the elements of its input")
    # A plan of before finds what has changed since.
    plan = stores.rechunk(path, tmp_path / ("z.npy" if kind == "npy" else "z"))
    plan.run()
    assert plan.verify() is None
    target = plan.outputs[0].path
    if kind == "npy":
        changed = np.load(target)
        changed[4, 3] = -5
        np.save(target, changed)
    else:
        zarr.open_array(str(target), mode="r+")[4, 3] = -5
    assert plan.verify() == f"{target} differs at [4, 3]: 71.0 and -5.0"
    code, out, _ = found(capsys, "rechunk", path, target, "--verify", "--json", "--overwrite", "-q")
    assert (code, json.loads(out)["verified"], json.loads(out)["difference"]) == (0, True, None)


def test_rechunk_of_a_group_compares_copied_files_too(tmp_path):
    group_of(tmp_path / "a", array())
    plan = stores.rechunk(tmp_path / "a", tmp_path / "b", [4, 4])
    plan.run()
    assert plan.verify() is None
    (copied,) = [path for path in plan.other_files if path.match("b/t/c/0")]
    copied.write_bytes(copied.read_bytes()[::-1])
    assert "has other bytes than were written" in plan.verify()


def test_plans_of_checkpoints_are_verified_otherwise(tmp_path):
    save = pytest.importorskip("safetensors.numpy").save_file
    save({f"{k}": np.ones(3, "f4") for k in range(3)}, tmp_path / "a.safetensors")
    plan = stores.reshard([tmp_path / "a.safetensors"], tmp_path / "b.safetensors")
    plan.run()
    with pytest.raises(BindingError, match=r"are compared by anydml\.stores\.verify"):
        plan.verify()


def test_rewrites_that_change_nothing_are_said(tmp_path):
    written(tmp_path / "x", array(), **WAYS["shards"])
    said = "changes nothing"
    assert any(said in each for each in stores.rechunk(tmp_path / "x", tmp_path / "y").remarks)
    assert any(said in each for each in stores.rechunk(tmp_path / "x", tmp_path / "y", [4, 5], slices=":,:").remarks)
    for options in ({"flip": [0]}, {"permute": [1, 0]}, {"slices": "1:"}, {"codec": "zstd:7"}, {"chunks": [4, 2]}):
        assert not any(said in each for each in stores.rechunk(tmp_path / "x", tmp_path / "y", **options).remarks)


def test_rewrites_of_files_and_groups_that_change_nothing_are_said(tmp_path):
    np.save(tmp_path / "x.npy", array())
    np.save(tmp_path / "f.npy", np.asfortranarray(array()))
    said = {name: stores.rechunk(tmp_path / name, tmp_path / "y.npy", slices=":,0:24").remarks
            for name in ("x.npy", "f.npy")}  # fmt: skip
    assert said == {"x.npy": ["changes nothing: this writes the same elements in the same order"], "f.npy": []}
    group_of(tmp_path / "a", array())
    for options in ({"chunks": [5, 5]}, {"chunks": {"temp": [5, 5]}}, {"slices": "t=:,x=0:"}):
        remarks = stores.rechunk(tmp_path / "a", tmp_path / "b", **options).remarks
        assert sum('changes nothing of "' in each and '"temp"' in each for each in remarks) == 1
    for options in ({"chunks": [5, 4]}, {"slices": "x=1:"}, {"codec": "gzip"}):
        remarks = stores.rechunk(tmp_path / "a", tmp_path / "b", **options).remarks
        assert not any("changes nothing" in each and '"temp"' in each for each in remarks)


@pytest.mark.parametrize("version", [2, 3])
def test_an_array_is_sliced_by_names_of_axes(tmp_path, version):
    x = array()
    group_of(tmp_path / "a", x, version)
    stores.rechunk(tmp_path / "a/temp", tmp_path / "b", slices="x=:7:2,t=20:3:-4").run()
    np.testing.assert_array_equal(zarr.open_array(str(tmp_path / "b"), mode="r")[...], x[20:3:-4, :7:2])
    np.save(tmp_path / "x.npy", x)
    for source, said in ("a/temp", 'has no axis "q": its axes are "t", "x"'), ("x.npy", "have no names"):
        with pytest.raises(ModelError, match=said):
            stores.rechunk(tmp_path / source, tmp_path / "c", slices="q=1:")


@pytest.mark.parametrize("version", [2, 3])
def test_a_group_is_sliced_by_names_of_axes(tmp_path, version):
    x = array()
    group_of(tmp_path / "a", x, version)
    stores.rechunk(tmp_path / "a", tmp_path / "b", slices="t=20:3:-4,x=:7", zarr_format=5 - version).run()
    group = zarr.open_group(str(tmp_path / "b"), mode="r")
    np.testing.assert_array_equal(group["temp"][...], x[20:3:-4, :7])
    np.testing.assert_array_equal(group["t"][...], np.arange(24)[20:3:-4])
    np.testing.assert_array_equal(group["deep/y"][...], x[:3])


@pytest.mark.parametrize(
    "slices, said",
    [
        ("3:4", "slice is .3:4., but must be a slice of a named axis, such as time=0:10"),
        ("t=3", "or time=5:6 for one element"),
        ("t=1:2,t=1:3", "each axis once"),
        ("t=1:2, t=1:3", "each axis once"),
        ("t=::0", "slice is .t=::0., but must be a slice of a named axis"),
        ("q=1:2", 'has no axis "q"; it has "t", "x"'),
        ("t=9:3", 'slices select no element of "t"'),
    ],
)
def test_other_slices_of_groups_are_refused(tmp_path, slices, said):
    group_of(tmp_path / "a", array())
    with pytest.raises((BindingError, ModelError), match=said):
        stores.rechunk(tmp_path / "a", tmp_path / "b", slices=slices)
    assert not Path(tmp_path / "b").exists()


def test_records_whose_fields_have_other_byte_orders_are_compared(tmp_path):
    dtype = np.dtype([("a", "<i2"), ("b", ">f4")])
    x = np.zeros(10, dtype)
    x["a"], x["b"] = np.arange(10), np.arange(10) / 3
    with warnings.catch_warnings(action="ignore"):
        zarr.create_array(tmp_path / "two", data=x, chunks=(4,), zarr_format=2)
        plan = stores.rechunk(tmp_path / "two", tmp_path / "three", zarr_format=3)
        plan.run()
        assert plan.verify() is None
        assert stores.verify(tmp_path / "two", tmp_path / "three") is None
        again = zarr.open_array(tmp_path / "three", mode="r+")
        np.testing.assert_array_equal(again[...], x)
        changed = x[7:8].copy()
        changed["b"] = 8
        again[7:8] = changed
        assert "differs at [7]" in str(stores.verify(tmp_path / "two", tmp_path / "three"))


@pytest.mark.parametrize("orders", [("C", "C"), ("C", "F"), ("F", "F")])
@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_arrays_of_npz_files_are_compared_in_each_order(tmp_path, save, orders):
    x = np.random.default_rng(0).standard_normal((5, 6, 7))
    y = x.copy()
    y[3, 1, 6] = 2
    ordered = [np.asarray(x, order=orders[0]), np.asarray(x, order=orders[1]), np.asarray(y, order=orders[1])]
    save(tmp_path / "x.npz", **dict(zip("abc", ordered, strict=True)))
    np.save(tmp_path / "b.npy", ordered[1])
    np.save(tmp_path / "c.npy", ordered[2])
    a, b, c = (tmp_path / "x.npz" / name for name in "abc")
    for same, changed in ((b, c), (tmp_path / "b.npy", tmp_path / "c.npy")):
        assert stores.verify(a, same) is None
        assert stores.verify(same, a) is None
        assert stores.verify(a, changed) == f"the array differs at [3, 1, 6]: {x[3, 1, 6]} and 2.0"
        assert stores.verify(changed, a) == f"the array differs at [3, 1, 6]: 2.0 and {x[3, 1, 6]}"
    with pytest.raises(ModelError, match=r"is not a checkpoint: name a \.safetensors file"):
        stores.manifest(zarr.open_group(tmp_path / "g", mode="w").store.root)
    with pytest.raises(ModelError, match='is not an array of the file, which has "a", "b", "c"'):
        stores.verify(a, tmp_path / "x.npz" / "d")
