"""Hooks through which lower packages reach higher ones, imported on first use."""

from __future__ import annotations

from typing import Any

from anydml.functions.traced import register_functions
from anydml.tracing.fused import planned_by


def _torch_functions() -> Any:
    from anydml import torch

    return torch


def _lazy_functions() -> Any:
    from anydml import dask

    return dask


def _plan_function(*arguments: Any) -> Any:
    from anydml.stores.functions import plan_function

    return plan_function(*arguments)


register_functions(torch=_torch_functions, dask=_lazy_functions)
planned_by(_plan_function)
