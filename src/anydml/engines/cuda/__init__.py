"""The GPU engine, in Triton: it runs on NVIDIA and AMD GPUs, and on the CPU through Triton's interpreter.

A launch runs all moves of a stage that have no lookups; every move with lookups is a launch of its own.
Reading order: `schedule` (launches and their order), `vector_moves`, `tiles` (division of work among
programs), `fields` (the kernel's arguments), `plan`, `kernel`, `launch`, `refusals` (checks of indices), `operands`
(constants and scratch), `engine`.
"""

from __future__ import annotations

from collections.abc import Sequence

from anydml.engines.protocol import Array, ArrayEngine, Engine


def open_engine(device: str) -> Engine:
    """Return the engine of ``"cuda"``, or of one GPU, ``"cuda:1"``.

    Raises:
        ValueError: Triton, PyTorch, a GPU, or this GPU is missing.
    """
    from anydml.engines.cuda import available

    available.require_gpu(device)
    from anydml.engines.cuda import engine

    return engine.CudaEngine(device)


def array_engine(name: str, arrays: Sequence[Array]) -> ArrayEngine:
    """Return the engine for functions on arrays on a GPU.

    Raises:
        BindingError: the arrays are on several GPUs, or some are in host memory.
        ValueError: Triton, PyTorch or a GPU is missing.
    """
    from anydml.engines.cuda.arrays import DeviceArrays

    return DeviceArrays.of(name, arrays)


def machine() -> tuple[str, str]:
    """Return the GPU that kernels run on, and a reason why they would be slow, or an empty string.

    Raises:
        ValueError: Triton, PyTorch or a GPU is missing.
    """
    from anydml.engines.cuda.available import require_gpu

    gpu = require_gpu("cuda")
    if gpu is None:
        return "Triton's interpreter", "TRITON_INTERPRET is set, so GPU kernels run in Python: unset it"
    import torch

    return f"cuda:{gpu}, {torch.cuda.get_device_name(gpu)}", ""


__all__ = ["array_engine", "machine", "open_engine"]
