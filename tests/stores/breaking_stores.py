"""Files of every kind that stores read, broken as nobody breaks them by accident.

``python -m tests.stores.breaking_stores [COUNT] [SEED]`` breaks so many, and says what came of them.
"""

import collections
import contextlib
import copy
import io
import json
import os
import random
import shutil
import sys
import tempfile
import time
import tracemalloc
from pathlib import Path

import numpy as np
from stores.breaking_headers import VALUES, broken_files, packed, sound

from anydml.cli import main

MAX_BYTES = 4 << 20
"""That a command may have at once beside what files hold, for what it imports and for its buffers."""

LAYOUTS = (
    '[[rules]]\nmatch = "t0"\nrename = "b.{n}"\n',
    '[[rules]]\nmatch = "*"\nunflatten = 0\nsizes = [2, -1]\n',
    '[[rules]]\nmatch = "t0"\ngather = 0\nindices = [0, 1, 1]\n',
    '[[rules]]\nsplit = ["a", "b"]\naxis = 0\nmatch = "t0"\n',
    '[[rules]]\nstack = "t{n}"\nto = "all"\n',
    '[[rules]]\njoin = ["t0", "t1"]\nto = "all"\naxis = 0\n',
    '[[rules]]\nmatch = "t0"\nslice = 0\nstart = -1\nstop = -2\nstep = -1\n',
    '[[axes]]\nmatch = "t0"\naxis = 0\nheads = 2\n',
)

TEXTS = ('"x"', "[]", "{}", "true", "-1", "0", "9223372036854775807", "1e400", "'{'", '"*{a}*{b}*"', "[[]]", "nan")

V2 = {"zarr_format": 2, "shape": [4, 6], "chunks": [2, 3], "dtype": "<f4", "compressor": None, "fill_value": 0,
      "order": "C", "filters": None}  # fmt: skip
V3 = {
    "zarr_format": 3, "node_type": "array", "shape": [4, 6], "data_type": "float32", "attributes": {},
    "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [2, 3]}}, "fill_value": 0,
    "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
    "codecs": [
        {"name": "bytes", "configuration": {"endian": "little"}}, {"name": "gzip", "configuration": {"level": 1}}
    ],
    "dimension_names": ["a", "b"],
}  # fmt: skip


def npy(rng, folder):
    stream = io.BytesIO()
    np.save(stream, np.zeros([rng.randint(0, 4) for _ in range(rng.randint(0, 3))], rng.choice(("f4", ">i8", "?"))))
    (folder / "x.npy").write_bytes(changed(rng, stream.getvalue()))
    return ["stores", folder / "x.npy"], ["rechunk", folder / "x.npy", folder / "y.npy"]


def header(rng, folder):
    (folder / "x.safetensors").write_bytes(next(broken_files(rng.random(), 1)))
    return ["stores", folder / "x.safetensors"], ["reshard", folder / "x.safetensors", folder / "y.safetensors"]


def index(rng, folder):
    content, end = sound(rng)
    (folder / "x.safetensors").write_bytes(packed(json.dumps(content).encode(), end))
    said = {
        "metadata": {"total_size": end},
        "weight_map": {name: "x.safetensors" for name in content if name[0] != "_"},
    }
    text = json.dumps(_edited(rng, said, ["../x", "/etc/passwd", "y.safetensors", "x.safetensors/", "."])).encode()
    (folder / "model.safetensors.index.json").write_bytes(changed(rng, text) if rng.random() < 0.4 else text)
    return ["stores", folder], ["reshard", folder, folder / "y.safetensors"]


def layout(rng, folder):
    content, end = {}, 0
    for number in range(2):
        content[f"t{number}"] = {"dtype": "F32", "shape": [4, 2], "data_offsets": [end, end + 32]}
        end += 32
    (folder / "x.safetensors").write_bytes(packed(json.dumps(content).encode(), end))
    text = "".join(rng.choice(LAYOUTS) for _ in range(rng.randint(1, 3)))
    lines = text.splitlines()
    for _ in range(rng.randint(1, 3)):
        k = rng.randrange(len(lines))
        key = lines[k].partition(" =")[0]
        lines[k] = rng.choice((f"{key} = {rng.choice(TEXTS)}", "", lines[rng.randrange(len(lines))]))
    text = "\n".join(lines).encode()
    (folder / "l.toml").write_bytes(changed(rng, text) if rng.random() < 0.3 else text)
    command = ["reshard", folder / "x.safetensors", folder / "y", "--layout", folder / "l.toml"]
    return command, [*command, "--tp", "2", "--overwrite"]


def zarr(rng, folder):
    (folder / "x.zarr").mkdir()
    name, said = rng.choice(((".zarray", V2), ("zarr.json", V3)))
    said = json.loads(json.dumps(said))
    text = json.dumps(_edited(rng, said, [[10**12], [10**9, 10**9], [1, 10**15], [0, 3], {"id": "lzma"}, "<U9", "V9999",
                                          [{"name": "bytes"}], "|O"])).encode()  # fmt: skip
    (folder / "x.zarr" / name).write_bytes(changed(rng, text) if rng.random() < 0.3 else text)
    target = rng.choice(("y.npy", "y.zarr"))
    return ["stores", folder / "x.zarr"], [
        "rechunk",
        folder / "x.zarr",
        folder / target,
        "--dry-run",
        "--memory",
        "2MB",
    ]


def group(rng, folder):
    """A group of two arrays and another group, one of whose documents is broken."""
    version = rng.choice((2, 3))
    file, own = (".zarray", V2) if version == 2 else ("zarr.json", V3)
    said = {f"{name}/{file}": json.loads(json.dumps(own)) for name in ("a", "b/c")}
    if version == 2:
        said |= {"a/.zattrs": {"_ARRAY_DIMENSIONS": ["t", "x"], "coordinates": "c"}}
        said |= {f"{name}.zgroup": {"zarr_format": 2} for name in ("", "b/")}
        said[".zmetadata"] = {"zarr_consolidated_format": 1, "metadata": {name: said[name] for name in [*said]}}
    else:
        said |= {f"{name}zarr.json": {"zarr_format": 3, "node_type": "group", "attributes": {}} for name in ("b/", "")}
        inside = {name.removesuffix("/zarr.json"): said[name] for name in said if "/" in name}
        said["zarr.json"]["consolidated_metadata"] = {"kind": "inline", "must_understand": False, "metadata": inside}
    chosen = rng.choice([*said])
    for name, content in said.items():
        edited = _edited(rng, content, ["c", [10**9, 10**9], {"a": []}]) if name == chosen else content
        text = json.dumps(edited).encode()
        path = folder / "x.zarr" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(changed(rng, text) if name == chosen and rng.random() < 0.5 else text)
    command = ["rechunk", folder / "x.zarr", folder / "y.zarr", "--dry-run", "--memory", "2MB"]
    return ["stores", folder / "x.zarr" / "a"], [*command, "--chunks", "2,2"], [*command, "--codec", "gzip"]


KINDS = (npy, header, index, layout, zarr, group)


def changed(rng, content):
    """A few bytes changed, left out, or doubled."""
    found = bytearray(content)
    for _ in range(rng.randint(1, 3)):
        k = rng.randrange(len(found) or 1)
        way = rng.randrange(3)
        if way == 0 and found:
            found[k] = rng.randrange(256)
        elif way == 1:
            found = found[:k]
        else:
            found[k:k] = found[k : k + 9]
    return bytes(found)


def _edited(rng, content, others):
    """Values changed or left out, anywhere."""
    for _ in range(rng.randint(1, 3)):
        holder = content
        while True:
            keys = [*holder] if isinstance(holder, dict) else [*range(len(holder))]
            if not keys:
                break
            key = rng.choice(keys)
            if isinstance(holder[key], dict | list) and rng.random() < 0.6:
                holder = holder[key]
                continue
            if rng.random() < 0.2:
                del holder[key]
            else:
                holder[key] = copy.deepcopy(rng.choice([*VALUES, *others]))
            break
    return content


def run(arguments):
    """The exit code of a command and what it says."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            main([*map(str, arguments)])
        except SystemExit as ended:
            return ended.code or 0, err.getvalue()
    raise AssertionError("a command ends with a code")


def broken(seed, count):
    """Break so many files; gives how often a command ended with each code.

    Raises:
        AssertionError: a command ended otherwise than with 0, or with 2 and one line, or took too much memory.
    """
    codes, rng = collections.Counter(), random.Random(seed)
    for number in range(count):
        kind = KINDS[number % len(KINDS)]
        folder = Path(tempfile.mkdtemp())
        try:
            for arguments in kind(rng, folder):
                size = sum(each.stat().st_size for each in folder.rglob("*") if each.is_file())
                tracemalloc.start()
                start = time.thread_time()
                code, err = run([*arguments, *(["-q"] if arguments[0] != "stores" else [])])
                spent, most = time.thread_time() - start, tracemalloc.get_traced_memory()[1]
                tracemalloc.stop()
                codes[code] += 1
                what = f"seed {seed}, number {number}: {arguments}: {code}: {err}"
                is_line = err.startswith("anydml: ") and len(err.splitlines()) == 1
                assert (code, err) == (0, "") or (code == 2 and is_line), what
                # The first ones import what the others have.
                assert number < 10 * len(KINDS) or most < MAX_BYTES + 20 * size, f"{what}: {most} bytes"
                assert spent < 20, f"{what}: {spent} s"
        finally:
            if not os.environ.get("KEEP"):
                shutil.rmtree(folder)
    return codes


if __name__ == "__main__":
    print(json.dumps(broken(int((sys.argv[2:] or ["1"])[0]), int((sys.argv[1:] or ["1000"])[0]))))
