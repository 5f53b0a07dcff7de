"""Files of other libraries: what they wrote is found, nothing is run, and what is broken ends with one line."""

import io
import json
import os
import pickle
import shutil
import struct
import zipfile

import ml_dtypes
import numpy as np
import pytest
from safetensors.numpy import save_file

import anydml as dml
from anydml import stores
from anydml.errors import ModelError
from anydml.files.location import Location
from anydml.stores.formats.pickle_reader import read_pickle

RNG = np.random.default_rng(5)


def read(path):
    found = stores.open(path)
    return {name: each.read() for name, each in found.items()}


def opened(path):
    """The stores of a file, within it; or the error of it, or of one of them, of one line."""
    try:
        found = stores.open(path)
        for error in found.refused.values():
            raise error
    except ModelError as error:
        found = str(error)
    if isinstance(found, str):
        assert "\n" not in found
        assert len(found) < 1000
    else:
        assert all(each.offset + each.nbytes <= path.stat().st_size for each in found.values())
    return found


def assert_equal(found, wanted):
    assert [*found] == [*wanted]
    for name, each in wanted.items():
        assert found[name].dtype == each.dtype, name
        assert found[name].tobytes() == each.tobytes(), name
        assert found[name].shape == each.shape, name


@pytest.fixture
def arrays():
    return {
        "a": RNG.integers(0, 99, (3, 5)),
        "b": np.asfortranarray(RNG.random((4, 6), np.float32)),
        "c.d": np.array(7, np.int8),
        "empty": np.zeros((0, 3)),
    }


def test_npz(arrays, tmp_path):
    np.savez(tmp_path / "x.npz", **arrays)
    assert_equal(read(tmp_path / "x.npz"), arrays)
    np.savez_compressed(tmp_path / "y.npz", **arrays)
    assert_equal(read(tmp_path / "y.npz"), arrays)


def test_npz_as_safetensors(arrays, tmp_path):
    np.savez(tmp_path / "x.npz", **arrays)
    stores.reshard([tmp_path / "x.npz"], tmp_path / "x.safetensors").run()
    assert_equal(dict(sorted(read(tmp_path / "x.safetensors").items())), dict(sorted(arrays.items())))
    assert stores.verify(tmp_path / "x.npz", tmp_path / "x.safetensors") is None


def test_npz_is_written_as_numpy_reads_it(arrays, tmp_path):
    arrays |= {"große": np.arange(300_000, dtype=np.int16), "c/d": np.array([True, False])}
    np.savez(tmp_path / "x.npz", **arrays)
    stores.reshard([tmp_path / "x.npz"], tmp_path / "y.npz", memory="64KB").run()
    with zipfile.ZipFile(tmp_path / "y.npz") as file:
        assert file.testzip() is None
    with np.load(tmp_path / "y.npz") as found:
        assert_equal({name: found[name] for name in found}, arrays)
    assert_equal(read(tmp_path / "y.npz"), arrays)


def test_npz_of_more_entries_than_sixteen_bits_count(tmp_path):
    # Empty arrays, for entries count, not bytes.
    made = stores.create(tmp_path / "x.npz", {f"{k}": [0] for k in range(1 << 16)} | {"last": [1]}, np.int8)
    np.save(tmp_path / "w.npy", np.ones(1, np.int8))
    dml.fuse(lambda w: dict.fromkeys(made, w[:0]) | {"last": w}).plan(stores.open(tmp_path / "w.npy"), made).run()
    with zipfile.ZipFile(tmp_path / "x.npz") as file:
        assert len(file.namelist()) == (1 << 16) + 1
        assert file.testzip() is None
    with np.load(tmp_path / "x.npz") as found:
        assert found["last"] == 1


@pytest.mark.parametrize("dtype", ["bfloat16", "float8_e4m3fn"])
def test_npz_refuses_dtypes_of_others(dtype, tmp_path):
    with pytest.raises(ModelError, match="w: cannot store dtype"):
        stores.create(tmp_path / "x.npz", {"w": [3]}, dtype)


class TestTorch:
    @pytest.fixture(autouse=True)
    def torch(self):
        return pytest.importorskip("torch")

    def test_all_dtypes(self, torch, tmp_path):
        names = "float64 float32 float16 bfloat16 int64 int32 int16 int8 uint8 uint16 uint32 uint64 bool complex64 "
        names += "float8_e4m3fn float8_e5m2"
        raw = torch.randint(0, 2, (64,)).to(torch.uint8)
        saved = {name: raw.clone().view(getattr(torch, name)) for name in names.split()}
        torch.save(saved, tmp_path / "x.pt")
        found = read(tmp_path / "x.pt")
        assert [*found] == names.split()
        for name, each in found.items():
            assert each.dtype.name == name
            assert each.tobytes() == raw.numpy().tobytes()

    def test_what_is_there_twice_has_two_names(self, torch, tmp_path):
        shared = {"w": torch.arange(3.0)}
        torch.save({"a": shared, "b": [shared, shared]}, tmp_path / "x.pt")
        assert {*read(tmp_path / "x.pt")} == {"a.w", "b.0.w", "b.1.w"}
        own = torch.nn.Sequential(layer := torch.nn.Linear(3, 2), layer)
        torch.save(own, tmp_path / "y.pt")
        assert_equal(read(tmp_path / "y.pt"), {name: each.numpy() for name, each in own.state_dict().items()})

    def test_modules_views_and_nested_values(self, torch, tmp_path):
        layer = torch.nn.Linear(3, 4)
        base = torch.arange(60.0).reshape(3, 4, 5)
        saved = {
            "model": layer.state_dict(),
            "parameter": torch.nn.Parameter(base[1]),
            "list": [base[0, 0], {"deep": base[2, 3]}],
            "turned": base[0].T,
            "tied": layer.weight,
            "epoch": 3,
            "name": "x",
            "empty": torch.zeros(0, 2),
            "number": torch.tensor(2.5),
            7: base,
        }
        torch.save(saved, tmp_path / "x.bin")
        wanted = {
            "model.weight": layer.weight, "model.bias": layer.bias, "parameter": base[1], "list.0": base[0, 0],
            "list.1.deep": base[2, 3], "turned": base[0].T, "tied": layer.weight, "empty": torch.zeros(0, 2),
            "number": torch.tensor(2.5), "7": base,
        }  # fmt: skip
        assert_equal(read(tmp_path / "x.bin"), {name: each.detach().numpy() for name, each in wanted.items()})

    @pytest.mark.parametrize("protocol", [2, 3, 4, 5])
    def test_protocols(self, torch, protocol, tmp_path):
        saved = {f"w{k}": torch.full((2, 3), float(k)) for k in range(300)}
        torch.save(saved, tmp_path / "x.pth", pickle_protocol=protocol)
        assert_equal(read(tmp_path / "x.pth"), {name: each.numpy() for name, each in saved.items()})

    def test_what_is_not_read(self, torch, tmp_path):
        for value, message in (
            ({"w": torch.zeros(1).expand(3)}, "skip or repeat elements of its storage: save a contiguous copy"),
            ({"w": torch.zeros(4, 4)[:, :2]}, "skip or repeat elements"),
            ({"w": torch.eye(3).to_sparse()}, "is sparse: only dense tensors can be read; drop leaves it out"),
        ):
            torch.save(value, tmp_path / "x.pt")
            with pytest.raises(ModelError, match=message):
                stores.reshard([tmp_path / "x.pt"], tmp_path / "x.safetensors")

    @pytest.mark.filterwarnings("ignore")
    def test_models_of_torchscript(self, torch, tmp_path):
        torch.jit.save(torch.jit.script(torch.nn.Linear(2, 2)), tmp_path / "x.pt")
        with pytest.raises(ModelError, match="is a model of TorchScript"):
            stores.open(tmp_path / "x.pt")

    def test_reshard_reads_it(self, torch, tmp_path):
        saved = {"w": torch.randn(40, 50).bfloat16(), "t": torch.randn(6, 4).T}
        torch.save(saved, tmp_path / "x.bin")
        stores.reshard([tmp_path / "x.bin"], tmp_path / "x.safetensors").run()
        found = stores.open(tmp_path / "x.safetensors")
        assert found["t"].read().tobytes() == saved["t"].contiguous().numpy().tobytes()
        assert stores.verify(tmp_path / "x.bin", tmp_path / "x.safetensors") is None

    def test_folders_of_bin_files(self, torch, tmp_path):
        saved = {f"w{k}": torch.randn(5, 6) for k in range(4)}
        wanted = {name: each.numpy() for name, each in saved.items()}
        whole, parts = tmp_path / "whole", tmp_path / "parts"
        for folder in (whole, parts):
            folder.mkdir()
            (folder / "config.json").write_text("{}")
        torch.save(saved, whole / "pytorch_model.bin")
        files = {name: f"pytorch_model-{k % 2 + 1:05}-of-00002.bin" for k, name in enumerate(saved)}
        for file in sorted({*files.values()}):
            torch.save({name: saved[name] for name in saved if files[name] == file}, parts / file)
        (parts / "pytorch_model.bin.index.json").write_text(json.dumps({"weight_map": files}))
        for folder in (whole, parts):
            assert_equal(dict(sorted(read(folder).items())), wanted)
            plan = stores.reshard([folder], tmp_path / f"{folder.name}-out")
            assert not any('.bin"' in remark for remark in plan.remarks)
            plan.run()
            assert stores.verify(folder, tmp_path / f"{folder.name}-out") is None
            assert (tmp_path / f"{folder.name}-out" / "config.json").exists()

    def test_broken_files(self, torch, tmp_path):
        torch.save({"w": torch.arange(20.0), "n": [torch.zeros(3, 4)]}, tmp_path / "x.pt")
        whole = (tmp_path / "x.pt").read_bytes()
        rng = np.random.default_rng(11)
        refused = 0
        for _ in range(400):
            content = bytearray(whole)
            for at in rng.integers(0, len(whole), rng.integers(1, 6)):
                content[at] = rng.integers(256)
            (tmp_path / "x.pt").write_bytes(
                content[: rng.integers(1, len(whole) + 1)] if rng.random() < 0.3 else content
            )
            refused += isinstance(opened(tmp_path / "x.pt"), str)
        assert refused > 100


class Evil:
    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return os.mkdir, (str(self.path),)


def zipped(tmp_path, content):
    with zipfile.ZipFile(tmp_path / "x.pt", "w") as archive:
        archive.writestr("x/data.pkl", content)
        archive.writestr("x/data/0", bytes(64))
    return tmp_path / "x.pt"


@pytest.mark.parametrize("protocol", range(6))
def test_a_pickle_runs_nothing(protocol, tmp_path):
    content = pickle.dumps({"w": Evil(tmp_path / "made")}, protocol)
    found = opened(zipped(tmp_path, content))
    assert isinstance(found, str) or not found
    assert not (tmp_path / "made").exists()


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b".",
        b"\x80\x02}",
        b"\x80\x02r\xff\xff\xff\xff.",  # a memo of 2³² places
        b"\x80\x02]q\x00h\x00a.",  # a list inside itself
        b"\x80\x04\x8a\xff.",
        b"\x80\x02" + b"(" * 100_000 + b".",
        b"\x80\x02" + b"]" * 50_000 + b"a" * 49_999 + b".",  # 50,000 lists inside each other
        b"\x80\x02N" + b"\x85" * 100_000 + b".",
        b"\x80\x02X\xff\xff\xff\x7fabc.",
        b"\x80\x02]q\x00" + b"(" + b"h\x00h\x00e" * 50 + b".",
        b"cos\nsystem\n(S'true'\ntR.",
        b"\x82\x01.",
        b"\x80\x02}(X\x01\x00\x00\x00wctorch._utils\n_rebuild_tensor_v2\n(tRu.",
        b"\x80\x02}(X\x01\x00\x00\x00wctorch._utils\n_rebuild_tensor_v2\nNRu.",
    ],
)
def test_hostile_pickles_end_with_one_line(content, tmp_path):
    found = opened(zipped(tmp_path, content))
    assert isinstance(found, str) or not found


def test_an_entry_without_a_name(tmp_path):
    for name in ("x.pt", "x.npz"):
        with zipfile.ZipFile(tmp_path / name, "w") as archive:
            archive.writestr(zipfile.ZipInfo(""), b"")
        assert isinstance(opened(tmp_path / name), str)


def test_pickles_are_data():
    value = {"a": [1, 2.5, (True, None)], "b": {"c": b"x", "d": "ä"}, "e": 1 << 90}
    for protocol in range(2, 6):
        found = read_pickle(pickle.dumps(value, protocol), Location("x"))
        assert dict(found)["a"] == value["a"]
        assert dict(dict(found)["b"])["d"] == "ä"
        assert dict(found)["e"] == 1 << 90


def gguf_file(path, tensors, keys=(), alignment=32, kinds=None):
    """A file as the document of GGUF says."""
    out = io.BytesIO()

    def text(value):
        out.write(struct.pack("<Q", len(value)) + value.encode())

    out.write(b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(keys)))
    for key, kind, content in keys:
        text(key)
        out.write(struct.pack("<I", kind) + content)
    offset, types = 0, {"float32": 0, "float16": 1, "int8": 24, "int16": 25, "int32": 26, "int64": 27, "float64": 28,
                        "bfloat16": 30}  # fmt: skip
    for name, each in tensors.items():
        text(name)
        out.write(struct.pack("<I", each.ndim) + struct.pack(f"<{each.ndim}Q", *each.shape[::-1]))
        out.write(struct.pack("<IQ", (kinds or {}).get(name, types[each.dtype.name]), offset))
        offset += -(-each.nbytes // alignment) * alignment
    out.write(bytes(-out.tell() % alignment))
    for each in tensors.values():
        out.write(each.tobytes() + bytes(-each.nbytes % alignment))
    path.write_bytes(out.getvalue())


@pytest.fixture
def numbers():
    names = ("float32", "float16", "int8", "int16", "int32", "int64", "float64", ml_dtypes.bfloat16)
    return {f"blk.{k}.w": RNG.integers(0, 99, (k + 1, 3, 5)[: 1 + k % 3]).astype(name) for k, name in enumerate(names)}


@pytest.mark.parametrize("alignment", [8, 32, 64])
def test_gguf(numbers, alignment, tmp_path):
    array = struct.pack("<IQ", 8, 2) + struct.pack("<Q", 1) + b"x" + struct.pack("<Q", 2) + b"yz"
    keys = [
        ("general.alignment", 4, struct.pack("<I", alignment)),
        ("tokens", 9, array),
        ("scores", 9, struct.pack("<IQ3f", 6, 3, 1, 2, 3)),
        ("name", 8, struct.pack("<Q", 2) + b"ab"),
    ]
    gguf_file(tmp_path / "x.gguf", numbers, keys, alignment)
    assert_equal(read(tmp_path / "x.gguf"), numbers)
    found = stores.open(tmp_path / "x.gguf")
    texts = {"general.alignment": str(alignment), "tokens": "array of 2", "scores": "array of 3", "name": "ab"}
    assert found.metadata == texts
    plan = stores.reshard([tmp_path / "x.gguf"], tmp_path / "x.safetensors")
    assert plan.remarks == ['leaves out the keys with arrays "tokens", "scores"']
    plan.run()
    assert stores.open(tmp_path / "x.safetensors").metadata == {
        "general.alignment": str(alignment), "name": "ab", "format": "pt",
    }  # fmt: skip


@pytest.mark.parametrize("more", [1, 32, 4096])
def test_gguf_that_is_longer_than_its_header_says(numbers, tmp_path, more):
    gguf_file(tmp_path / "x.gguf", numbers)
    content = (tmp_path / "x.gguf").read_bytes()
    (tmp_path / "x.gguf").write_bytes(content + bytes(more))
    with pytest.raises(ModelError, match=f"has {more} bytes? behind its last tensor"):
        stores.open(tmp_path / "x.gguf")


def test_a_part_of_a_split_gguf_says_so(numbers, tmp_path):
    keys = [("split.no", 2, struct.pack("<H", 0)), ("split.count", 2, struct.pack("<H", 3))]
    gguf_file(tmp_path / "x.gguf", numbers, keys)
    plan = stores.reshard(tmp_path / "x.gguf", tmp_path / "x.safetensors")
    assert "reads one of 3 files of a checkpoint, without the tensors of the others" in plan.remarks


SPLIT = [("split.no", 2, "<H"), ("split.count", 2, "<H"), ("split.tensors.count", 5, "<i")]


@pytest.fixture
def split(numbers, tmp_path):
    """A folder with the two files of a GGUF model, as llama-gguf-split writes them."""
    folder, names = tmp_path / "split", [*numbers]
    folder.mkdir()
    for part in (0, 1):
        said = part, 2, len(names)
        keys = [(key, kind, struct.pack(form, each)) for (key, kind, form), each in zip(SPLIT, said, strict=True)]
        if part == 0:
            keys += [("general.architecture", 8, struct.pack("<Q", 5) + b"llama")]
            keys += [("general.file_type", 4, struct.pack("<I", 0))]
        own = {name: numbers[name] for name in names[part::2]}
        gguf_file(folder / f"m-{part + 1:05}-of-00002.gguf", own, keys)
    return folder


@pytest.mark.parametrize("is_folder", [True, False])
def test_files_of_a_split_gguf_are_one_model(split, numbers, tmp_path, is_folder):
    inputs = [split] if is_folder else sorted(split.iterdir())
    stores.reshard(inputs, tmp_path / "x.gguf").run()
    found = read(tmp_path / "x.gguf")
    assert_equal({name: found[name] for name in sorted(found)}, numbers)
    # With split.count, llama.cpp would look for other files.
    assert stores.open(tmp_path / "x.gguf").metadata == {"general.architecture": "llama", "general.file_type": "0"}
    assert {key for key, *_ in SPLIT}.isdisjoint(stores.open(split).metadata)


def test_files_of_a_split_gguf_that_are_no_model(split, tmp_path):
    shutil.copy(split / "m-00001-of-00002.gguf", split / "n-00001-of-00002.gguf")
    with pytest.raises(ModelError, match="name one of"):
        stores.open(split)
    (split / "n-00001-of-00002.gguf").unlink()
    (split / "m-00002-of-00002.gguf").unlink()
    with pytest.raises(ModelError, match=r"has 1 of 2 files .* lacks \"m-00002-of-00002.gguf\""):
        stores.open(split)


@pytest.mark.parametrize(("dtype", "said"), [("fp16", "1"), ("bf16", "32"), ("fp32", "0"), (None, "0")])
def test_a_gguf_file_says_to_which_dtype_it_was_cast(split, tmp_path, dtype, said):
    stores.reshard(split, tmp_path / "x.gguf", dtype=dtype).run()
    assert stores.open(tmp_path / "x.gguf").metadata["general.file_type"] == said


def test_arrays_of_objects_in_npz_are_refused_alone(tmp_path):
    records = np.zeros(2, [("a", "f4"), ("b", "i4")])
    np.savez(tmp_path / "x.npz", objects=np.array([1, "a"], object), records=records, numbers=np.arange(3))
    assert stores.open(tmp_path / "x.npz").refused.keys() == {"objects", "records"}
    with pytest.raises(ModelError, match="neither numbers nor texts; drop leaves it out"):
        stores.reshard(tmp_path / "x.npz", tmp_path / "x.safetensors")
    stores.reshard(tmp_path / "x.npz", tmp_path / "x.safetensors", only="numbers").run()
    assert_equal(read(tmp_path / "x.safetensors"), {"numbers": np.arange(3)})


def test_gguf_of_its_own_library(numbers, tmp_path):
    gguf = pytest.importorskip("gguf", reason="gguf is not installed")
    writer = gguf.GGUFWriter(tmp_path / "x.gguf", "llama")
    kept = {name: each for name, each in numbers.items() if each.dtype.name != "bfloat16"}
    for name, each in kept.items():
        writer.add_tensor(name, each)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    assert_equal(read(tmp_path / "x.gguf"), kept)


def test_keys_of_gguf_keep_their_types(tmp_path):
    gguf = pytest.importorskip("gguf", reason="gguf is not installed")
    writer = gguf.GGUFWriter(tmp_path / "x.gguf", "llama")
    writer.add_uint32("a.number", 7)
    writer.add_float32("a.float", 0.1)
    writer.add_bool("a.bool", True)
    writer.add_int64("a.negative", -5)
    writer.add_array("a.texts", ["x", "yz"])
    writer.add_array("a.nested", [[1, 2], [3]])
    writer.add_tensor("w", np.arange(6, dtype=np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    plan = stores.reshard([tmp_path / "x.gguf"], tmp_path / "y.gguf", dtype="half")
    assert plan.remarks == ["casts 1 tensor from float32 to float16 by NumPy: numbers beyond ±65504 become infinite"]
    plan.run()
    before, after = (gguf.GGUFReader(tmp_path / name) for name in ("x.gguf", "y.gguf"))
    kept = [key for key in before.fields if not key.startswith("GGUF.")]
    assert len(kept) == 7
    for key in kept:
        assert after.fields[key].types == before.fields[key].types, key
        assert after.fields[key].contents() == before.fields[key].contents(), key


def test_gguf_that_is_quantized_or_broken(numbers, tmp_path):
    gguf_file(tmp_path / "x.gguf", numbers, kinds={"blk.2.w": 12})
    with pytest.raises(ModelError, match=r"blk\.2\.w.* of Q4_K, whose rows are not whole blocks.*; drop leaves it out"):
        stores.reshard([tmp_path / "x.gguf"], tmp_path / "y.gguf")
    gguf_file(tmp_path / "x.gguf", numbers, kinds={[*numbers][-1]: 99})
    assert [*stores.open(tmp_path / "x.gguf").refused] == [[*numbers][-1]]
    gguf_file(tmp_path / "x.gguf", numbers, kinds={"blk.2.w": 99})
    with pytest.raises(ModelError, match=r"blk\.2\.w.* is of the unknown type 99; drop leaves it out"):
        stores.reshard([tmp_path / "x.gguf"], tmp_path / "y.gguf")
    assert_equal({n: e.read() for n, e in stores.open(tmp_path / "x.gguf").stores.items()},
                 {name: each for name, each in numbers.items() if name != "blk.2.w"})  # fmt: skip
    gguf_file(tmp_path / "x.gguf", numbers)
    whole = (tmp_path / "x.gguf").read_bytes()
    for size in range(0, len(whole) - 32, 37):
        (tmp_path / "x.gguf").write_bytes(whole[:size])
        assert isinstance(opened(tmp_path / "x.gguf"), str)
    end = max(each.offset + each.nbytes for each in stores.open(written(tmp_path, whole)).values())
    assert opened(written(tmp_path, whole[: end - 1])).endswith("1 byte is missing; copy or download it again")
    assert opened(written(tmp_path, whole[: end - 9])).endswith("9 bytes are missing; copy or download it again")
    twice = [("name", 8, struct.pack("<Q", 1) + b"a")] * 2
    gguf_file(tmp_path / "x.gguf", numbers, twice)
    assert 'has the key "name" twice' in opened(tmp_path / "x.gguf")
    gguf_file(tmp_path / "x.gguf", numbers, [("general.alignment", 4, struct.pack("<I", 48))], 48)
    assert "must be a power of two, not 48" in opened(tmp_path / "x.gguf")
    for offset, said in (
        (5, "begins at byte 5, which is not a multiple of the alignment, 32"),
        (0, "overlaps the tensor"),
    ):
        content = bytearray(whole)
        at = whole.index(b"blk.1.w") + 7 + 4 + 16 + 4
        content[at : at + 8] = struct.pack("<Q", offset)
        assert said in opened(written(tmp_path, content))
    rng = np.random.default_rng(2)
    for _ in range(300):
        content = bytearray(whole)
        content[rng.integers(400)] = rng.integers(256)
        (tmp_path / "x.gguf").write_bytes(content)
        opened(tmp_path / "x.gguf")


def written(folder, content):
    """A file of this content."""
    (folder / "x.gguf").write_bytes(content)
    return folder / "x.gguf"


def test_gguf_that_is_written(numbers, tmp_path):
    save_file(numbers, tmp_path / "x.safetensors", {"general.alignment": "8"})
    with pytest.raises(ModelError, match=r"would lack general\.architecture.*--no-extras"):
        stores.reshard([tmp_path / "x.safetensors"], tmp_path / "x.gguf")
    plan = stores.reshard([tmp_path / "x.safetensors"], tmp_path / "x.gguf", extras=False)
    plan.run()
    assert_equal(dict(sorted(read(tmp_path / "x.gguf").items())), numbers)
    assert all(target.offset % 32 == 0 for target in plan.outputs)
    assert stores.verify(tmp_path / "x.gguf", tmp_path / "x.safetensors") is None
    made = stores.create(tmp_path / "y.gguf", {"w": (2, 3)}, "float16", metadata={"general.architecture": "llama"})
    np.save(tmp_path / "w.npy", np.ones((2, 3), "f2"))
    dml.fuse(lambda w: {"w": w}).plan(stores.open(tmp_path / "w.npy"), made).run()
    assert stores.open(tmp_path / "y.gguf").metadata == {"general.architecture": "llama"}
    gguf = pytest.importorskip("gguf", reason="gguf is not installed")
    found = {each.name: each for each in gguf.GGUFReader(tmp_path / "x.gguf").tensors}
    assert {*found} == {*numbers}
    for name, each in numbers.items():
        assert tuple(found[name].shape)[::-1] == each.shape
        assert found[name].data.tobytes() == each.tobytes()


def test_names_of_gguf_are_as_long_as_its_library_reads_them(tmp_path):
    for name in ("é" * 31 + "x", "x" * 63):
        stores.create(tmp_path / "x.gguf", shape={name: (1,)}, dtype="f4")
    for name in ("é" * 32, "x" * 70):
        with pytest.raises(ModelError, match=r"has a name of \d+ bytes; GGUF's readers take 63 at most"):
            stores.create(tmp_path / "x.gguf", shape={name: (1,)}, dtype="f4")
    for key in ("ä", "x" * 65536):
        with pytest.raises(ModelError, match=r"cannot have the key .*: GGUF has ASCII of at most 65535 bytes"):
            stores.create(tmp_path / "x.gguf", shape={"x": (1,)}, dtype="f4", metadata={key: "a"})
    with pytest.raises(ModelError, match=r"has shape \[1, 1, 1, 1, 1\]; GGUF has 1 to 4 dimensions"):
        stores.create(tmp_path / "x.gguf", shape={"x": (1,) * 5}, dtype="f4")


@pytest.mark.parametrize(
    ("array", "said"),
    [
        (np.ones(3, bool), "w: is bool, which GGUF does not support"),
        (np.float32(3), r"w: has shape \[\]; GGUF has 1 to 4"),
    ],
)
def test_what_gguf_has_not_is_refused(array, said, tmp_path):
    save_file({"w": np.array(array)}, tmp_path / "x.safetensors")
    with pytest.raises(ModelError, match=said):
        stores.reshard([tmp_path / "x.safetensors"], tmp_path / "x.gguf", extras=False)
