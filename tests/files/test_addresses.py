"""Addresses of what lies elsewhere are refused where arrays of files are meant, before anything is written.

Zarr arrays and .npy files may lie at some: those are in tests/stores/test_elsewhere.py.
"""

import json
from pathlib import Path

import numpy as np
import pytest

import anydml as dml
from anydml import stores
from anydml.cli import main
from anydml.paths import address, path_text

ADDRESSES = [
    "s3://bucket/x.zarr", "hf://o/m/out.safetensors", "gs://b/x.npy", "file:///data/x.zarr", "https://h/x.safetensors",
    "simplecache::s3://b/x.npz", "zip://x.npy::https://h/x.zip", "S3://b/x.npy", "abfs://c@a/x.npy", "memory://x.zarr",
    "new+scheme://x.gguf", "s3:/bucket/x.zarr", "file:/data/x.npy",
    " s3://b/x.npy", "zip::x.zarr",
]  # fmt: skip

LOCAL = [
    "a:b",
    "a:b/c",
    "C:\\x.npy",
    "C:/x.npy",
    "c://x.npy",
    "./s3://x",
    "x/s3:/y",
    "s3",
    "s3:x",
    "é:/x",
    "a::b",
    "/s3:/x",
]


@pytest.fixture
def place(tmp_path, monkeypatch):
    """A folder with a checkpoint, an array and a model file."""
    monkeypatch.chdir(tmp_path)
    # Commands look at what they read first.
    (tmp_path / "x.onnx").touch()
    np.save("x.npy", np.arange(6))
    files = stores.create("x.safetensors", {"x": [6]}, "int64")
    dml.fuse(lambda x: {"x": x}).plan(stores.open("x.npy"), files).run()
    return tmp_path


def inside(folder):
    return sorted(str(each.relative_to(folder)) for each in folder.rglob("*"))


@pytest.mark.parametrize("path", LOCAL)
def test_local_names(path):
    assert address(path) is None
    assert path_text("open", path) == path


@pytest.mark.parametrize("name", ADDRESSES)
def test_functions(place, name):
    before = inside(place)
    own = (
        [name] if ":/" in name.replace("://", "") else [name, *([Path(name)] if name[:5] in ("s3://", "file:") else [])]
    )
    for path in own:
        calls = {
            "layout": lambda path=path: stores.reshard(["x.safetensors"], "y", path),
            "convert from": lambda path=path: stores.convert(path, "y"),
            "plan_load layout": lambda path=path: stores.plan_load("x.safetensors", layout=path),
            "model": lambda path=path: dml.dxdispatch.load(path),
            "explanation": lambda path=path: dml.explain(np.flip, np.arange(3)).save(path),
        }
        for door, call in calls.items():
            with pytest.raises(dml.ModelError) as raised:
                call()
            assert "is an address, and only files on this machine" in str(raised.value), door
    assert inside(place) == before


COMMANDS = [
    "reshard x.safetensors y --layout @", "reshard x.safetensors y --scratch @", "convert @ y",
    "verify x.safetensors x.safetensors --layout @",
    "slim @ -o y.onnx", "slim x.onnx -o @", "slim x.onnx -o y.onnx --html @", "explain @",
    "explain x.json --html @", "explain x.json --svg @", "run @", "check @", "onnx portable @ y.onnx",
    "onnx portable x.onnx @",
]  # fmt: skip


@pytest.mark.parametrize("command", COMMANDS)
def test_commands(place, capsys, command):
    before = inside(place)
    for name in ADDRESSES:
        with pytest.raises(SystemExit) as ended:
            main([name if word == "@" else word for word in command.split()])
        assert ended.value.code == 2
        error = capsys.readouterr().err
        assert f"{name!r} is an address, and only files on this machine" in error
        assert error.count("\n") == 1
    assert inside(place) == before


OTHERS = [
    "hf://datasets/o/m/x.npy",
    "simplecache::s3://b/x.npz",
    "abfs://c@a/x.npy",
    "new+scheme://x.zarr",
    "zip::x.zarr",
    "hf:/x",
]
"""Addresses that are not even read for arrays."""


@pytest.mark.parametrize("name", OTHERS)
def test_kinds_that_are_not_read(place, capsys, name):
    before = inside(place)
    doors = [
        lambda: stores.open(name),
        lambda: stores.rechunk(name, "y.npy"),
        lambda: stores.rechunk("x.npy", name),
        lambda: stores.create(name, [2], "f4"),
        lambda: stores.verify(name, "x.npy"),
        lambda: stores.verify("x.npy", name),
        lambda: stores.reshard(name, "y"),
        lambda: stores.reshard(["x.safetensors", name], "y"),
        lambda: stores.reshard("x.safetensors", name),
        lambda: stores.plan_load(name),
        lambda: stores.manifest(name),
    ]
    reason = "must be a model in the hub" if name[:3] == "hf:" else "is an address of an unsupported kind, not of s3://"
    for call in doors:
        with pytest.raises(dml.ModelError, match=reason):
            call()
    with pytest.raises(dml.ModelError, match=r"'htps://a/x' .*; did you mean https\?: "):
        stores.open("htps://a/x")
    for command in (
        "stores @",
        "rechunk @ y.npy",
        "rechunk x.npy @",
        "verify @ x.npy",
        "verify x.npy @",
        "reshard @ y",
        "reshard x @",
    ):
        with pytest.raises(SystemExit) as ended:
            main([name if word == "@" else word for word in command.split()])
        assert ended.value.code == 2
        assert capsys.readouterr().err.count("\n") == 1
    assert inside(place) == before


def test_what_to_do():
    assert str(address("file:///data/x.zarr")).endswith("write /data/x.zarr")
    assert "copy it to this machine first" in str(address("s3://bucket/x.zarr"))


@pytest.mark.parametrize("field", ["sourcePath", "targetPath"])
def test_files_that_a_model_names(place, field):
    resource = {"initialValuesDataType": "INT64", "initialValues": {"sourcePath": "x.npy"}, "sizeInBytes": 48}
    command = {"type": "writeFile", "resource": "x", "targetPath": "s3://b/x.npy"}
    if field == "sourcePath":
        resource["initialValues"] = {"sourcePath": "s3://b/x.npy"}
    model = {"resources": {"x": resource}, "dispatchables": {}, "commands": [command] if field == "targetPath" else []}
    Path("m.json").write_text(json.dumps(model))
    with pytest.raises(dml.ModelError, match="is an address"):
        dml.dxdispatch.load("m.json")
