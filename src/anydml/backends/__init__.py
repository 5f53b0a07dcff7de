"""The engines: one room a machine, imported only when `open_backend` is asked for it."""

from __future__ import annotations

from anydml.backends.base import Backend, CompiledProgram


def open_backend(device: str) -> Backend:
    """The engine behind a device's name: ``"cpu"``, ``"numpy"``, ``"reference"``, ``"cuda"`` or ``"cuda:1"``.

    Raises:
        ValueError: no engine has this name, or what it takes is missing.
    """
    if device == "cpu":
        from anydml.backends import cpu

        return cpu.CpuBackend()
    if device == "numpy":
        from anydml.backends import numpy_engine

        return numpy_engine.NumpyBackend()
    if device == "reference":
        from anydml.backends import reference

        return reference.ReferenceBackend()
    if device.partition(":")[0] == "cuda":
        from anydml.backends.cuda import available

        available.require_gpu(device)
        from anydml.backends.cuda import engine

        return engine.CudaBackend(device)
    raise ValueError(f"unknown device {device!r}: one of 'cpu', 'numpy', 'reference', 'cuda'")


__all__ = ["Backend", "CompiledProgram", "open_backend"]
