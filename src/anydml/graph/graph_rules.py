"""The rules of graphs: DML_GRAPH_DESC's page, the feature-level history (constant nodes), and DirectMLX's checks."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

from anydml.feature_level import FeatureLevel
from anydml.graph.host_values import host_value_problems
from anydml.graph.structs import (
    NAME,
    ConstantDataGraphNodeDesc,
    Graph,
    NodeTensors,
    OperatorGraphNodeDesc,
    node_label,
    node_tensors,
)
from anydml.operators.problem import Problem
from anydml.tensor import UINT_MAX, TensorDesc, TensorFlags
from anydml.text import count_noun

GRAPHS = FeatureLevel.LEVEL_2_1
"""Lowest feature level of compiled graphs."""

CONSTANTS = FeatureLevel.LEVEL_6_2
"""Lowest feature level of constant nodes."""


def graph_problems(desc: Graph, level: FeatureLevel) -> Iterator[Problem]:
    """Yield the rules that a graph breaks: see `GraphDesc.problems`."""
    if level < GRAPHS:
        rule = f"graphs were introduced in {GRAPHS}"
        yield Problem(NAME, "Type", f"there are no graphs at {level}", rule, GRAPHS)
    broken = [*_node_problems(desc, level)]
    yield from broken
    if any(problem.needs is None for problem in broken):
        return
    tensors = node_tensors(desc)
    ends = [*_range_problems(desc, tensors)]
    yield from ends
    if not ends:
        joins = [*_edge_problems(desc, tensors), *_cycle_problems(desc)]
        yield from joins
        if not joins:
            ends_differ = [*_tensor_problems(desc, tensors)]
            yield from ends_differ or host_value_problems(desc, tensors)


def order(desc: Graph) -> tuple[list[int], list[int]]:
    """Sort nodes topologically. Return the numbers of the sorted nodes, and of the nodes on or behind cycles."""
    waits, follows = [0] * len(desc.nodes), defaultdict[int, list[int]](list)
    for edge in desc.intermediate_edges:
        waits[edge.to_node_index] += 1
        follows[edge.from_node_index].append(edge.to_node_index)
    ready = [node_number for node_number, count in enumerate(waits) if not count]
    for node_number in ready:
        for later in follows[node_number]:
            waits[later] -= 1
            if not waits[later]:
                ready.append(later)
    return ready, [node_number for node_number, count in enumerate(waits) if count]


def _node_problems(desc: Graph, level: FeatureLevel) -> Iterator[Problem]:
    if not desc.nodes:
        yield _problem("Nodes", "Nodes has no nodes", "there must be at least one node")
    for field, count in (("InputCount", desc.input_count), ("OutputCount", desc.output_count)):
        if not 0 <= count <= UINT_MAX:
            yield _problem(field, f"{field} is {count}", "it must be 0 to 4294967295 (UINT)")
    for node_number, node in enumerate(desc.nodes):
        label, field = node_label(desc, node_number), f"Nodes[{node_number}]"
        if isinstance(node, ConstantDataGraphNodeDesc):
            if not node.data:
                yield _problem(f"{field}.DataSize", f"{label}: DataSize is 0", "a constant must have at least one byte")
            if level < CONSTANTS:
                rule = f"constant nodes were introduced in {CONSTANTS}"
                yield Problem(
                    NAME, field, f"{label} is a constant, of which there are none at {level}", rule, CONSTANTS
                )
            continue
        for problem in node.operator.problems(level):
            message = f"{label}: {problem.operator}: {problem.message}"
            yield Problem(
                NAME, f"{field}.{problem.field}", message, problem.rule, problem.needs, problem.comes_from_level
            )


def _range_problems(desc: Graph, tensors: Sequence[NodeTensors]) -> Iterator[Problem]:
    """Yield edges whose ends do not exist."""
    for field, edge in _edges(desc):
        for name, edge_number in _edge_numbers(edge):
            count = {"GraphInputIndex": desc.input_count, "GraphOutputIndex": desc.output_count}.get(name)
            if name.endswith("NodeIndex"):
                count = len(desc.nodes)
            if count is not None and not 0 <= edge_number < count:
                noun = "node" if name.endswith("NodeIndex") else name[5:-5].lower()
                message = f"{field}.{name} is {edge_number}, but the graph has {count_noun(count, noun)}"
                yield _problem(f"{field}.{name}", message, f"{name} must be 0 to {count - 1}")
                break
        else:
            yield from _tensor_range_problems(desc, tensors, field, edge)


def _tensor_range_problems(desc: Graph, tensors: Sequence[NodeTensors], field: str, edge: object) -> Iterator[Problem]:
    for side, end in (("To", "Input"), ("From", "Output")):
        numbers = dict(_edge_numbers(edge))
        node_number, name = numbers.get(f"{side}NodeIndex"), f"{side}Node{end}Index"
        if node_number is None:
            continue
        node, label = desc.nodes[node_number], node_label(desc, node_number)
        index = numbers[name]
        if isinstance(node, OperatorGraphNodeDesc):
            count = len(tensors[node_number].inputs if end == "Input" else tensors[node_number].outputs)
            if not 0 <= index < count:
                total = f"{label} ({node.operator.OPERATOR}) has {count_noun(count, end.lower())}"
                rule = f"{name} must be 0 to {count - 1}: optional tensors that are left out are not counted"
                yield _problem(f"{field}.{name}", f"{field}.{name} is {index}, but {total}", rule)
        elif end == "Input":
            message = f"{field} leads to {label}, which is a constant"
            yield _problem(f"{field}.ToNodeIndex", message, "constant nodes must have no inputs")
        elif index:
            message = f"{field}.{name} is {index}, but {label} is a constant"
            yield _problem(f"{field}.{name}", message, "constant nodes must have one output, 0")
        elif "GraphOutputIndex" in numbers:
            message = f"{field} leads from {label}, which is a constant, to an output of the graph"
            rule = "constants must be joined by intermediate edges: put an ELEMENT_WISE_IDENTITY between"
            yield _problem(f"{field}.FromNodeIndex", message, rule)


def _edge_problems(desc: Graph, tensors: Sequence[NodeTensors]) -> Iterator[Problem]:
    """Yield inputs and outputs with no edge or too many."""
    ends = defaultdict[tuple[str | int, ...], list[str]](list)
    for field, edge in _edges(desc):
        number_of = dict(_edge_numbers(edge))
        for side, end in (("To", "Input"), ("From", "Output")):
            if f"{side}NodeIndex" in number_of:
                ends[end, number_of[f"{side}NodeIndex"], number_of[f"{side}Node{end}Index"]].append(field)
            if f"Graph{end}Index" in number_of:
                ends[end, number_of[f"Graph{end}Index"]].append(field)
    yield from _ends_of_nodes(desc, tensors, ends)
    for k in range(desc.input_count):
        if not ends["Input", k]:
            yield _problem(
                f"Inputs[{k}]", f"no edge comes from Inputs[{k}]", "each input of the graph must feed a node"
            )
    for k in range(desc.output_count):
        if problem := _not_one(ends["Output", k]):
            yield _problem(
                f"Outputs[{k}]", f"Outputs[{k}]: {problem}", "one edge must lead to each output of the graph"
            )


def _ends_of_nodes(
    desc: Graph, tensors: Sequence[NodeTensors], ends: Mapping[tuple[str | int, ...], Sequence[str]]
) -> Iterator[Problem]:
    for node_number, node in enumerate(desc.nodes):
        label, place = node_label(desc, node_number), f"Nodes[{node_number}]"
        is_constant = isinstance(node, ConstantDataGraphNodeDesc)
        inputs, outputs = ([], ["Data"]) if is_constant else ([n for n, _ in ends] for ends in tensors[node_number])
        for k, name in enumerate(inputs):
            if problem := _not_one(ends["Input", node_number, k]):
                rule = "one edge must lead to each input of a node"
                yield _problem(f"{place}.{name}", f"{label}: {name}: {problem}", rule)
        for k, name in enumerate(outputs):
            if not ends["Output", node_number, k]:
                rule = "each output of a node must have an edge: make it an output of the graph"
                yield _problem(f"{place}.{name}", f"{label}: {name}: no edge comes from it", rule)


def _not_one(edges: Sequence[str]) -> str | None:
    if len(edges) == 1:
        return None
    return f"{' and '.join(edges)} lead to it" if edges else "no edge leads to it"


def _cycle_problems(desc: Graph) -> Iterator[Problem]:
    _, unordered = order(desc)
    if not unordered:
        return
    unordered_nodes = {*unordered}
    # Every waiting node has a waiting predecessor, so following predecessors ends in a cycle.
    before = {
        edge.to_node_index: edge.from_node_index
        for edge in desc.intermediate_edges
        if edge.from_node_index in unordered_nodes
    }
    path = [unordered[0]]
    while before[path[-1]] not in path:
        path.append(before[path[-1]])
    cycle = path[path.index(before[path[-1]]) :]
    names = " → ".join(node_label(desc, node_number) for node_number in (cycle[0], *cycle[::-1]))
    yield _problem("IntermediateEdges", f"IntermediateEdges form a cycle: {names}", "a graph must have no cycles")


def _tensor_problems(desc: Graph, tensors: Sequence[NodeTensors]) -> Iterator[Problem]:
    """Yield mismatches between the tensors at both ends of an edge, or at all node inputs of one graph input."""
    for k, edge in enumerate(desc.intermediate_edges):
        field = f"IntermediateEdges[{k}]"
        target, (name, tensor) = (
            node_label(desc, edge.to_node_index),
            tensors[edge.to_node_index].inputs[edge.to_node_input_index],
        )
        node, label = desc.nodes[edge.from_node_index], node_label(desc, edge.from_node_index)
        if isinstance(node, ConstantDataGraphNodeDesc):
            source, size = f"{label}.DataSize", node.data_size
        else:
            output, produced = tensors[edge.from_node_index].outputs[edge.from_node_output_index]
            source, size = f"{label}.{output}.TotalTensorSizeInBytes", produced.size_in_bytes
        yield from _sizes_agree(field, source, size, f"{target}.{name}", tensor)
        if tensor.flags & TensorFlags.OWNED_BY_DML:
            message = f"{field} leads to {target}.{name}, which is OWNED_BY_DML"
            rule = "tensors that are OWNED_BY_DML must come from inputs of the graph"
            yield _problem(f"{field}.ToNodeInputIndex", message, rule)
    first: dict[int, tuple[str, TensorDesc]] = {}
    for k, input_edge in enumerate(desc.input_edges):
        field = f"InputEdges[{k}]"
        target, (name, tensor) = (
            node_label(desc, input_edge.to_node_index),
            tensors[input_edge.to_node_index].inputs[input_edge.to_node_input_index],
        )
        first_use, first_tensor = first.setdefault(input_edge.graph_input_index, (f"{target}.{name}", tensor))
        yield from _sizes_agree(
            field, f"{first_use}.TotalTensorSizeInBytes", first_tensor.size_in_bytes, f"{target}.{name}", tensor
        )
        if (tensor.flags ^ first_tensor.flags) & TensorFlags.OWNED_BY_DML:
            uses = f"{first_use} and {target}.{name}"
            message = f"{field}: Inputs[{input_edge.graph_input_index}] feeds {uses}, of which one is"
            rule = "node inputs that one input of the graph feeds must agree on OWNED_BY_DML"
            yield _problem(f"{field}.ToNodeInputIndex", f"{message} OWNED_BY_DML and one is not", rule)


def _sizes_agree(field: str, source: str, size: int, target: str, tensor: TensorDesc) -> Iterator[Problem]:
    if tensor.size_in_bytes != size:
        message = f"{field}: {source} is {size}, but {target}.TotalTensorSizeInBytes is {tensor.size_in_bytes}"
        yield _problem(field, message, "the tensors at both ends of an edge must have the same TotalTensorSizeInBytes")


def _edges(desc: Graph) -> Iterator[tuple[str, object]]:
    lists: Sequence[tuple[str, Sequence[object]]] = (
        ("InputEdges", desc.input_edges),
        ("OutputEdges", desc.output_edges),
        ("IntermediateEdges", desc.intermediate_edges),
    )
    for name, edges in lists:
        yield from ((f"{name}[{k}]", edge) for k, edge in enumerate(edges))


def _edge_numbers(edge: object) -> Iterator[tuple[str, int]]:
    """Yield an edge's numbers, by their names in DirectML."""
    fields: dict[str, object] = edge.__dataclass_fields__  # type: ignore[attr-defined]
    for field in fields:
        if field != "name":
            yield "".join(word.title() for word in field.split("_")), getattr(edge, field)


def _problem(field: str, message: str, rule: str) -> Problem:
    return Problem(NAME, field, message, rule)
