"""Nobody is made to import PyTorch; who has none is told what to install."""

import importlib.util
import subprocess
import sys

import pytest


def run(code):
    """What a new process prints."""
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout


def test_it_is_imported_only_when_asked_for():
    assert run("import sys, anydml; print('torch' in sys.modules, 'anydml.torch' in sys.modules)") == "False False\n"


def test_without_pytorch_the_error_says_what_to_install(monkeypatch):
    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name, *rest: None if name == "torch" else find(name, *rest))
    monkeypatch.delitem(sys.modules, "anydml.torch", raising=False)
    with pytest.raises(ImportError, match=r'anydml.torch needs the package torch: pip install "anydml\[torch\]"'):
        importlib.import_module("anydml.torch")


@pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="PyTorch is not installed")
@pytest.mark.parametrize("call", ["split(x, [1, 2])[1]", "join([x, x])[1:3]", "copy(x)[1:]"])
def test_pytorchs_compiler_may_be_the_first_to_call(call):
    code = f"import torch, anydml as dml\nf = torch.compile(lambda x: dml.{call}, backend='eager', fullgraph=True)\n"
    twice = "f(torch.tensor([5, 6, 7])).tolist(), f(torch.tensor([5, 6, 8])).tolist()"
    assert run(f"{code}print({twice})") == "[6, 7] [6, 8]\n"
