"""Whether the other tests in this folder ran; and that nobody is made to import PyTorch."""

import subprocess
import sys

import pytest


def test_pytorch_is_installed():
    pytest.importorskip("torch", reason="PyTorch is not installed: pip install 'anydml[torch]'")
    import torch

    import anydml.torch  # noqa: F401  # it registers the operators

    assert torch.ops.anydml.split.default._schema.name == "anydml::split"


def test_it_is_imported_only_when_asked_for():
    code = "import sys, anydml; print('torch' in sys.modules, 'anydml.torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "False"]
