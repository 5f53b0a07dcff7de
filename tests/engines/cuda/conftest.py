"""Where there is no GPU, Triton's interpreter runs the same kernels on host memory; without Triton, nothing does."""

import importlib.util
import os

import pytest

HAS_TRITON = importlib.util.find_spec("triton") is not None


def has_gpu():
    if importlib.util.find_spec("torch") is None:
        return False
    import torch

    return torch.cuda.is_available()


# Triton reads this when the kernel is imported.
if HAS_TRITON and not has_gpu():
    os.environ["TRITON_INTERPRET"] = "1"


def pytest_ignore_collect(collection_path):
    """Test files here import the kernel; without Triton one of them says so, and the others are not read."""
    if not HAS_TRITON and collection_path.name.startswith("test_") and collection_path.name != "test_triton.py":
        return True
    return None


@pytest.fixture(scope="module", autouse=True)
def interpreter():
    if not HAS_TRITON:
        yield
        return
    from interpreter import patched_once

    with patched_once():
        yield


@pytest.fixture(scope="session")
def device():
    import anydml as dml

    return dml.Device("cuda")
