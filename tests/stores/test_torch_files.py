"""Files of torch.save in all their forms: old ones, modules, parameters, complex numbers, and what is not dense."""

import io
import json
import warnings
from collections import deque

import numpy as np
import pytest
from stores.test_commands import anydml
from stores.test_formats import opened

from anydml import stores
from anydml.errors import ModelError

torch = pytest.importorskip("torch", reason="PyTorch is not installed")

NAMES = "float64 float32 float16 bfloat16 int64 int32 int16 int8 uint8 bool complex64 complex128"


def bits(each):
    return each.detach().resolve_conj().resolve_neg().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()


def assert_same(path, expected):
    found = stores.open(path)
    assert {*found} == {*expected}
    for name, each in expected.items():
        store = found[name]
        assert store.read().tobytes() == bits(each), name
        assert store.shape == tuple(each.shape)


def state():
    base = torch.arange(60.0).reshape(3, 4, 5)
    made = {name: torch.arange(12).to(getattr(torch, name)).reshape(3, 4) for name in NAMES.split()}
    made |= {"turned": base[1].T, "tied": base, "again": base, "empty": torch.zeros(0, 3), "one": torch.tensor(2.5)}
    return made | {
        "conj": made["complex64"].conj(),
        "neg": torch._neg_view(base),
        "parameter": torch.nn.Parameter(base),
    }


@pytest.mark.parametrize("is_old", [False, True])
def test_files_of_both_forms(tmp_path, is_old):
    given = state()
    torch.save({"model": given, "step": 3}, tmp_path / "x.pt", _use_new_zipfile_serialization=not is_old)
    assert_same(tmp_path / "x.pt", {f"model.{name}": each for name, each in given.items()})
    assert stores.open(tmp_path / "x.pt").other_objects == ["step"]
    kept = [name for name in given if name != "complex128"]
    stores.reshard([tmp_path / "x.pt"], tmp_path / "x.safetensors", drop="*.complex128").run()
    assert_same(tmp_path / "x.safetensors", {f"model.{name}": given[name] for name in kept})
    with pytest.raises(ModelError, match="complex128, which safetensors does not support"):
        stores.reshard([tmp_path / "x.pt"], tmp_path / "y.safetensors")
    found = stores.compare(tmp_path / "x.pt", tmp_path / "x.safetensors")
    assert [(each.name, each.kind) for each in found.differences] == [("model.complex128", "missing")]


def test_complex_numbers_in_other_formats(tmp_path):
    given = {"x": torch.randn(6, 4, dtype=torch.complex128), "y": torch.randn(3, dtype=torch.complex64).conj()}
    torch.save(given, tmp_path / "x.pt")
    stores.reshard([tmp_path / "x.pt"], tmp_path / "x.npz").run()
    with np.load(tmp_path / "x.npz") as found:
        assert all((found[name] == each.resolve_conj().numpy()).all() for name, each in given.items())
    stores.reshard([tmp_path / "x.npz"], tmp_path / "dcp", ranks={"fsdp": 2}, dcp=True).run()
    import torch.distributed.checkpoint as dcp

    loaded = {name: torch.zeros_like(each.resolve_conj()) for name, each in given.items()}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        dcp.load(loaded, checkpoint_id=tmp_path / "dcp", no_dist=True)
    assert all(torch.equal(loaded[name], each) for name, each in given.items())


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("is_old", [False, True])
def test_complex32_is_moved_where_formats_have_it(tmp_path, capsys, is_old):
    import torch.distributed.checkpoint as dcp

    given = {
        "x": torch.randn(6, 4, dtype=torch.complex64).to(torch.complex32),
        "turned": torch.randn(4, 6, dtype=torch.complex64).to(torch.complex32).t(),
        "one": torch.tensor(1 + 2j, dtype=torch.complex32),
        "none": torch.zeros(0, 3, dtype=torch.complex32),
    }
    torch.save(given, tmp_path / "x.pt", _use_new_zipfile_serialization=not is_old)
    assert_same(tmp_path / "x.pt", given)
    layout = tmp_path / "turn.toml"
    layout.write_text("[[rules]]\nmatch = 'x'\npermute = [1, 0]\n")
    stores.reshard([tmp_path / "x.pt"], tmp_path / "dcp", layout, ranks={"fsdp": 2}, dcp=True).run()
    loaded = {name: torch.zeros_like(each).contiguous() for name, each in {**given, "x": given["x"].t()}.items()}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        dcp.load(loaded, checkpoint_id=tmp_path / "dcp", no_dist=True)
        dcp.save(loaded, checkpoint_id=tmp_path / "theirs", no_dist=True)
    assert all(bits(loaded[name]) == bits(each) for name, each in {**given, "x": given["x"].t()}.items())
    assert stores.verify(tmp_path / "dcp", tmp_path / "theirs") is None
    stores.manifest(tmp_path / "x.pt", tmp_path / "x.json")
    assert stores.verify(tmp_path / "x.json", tmp_path / "x.pt") is None
    given["x"][3, 2] += 1
    torch.save(given, tmp_path / "y.pt")
    assert "differs at [3, 2]" in stores.verify(tmp_path / "x.pt", tmp_path / "y.pt")
    for name in "x.safetensors", "x.npz", "x.gguf":
        with pytest.raises(ModelError, match=r"is complex32, which|cannot store dtype complex32:"):
            stores.reshard([tmp_path / "x.pt"], tmp_path / name, extras=False)
    code, out, _ = anydml(capsys, "stores", tmp_path / "x.pt")
    assert code == 0
    assert "x       complex32  [6, 4]" in out


class Outer(torch.nn.Module):
    """A module with parameters, buffers and modules, some of which have neither."""

    def __init__(self):
        super().__init__()
        self.layers = torch.nn.ModuleList([torch.nn.Linear(3, 4, bias=False), torch.nn.BatchNorm1d(4), torch.nn.ReLU()])
        self.scale = torch.nn.Parameter(torch.randn(2))
        self.register_buffer("kept", torch.arange(3))
        self.register_buffer("passing", torch.arange(4), persistent=False)
        self.note = "x"


@pytest.mark.parametrize("is_old", [False, True])
def test_whole_modules_have_the_tensors_of_their_state_dict(tmp_path, is_old):
    module = Outer()
    torch.save({"model": module}, tmp_path / "x.pt", _use_new_zipfile_serialization=not is_old)
    assert_same(tmp_path / "x.pt", {f"model.{name}": each for name, each in module.state_dict().items()})


class States(list):
    """A list of a training program's own class."""


def test_tensors_in_lists_of_other_classes_are_named_as_in_lists(tmp_path):
    one, two = torch.arange(3.0), torch.arange(4.0)
    torch.save({"x": States([one, two]), "y": deque([one]), "z": States([{"w": two}])}, tmp_path / "x.pt")
    assert_same(tmp_path / "x.pt", {"x.0": one, "x.1": two, "y.0": one, "z.0.w": two})


def test_tensors_with_attributes_and_buffers(tmp_path):
    x = torch.arange(6.0)
    x.note = "kept"
    parameter = torch.nn.Parameter(torch.arange(4.0))
    parameter.note = "kept"
    given = {"x": x, "parameter": parameter, "buffer": torch.nn.Buffer(torch.arange(5.0))}
    torch.save(given, tmp_path / "x.pt")
    assert_same(tmp_path / "x.pt", given)


class Sub(torch.Tensor):
    """A subclass, which may keep its elements anyhow."""


X = torch.arange(24.0).reshape(2, 3, 4)
OTHERS = {
    "quantized": lambda: torch.quantize_per_tensor(X, 0.1, 0, torch.qint8),
    "sparse": X.to_sparse,
    "of the device meta": lambda: X.to("meta"),
    "of the class test_torch_files.Sub": lambda: X.as_subclass(Sub),
    "strides [12, 4, 2]": lambda: X[:, :, ::2],
    "signs are left for later": lambda: X.to(torch.complex32).conj(),
    'of dtype "torch.bits8"': lambda: X.to(torch.uint8).view(torch.bits8),
}


@pytest.mark.parametrize("what", OTHERS)
@pytest.mark.parametrize("is_distributed", [False, True])
def test_what_is_not_dense_is_refused_by_name_only_where_it_is_asked_for(tmp_path, capsys, what, is_distributed):
    import torch.distributed.checkpoint as dcp

    path, out = tmp_path / "x.pt", tmp_path / "out.safetensors"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        given = {"w": X, "odd": OTHERS[what]()}
        torch.save(given, path)
        if is_distributed:
            if what in ("sparse", "of the device meta", "strides [12, 4, 2]", 'of dtype "torch.bits8"'):
                pytest.skip("PyTorch saves no such tensors, or as others")
            path = tmp_path / "dcp"
            dcp.save(given, checkpoint_id=path, no_dist=True)
    what = what.replace("test_torch_files", __name__)
    with pytest.raises(ModelError) as raised:
        stores.reshard([path], out)
    assert all(each in str(raised.value) for each in (what, "odd", "drop leaves it out"))
    stores.reshard([path], out, drop="odd").run()
    assert_same(out, {"w": X})
    if is_distributed:
        return
    found = stores.open(path)
    assert [*found] == ["w", "odd"]
    with pytest.raises(ModelError, match="odd"):
        found["odd"]
    code, listed, _ = anydml(capsys, "stores", path)
    assert (code, "cannot read" in listed, what in listed) == (0, True, True)
    assert any("odd" in each for each in json.loads(anydml(capsys, "stores", path, "--json")[1])["remarks"])


def test_big_endian_arrays_are_swapped_where_the_format_has_none(tmp_path):
    given = {"a": np.arange(6.0).astype(">f4"), "b": np.arange(6).astype("<i2"), "c": np.array(3, ">f8")}
    given["d"] = np.asfortranarray(np.arange(6.0).reshape(2, 3).astype(">c8"))
    np.savez(tmp_path / "x.npz", **given)
    plan = stores.reshard([tmp_path / "x.npz"], tmp_path / "x.safetensors")
    assert "swaps the bytes of 3 big-endian tensors" in plan.remarks
    plan.run()
    for name, each in stores.open(tmp_path / "x.safetensors").items():
        assert (each.read() == given[name]).all()
        assert each.dtype == given[name].dtype.newbyteorder("<")
    assert stores.verify(tmp_path / "x.npz", tmp_path / "x.safetensors") is None
    stores.reshard([tmp_path / "x.npz"], tmp_path / "half.safetensors", dtype="half").run()
    half = stores.open(tmp_path / "half.safetensors")
    assert half["a"].read().tobytes() == np.arange(6).astype("f2").tobytes()


class WithAttributes(dict):
    """A dict that may have attributes."""


def test_tensors_that_are_attributes_of_dicts_are_named_as_left_out(tmp_path):
    inner = WithAttributes(a=torch.ones(2))
    inner.extra, inner.kind, inner.itself = [torch.zeros(3)], "x", inner
    torch.save({"m": inner, "n": 3}, tmp_path / "x.pt")
    plan = stores.reshard([tmp_path / "x.pt"], tmp_path / "y.safetensors")
    assert 'leaves out 2 objects that are not tensors: "m, attribute extra", "n"' in str(plan)
    plan.run()
    assert [*stores.open(tmp_path / "y.safetensors")] == ["m.a"]


def test_broken_old_files_end_with_one_line(tmp_path):
    file = io.BytesIO()
    torch.save({"w": torch.arange(20.0), "n": [torch.zeros(3, 4)]}, file, _use_new_zipfile_serialization=False)
    whole, rng, refused = file.getvalue(), np.random.default_rng(11), 0
    for _ in range(400):
        content = bytearray(whole)
        for at in rng.integers(0, len(whole), rng.integers(1, 6)):
            content[at] = rng.integers(256)
        path = tmp_path / "x.pt"
        path.write_bytes(content[: rng.integers(1, len(whole) + 1)] if rng.random() < 0.3 else content)
        refused += isinstance(opened(path), str)
    assert refused > 100
    for content, said in (
        (b"", "is not a file of torch.save"),
        (b"text", "is not a file of torch.save"),
        (b"\x80\x02K\x05.", "is a pickle, but not one of torch.save"),
        (b"\x80\x02X\xff\xff\xff\x7fabc.", "has a pickle that is broken"),
    ):
        (tmp_path / "x.pt").write_bytes(content)
        with pytest.raises(ModelError, match=said):
            stores.open(tmp_path / "x.pt")
