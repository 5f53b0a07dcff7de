"""`anydml stores` and `anydml reshard`."""

import json
import os
import random
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from stores.test_opening import written
from stores.test_resharding import assert_equal, hugging_face, llama

from anydml import stores
from anydml.cli import main


def anydml(capsys, *arguments):
    """Exit code, output and errors of a command."""
    with pytest.raises(SystemExit) as ended:
        main([*map(str, arguments)])
    return ended.value.code or 0, *capsys.readouterr()


def test_stores_lists_arrays(tmp_path, capsys):
    path = written(
        tmp_path / "m.safetensors", {"a\x1b[2J": np.zeros((2, 3), np.float32), "b": np.zeros(2, np.int8)}, {"k": "v"}
    )
    code, out, _ = anydml(capsys, "stores", path)
    assert code == 0
    assert out.splitlines() == [
        "a\\x1b[2J  float32  [2, 3]  24 B  m.safetensors",
        "b         int8     [2]     2 B   m.safetensors",
        f"{path}: 2 arrays, 26 B",
        "  k: v",
    ]
    np.save(tmp_path / "x.npy", np.zeros((4, 5)))
    assert anydml(capsys, "stores", tmp_path / "x.npy")[1].startswith("float64  [4, 5]  160 B  x.npy\n")


def test_reshard_writes_and_says_what(tmp_path, capsys):
    tensors = llama(1)
    source = hugging_face(tmp_path / "in", tensors)
    code, out, _ = anydml(capsys, "reshard", source, tmp_path / "out", "--tp", 2, "--dry-run")
    assert code == 0
    size = len(tensors), sum(array.nbytes for array in tensors.values())
    assert f"  model-rank-00001-of-00002.safetensors: {size[0]} tensors, " in out
    assert "down_proj" not in out
    code, out, _ = anydml(capsys, "reshard", source, tmp_path / "out", "--tp", 2, "--dry-run", "-v")
    assert code == 0
    assert out.count("    model.layers.0.mlp.down_proj.weight: bfloat16 [32, 24]\n") == 2
    assert "reads " in out
    assert not (tmp_path / "out").exists()
    assert anydml(capsys, "reshard", source, tmp_path / "out", "--tp", 2)[0] == 0
    ranks = sorted((tmp_path / "out").iterdir())
    code, out, _ = anydml(capsys, "reshard", *ranks, tmp_path / "back.safetensors", "--memory", "30KB")
    assert (code, out.splitlines()[-1]) == (0, f"written to '{tmp_path / 'back.safetensors'}'")
    assert_equal(stores.open(tmp_path / "back.safetensors"), tensors)
    code, _, error = anydml(capsys, "reshard", source, tmp_path / "out")
    assert (code, error.count("\n")) == (2, 1)
    assert "exists already" in error
    assert anydml(capsys, "reshard", source, tmp_path / "out", "--overwrite")[0] == 0
    assert_equal(stores.open(tmp_path / "out"), tensors)


LAYOUT = """[[rules]]
match = "a.{n}"
split = ["b.{n}", "c.{n}"]
axis = 0
sizes = [1, 3]
[[rules]]
join = ["b.{n}", "c.{n}"]
to = "d.{n}"
axis = -1
[[rules]]
match = "d.*"
unflatten = 1
sizes = [2, -1]
[[axes]]
match = "d*"
axis = 0
heads = 2
"""


WORDS = """true -1 [] "" [1,[2]] 1e5 "*" '{x}' nan [[ 1979-05-27 {a=1} 99999999999999999999 drop""".split()  # noqa: SIM905


def test_broken_layouts_end_in_one_clear_line(tmp_path, capsys):
    source = written(tmp_path / "in.safetensors", {"a.1": np.zeros((4, 6)), "a.2": np.zeros((2, 2), np.int8)})
    rng = random.Random(1)
    for _ in range(300):
        tokens = LAYOUT.replace("\n", " \n ").split(" ")
        for _ in range(rng.randint(1, 3)):
            place = rng.randrange(len(tokens))
            tokens[place] = rng.choice((rng.choice(WORDS), "", rng.choice(tokens), tokens[place][::-1]))
        (tmp_path / "layout.toml").write_text(" ".join(tokens))
        code, _, error = anydml(
            capsys, "reshard", source, tmp_path / "out", "--layout", tmp_path / "layout.toml", "--dry-run", "--tp", 2
        )
        assert code in (0, 2)
        assert error.count("\n") == (code == 2)
        assert "Traceback" not in error
    assert sorted(os.listdir(tmp_path)) == ["in.safetensors", "layout.toml"]


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("stores missing", "missing: there is no such file or folder"),
        ("stores .", 'name one of them, such as "bad.npy", "x.npy", "w"'),
        ("stores empty", "name a file, or a folder with files"),
        ("stores bad.npy", "anydml: bad.npy: is not a .npy file: "),
        ("stores text.txt", "or a Zarr array or group, also in .zip, .json (kerchunk), .h5, "),
        ("stores broken.h5", "is not an HDF5 or NetCDF-4 file, though its name says so"),
        ("reshard missing out", "missing: there is no such file or folder"),
        ("reshard w", "IN and OUT are needed, but 'w' was given alone"),
        ("reshard w w out", "w: is named twice: name the files of each tensor-parallel rank once"),
        ("reshard w out.bin", "which is not written: name a .safetensors, .gguf or .npz file, or a folder"),
        ("reshard w out.distcp", "which is not written: name a .safetensors, .gguf or .npz file, or a folder"),
        ("reshard w out.zip", "which is not written: name a .safetensors, .gguf or .npz file, or a folder"),
        ("reshard w out --shard-size 0", "such as 5GB"),
        (
            "reshard w out --tp 4",
            "divided evenly among 4 ranks: 3 or 6 could share it; or in a layout, slice it",
        ),
        (
            "reshard w out --layout l.toml",
            'the unknown "renam": each rule must have exactly one of rename',
        ),
        ("reshard w out --memory 1", "must be at least 4096 B\n"),
    ],
)
def test_mistakes_are_one_line_that_says_what_to_do(tmp_path, monkeypatch, capsys, command, said):
    monkeypatch.chdir(tmp_path)
    np.save("x.npy", np.zeros(3))
    (tmp_path / "bad.npy").write_text("none")
    (tmp_path / "text.txt").write_text("none")
    (tmp_path / "broken.h5").write_text("none")
    (tmp_path / "empty").mkdir()
    (tmp_path / "w").mkdir()
    written(tmp_path / "w" / "w.safetensors", {"l.0.q_proj.weight": np.zeros((6, 4), np.float32)})
    (tmp_path / "l.toml").write_text('[[rules]]\nmatch = "*"\nrenam = "b"\n')
    before = sorted(os.listdir())
    code, _, error = anydml(capsys, *command.split())
    assert (code, error.count("\n")) == (2, 1)
    assert said in error
    assert sorted(os.listdir()) == before


@pytest.mark.filterwarnings("default")
def test_what_libraries_warn_of_is_a_line(tmp_path, capsys):
    pytest.importorskip("zarr", reason='zarr-python is not installed: pip install "anydml[stores]"')
    np.save(tmp_path / "x.npy", np.zeros((2, 3), "V3"))
    code, out, error = anydml(capsys, "rechunk", tmp_path / "x.npy", tmp_path / "y.zarr", "-q")
    assert (code, out) == (0, "")
    assert error.startswith("anydml: warning: The data type (RawBytes(length=3)) ")
    assert error.count("\n") == 1


def test_what_imports_transformers_ends_with_a_command_that_is_killed(tmp_path):
    """Its errors go where those of the command do, whose end is read once both have ended."""
    hugging_face(tmp_path / "in", llama(1))
    (tmp_path / "transformers.py").write_text(
        "import sys, time; print('importing', file=sys.stderr, flush=True); time.sleep(3600)"
    )
    command = [sys.executable, "-m", "anydml", "convert", "-q", str(tmp_path / "in"), str(tmp_path / "out")]
    path = os.pathsep.join([str(tmp_path), *sys.path])
    with subprocess.Popen(command, stderr=subprocess.PIPE, env={**os.environ, "PYTHONPATH": path}) as killed:
        assert killed.stderr.readline() == b"importing\n"
        killed.kill()
        assert killed.communicate(timeout=300)[1] == b""
    assert not (tmp_path / "out").exists()


@pytest.mark.skipif(sys.platform == "win32", reason="no name there has a newline")
def test_what_is_printed_of_a_name_with_a_newline_is_one_line(tmp_path, capsys):
    np.save(tmp_path / "x.npy", np.arange(6))
    given = [str(tmp_path / name) for name in ("x.npy", "y\nanydml: z.npy")]
    for command in (["rechunk", *given], ["rechunk", *given], ["rechunk", *given, "--overwrite", "--dry-run"]):
        with pytest.raises(SystemExit) as ended:
            main(command)
        assert not ended.value.code
        printed = capsys.readouterr().out
        assert "y\\nanydml: z.npy" in printed
        assert not any(line.startswith("anydml: z") for line in printed.splitlines())


def reported(capsys, *arguments, code=0):
    """The JSON that a command prints, which is all that it prints."""
    found, out, _ = anydml(capsys, *arguments, "--json")
    assert found == code
    assert out.count("\n") == 1
    assert out.isascii()
    return json.loads(out)


def test_json_of_checkpoints(tmp_path, capsys):
    tensors = llama(1)
    source = hugging_face(tmp_path / "in", tensors)
    (source / "notes.h5").write_bytes(b"x")
    report = reported(capsys, "stores", source)
    assert {each["name"]: (each["dtype"], tuple(each["shape"])) for each in report["arrays"]} == {
        name: (str(each.dtype), each.shape) for name, each in tensors.items()
    }
    assert sum(each["bytes"] for each in report["arrays"]) == sum(each.nbytes for each in tensors.values())
    planned = reported(capsys, "reshard", source, tmp_path / "out", "--tp", 2, "--dry-run", "-v")
    assert (planned["written"], (tmp_path / "out").exists()) == (False, False)
    assert [each["count"] for each in planned["files"]] == [len(tensors)] * 2
    assert {each["name"] for each in planned["files"][0]["arrays"]} == {*tensors}
    assert 'leaves out 1 other file in the folder: "notes.h5"' in planned["remarks"]
    written = reported(capsys, "reshard", source, tmp_path / "out", "--tp", 2)
    assert (written["written"], written["already_complete"]) == (True, False)
    assert {Path(each["path"]): each["bytes"] for each in written["files"]} == {
        each: each.stat().st_size for each in (tmp_path / "out").glob("*.safetensors")
    }
    assert written["remarks"] == planned["remarks"]
    assert reported(capsys, "reshard", source, tmp_path / "out", "--tp", 2)["already_complete"]
    same = reported(capsys, "verify", source, tmp_path / "out")
    assert (same["same"], same["differences"], same["tensors_compared"]) == (True, [], len(tensors))
    tensors["lm_head.weight"] = tensors["lm_head.weight"][:-1]
    other = reported(capsys, "verify", source, hugging_face(tmp_path / "other", tensors), code=1)
    assert not other["same"]
    assert [(each["name"], each["kind"]) for each in other["differences"]] == [("lm_head.weight", "kind")]


def test_json_of_arrays(tmp_path, capsys):
    x = np.arange(20.0).reshape(4, 5)
    np.save(tmp_path / "x.npy", x)
    report = reported(capsys, "rechunk", tmp_path / "x.npy", tmp_path / "y.zarr", "--chunks", "2,5", "-q")
    (array,) = report["files"]
    described = {"name": "", "dtype": "float64", "shape": [4, 5], "bytes": 160}
    assert array == {"path": str(tmp_path / "y.zarr"), **described, "chunks": [2, 5]}
    assert (report["written"], report["bytes_written"]) == (True, 160)
    assert reported(capsys, "stores", tmp_path / "y.zarr")["zarr"]["chunks"] == [2, 5]
    planned = reported(capsys, "rechunk", tmp_path / "y.zarr", tmp_path / "z.npy", "--dry-run")
    assert (planned["written"], planned["files"][0]["bytes"]) == (False, (tmp_path / "x.npy").stat().st_size)
