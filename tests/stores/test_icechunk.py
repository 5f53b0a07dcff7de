"""Repositories of Icechunk, written by icechunk: read as groups of Zarr, and never written."""

import importlib.util
import subprocess
import sys

import numpy as np
import pytest

from anydml import stores
from anydml.cli import main
from anydml.errors import BindingError, ModelError

zarr = pytest.importorskip("zarr", reason='zarr-python is not installed: pip install "anydml[stores]"')

X = np.arange(48, dtype=np.float32).reshape(8, 6)


def repository(path, change):
    """The repository at a path, with one more commit."""
    icechunk = pytest.importorskip("icechunk")
    storage = icechunk.local_filesystem_storage(str(path))
    is_there = icechunk.Repository.exists(storage)
    found = icechunk.Repository.open(storage) if is_there else icechunk.Repository.create(storage)
    session = found.writable_session("main")
    change(session.store)
    return session.commit("changed")


def two(store):
    group = zarr.create_group(store, attributes={"title": "maps"})
    maps = group.create_array("deep/t", shape=X.shape, dtype=X.dtype, chunks=(4, 3), dimension_names=("t", "x"))
    maps[:] = X
    group.create_array("u", data=np.arange(3000), chunks=(1000,))


def said(capsys, *arguments):
    try:
        code = main([str(each) for each in arguments]) or 0
    except SystemExit as ended:
        code = ended.code or 0
    found = capsys.readouterr()
    return code, found.out, found.err


def test_a_repository_is_a_group(tmp_path, capsys):
    snapshot = repository(tmp_path / "ice", two)
    code, out, _ = said(capsys, "stores", tmp_path / "ice")
    assert (code, sorted(line.split()[0] for line in out.splitlines()[:2])) == (0, ["deep/t", "u"])
    plan = stores.rechunk(tmp_path / "ice", tmp_path / "y", [8, 2])
    assert f"reads snapshot {snapshot} of branch main of {tmp_path / 'ice'}" in plan.remarks
    plan.run()
    group = zarr.open_group(str(tmp_path / "y"), mode="r")
    assert (group.attrs.asdict(), group["deep/t"].chunks) == ({"title": "maps"}, (8, 2))
    np.testing.assert_array_equal(group["deep/t"][...], X)
    np.testing.assert_array_equal(group["u"][...], np.arange(3000))
    assert stores.verify(tmp_path / "ice", tmp_path / "y") is None
    code, out, _ = said(capsys, "rechunk", tmp_path / "ice/deep/t", tmp_path / "z", "--chunks", "2,6", "--verify")
    assert (code, "verified" in out) == (0, True)
    np.testing.assert_array_equal(stores.open(tmp_path / "ice/u").read(), np.arange(3000))


def test_a_commit_meanwhile_is_noticed(tmp_path):
    repository(tmp_path / "ice", two)
    plan = stores.rechunk(tmp_path / "ice/deep/t", tmp_path / "y", [8, 6])
    repository(tmp_path / "ice", lambda store: zarr.open_group(store)["deep/t"].__setitem__((0, 0), 77))
    with pytest.raises(BindingError, match="has changed since it was opened"):
        plan.run()
    assert not (tmp_path / "y").exists()
    assert stores.open(tmp_path / "ice/deep/t").read()[0, 0] == 77


def test_the_command_prints_nothing_of_its_own(tmp_path):
    repository(tmp_path / "ice", two)
    run = [sys.executable, "-m", "anydml", "rechunk", tmp_path / "ice", tmp_path / "y", "--chunks", "8,2", "-q"]
    done = subprocess.run(run, check=False, capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_nothing_is_written_to_one(tmp_path, capsys):
    repository(tmp_path / "ice", two)
    np.save(tmp_path / "x.npy", X)
    before = sorted(path.name for path in (tmp_path / "ice").rglob("*"))
    for target in ("ice", "ice/new", "ice/deep/t"):
        for more in ((), ("--overwrite",)):
            code, _, err = said(capsys, "rechunk", tmp_path / "x.npy", tmp_path / target, "-q", *more)
            assert (code, len(err.splitlines())) == (2, 1), err
    assert sorted(path.name for path in (tmp_path / "ice").rglob("*")) == before


def test_it_is_named_without_its_library(tmp_path, monkeypatch):
    for name in ("snapshots", "manifests", "refs"):
        (tmp_path / "ice" / name).mkdir(parents=True)
    find = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name, *more: None if name == "icechunk" else find(name, *more)
    )
    with pytest.raises(ModelError, match="which icechunk reads and writes: pip install icechunk"):
        stores.open(tmp_path / "ice")


def test_one_that_is_broken_is_refused(tmp_path):
    pytest.importorskip("icechunk")
    for name in ("snapshots", "manifests", "refs"):
        (tmp_path / "ice" / name).mkdir(parents=True)
    with pytest.raises(ModelError, match="is a repository of Icechunk that cannot be opened"):
        stores.open(tmp_path / "ice")


def test_virtual_chunks_are_refused_with_what_to_do(tmp_path):
    icechunk = pytest.importorskip("icechunk")
    (tmp_path / "bytes").write_bytes(X.tobytes())
    prefix = f"file://{tmp_path}/"
    config = icechunk.RepositoryConfig.default()
    container = icechunk.VirtualChunkContainer(prefix, icechunk.local_filesystem_store(str(tmp_path)))
    config.set_virtual_chunk_container(container)
    storage = icechunk.local_filesystem_storage(str(tmp_path / "x"))
    session = icechunk.Repository.create(storage, config).writable_session("main")
    zarr.create_array(session.store, shape=X.shape, chunks=X.shape, dtype=X.dtype, compressors=None)
    session.store.set_virtual_ref("c/0/0", f"{prefix}bytes", offset=0, length=X.nbytes)
    session.commit("virtual")
    with pytest.raises(ModelError, match="write references of VirtualiZarr as JSON"):
        stores.rechunk(tmp_path / "x", tmp_path / "y.zarr", [1, 6]).run()
