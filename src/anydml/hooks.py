"""Functions of higher packages that lower ones call but do not import; `anydml` registers them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

HOOKS: dict[str, Callable[..., Any]] = {}
"""The functions: two return the packages "torch" and "dask"; "explain" explains an object, "plan" plans over files."""
