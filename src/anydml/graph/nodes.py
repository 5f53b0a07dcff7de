"""One node of a graph: its outputs as values composed of its inputs, or as moves into memory of their own."""

from __future__ import annotations

import math
from collections.abc import Sequence

from anydml.graph.composer import GraphComposer
from anydml.graph.reinterpret import refine
from anydml.moves.accesses import single_access
from anydml.moves.constant import Constant
from anydml.moves.move import Access
from anydml.moves.move_numbers import renumber_operands
from anydml.moves.pieces import Factor, NotComposableError, Piece, on_strides
from anydml.moves.sizing import Sizes
from anydml.moves.value import MAX_PIECES, Value
from anydml.moves.value_maker import ValueMaker, ValueView
from anydml.operators.base import OperatorDesc
from anydml.tensor import Layout


class NodeMaker(ValueMaker):
    """Makes a node's outputs. Values have one axis more than their tensors, for the parts of an element.

    Args:
        composer: the graph's composer.
        label: the node's name in explanations.
        element_size: bytes per element of the outputs.
    """

    def __init__(self, composer: GraphComposer, label: str, element_size: int) -> None:
        super().__init__(composer, element_size, lambda sizes: None, "it is moved where indices say")
        self.parts = 1
        self._graph, self._label, self._constants = composer, label, 0

    def value_of(self, x: ValueView) -> Value:
        """Return a view's value, whose name the composer knows if it is stored."""
        self._graph.reading = x.name
        return super().value_of(x)

    def index_of(self, indices: ValueView) -> Value:
        """Return the value of indices; if they are divided into parts, the parts of each index are made contiguous."""
        value = indices.value
        if not indices.parts:
            return value
        count = value.sizes[-1]
        if count > 1:
            access = single_access(value)
            if access is None or access.strides[-1] != value.element_size:
                value = self._graph.store(value, f"{indices.name} is looked up, and does not lie in one place")
                access = single_access(value)
            if access is None:
                raise AssertionError("a stored value is one access")
            row_access: Access = on_strides(access, lambda strides: (0, strides[:-1]))
            factors = tuple([Factor(axis, size, 1) for axis, size in enumerate(indices.sizes)])
            piece = Piece((0,) * len(factors), factors, row_access)
            return Value(indices.sizes, value.element_size * count, (piece,))
        return value.reshape(value.sizes[:-1])

    def storing_reason(self, x: ValueView, error: NotComposableError) -> str:
        """Return the reason why an input is stored."""
        return f"{x.name} is read: {error}"

    def constant(self, array: Constant) -> ValueView:
        """Add a constant operand, which is not computed yet."""
        self._constants += 1
        operand = self._graph.constant_bytes(f"{self._label}: constant {self._constants - 1}", array)
        value = Value.of_operand(
            operand, (*array.shape, 1), (*array.strides, array.dtype.itemsize), array.dtype.itemsize
        )
        return ValueView(value, array.dtype.name, parts=1)

    def with_one_element_size(self, values: list[Value]) -> list[Value]:
        """Divide the elements of values so that all have the smallest size among them."""
        size = min([value.element_size for value in values], default=1)
        return [refine(value, size) for value in values]

    def composed(self, output: int, name: str) -> Value:
        """Return an output as a value.

        Raises:
            NotComposableError: the value must be stored.
        """
        result = self._results[output]
        if result.is_overwritten:
            if any(to is not None and to.access.lookups for to, _ in result.writes):
                raise NotComposableError(f"{name} is written where indices say")
            raise NotComposableError(f"{name} is written in part more than once")
        value = self._value_so_far(result)
        if len(value.pieces) > MAX_PIECES:
            raise NotComposableError(f"{name} would be {len(value.pieces)} pieces")
        return value

    def write(self, output: int, operand: int, strides: Sizes) -> None:
        """Write an output to memory."""
        result = self._results[output]
        value = result.writes[0][1] if result.is_overwritten else self._value_so_far(result)
        self._graph.move(value.moves(operand, 0, (*strides, value.element_size)))
        if result.is_overwritten:
            self.rewrite_parts(result, operand, strides)


class Node:
    """An operator whose inputs are values.

    Args:
        composer: the graph's composer.
        label: the node's name in explanations.
        desc: the operator.
        inputs: values of the node's input tensors, each with one axis more than the tensor (see `reinterpret`).
    """

    def __init__(self, composer: GraphComposer, label: str, desc: OperatorDesc, inputs: Sequence[Value]) -> None:
        self._composer = composer
        self._tensors = [tensor for _, tensor in (*desc.inputs, *desc.outputs)]
        self._names = [f"{label}.{name}" for name, _ in (*desc.inputs, *desc.outputs)]
        self._values: dict[int, Value] = dict(enumerate(inputs))
        self._first = len(inputs)
        self._make: NodeMaker | None = None
        if desc.scratch:
            self._run_stored(desc, label)
            return
        self._make = NodeMaker(composer, label, self._tensors[-1].data_type.itemsize)
        desc.apply(
            self._make,
            *[
                ValueView(value, tensor.data_type.name.lower(), name, parts=1)
                for value, tensor, name in zip(inputs, self._tensors, self._names, strict=False)
            ],
        )

    def value(self, output: int) -> Value:
        """Return an output as a value.

        Raises:
            NotComposableError: the value must be stored, because its moves cannot be composed.
        """
        operand = self._first + output
        return self._values[operand] if self._make is None else self._make.composed(output, self._names[operand])

    def store(self, output: int, operand: int, strides: Sizes) -> Value:
        """Move an output to memory.

        Args:
            output: number of the output.
            operand: operand number of the memory.
            strides: strides in bytes.

        Returns:
            The stored value.
        """
        tensor = self._tensors[self._first + output]
        size = tensor.data_type.itemsize
        if self._make is None:
            raise AssertionError("what an operator with scratch makes is a value")
        self._make.write(output, operand, strides)
        return Value.of_operand(operand, (*tensor.sizes, 1), (*strides, size), size)

    def _run_stored(self, desc: OperatorDesc, label: str) -> None:
        """Run an operator that needs scratch on stored inputs and outputs. Elements that it does not write are 0."""
        reason = f"{label} is {desc.OPERATOR}, which works through scratch of its own"
        composer, layouts, operand_numbers = self._composer, list[Layout](), list[int]()
        for k, tensor in enumerate(self._tensors):
            size, sizes = tensor.data_type.itemsize, (*tensor.sizes, 1)
            value = self._values.get(k)
            if value is None:
                packed = Layout.packed(tensor.sizes, size)
                operand = composer.scratch_bytes(math.prod(sizes) * size, reason)
                composer.move(Value.of_fill((math.prod(sizes) * size,), b"\0").moves(operand, 0, (1,)))
                value = Value.of_operand(operand, sizes, (*packed.strides, size), size)
                self._values[k] = value
            access = single_access(value)
            if access is None or access.lookups or access.offset or value.sizes[-1] > 1:
                value = composer.store(value, f"{self._names[k]} is read: {reason}")
                access = single_access(value)
            if access is None:
                raise AssertionError("a stored value is one access")
            operand_numbers.append(access.operand)
            layouts.append(Layout(tensor.sizes, access.strides[:-1], size))
        moves, constants = desc.lower(layouts)
        operands = [composer.constant_bytes(f"{label}: constant {k}", array) for k, array in enumerate(constants)]
        scratch = [composer.scratch_bytes(size, f"{label}: {purpose}") for size, purpose in desc.scratch]
        places = dict(enumerate((*operand_numbers, *operands, *scratch)))
        composer.move([renumber_operands(move, places) for move in moves])
