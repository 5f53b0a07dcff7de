"""Moves views through element-wise nodes: f(view(x)) becomes view(f(x)).

For this, the inputs' shared axes are split into common factors.
The elements of a result have the order of the elements of one input. Which input this is depends only on the terms of
the inputs, so that it is the same in both models.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass

from anydml.proving.orders import REPEATED_FACTOR, Entry, align, refine
from anydml.proving.sizes import Size, Sizes, product
from anydml.proving.terms import Term
from anydml.proving.views import Viewer, own_axes

Label = tuple[int, int]
"""An axis that inputs share, and the number of one of its factors."""

PLAIN_AXIS = ""
"""Kind of axes along which a node computes each element alone."""


@dataclass(frozen=True)
class FactoredInput:
    """An input whose axes are split into factors.

    Attributes:
        source: the term that the input is a view of.
        labels: the factors of the source, in its order.
        sizes: the sizes of the factors.
    """

    source: Term
    labels: list[Label]
    sizes: list[Size]


@dataclass(frozen=True)
class AlignedInputs:
    """Inputs of a node whose factors have one order, on as few axes as possible.

    Attributes:
        inputs: the inputs in that order; an input without the factors of an axis has size 1 there.
        kinds: the kind of each axis.
        sizes: the size of each axis.
        runs: the factors that each axis consists of.
        factors: the sizes of the factors of each axis that the inputs share.
    """

    inputs: list[Term]
    kinds: list[Hashable]
    sizes: list[Size]
    runs: list[list[Label]]
    factors: list[list[Size]]

    def result(self, viewer: Viewer, term: Term, axes: Sequence[int], shape: Sizes) -> Term:
        """Return the result of a node as a view of the node's result for rearranged inputs.

        Args:
            viewer: makes views.
            term: the result for the rearranged inputs; its axes are those that have factors of `axes`.
            axes: for each axis of the result, the number of the shared axis; −1 if the size is 1.
            shape: the result's shape.
        """
        labels = [label for run in self.runs for label in run if label[0] in axes]
        position = {label: k for k, label in enumerate(labels)}
        entries = [
            (position.get((axis, k), REPEATED_FACTOR), size)
            for axis in axes if axis >= 0 for k, size in enumerate(self.factors[axis])
        ]  # fmt: skip
        return viewer.view(term, [self.factors[axis][k] for axis, k in labels], entries, shape)


def align_inputs(
    viewer: Viewer,
    terms: Sequence[Term],
    axes: Sequence[Sequence[int]],
    sizes: Sequence[Size],
    kinds: Sequence[Hashable],
    needs: Collection[int] = (),
    is_ordered: bool = True,
    joined: int = -1,
) -> AlignedInputs:
    """Return the inputs of a node with their factors in one order.

    Args:
        viewer: makes views.
        terms: the inputs.
        axes: for each axis of each input, the number of the axis that inputs share; −1 if the size is 1.
        sizes: sizes of the shared axes.
        kinds: the kind of each shared axis; factors of different kinds are not merged.
        needs: numbers of the inputs that may not be repeated along axes whose kind is not `PLAIN_AXIS`.
        is_ordered: whether the order of the inputs matters.
        joined: the axis along which the inputs are joined, so that their sizes may differ.
    """
    for has_own_axes in (False, True):
        operands = [(term, term.sizes, own_axes(term)) if has_own_axes else viewer.along(term) for term in terms]
        if joined >= 0:
            operands = [
                operand if _is_single(operand[2][joined]) else (term, term.sizes, own_axes(term))
                for operand, term in zip(operands, terms, strict=True)
            ]
        factors = _factors(operands, axes, sizes, joined)
        inputs = None if factors is None else [
            _input(operand, axes_of, factors, kinds if k in needs else None, joined)
            for k, (operand, axes_of) in enumerate(zip(operands, axes, strict=True))
        ]  # fmt: skip
        if factors is not None and inputs is not None and all(inputs):
            return _arrange(viewer, [*filter(None, inputs)], factors, kinds, is_ordered, joined)
    raise AssertionError("inputs as they are fit")


Operand = tuple[Term, Sizes, list[list[Entry]]]


def _is_single(entries: Sequence[Entry]) -> bool:
    longer = [k for k, size in entries if size != 1]
    return len(longer) <= 1 and REPEATED_FACTOR not in longer


def _factors(
    operands: Sequence[Operand], axes: Sequence[Sequence[int]], sizes: Sequence[Size], joined: int
) -> list[list[Size]] | None:
    """Return the sizes of the smallest factors, of which the factors of all inputs are products."""
    all_factors = []
    for shared, size in enumerate(sizes):
        factors: list[Size] | None = None if size != 1 else []
        for (_, _, groups), axes_of in zip(operands, axes, strict=True):
            if shared in axes_of and shared != joined:
                group = [factor for _, factor in groups[axes_of.index(shared)] if factor != 1]
                factors = group if factors is None else refine(factors, group)
                if factors is None:
                    return None
        all_factors.append([size] if factors is None else factors)
    return all_factors


def _input(
    operand: Operand,
    axes: Sequence[int],
    factors: Sequence[Sequence[Size]],
    kinds: Sequence[Hashable] | None,
    joined: int,
) -> FactoredInput | None:
    """Return an input, split into the shared factors; None if the input lacks some, or does not divide in this way."""
    source, _, groups = operand
    labels_of = dict[int, list[tuple[Label, Size]]]()
    for shared, group in zip(axes, groups, strict=True):
        remaining = [(k, size) for k, size in group if size != 1]
        if shared == joined and remaining:
            labels_of[remaining[0][0]] = [((shared, 0), remaining[0][1])]
            continue
        split = align(factors[shared], [size for _, size in remaining]) if remaining else ([], [])
        if split is None or any(len(parts) > 1 for parts in split[0]):
            return None
        for (k, _), axes_of in zip(remaining, split[1], strict=True):
            if k != REPEATED_FACTOR:
                labels_of[k] = [((shared, part), factors[shared][part]) for part, _ in axes_of]
            elif kinds is not None and kinds[shared] != PLAIN_AXIS:
                return None
    flat = [entry for k in sorted(labels_of) for entry in labels_of[k]]
    return FactoredInput(source, [label for label, _ in flat], [size for _, size in flat])


def _arrange(
    viewer: Viewer,
    inputs: Sequence[FactoredInput],
    factors: list[list[Size]],
    kinds: Sequence[Hashable],
    is_ordered: bool,
    joined: int,
) -> AlignedInputs:
    labels = {label for factored_input in inputs for label in factored_input.labels}

    def rank(k: int) -> tuple[bool, bool, int]:
        # Constants are moved when they are folded, so every order is equally good.
        is_constant = inputs[k].source.is_constant
        return is_constant, {*inputs[k].labels} != labels, k if is_ordered else inputs[k].source.number

    order = dict.fromkeys(label for k in sorted(range(len(inputs)), key=rank) for label in inputs[k].labels)
    if joined >= 0 and (joined, 0) not in order:
        order = {(joined, 0): None, **order}
    places = [{label: k for k, label in enumerate(factored_input.labels)} for factored_input in inputs]
    runs: list[list[Label]] = []
    for label in order:
        if (
            runs
            and kinds[runs[-1][-1][0]] == kinds[label[0]]
            and all(
                _are_adjacent(place_of, runs[-1][-1], label, factored_input.source.is_constant)
                for factored_input, place_of in zip(inputs, places, strict=True)
            )
        ):
            runs[-1].append(label)
        else:
            runs.append([label])
    arranged = []
    for arranged_input, places_of in zip(inputs, places, strict=True):
        entries, shape = list[Entry](), list[Size]()
        for run in runs:
            has = run[0] in places_of
            if has:
                entries += [(places_of[label], arranged_input.sizes[places_of[label]]) for label in run]
            elif joined >= 0 and run[0][0] != joined:
                entries += [(REPEATED_FACTOR, factors[axis][k]) for axis, k in run]
            sizes = (
                [arranged_input.sizes[places_of[label]] for label in run]
                if has
                else [factors[axis][k] for axis, k in run]
            )
            shape.append(product(sizes) if has or (joined >= 0 and run[0][0] != joined) else 1)
        arranged.append(viewer.view(arranged_input.source, arranged_input.sizes, entries, tuple(shape)))
    sizes = [product(factors[axis][k] for axis, k in run) for run in runs]
    return AlignedInputs(arranged, [kinds[run[0][0]] for run in runs], sizes, runs, factors)


def _are_adjacent(places: Mapping[Label, int], first: Label, second: Label, is_constant: bool) -> bool:
    """Whether an input has two factors one after the other, or neither; a constant's factors are moved freely."""
    if first not in places or second not in places:
        return first not in places and second not in places
    return is_constant or places[second] == places[first] + 1


def shared_axes(terms: Sequence[Term], shape: Sizes) -> list[list[int]] | None:
    """Return, for each axis of each term, the axis of a shape, or −1 if broadcast; None if sizes may differ."""
    axes_shared = []
    for term in terms:
        first = len(shape) - len(term.sizes)
        axes = [-1 if size == 1 else first + axis for axis, size in enumerate(term.sizes)]
        if any(axis >= 0 and shape[axis] != size for axis, size in zip(axes, term.sizes, strict=True)):
            return None
        axes_shared.append(axes)
    return axes_shared
