"""Chunks that a plan reads, against sets of them."""

import itertools

import numpy as np
import pytest

from anydml import stores

zarr = pytest.importorskip("zarr", reason='zarr-python is not installed: pip install "anydml[stores]"')


@pytest.mark.parametrize("memory", [5000, "1MB"])
@pytest.mark.parametrize("seed", range(12))
def test_distinct_chunks_are_those_that_slices_meet(tmp_path, seed, memory):
    rng = np.random.default_rng(seed)
    rank = int(rng.integers(1, 4))
    # Not thousands of files.
    shape = [int(n) for n in rng.integers(1, (40, 40, 14)[rank - 1], rank)]
    chunks = [int(rng.integers(1, min(n, 7) + 1)) for n in shape]
    x = rng.integers(0, 99, shape, np.int32)
    zarr.create_array(str(tmp_path / "x.zarr"), data=x, chunks=chunks, zarr_format=3)
    ends = [sorted(int(n) for n in rng.choice(n + 1, 2, replace=False)) for n in shape]
    slices = tuple(slice(low, high, int(rng.integers(1, 4))) for low, high in ends)
    axes = rng.permutation(len(shape)).tolist()
    text = ",".join(f"{each.start}:{each.stop}:{each.step}" for each in slices)
    plan = stores.rechunk(tmp_path / "x.zarr", tmp_path / "y.npy", slices=text, permute=axes, memory=memory)
    picked = [range(n)[each] for each, n in zip(slices, shape, strict=True)]
    needed = {*itertools.product(*({k // c for k in own} for own, c in zip(picked, chunks, strict=True)))}
    # A box has all elements between its first and its last, whatever steps skip.
    spans = [range(own[0], own[-1] + 1) for own in picked]
    met = {*itertools.product(*({k // c for k in span} for span, c in zip(spans, chunks, strict=True)))}
    totals, size = plan.totals, 4 * int(np.prod(chunks))
    distinct = totals.bytes_read - totals.bytes_read_again
    assert len(needed) * size <= distinct <= len(met) * size
    if len(plan.blocks) == 1:
        assert (totals.bytes_read, totals.bytes_read_again, totals.reads) == (len(met) * size, 0, len(met))
    plan.run()
    np.testing.assert_array_equal(np.load(tmp_path / "y.npy"), x[slices].transpose(axes))
