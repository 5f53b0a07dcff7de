"""Files to be written: what is described, and what cannot be."""

import ml_dtypes
import numpy as np
import pytest

import anydml as dml
from anydml import stores


@pytest.mark.parametrize("dtype", [">f4", "V4", "S4", "U1", "m8[s]"])
def test_a_npy_file_begins_as_numpy_writes_it(dtype, tmp_path):
    array = np.arange(97, 97 + 12 * np.dtype(dtype).itemsize // 4, dtype="u4").view(dtype).reshape(3, 4)
    target = stores.create(tmp_path / "x.npy", like=array)
    assert not (tmp_path / "x.npy").exists()
    (tmp_path / "x.npy").write_bytes(target.file.start + array.tobytes())
    assert (tmp_path / "x.npy").stat().st_size == target.file.size
    np.testing.assert_array_equal(np.load(tmp_path / "x.npy"), array)
    assert stores.open(tmp_path / "x.npy").dtype == array.dtype


def test_a_safetensors_file_is_like_a_checkpoint(tmp_path):
    targets = stores.create(
        tmp_path / "a.safetensors", {"x": (2, 3), "y": ()}, {"x": "f4", "y": ml_dtypes.bfloat16}, metadata={"k": "v"}
    )
    file = targets["x"].file
    (tmp_path / "a.safetensors").write_bytes(file.start.ljust(file.size, b"\0"))
    opened = stores.open(tmp_path / "a.safetensors")
    again = stores.create(tmp_path / "b.safetensors", like=opened)
    assert opened.metadata == {"k": "v"}
    assert {name: (t.shape, t.dtype, t.offset) for name, t in again.items()} == {
        name: (t.shape, t.dtype, t.offset) for name, t in opened.items()
    }


@pytest.mark.parametrize(
    ("name", "shape", "dtype", "said"),
    [
        ("x.npy", (2,), ml_dtypes.bfloat16, "cannot store dtype bfloat16"),
        ("x.npy", (2,), ml_dtypes.float8_e5m2, "dtype float8_e5m2: a .safetensors file can"),
        ("x.npy", (2,), ml_dtypes.int4, "dtype int4: elements must be"),
        ("x.npy", (2,), object, "dtype object: elements must be"),
        ("x.npy", (2,), [("a", "u1")], "elements must be numbers, strings or plain bytes"),
        ("x.npy", (2,), ("f4", (3,)), "elements must be numbers, strings or plain bytes"),
        ("x.npy", None, "f4", "holds one array"),
        ("x.npy", (2, -1), "f4", r"shape\[1\] is -1: each size must be 0 or more"),
        ("x.npy", "2,2", "f4", r"shape is the string '2,2': pass a sequence of sizes"),
        ("x.npy", (2.5,), "f4", r"shape is \(2.5,\): pass a sequence of integers"),
        ("x.npy", (1,) * 65, "f4", "shape has 65 sizes: there must be at most 64"),
        ("x.safetensors", (2,), "f4", "by the tensors' names"),
        ("x.safetensors", {"a": (2,)}, None, "a: has no dtype"),
        ("x.safetensors", {"a": (2,)}, "c16", "which safetensors does not support"),
        ("x.safetensors", {"a": (2,)}, ">f4", "which safetensors does not support"),
        ("x.safetensors", {"__metadata__": (2,)}, "f4", "cannot have a tensor called"),
        ("x.bin", (2,), "f4", "must end with .npy, .npz, .safetensors, .gguf or .zarr"),
        *[(name, shape, "float33", "'float33', which NumPy does not know: use a name such as float32")
          for name, shape in (("x.npy", (2,)), ("x.zarr", (2,)), ("x.safetensors", {"a": (2,)}))],
    ],
)  # fmt: skip
def test_what_cannot_be_stored_is_refused(name, shape, dtype, said):
    with pytest.raises(dml.ModelError, match=said):
        stores.create(name, shape, dtype)


@pytest.mark.parametrize("dtype", [("f4", (3,)), object, [("a", object)], np.dtypes.StringDType()])
def test_dtypes_that_zarr_has_not_are_refused(dtype):
    pytest.importorskip("zarr", reason='zarr-python is not installed: pip install "anydml[stores]"')
    with pytest.raises(
        dml.ModelError, match=r"^x.zarr: cannot store dtype .*: elements must be numbers, strings, records or"
    ):
        stores.create("x.zarr", (2,), dtype)
