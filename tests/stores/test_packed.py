"""Zip stores and repositories of Icechunk that are written: read by zarr-python and by icechunk."""

import json
import os
import shutil
import zipfile
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest

from anydml import stores
from anydml.errors import BindingError, ModelError
from anydml.stores.formats import packing
from anydml.stores.running import staging

zarr = pytest.importorskip("zarr", reason='zarr-python is not installed: pip install "anydml[stores]"')


def array():
    return np.arange(50 * 40, dtype="f4").reshape(50, 40)


def from_zip(path):
    return zarr.open(zarr.storage.ZipStore(str(path), mode="r"), mode="r")


def group(path, version):
    made = zarr.open_group(str(path), mode="w", zarr_format=version)
    made.create_array("t/temp", data=array(), chunks=(10, 10), attributes={"units": "K"})
    made.create_array("y", data=np.arange(50))
    return made


@pytest.mark.parametrize("options", [{}, {"zarr_format": 2}, {"shards": [20, 40]}, {"chunks": [[20, 30], 40]}])
def test_an_array_as_a_zip_store(tmp_path, options):
    np.save(tmp_path / "x.npy", array())
    plan = stores.rechunk(tmp_path / "x.npy", tmp_path / "y.zip", **{"chunks": [20, 20], **options})
    plan.run()
    assert plan.verify() is None
    assert {each.name for each in tmp_path.iterdir()} == {"x.npy", "y.zip"}
    np.testing.assert_array_equal(stores.open(tmp_path / "y.zip").read(), array())
    if options.get("chunks") is None:
        np.testing.assert_array_equal(from_zip(tmp_path / "y.zip")[...], array())
    before = (tmp_path / "y.zip").read_bytes()
    with pytest.raises(ModelError, match="exists already"):
        stores.rechunk(tmp_path / "x.npy", tmp_path / "y.zip", [10, 10]).run()
    for name in (tmp_path / "y.zip", os.path.relpath(tmp_path / "y.zip")):
        with pytest.raises(BindingError, match="is an input"):
            stores.rechunk(name, name, [10, 10], overwrite=True).run()
    assert (tmp_path / "y.zip").read_bytes() == before
    stores.rechunk(tmp_path / "x.npy", tmp_path / "y.zip", [10, 10], overwrite=True).run()
    assert from_zip(tmp_path / "y.zip").chunks == (10, 10)


@pytest.mark.parametrize("version", [2, 3])
def test_a_group_as_a_zip_store(tmp_path, version):
    group(tmp_path / "x.zarr", version)
    plan = stores.rechunk(tmp_path / "x.zarr", tmp_path / "y.zip", [50, 5])
    plan.run()
    assert plan.verify() is None
    found = from_zip(tmp_path / "y.zip")
    assert (found["t/temp"].chunks, dict(found["t/temp"].attrs)) == ((50, 5), {"units": "K"})
    np.testing.assert_array_equal(found["t/temp"][...], array())
    np.testing.assert_array_equal(found["y"][...], np.arange(50))


def test_other_files_are_not_replaced(tmp_path):
    np.save(tmp_path / "x.npy", array())
    with zipfile.ZipFile(tmp_path / "y.zip", "w") as file:
        file.writestr("mine", b"x")
    with pytest.raises(ModelError, match="not a zip store of Zarr"):
        stores.rechunk(tmp_path / "x.npy", tmp_path / "y.zip", [10, 10], overwrite=True).run()


@pytest.mark.parametrize("version", [2, 3])
def test_a_zip_store_with_a_group_is_replaced(tmp_path, version):
    group(tmp_path / "x.zarr", version)
    np.save(tmp_path / "x.npy", array())
    stores.rechunk(tmp_path / "x.zarr", tmp_path / "y.zip", [50, 5]).run()
    before = (tmp_path / "y.zip").read_bytes()
    with pytest.raises(ModelError, match="exists already"):
        stores.rechunk(tmp_path / "x.zarr", tmp_path / "y.zip", [10, 40]).run()
    assert (tmp_path / "y.zip").read_bytes() == before
    plan = stores.rechunk(tmp_path / "x.zarr", tmp_path / "y.zip", [10, 40], overwrite=True)
    plan.run()
    assert (plan.verify(), from_zip(tmp_path / "y.zip")["t/temp"].chunks) == (None, (10, 40))
    stores.rechunk(tmp_path / "x.npy", tmp_path / "y.zip", [10, 10], overwrite=True).run()
    np.testing.assert_array_equal(from_zip(tmp_path / "y.zip")[...], array())


@pytest.mark.parametrize("other", ["notes.txt", "t/notes.txt", "t/temp/notes.txt", "t/c/0/0", "0/0"])
@pytest.mark.parametrize("version", [2, 3])
def test_zip_stores_with_other_files_are_not_replaced(tmp_path, other, version):
    group(tmp_path / "x.zarr", version)
    stores.rechunk(tmp_path / "x.zarr", tmp_path / "y.zip", [50, 5]).run()
    with zipfile.ZipFile(tmp_path / "y.zip", "a") as file:
        file.writestr(other, "x")
    before = (tmp_path / "y.zip").read_bytes()
    with pytest.raises(ModelError, match=f'has "{other}" beside .*; it is not replaced: name another'):
        stores.rechunk(tmp_path / "x.zarr", tmp_path / "y.zip", [10, 10], overwrite=True).run()
    assert (tmp_path / "y.zip").read_bytes() == before


def test_interrupted_while_it_is_packed_it_goes_on(tmp_path, monkeypatch):
    np.save(tmp_path / "x.npy", array())
    copy = packing.shutil.copyfileobj

    def failing(source, target, size):
        copy(source, target, size)
        raise OSError(28, "no space left")

    with monkeypatch.context() as patched:
        patched.setattr(packing.shutil, "copyfileobj", failing)
        with pytest.raises(ModelError, match="no space left; repeat the command to resume"):
            stores.rechunk(tmp_path / "x.npy", tmp_path / "y.zip", [10, 10]).run()
    assert not (tmp_path / "y.zip").exists()
    plan = stores.rechunk(tmp_path / "x.npy", tmp_path / "y.zip", [10, 10])
    plan.run()
    assert plan.verify() is None
    assert {each.name for each in tmp_path.iterdir()} == {"x.npy", "y.zip"}


def test_what_cannot_be_packed_is_refused(tmp_path, monkeypatch):
    np.save(tmp_path / "x.npy", array())
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None if name == "icechunk" else object())
    with pytest.raises(ModelError, match="pip install icechunk"):
        stores.rechunk(tmp_path / "x.npy", tmp_path / "y.icechunk", [10, 10])


def test_icechunk(tmp_path):
    icechunk = pytest.importorskip("icechunk", reason="icechunk is not installed: pip install icechunk")
    group(tmp_path / "x.zarr", 3)
    plan = stores.rechunk(tmp_path / "x.zarr", tmp_path / "y.icechunk", [50, 5])
    plan.run()
    assert plan.verify() is None
    repository = icechunk.Repository.open(icechunk.local_filesystem_storage(str(tmp_path / "y.icechunk")))
    found = zarr.open_group(repository.readonly_session("main").store, mode="r")
    np.testing.assert_array_equal(found["t/temp"][...], array())
    # The one that every repository begins with, and one commit.
    assert len([*repository.ancestry(branch="main")]) == 2
    with pytest.raises(ModelError, match="repositories are not replaced"):
        stores.rechunk(tmp_path / "x.zarr", tmp_path / "y.icechunk", [50, 5], overwrite=True).run()
    with pytest.raises(ModelError, match="version 3 of Zarr alone"):
        stores.rechunk(tmp_path / "x.zarr", tmp_path / "z.icechunk", [50, 5], zarr_format=2)


class Killed(BaseException):
    """What a kill is here: no `except` for errors sees it."""


def killed_at(monkeypatch, step):
    """Let a rename, or half of a removal, be the last that is done, after some others."""
    done = []

    def counting(action, half=lambda *arguments: None):
        def once(*arguments, **keywords):
            done.append(action)
            if len(done) == step:
                half(*arguments)
                raise Killed
            return action(*arguments, **keywords)

        return once

    def halve(folder, *_):
        for each in [each for each in Path(folder).rglob("*") if each.is_file()][::2]:
            each.unlink()

    monkeypatch.setattr(staging.shutil, "rmtree", counting(shutil.rmtree, halve))
    monkeypatch.setattr(Path, "replace", counting(Path.replace))
    return done


@pytest.mark.parametrize("is_there", [False, True])
@pytest.mark.parametrize("name", ["y.zip", "y.icechunk"])
def test_killed_at_any_step_it_goes_on(tmp_path, monkeypatch, name, is_there):
    if name == "y.icechunk":
        pytest.importorskip("icechunk", reason="icechunk is not installed: pip install icechunk")
        if is_there:
            pytest.skip("repositories are not replaced")
    np.save(tmp_path / "x.npy", array())
    np.save(tmp_path / "old.npy", -array())
    step, is_over = 1, False
    while not is_over:
        folder = tmp_path / str(step)
        folder.mkdir()
        if is_there:
            stores.rechunk(tmp_path / "old.npy", folder / name, [5, 5]).run()
        with monkeypatch.context() as patched:
            done = killed_at(patched, step)
            with suppress(Killed):
                stores.rechunk(tmp_path / "x.npy", folder / name, [10, 10], overwrite=is_there).run()
            is_over = len(done) < step
        plan = stores.rechunk(tmp_path / "x.npy", folder / name, [10, 10], overwrite=is_there)
        plan.run()
        assert plan.verify() is None
        np.testing.assert_array_equal(stores.open(folder / name).read(), array())
        assert [each.name for each in folder.iterdir()] == [name]
        step += 1
    assert step > 4


def test_verifying_notices_other_metadata(tmp_path):
    made = zarr.create_array(str(tmp_path / "x.zarr"), data=array(), chunks=(10, 10), fill_value=7, attributes={"a": 1})
    assert made.shape == (50, 40)
    plan = stores.rechunk(tmp_path / "x.zarr", tmp_path / "y.zarr", [20, 20])
    plan.run()
    said = json.loads((tmp_path / "y.zarr/zarr.json").read_text())
    for key, value in {"fill_value": 8.0, "attributes": {}, "dimension_names": ["p", "q"]}.items():
        (tmp_path / "y.zarr/zarr.json").write_text(json.dumps({**said, key: value}))
        assert plan.verify() is not None, key


def test_a_zip_is_not_written_onto_itself(tmp_path):
    np.save(tmp_path / "x.npy", array())
    stores.rechunk(tmp_path / "x.npy", tmp_path / "y.zip", [10, 10]).run()
    (tmp_path / "z.zip").symlink_to(tmp_path / "y.zip")
    before = (tmp_path / "y.zip").read_bytes()
    for name in ("y.zip", "z.zip"):
        with pytest.raises(BindingError, match="is an input"):
            stores.rechunk(tmp_path / "y.zip", tmp_path / name, [10, 10], slices="0:5,:", overwrite=True).run()
    assert (tmp_path / "y.zip").read_bytes() == before


@pytest.mark.skipif(os.name == "nt", reason="Windows has no such permissions")
def test_permissions_are_the_sources(tmp_path):
    np.save(tmp_path / "x.npy", array())
    stores.rechunk(tmp_path / "x.npy", tmp_path / "y.zip", [10, 10]).run()
    (tmp_path / "y.zip").chmod(0o600)
    for name in ("z.zip", "z.zarr"):
        stores.rechunk(tmp_path / "y.zip", tmp_path / name, [5, 5]).run()
        assert not (tmp_path / name).stat().st_mode & 0o077


def test_what_cannot_get_its_name_is_refused_first(tmp_path):
    np.save(tmp_path / "x.npy", array())
    (tmp_path / "y.zip").mkdir()
    with pytest.raises(ModelError, match="is an empty folder"):
        stores.rechunk(tmp_path / "x.npy", tmp_path / "y.zip", [10, 10]).run()
    with zipfile.ZipFile(tmp_path / "z.zip", "w") as file:
        file.writestr("zarr.json", "[]")
    with pytest.raises(ModelError, match="not replaced"):
        stores.rechunk(tmp_path / "x.npy", tmp_path / "z.zip", [10, 10], overwrite=True).run()


def test_shards_are_not_left_out_unsaid(tmp_path):
    np.save(tmp_path / "x.npy", array())
    stores.rechunk(tmp_path / "x.npy", tmp_path / "x.zarr", [10, 10], shards=[20, 20]).run()
    with pytest.raises(ModelError, match="--shards none"):
        stores.rechunk(tmp_path / "x.zarr", tmp_path / "y.zarr", [[20, 30], 40])
    plan = stores.rechunk(tmp_path / "x.zarr", tmp_path / "y.zarr", [np.array([20, 30]), np.int64(40)], shards=())
    plan.run()
    assert plan.verify() is None
    with pytest.raises(ModelError, match="one size, or a list of all sizes"):
        stores.rechunk(tmp_path / "x.npy", tmp_path / "z.zarr", [[20, 30], None])
