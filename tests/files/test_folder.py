from __future__ import annotations

import os
import stat
import subprocess
import sys

import pytest

from anydml.errors import ModelError
from anydml.files.folder import write_whole
from anydml.files.location import Location

HERE = Location("m.json")
posix = pytest.mark.skipif(sys.platform == "win32", reason="permissions of POSIX")
root = pytest.mark.skipif(getattr(os, "geteuid", lambda: 1)() != 0, reason="only root gives files away")


def put(path, data=b"new"):
    write_whole(path, lambda file: file.write(data), HERE)


def mode(path):
    return stat.S_IMODE(path.stat().st_mode)


@pytest.fixture(params=[0o022, 0o077, 0])
def umask(request):
    before = os.umask(request.param)
    yield request.param
    os.umask(before)


@posix
@pytest.mark.parametrize("before", [0o600, 0o640, 0o644, 0o666, 0o755, 0o700])
def test_permissions_stay(before, umask, tmp_path):
    path = tmp_path / "x.bin"
    path.write_bytes(b"old")
    path.chmod(before)
    put(path)
    assert (path.read_bytes(), mode(path)) == (b"new", before)
    put(tmp_path / "y.bin")
    assert mode(tmp_path / "y.bin") == 0o666 & ~umask


@posix
def test_nobody_may_look_into_the_half_written_file(tmp_path):
    path = tmp_path / "x.bin"
    path.write_bytes(b"old")
    path.chmod(0o600)

    def write(file):
        (beside,) = set(tmp_path.iterdir()) - {path}
        assert mode(beside) == 0o600
        file.write(b"new")

    write_whole(path, write, HERE)
    assert list(tmp_path.iterdir()) == [path]


@posix
@root
def test_owner_and_group_stay(tmp_path):
    path = tmp_path / "x.bin"
    path.write_bytes(b"old")
    os.chown(path, 1234, 4321)
    path.chmod(0o640)
    put(path)
    assert (path.stat().st_uid, path.stat().st_gid, mode(path)) == (1234, 4321, 0o640)


@posix
def test_where_the_group_cannot_stay_its_rights_go(tmp_path, monkeypatch):
    path = tmp_path / "x.bin"
    path.write_bytes(b"old")
    path.chmod(0o664)

    def refuse(*_):
        raise PermissionError

    real = os.stat_result
    old = path.stat()
    elsewhere = real((old.st_mode, old.st_ino, old.st_dev, 1, old.st_uid, old.st_gid + 1, 3, 0, 0, 0))
    monkeypatch.setattr(os, "chown", refuse)
    monkeypatch.setattr(type(path), "stat", lambda self, **options: elsewhere if self == path else os.stat(self))
    put(path)
    monkeypatch.undo()
    assert mode(path) == 0o644


@posix
@root
@pytest.mark.skipif(not hasattr(os, "getgroups"), reason="there are no groups")
def test_a_folder_that_hands_on_its_group(tmp_path):
    folder = tmp_path / "shared"
    folder.mkdir()
    os.chown(folder, -1, 4321)
    folder.chmod(0o2775)
    put(folder / "new.bin")
    put(folder / "deep" / "new.bin")
    assert (folder / "new.bin").stat().st_gid == 4321
    assert (folder / "deep" / "new.bin").stat().st_gid == 4321
    assert mode(folder / "deep") & stat.S_ISGID


@posix
def test_links_are_followed(tmp_path):
    path, link, dangling = (tmp_path / name for name in ("x.bin", "link.bin", "dangling.bin"))
    path.write_bytes(b"old")
    link.symlink_to("x.bin")
    dangling.symlink_to("y.bin")
    put(link)
    put(dangling)
    assert link.is_symlink()
    assert dangling.is_symlink()
    assert (path.read_bytes(), (tmp_path / "y.bin").read_bytes()) == (b"new", b"new")
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")
    with pytest.raises(ModelError, match="cannot be written"):
        put(tmp_path / "a")


@posix
def test_another_hard_link_keeps_what_it_had(tmp_path):
    (tmp_path / "x.bin").write_bytes(b"old")
    os.link(tmp_path / "x.bin", tmp_path / "y.bin")
    put(tmp_path / "x.bin")
    assert (tmp_path / "y.bin").read_bytes() == b"old"


@posix
def test_devices_stay_devices(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = subprocess.Popen(["cat", str(pipe)], stdout=subprocess.PIPE)
    put(pipe, b"through")
    assert reader.communicate(timeout=600)[0] == b"through"
    assert stat.S_ISFIFO(pipe.stat().st_mode)
    put("/dev/null")
    assert stat.S_ISCHR(os.stat("/dev/null").st_mode)


@posix
def test_a_file_that_may_not_be_written_is_not(tmp_path, monkeypatch):
    path = tmp_path / "x.bin"
    path.write_bytes(b"old")
    path.chmod(0o444)
    # Root may write everything.
    monkeypatch.setattr(os, "access", lambda path, right: False)
    with pytest.raises(ModelError, match=r"m\.json: .*x\.bin cannot be written: Permission denied"):
        put(path)
    assert path.read_bytes() == b"old"


@pytest.mark.skipif(not hasattr(os, "setxattr"), reason="there are no extended attributes")
def test_attributes_of_the_user_stay(tmp_path):
    path = tmp_path / "x.bin"
    path.write_bytes(b"old")
    try:
        os.setxattr(path, "user.origin", b"here")
    except OSError:
        pytest.skip("this file system has no extended attributes")
    put(path)
    assert os.getxattr(path, "user.origin") == b"here"


@pytest.mark.skipif(not hasattr(os, "setxattr"), reason="there are no access lists")
def test_where_the_access_list_cannot_stay_its_mask_goes(tmp_path, monkeypatch):
    path = tmp_path / "x.bin"
    path.write_bytes(b"old")
    path.chmod(0o664)

    def refuse(*_):
        raise PermissionError

    monkeypatch.setattr(os, "listxattr", lambda path: ["system.posix_acl_access", "user.x"])
    monkeypatch.setattr(os, "getxattr", lambda path, name: b"")
    monkeypatch.setattr(os, "setxattr", refuse)
    put(path)
    assert mode(path) == 0o604


@pytest.mark.parametrize("name", ["x\0.bin", "x" * 300])
def test_names_that_no_file_can_have(name, tmp_path):
    with pytest.raises(ModelError, match=r"^m\.json: ") as caught:
        put(tmp_path / name)
    assert str(caught.value).isprintable()
