"""The proof of a slimmed model: for other sizes than `slim` compares, and on ONNX Runtime."""

from __future__ import annotations

import importlib.util
from typing import Any

from onnx import ModelProto

from anydml.errors import ModelError
from anydml.files.folder import Folder
from anydml.files.json_path import show
from anydml.proving.constants import with_data
from anydml.proving.names import show_size, size_names
from anydml.proving.running import LARGEST_ERROR, are_equal, error_of, random_inputs, run
from anydml.slim.analysis import Analysis
from anydml.slim.comparing import compute_the_same, differing, small_sizes
from anydml.slim.graph import Graph
from anydml.slim.slimming import Slimmed
from anydml.text import counted


def proved(model: ModelProto, slimmed: Slimmed, folder: Folder | None = None) -> list[str]:
    """Compare a model with its slimmed version.

    Args:
        model: the original model.
        slimmed: the result of `slim`.
        folder: folder of the model's external data.

    Returns:
        What was compared, one line each.

    Raises:
        ModelError: something differs.
    """
    if not slimmed.stages:
        return ["nothing is changed, so there is nothing to prove"]
    names = size_names(model)
    # The last graph is read from the model that is written.
    graphs = [Graph.of(model, folder), *(each.graph for each in slimmed.stages[:-1]), Graph.of(slimmed.model, folder)]
    _check_constants(model, slimmed.model)
    for stage, old, new in zip(slimmed.stages, graphs, graphs[1:], strict=False):
        for sizes in small_sizes(names):
            before, after = Analysis(old, sizes), Analysis(new, sizes)
            if stage.title:
                if not compute_the_same(before, after, ()):
                    rule = "both models must compute the same"
                    raise ModelError(f"{stage.title}: other numbers are computed", rule=rule)
                continue
            wrong = next(differing(before, after), None)
            if wrong is not None:
                shown = ", ".join(f"{show_size(name)} = {size}" for name, size in sizes.items())
                message = f"{show(wrong)} is not the same{f' where {shown}' if shown else ''}"
                raise ModelError(message, field=wrong, rule="both models must move the same")
    count = len(slimmed.changed)
    what = f"for {len(small_sizes(names))} more sizes of each name" if names else "for the sizes that the model has"
    return [
        f"{counted(count, 'region')} proved {what}: the same elements are read by every node that computes",
        *(f"{stage.title}: every result has the same fingerprint" for stage in slimmed.stages if stage.title),
        compare(with_data(model, folder), with_data(slimmed.model, folder), slimmed.is_exact),
    ]


def _check_constants(before: ModelProto, after: ModelProto) -> None:
    """Check that constants with the same name are equal."""
    old = _constants(before)
    for name, constant in _constants(after).items():
        if old.get(name, constant) != constant:
            raise ModelError(f"{show(name)} is not the same", name, rule="both models must have the same")


def _constants(model: ModelProto) -> dict[str, Any]:
    """Return initializers, and the attributes of Constant nodes, by the names of their values."""
    made = {node.output[0]: list(node.attribute) for node in model.graph.node if node.op_type == "Constant"}
    return {**made, **{tensor.name: tensor for tensor in model.graph.initializer}}


def compare(before: ModelProto, after: ModelProto, is_exact: bool = True) -> str:
    """Run two models without optimisations; return a line that says how their results compare.

    Args:
        before: a model.
        after: the other model.
        is_exact: whether results must be equal bit for bit; else sums may be added up in another order.

    Raises:
        ModelError: their results differ, or ONNX Runtime refuses only the second model.
    """
    if importlib.util.find_spec("onnxruntime") is None:
        raise ModelError("--prove runs both models on ONNX Runtime: pip install onnxruntime")
    try:
        inputs = random_inputs(before)
        expected = run(before, inputs)
        again = run(before, inputs)
    except Exception as error:
        # Whatever the reason is, it lies in the original model.
        return f"not run: ONNX Runtime does not run the model as it was ({str(error).splitlines()[0][:200]})"
    if not are_equal(expected, again):
        return "not compared: two runs of the model as it was differ"
    try:
        found = run(after, inputs)
    except Exception as error:
        message = f"ONNX Runtime refuses the model that was made: {str(error).splitlines()[0][:200]}"
        raise ModelError(message, rule="both models must run") from None
    outputs = f"{counted(len(expected), 'output')} {'are' if len(expected) > 1 else 'is'}"
    if are_equal(expected, found):
        return f"{outputs} the same bit for bit on ONNX Runtime"
    if is_exact:
        raise ModelError("ONNX Runtime's results differ before and after", rule="results must be the same bit for bit")
    off = max(error_of(*pair) for pair in zip(expected, found, strict=True))
    if off > LARGEST_ERROR:
        message = f"ONNX Runtime's results differ before and after, by {off:.0f} units in the last place"
        rule = f"products may be off by {LARGEST_ERROR} units in the last place of the largest"
        raise ModelError(message, rule=rule)
    return (
        f"{outputs} the same on ONNX Runtime but for {off:.0f} units in the last place of the largest number: it adds"
        " up products of other shapes in other blocks"
    )
