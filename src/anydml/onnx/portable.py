"""Training graphs for runtimes without com.microsoft's training operators.

SplitTraining and ConcatTraining become standard Split, Concat and shape arithmetic, in place: model-local functions
have a fixed number of inputs and outputs, so they could not stand for operators that take any. Everything else stays
as it is. Standard Split takes its sizes as an input since opset 13, so older models are converted first.
"""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Iterable, Set

from onnx import FunctionProto, ModelProto, NodeProto

from anydml.errors import ModelError
from anydml.files.json_path import show
from anydml.onnx.graph import MICROSOFT
from anydml.onnx.opset import drop_import, raise_function_opsets, raise_opset
from anydml.onnx.training_nodes import FreshNames, Lengths, concat_nodes, lengths_in, note_lengths, split_nodes
from anydml.onnx.walk import Body, all_bodies, bodies, main_graphs, subgraphs

Name = tuple[str, str, str]
"""A function's domain, name and overload."""


def make_portable(model: ModelProto) -> ModelProto:
    """Rewrite SplitTraining and ConcatTraining to operators that every ONNX runtime has.

    Args:
        model: any model, valid in itself. It is not changed; its external data need not be loaded.

    Returns:
        `model` itself where there is nothing to do. Otherwise a new model in which each of the two nodes, also those in
        subgraphs, functions and training graphs, is replaced by standard nodes with the same outputs. Value names,
        other nodes and tensors stay as they are; names of new values are new. The opset import of com.microsoft goes
        where no node needs it. A model below opset 13 is converted by `onnx.version_converter`.

        The new nodes do what the old ones did: an empty `split`, known or found at run time, makes equal parts, and
        sizes that do not add up fail in Split.

    Raises:
        ModelError: a node is not valid, or the model is below opset 13 and cannot be converted; the message says why.

    Examples:
        >>> from onnx import TensorProto, helper
        >>> import anydml.onnx
        >>> x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [4]) for name in "xy")
        >>> graph = helper.make_graph([helper.make_node("Identity", ["x"], ["y"], "copy")], "g", [x], [y])
        >>> model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
        >>> anydml.onnx.make_portable(model) == model
        True
    """
    if not training_nodes(model):
        return model
    own = _own_functions(model)
    result = ModelProto()
    result.CopyFrom(model)
    if any(_is_training(own, node) for node in _nodes(bodies(main_graphs(model)))):
        result = raise_opset(result)
    rewriter = _Rewriter(result)
    for graph in main_graphs(result):
        rewriter.rewrite(graph)
    functions = [one for one in result.functions if any(_is_training(own, node) for node in _nodes(bodies([one])))]
    raise_function_opsets(functions, result)
    _check_axes_are_passed(result, functions)
    for function in functions:
        rewriter.rewrite(function)
    drop_import(result, MICROSOFT)
    return result


def training_nodes(model: ModelProto) -> list[NodeProto]:
    """The nodes that `make_portable` rewrites, wherever they are in a model."""
    own = _own_functions(model)
    return [node for node in _nodes(all_bodies(model)) if _is_training(own, node)]


def _own_functions(model: ModelProto) -> frozenset[Name]:
    """The model's own functions, some of which may have the name of an operator."""
    return frozenset((function.domain, function.name, function.overload) for function in model.functions)


def _is_training(own: Set[Name], node: NodeProto) -> bool:
    """Whether a node is one of the two, and no function of the model's own under their name."""
    if node.domain != MICROSOFT or node.op_type not in ("SplitTraining", "ConcatTraining"):
        return False
    return _called(node) not in own


def _called(node: NodeProto) -> Name:
    return node.domain, node.op_type, node.overload


class _Rewriter:
    """Replaces the nodes of graphs and functions of one model, in place."""

    def __init__(self, model: ModelProto) -> None:
        self._own = _own_functions(model)
        self._fresh = FreshNames(model)

    def rewrite(self, body: Body, outer: ChainMap[str, int] | None = None) -> None:
        # A graph inside another sees the names of that one; copied into each, they would be too many.
        lengths: ChainMap[str, int] = ChainMap(lengths_in(body), *(outer.maps if outer else ()))
        nodes: list[NodeProto] = []
        changed = False
        for node in body.node:
            is_training = _is_training(self._own, node)
            if is_training:
                nodes += self._standard_nodes(node, lengths)
                changed = True
            else:
                for graph in subgraphs(node):
                    self.rewrite(graph, lengths)
                nodes.append(node)
            note_lengths(node, is_training, lengths)
        if changed:
            kept = [_copy(node) for node in nodes]
            del body.node[:]
            body.node.extend(kept)

    def _standard_nodes(self, node: NodeProto, lengths: Lengths) -> list[NodeProto]:
        if node.op_type == "ConcatTraining":
            return concat_nodes(node, self._fresh)
        return split_nodes(node, lengths, self._fresh)


def _check_axes_are_passed(model: ModelProto, functions: Iterable[FunctionProto]) -> None:
    """The new nodes read a function's attribute as a tensor, so that it must have a value in every call."""
    own = _own_functions(model)
    referred: dict[Name, set[str]] = {}
    for function in functions:
        required = {*function.attribute}
        referred.setdefault((function.domain, function.name, function.overload), set()).update(
            attribute.ref_attr_name
            for node in _nodes(bodies([function]))
            if _is_training(own, node)
            for attribute in node.attribute
            if attribute.ref_attr_name in required
        )
    for node in _nodes(all_bodies(model)):
        missing = referred.get(_called(node), set()) - {attribute.name for attribute in node.attribute}
        if missing:
            name = show(min(missing))
            message = f"node {show(node.name)} calls {show(node.op_type)} without the attribute {name}"
            reason = "SplitTraining takes it as its axis; give it, or a default in the function"
            raise ModelError(f"{message}; {reason}", node.op_type, min(missing))


def _nodes(every: Iterable[Body]) -> Iterable[NodeProto]:
    return (node for body in every for node in body.node)


def _copy(node: NodeProto) -> NodeProto:
    """A message of its own, because clearing a list leaves what it held to nobody."""
    copy = NodeProto()
    copy.CopyFrom(node)
    return copy
