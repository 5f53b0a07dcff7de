"""The GPU engine, in Triton: it runs on NVIDIA and AMD GPUs, and on the CPU through Triton's interpreter.

Of the moves that may run together, a launch does all that have no lookups; a move with lookups is a launch of its own.
Reading order: `schedule` (which launches, in which order), `parts` (moves in vectors), `tiles` (who does what),
`fields` (what the kernel is told, and how), `plan`, `kernel`, `launch`, `refusals` (indices that must not be outside),
`operands` (constants and scratch), `engine`.
"""

from __future__ import annotations

from collections.abc import Sequence

from anydml.engines.protocol import Array, ArrayEngine, Engine


def open_engine(device: str) -> Engine:
    """The engine of ``"cuda"``, or of one GPU, ``"cuda:1"``.

    Raises:
        ValueError: Triton, PyTorch, a GPU, or this GPU is missing.
    """
    from anydml.engines.cuda import available

    available.require_gpu(device)
    from anydml.engines.cuda import engine

    return engine.CudaEngine(device)


def array_engine(name: str, arrays: Sequence[Array]) -> ArrayEngine:
    """The engine behind functions on arrays on a GPU.

    Raises:
        BindingError: they lie on several GPUs, or in host memory too.
        ValueError: what it takes is missing.
    """
    from anydml.engines.cuda.arrays import DeviceArrays

    return DeviceArrays.of(name, arrays)


def machine() -> tuple[str, str]:
    """The GPU that kernels run on, and what makes them slow there, if anything does.

    Raises:
        ValueError: Triton, PyTorch or a GPU is missing.
    """
    from anydml.engines.cuda.available import require_gpu

    number = require_gpu("cuda")
    if number is None:
        return "Triton's interpreter", "TRITON_INTERPRET is set, so GPU kernels run in Python: unset it"
    import torch

    return f"cuda:{number}, {torch.cuda.get_device_name(number)}", ""


__all__ = ["array_engine", "machine", "open_engine"]
