"""Every rule of DML_GRAPH, each broken by a graph that is right but for it."""

import ast
import inspect
from pathlib import Path

import numpy as np
import pytest
from refused import f32

import anydml as dml
from anydml.graph import graph_rules, host_values

OWNED = dml.TensorFlags.OWNED_BY_DML


def copy(x=None, y=None):
    return dml.OperatorGraphNodeDesc(dml.ElementWiseIdentityOperatorDesc(x or f32(1, 1, 2, 3), y or f32(1, 1, 2, 3)))


def join(first, second, out):
    return dml.OperatorGraphNodeDesc(dml.JoinOperatorDesc([first, second], out, 3), "both")


TWO = (copy(), copy())


def graph(
    nodes=TWO,
    inputs=((0, 0, 0),),
    outputs=((1, 0, 0),),
    between=((0, 0, 1, 0),),
    counts=(1, 1),
):
    return dml.GraphDesc(
        *counts,
        [*nodes],
        [dml.InputGraphEdgeDesc(*edge) for edge in inputs],
        [dml.OutputGraphEdgeDesc(*edge) for edge in outputs],
        [dml.IntermediateGraphEdgeDesc(*edge) for edge in between],
    )


CONSTANT = dml.ConstantDataGraphNodeDesc(np.arange(6, dtype=np.float32))
SPLIT = dml.OperatorGraphNodeDesc(dml.SplitOperatorDesc(f32(1, 1, 2, 3), [f32(1, 1, 2, 1), f32(1, 1, 2, 2)], 3))
TWO_SIZES = dml.TensorDesc("INT64", [2])
BY_SIZES = dml.OperatorGraphNodeDesc(dml.SplitTrainingOperatorDesc(f32(3), TWO_SIZES, [f32(1), f32(2)]))
LENGTHS, OTHER_LENGTHS = (dml.ConstantDataGraphNodeDesc(np.array(sizes, np.int64)) for sizes in ([1, 2], [2, 1]))
LENGTHS_COPY = copy(TWO_SIZES, TWO_SIZES)
JOINED_ALONE = dml.OperatorGraphNodeDesc(dml.ConcatTrainingOperatorDesc([f32(1), f32(2)], f32(3), None))
SPLIT_EDGES = ((0, 0, 0),), ((0, 0, 0), (0, 1, 1))
OWNED_COPY = copy(dml.TensorDesc("FLOAT32", [1, 1, 2, 3], None, OWNED))
WRONG = dml.OperatorGraphNodeDesc(dml.ElementWiseIdentityOperatorDesc(f32(2), f32(3)), "crop")

BROKEN = {
    "there are no graphs": (graph(), "2_0", "Type", "there are no graphs at DML_FEATURE_LEVEL_2_0", "2_1"),
    "no nodes": (graph((), (), (), (), (0, 0)), "latest", "Nodes", "has no nodes", None),
    "a negative count": (graph(counts=(-1, 1)), "latest", "InputCount", "InputCount is -1", None),
    "a count that is not a UINT": (graph(counts=(1, 2**32)), "latest", "OutputCount", "is 4294967296", None),
    "an operator's rule": (
        graph((WRONG, copy())),
        "latest",
        "Nodes[0].OutputTensor.Sizes",
        r'Nodes\[0\] \("crop"\): DML_ELEMENT_WISE_IDENTITY: OutputTensor.Sizes is \[3\]',
        None,
    ),
    "an operator's level": (
        graph((copy(f32(6), f32(6)), copy(f32(6), f32(6)))),
        "2_1",
        "Nodes[0].InputTensor.Sizes",
        "supports 4 to 5; it needs DML_FEATURE_LEVEL_3_0",
        "3_0",
    ),
    "sizes that are not known": (
        graph((BY_SIZES,), ((0, 0, 0), (1, 0, 1)), ((0, 0, 0), (0, 1, 1)), (), (2, 2)),
        "latest",
        "Nodes[0].SplitTensor",
        "SplitTensor of SplitTraining is read on the host",
        None,
    ),
    "sizes that were moved": (
        graph((BY_SIZES, LENGTHS, LENGTHS_COPY), *SPLIT_EDGES, ((1, 0, 2, 0), (2, 0, 0, 1)), (1, 2)),
        "latest",
        "Nodes[0].SplitTensor",
        "feed it from a constant node or from ConcatTraining",
        None,
    ),
    "sizes that do not agree": (
        graph((BY_SIZES, OTHER_LENGTHS), *SPLIT_EDGES, ((1, 0, 0, 1),), (1, 2)),
        "latest",
        "Nodes[0]",
        r"SplitTensor holds \[2, 1\], but OutputTensors have sizes \[1, 2\] along Axis 0",
        None,
    ),
    "a constant's level": (
        graph((CONSTANT, copy()), (), counts=(0, 1)),
        "6_1",
        "Nodes[0]",
        r"Nodes\[0\] is a constant, of which there are none at DML_FEATURE_LEVEL_6_1",
        "6_2",
    ),
    "a constant without data": (
        graph((dml.ConstantDataGraphNodeDesc(b""), copy()), (), counts=(0, 1)),
        "latest",
        "Nodes[0].DataSize",
        "DataSize is 0",
        None,
    ),
    "no such graph input": (graph(inputs=((1, 0, 0),)), "latest", "InputEdges[0].GraphInputIndex", "graph has 1", None),
    "no such node": (graph(inputs=((0, 2, 0),)), "latest", "InputEdges[0].ToNodeIndex", "graph has 2 nodes", None),
    "no such node input": (
        graph(inputs=((0, 0, 1),)),
        "latest",
        "InputEdges[0].ToNodeInputIndex",
        "is 1, but .* has 1 input",
        None,
    ),
    "no such graph output": (
        graph(outputs=((1, 0, -1),)),
        "latest",
        "OutputEdges[0].GraphOutputIndex",
        "is -1, but the graph has 1 output",
        None,
    ),
    "no such node output": (
        graph(outputs=((1, 1, 0),)),
        "latest",
        "OutputEdges[0].FromNodeOutputIndex",
        "has 1 output",
        None,
    ),
    "an optional output that is left out": (
        graph((JOINED_ALONE,), ((0, 0, 0), (1, 0, 1)), ((0, 0, 0), (0, 1, 1)), (), (2, 2)),
        "latest",
        "OutputEdges[1].FromNodeOutputIndex",
        "has 1 output:",
        None,
    ),
    "an edge between from no node": (
        graph(between=((5, 0, 1, 0),)),
        "latest",
        "IntermediateEdges[0].FromNodeIndex",
        "graph has 2 nodes",
        None,
    ),
    "an edge into a constant": (
        graph((CONSTANT, copy()), ((0, 0, 0),)),
        "latest",
        "InputEdges[0].ToNodeIndex",
        "leads to .* a constant",
        None,
    ),
    "a second output of a constant": (
        graph((CONSTANT, copy()), (), between=((0, 1, 1, 0),), counts=(0, 1)),
        "latest",
        "IntermediateEdges[0].FromNodeOutputIndex",
        "is 1, but .* is a constant",
        None,
    ),
    "a constant as an output": (
        graph((CONSTANT,), (), ((0, 0, 0),), (), (0, 1)),
        "latest",
        "OutputEdges[0].FromNodeIndex",
        "a constant, to an output of the graph",
        None,
    ),
    "an input without an edge": (
        graph(inputs=(), counts=(0, 1)),
        "latest",
        "Nodes[0].InputTensor",
        r"Nodes\[0\]: InputTensor: no edge leads to it",
        None,
    ),
    "an input with two edges": (
        graph(inputs=((0, 0, 0), (0, 1, 0))),
        "latest",
        "Nodes[1].InputTensor",
        r"InputEdges\[1\] and IntermediateEdges\[0\] lead to it",
        None,
    ),
    "an output without an edge": (
        graph((SPLIT,), between=(), outputs=((0, 0, 0),)),
        "latest",
        "Nodes[0].OutputTensors[1]",
        "no edge comes from it",
        None,
    ),
    "a constant without an edge": (
        graph((copy(), copy(), CONSTANT)),
        "latest",
        "Nodes[2].Data",
        "no edge comes from it",
        None,
    ),
    "an unused graph input": (graph(counts=(2, 1)), "latest", "Inputs[1]", r"no edge comes from Inputs\[1\]", None),
    "a graph output without an edge": (graph(counts=(1, 2)), "latest", "Outputs[1]", "no edge leads to it", None),
    "a graph output with two edges": (
        graph(outputs=((0, 0, 0), (1, 0, 0))),
        "latest",
        "Outputs[0]",
        r"OutputEdges\[0\] and OutputEdges\[1\] lead to it",
        None,
    ),
    "a circle": (
        graph(
            (copy(), copy(), join(f32(1, 1, 2, 3), f32(1, 1, 2, 3), f32(1, 1, 2, 6)), copy()),
            ((0, 0, 0),),
            ((3, 0, 0), (0, 0, 1)),
            ((2, 0, 1, 0), (1, 0, 2, 0), (0, 0, 2, 1), (2, 0, 3, 0)),
            (1, 2),
        ),
        "latest",
        "IntermediateEdges",
        r'form a cycle: Nodes\[1\] → Nodes\[2\] \("both"\) → Nodes\[1\]',
        None,
    ),
    "a node before itself": (
        graph(inputs=(), between=((0, 0, 0, 0), (0, 0, 1, 0)), counts=(0, 1)),
        "latest",
        "IntermediateEdges",
        r"form a cycle: Nodes\[0\] → Nodes\[0\]",
        None,
    ),
    "sizes of an edge's ends": (
        graph((copy(), copy(f32(1, 1, 2, 2), f32(1, 1, 2, 2)))),
        "latest",
        "IntermediateEdges[0]",
        "is 24, but .* is 16",
        None,
    ),
    "the size of a constant": (
        graph((dml.ConstantDataGraphNodeDesc(bytes(23)), copy()), (), counts=(0, 1)),
        "latest",
        "IntermediateEdges[0]",
        "DataSize is 23, but .*TotalTensorSizeInBytes is 24",
        None,
    ),
    "sizes of what one graph input feeds": (
        graph(
            (copy(), copy(f32(1, 1, 1, 7), f32(1, 1, 1, 7))), ((0, 0, 0), (0, 1, 0)), ((0, 0, 0), (1, 0, 1)), (), (1, 2)
        ),
        "latest",
        "InputEdges[1]",
        "is 24, but .* is 28",
        None,
    ),
    "OWNED_BY_DML inside": (
        graph((copy(), OWNED_COPY)),
        "latest",
        "IntermediateEdges[0].ToNodeInputIndex",
        r"leads to Nodes\[1\].InputTensor, which is OWNED_BY_DML",
        None,
    ),
    "a constant that is OWNED_BY_DML": (
        graph((CONSTANT, OWNED_COPY), (), counts=(0, 1)),
        "latest",
        "IntermediateEdges[0].ToNodeInputIndex",
        "which is OWNED_BY_DML",
        None,
    ),
    "OWNED_BY_DML in part": (
        graph((copy(), OWNED_COPY), ((0, 0, 0), (0, 1, 0)), ((0, 0, 0), (1, 0, 1)), (), (1, 2)),
        "latest",
        "InputEdges[1].ToNodeInputIndex",
        "of which one is OWNED_BY_DML and one is not",
        None,
    ),
}


def test_the_graph_that_is_broken_is_right():
    assert list(graph().problems()) == []
    assert list(graph().problems("2_1")) == []
    assert list(graph((CONSTANT, copy()), (), counts=(0, 1)).problems("6_2")) == []


@pytest.mark.parametrize("name", BROKEN)
def test_broken_rule(name):
    desc, level, field, message, needs = BROKEN[name]
    problem = next(iter(desc.problems(level)))
    assert problem.operator == "DML_GRAPH"
    assert problem.field == field
    assert problem.rule
    assert problem.needs == (needs and dml.FeatureLevel.parse(needs))
    with pytest.raises(dml.DescError, match=message) as raised:
        dml.Device("numpy", level).compile_graph(desc)
    assert raised.value.field == field
    if needs is None:
        assert field in [each.field for each in desc.problems()]
    else:
        assert list(desc.problems(needs)) == []


@pytest.mark.parametrize("module", [graph_rules, host_values])
def test_no_rule_is_left_unbroken(module, monkeypatch):
    """Wherever a problem is made, one of the graphs above makes it."""
    broken = set()

    def seen(make):
        def made(*arguments):
            broken.add(inspect.currentframe().f_back.f_lineno)
            return make(*arguments)

        return made

    names = [name for name in ("Problem", "_problem") if hasattr(module, name)]
    tree = ast.parse(Path(module.__file__).read_text(encoding="utf-8"))
    places = {
        node.lineno
        for function in ast.walk(tree)
        if isinstance(function, ast.FunctionDef) and function.name != "_problem"
        for node in ast.walk(function)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in names
    }
    for name in names:
        monkeypatch.setattr(module, name, seen(getattr(module, name)))
    for desc, level, *_ in BROKEN.values():
        assert [*desc.problems(level)]
    assert places
    assert places <= broken


@pytest.mark.parametrize(
    "make, message",
    [
        (lambda: dml.OperatorGraphNodeDesc("SPLIT"), "Operator is 'SPLIT', but it must be an operator's desc"),
        (lambda: dml.OperatorGraphNodeDesc(graph()), "must be an operator's desc"),
        (lambda: dml.OperatorGraphNodeDesc(copy().operator, 3), "Name is 3, but it must be a string"),
        (lambda: dml.ConstantDataGraphNodeDesc(7), "Data is 7, but it must be a buffer"),
        (lambda: dml.InputGraphEdgeDesc("0", 0, 0), "GraphInputIndex is '0', but it must be an integer"),
        (lambda: dml.GraphDesc(0, 0, copy(), [], []), "Nodes is .*, but it must be a list"),
        (lambda: dml.GraphDesc(0, 0, [3], [], []), r"Nodes\[0\] is 3"),
        (lambda: dml.GraphDesc(0, 0, [], [dml.OutputGraphEdgeDesc(0, 0, 0)], []), r"InputEdges\[0\] is Output"),
        (lambda: dml.GraphDesc(0.5, 0, [], [], []), "InputCount is 0.5"),
    ],
)
def test_arguments_of_another_type(make, message):
    with pytest.raises(TypeError, match=message) as raised:
        make()
    assert isinstance(raised.value, dml.DescError)


def test_what_is_compiled_by_which():
    with pytest.raises(TypeError, match="compile_graph takes a GraphDesc"):
        dml.Device("numpy").compile_operator(graph())
    with pytest.raises(TypeError, match="compile_graph takes a GraphDesc, not"):
        dml.Device("numpy").compile_graph(copy().operator)
    with pytest.raises(ValueError, match="16"):
        dml.Device("numpy").compile_graph(graph(), 16)
