"""Resident memory of plans over nasty layouts, each in a process of its own."""

import itertools
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from s3_server import s3_server
from stores import memory_child
from stores.test_opening import written

from anydml import stores

CHILD = Path(__file__).with_name("memory_child.py")

BESIDE = 4 << 20
"""Bytes beside the buffers: threads' stacks, and pieces that the allocator does not give back."""

A_TENSOR = 4000
"""Bytes that a tensor takes, however small it is: its names, its moves and where its block lies."""

TENSORS = 20_000

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        not os.access("/proc/self/clear_refs", os.W_OK), reason="Linux alone says how much was resident"
    ),
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A row of 64 MB, its transpose, 30,000 chunks and many tensors; and small ones of each."""
    path = tmp_path_factory.mktemp("nasty")
    for size, count in (("small", 1000), ("large", 16_000_000)):
        for name, shape in (("row", (1, count)), ("column", (count, 1))):
            np.save(path / f"{size}-{name}.npy", np.arange(count, dtype="f4").reshape(shape))
    for size, counts in (("small", (10, 10)), ("large", (300, 100))):
        chunks(path / f"{size}-chunks.zarr", counts)
    for size, count in (("small", 10), ("large", TENSORS)):
        tensors = {f"model.layers.{k}.mlp.up_proj.weight": np.full((4, 2), k, "f4") for k in range(count)}
        written(path / f"{size}-tensors.safetensors", tensors)
    return path


def chunks(path, counts):
    """An array whose chunks are plain files of 10 by 10 elements."""
    path.mkdir()
    said = {"zarr_format": 2, "shape": [10 * n for n in counts], "chunks": [10, 10], "dtype": "<f4", "fill_value": 0,
            "order": "C", "compressor": None, "filters": None}  # fmt: skip
    (path / ".zarray").write_text(json.dumps(said))
    for number in itertools.product(*map(range, counts)):
        (path / "{}.{}".format(*number)).write_bytes(np.full(100, sum(number), "f4").tobytes())


@pytest.fixture(scope="module")
def coded(tmp_path_factory):
    """Arrays of 134 MB in chunks of 8 MiB, as `memory_child.py` names them."""
    path = tmp_path_factory.mktemp("coded")
    zarr = pytest.importorskip("zarr", reason="zarr-python is not installed: pip install 'anydml[stores]'")
    x = np.random.default_rng(1).integers(0, 999, (16, 512, 256)).astype("f4")
    for kind in memory_child.CODED:
        codec = {"none": None, "zstd": zarr.codecs.ZstdCodec(), "blosc": zarr.codecs.BloscCodec()}[kind.split()[0]]
        shards = (128, 512, 256) if "shards" in kind else None
        made = zarr.create_array(
            str(path / f"{kind}.zarr"), shape=(256, 512, 256), chunks=(16, 512, 256), shards=shards, dtype="f4",
            compressors=codec,
        )  # fmt: skip
        for first in range(0, 256, 128):
            made[first : first + 128] = np.tile(x, (8, 1, 1)) + first
    return path


@pytest.mark.parametrize("memory", [84_000_000, 160_000_000])
@pytest.mark.parametrize("kind", memory_child.CODED)
def test_codecs_take_at_most_60_megabytes_more(coded, kind, memory):
    child = [sys.executable, str(CHILD), kind, str(memory)]
    done = subprocess.run(child, cwd=coded, capture_output=True, text=True, timeout=500, check=False)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) < memory + 60_000_000


def test_requests_to_addresses_hold_no_more_than_was_given(tmp_path):
    """201 MB in chunks of 8 MiB, of which many come at once: a response must not be in memory beside its buffer."""
    pytest.importorskip("zarr", reason="zarr-python is not installed: pip install 'anydml[stores]'")
    pytest.importorskip("obstore", reason="obstore is not installed: pip install 'anydml[remote]'")
    memory = 100_000_000
    with s3_server():
        for size, rows in (("small", 2), ("large", 24)):
            np.save(tmp_path / "x.npy", np.arange(rows << 21, dtype="f4").reshape(rows, 1024, 2048))
            stores.rechunk(tmp_path / "x.npy", f"s3://bucket/{size}.zarr", [1, 1024, 2048], codec="none").run()
        child = [sys.executable, str(CHILD), "address", str(memory)]
        done = subprocess.run(child, capture_output=True, text=True, timeout=500, check=False)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) < memory + 60_000_000


@pytest.mark.parametrize("kind", ["row", "column", "row to chunks", "chunks", "chunks to chunks", "tensors"])
def test_no_more_is_resident_than_was_given(folder, kind):
    if "chunks" in kind:
        pytest.importorskip("zarr", reason="zarr-python is not installed: pip install 'anydml[stores]'")
    memory = 4_000_000
    child = [sys.executable, str(CHILD), kind, str(memory)]
    done = subprocess.run(child, cwd=folder, capture_output=True, text=True, timeout=500, check=False)
    assert done.returncode == 0, done.stderr
    most = memory + BESIDE + (TENSORS * A_TENSOR if kind == "tensors" else 0)
    assert int(done.stdout) < most, f"{int(done.stdout):,} bytes, where {most:,} are the most"


@pytest.fixture(scope="module")
def many(tmp_path_factory):
    """A checkpoint of 100,000 small tensors in four files, like a mixture model's, and an index; elements are holes."""
    folder, index = tmp_path_factory.mktemp("many"), {}
    shapes = {"gate_proj": [32, 16], "up_proj": [32, 16], "down_proj": [16, 32], "shared_expert.gate_proj": [8, 8]}
    for number in range(4):
        file, said, at = f"model-{number + 1:05}-of-00004.safetensors", {}, 0
        for layer, expert in itertools.product(range(25 * number, 25 * number + 25), range(250)):
            for kind, shape in shapes.items():
                size = 2 * shape[0] * shape[1]
                name = f"model.layers.{layer}.mlp.experts.{expert}.{kind}.weight"
                said[name] = {"dtype": "F16", "shape": shape, "data_offsets": [at, at + size]}
                at += size
        header = json.dumps(said).encode()
        with (folder / file).open("wb") as opened:
            opened.write(len(header).to_bytes(8, "little") + header)
            opened.truncate(8 + len(header) + at)
        index |= dict.fromkeys(said, file)
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": index}))
    # From the second run on, Python has compiled all that is imported.
    _peak_of_plan(folder, "out --dcp")
    return folder


def _peak_of_plan(folder, options):
    """Return the most bytes that were resident in a process that plans to reshard a folder."""
    child = [
        sys.executable,
        str(CHILD.with_name("peak_child.py")),
        "reshard",
        str(folder),
        *options.split(),
        "--dry-run",
    ]
    env = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    env["PYTHONPYCACHEPREFIX"] = str(folder.parent / "compiled")
    done = subprocess.run(child, cwd=folder.parent, env=env, capture_output=True, text=True, timeout=500, check=False)
    assert "100000 arrays" in done.stdout, done.stderr
    return int(done.stdout.split()[-1])


@pytest.mark.parametrize(
    "options",
    ["out", "out --shards 20", "out.safetensors", "out.npz", "out.gguf --no-extras", "out --dtype fp32", "out --tp 4",
     "out --ep 5", "out --fsdp 8", "out --tp 4 --fsdp 2", "out --dcp", "out --dcp --fsdp 8",
     "out --dcp --tp 4 --fsdp 2"],
)  # fmt: skip
def test_plans_of_100_000_tensors_take_less_than_200_megabytes(many, options):
    """Of the whole process: Python, its compiled imports, and the plan."""
    assert _peak_of_plan(many, options) < 200_000_000, options
