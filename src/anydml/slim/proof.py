"""More than `slim` does on its own: other sizes, and ONNX Runtime."""

from __future__ import annotations

from onnx import ModelProto

from anydml.errors import ModelError
from anydml.files.folder import Folder
from anydml.files.json_path import show
from anydml.slim.alike import are_alike, sizes_of
from anydml.slim.constants import Constants, with_data
from anydml.slim.following import Following, size_names
from anydml.slim.proving import differing
from anydml.slim.running import compared
from anydml.slim.slimming import Slimmed
from anydml.text import counted


def proved(model: ModelProto, slimmed: Slimmed, folder: Folder | None = None) -> list[str]:
    """Compare a model with what became of it.

    Args:
        model: the model as it was.
        slimmed: what `slim` made of it.
        folder: where its external data lies.

    Returns:
        What was compared, a line each.

    Raises:
        ModelError: something differs.
    """
    if not slimmed.stages:
        return ["nothing is changed, so there is nothing to prove"]
    several = sizes_of(size_names(model))
    for stage in slimmed.stages:
        if stage.what:
            if not are_alike(stage.before, stage.after, folder):
                raise ModelError(f"{stage.what}: other numbers are computed", rule="both models must compute the same")
            continue
        constants = Constants(folder, stage.before, stage.after)
        for sizes in several:
            after = Following(stage.after, sizes)
            wrong = next(differing(Following(stage.before, sizes), after, constants.read), None)
            if wrong is not None:
                shown = ", ".join(f"{show(name)} = {size}" for name, size in sizes.items())
                message = f"{show(wrong)} is not the same{f' where {shown}' if shown else ''}"
                raise ModelError(message, field=wrong, rule="both models must move the same")
    count = len(slimmed.changed)
    what = f"for {len(several)} more sizes of each name" if size_names(model) else "for the sizes that the model has"
    return [
        f"{counted(count, 'region')} proved {what}: the same elements are read by every node that computes",
        *(f"{stage.what}: every result has the same fingerprint" for stage in slimmed.stages if stage.what),
        compared(with_data(model, folder), with_data(slimmed.model, folder), slimmed.is_exact),
    ]
