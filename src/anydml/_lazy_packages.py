"""The functions of higher packages that lower ones call, which import their packages on first use."""

from __future__ import annotations

from typing import Any

from anydml.hooks import HOOKS


def _torch() -> Any:
    from anydml import torch

    return torch


def _dask() -> Any:
    from anydml import dask

    return dask


def _explain(subject: Any, **options: Any) -> Any:
    from anydml.explain import explain

    return explain(subject, **options)


def _plan(*arguments: Any) -> Any:
    from anydml.stores.functions import plan_function

    return plan_function(*arguments)


HOOKS.update(torch=_torch, dask=_dask, explain=_explain, plan=_plan)
