"""What tests have to say when all have ended, wherever they ran."""

from __future__ import annotations

import contextlib
import importlib.util

with contextlib.suppress(ModuleNotFoundError):
    from hypothesis import settings

    # A busy machine is no failure; what may not hang has limits of its own.
    settings.register_profile("patient", deadline=None)
    settings.load_profile("patient")


def pytest_terminal_summary(terminalreporter):
    """Print what passed tests recorded as the property ``in summary``."""
    for report in terminalreporter.getreports("passed"):
        for name, value in report.user_properties:
            if name == "in summary":
                terminalreporter.write_line(value)
    for name in ("torch", "jax", "onnx"):
        if importlib.util.find_spec(name) is None:
            terminalreporter.write_line(f"{name} is not installed: tests that need it were left out")
