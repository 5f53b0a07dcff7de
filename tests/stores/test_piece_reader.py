"""Pieces with equal headers are parsed once, and are what PyTorch loads; those that only look so are parsed."""

import io
import warnings
import zipfile
from contextlib import suppress

import numpy as np
import pytest
from safetensors.numpy import save_file

from anydml import stores
from anydml.errors import ModelError
from anydml.files.location import Location
from anydml.stores.formats import piece_reader
from anydml.stores.formats.torch_distributed import read_distributed

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
import torch.distributed.checkpoint as dcp  # noqa: E402


@pytest.fixture
def tensors():
    rng = np.random.default_rng(0)
    return {f"layers.{k}.w": rng.random((4 + k % 3, 6), np.float32) for k in range(60)}


@pytest.fixture
def parsed(monkeypatch):
    """The pieces that are parsed, as a list that grows."""
    found, real = [], piece_reader.read_torch

    def read(path, location, start, length):
        found.append(start)
        return real(path, location, start, length)

    monkeypatch.setattr(piece_reader, "read_torch", read)
    return found


@pytest.mark.parametrize("writer", ["torch", "anydml"])
def test_equal_headers_are_parsed_once(writer, tensors, parsed, tmp_path):
    if writer == "torch":
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            dcp.save({name: torch.from_numpy(each) for name, each in tensors.items()},
                     checkpoint_id=tmp_path / "dcp", no_dist=True)  # fmt: skip
    else:
        save_file(tensors, tmp_path / "x.safetensors")
        stores.reshard(tmp_path / "x.safetensors", tmp_path / "dcp", dcp=True, ranks={"fsdp": 2}).run()
    found = stores.plan_load(tmp_path / "dcp").load()
    assert all(found[name].tobytes() == each.tobytes() for name, each in tensors.items())
    pieces = sum(len(own) for _, own in read_distributed(tmp_path / "dcp").tensors.values())
    assert len(parsed) // 2 < pieces / 4


def piece(folder, tensor):
    """A file of torch.save inside a file."""
    torch.save(tensor, folder / "own.pt")
    return (folder / "own.pt").read_bytes()


def test_each_byte_that_decides_is_looked_at(parsed, tmp_path):
    first, second = (piece(tmp_path, torch.arange(6.0).reshape(2, 3) + k) for k in range(2))
    (tmp_path / "pieces").write_bytes(first + second)
    location = Location("pieces")
    with piece_reader.PieceReader() as pieces:
        pieces.read(tmp_path / "pieces", location, 0, len(first))
        found = pieces.read(tmp_path / "pieces", location, len(first), len(second))
        assert (found.read() == np.arange(6.0).reshape(2, 3) + 1).all()
        assert parsed == [0]
        with zipfile.ZipFile(io.BytesIO(second)) as archive:
            directory, records = archive.start_dir, len(archive.infolist())
        passed = []
        for at in [*range(found.offset - len(first)), *range(directory, len(second))]:
            changed = bytearray(second)
            changed[at] ^= 1
            (tmp_path / "pieces").write_bytes(first + changed)
            before = len(parsed)
            with suppress(ModelError, ValueError):
                pieces.read(tmp_path / "pieces", location, len(first), len(second))
            if len(parsed) == before:
                passed.append(at)
    # Only checksums, of 4 bytes each: one before the elements, and one for each record behind.
    assert len(passed) == 4 * (1 + records)


def test_a_piece_of_another_shape_is_parsed(parsed, tmp_path):
    tensors = [torch.arange(6.0).reshape(2, 3), torch.arange(6.0).reshape(3, 2), torch.arange(6.0).reshape(2, 3).mT]
    contents = [piece(tmp_path, each) for each in tensors] * 2
    (tmp_path / "pieces").write_bytes(b"".join(contents))
    with piece_reader.PieceReader() as pieces:
        at = 0
        for content, tensor in zip(contents, tensors * 2, strict=True):
            found = pieces.read(tmp_path / "pieces", Location("pieces"), at, len(content))
            store = found if hasattr(found, "read") else found.stores[""]
            np.testing.assert_array_equal(store.read(), tensor.numpy())
            at += len(content)
    assert len(parsed) == 3


def test_a_piece_that_is_cut_off_is_told(tensors, tmp_path):
    save_file(tensors, tmp_path / "x.safetensors")
    stores.reshard(tmp_path / "x.safetensors", tmp_path / "dcp", dcp=True).run()
    (file,) = (tmp_path / "dcp").glob("*.distcp")
    file.write_bytes(file.read_bytes()[:-50])
    with pytest.raises(ModelError):
        stores.plan_load(tmp_path / "dcp")
