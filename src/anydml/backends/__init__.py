"""The engines: one room a machine, imported only when `open_backend` is asked for it."""

from __future__ import annotations

from anydml.backends.base import Backend, Program


def open_backend(device: str) -> Backend:
    """The engine behind a device's name: ``"cpu"`` or ``"reference"``.

    Raises:
        ValueError: no engine has this name.
    """
    if device == "cpu":
        from anydml.backends import cpu

        return cpu.CpuBackend()
    if device == "reference":
        from anydml.backends import reference

        return reference.ReferenceBackend()
    raise ValueError(f"unknown device {device!r}: one of 'cpu', 'reference'")


__all__ = ["Backend", "Program", "open_backend"]
