"""Compressed .npz files: entries are unpacked from any place on, and broken ones are told."""

import pickle
import random
import zipfile
import zlib

import numpy as np
import pytest

from anydml import stores
from anydml.errors import ModelError
from anydml.stores.formats import packed
from anydml.stores.formats.packed import Packed


@pytest.fixture
def arrays():
    rng = np.random.default_rng(0)
    return {
        "lm_head.weight": rng.integers(0, 50, (640, 48)).astype("f4"),
        "fortran": np.asfortranarray(rng.integers(0, 9, (50, 70), np.int16)),
        "swapped": rng.integers(0, 99, (30, 4)).astype(">i4"),
        "empty": np.zeros((0, 3)),
        "scalar": np.array(7, np.int8),
    }


def test_any_place_of_an_entry_is_read(monkeypatch):
    monkeypatch.setattr(packed, "STEP", 100)
    monkeypatch.setattr(packed, "APART", 1000)
    rng = random.Random(0)
    content = bytes(rng.choices(range(9), k=20_000))
    file = b"before" + zlib.compress(content, wbits=-15)

    def read(view, at):
        view[:] = file[at : at + len(view)]

    own = Packed("x.npz", "a", 6, len(file) - 6, len(content), zlib.crc32(content))
    for k in range(200):
        at = rng.randint(0, len(content))
        view = bytearray(rng.randint(0, min(3000, len(content) - at)))
        (pickle.loads(pickle.dumps(own)) if k % 50 == 49 else own).fill(memoryview(view), at, read)
        assert view == content[at : at + len(view)]


def test_compressed_arrays_are_those_of_numpy(arrays, tmp_path):
    np.savez_compressed(tmp_path / "x.npz", **arrays)
    with np.load(tmp_path / "x.npz") as wanted:
        found = stores.open(tmp_path / "x.npz")
        for name in wanted.files:
            assert found[name].read().tobytes() == wanted[name].tobytes()
            assert found[name].dtype == wanted[name].dtype
    plan = stores.reshard(tmp_path / "x.npz", tmp_path / "out.safetensors", memory="20kB")
    assert "unpacks 5 compressed tensors while they are read" in plan.remarks
    plan.run()
    out = stores.open(tmp_path / "out.safetensors")
    for name, each in arrays.items():
        assert (out[name].read() == each).all()
    assert stores.verify(tmp_path / "x.npz", tmp_path / "out.safetensors", memory="20kB") is None
    stores.reshard(tmp_path / "x.npz", tmp_path / "half.safetensors", dtype="half", only="lm_head").run()
    half = stores.open(tmp_path / "half.safetensors")["lm_head.weight"].read()
    assert (half == arrays["lm_head.weight"].astype("f2")).all()


def test_parts_of_compressed_arrays(arrays, tmp_path):
    np.savez_compressed(tmp_path / "y.npz", **{"lm_head.weight": arrays["lm_head.weight"]})
    for rank in (3, 1):
        plan = stores.plan_load(tmp_path / "y.npz", rank, 4)
        assert (plan.load(memory="20kB")["lm_head.weight"] == arrays["lm_head.weight"][160 * rank :][:160]).all()
        with pytest.raises(ModelError, match="is changed when it is read: use load"):
            plan.ranges()


@pytest.mark.parametrize("where", [0.2, 0.9])
def test_broken_entries_are_told(where, tmp_path):
    array = np.random.default_rng(0).integers(0, 9, (300, 50))
    np.savez_compressed(tmp_path / "x.npz", a=array)
    content = bytearray((tmp_path / "x.npz").read_bytes())
    for k in range(40):
        content[int(len(content) * where) + k] ^= 255
    (tmp_path / "x.npz").write_bytes(content)
    with pytest.raises(ModelError, match=r"cannot be unpacked|broken|has not|no zip file|not a \.npy"):
        stores.open(tmp_path / "x.npz")["a"].read()


def test_a_wrong_checksum_is_told(tmp_path):
    np.savez_compressed(tmp_path / "x.npz", a=np.arange(1000))
    content = (tmp_path / "x.npz").read_bytes()
    with zipfile.ZipFile(tmp_path / "x.npz") as archive:
        known = archive.infolist()[0].CRC.to_bytes(4, "little")
    (tmp_path / "x.npz").write_bytes(content.replace(known, bytes(4)))
    with pytest.raises(ModelError, match="its CRC-32 is not the one that the file says"):
        stores.reshard(tmp_path / "x.npz", tmp_path / "out.safetensors").run()
    assert not (tmp_path / "out.safetensors").exists()


def test_other_compressions_are_refused(tmp_path):
    with zipfile.ZipFile(tmp_path / "x.npz", "w", zipfile.ZIP_LZMA) as archive, archive.open("a.npy", "w") as file:
        np.save(file, np.arange(9))
    with pytest.raises(ModelError, match="compressed in another way than by deflate"):
        stores.open(tmp_path / "x.npz")
