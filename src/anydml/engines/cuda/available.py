"""The requirements of `Device("cuda")`, and errors that name the missing one."""

from __future__ import annotations

import importlib
import re
from typing import Any

from anydml.text import count_noun

INSTALL = 'pip install "anydml[cuda]"'
OLDEST_TRITON = (3, 3)


def device_number(name: str) -> int | None:
    """Parse the number in ``"cuda:1"``; None for ``"cuda"``, the current device.

    Raises:
        ValueError: the name has another form.
    """
    match = re.fullmatch(r"cuda(?::(\d+))?", name)
    if not match:
        raise ValueError(f"unknown device {name!r}: a GPU is 'cuda', 'cuda:0', 'cuda:1' …")
    return None if match[1] is None else int(match[1])


def is_interpreted() -> bool:
    """Whether kernels run in Triton's interpreter, on host memory (TRITON_INTERPRET=1 before their import)."""
    from anydml.engines.cuda.kernel import move_tiles

    return type(move_tiles).__name__ == "InterpretedFunction"


def require_gpu(name: str) -> int | None:
    """Return the GPU of a device's name; None for Triton's interpreter on host memory.

    Raises:
        ValueError: Triton, PyTorch, a GPU, or this GPU is missing.
    """
    gpu = device_number(name)
    triton = _import("triton", name)
    version = tuple(map(int, re.findall(r"\d+", triton.__version__)[:2]))
    if version < OLDEST_TRITON:
        raise ValueError(f"Device({name!r}) needs Triton 3.3 or newer, but {triton.__version__} is installed")
    if is_interpreted():
        return None
    torch = _import("torch", name)
    if not torch.cuda.is_available():
        message = f"Device({name!r}) needs a GPU that PyTorch can reach, but torch.cuda.is_available() is False"
        raise ValueError(f"{message}; TRITON_INTERPRET=1 runs its kernels on the CPU, slowly")
    count: int = torch.cuda.device_count()
    current: int = torch.cuda.current_device()
    if gpu is not None and gpu >= count:
        raise ValueError(f"Device({name!r}) does not exist: PyTorch reaches {count_noun(count, 'GPU')}")
    return current if gpu is None else gpu


def _import(module: str, name: str) -> Any:
    try:
        return importlib.import_module(module)
    except (ImportError, OSError) as error:
        raise ValueError(f"Device({name!r}) needs {module}, which cannot be imported ({error}): {INSTALL}") from None
