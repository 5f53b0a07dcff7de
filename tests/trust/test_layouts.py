"""What a process keeps of layouts that it has seen does not grow with their number."""

import os
import subprocess
import sys

import pytest

from trust.children import environment

LAYOUTS = int(os.environ.get("ANYDML_LAYOUTS", "10000"))
"""Calls of each kind, no two of which have one layout; 10⁶ where one asks for them."""

GROWTH = 2 << 20
"""Bytes that a process may have more at the end than at half the way: the allocator does not give all pieces back."""

HANG = 600 + LAYOUTS / 100

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="Linux says what is resident"),
]


@pytest.mark.parametrize("kind", ["numpy", "torch", "fused", "pinned", "bound"])
def test_memory_is_level(kind):
    if kind == "torch":
        pytest.importorskip("torch")
    command = [sys.executable, "-m", "trust.layouts_child", kind, str(LAYOUTS)]
    given = environment(ANYDML_NUM_THREADS="1", MALLOC_ARENA_MAX="1")
    done = subprocess.run(command, env=given, capture_output=True, text=True, timeout=HANG, check=False)
    assert done.returncode == 0, done.stderr
    found = [*map(int, done.stdout.split())]
    print(kind, *(f"{each / 1e6:.1f}" for each in found), "MB")
    half = len(found) // 2
    assert max(found[half:]) - found[half - 1] < GROWTH, found
