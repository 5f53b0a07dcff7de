"""Resident memory of plans over nasty layouts, each in a process of its own."""

import itertools
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from stores.test_opening import written

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
