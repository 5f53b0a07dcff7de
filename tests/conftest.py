"""What tests have to say when all have ended, wherever they ran."""

from __future__ import annotations

import contextlib
import importlib.util

import pytest

from anydml.engines.cpu import admission

with contextlib.suppress(ModuleNotFoundError):
    from hypothesis import settings

    # A busy machine is no failure; what may not hang has limits of its own.
    settings.register_profile("patient", deadline=None)
    settings.load_profile("patient")


@pytest.fixture(autouse=True)
def special_kernels(monkeypatch):
    """Each test may have as many special kernels as a process; those that are compiled stay so."""
    monkeypatch.setattr(admission, "_admitted", set())
    monkeypatch.setattr(admission, "_asked", set())


def pytest_terminal_summary(terminalreporter):
    """Print what passed tests recorded as the property ``in summary``."""
    for report in terminalreporter.getreports("passed"):
        for name, value in report.user_properties:
            if name == "in summary":
                terminalreporter.write_line(value)
    for name in ("torch", "jax", "onnx", "einops"):
        if importlib.util.find_spec(name) is None:
            terminalreporter.write_line(f"{name} is not installed: tests that need it were left out")
