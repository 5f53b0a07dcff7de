"""Does one piece of work, in a process of its own, and says how much more memory it had for it at most.

``python memory_child.py KIND MEMORY``, in a folder with the files that `test_memory.py` makes. Of `CODED` all
counts that is not there after imports.
"""

import sys
from pathlib import Path

from anydml import stores

STATUS, REFERENCES = Path("/proc/self/status"), Path("/proc/self/clear_refs")

CODED = {
    f"{codec} {way}": asked
    for codec in ("none", "zstd", "blosc", "blosc shards")
    for way, asked in {
        "columns": {"chunks": [256, 512, 16]},
        "turned": {"permute": [2, 1, 0], "chunks": [16, 512, 256]},
    }.items()
}
"""Options of `rechunk` by kind."""


def plan_of(kind, memory, size):
    """A plan over the large files, or over small ones of the same kind."""
    options = {"memory": memory, "overwrite": True}
    if kind == "address":
        return stores.rechunk(f"s3://bucket/{size}.zarr", "s3://bucket/o.zarr", [8, 1024, 256], codec="none", **options)
    if kind in CODED:
        return stores.rechunk(f"{kind}.zarr", "o.zarr", **CODED[kind], shards=(), **options)
    if kind == "row":
        return stores.rechunk(f"{size}-row.npy", "o.npy", permute=[1, 0], **options)
    if kind == "column":
        return stores.rechunk(f"{size}-column.npy", "o.npy", permute=[1, 0], **options)
    if kind == "row to chunks":
        return stores.rechunk(f"{size}-row.npy", "o.zarr", [1 << 14, 1], [1, 0], codec="none", **options)
    if kind == "chunks":
        return stores.rechunk(f"{size}-chunks.zarr", "o.npy", **options)
    if kind == "chunks to chunks":
        return stores.rechunk(f"{size}-chunks.zarr", "o.zarr", [50, 200], **options)
    return stores.reshard([f"{size}-tensors.safetensors"], "o.safetensors", **options)


def resident(what):
    line = next(line for line in STATUS.read_text().splitlines() if line.startswith(what))
    return int(line.split()[1]) << 10


if __name__ == "__main__":
    # What is imported and compiled for such work at all is there before.
    if sys.argv[1] not in CODED:
        plan_of(sys.argv[1], sys.argv[2], "small").run()
    before = resident("VmRSS")
    REFERENCES.write_text("5")
    plan_of(sys.argv[1], sys.argv[2], "large").run()
    print(resident("VmHWM") - before)
