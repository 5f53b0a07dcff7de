"""Every operator of the registry is fuzzed, between guard pages: one that the fuzzer does not know fails here."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from fuzz.registry import PAGES, drawn, filled, names

ROOT = Path(__file__).resolve().parents[2]
HANG = 600


@pytest.mark.parametrize("name", names())
def test_every_operator_is_drawn(name):
    rng = np.random.default_rng(1)
    kinds = [type(drawn(name, rng)) for _ in range(5)]
    assert kinds == [names()[name]] * 5


def test_descs_are_varied():
    rng = np.random.default_rng(2)
    descs = [drawn(name, rng) for name in names() for _ in range(20)]
    tensors = [tensor for desc in descs for _, tensor in (*desc.inputs, *desc.outputs)]
    assert {len(tensor.sizes) for tensor in tensors} == set(range(1, 9))
    assert len({tensor.data_type for tensor in tensors}) == 11
    assert sum(tensor.strides is not None for tensor in tensors) > 100
    assert not [*descs[0].problems()]
    assert max(tensor.size_in_bytes for tensor in tensors) < 4096 * PAGES
    assert len(filled("scatter", drawn("scatter", rng), rng)) == 4


def fuzzed(*options):
    command = [sys.executable, "-m", "tests.fuzz.registry", *options]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=HANG, check=False)


@pytest.mark.skipif(sys.platform == "win32", reason="there is no mprotect")
def test_every_operator_agrees_with_the_reference_between_guard_pages():
    done = fuzzed("--cases", "6", "--engine", "numpy")
    assert done.returncode == 0, done.stderr
    assert f"{6 * len(names())} cases of seed 0, no mismatch" in done.stdout
