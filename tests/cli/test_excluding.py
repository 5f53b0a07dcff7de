"""Options that cannot be obeyed together are refused, and a dry run says what the run would refuse."""

import json

import numpy as np
import pytest
import zarr
from safetensors.numpy import save_file

from anydml.cli import main


def said(capsys, *arguments):
    try:
        code = main([str(each) for each in arguments]) or 0
    except SystemExit as ended:
        code = ended.code or 0
    captured = capsys.readouterr()
    return code, captured.out, captured.err


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    np.save("x.npy", np.arange(24, dtype=np.float32).reshape(4, 6))
    (tmp_path / "m").mkdir()
    save_file({"model.norm.weight": np.ones(8, np.float32), "b": np.ones(8, np.float32)}, "m/model.safetensors")
    return tmp_path


@pytest.mark.parametrize(
    "arguments, words",
    [
        (("rechunk", "x.npy", "x.zarr", "--dry-run", "--verify"), "--dry-run and --verify exclude each other"),
        (("rechunk", "x.npy", "x.zarr", "--dry-run", "--scheduler", "tcp://127.0.0.1:1"), "--dry-run and --scheduler"),
        (("reshard", "m", "o", "--dry-run", "--scheduler", "tcp://127.0.0.1:1"), "--dry-run and --scheduler"),
        (("convert", "m", "o", "--dry-run", "--scheduler", "tcp://127.0.0.1:1"), "--dry-run and --scheduler"),
        (("reshard", "m", "o", "--verbose"), "--verbose lists the tensors of a plan"),
        (("reshard", "m", "o", "--dry-run", "-v", "-q"), "--verbose and --quiet"),
        (("reshard", "m", "o", "--dcp", "--shard-size", "1MB"), "--shard-size and --dcp"),
        (("reshard", "m", "o", "--shard-size", "1MB", "--fsdp", "2"), "--shard-size and --fsdp"),
        (("convert", "m", "o", "--shard-size", "1MB", "--tp", "2"), "--shard-size and --tp"),
        (("reshard", "m", "o.safetensors", "--shard-size", "1MB"), "--shard-size is for the files of a folder"),
        (("verify", "m", "m", "--all", "--first", "3"), "--all and --first"),
    ],
)
def test_they_are_refused_by_name(folder, capsys, arguments, words):
    code, out, err = said(capsys, *arguments)
    assert (code, out, words in err, len(err.splitlines())) == (2, "", True, 1), err
    assert {path.name for path in folder.iterdir()} == {"x.npy", "m"}


@pytest.mark.parametrize("kind", ["file", "array", "group", "checkpoint", "again"])
def test_a_dry_run_says_what_the_run_would_refuse(folder, capsys, kind):
    command = ["rechunk", "x.npy", "x.zarr", "--chunks", "2,3"]
    if kind == "file":
        np.save("y.npy", np.ones(2))
        command = ["rechunk", "x.npy", "y.npy", "--permute", "1,0"]
    elif kind == "array":
        zarr.create_array("x.zarr", shape=(3,), dtype="i4")
    elif kind == "group":
        zarr.create_group("x.zarr")
    elif kind == "checkpoint":
        assert said(capsys, "reshard", "m", "o", "--quiet")[0] == 0
        command = ["reshard", "m", "o", "--fsdp", "2"]
    else:
        assert said(capsys, *command, "--quiet")[0] == 0
    code, out, _ = said(capsys, *command, "--dry-run")
    refused = json.loads(said(capsys, *command, "--dry-run", "--json")[1])["refused"]
    failed, _, err = said(capsys, *command, "--quiet")
    assert code == 0
    if kind == "again":
        # It has been written by this very command, which then does nothing.
        assert (failed, refused, "would be refused" in out) == (0, None, False)
    else:
        assert failed == 2
        assert err == f"anydml: {refused}\n"
        assert out.splitlines()[-1] == f"would be refused: {refused}"
        more = json.loads(said(capsys, *command, "--dry-run", "--overwrite", "--json")[1])["refused"]
        assert (more is None) == (said(capsys, *command, "--overwrite", "--quiet")[0] == 0)


@pytest.mark.parametrize(
    ("words", "shown"),
    [
        ("reshard m o --tp 0", "reshard: --tp is 0, but must be 1 to 4096"),
        ("reshard m o --shards 0", "reshard: --shards must be a number of files, at least 1, not 0"),
        ("reshard m o --shard-size 0", "reshard: --shard-size must be the bytes of a file, such as 5GB, not 0"),
        ("reshard m o --memory 1", "reshard: --memory is 1 B, but must be at least 4096 B"),
        ("reshard m o --memory some", "Invalid value for '--memory': 'some' is not a size"),
        ("reshard m o --only nope", 'reshard: --only is "nope", but no tensor has this name'),
        ("rechunk x.npy x.zarr --chunks 1", "x.zarr: --chunks has 1 size, (1,), but the array has 2 axes"),
    ],
)
def test_errors_name_options_and_no_arguments_of_python(folder, capsys, words, shown):
    code, _, err = said(capsys, *words.split())
    assert (code, err.count("\n"), shown in err) == (2, 1, True), err
    assert "=)" not in err
    assert "=True" not in err
