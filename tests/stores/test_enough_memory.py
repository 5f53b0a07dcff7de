"""Errors for too little memory name an amount that is enough."""

import re

import numpy as np
import pytest

from anydml import stores
from anydml.errors import BindingError

UNITS = {"B": 1, "kB": 1000, "MB": 1_000_000}


def enough(make, memory):
    """The memory with which a plan can be made, found by what errors name; and these errors."""
    errors = []
    for _ in range(2):
        try:
            make(memory)
        except BindingError as error:
            errors.append(str(error))
            ((number, unit),) = re.findall(r"(?:at least|more memory,) ([\d.]+) ([kM]?B)\b", errors[-1])
            assert round(float(number) * UNITS[unit]) > memory
            memory = round(float(number) * UNITS[unit])
        else:
            return memory, errors
    raise AssertionError(errors)


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("target", ["y.zarr", "memory://enough/y.zarr"])
def test_of_chunks(tmp_path, monkeypatch, seed, target):
    pytest.importorskip("zarr", reason='zarr-python is not installed: pip install "anydml[stores]"')
    if target != "y.zarr":
        pytest.importorskip("obstore", reason='obstore is not installed: pip install "anydml[remote]"')
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(seed)
    shape = [int(size) for size in rng.integers(20, 90, 3)]
    chunks = [shape[0], *map(int, rng.integers(5, 20, 2))]
    np.save("x.npy", np.zeros(shape, "f4"))
    stores.rechunk("x.npy", "x.zarr", [1, *shape[1:]], codec=("none", "zstd")[seed % 2]).run()

    def make(memory):
        return stores.rechunk("x.zarr", target, chunks, memory=memory, codec="none")

    memory, errors = enough(make, 9000)
    assert errors
    with pytest.raises(BindingError, match="give more memory"):
        make(memory * 9 // 10)


@pytest.mark.parametrize("size", [9000, 2_000_000])
def test_of_elements(tmp_path, monkeypatch, size):
    monkeypatch.chdir(tmp_path)
    np.save("x.npy", np.zeros((4, 3), f"S{size}"))
    _, errors = enough(lambda memory: stores.rechunk("x.npy", "y.npy", permute=(1, 0), memory=memory), 9000)
    assert "no way was found" in errors[0]
