"""Fused functions on arrays of libraries that only support DLPack, where PyTorch is not installed."""

import subprocess
import sys

PROGRAM = """
import sys

class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "torch":
            raise ModuleNotFoundError(name)

sys.meta_path.insert(0, Missing())
import numpy as np
import anydml as dml

class Lent:
    device = "cpu"

    def __init__(self, array):
        self.array = array

    def __dlpack__(self, **options):
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()

def assigned(x):
    y = np.zeros_like(x)
    y[1:] = 3
    return y

def from_dlpack(array, **options):
    return np.from_dlpack(array)

x = np.arange(4.0)
for function in (
    lambda x: np.pad(x, 1),
    lambda x: np.pad(x, 1, constant_values=3),
    lambda x: np.full_like(x, 2),
    lambda x: np.where(np.array([True, False, True, True]), x, 2.0),
    assigned,
):
    assert np.array_equal(np.from_dlpack(dml.fuse(function)(Lent(x))), function(x))
print("equal")
"""


def test_numbers_are_filled_in_without_pytorch():
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=False)
    assert done.stdout == "equal\n", done.stderr
