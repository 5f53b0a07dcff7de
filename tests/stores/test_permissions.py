"""What is written from private files is private, also while it is written; what tells of changed sources."""

import os
import stat
import sys
import time

import numpy as np
import pytest
from stores.test_opening import written

from anydml import stores
from anydml.errors import AnydmlError, ModelError
from anydml.files.modes import allowed_by
from anydml.stores.planning import identities

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="Windows has other permissions")


@pytest.fixture(autouse=True)
def usual(tmp_path, monkeypatch):
    """The usual permissions of new files, wherever the tests run."""
    monkeypatch.chdir(tmp_path)
    before = os.umask(0o022)
    np.save("x.npy", np.arange(42, dtype=np.float32).reshape(7, 6))
    written(tmp_path / "x.safetensors", {f"w.{k}": np.arange(k, k + 12, dtype=np.int32) for k in range(3)})
    yield
    os.umask(before)


def modes(path):
    """Permissions of a file, or of a folder's files and of its folders."""
    if not path.is_dir():
        return {stat.S_IMODE(path.stat().st_mode)}, set()
    every = [path, *path.rglob("*")]
    found = {(each.is_dir(), stat.S_IMODE(each.stat().st_mode)) for each in every}
    return tuple({mode for is_folder, mode in found if is_folder == kind} for kind in (False, True))


WRITERS = {
    "npy": ("x.npy", lambda out: stores.rechunk("x.npy", out / "y.npy")),
    "zarr": ("x.npy", lambda out: stores.rechunk("x.npy", out / "y.zarr", [3, 2])),
    "shards": ("x.npy", lambda out: stores.rechunk("x.npy", out / "y.zarr", [3, 2], shards=[6, 4])),
    "file": ("x.safetensors", lambda out: stores.reshard(["x.safetensors"], out / "y.safetensors")),
    "folder": ("x.safetensors", lambda out: stores.reshard(["x.safetensors"], out / "y", shard_size="50")),
    "dcp": ("x.safetensors", lambda out: stores.reshard(["x.safetensors"], out / "y", ranks={"fsdp": 2}, dcp=True)),
    "npz": ("x.safetensors", lambda out: stores.reshard(["x.safetensors"], out / "y.npz")),
}


@pytest.mark.parametrize("mode", [0o600, 0o640, 0o644, 0o444, 0o666])
@pytest.mark.parametrize("name", WRITERS)
def test_no_wider_than_the_source(tmp_path, name, mode):
    if name in ("zarr", "shards"):
        pytest.importorskip("zarr", reason='zarr-python is not installed: pip install "anydml[stores]"')
    source, make = WRITERS[name]
    os.chmod(source, mode)
    (tmp_path / "out").mkdir()
    make(tmp_path / "out").run()
    (found,) = (tmp_path / "out").iterdir()
    files, folders = modes(found)
    wanted = mode & 0o644 | 0o600
    assert files == {wanted}
    assert folders <= {{0o600: 0o700, 0o640: 0o750, 0o644: 0o755}[wanted]}


def test_while_it_is_written(tmp_path):
    zarr = pytest.importorskip("zarr", reason='zarr-python is not installed: pip install "anydml[stores]"')
    os.chmod("x.npy", 0o600)
    for out in ("y.npy", "y.zarr"):
        seen = []
        plan = stores.rechunk("x.npy", out, None if out == "y.npy" else [3, 2], memory="16kB")
        plan.run(
            progress=lambda _, seen=seen: seen.extend(
                stat.S_IMODE(each.stat().st_mode) & 0o077 for each in tmp_path.iterdir() if each.name.startswith(".")
            )
        )
        assert seen
        assert not any(seen)
    # A private array within which files are not, and one whose chunks are private alone.
    for kind in ("folder", "chunks"):
        zarr.create_array(f"{kind}.zarr", shape=(4,), dtype="f4", chunks=(2,))[...] = 1
        os.chmod(f"{kind}.zarr" if kind == "folder" else "chunks.zarr/c/1", 0o700)
        stores.rechunk(f"{kind}.zarr", f"{kind}.npy").run()
        assert modes(tmp_path / f"{kind}.npy")[0] == {0o600}


def test_what_is_replaced_and_other_groups(tmp_path, monkeypatch):
    os.chmod("x.npy", 0o600)
    (tmp_path / "y.npy").write_bytes(b"old")
    stores.rechunk("x.npy", "y.npy", overwrite=True).run()
    assert modes(tmp_path / "y.npy")[0] == {0o600}
    os.chmod("x.npy", 0o640)
    monkeypatch.setattr(os, "getegid", lambda: os.stat("x.npy").st_gid + 1)
    assert allowed_by([tmp_path / "x.npy"], tmp_path) & 0o077 == 0


def test_a_source_that_was_edited_in_place(tmp_path):
    """Its time of modification was put back, which no program can do for the time of its change."""
    plan = stores.rechunk("x.npy", "y.npy")
    was = os.stat("x.npy")
    with open("x.npy", "r+b") as file:
        file.seek(-4, os.SEEK_END)
        file.write(b"abcd")
    os.utime("x.npy", ns=(was.st_atime_ns, was.st_mtime_ns))
    with pytest.raises(AnydmlError, match="has changed since it was opened"):
        plan.run()
    loaded = stores.plan_load("x.safetensors")
    was = os.stat("x.safetensors")
    with open("x.safetensors", "r+b") as file:
        file.seek(-4, os.SEEK_END)
        file.write(b"abcd")
    os.utime("x.safetensors", ns=(was.st_atime_ns, was.st_mtime_ns))
    with pytest.raises(AnydmlError, match="has changed since it was opened"):
        loaded.load()


@pytest.mark.parametrize("out", ["y.npy", "y.zarr"])
def test_an_output_that_was_edited_in_place(tmp_path, out):
    """It is not taken for the one that the command wrote."""
    if out == "y.zarr":
        pytest.importorskip("zarr", reason='zarr-python is not installed: pip install "anydml[stores]"')
    try:
        os.setxattr("x.npy", "user.anydml.test", b"kept")
    except (AttributeError, OSError):
        pytest.skip("the file system keeps no attributes of files")
    stores.rechunk("x.npy", out).run()
    again = stores.rechunk("x.npy", out)
    again.run()
    assert again.already_complete
    path = tmp_path / out if out == "y.npy" else next((tmp_path / out / "c").rglob("0"))
    path = path if path.is_file() else next(each for each in (tmp_path / out / "c").rglob("*") if each.is_file())
    was = path.stat()
    # A file may be edited some seconds after it was written.
    os.utime(path, ns=(was.st_atime_ns, was.st_mtime_ns))
    if out == "y.npy":
        time.sleep(identities.MARKING / 1e9 + 0.1)
    with path.open("r+b") as file:
        file.seek(-1, os.SEEK_END)
        file.write(b"x")
    os.utime(path, ns=(was.st_atime_ns, was.st_mtime_ns))
    with pytest.raises(ModelError, match="exists already"):
        stores.rechunk("x.npy", out).run()


@pytest.mark.parametrize("change", [b"more", b""], ids=["longer", "shorter"])
def test_chunks_of_a_wrong_length(tmp_path, change):
    zarr = pytest.importorskip("zarr", reason='zarr-python is not installed: pip install "anydml[stores]"')
    for version in (2, 3):
        name = f"{version}.zarr"
        zarr.create_array(name, shape=(4,), dtype="f4", chunks=(2,), zarr_format=version, compressors=None)[...] = 1
        path = tmp_path / name / ("c/1" if version == 3 else "1")
        path.write_bytes(path.read_bytes() + change if change else path.read_bytes()[:-1])
        with pytest.raises(ModelError, match=r"it must be 8 bytes, not \d+"):
            stores.rechunk(name, f"{version}.npy").run()


@pytest.mark.parametrize("field", ["chunks", "shards"])
@pytest.mark.parametrize("sizes", [(99999999999999999999, 5), (1 << 62, 5), (0, 5), (-99999999999999999999, 5)])
def test_sizes_beyond_all_files(field, sizes):
    pytest.importorskip("zarr", reason='zarr-python is not installed: pip install "anydml[stores]"')
    with pytest.raises(ModelError, match=rf"{field} is .*: each size must be 1 or more, and below 2⁶²"):
        stores.rechunk("x.npy", "y.zarr", **{"chunks": [2, 2], field: sizes})


@pytest.mark.parametrize("dtype", [None, "float16"])
def test_small_files_that_are_changed_or_come_from_another_folder(tmp_path, dtype):
    (tmp_path / "base").mkdir()
    (tmp_path / "base" / "config.json").write_text('{"dtype": "float32"}')
    os.chmod(tmp_path / "base" / "config.json", 0o600)
    stores.reshard(["x.safetensors"], tmp_path / "out", extras=tmp_path / "base", dtype=dtype).run()
    assert modes(tmp_path / "out")[0] == {0o600}


@pytest.mark.parametrize(
    "command", ["slim x.onnx -o y.onnx", "onnx portable x.onnx y.onnx", "run x.onnx --input x=x.npy --output y=y.npy"]
)
@pytest.mark.parametrize("private", ["x.onnx", "x.npy"])
def test_models(tmp_path, capsys, command, private):
    onnx = pytest.importorskip("onnx", reason='onnx is not installed: pip install "anydml[onnx]"')
    from onnx import TensorProto, helper

    from anydml.cli import main

    x, y = (
        helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in (("x", [7, 6]), ("y", [6, 7]))
    )
    graph = helper.make_graph([helper.make_node("Transpose", ["x"], ["y"])], "g", [x], [y])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), "x.onnx")
    os.chmod(private, 0o600)
    out = "y.npy" if command.startswith("run") else "y.onnx"
    with pytest.raises(SystemExit) as ended:
        main(command.split())
    assert not ended.value.code, capsys.readouterr().err
    is_read = private == "x.onnx" or "x.npy" in command
    assert modes(tmp_path / out)[0] == ({0o600} if is_read else {0o644})
