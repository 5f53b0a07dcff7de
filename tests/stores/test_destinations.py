"""Outputs in empty folders that exist, also where a command was interrupted."""

import os
import time

import numpy as np
import pytest
from stores.test_opening import written

from anydml import stores
from anydml.cli import main
from anydml.stores.running import grid_blocks


@pytest.fixture(autouse=True)
def place(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    np.save("x.npy", np.arange(4200, dtype=np.float32).reshape(70, 60))
    written(tmp_path / "x.safetensors", {f"w.{k}": np.arange(k, k + 12, dtype=np.int32) for k in range(3)})


def run(capsys, *arguments):
    with pytest.raises(SystemExit) as ended:
        main([*map(str, arguments)])
    said = capsys.readouterr()
    return ended.value.code or 0, said.out, said.err


COMMANDS = {
    "zarr": ["rechunk", "x.npy", "out", "--chunks", "10,60"],
    "safetensors": ["reshard", "x.safetensors", "out", "--shard-size", "50"],
    "ranks": ["reshard", "x.safetensors", "out", "--fsdp", "2"],
    "distributed": ["reshard", "x.safetensors", "out", "--dcp"],
}


@pytest.mark.parametrize("kind", COMMANDS)
def test_an_empty_folder_is_filled(tmp_path, capsys, kind):
    """The folder stays the same one, as it must where it is a mount point."""
    if kind == "zarr":
        pytest.importorskip("zarr", reason='zarr-python is not installed: pip install "anydml[stores]"')
    out = tmp_path / "out"
    out.mkdir(0o700)
    was = out.stat()
    code, _, err = run(capsys, *COMMANDS[kind], "-q")
    assert (code, err) == (0, "")
    assert (out.stat().st_ino, out.stat().st_mode) == (was.st_ino, was.st_mode)
    assert not [name for name in (*os.listdir(out), *os.listdir(tmp_path)) if "anydml" in name]
    other = [*COMMANDS[kind]]
    other[2] = "new"
    assert run(capsys, *other, "-q")[0] == 0
    found, wanted = ({str(each.relative_to(folder)) for folder in [tmp_path / name] for each in folder.rglob("*")}
                     for name in ("out", "new"))  # fmt: skip
    assert found == wanted
    code, _, err = run(capsys, *COMMANDS[kind], "-q")
    assert (code, "exists already" in err) == (2, True)


def interrupted(monkeypatch, after):
    """Ctrl-C after some blocks."""
    begin, begun = grid_blocks.GridBlocks._begin, []

    def once(self, number, room):
        if len(begun) == after:
            raise KeyboardInterrupt
        begun.append(number)
        return begin(self, number, room)

    monkeypatch.setattr(grid_blocks.GridBlocks, "_begin", once)


@pytest.mark.parametrize("exists", [False, True])
def test_an_interrupted_command_goes_on(tmp_path, capsys, monkeypatch, exists):
    zarr = pytest.importorskip("zarr", reason='zarr-python is not installed: pip install "anydml[stores]"')
    if exists:
        (tmp_path / "out").mkdir()
    command = [*COMMANDS["zarr"], "--memory", "9kB"]
    with monkeypatch.context() as patched:
        interrupted(patched, 2)
        code, out, err = run(capsys, *command)
    assert code == 130
    count = len(stores.rechunk("x.npy", "other.zarr", [10, 60], memory="9kB").blocks)
    assert count > 2
    assert f"interrupted; 2 of {count} blocks are kept in " in err
    assert ".out.anydml-part; repeat the command to resume" in err
    assert sorted(os.listdir("out") if exists else [name for name in os.listdir() if "anydml" in name]) == [
        ".out.anydml-journal", ".out.anydml-part"]  # fmt: skip
    code, out, _ = run(capsys, *command)
    assert (code, f"resumed: 2 of {count} blocks" in out) == (0, True)
    np.testing.assert_array_equal(zarr.open_array("out", mode="r")[...], np.load("x.npy"))
    with monkeypatch.context() as patched:
        interrupted(patched, 0)
        code, out, err = run(capsys, *command[:2], "new", *command[3:])
    assert (code, "interrupted; nothing is kept" in err) == (130, True)
    assert not [name for name in os.listdir() if "new" in name]


@pytest.mark.parametrize("name", ["out.safetensors", "out.gguf", "out.npz"])
@pytest.mark.skipif(not hasattr(os, "setxattr"), reason="the file system keeps no marks")
def test_an_output_that_was_edited_at_once_is_not_complete(capsys, name):
    command = ["reshard", "x.safetensors", name, "--no-extras"]
    assert run(capsys, *command)[0] == 0
    assert "is complete" in run(capsys, *command)[1]
    time.sleep(0.1)
    times = os.stat(name)
    with open(name, "r+b") as file:
        file.seek(-4, os.SEEK_END)
        file.write(b"edit")
    os.utime(name, ns=(times.st_atime_ns, times.st_mtime_ns))
    code, _, error = run(capsys, *command)
    assert (code, "exists already" in error) == (2, True)


def test_a_folder_where_a_file_would_be_written(capsys):
    os.mkdir("out.safetensors")
    for more in ([], ["--overwrite"]):
        code, _, error = run(capsys, "reshard", "x.safetensors", "out.safetensors", *more)
        assert (code, "is a folder, but a file would be written" in error) == (2, True)


def test_a_symbolic_link_is_not_replaced(capsys):
    assert run(capsys, "reshard", "x.safetensors", "new")[0] == 0
    os.symlink("new", "link")
    code, _, error = run(capsys, "reshard", "x.safetensors", "link", "--overwrite")
    assert (code, "link: is a symbolic link, and is not replaced" in error) == (2, True)
    assert os.readlink("link") == "new"


def test_a_file_that_would_be_one_of_its_input(capsys):
    os.mkdir("folder")
    os.rename("x.safetensors", "folder/x.safetensors")
    os.symlink("folder", "link")
    for given, out in (
        ("folder", "folder/y.safetensors"),
        ("link", "folder/y.safetensors"),
        ("folder", "link/y.safetensors"),
    ):
        code, _, error = run(capsys, "reshard", given, out)
        assert (code, "would be one of the files of" in error) == (2, True)
    assert os.listdir("folder") == ["x.safetensors"]
    # A folder in it, another format, or one file of it as the input changes nothing of what the folder holds.
    for given, out in (
        ("folder", "folder/new"),
        ("folder", "folder/y.npz"),
        ("folder/x.safetensors", "folder/y.safetensors"),
    ):
        assert run(capsys, "reshard", given, out)[0] == 0


@pytest.mark.parametrize("overwrite", [False, True])
@pytest.mark.parametrize("kind", [*COMMANDS, "file", "manifest"])
def test_a_link_to_nothing_is_not_written(tmp_path, capsys, kind, overwrite):
    if kind == "zarr":
        pytest.importorskip("zarr", reason='zarr-python is not installed: pip install "anydml[stores]"')
    more = {"file": ["reshard", "x.safetensors", "y.safetensors"], "manifest": ["manifest", "x.safetensors", "y.json"]}
    command = [*(COMMANDS | more)[kind]]
    (tmp_path / command[2]).symlink_to("gone/disk")
    code, _, err = run(capsys, *command, "-q", *(["--overwrite"] if overwrite else []))
    said = f"{command[2]}: is a link to gone{os.sep}disk, which does not exist: remove it, or name another output\n"
    assert (code, err) == (2, f"anydml: {said}")
    assert {*os.listdir(tmp_path)} == {"x.npy", "x.safetensors", command[2]}
