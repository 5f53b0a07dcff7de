"""Rewrite training graphs for runtimes without com.microsoft's training operators.

SplitTraining and ConcatTraining are replaced in place by standard Split, Concat and shape arithmetic. (Model-local
functions have fixed numbers of inputs and outputs, and could not replace them.) Everything else is unchanged. Standard
Split takes its sizes as an input since opset 13; older models are converted first.
"""

from __future__ import annotations

import copy
from collections import ChainMap
from collections.abc import Iterable, Set

from onnx import FunctionProto, ModelProto, NodeProto

from anydml.errors import ModelError
from anydml.files.location import show
from anydml.onnx.checks import check_is_model
from anydml.onnx.graph import MICROSOFT
from anydml.onnx.opset import drop_import, raise_function_opsets, raise_opset
from anydml.onnx.training_nodes import FreshNames, Lengths, concat_nodes, lengths_in, note_lengths, split_nodes
from anydml.onnx.walk import Body, Name, function_name, main_graphs, nodes, subgraphs


def make_portable(model: ModelProto) -> ModelProto:
    """Replace SplitTraining and ConcatTraining by operators that every ONNX runtime implements.

    Args:
        model: a valid model. It is not modified, and its external data need not be loaded.

    Returns:
        `model` itself if it has neither operator. Otherwise a new model in which these nodes, including those in
        subgraphs, functions and training graphs, are replaced by standard nodes with identical outputs. Existing names,
        other nodes and tensors are unchanged. The opset import of com.microsoft is removed if no node needs it. Models
        below opset 13 are converted by `onnx.version_converter`.

        An empty `split`, known in advance or at run time, still gives equal parts, and sizes that do not add up fail in
        Split.

    Raises:
        ModelError: a node is not valid, or the model is below opset 13 and cannot be converted.
        TypeError: `model` is not a ModelProto.

    Examples:
        >>> from onnx import TensorProto, helper
        >>> import anydml.onnx
        >>> x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [4]) for name in "xy")
        >>> graph = helper.make_graph([helper.make_node("Identity", ["x"], ["y"], "copy")], "g", [x], [y])
        >>> model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
        >>> anydml.onnx.make_portable(model) == model
        True
    """
    check_is_model("make_portable", model)
    if not training_nodes(model):
        return model
    model_functions = _own_functions(model)
    result = ModelProto()
    result.CopyFrom(model)
    if any(_is_training(model_functions, node) for node in nodes(main_graphs(model))):
        result = raise_opset(result)
    rewriter = _Rewriter(result)
    for graph in main_graphs(result):
        rewriter.rewrite(graph)
    functions = [
        function
        for function in result.functions
        if any(_is_training(model_functions, node) for node in nodes([function]))
    ]
    raise_function_opsets(functions, result)
    _check_axes_are_passed(result, functions)
    for function in functions:
        rewriter.rewrite(function)
    drop_import(result, MICROSOFT)
    return result


def training_nodes(model: ModelProto) -> list[NodeProto]:
    """Return the nodes that `make_portable` replaces, anywhere in a model."""
    model_functions = _own_functions(model)
    return [node for node in nodes([*main_graphs(model), *model.functions]) if _is_training(model_functions, node)]


def _own_functions(model: ModelProto) -> frozenset[Name]:
    """Return the names of the model's functions, which may shadow operators."""
    return frozenset(map(function_name, model.functions))


def _is_training(model_functions: Set[Name], node: NodeProto) -> bool:
    """Return whether a node is one of the two training operators, and not a call of a function of the same name."""
    if node.domain != MICROSOFT or node.op_type not in ("SplitTraining", "ConcatTraining"):
        return False
    return function_name(node) not in model_functions


class _Rewriter:
    """Replaces the nodes of graphs and functions of one model, in place."""

    def __init__(self, model: ModelProto) -> None:
        self._own = _own_functions(model)
        self._fresh = FreshNames(model)

    def rewrite(self, body: Body, outer: ChainMap[str, int] | None = None) -> None:
        # Subgraphs see outer names; a ChainMap avoids copying these for each subgraph.
        lengths: ChainMap[str, int] = ChainMap(lengths_in(body), *(outer.maps if outer else ()))
        rewritten: list[NodeProto] = []
        is_changed = False
        for node in body.node:
            is_training = _is_training(self._own, node)
            if is_training:
                rewritten += self._standard_nodes(node, lengths)
                is_changed = True
            else:
                for graph in subgraphs(node):
                    self.rewrite(graph, lengths)
                rewritten.append(node)
            note_lengths(node, is_training, lengths)
        if is_changed:
            # Copies, because clearing a repeated field invalidates its messages.
            copies = [copy.deepcopy(node) for node in rewritten]
            del body.node[:]
            body.node.extend(copies)

    def _standard_nodes(self, node: NodeProto, lengths: Lengths) -> list[NodeProto]:
        if node.op_type == "ConcatTraining":
            return concat_nodes(node, self._fresh)
        return split_nodes(node, lengths, self._fresh)


def _check_axes_are_passed(model: ModelProto, functions: Iterable[FunctionProto]) -> None:
    """Check that every call passes the axis attributes that the new nodes of functions read as tensors."""
    model_functions = _own_functions(model)
    referred: dict[Name, set[str]] = {}
    for function in functions:
        required = {*function.attribute}
        referred.setdefault(function_name(function), set()).update(
            attribute.ref_attr_name
            for node in nodes([function])
            if _is_training(model_functions, node)
            for attribute in node.attribute
            if attribute.ref_attr_name in required
        )
    for node in nodes([*main_graphs(model), *model.functions]):
        missing = referred.get(function_name(node), set()) - {attribute.name for attribute in node.attribute}
        if missing:
            name = show(min(missing))
            message = f"node {show(node.name)} calls {show(node.op_type)} without the attribute {name}"
            reason = "SplitTraining takes it as its axis; give it, or a default in the function"
            raise ModelError(f"{message}; {reason}", node.op_type, min(missing))
