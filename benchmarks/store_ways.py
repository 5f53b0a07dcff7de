"""The ways of `benchmarks.stores`: how anydml and others write an array again."""

from __future__ import annotations

import math
import shutil
import subprocess
from collections.abc import Callable, Iterator, Sequence
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np


class Case(NamedTuple):
    """An array that is written in another way.

    Attributes:
        about: for people.
        source: what the name of the input ends with.
        target: likewise.
        shape: of the input.
        chunks: of the input, if it is Zarr's.
        new: of the output, if it is Zarr's.
        permute: the axes of the output.
        codec: of Zarr's chunks.
        memory: for buffers.
        limit: MiB of memory that a process may have; 0 for as much as there is.
        dtype: of the elements.
        shards: of the input; empty for none.
        new_shards: of the output; empty for none.
    """

    about: str
    source: str
    target: str
    shape: tuple[int, ...]
    chunks: tuple[int, ...]
    new: tuple[int, ...]
    permute: tuple[int, ...]
    codec: str
    memory: str
    limit: int
    dtype: str = "float32"
    shards: tuple[int, ...] = ()
    new_shards: tuple[int, ...] = ()

    @property
    def bytes(self) -> int:
        """Of the elements."""
        return math.prod(self.shape) * np.dtype(self.dtype).itemsize

    @property
    def budget(self) -> int:
        """Bytes that `memory` is."""
        return int(self.memory.removesuffix("MB")) * 1_000_000

    @property
    def files(self) -> tuple[int, ...]:
        """Sizes of what a file of the output holds."""
        return self.new_shards or self.new


SQUARE = (2048, 2048)


def made(case: Case, path: Path, shape: Sequence[int], chunks: Any, shards: Any) -> Any:
    """A new array of zarr-python."""
    import zarr

    codec = None if case.codec == "none" else zarr.codecs.ZstdCodec()
    return zarr.create_array(
        path, shape=tuple(shape), chunks=chunks, shards=shards or None, dtype=case.dtype, compressors=codec
    )


def new_of(case: Case, target: Path) -> Any:
    """The output, as zarr-python makes it."""
    return made(case, target, [case.shape[k] for k in case.permute], case.new, case.new_shards)


def boxes(case: Case) -> Iterator[tuple[slice, ...]]:
    """Boxes of whole files of the output, along its first axis as many as the budget holds."""
    shape = [case.shape[k] for k in case.permute]
    first, *others = case.files
    row = math.prod(shape[1:]) * np.dtype(case.dtype).itemsize * first
    sizes = [first * max(1, case.budget // 2 // row), *shape[1:]]
    if row > case.budget // 2:
        sizes = [first, *others]
    for start in product(*(range(0, whole, size) for whole, size in zip(shape, sizes, strict=True))):
        yield tuple(slice(a, min(a + b, whole)) for a, b, whole in zip(start, sizes, shape, strict=True))


def ours(case: Case, source: Path, target: Path) -> None:
    """By a plan."""
    from anydml import stores

    codec = case.codec if case.target == ".zarr" else None
    shards = case.new_shards if case.target == ".zarr" and (case.shards or case.new_shards) else None
    more = {"codec": codec, "memory": case.memory, "shards": shards}
    stores.rechunk(source, target, case.new or None, case.permute, **more).run()


def dask(case: Case, source: Path, target: Path) -> None:
    """By dask.array, on threads, as its pages say."""
    import dask.array as da
    import zarr

    blocks = SQUARE if case.source == ".npy" else case.shards or case.chunks
    given: Any = np.load(source, mmap_mode="r") if case.source == ".npy" else zarr.open_array(source, mode="r")
    x = da.from_array(given, chunks=blocks).transpose(case.permute)
    if case.target == ".npy":
        out = np.lib.format.open_memmap(target, "w+", np.dtype(case.dtype), x.shape)
        da.store(x, out, lock=False)
        out.flush()
        return
    da.store(x.rechunk(case.files, block_size_limit=case.budget), new_of(case, target), lock=False)


def whole(case: Case, source: Path, target: Path) -> None:
    """By zarr-python and NumPy: read, transpose, write, with all of it in memory."""
    import zarr

    given: Any = np.load(source, mmap_mode="r") if case.source == ".npy" else zarr.open_array(source, mode="r")[:]
    turned = given.transpose(case.permute)
    if case.target == ".npy":
        np.save(target, turned)
        return
    new_of(case, target)[:] = turned


def by_boxes(case: Case, source: Path, target: Path) -> None:
    """By zarr-python, a box of whole files of the output after the other."""
    if ".npy" in (case.source, case.target):
        raise SystemExit("it is for arrays of Zarr")
    import zarr

    given, new = zarr.open_array(source, mode="r"), new_of(case, target)
    back = [case.permute.index(axis) for axis in range(len(case.shape))]
    for box in boxes(case):
        new[box] = given[tuple(box[k] for k in back)].transpose(case.permute)


def zarrs(case: Case, source: Path, target: Path) -> None:
    """The same with the codecs of zarrs, in Rust."""
    import zarr

    zarr.config.set({"codec_pipeline.path": "zarrs.ZarrsCodecPipeline"})
    by_boxes(case, source, target)


def tensorstore(case: Case, source: Path, target: Path) -> None:
    """By TensorStore, from Zarr to Zarr: one asynchronous copy after the other of whole chunks of the output."""
    if ".npy" in (case.source, case.target):
        raise SystemExit("it has no driver of .npy files")
    import tensorstore as ts

    cache = {"cache_pool": {"total_bytes_limit": case.budget}}
    kvstore = f"file://{source.resolve()}"
    given = ts.open({"driver": "zarr3", "kvstore": kvstore}, context=ts.Context(cache), read=True).result()
    codecs: list[dict[str, Any]] = [{"name": "bytes", "configuration": {"endian": "little"}}]
    codecs += [] if case.codec == "none" else [{"name": "zstd", "configuration": {"level": 0}}]
    if case.new_shards:
        inside = {"chunk_shape": [*case.new], "codecs": codecs}
        codecs = [{"name": "sharding_indexed", "configuration": inside}]
    shape = [case.shape[d] for d in case.permute]
    grid = {"name": "regular", "configuration": {"chunk_shape": [*case.files]}}
    meta = {"shape": shape, "data_type": case.dtype, "chunk_grid": grid, "codecs": codecs}
    new = ts.open({"driver": "zarr3", "kvstore": f"file://{target.resolve()}", "metadata": meta}, create=True).result()
    view = given.transpose(case.permute)
    if case.new_shards:
        for box in boxes(case):
            new[box].write(view[box]).result()
        return
    # Columns of whole chunks at a time, as many as the memory holds: each chunk is written once.
    size = np.dtype(case.dtype).itemsize * math.prod(shape[:-1])
    step = max(1, case.budget // size // case.new[-1]) * case.new[-1]
    for first in range(0, shape[-1], step):
        last = min(first + step, shape[-1])
        new[..., first:last].write(view[..., first:last]).result()


def cubed(case: Case, source: Path, target: Path) -> None:
    """By cubed, from Zarr to Zarr, on threads, as its pages say."""
    if ".npy" in (case.source, case.target) or case.permute != tuple(range(len(case.shape))):
        raise SystemExit("it reads and writes Zarr")
    import cubed as library

    spec = library.Spec(work_dir=str(target.parent), allowed_mem=case.budget, reserved_mem=0)
    x = library.from_zarr(str(source), spec=spec).rechunk(case.files)
    executor = library.runtime.create.create_executor("threads")
    if case.new_shards:
        library.store([x], [new_of(case, target)], executor=executor)
    else:
        library.to_zarr(x, str(target), executor=executor)


def rechunker(case: Case, source: Path, target: Path) -> None:
    """By rechunker, from Zarr to Zarr without shards, on Dask's threads."""
    if ".npy" in (case.source, case.target) or case.shards or case.new_shards:
        raise SystemExit("it reads and writes Zarr without shards")
    import rechunker as library
    import zarr

    between = target.with_name("between")
    given = zarr.open_array(source, mode="r")
    library.rechunk(given, case.new, case.budget, str(target), temp_store=str(between)).execute()
    shutil.rmtree(between, ignore_errors=True)


def cp(_: Case, source: Path, target: Path) -> None:
    """The input's bytes as they are."""
    subprocess.run(["cp", "-r", "--reflink=never", str(source), str(target)], check=True)


WAYS: dict[str, Callable[[Case, Path, Path], None]] = {
    "anydml": ours, "dask": dask, "tensorstore": tensorstore, "cubed": cubed, "rechunker": rechunker,
    "zarr": whole, "zarr by boxes": by_boxes, "zarrs": zarrs, "cp": cp,
}  # fmt: skip
