"""Tensors in blocks, F4 and F6 of safetensors and quantized types of GGUF: moved whole, and never divided."""

import json
import warnings

import numpy as np
import pytest
from stores.test_commands import anydml
from stores.test_opening import packed

from anydml import stores
from anydml.errors import BindingError, ModelError
from anydml.stores.formats.block_types import BLOCKS, name_of, shape_in_elements

RNG = np.random.default_rng(8)
BITS = {"F4": 4, "F6_E2M3": 6, "F6_E3M2": 6}


def written(path, tensors):
    """A safetensors file of raw bytes, dtypes and shapes by name."""
    entries, end = {}, 0
    for name, (dtype, shape, raw) in tensors.items():
        entries[name] = {"dtype": dtype, "shape": shape, "data_offsets": [end, end + len(raw)]}
        end += len(raw)
    text = json.dumps(entries).encode()
    content = packed(text, end)
    path.write_bytes(content[: len(content) - end] + b"".join(raw for _, _, raw in tensors.values()))
    return path


@pytest.fixture
def small(tmp_path):
    """A file with all types of less than a byte."""
    tensors = {f"layers.0.{name}.up_proj.weight": (name, [8, 16], RNG.bytes(16 * bits)) for name, bits in BITS.items()}
    tensors["norm.weight"] = ("F32", [4], RNG.bytes(16))
    return written(tmp_path / "x.safetensors", tensors), tensors


def raw_of(path):
    """Dtypes, shapes and bytes, as the library of safetensors reads them."""
    content = path.read_bytes()
    length = int.from_bytes(content[:8], "little")
    entries = json.loads(content[8 : 8 + length])
    found = {}
    for name, each in entries.items():
        if name != "__metadata__":
            first, last = each["data_offsets"]
            found[name] = each["dtype"], each["shape"], content[8 + length + first : 8 + length + last]
    return found


def test_elements_of_less_than_a_byte_are_moved_whole(small, tmp_path, capsys):
    path, tensors = small
    report = json.loads(anydml(capsys, "stores", path, "--json")[1])
    assert {each["name"]: (each["dtype"].upper(), each["shape"]) for each in report["arrays"][:3]} == {
        name: (dtype, shape) for name, (dtype, shape, _) in [*tensors.items()][:3]
    }
    stores.reshard([path], tmp_path / "y.safetensors").run()
    assert raw_of(tmp_path / "y.safetensors") == tensors
    for ranks in ({"tp": 2}, {"fsdp": 3}, {"fsdp": 8}):
        out = tmp_path / f"ranks-{ranks}"
        stores.reshard([path], out, ranks=ranks).run()
        assert stores.verify(path, out) is None
        stores.reshard([out], tmp_path / f"back-{ranks}.safetensors").run()
        assert raw_of(tmp_path / f"back-{ranks}.safetensors") == tensors
    stores.manifest(path, tmp_path / "sums.json")
    assert stores.verify(tmp_path / "sums.json", tmp_path / "ranks-{'tp': 2}") is None
    for rank in (0, 1):
        own = raw_of(tmp_path / "ranks-{'tp': 2}" / f"model-rank-0000{rank}-of-00002.safetensors")
        for name, (dtype, shape, raw) in [*tensors.items()][:3]:
            half = len(raw) // 2
            assert own[name] == (dtype, [4, shape[1]], raw[rank * half : (rank + 1) * half])


@pytest.fixture
def odd(tmp_path):
    """A file with tensors whose rows are not whole bytes."""
    tensors = {f"layers.0.{name}.up_proj.weight": (name, [8, 3], RNG.bytes(3 * bits)) for name, bits in BITS.items()}
    tensors["turned"] = ("F4", [4, 1, 1], RNG.bytes(2))
    tensors["norm.weight"] = ("F32", [4], RNG.bytes(16))
    return written(tmp_path / "odd.safetensors", tensors), tensors


def test_rows_that_are_not_whole_bytes_are_moved_with_their_tensor(odd, tmp_path, capsys):
    path, tensors = odd
    report = json.loads(anydml(capsys, "stores", path, "--json")[1])
    assert {each["name"]: (each["dtype"].upper(), each["shape"]) for each in report["arrays"][:4]} == {
        name: (dtype, shape) for name, (dtype, shape, _) in [*tensors.items()][:4]
    }
    assert {name: each.read().tobytes() for name, each in stores.open(path).items()} == {
        name: raw for name, (_, _, raw) in tensors.items()
    }
    stores.reshard([path], tmp_path / "y.safetensors", shard_size="20B").run()
    stores.reshard([path], tmp_path / "shards", shard_size="20B").run()
    stores.reshard([tmp_path / "shards"], tmp_path / "z.safetensors").run()
    stores.reshard([path], tmp_path / "ranks", ranks={"fsdp": 3}).run()
    stores.reshard([tmp_path / "ranks"], tmp_path / "back.safetensors").run()
    for name in "y.safetensors", "z.safetensors", "back.safetensors":
        assert raw_of(tmp_path / name) == tensors
    stores.manifest(path, tmp_path / "sums.json")
    for other in path, tmp_path / "sums.json":
        assert stores.verify(tmp_path / "shards", path) is None
        assert stores.verify(tmp_path / "ranks", other) is None
    others = {name: (dtype, shape[::-1], raw) for name, (dtype, shape, raw) in tensors.items()}
    others["turned"] = ("F4", [4, 1, 1], bytes(each ^ 1 for each in tensors["turned"][2]))
    found = stores.compare(path, written(tmp_path / "other.safetensors", others)).differences
    assert sorted(each.text.split(":")[0] for each in found) == sorted(
        [f'"layers.0.{name}.up_proj.weight" differs' for name in BITS] + ['"turned" differs at block []']
    )


def test_tensors_of_such_rows_are_stacked_in_memory_that_holds_one(tmp_path):
    size = 1 << 20
    tensors = {f"{k}.w": ("F4", [2 * size, 1], RNG.bytes(size)) for k in range(2)}
    path = written(tmp_path / "x.safetensors", tensors)
    (tmp_path / "rules.toml").write_text('[[rules]]\nstack = "{k}.w"\nto = "w"\n')
    with pytest.raises(BindingError, match="give more memory"):
        stores.reshard([path], tmp_path / "y.safetensors", memory="1MB")
    stores.reshard([path], tmp_path / "y.safetensors", tmp_path / "rules.toml", memory="8MB").run()
    stacked = b"".join(raw for _, _, raw in tensors.values())
    assert raw_of(tmp_path / "y.safetensors") == {"w": ("F4", [2, 2 * size, 1], stacked)}


def test_tensors_of_such_rows_are_not_divided(odd, tmp_path):
    path, _ = odd
    for make, said in (
        (lambda: stores.reshard([path], tmp_path / "r", ranks={"tp": 2}), r"rows of 3 elements of F\w+ are not whole"),
        (
            lambda: stores.reshard([path], tmp_path / "y.npz"),
            "is F., which NumPy does not support|whose rows are not whole",
        ),
        (lambda: stores.reshard([path], tmp_path / "dcp", dcp=True), "rows are not whole blocks: only a .safetensors"),
        (lambda: stores.reshard([path], tmp_path / "y.gguf", extras=False), "rows are not whole blocks: only"),
    ):
        with pytest.raises(ModelError, match=said):
            make()
    for rule in RULES:
        if not rule.startswith("rename"):
            (tmp_path / "rules.toml").write_text(f'[[rules]]\nmatch = "turned"\n{rule}\n')
            with pytest.raises(ModelError, match="turned"):
                stores.reshard([path], tmp_path / "y.safetensors", tmp_path / "rules.toml")


def test_float4_is_that_of_pytorch(tmp_path):
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    import torch.distributed.checkpoint as dcp
    from safetensors.torch import load_file, save_file

    x = torch.randint(0, 256, (6, 8), dtype=torch.uint8).view(torch.float4_e2m1fn_x2)
    save_file({"x": x}, tmp_path / "x.safetensors")
    torch.save({"x": x}, tmp_path / "x.pt")
    assert stores.verify(tmp_path / "x.pt", tmp_path / "x.safetensors") is None
    stores.reshard([tmp_path / "x.pt"], tmp_path / "y.safetensors").run()
    found = load_file(tmp_path / "y.safetensors")["x"]
    assert (found.dtype, found.shape) == (x.dtype, x.shape)
    assert torch.equal(found.view(torch.uint8), x.view(torch.uint8))
    stores.reshard([tmp_path / "y.safetensors"], tmp_path / "dcp", ranks={"fsdp": 2}, dcp=True).run()
    loaded = {"x": torch.zeros(6, 8, dtype=torch.uint8).view(torch.float4_e2m1fn_x2)}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        dcp.load(loaded, checkpoint_id=tmp_path / "dcp", no_dist=True)
    assert torch.equal(loaded["x"].view(torch.uint8), x.view(torch.uint8))


RULES = {
    "slice = 1": False, "slice = -1\nstart = 2": False, "slice = 0\nstart = 2": True, "permute = [1, 0]": False,
    "permute = [0, 1]": True, "flatten = [0, 1]": False, "unflatten = 1\nsizes = [2, -1]": False,
    "unflatten = 0\nsizes = [2, 4]": True, "gather = 1\nindices = [0]": False, "gather = 0\nindices = [3, 1]": True,
    'split = ["a", "b"]\naxis = 1': False, 'split = ["a", "b"]\naxis = 0': True, 'unstack = "a.{k}"': True,
    'rename = "a"': True,
}  # fmt: skip


@pytest.mark.parametrize("rule", RULES)
def test_rules_that_would_divide_blocks_are_refused(tmp_path, rule):
    raw = RNG.bytes(64)
    path = written(tmp_path / "x.safetensors", {"w": ("F4", [8, 16], raw)})
    (tmp_path / "rules.toml").write_text(f'[[rules]]\nmatch = "w"\n{rule}\n')
    if not RULES[rule]:
        with pytest.raises(ModelError, match='changes the last axis of "w", whose elements lie there in blocks of 2'):
            stores.reshard([path], tmp_path / "y.safetensors", tmp_path / "rules.toml")
        return
    stores.reshard([path], tmp_path / "y.safetensors", tmp_path / "rules.toml").run()
    rows = np.frombuffer(raw, "u1").reshape(8, 8)
    found = raw_of(tmp_path / "y.safetensors")
    picked = rows[2:] if "slice" in rule else rows[[3, 1]] if "gather" in rule else rows
    assert b"".join(each for _, _, each in found.values()) == picked.tobytes()
    assert all(shape[-1] == 16 for _, shape, _ in found.values())
    assert {dtype for dtype, _, _ in found.values()} == {"F4"}


def test_what_has_no_blocks_refuses_them(small, tmp_path):
    path, _ = small
    (tmp_path / "layout.py").write_text("def layout(tensors):\n    return tensors\n")
    for make, said in (
        (lambda: stores.reshard([path], tmp_path / "y.npz"), "cannot store dtype|is F"),
        (lambda: stores.reshard([path], tmp_path / "y.gguf", extras=False), "is F4, which GGUF does not support"),
        (lambda: stores.reshard([path], tmp_path / "dcp", dcp=True, drop="*.F4.*"), "is F6_E., which PyTorch|is F6_E"),
        (lambda: stores.reshard([path], tmp_path / "y.safetensors", tmp_path / "layout.py"), "use rules in TOML"),
    ):
        with pytest.raises(ModelError, match=said):
            make()


def test_all_quantized_types_of_gguf(tmp_path, capsys):
    gguf = pytest.importorskip("gguf", reason="gguf is not installed")
    sizes = {each.name: size for each, size in gguf.GGML_QUANT_SIZES.items() if size[0] > 1}
    assert all(BLOCKS[name] == size for name, size in sizes.items())
    writer, expected = gguf.GGUFWriter(tmp_path / "x.gguf", "llama"), {}
    for name, (_, size) in sizes.items():
        expected[f"blk.{name}"] = RNG.integers(0, 256, (6, 3 * size), dtype=np.uint8)
        writer.add_tensor(f"blk.{name}", expected[f"blk.{name}"], raw_dtype=gguf.GGMLQuantizationType[name])
    writer.add_array("tokens", ["a", "b"])
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    found = stores.open(tmp_path / "x.gguf")
    assert not found.refused
    for name, (count, _) in sizes.items():
        store = found[f"blk.{name}"]
        assert (name_of(store.dtype), shape_in_elements(store.shape, store.dtype)) == (name, (6, 3 * count))
        assert store.read().tobytes() == expected[f"blk.{name}"].tobytes()
    assert "Q4_K" in anydml(capsys, "stores", tmp_path / "x.gguf")[1]
    (tmp_path / "rows.toml").write_text('[[rules]]\nmatch = "*"\nslice = 0\nstart = 1\nstep = 2\n')
    stores.reshard([tmp_path / "x.gguf"], tmp_path / "y.gguf").run()
    stores.reshard([tmp_path / "x.gguf"], tmp_path / "z.gguf", tmp_path / "rows.toml").run()
    for path, rows in ("y.gguf", slice(None)), ("z.gguf", slice(1, None, 2)):
        made = {each.name: each for each in gguf.GGUFReader(tmp_path / path).tensors}
        for name in sizes:
            assert made[f"blk.{name}"].tensor_type.name == name
            assert made[f"blk.{name}"].data.tobytes() == expected[f"blk.{name}"][rows].tobytes()
    assert stores.verify(tmp_path / "x.gguf", tmp_path / "y.gguf") is None
    (remark,) = stores.reshard([tmp_path / "x.gguf"], tmp_path / "half.gguf", dtype="f16").remarks
    assert (
        remark == f"keeps the dtypes of {len(sizes)} tensors in blocks, which are not cast: {', '.join(sorted(sizes))}"
    )
    content = bytearray((tmp_path / "y.gguf").read_bytes())
    store = stores.open(tmp_path / "y.gguf")["blk.Q4_K"]
    content[store.offset + 144 * 4 + 5] ^= 1
    (tmp_path / "y.gguf").write_bytes(content)
    (difference,) = stores.compare(tmp_path / "x.gguf", tmp_path / "y.gguf").differences
    assert difference.text.startswith('"blk.Q4_K" differs at block [1, 1]: ')
    with pytest.raises(ModelError, match="which safetensors does not support"):
        stores.reshard([tmp_path / "x.gguf"], tmp_path / "y.safetensors")
