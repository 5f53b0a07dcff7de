"""Names of symbolic sizes, some of which models leave out, and small values for them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from onnx import ModelProto

from anydml.errors import ModelError
from anydml.files.location import show

SIZES = (1, 2, 3, 5, 8)
"""Values of a symbolic size in successive comparisons; each further size begins one value later."""


def unnamed_size(value: str, axis: int) -> str:
    """Return a name for an input's size that has none; names in models contain no line breaks."""
    return f"{value}\n{axis}"


def show_size(name: str) -> str:
    """Return the name of a size for messages."""
    value, is_unnamed, axis = name.partition("\n")
    return f"axis {axis} of {show(value)}" if is_unnamed else show(name)


def size_names(model: ModelProto) -> list[str]:
    """Return the names of the inputs' symbolic sizes, including unnamed ones, in order."""
    names: dict[str, None] = {}
    constants = {tensor.name for tensor in model.graph.initializer}
    for value in model.graph.input:
        if value.type.WhichOneof("value") == "tensor_type" and value.name not in constants:
            for axis, dim in enumerate(value.type.tensor_type.shape.dim):
                if not dim.HasField("dim_value"):
                    names[dim.dim_param or unnamed_size(value.name, axis)] = None
    return [*names]


def refuse_unknown_sizes(sizes: Iterable[str], model: ModelProto, owner: str) -> None:
    """Refuse given names of sizes that a model does not have.

    Args:
        sizes: the names.
        model: the model.
        owner: the name of the model in messages.

    Raises:
        ModelError: the model has no such size.
    """
    known = size_names(model)
    for given_name in sizes:
        if given_name not in known:
            has = ", ".join(map(show_size, known)) or "none"
            raise ModelError(f"no size is named {show(given_name)}; {owner} has {has}", field=given_name)


def small_sizes(names: Sequence[str]) -> list[Mapping[str, int]]:
    """Return several assignments of small numbers to symbolic sizes."""
    if not names:
        return [{}]
    return [{name: SIZES[(k + n) % len(SIZES)] for n, name in enumerate(names)} for k in range(len(SIZES))]
