"""The order in which a model's nodes are read."""

from __future__ import annotations

from onnx import GraphProto, NodeProto

from anydml.onnx.walk import bodies, subgraphs


def order_by_need(graph: GraphProto) -> tuple[list[NodeProto], int]:
    """Return the nodes in the order in which the outputs need them, and the number of those that are needed.

    The others follow. The maker of a node's first input comes before the makers of its other inputs: an image is then
    known before sizes are computed from it.
    """
    makers = {name: k for k, node in enumerate(graph.node) for name in node.output if name}
    order, visited = dict[int, None](), set[int]()
    stack = [(makers[output.name], False) for output in reversed(graph.output) if output.name in makers]
    while stack:
        k, is_ready = stack.pop()
        if is_ready:
            order[k] = None
        elif k not in visited:
            visited.add(k)
            stack.append((k, True))
            stack += [(makers[name], False) for name in reversed(_names_read(graph.node[k])) if name in makers]
    unneeded = (node for k, node in enumerate(graph.node) if k not in order)
    return [*(graph.node[k] for k in order), *unneeded], len(order)


def _names_read(node: NodeProto) -> list[str]:
    """Return the names that a node reads, also in its subgraphs."""
    graphs = [*subgraphs(node)]
    if not graphs:
        return [*node.input]
    inner = [body for body in bodies(graphs) if isinstance(body, GraphProto)]
    captured = [name for body in inner for reader in body.node for name in reader.input]
    return [*node.input, *captured, *(output.name for body in inner for output in body.output)]
