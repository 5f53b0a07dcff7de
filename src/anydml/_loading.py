"""What lower packages leave to higher ones, which are imported when they are first needed."""

from __future__ import annotations

from typing import Any

from anydml.functions.traced import registered_by
from anydml.tracing.fused import planned_by


def _torch_functions() -> Any:
    from anydml import torch

    return torch


def _plan_function(*arguments: Any) -> Any:
    from anydml.stores.functions import plan_function

    return plan_function(*arguments)


registered_by(_torch_functions)
planned_by(_plan_function)
