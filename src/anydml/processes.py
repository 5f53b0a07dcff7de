"""Processes of Python beside this one."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from typing import Any

from anydml.errors import ModelError


def start_python(code: str, purpose: str, arguments: Sequence[str] = (), **options: Any) -> subprocess.Popen[Any]:
    """Start a Python interpreter, which does not search the current folder for modules.

    Args:
        code: the code that the process runs.
        purpose: the purpose of the process, as in "to run models", for messages.
        arguments: ``sys.argv[1:]`` there.
        options: further arguments of ``subprocess.Popen``.

    Raises:
        ModelError: ``sys.executable`` names no Python interpreter, or it cannot be started.
    """
    if not sys.executable or getattr(sys, "frozen", False):
        # An application's own executable would start the application again.
        raise ModelError(f"a Python interpreter is needed {purpose}, and sys.executable names none")
    try:
        return subprocess.Popen([sys.executable, "-P", "-c", code, *arguments], **options)
    except OSError as error:
        raise ModelError(f"{sys.executable}, which is needed {purpose}, is not started: {error.strerror}") from None
