"""Arrays in files that nobody writes by accident: of `stores.breaking_stores`, and Zarr arrays with broken chunks."""

from __future__ import annotations

import functools
import io
import random
import tempfile
import warnings
from pathlib import Path

import numpy as np
from stores import breaking_stores

from .hostile_json import changed_text


def hostile_command(kind: str, rng: random.Random, folder: Path) -> list[str]:
    """Write one hostile file, or folder; a command for it."""
    makers = {
        "npy": [breaking_stores.npy, _npy],
        "safetensors": [breaking_stores.header, breaking_stores.index, breaking_stores.layout],
        "zarr": [breaking_stores.zarr, breaking_stores.group, _whole],
    }
    (folder / "x.npy").unlink()
    command = [str(each) for each in rng.choice(rng.choice(makers[kind])(rng, folder))]
    return command if command[0] == "stores" else [*command, "-q"]


def _npy(rng: random.Random, folder: Path) -> list[list[object]]:
    """An array some bytes of which are others: those of its header seldom."""
    file = io.BytesIO()
    shape = [rng.randint(1, 20) for _ in range(rng.randint(1, 3))]
    values = np.zeros(shape, rng.choice(("<f4", ">i8", "?", "<c16", "V3")))
    np.lib.format.write_array(file, np.asarray(values, order=rng.choice("CF")), rng.choice(((1, 0), (2, 0), (3, 0))))
    data = bytearray(file.getvalue())
    for _ in range(rng.choice([1, 2, 10])):
        data[int(len(data) * rng.random())] = rng.randrange(256)
    source, options = folder / "x.npy", rng.choice([[], ["--flip", "0"], ["--slice", "::-2"]])
    source.write_bytes(data)
    written = [["rechunk", source, folder / name, *options] for name in ("y.npy", "y.zarr")]
    return [["stores", source], *written]


@functools.cache
def _arrays() -> list[dict[str, bytes]]:
    """Zarr's folders as it writes them: the bytes of their files."""
    import numcodecs
    import zarr

    found = []
    delta = [numcodecs.Delta("<f4")]
    values = np.arange(48, dtype="<f4").reshape(8, 6)
    for options in (
        {"zarr_format": 2, "compressors": None, "order": "F"},
        {"zarr_format": 2, "compressors": numcodecs.Zlib(1), "filters": delta},
        {"zarr_format": 2, "compressors": numcodecs.Blosc("lz4")},
        {"zarr_format": 3, "compressors": None},
        {"zarr_format": 3, "compressors": {"name": "gzip", "configuration": {"level": 1}}},
        {"zarr_format": 3, "shards": (4, 6), "compressors": {"name": "zstd", "configuration": {"level": 1}}},
        {"zarr_format": 3, "shards": (8, 6), "compressors": {"name": "blosc", "configuration": {"cname": "zstd"}}},
    ):
        with tempfile.TemporaryDirectory() as name, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            array = zarr.create_array(name, shape=values.shape, dtype=values.dtype, chunks=(4, 3), **options)
            array[...] = values
            paths = [path for path in Path(name).rglob("*") if path.is_file()]
            found.append({str(path.relative_to(name)): path.read_bytes() for path in paths})
    return found


def _whole(rng: random.Random, folder: Path) -> list[list[object]]:
    """An array with its chunks, one or two of whose files are broken."""
    source = folder / "x.zarr"
    files = dict(rng.choice(_arrays()))
    broken = rng.sample(sorted(files), rng.choice([1, 1, 2]))
    said = [name for name in broken if name.startswith(".z") or name.endswith(".json")]
    for name in broken:
        change = changed_text if name in said and len(files[name]) > 99 else breaking_stores.changed
        files[name] = change(rng, files[name])
    for name, data in files.items():
        (source / name).parent.mkdir(parents=True, exist_ok=True)
        (source / name).write_bytes(data)
    # Metadata may say that there are terabytes of fill values.
    short = ["--dry-run"] if said else []
    written = ["rechunk", source, folder / "y.npy", *short], ["rechunk", source, folder / "y.zarr", *short]
    return [["stores", source], *written, [*written[1], "--chunks", "2,2"], [*written[1], "--codec", "gzip"]]
