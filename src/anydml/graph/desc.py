"""DML_GRAPH_DESC: a graph with its rules and its program."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from anydml.feature_level import FeatureLevel
from anydml.graph.parts import Graph
from anydml.moves import Move, Program
from anydml.operators.problem import Problem
from anydml.tensor import Layout


class GraphDesc(Graph):
    """DML_GRAPH_DESC: operators whose outputs are inputs of others; compiled, one operator. Feature level 2_1.

    Args:
        input_count: inputs that are bound, in the order of GraphInputIndex.
        output_count: likewise.
        nodes: `OperatorGraphNodeDesc` and `ConstantDataGraphNodeDesc`, in any order.
        input_edges: `InputGraphEdgeDesc`.
        output_edges: `OutputGraphEdgeDesc`.
        intermediate_edges: `IntermediateGraphEdgeDesc`.

    Raises:
        DescTypeError: an argument is not of its type. Broken rules are found by `problems` and `check`.

    Examples:
        >>> T = dml.TensorDesc
        >>> flip = dml.Slice1OperatorDesc(T("INT8", [4]), T("INT8", [4]), [0], [4], [-1])
        >>> node = dml.OperatorGraphNodeDesc(flip, "flip")
        >>> ends = [dml.InputGraphEdgeDesc(0, 0, 0)], [dml.OutputGraphEdgeDesc(0, 0, 0)]
        >>> graph = dml.GraphDesc(1, 1, [node], *ends)
        >>> graph.problems()
        no problems
    """

    __slots__ = ()

    def _problems(self, level: FeatureLevel) -> Iterator[Problem]:
        """What is wrong with nodes by themselves; if there is nothing, with edges; then with what the edges join."""
        from anydml.graph.rules import graph_problems

        return graph_problems(self, level)

    def program(self, layouts: Sequence[Layout] | None = None) -> Program:
        """All nodes as one program, which needs scratch only for what has to be stored before it can be used.

        Args:
            layouts: where the elements of the graph's inputs and outputs really lie; by default as their tensors say.
        """
        from anydml.graph.lowering import lowered

        return lowered(self, tuple(layouts or self.layouts()))

    def moves(self, layouts: Sequence[Layout] | None = None) -> tuple[Move, ...]:
        """The program's moves, between its operands."""
        return self.program(layouts).moves
