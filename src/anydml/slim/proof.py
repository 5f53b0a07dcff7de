"""More than `slim` does on its own: other sizes, and ONNX Runtime."""

from __future__ import annotations

from onnx import ModelProto

from anydml.errors import ModelError
from anydml.files.folder import Folder
from anydml.files.json_path import show
from anydml.slim.constants import Constants, with_data
from anydml.slim.following import Following, size_names
from anydml.slim.proving import differing
from anydml.slim.running import compared
from anydml.slim.slimming import Slimmed
from anydml.text import counted

SIZES = (1, 2, 3, 5, 8)
"""What each named size is, from one comparison to the next; the second named size begins with the next, and so on."""


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
    if slimmed.model is model:
        return ["nothing is changed, so there is nothing to prove"]
    names = size_names(model)
    constants = Constants(folder, model, slimmed.model)
    several = [
        {name: SIZES[(first + k) % len(SIZES)] for k, name in enumerate(names)} for first in range(len(SIZES))
    ]  # fmt: skip
    for sizes in several if names else [{}]:
        after = Following(slimmed.model, sizes)
        wrong = next(differing(Following(model, sizes), after, constants.read), None)
        if wrong is not None:
            shown = ", ".join(f"{show(name)} = {size}" for name, size in sizes.items())
            message = f"{show(wrong)} is not the same{f' where {shown}' if shown else ''}"
            raise ModelError(message, field=wrong, rule="both models must move the same")
    count = len(slimmed.changed)
    what = f"for {len(several)} more sizes of each name" if names else "for the sizes that the model has"
    return [
        f"{counted(count, 'region')} proved {what}: the same elements are read by every node that computes",
        compared(with_data(model, folder), with_data(slimmed.model, folder)),
    ]
