"""DML_GRAPH_DESC: a graph with its rules and its program."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from anydml.feature_level import FeatureLevel
from anydml.graph.structs import Graph
from anydml.moves import Move, Program
from anydml.operators.problem import Problem
from anydml.tensor import Layout


class GraphDesc(Graph):
    """DML_GRAPH_DESC: operators connected by edges, compiled to one program. Feature level 2_1.

    Args:
        input_count: number of inputs, which are bound in the order of GraphInputIndex.
        output_count: number of outputs, which are bound in the order of GraphOutputIndex.
        nodes: `OperatorGraphNodeDesc` and `ConstantDataGraphNodeDesc`, in any order.
        input_edges: `InputGraphEdgeDesc`.
        output_edges: `OutputGraphEdgeDesc`.
        intermediate_edges: `IntermediateGraphEdgeDesc`.

    Raises:
        DescTypeError: an argument has the wrong type. All other rules are checked by `problems` and `check`.

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
        """Yield problems of the nodes; if there are none, of the edges; if there are none, of the connected tensors."""
        from anydml.graph.graph_rules import graph_problems

        return graph_problems(self, level)

    def program(self, layouts: Sequence[Layout] | None = None) -> Program:
        """Lower all nodes to one program, with scratch only for values that cannot be composed.

        Args:
            layouts: actual layouts of the graph's inputs and outputs; those of their tensors by default.
        """
        from anydml.graph.graph_lowering import lower_graph

        return lower_graph(self, tuple(layouts or self.layouts()))

    def moves(self, layouts: Sequence[Layout] | None = None) -> tuple[Move, ...]:
        """Return the moves of `program`, in their order."""
        return self.program(layouts).moves
