"""One node of a graph: its outputs as values composed of its inputs, or as moves into memory of their own."""

from __future__ import annotations

import math
from collections.abc import Sequence

from anydml.graph.boxes import Sizes, align_to_box, boxed, contiguous_run, insert, single_access
from anydml.graph.composer import GraphComposer
from anydml.graph.coordinates import digits, in_bytes, symbolic_layout
from anydml.moves.move import Access, Fill, Lookup, Move
from anydml.moves.pieces import NotComposableError, on_strides
from anydml.moves.program import renumbered
from anydml.moves.value import Value
from anydml.operators.base import OperatorDesc
from anydml.tensor import Layout, TensorDesc


class Node:
    """An operator whose inputs are values.

    Args:
        composer: the graph's composer.
        label: the node's name in explanations.
        desc: the operator.
        inputs: values of its input tensors, each with one axis more than the tensor (see `reinterpret`).
    """

    def __init__(self, composer: GraphComposer, label: str, desc: OperatorDesc, inputs: Sequence[Value]) -> None:
        self._composer = composer
        self._tensors = [tensor for _, tensor in (*desc.inputs, *desc.outputs)]
        self._names = [f"{label}.{name}" for name, _ in (*desc.inputs, *desc.outputs)]
        self._values: dict[int, Value] = dict(enumerate(inputs))
        self._first = len(inputs)
        self._has_scratch = bool(desc.scratch)
        if self._has_scratch:
            self._run_stored(desc, label)
            return
        self._moves, constants = desc.lowered(tuple(map(symbolic_layout, self._tensors)))
        self._constants = {
            len(self._tensors) + k: composer.constant_bytes(f"{label}: constant {k}", array)
            for k, array in enumerate(constants)
        }

    def value(self, output: int) -> Value:
        """Return an output as a value.

        Raises:
            NotComposableError: it must be stored, because its moves cannot be composed.
        """
        number = self._first + output
        if self._has_scratch:
            return self._values[number]
        tensor, own = self._tensors[number], self._moves_into(number)
        if any(move.destination.lookups for move in own):
            raise NotComposableError(f"{self._names[number]} is written where indices say")
        lookups = [lookup for move in own for lookup in move.every_lookup()]
        count = sum(math.prod(move.sizes) for move in own)
        if count != math.prod(tensor.sizes) or any(lookup.outside == "skip" for lookup in lookups):
            raise NotComposableError(f"{self._names[number]} is written in part more than once")
        found = Value((*tensor.sizes, 1), tensor.data_type.itemsize, ())
        for move in own:
            # Some operators, such as padding, read their own output.
            self._values[number] = found
            found = insert(found, self._source(move), *self._place(move, tensor))
        return found

    def store(self, output: int, operand: int, strides: Sizes) -> Value:
        """Move an output to memory.

        Args:
            output: number of the output.
            operand: operand number of the memory.
            strides: strides in bytes.

        Returns:
            The stored value.
        """
        number = self._first + output
        tensor = self._tensors[number]
        size = tensor.data_type.itemsize
        stored = Value.stored(operand, (*tensor.sizes, 1), (*strides, size), size)
        self._values[number] = stored
        for move in self._moves_into(number):
            source, to = self._source(move), move.destination
            offset, steps = in_bytes(to.offset, strides), tuple(in_bytes(step, strides) for step in to.strides)
            if to.lookups:
                box = (*move.sizes, source.sizes[-1])
                found = single_access(source) or single_access(
                    self._composer.stored(source, "it is moved where indices say")
                )
                if found is None:
                    raise AssertionError("a stored value is one access")
                lookups = tuple(self._lookup(each, strides) for each in to.lookups)
                target = Access(operand, offset, (*steps, source.element_size), lookups)
                self._composer.move([Move(box, target, found, source.element_size)])
            else:
                self._composer.move(source.moves(operand, offset, (*steps, source.element_size)))
        return stored

    def _run_stored(self, desc: OperatorDesc, label: str) -> None:
        """Run an operator that needs scratch on stored inputs and outputs. Elements that it does not write are 0."""
        reason = f"{label} is {desc.OPERATOR}, which works through scratch of its own"
        composer, layouts, numbers = self._composer, list[Layout](), list[int]()
        for k, tensor in enumerate(self._tensors):
            size, sizes = tensor.data_type.itemsize, (*tensor.sizes, 1)
            value = self._values.get(k)
            if value is None:
                packed = Layout.packed(tensor.sizes, size)
                number = composer.scratch_bytes(math.prod(sizes) * size, reason)
                composer.move([Move((), Access(number, 0, ()), Fill(b"\0"), math.prod(sizes) * size)])
                value = Value.stored(number, sizes, (*packed.strides, size), size)
                self._values[k] = value
            found = single_access(value)
            if found is None or found.lookups or found.offset or value.sizes[-1] > 1:
                value = composer.stored(value, f"{self._names[k]} is read: {reason}")
                found = single_access(value)
            if found is None:
                raise AssertionError("a stored value is one access")
            numbers.append(found.operand)
            layouts.append(Layout(tensor.sizes, found.strides[:-1], size))
        moves, constants = desc.lowered(layouts)
        known = [composer.constant_bytes(f"{label}: constant {k}", array) for k, array in enumerate(constants)]
        own = [composer.scratch_bytes(size, f"{label}: {why}") for size, why in desc.scratch]
        places = dict(enumerate((*numbers, *known, *own)))
        composer.move([renumbered(move, places) for move in moves])

    def _moves_into(self, number: int) -> list[Move]:
        return [move for move in self._moves if move.destination.operand == number and 0 not in move.sizes]

    def _place(self, move: Move, tensor: TensorDesc) -> tuple[Sizes, list[Sizes]]:
        """Return a move's start in its output, and the steps of each dimension of its box along each axis."""
        rank = len(tensor.sizes)
        steps = [digits(stride, rank) for stride in move.destination.strides]
        for size, by in zip(move.sizes, steps, strict=True):
            if size > 1 and sum(map(bool, by)) != 1:
                raise NotComposableError("a dimension of its box steps along several axes")
        return digits(move.destination.offset, rank), steps

    def _source(self, move: Move) -> Value:
        """Return a move's source as a value over its box and one axis more."""
        source = move.source
        if isinstance(source, Fill):
            pattern = source.pattern * (move.element_size // len(source.pattern))
            return Value.filled((*move.sizes, 1), pattern)
        if source.operand in self._constants:
            return boxed((*move.sizes, 1), self._constant_access(source, move.element_size), move.element_size)
        direct = self._direct(source, move.sizes)
        if direct is not None:
            return direct
        try:
            return self._composed(source, move.sizes)
        except NotComposableError as error:
            value = self._values[source.operand]
            reason = f"{self._names[source.operand]} is read: {error}"
            self._values[source.operand] = self._composer.stored(value, reason)
        stored = self._direct(source, move.sizes)
        if stored is None:
            raise AssertionError("a stored value is read directly")
        return stored

    def _constant_access(self, access: Access, size: int) -> Access:
        """Return an access to a constant, whose strides are in bytes already."""
        lookups = tuple(self._lookup(each, None) for each in access.lookups)
        return Access(self._constants[access.operand], access.offset, (*access.strides, size), lookups)

    def _direct(self, source: Access, box: Sizes) -> Value | None:
        """Return a source that one access reads; None if there is none, or if both it and the move have lookups."""
        value = self._values[source.operand]
        found = single_access(value)
        if found is None or (source.lookups and found.lookups):
            return None

        def change(strides: Sizes) -> tuple[int, Sizes]:
            *axes, last = strides
            return in_bytes(source.offset, axes), (*(in_bytes(step, axes) for step in source.strides), last)

        moved = on_strides(found, change)
        if source.lookups:
            axes = found.strides[:-1]
            moved = moved._replace(lookups=tuple(self._lookup(each, axes) for each in source.lookups))
        return boxed((*box, value.sizes[-1]), moved, value.element_size)

    def _lookup(self, lookup: Lookup, strides: Sizes | None) -> Lookup:
        """Convert a lookup to strides in bytes, over a box of one axis more.

        Args:
            lookup: the operator's lookup, in symbolic strides.
            strides: strides in bytes of the tensor's axes; None if the lookup's are in bytes already.
        """
        stride = lookup.stride if strides is None else in_bytes(lookup.stride, strides)
        if lookup.operand in self._constants:
            inner = tuple(self._lookup(each, None) for each in lookup.lookups)
            number = self._constants[lookup.operand]
            return lookup._replace(operand=number, strides=(*lookup.strides, 0), stride=stride, lookups=inner)
        found = self._index(lookup)
        axes = found.strides[:-1]

        def change(own: Sizes) -> tuple[int, Sizes]:
            return in_bytes(lookup.offset, own[:-1]), (*(in_bytes(step, own[:-1]) for step in lookup.strides), 0)

        moved = on_strides(found, change)
        inner = moved.lookups or tuple(self._lookup(each, axes) for each in lookup.lookups)
        return Lookup(
            moved.operand, lookup.dtype, moved.offset, moved.strides, lookup.size, stride, lookup.outside, inner
        )

    def _index(self, lookup: Lookup) -> Access:
        """Return the access to a lookup's indices, each of contiguous bytes; store them if necessary."""
        value = self._composer.indexable(self._values[lookup.operand])
        found = single_access(value)
        is_broken = found is not None and value.sizes[-1] > 1 and found.strides[-1] != value.element_size
        if found is None or is_broken or (found.lookups and lookup.lookups):
            reason = f"{self._names[lookup.operand]} is looked up, and does not lie in one place"
            value = self._composer.stored(self._values[lookup.operand], reason)
            self._values[lookup.operand] = value
            found = single_access(value)
        if found is None:
            raise AssertionError("a stored value is one access")
        return found

    def _composed(self, source: Access, box: Sizes) -> Value:
        """Return a source that consists of several pieces or has lookups itself.

        Raises:
            NotComposableError: the value must be stored.
        """
        value = self._values[source.operand]
        rank = len(value.sizes) - 1
        picks = {self._picked_axis(each, rank): each for each in source.lookups}
        first, steps = digits(source.offset, rank), [digits(stride, rank) for stride in source.strides]
        starts, sizes, by, labels, shape = [], [], [], list[list[int]](), []
        for axis in range(rank):
            along = [(abs(step[axis]), d) for d, step in enumerate(steps) if step[axis] and box[d] > 1]
            if axis in picks:
                if along or first[axis]:
                    raise NotComposableError("an axis that is looked up has an offset or a stride beside the index")
                dims, size, step = list[int](), value.sizes[axis], 1
            else:
                dims, size, step = contiguous_run(sorted(along, reverse=True), box, [step[axis] for step in steps])
            starts.append(first[axis])
            sizes.append(size)
            by.append(step)
            labels.append(dims)
            shape += [size] if axis in picks else [box[d] for d in dims]
        part = value.slice((*starts, 0), (*sizes, value.sizes[-1]), (*by, 1)).reshape((*shape, value.sizes[-1]))
        for axis in sorted(picks, reverse=True):
            part, labels[axis] = self._looked_up(
                part, picks[axis], sum(map(len, labels[:axis])) + sum(other in picks for other in range(axis)), box
            )
        return align_to_box(part, [d for dims in labels for d in dims], box)

    def _looked_up(self, value: Value, lookup: Lookup, axis: int, box: Sizes) -> tuple[Value, list[int]]:
        """Replace an axis by a lookup; return the value and the dimensions of the box that replace the axis."""
        used = [d for d, stride in enumerate(lookup.strides) if stride and box[d] > 1]
        access = Access(lookup.operand, lookup.offset, tuple(lookup.strides[d] for d in used))
        own = tuple(box[d] for d in used)
        indices = self._composed(access, own)
        if indices.sizes[-1] != 1:
            raise NotComposableError("its indices consist of parts of numbers")
        indices = self._composer.indexable(indices.reshape(own))
        return value.pick(indices, lookup.dtype, axis, lookup.outside), used

    def _picked_axis(self, lookup: Lookup, rank: int) -> int:
        along = digits(lookup.stride, rank)
        if lookup.lookups or lookup.operand in self._constants or sorted(along)[-1] != 1 or sum(map(bool, along)) != 1:
            raise NotComposableError("its indices are looked up themselves")
        return along.index(1)
