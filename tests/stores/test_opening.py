"""Opening stores: what headers and indexes say, and what they may not."""

import json
import re
import subprocess
import sys
import tracemalloc
import zipfile
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
from stores.breaking_headers import broken_files, packed
from trust.children import environment

import anydml as dml
from anydml import stores
from anydml.errors import BindingError, ModelError
from anydml.files.location import Location
from anydml.stores.formats.columns import FileTensors
from anydml.stores.formats.new_header import make_header
from anydml.stores.formats.safetensors import DTYPES, NAMES


def written(path, tensors, metadata=None):
    """A safetensors file of arrays, by the header that we write."""
    described = {name: (a.shape, a.dtype) for name, a in tensors.items()}
    header, offsets, size = make_header(FileTensors.of(described), metadata or {}, Location("x"))
    content = bytearray(header.make())
    content += bytes(size - len(content))
    for array, at in zip(tensors.values(), offsets.tolist(), strict=True):
        content[at : at + array.nbytes] = array.tobytes()
    path.write_bytes(content)
    return path


def of_every_dtype(seed=0):
    rng = np.random.default_rng(seed)
    return {
        name: rng.integers(0, 2, (3, 5)).astype(dtype)
        if name == "BOOL"
        else np.frombuffer(rng.bytes(15 * dtype.itemsize), dtype).reshape(3, 5)
        for name, dtype in DTYPES.items()
    }


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("dtype", ["<f4", ">i2", "c16", "?", "S5"])
def test_a_npy_file_is_what_numpy_wrote(tmp_path, order, dtype):
    array = np.asarray(np.arange(24).reshape(2, 3, 4).astype(dtype), order=order)
    np.save(tmp_path / "x.npy", array)
    x = stores.open(tmp_path / "x.npy")
    assert (x.shape, x.dtype, x.ndim, x.size, x.nbytes, x.strides) == (
        (2, 3, 4), array.dtype, 3, 24, array.nbytes, array.strides,
    )  # fmt: skip
    np.testing.assert_array_equal(x.read(), array)


def test_safetensors_files_are_what_their_library_reads_and_writes(tmp_path):
    library = pytest.importorskip("safetensors")
    safe = pytest.importorskip("safetensors.numpy")
    arrays = {name: np.arange(6, dtype=name).reshape(2, 3) for name in ("f4", "f2", "u1", "i8", "c8")}
    safe.save_file(arrays, tmp_path / "theirs.safetensors", {"a": "b"})
    found = stores.open(tmp_path / "theirs.safetensors")
    assert found.metadata == {"a": "b"}
    assert {*found} == {*arrays}
    for name, array in arrays.items():
        np.testing.assert_array_equal(found[name].read(), array)
    path = written(tmp_path / "ours.safetensors", arrays, {"c": "d", "ü": "\n"})
    with library.safe_open(path, "numpy") as opened:
        assert opened.metadata() == {"c": "d", "ü": "\n"}
        for name, array in arrays.items():
            np.testing.assert_array_equal(opened.get_tensor(name), array)


def test_the_library_agrees_about_the_names_of_dtypes(tmp_path):
    safetensors = pytest.importorskip("safetensors")
    torch = pytest.importorskip("torch")
    path = written(tmp_path / "x.safetensors", of_every_dtype())
    of_torch = {
        "F8_E5M2": torch.float8_e5m2,
        "F8_E4M3": torch.float8_e4m3fn,
        "BF16": torch.bfloat16,
        "U16": torch.uint16,
    }
    with safetensors.safe_open(path, "pt") as opened:
        for name in DTYPES:
            assert opened.get_slice(name).get_dtype() == name
        for name, dtype in of_torch.items():
            found = opened.get_tensor(name)
            assert found.dtype == dtype
            assert found.view(torch.uint8).numpy().tobytes() == of_every_dtype()[name].tobytes()


def test_every_dtype_is_read(tmp_path):
    arrays = of_every_dtype()
    found = stores.open(written(tmp_path / "x.safetensors", arrays))
    assert [*found] == sorted(arrays, key=lambda name: -arrays[name].itemsize)
    for name, array in arrays.items():
        assert found[name].dtype == array.dtype
        assert found[name].read().tobytes() == array.tobytes()
    assert found["BF16"].dtype == ml_dtypes.bfloat16


@pytest.mark.parametrize("name", ["F4", "F6_E2M3", "F6_E3M2"])
def test_tensors_that_are_not_whole_bytes_are_refused(tmp_path, name):
    size = {"F4": 2}.get(name, 3)
    entries = {"x": {"dtype": name, "shape": [3], "data_offsets": [0, size]}}
    path = tmp_path / "x.safetensors"
    path.write_bytes(packed(json.dumps(entries).encode(), size))
    with pytest.raises(dml.ModelError, match=f"is an array of 1, whose elements of {name} are not whole bytes"):
        stores.open(path)
    entries["x"] |= {"shape": [0, 1], "data_offsets": [0, 0]}
    path.write_bytes(packed(json.dumps(entries).encode(), 0))
    said = rf"x: has shape \[0, 1\] of {name}, whose rows are not whole blocks of \d elements"
    with pytest.raises(dml.ModelError, match=said):
        stores.open(path)["x"]
    with pytest.raises(dml.ModelError, match=f"{said}.*; drop leaves it out"):
        stores.reshard([path], tmp_path / "y.safetensors")


@pytest.mark.parametrize(
    ("content", "tensors", "said"),
    [
        ('{"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},"b":{"dtype":"U8","shape":[4],"data_offsets":[2,6]}}', 6,
         "b: begins at byte 2, which overlaps the tensor before it: 4 is next"),
        ('{"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},"b":{"dtype":"U8","shape":[2],"data_offsets":[6,8]}}', 8,
         "b: begins at byte 6, which leaves a hole before it: 4 is next"),
        ('{"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]}}', 5,
         "has 5 bytes of tensors, but its header lists 4"),
        ('{"a":{"dtype":"U8","shape":[5],"data_offsets":[0,4]}}', 4, "has 4 bytes, which do not fit shape [5] of U8"),
        ('{"a":{"dtype":"U8","shape":[4],"data_offsets":[0,40]}}', 4, "has 40 bytes, which do not fit shape [4] of U8"),
        ('{"a":{"dtype":"U8","shape":[4],"data_offsets":[4,0]}}', 4, "integers from 0 in ascending order, not 4 and 0"),
        ('{"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4.0]}}', 4, "in ascending order, not 0 and 4.0"),
        ('{"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4],"n":NaN}}', 4, "is not JSON: it says NaN"),
        ('{"a\\ud800":{"dtype":"U8","shape":[4],"data_offsets":[0,4]}}', 4, "with \\ud800"),
        ('{"a":{"dtype":"U8","shape":[4294967296,4294967296,0],"data_offsets":[0,0]}}', 0, "64 bits cannot count"),
        ('{"a":{"dtype":"U8","shape":[true],"data_offsets":[0,1]}}', 1, "must be an integer from 0, not true"),
        ('{"a":{"dtype":"U8","shape":[0,9223372036854775807],"data_offsets":[0,0]}}', 1, "has 1 bytes of tensors"),
        ('{"a":{"dtype":"X","shape":[],"data_offsets":[0,1]}}', 1, 'must be one of BOOL'),
        ('{"a":{"dtype":"U8","shape":[]}}', 1, "has no data_offsets"),
        ('{"a":1,"a":2}', 0, 'has "a" twice in its header'),
        ('{"__metadata__":{"a":1}}', 0, "__metadata__.a: must be a string, not 1"),
        ("[]", 0, "is not an object, but an array of 0"),
        ("[" * 100_000, 0, "nested too deep"),
    ],
)  # fmt: skip
def test_a_broken_header_is_refused_with_its_reason(tmp_path, content, tensors, said):
    (tmp_path / "x.safetensors").write_bytes(packed(content.encode(), tensors))
    with pytest.raises(dml.ModelError) as refused:
        stores.open(tmp_path / "x.safetensors")
    assert said in str(refused.value)
    assert str(refused.value).startswith(str(tmp_path / "x.safetensors"))


@pytest.mark.parametrize("field", ["dtype", "shape", "data_offsets", "more"])
@pytest.mark.parametrize(("before", "after"), [("[", "]"), ('{"x":', "}")])
def test_a_field_nested_however_deep_is_no_crash(tmp_path, field, before, after):
    fields = {"dtype": '"U8"', "shape": "[1]", "data_offsets": "[0,1]"}
    for depth in (int(1.2**k) for k in range(20, 64)):
        fields[field] = before * depth + "1" + after * depth
        entry = ",".join(f'"{name}":{value}' for name, value in fields.items())
        (tmp_path / "x.safetensors").write_bytes(packed(f'{{"a":{{{entry}}}}}'.encode(), 1))
        if field == "more" and depth < 100:
            assert stores.open(tmp_path / "x.safetensors")["a"].shape == (1,)
        elif field != "more" or depth > 1000:
            with pytest.raises(dml.ModelError):
                stores.open(tmp_path / "x.safetensors")


def test_headers_are_opened_that_the_library_opens(tmp_path):
    library = pytest.importorskip("safetensors")
    path, opened = tmp_path / "x.safetensors", 0
    for content in broken_files(seed=7, count=2500):
        path.write_bytes(content)
        try:
            with library.safe_open(path, "numpy") as file:
                known = {name: file.get_slice(name) for name in file.keys()}  # noqa: SIM118
                wanted = {name: (each.get_dtype(), tuple(each.get_shape())) for name, each in known.items()}
                metadata = file.metadata() or {}
        except library.SafetensorError:
            wanted = None
        try:
            checkpoint, refused = stores.open(path), None
        except dml.ModelError as error:
            checkpoint, refused = None, str(error)
        if refused is not None:
            # What the library opens, and NumPy or the document of the format does not have.
            kinds = r"twice in its header|elements have \d bits|at most 64|must be an integer from 0, not \d{19,}"
            assert wanted is None or re.search(kinds, refused), (content, refused)
        else:
            assert {name: (NAMES[each.dtype], each.shape) for name, each in checkpoint.items()} == wanted, content
            assert checkpoint.metadata == metadata
            opened += bool(wanted)
    assert opened > 60


def test_further_keys_and_metadata_of_null_are_passed_over(tmp_path):
    entry = '"a":{"dtype":"U8","more":{"x":[1,{}]},"shape":[4],"data_offsets":[0,4]}'
    (tmp_path / "x.safetensors").write_bytes(packed(f'{{"__metadata__":null,{entry}}}'.encode(), 4))
    found = stores.open(tmp_path / "x.safetensors")
    assert (found["a"].shape, found["a"].dtype, found.metadata) == ((4,), np.uint8, {})
    plan = stores.reshard([tmp_path / "x.safetensors"], tmp_path / "y.safetensors")
    assert 'leaves out 1 object that is not a tensor: "a.more"' in plan.remarks


def test_a_file_that_was_cut_off_says_how_many_bytes_are_missing(tmp_path):
    path = written(tmp_path / "x.safetensors", {"a": np.ones(9), "b": np.ones((2, 3), "i2")})
    content = path.read_bytes()
    start = 8 + int.from_bytes(content[:8], "little")
    for size in range(8, len(content)):
        path.write_bytes(content[:size])
        with pytest.raises(dml.ModelError) as refused:
            stores.open(path)
        missing = len(content) - size if size >= start else start - size
        said = " 1 byte is missing" if missing == 1 else f" {missing} bytes are missing"
        assert said in str(refused.value), size


def test_a_header_that_no_library_reads_is_not_written(tmp_path):
    long = {f"{k}{'x' * 1_000_000}": (1,) for k in range(100)}
    with pytest.raises(dml.ModelError, match=r"header of \d+ bytes; the maximum is 100000000"):
        stores.create(tmp_path / "x.safetensors", shape=long, dtype="f4")
    with pytest.raises(dml.ModelError, match="has a name of 70000 bytes; a zip file has at most 65531"):
        stores.create(tmp_path / "x.npz", shape={"x" * 70000: (1,)}, dtype="f4")


def test_broken_headers_end_in_one_clear_line(tmp_path):
    path, lines = tmp_path / "x.safetensors", []
    for content in broken_files(seed=1, count=2000):
        path.write_bytes(content)
        try:
            stores.open(path)
        except dml.ModelError as error:
            lines.append(str(error))
    assert len(lines) > 1800
    assert all(len(line) < 1000 and line.isprintable() for line in lines)


def test_a_header_is_refused_before_memory_is_taken_for_it(tmp_path):
    shape = json.dumps({"x": {"dtype": "F32", "shape": [2**61], "data_offsets": [0, 2**63]}}).encode()
    for content in (
        (10**18).to_bytes(8, "little") + b"{",
        (90_000_000).to_bytes(8, "little") + b"{}",
        packed(shape, 8),
    ):
        (tmp_path / "x.safetensors").write_bytes(content)
        tracemalloc.start()
        with pytest.raises(dml.ModelError):
            stores.open(tmp_path / "x.safetensors")
        most = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert most < 1 << 20


def indexed(folder, weight_map):
    (folder / "model.safetensors.index.json").write_text(json.dumps({"metadata": {}, "weight_map": weight_map}))


def test_a_folder_is_read_by_its_index_or_without_one(tmp_path):
    a, b = np.arange(3, dtype=np.int32), np.arange(4.0)
    written(tmp_path / "1.safetensors", {"a": a}, {"x": "1"})
    written(tmp_path / "2.safetensors", {"b": b}, {"y": "2"})
    for _ in range(2):
        found = stores.open(tmp_path)
        assert (found.nbytes, found.metadata) == (a.nbytes + b.nbytes, {"x": "1", "y": "2"})
        np.testing.assert_array_equal(found["b"].read(), b)
        indexed(tmp_path, {"a": "1.safetensors", "b": "2.safetensors"})
    assert [*stores.open(tmp_path / "model.safetensors.index.json")] == ["a", "b"]


@pytest.mark.parametrize(
    "name", ["../out.safetensors", "/etc/passwd", "link.safetensors", "", ".", "a\0b", "sub", "no"]
)
def test_an_index_cannot_leave_its_folder(tmp_path, name):
    inside = tmp_path / "in"
    (inside / "sub").mkdir(parents=True)
    written(tmp_path / "out.safetensors", {"a": np.zeros(2)})
    (inside / "link.safetensors").symlink_to(tmp_path / "out.safetensors")
    indexed(inside, {"a": name})
    with pytest.raises(dml.ModelError, match="weight_map"):
        stores.open(inside)


def test_links_into_the_cache_of_a_hub_are_followed(tmp_path):
    snapshot = tmp_path / "snapshots" / "1234"
    snapshot.mkdir(parents=True)
    (tmp_path / "blobs").mkdir()
    written(tmp_path / "blobs" / "abcd", {"a": np.ones(2)})
    (snapshot / "model.safetensors").symlink_to("../../blobs/abcd")
    indexed(snapshot, {"a": "model.safetensors"})
    np.testing.assert_array_equal(stores.open(snapshot)["a"].read(), np.ones(2))


@pytest.mark.parametrize(
    ("weight_map", "said"),
    [
        ({"a": "1.safetensors", "b": "1.safetensors"}, "no tensor of this name"),
        ({}, "must be an object"),
        ({"a": 1}, "must be a file's name"),
        ([], "must be an object"),
        ({"a": "1.safetensors"}, "does not have \"c\", which the files have"),
    ],
)  # fmt: skip
def test_an_index_that_does_not_fit_its_files_is_refused(tmp_path, weight_map, said):
    written(tmp_path / "1.safetensors", {"a": np.zeros(2), "c": np.zeros(1)})
    if weight_map == {}:
        (tmp_path / "model.safetensors.index.json").write_text("[]")
    else:
        indexed(tmp_path, weight_map)
    with pytest.raises(dml.ModelError, match=said):
        stores.open(tmp_path)


def test_what_is_no_store_is_refused(tmp_path):
    (tmp_path / "x.bin").write_bytes(b"")
    (tmp_path / "empty").mkdir()
    for path in ("x.bin", "missing.npy", "empty", "a\0.npy"):
        with pytest.raises(dml.ModelError):
            stores.open(tmp_path / path)


def zipped_zarr(path):
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("zarr.json", "{}")


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda f: None, "is an empty folder"),
        (lambda f: [(f / n).write_bytes(b"") for n in ("a.pt", "b.txt")], 'name one of them, such as "a.pt"'),
        (lambda f: np.savez(f / "a.npz", x=1), 'name one of them, such as "a.npz"'),
        (lambda f: (f / "b.txt").write_text(""), 'has "b.txt", but neither an array nor a checkpoint'),
        (lambda f: [(f / n).mkdir() for n in ("snapshots", "manifests", "refs")], "is a repository of Icechunk"),
        (lambda f: [(f / n).mkdir(parents=True) for n in ("blobs", "snapshots/1f", "refs")], 'its snapshots/, "1f"'),
        (lambda f: zipped_zarr(f / "x.zip"), 'name one of them, such as "x.zip"'),
        (lambda f: (f / ".zmetadata").write_text("{}"), "as references of kerchunk in Parquet"),
        (lambda f: (f / "attributes.json").write_text("{}"), "has attributes.json, as folders of N5 have"),
    ],
)
def test_a_folder_that_is_not_read_is_told_what_it_is(tmp_path, make, said):
    make(tmp_path)
    for opened in (stores.open, lambda path: stores.reshard([path], tmp_path.parent / "out")):
        with pytest.raises(dml.ModelError) as raised:
            opened(tmp_path)
        assert said in str(raised.value)


@pytest.mark.parametrize("key", ["shape", "data_type", "chunk_grid", "codecs", "fill_value"])
def test_zarr_metadata_that_lack_a_key_are_told_which(tmp_path, key):
    zarr = pytest.importorskip("zarr")
    zarr.create_array(tmp_path / "x.zarr", shape=(4,), dtype="i4")
    said = json.loads((tmp_path / "x.zarr/zarr.json").read_text())
    said.pop(key)
    (tmp_path / "x.zarr/zarr.json").write_text(json.dumps(said))
    with pytest.raises(dml.ModelError, match=f"the key '{key}' is missing"):
        stores.open(tmp_path / "x.zarr")


@pytest.mark.parametrize("name", ["x.zip", "x.zarr.zip", "x.zarr"])
def test_a_zip_store_with_broken_metadata_is_refused(tmp_path, name):
    zipped_zarr(tmp_path / name)
    with pytest.raises(dml.ModelError, match=r"has a zarr\.json whose node_type must be"):
        stores.open(tmp_path / name)


def test_a_store_is_not_read_by_accident(tmp_path):
    np.save(tmp_path / "x.npy", np.arange(6))
    x = stores.open(tmp_path / "x.npy")
    with pytest.raises(dml.BindingError, match="not converted implicitly"):
        np.asarray(x)
    with pytest.raises(dml.BindingError, match="not converted implicitly"):
        x[0]
    for call in (lambda store: dml.split(store, 2), dml.copy):
        with pytest.raises(dml.DescError, match="x is <store"):
            call(x)
    (tmp_path / "x.npy").write_bytes((tmp_path / "x.npy").read_bytes()[:-1])
    with pytest.raises(dml.ModelError, match="has changed since it was opened"):
        x.read()


def test_broken_files_of_every_kind_are_refused_in_a_line():
    pytest.importorskip("zarr", reason='zarr-python is not installed: pip install "anydml[stores]"')
    # Not in this process: its table of interned strings takes 7.7 MB at once where it doubles, in whatever runs then.
    command = [sys.executable, "-W", "error", "-m", "stores.breaking_stores", "150", "4"]
    done = subprocess.run(command, check=False, env=environment(), capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout)["2"] > 150


def test_a_python_without_bz2_and_lzma_has_stores(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.arange(6).reshape(2, 3))
    code = """
import sys
sys.modules["_bz2"] = sys.modules["_lzma"] = None
from anydml import stores
from anydml.errors import BindingError, ModelError
stores.rechunk("x.npy", "y.npy", permute=[1, 0]).run()
"""
    subprocess.run([sys.executable, "-c", code], check=True, cwd=tmp_path)
    assert (np.load(tmp_path / "y.npy") == np.arange(6).reshape(2, 3).T).all()


@pytest.mark.parametrize("suffix", ["npy", "npz", "safetensors"])
def test_files_that_changed_since_they_were_opened(tmp_path, suffix):
    path = tmp_path / f"x.{suffix}"

    def write(*arrays):
        made = {f"w{k}": each for k, each in enumerate(arrays)}
        if suffix == "npy":
            np.save(path, arrays[-1])
        elif suffix == "npz":
            np.savez(path, **made)
        else:
            written(path, made)

    write(np.zeros(100), np.arange(4.0))
    opened = stores.open(path)
    before = opened if suffix == "npy" else opened["w1"]
    assert before.read().tolist() == [0, 1, 2, 3]
    write(np.arange(104.0), np.arange(4.0) + 9)
    with pytest.raises(ModelError, match="has changed since it was opened"):
        before.read()
    with pytest.raises(BindingError, match="has changed since it was opened"):
        dml.fuse(lambda x: x[::-1]).plan(before, stores.create(tmp_path / "y.npy", [4], before.dtype))
