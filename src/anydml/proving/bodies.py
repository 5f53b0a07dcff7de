"""Shapes in the bodies of Loop and Scan that are the same in every round."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from anydml.proving.operator_calls import UNKNOWN, OperatorCall, Type
from anydml.proving.sizes import DERIVED_NAME, Sizes, axis_of, lower_bound, names_of
from anydml.proving.terms import Term

Results = Sequence[Term | None]


class Rounds:
    """The inputs and results of a round of a Loop or Scan.

    Args:
        call: the node.
    """

    def __init__(self, call: OperatorCall) -> None:
        self._call = call
        is_loop = call.operator == "Loop"
        input_count = len(call.proto.input)
        self._count = input_count - 2 if is_loop else input_count - int(call.get("num_scan_inputs"))
        self._first, self._made = (2, 1) if is_loop else (0, 0)

    def shapes(self) -> dict[int, Sizes]:
        """Return the known shapes of a body's inputs in the first round, by the inputs' numbers."""
        call = self._call
        states = {self._first + k: call.term(self._first + k) for k in range(self._count)}
        shapes = {k: term.shape for k, term in states.items() if term is not None and term.shape is not None}
        if call.operator == "Loop":
            return {0: (), **shapes}
        if call.version < _SCAN_WITHOUT_BATCH:
            return {}
        for k in range(self._count, len(call.proto.input)):
            term, axis = call.term(k), self._scanned_axis(k)
            if term is not None and term.shape is not None and axis is not None:
                shapes[k] = (*term.shape[:axis], *term.shape[axis + 1 :])
        return shapes

    def _scanned_axis(self, k: int) -> int | None:
        """Return the axis of an input along which a Scan runs; None if there is none."""
        term, axes = self._call.term(k), self._call.get("scan_input_axes", ())
        if term is None or term.shape is None or len(axes) not in (0, len(self._call.proto.input) - self._count):
            return None
        return axis_of(axes[k - self._count] if axes else 0, len(term.shape))

    def dtypes(self) -> dict[int, np.dtype[Any]]:
        """Return the known dtypes of a body's inputs, which the body need not declare, by the inputs' numbers."""
        is_loop = self._call.operator == "Loop"
        first = self._first if is_loop else 0
        terms = ((k, self._call.term(k)) for k in range(first, len(self._call.proto.input)))
        known = {k: term.dtype for k, term in terms if term is not None and term.dtype is not None}
        return {0: np.dtype(np.int64), 1: np.dtype(np.bool_), **known} if is_loop else known

    def holds(self, k: int, shape: Sizes, results: tuple[Results, object]) -> bool:
        """Whether a body's input has the same shape in all rounds as in the first."""
        state = k - self._first
        if not 0 <= state < self._count:
            return True
        result = self._result(results[0], state)
        return result is not None and result.shape == shape

    def _result(self, results: Results, k: int) -> Term | None:
        """Return the result of a body for output k of the node; None if the body has too few, which runtimes refuse."""
        return results[self._made + k] if self._made + k < len(results) else None

    def types(self, results: Results, shapes: Mapping[int, Sizes]) -> list[Type]:
        """Return the types of the node's outputs."""
        types = list[Type]()
        for k in range(len(self._call.proto.output)):
            term = self._result(results, k)
            dtype = None if term is None else term.dtype
            types.append((dtype, shapes.get(self._first + k) if k < self._count else self._joined(k, term)))
        return types

    def _joined(self, k: int, term: Term | None) -> Sizes | None:
        """Return the shape of the output that joins a result of all rounds of a Scan; None if it is not known.

        Args:
            k: the output's number.
            term: the result of a round.
        """
        call = self._call
        axis = self._scanned_axis(self._count) if call.operator == "Scan" else None
        scanned = call.term(self._count)
        if call.version < _SCAN_WITHOUT_BATCH or axis is None or scanned is None or term is None or term.shape is None:
            return None
        # Names of sizes that depend on elements mean something else in each round, and no round makes no shape.
        is_known = not any(name.startswith(DERIVED_NAME) for size in term.shape for name in names_of(size))
        axes = call.get("scan_output_axes", ())
        at = axis_of(axes[k - self._count] if k - self._count < len(axes) else 0, len(term.shape) + 1)
        if not is_known or at is None or (lower_bound(scanned.sizes[axis]) or 0) < 1:
            return None
        return (*term.shape[:at], scanned.sizes[axis], *term.shape[at:])


_SCAN_WITHOUT_BATCH = 9
"""The first opset in which Scan has no batch axis."""


def types_of(call: OperatorCall, results: Sequence[Results], shapes: Mapping[int, Sizes]) -> list[Type]:
    """Return the types of the outputs of a node with bodies, or `UNKNOWN`.

    Args:
        call: the node.
        results: the results of each body.
        shapes: shapes of a body's inputs, by number.
    """
    if call.domain or call.operator not in ("If", "Loop", "Scan"):
        return [UNKNOWN] * len(call.proto.output)
    if call.operator != "If":
        return Rounds(call).types(results[0], shapes)
    types_of_results = []
    for terms in zip(*results, strict=True):
        types = {(None, None) if term is None else (term.dtype, term.shape) for term in terms}
        types_of_results.append(types.pop() if len(types) == 1 else UNKNOWN)
    return types_of_results
