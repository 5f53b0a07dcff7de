"""Every function on arrays is fuzzed between guard pages; a wrong byte and a byte too far are found, and named."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from drawn_calls import DRAW

import anydml as dml
from fuzz.calls import Memory, check

ROOT = Path(__file__).resolve().parents[2]
HANG = 600
CALLS = 3000


def fuzzed(*options, **more):
    command = [sys.executable, "-m", "tests.fuzz.calls", *options]
    given = {**os.environ, **more}
    return subprocess.run(command, cwd=ROOT, env=given, capture_output=True, text=True, timeout=HANG, check=False)


def test_every_function_agrees_with_numpy_between_guard_pages():
    done = fuzzed("--calls", str(CALLS), "--seed", "1", "--processes", "2")
    assert done.returncode == 0, done.stderr
    assert f"{CALLS} calls of seed 1, no mismatch" in done.stdout
    assert done.stdout.startswith("seed 1; the same calls again: ")
    counts = dict(line.strip().split(": ") for line in done.stdout.splitlines() if line.startswith("  "))
    assert (
        {*counts}
        == {*DRAW, "compress", "nonzero_coordinates"}
        >= {
            *("slice1", "slice_grad", "diagonal_matrix", "fill", "sequence", "one_hot", "unfold", "split_training"),
            *("concat_training", "compress", "nonzero_coordinates"),
        }
    )


def test_seeds_come_from_the_environment_or_from_nowhere():
    named = fuzzed("--calls", "5", ANYDML_FUZZ_SEED="77")
    assert "5 calls of seed 77, no mismatch" in named.stdout, named.stderr
    drawn = {fuzzed("--calls", "5", ANYDML_FUZZ_SEED="").stdout.split(";")[0] for _ in range(2)}
    assert len(drawn) == 2


def test_a_wrong_byte_is_found(monkeypatch):
    def wrong(*given, **named):
        found = right(*given, **named)
        if found.size:
            found.reshape(-1).view(np.uint8)[-1] ^= 1
        return found

    right = dml.flip
    monkeypatch.setattr(dml, "flip", wrong)
    wrong.__wrapped__ = right
    with pytest.raises(AssertionError):
        for number in range(50):
            check(1, number, ["flip"], Memory())


@pytest.mark.skipif(sys.platform == "win32", reason="there is no mprotect")
def test_a_byte_too_far_ends_the_process():
    script = (
        "import ctypes, sys; sys.path[:0] = ['tests']\n"
        "import numpy as np\nfrom fuzz.calls import Memory\n"
        "for at_end in (False, True):\n"
        "    x = Memory().placed([np.arange(30.0)[::-2]], at_end)[0]\n"
        "    assert x.tolist() == [*range(29, -1, -2)], x\n"
        "    low, high = np.lib.array_utils.byte_bounds(x)\n"
        "    ctypes.string_at(low, high - low)\n"
        "print('inside', flush=True)\n"
        "ctypes.string_at(high, 1)\n"
    )
    done = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.stdout == "inside\n", done.stderr
    assert done.returncode < 0
