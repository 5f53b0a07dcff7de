"""Terms of movement in a normal form: equal movement is one term for all sizes, by whatever nodes.

Slices and joins keep the order of their sources; the result is a view of them.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Literal

import numpy as np

from anydml.onnx.graph_values import Array
from anydml.proving.aligned_inputs import PLAIN_AXIS, align_inputs
from anydml.proving.orders import REPEATED_FACTOR, Entry, align, as_integers
from anydml.proving.sizes import Size, Sizes, product
from anydml.proving.terms import Term, Terms, elements_of
from anydml.proving.views import Viewer, own_axes
from anydml.proving.windows import Window, by_factor, outward, parts_of

MAX_SLICED_NODES = 100
"""Maximum number of successive nodes through which a slice is moved to their inputs."""

Again = Callable[["Mover", Term, Sequence[Term | None], Sequence[int]], Term | None]
"""Returns the result of a term's node for other inputs, and the places of its axes; None for unsupported nodes."""


Form = Literal["floats", "zeros", "real", "merged"]
"""When terms are equal: bit for bit; except for signs of zeros; as real numbers; with factors merged into weights."""


REAL_FORMS = ("real", "merged")
"""Forms in which terms that are equal for real numbers, but not for floats, are one."""


class Mover(Viewer):
    """Makes terms for results of operators that move elements.

    Args:
        terms: makes terms.
        form: which terms are equal.
        again: returns the result of a term's node for other inputs, so that slices of results become slices of inputs.

    Attributes:
        has_signs: whether 0 and −0 differ.
        is_real: whether terms that are equal for real numbers, but not for floats, are one.
        merges: whether factors of results are merged into weights.
        rounded: assumed equalities that rounding may break.
        assumed: sizes that are assumed to be at most a number, and that number.
    """

    def __init__(self, terms: Terms, form: Form = "floats", again: Again | None = None) -> None:
        super().__init__(terms)
        self.has_signs, self.is_real, self.merges = form == "floats", form in REAL_FORMS, form == "merged"
        self.again = again
        self._depth = 0
        self._passed: dict[Hashable, Term | None] = {}
        self.rounded: set[str] = set()
        self.assumed: dict[Size, int] = {}

    def slice(self, term: Term, windows: Sequence[Window]) -> Term:
        """Return the slice of a value that windows along some axes select."""
        cuts = sorted(window for window in windows if window[1:] != (0, term.sizes[window[0]], 1))
        if not cuts:
            return term
        shape = list[Size](term.sizes)
        for axis, _, count, _ in cuts:
            shape[axis] = count
        cut_numbers = as_integers([n for window in cuts for n in window])
        if term.array is not None and term.dtype is not None and cut_numbers is not None:
            array = term.array
            for k in range(0, len(cut_numbers), 4):
                axis, start, length, by = cut_numbers[k : k + 4]
                array = array.take(start + np.arange(length) * by, axis)
            return self.terms.moved(array, [term]) if term.is_constant else self.terms.integers(array, term.dtype)
        source, factors, axes = self.along(term)
        parts = by_factor(axes, cuts)
        if parts is None:
            source, factors, axes = term, term.sizes, own_axes(term)
            parts = {axis: (first, count, step) for axis, first, count, step in cuts}
            axes = [[(k, shape[k]) for k, _ in axis_entries] for axis_entries in axes]
        return self._slice(source, factors, parts, axes, tuple(shape))

    def _slice(
        self,
        source: Term,
        factors: Sizes,
        windows: dict[int, tuple[Size, Size, int]],
        axes: list[list[Entry]],
        shape: Sizes,
    ) -> Term:
        """Return a view of the slice of a value that windows along factors select."""
        entries = [axis_entries for axis in axes for axis_entries in axis]
        if not windows:
            return self.view(source, factors, entries, shape)
        if source.kind == "slice" and (inner := outward(source, factors, windows)) is not None:
            (base,) = source.inputs
            assert base is not None, "it slices a value"
            source, factors, windows = base, *inner
        sizes = [windows[k][1] if k in windows else size for k, size in enumerate(factors)]
        if (passed := self._through(source, factors, windows)) is not None:
            return self.view(passed, sizes, entries, shape)
        # Factors without a window are merged.
        runs: list[list[int]] = []
        for k in range(len(factors)):
            if runs and k not in windows and runs[-1][-1] not in windows:
                runs[-1].append(k)
            else:
                runs.append([k])
        merged = tuple(product(factors[k] for k in run) for run in runs)
        detail = tuple((axis, *windows[run[0]]) for axis, run in enumerate(runs) if run[0] in windows)
        taken_sizes = [
            windows[run[0]][1] if run[0] in windows else size for run, size in zip(runs, merged, strict=True)
        ]
        sliced = self.terms.make("slice", [self.reshape(source, merged)], detail, source.dtype, taken_sizes)
        return self.view(sliced, sizes, entries, shape)

    def _through(self, term: Term, factors: Sizes, windows: dict[int, tuple[Size, Size, int]]) -> Term | None:
        """Return the result of a node for slices of its inputs, with an axis for each factor; None if there is none."""
        key = term.number, factors, tuple(sorted(windows.items()))
        if key not in self._passed:
            self._depth += 1
            self._passed[key] = (
                self._computed_again(term, factors, windows) if self._depth <= MAX_SLICED_NODES else None
            )
            self._depth -= 1
        return self._passed[key]

    def _computed_again(self, term: Term, factors: Sizes, windows: dict[int, tuple[Size, Size, int]]) -> Term | None:
        has_axes = term.kind in ("concat", "dot") or term.kind.endswith("@")
        split = align(factors, term.sizes) if self.again is not None and has_axes else None
        if split is None or any(len(parts) > 1 for parts in split[0]):
            return None
        # Factors of size 1 belong to no axis.
        groups = [[k for k, _ in group] for group in split[1]]
        joined = term.detail if term.kind == "concat" else -1
        if joined >= 0 and len(groups[joined]) != 1:
            return None
        parts = parts_of(term, joined, windows.get(groups[joined][0]) if joined >= 0 else None)
        added = term.detail if term.kind == "dot" else ()
        inputs, rank = list[Term | None](), len(groups) + len(added)
        if parts is None or any(
            source is not None and (source.shape is None or len(source.shape) != rank) for source, _ in parts
        ):
            return None
        places = [axis for axis in range(rank) if axis not in added]
        for part_source, part in parts:
            if part_source is None:
                inputs.append(None)
                continue
            shape, part_windows = list[Size](), list[Window]()
            for axis, size in enumerate(part_source.sizes):
                if axis in added:
                    shape.append(size)
                    continue
                if axis == joined:
                    part_windows.append((len(shape), *part))
                for k in groups[places.index(axis)]:
                    is_whole = size != 1 and axis != joined
                    if is_whole and k in windows:
                        part_windows.append((len(shape), *windows[k]))
                    shape.append(factors[k] if is_whole else size)
            inputs.append(self.slice(self.reshape(part_source, tuple(shape)), part_windows))
        assert self.again is not None, "it is there"
        counts = [1 if axis in added else len(groups[places.index(axis)]) for axis in range(rank)]
        recomputed = self.again(self, term, inputs, [sum(counts[:axis]) for axis in range(rank)])
        if recomputed is None:
            return None
        return self.reshape(
            recomputed, tuple(windows[k][1] if k in windows else size for k, size in enumerate(factors))
        )

    def concat(self, terms: Sequence[Term], axis: int) -> Term:
        """Return the join of values along an axis."""
        flat: list[Term] = []
        for term in [term for term in terms if term.sizes[axis] != 0] or [terms[0]]:
            for part in self._parts(term, axis):
                merged = self._join(flat[-1], part, axis) if flat else None
                flat = [*flat[:-1], merged] if merged is not None else [*flat, part]
        if len(flat) == 1:
            return flat[0]
        shape = [*flat[0].sizes]
        shape[axis] = sum((term.sizes[axis] for term in flat[1:]), flat[0].sizes[axis])
        if all(term.array is not None for term in flat) and flat[0].dtype is not None:
            if all(term.is_constant for term in flat):
                array = np.concatenate([np.asarray(term.array) for term in flat], axis)
                return self.terms.moved(array, flat)
            elements = [elements_of(term) for term in flat]
            if all(element is not None for element in elements):
                return self.terms.integers(
                    np.concatenate([np.asarray(element) for element in elements], axis), flat[0].dtype
                )
        if all(term is flat[0] for term in flat):
            return self.tile(flat[0], [len(flat) if k == axis else 1 for k in range(len(shape))])
        size = flat[0].sizes[axis]
        if size != 1 and all(term.sizes[axis] == size for term in flat):
            # If all values have size 1 along the axis, the join is a stack along a new axis.
            shape_with_axis = (*shape[:axis], 1, size, *shape[axis + 1 :])
            return self.reshape(self.concat([self.reshape(term, shape_with_axis) for term in flat], axis), tuple(shape))
        shared = [*range(len(shape))]
        kinds = ["joined" if entry == axis else PLAIN_AXIS for entry in shared]
        aligned = align_inputs(self, flat, [shared] * len(flat), shape, kinds, joined=axis)
        at = aligned.kinds.index("joined")
        joined = self.terms.make("concat", aligned.inputs, at, flat[0].dtype, aligned.sizes)
        return aligned.result(self, joined, shared, tuple(shape))

    def _parts(self, term: Term, axis: int) -> list[Term]:
        """Return the values that a join along an axis joins; any other value is returned unchanged."""
        source, factors, axes = self.along(term)
        split = align(factors, source.sizes) if source.kind == "concat" else None
        if split is None:
            return [term]
        # Factors are split at the axes of the parts.
        first = [sum(len(parts) for parts in split[0][:k]) for k in range(len(factors))]
        axes = [
            [
                part
                for k, size in entries_of
                for part in ([(k, size)] if k == REPEATED_FACTOR else enumerate(split[0][k], first[k]))
            ]
            for entries_of in axes
        ]  # fmt: skip
        factors = tuple(size for parts in split[0] for size in parts)
        longer = [k for k, size in axes[axis] if size != 1]
        joined = [first[k] + part for k, part in split[1][source.detail]]
        if longer[:1] != joined or (
            len(longer) > 1
            and any(
                source_input is not None and source_input.sizes[source.detail] != 1 for source_input in source.inputs
            )
        ):
            return [term]
        views = []
        for joined_input in source.inputs:
            assert joined_input is not None, "it is joined"
            size = joined_input.sizes[source.detail]
            entries = [[(k, size if k == longer[0] else n) for k, n in axis_entries] for axis_entries in axes]
            shape = [*term.sizes]
            shape[axis] = product(n for _, n in entries[axis])
            sizes = [size if k == longer[0] else n for k, n in enumerate(factors)]
            views.append(
                self.view(
                    joined_input, sizes, [entry for axis_entries in entries for entry in axis_entries], tuple(shape)
                )
            )
        return views

    def _join(self, first: Term, second: Term, axis: int) -> Term | None:
        """Merge two constants, repeats of one value, or adjacent slices to one term; None for other terms."""
        if first.is_constant and second.is_constant:
            array = np.concatenate([np.asarray(first.array), np.asarray(second.array)], axis)
            return self.terms.moved(array, [first, second])
        (source, factors, axes), (other_source, others, other_axes) = self.along(first), self.along(second)
        other_axis_numbers = [k for k in range(len(axes)) if k != axis]
        if source is other_source and factors == others and all(axes[k] == other_axes[k] for k in other_axis_numbers):
            factors_of = [[k for k, n in axis_entries if n != 1] for axis_entries in (axes[axis], other_axes[axis])]
            if {*factors_of[0], *factors_of[1]} <= {REPEATED_FACTOR}:
                size = first.sizes[axis] + second.sizes[axis]
                entries = [
                    [(REPEATED_FACTOR, size)] if k == axis else axis_entries for k, axis_entries in enumerate(axes)
                ]
                shape = tuple(size if k == axis else n for k, n in enumerate(first.sizes))
                return self.view(source, factors, [entry for axis_entries in entries for entry in axis_entries], shape)
        if source.kind != "slice" or other_source.kind != "slice" or source.inputs != other_source.inputs:
            return None
        split, longer = align(factors, source.sizes), [(k, size) for k, size in axes[axis] if size != 1]
        (sliced,) = source.inputs
        if split is None or len(longer) != 1 or sliced is None or ([(longer[0][0], 0)] not in split[1]):
            return None
        if any(len(parts) > 1 for parts in split[0]):
            return None
        cut_axis = split[1].index([(longer[0][0], 0)])
        a, b = ({w[0]: w for w in term.detail} for term in (source, other_source))
        before, after = (windows_of.pop(cut_axis, (cut_axis, 0, sliced.sizes[cut_axis], 1)) for windows_of in (a, b))
        if a != b or before[3] != after[3] or before[1] + before[2] * before[3] != after[1]:
            return None
        count = before[2] + after[2]
        # The second slice must have the same order of elements.
        k = longer[0][0]
        if len(others) != len(factors):
            return None
        if others[:k] != factors[:k] or others[k + 1 :] != factors[k + 1 :] or others[k] != after[2]:
            return None
        if [[e if e[0] != k else k for e in axis_entries] for axis_entries in axes] != [
            [e if e[0] != k else k for e in axis_entries] for axis_entries in other_axes
        ]:
            return None
        wider = self.slice(sliced, [*a.values(), (cut_axis, before[1], count, before[3])])
        shape = tuple(count if n == axis else size for n, size in enumerate(first.sizes))
        sizes = tuple(count if n == k else size for n, size in enumerate(factors))
        return self.view(
            wider, sizes, [(n, count if n == k else size) for axis_entries in axes for n, size in axis_entries], shape
        )

    def take(self, term: Term, indices: Term, axis: int) -> Term:
        """Return the elements at indices along an axis."""
        shape = (*term.sizes[:axis], *indices.sizes, *term.sizes[axis + 1 :])
        size, array = term.sizes[axis], indices.array
        if array is not None and array.dtype != object and array.size:
            if not isinstance(size, int) and (array < 0).any():
                return self.terms.make("taken", [term, indices], axis, term.dtype, shape)
            flat = np.where(array < 0, array + size, array).reshape(-1) if isinstance(size, int) else array.reshape(-1)
            step = int(flat[1] - flat[0]) if flat.size > 1 else 1
            if step > 0 and (np.diff(flat) == step).all():
                sliced = self.slice(term, [(axis, int(flat[0]), flat.size, step)])
                return self.reshape(sliced, shape)
            if term.is_constant and term.array is not None:
                return self.terms.moved(term.array.take(flat.reshape(array.shape), axis), [term])
            indices = self.terms.constant(flat.reshape(array.shape).astype(np.int64))
        elif indices.dtype is not None and indices.dtype != np.int64 and indices.is_constant and array is not None:
            indices = self.terms.constant(array.astype(np.int64))
        source, factors, axes = self.along(term)
        longer = [k for k, size in axes[axis] if size != 1]
        if len(longer) != 1 or longer[0] == REPEATED_FACTOR:
            source, factors, axes, longer = term, term.sizes, own_axes(term), [axis]
        index_source, order = self.source(indices)
        before, after = factors[: longer[0]], factors[longer[0] + 1 :]
        merged = [product(before), product(index_source.sizes), product(after)]
        data = self.reshape(source, (merged[0], factors[longer[0]], merged[2]))
        flat_indices = self.reshape(index_source, (merged[1],))
        picked_term = self.terms.make("taken", [data, flat_indices], 1, term.dtype, merged)
        count = len(order.factors)

        def moved(entries: Sequence[Entry]) -> list[Entry]:
            return [(k + (count - 1) * (k > longer[0]) if k != REPEATED_FACTOR else k, size) for k, size in entries]

        picked = [(k + longer[0] if k != REPEATED_FACTOR else k, size) for k, size in order.entries()]
        entries = [
            *(entry for axis_entries in axes[:axis] for entry in moved(axis_entries)), *picked,
            *(entry for axis_entries in axes[axis + 1 :] for entry in moved(axis_entries)),
        ]  # fmt: skip
        return self.view(picked_term, [*before, *order.factors, *after], entries, shape)


def filled(term: Term) -> Array | None:
    """Return the element, without dimensions, that fills a constant; None if its elements differ."""
    array = term.array
    if not term.is_constant or array is None or not array.size or array.dtype.hasobject:
        return None
    flat = np.ascontiguousarray(array).reshape(-1)
    # As bytes, so that NaN equals itself and 0 differs from −0.
    marks = flat.view(np.uint8).reshape(flat.size, -1)
    is_filled = bool((marks[:2] == marks[0]).all()) and bool((marks == marks[0]).all())
    return flat[0].reshape(()) if is_filled else None
