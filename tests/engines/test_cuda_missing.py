"""What `Device("cuda")` says where Triton, PyTorch or a GPU is missing. Runs everywhere."""

import importlib
import subprocess
import sys

import numpy as np
import pytest

import anydml as dml
from anydml.engines.cuda import available


def without(monkeypatch, *missing):
    """Make modules look as if they were not installed."""
    real = importlib.import_module

    def import_module(name):
        if name in missing:
            raise ImportError(f"No module named {name!r}")
        return real(name)

    monkeypatch.setattr(available.importlib, "import_module", import_module)


def test_without_triton(monkeypatch):
    without(monkeypatch, "triton")
    with pytest.raises(ValueError, match=r"Device\('cuda'\) needs triton, .*: pip install .anydml\[cuda\].") as caught:
        dml.Device("cuda")
    assert "\n" not in str(caught.value)


def test_an_old_triton(monkeypatch):
    class Old:
        __version__ = "3.2.1"

    monkeypatch.setattr(available, "_import", lambda module, name: Old)
    with pytest.raises(ValueError, match=r"Device\('cuda:1'\) needs Triton 3.3 or newer, but 3.2.1 is installed"):
        dml.Device("cuda:1")


def test_without_torch(monkeypatch):
    pytest.importorskip("triton")
    without(monkeypatch, "torch")
    monkeypatch.setattr(available, "is_interpreted", lambda: False)
    with pytest.raises(ValueError, match=r"Device\('cuda'\) needs torch, .*: pip install .anydml\[cuda\]."):
        dml.Device("cuda")


@pytest.mark.parametrize(
    "is_available, message", [(False, "needs a GPU that PyTorch can reach"), (True, "reaches 1 GPU")]
)
def test_without_a_gpu(monkeypatch, is_available, message):
    pytest.importorskip("triton")
    torch = pytest.importorskip("torch")
    monkeypatch.setattr(available, "is_interpreted", lambda: False)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: is_available)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 0)
    with pytest.raises(ValueError, match=message):
        dml.Device("cuda:1")


@pytest.mark.parametrize("name", ["cuda:", "cuda:x", "cuda:-1", "cuda:1:2"])
def test_names_that_are_no_gpu(name):
    with pytest.raises(ValueError, match=f"unknown device '{name}': a GPU is 'cuda', 'cuda:0', 'cuda:1'"):
        dml.Device(name)


def test_arrays_of_the_host_never_import_it():
    code = "import anydml, numpy, sys; anydml.split(numpy.arange(4), 2); print('triton' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def test_lists_and_arrays_of_the_host_stay_there():
    assert isinstance(dml.split([1, 2, 3, 4], 2)[0], np.ndarray)
    assert isinstance(dml.gather(np.arange(4), [1, 2]), np.ndarray)
