"""Every example runs, and prints the documents' numbers."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from anydml import dxdispatch

EXAMPLES = Path(__file__).parents[1] / "examples"

SPLIT = [[1, 2, 3, 4], [5, 6], [7, 8, 9, 10, 11, 12]]
TWELVE = list(range(1, 13))

# Numbers as the documents print them, resource by resource.
PRINTED = {
    "split": SPLIT,
    "split_axis3": [[1, 3, 5, 7, 9, 11], [2, 4, 6, 8, 10, 12]],
    "slice1": [[2, 4, 10, 12]],
    "slice1_negative": [[14, 16, 6, 8]],
    "gather_1": [[14, 12, 14, 11, 13]],
    "gather_2": [[1, 2, 3, 4, 3, 4, 5, 6]],
    "gather_3": [[2, 1, 4, 3, 6, 5]],
    "gather_4": [[1, 3, 4, 6, 7, 9]],
    "gather_5": [[1, 2, 3, 4, 3, 4, 5, 6]],
    "join": [TWELVE],
    "slice": [[2, 4, 10, 12]],
    "split_training": SPLIT,
    "concat_training": [TWELVE, [2, 1, 3]],
}


def test_no_example_is_left_out():
    assert sorted(PRINTED) == sorted(path.stem for path in EXAMPLES.glob("*.json"))


@pytest.mark.parametrize("device", ["cpu", "reference"])
@pytest.mark.parametrize("name", PRINTED)
def test_models(name, device):
    lines: list[str] = []
    dxdispatch.run(dxdispatch.load(EXAMPLES / f"{name}.json"), device=device, log=lines.append)
    printed = [line.partition(": ")[2] for line in lines if line.startswith("Resource ")]
    assert printed == [", ".join(map(str, numbers)) for numbers in PRINTED[name]]


@pytest.mark.parametrize("script", sorted(EXAMPLES.glob("*.py")), ids=lambda path: path.stem)
def test_scripts(script):
    """Each script insists on its numbers itself; an assertion that fails ends it with an error."""
    found = subprocess.run([sys.executable, script], capture_output=True, text=True, check=False)
    assert (found.returncode, found.stderr) == (0, "")
    assert "Example" in found.stdout or "Sizes" in found.stdout
