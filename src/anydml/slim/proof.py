"""More than `slim` does on its own: other sizes, and ONNX Runtime."""

from __future__ import annotations

from onnx import ModelProto

from anydml.errors import ModelError
from anydml.files.folder import Folder
from anydml.files.json_path import show
from anydml.slim.constants import with_data
from anydml.slim.following import Following
from anydml.slim.graph import Graph
from anydml.slim.proving import are_alike, differing, sizes_of
from anydml.slim.running import compared
from anydml.slim.sizes import size_names
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
    names = size_names(model)
    # What is compared last is what was written.
    graphs = [Graph.of(model, folder), *(each.graph for each in slimmed.stages[:-1]), Graph.of(slimmed.model, folder)]
    _check_constants(model, slimmed.model)
    for stage, old, new in zip(slimmed.stages, graphs, graphs[1:], strict=False):
        for sizes in sizes_of(names):
            before, after = Following(old, sizes), Following(new, sizes)
            if stage.what:
                if not are_alike(before, after, ()):
                    rule = "both models must compute the same"
                    raise ModelError(f"{stage.what}: other numbers are computed", rule=rule)
                continue
            wrong = next(differing(before, after), None)
            if wrong is not None:
                shown = ", ".join(f"{show(name)} = {size}" for name, size in sizes.items())
                message = f"{show(wrong)} is not the same{f' where {shown}' if shown else ''}"
                raise ModelError(message, field=wrong, rule="both models must move the same")
    count = len(slimmed.changed)
    what = f"for {len(sizes_of(names))} more sizes of each name" if names else "for the sizes that the model has"
    return [
        f"{counted(count, 'region')} proved {what}: the same elements are read by every node that computes",
        *(f"{stage.what}: every result has the same fingerprint" for stage in slimmed.stages if stage.what),
        compared(with_data(model, folder), with_data(slimmed.model, folder), slimmed.is_exact),
    ]


def _check_constants(before: ModelProto, after: ModelProto) -> None:
    """Check that constants of one name are the same."""
    old = {tensor.name: tensor for tensor in before.graph.initializer}
    for tensor in after.graph.initializer:
        if old.get(tensor.name, tensor) != tensor:
            raise ModelError(f"{show(tensor.name)} is not the same", tensor.name, rule="both models must have the same")
