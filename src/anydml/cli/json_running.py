"""`anydml run` for model files in JSON."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from anydml.cli.standard_input import ModelFile


def run_json(
    model: ModelFile,
    device: str,
    feature_level: str,
    allow_outside: bool,
    explain: bool,
    *,
    log: Callable[[str], object],
    warn: Callable[[str], object],
    progress: bool,
    **timing: Any,
) -> dict[str, Any]:
    """Run a model file in JSON.

    Returns:
        `device`, `dispatches` (each with `name` and `milliseconds`, one per sample), and `resources`, those that
        commands print: their `dtype`, `shape` and `values` after the last command.

    Raises:
        ModelError: as in `anydml.dxdispatch.run`.
    """
    from anydml import dxdispatch
    from anydml.cli.plan_output import values_as_json
    from anydml.dxdispatch.schedule import schedule
    from anydml.dxdispatch.steps import PrintStep

    if timing["milliseconds"] is None and not timing["iterations"]:
        warn("nothing is dispatched, for -i is 0: resources have their initial values")
    loaded = dxdispatch.load(model.path, allow_outside=allow_outside, folder=model.folder)
    dispatches = list[dict[str, Any]]()
    contents = dxdispatch.run(
        loaded,
        device=device,
        feature_level=feature_level,
        timing=dxdispatch.Timing(**timing),
        explain=explain,
        log=log,
        warn=warn,
        progress=progress,
        timed=lambda name, samples: dispatches.append({"name": name, "milliseconds": samples}),
    )
    resources = {}
    for step in schedule(loaded).steps:
        if isinstance(step, PrintStep):
            values = contents[step.resource.name]
            shape = [*step.sizes] or [len(values)]
            array_values = values_as_json(values.tolist())
            resources[step.resource.name] = {"dtype": str(values.dtype), "shape": shape, "values": array_values}
    return {"device": device, "dispatches": dispatches, "resources": resources}
