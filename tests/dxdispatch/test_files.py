from __future__ import annotations

import os

import numpy as np
import pytest

from anydml import dxdispatch
from anydml.errors import ModelError
from anydml.files import npy
from anydml.files.folder import write_whole
from anydml.files.location import Location


def write(**fields):
    return lambda model: model["commands"].append({"type": "writeFile", "resource": "B", **fields})


def read(path):
    fields = {"initialValuesDataType": "UINT8", "initialValues": {"sourcePath": str(path)}}
    return lambda model: model["resources"].update(C=fields)


@pytest.fixture
def outside(folder):
    """A file beside the model's folder, and links to it and to its folder from inside."""
    path = folder.path.parent / "outside.bin"
    path.write_bytes(b"1234")
    (folder.path / "link.bin").symlink_to(path)
    (folder.path / "up").symlink_to(path.parent)
    return path


OUTSIDE = ["../outside.bin", "..\\outside.bin", "sub/../../outside.bin", "link.bin", "up/outside.bin", "{path}"]


@pytest.mark.parametrize("path", OUTSIDE)
def test_nothing_leaves_the_folder(folder, outside, path):
    path = path.format(path=outside)
    error = folder.error(read(path))
    assert error.startswith("resources.C.initialValues.sourcePath: ")
    assert "leaves the model's folder" in error
    assert "--allow-outside" in error
    error = folder.error(write(targetPath=path))
    assert error.startswith("commands[2].targetPath: ")
    assert outside.read_bytes() == b"1234"


@pytest.mark.parametrize("path", OUTSIDE)
def test_unless_it_is_allowed(folder, outside, path):
    (folder.path / "sub").mkdir()
    path = path.format(path=outside)
    folder.run(read(path), allow_outside=True)
    folder.run(write(targetPath=path), allow_outside=True)
    assert outside.read_bytes() == np.array([1, 3, 5, 0, 0, 0], np.float32).tobytes()
    assert (folder.path / "link.bin").is_symlink()


def test_a_source_may_lie_in_the_current_folder_where_that_is_allowed(folder, outside, monkeypatch):
    monkeypatch.chdir(outside.parent)
    assert "there is no such file or folder" in folder.error(read("outside.bin"))
    folder.run(read("outside.bin"), allow_outside=True)


@pytest.mark.parametrize("path", ["", ".", "sub", "x\0.bin"])
def test_targets_that_are_no_files(folder, path):
    (folder.path / "sub").mkdir()
    assert folder.error(write(targetPath=path)).startswith("commands[2].targetPath: ")


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no named pipes here")
def test_special_files_are_not_read(folder):
    os.mkfifo(folder.path / "pipe.bin")
    assert "is not a file" in folder.error(read("pipe.bin"))


@pytest.mark.parametrize("path", ["new/deep/b.npy", "new\\b.npy"])
def test_folders_are_made(folder, path):
    lines = folder.run(write(targetPath=path))
    target = folder.path / path.replace("\\", "/")
    assert lines[-1] == f"Resource 'B' written to '{target.resolve()}'"
    assert np.load(target).tolist() == [1, 3, 5, 0, 0, 0]


def test_npy_files_have_the_dimensions_asked_for(folder):
    folder.run(write(targetPath="b.npy", dimensions=[1, 3]))
    written = np.load(folder.path / "b.npy")
    assert written.dtype == np.float32
    assert written.tolist() == [[1, 3, 5]]
    assert folder.error(write(targetPath="b.npy", dimensions=[7])).startswith(
        'commands[2].dimensions: [7] of FLOAT32 are 28 bytes, but "B" has 24'
    )


def test_without_dimensions_the_padding_is_written_too(folder):
    half = {"initialValuesDataType": "FLOAT16", "initialValues": [1, 2, 3]}

    def add(model):
        model["resources"]["C"] = half
        model["commands"] = [
            {"type": "writeFile", "resource": "C", "targetPath": "c.npy"},
            {"type": "WRITEFILE", "resource": "C", "targetPath": "c.dat"},
        ]

    folder.run(add)
    assert np.load(folder.path / "c.npy").tolist() == [1, 2, 3, 0]
    assert (folder.path / "c.dat").read_bytes() == np.array([1, 2, 3, 0], np.float16).tobytes()


def test_half_a_file_is_never_found_under_the_name(tmp_path):
    target = tmp_path / "x.bin"
    target.write_bytes(b"before")

    def fail(file):
        file.write(b"half")
        file.flush()
        assert target.read_bytes() == b"before"
        raise OSError(28, "No space left on device")

    with pytest.raises(ModelError, match="cannot be written: No space left on device"):
        write_whole(target, fail, Location("m.json"))
    assert target.read_bytes() == b"before"
    assert list(tmp_path.iterdir()) == [target]


def test_a_target_that_cannot_be_written(folder):
    (folder.path / "file").write_bytes(b"")
    with pytest.raises(ModelError, match=r"commands\[2\]\.targetPath: .* cannot be written"):
        folder.run(write(targetPath="file/x.bin"))


CHANGES = {
    "shorter": lambda path: path.write_bytes(path.read_bytes()[:-1]),
    "empty": lambda path: path.write_bytes(b""),
    "gone": lambda path: path.unlink(),
}


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("name", ["c.bin", "c.npy", "fortran.npy"])
def test_a_file_that_changes_after_it_was_looked_at(folder, name, change):
    path = folder.path / name
    if name == "c.bin":
        path.write_bytes(bytes(8))
    else:
        np.save(path, np.zeros((4, 2), np.uint8, order="F" if name == "fortran.npy" else "C"))
    edit = read(name)
    loaded = dxdispatch.load(folder.edit(edit))
    dxdispatch.run(loaded, log=lambda line: None)
    CHANGES[change](path)
    lines = []
    with pytest.raises(ModelError) as caught:
        dxdispatch.run(loaded, log=lines.append)
    reason = "cannot be read: No such file" if change == "gone" else f"{path} changed while it was read"
    assert str(caught.value).startswith(f"{folder.file}: line 1: resources.C")
    assert reason in str(caught.value)
    assert lines == ["Running on 'cpu'"], "something had run"


def test_a_model_under_a_name_that_no_file_can_have(folder):
    assert folder.error_of(folder.path / ("x" * 300)).endswith("cannot be read: File name too long")


@pytest.mark.parametrize("name", ["c.png", "c.JPG", "sub/c.jpeg"])
def test_images_are_neither_read_nor_written(folder, name):
    assert "is an image; read its pixels into a .npy file first" in folder.error(read(name))
    assert "is an image; write a .npy file instead" in folder.error(write(targetPath=name))


def test_an_npy_file_that_cannot_be_opened(tmp_path):
    with pytest.raises(ModelError, match=r"m\.json: .*c\.npy cannot be read: No such file"):
        npy.read_header(tmp_path / "c.npy", Location("m.json"))
