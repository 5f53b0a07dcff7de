"""Arrays that a traced function creates and may assign into, such as ``np.zeros(shape)`` or ``x.copy()``.

An assignment replaces a box of the array's value. Indexing by integers and slices returns a part, which always has the
array's current elements, and can be assigned into as well. Other results may or may not share the array's memory: while
one of them exists, assignments are refused.
"""

from __future__ import annotations

import weakref
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Any, NamedTuple

import numpy as np

from anydml.moves.pieces import Piece
from anydml.moves.value import MAX_PIECES, Value
from anydml.tracing.array_verbs import cut, fill, join
from anydml.tracing.assigning import replaced
from anydml.tracing.indexing import indexed, is_basic, is_element
from anydml.tracing.open_sizes import is_open
from anydml.tracing.refusing import fuse_error, named_errors, not_assignable
from anydml.tracing.short_integers import pinned_number
from anydml.tracing.structure import leaves
from anydml.tracing.trace import TracedArray, check_dtype
from anydml.tracing.traced_ndarray import TracedNdarray
from anydml.tracing.traced_tensor import TracedTensor

_COPYING_IN_BOTH = "empty_like full_like hstack ones_like repeat roll stack take tile tril triu vstack where zeros_like"
_COPYING_IN_NUMPY = (
    f"{_COPYING_IN_BOTH} append block choose column_stack compress concatenate copy delete diagflat dstack extract "
    "fft.fftshift fft.ifftshift flatten insert pad resize select take_along_axis"
)
_COPYING_IN_TORCH = f"{_COPYING_IN_BOTH} cat clone index_select new_empty new_full new_ones new_zeros repeat_interleave"
COPYING_WORDS = frozenset(_COPYING_IN_NUMPY.split()), frozenset(_COPYING_IN_TORCH.split())
"""Words of NumPy and of PyTorch whose results never share memory with their arguments."""

_CONVERTING_WORDS = frozenset(("asarray", "asanyarray", "astype", "array"))
"""Words that return their argument, if they do not copy it."""

_MAX_ASTYPE_ARGUMENTS = 6
"""Number of arguments of `astype` of which the last one is `copy`."""

_WORDS_THAT_MAY_COPY = frozenset(("asfortranarray", "require"))
"""Words that may copy a whole array."""


class _Slab(NamedTuple):
    """Some rows of an array: the first row's number, the rows as an array, and its pieces within the whole array."""

    start: int
    rows: TracedArray
    pieces: tuple[Piece, ...]


class _Assignable:
    """Additional fields of own arrays.

    Attributes:
        sharing_results: the results that may share the array's memory, and the words that returned them.
        parts: the parts of the array, in the order of their creation.
        slabs: the rows of the array in groups, if single rows were assigned.
    """

    __slots__ = ()
    sharing_results: list[tuple[weakref.ref[Any], str]]
    parts: list[weakref.ref[Any]]
    slabs: list[_Slab]

    def __getitem__(self: Any, key: Any) -> TracedArray:
        result: TracedArray = self.trace.run(indexed, self, key)
        if not _is_view(result, key):
            return result
        part = assignable_classes(self.trace)[1](self.trace, result.value, result.element, result.like)
        part.base, part.key = self, key
        root_of(self).parts.append(weakref.ref(part))
        return part  # type: ignore[no-any-return]

    def __setitem__(self: Any, key: Any, value: Any) -> None:
        self.trace.run(assign, self, key, value)


class _Sharing:
    """Additional fields of results that may share memory.

    Attributes:
        roots: the own arrays.
    """

    __slots__ = ()
    roots: list[Any]

    def __getitem__(self: Any, key: Any) -> TracedArray:
        result: TracedArray = self.trace.run(indexed, self, key)
        return note_sharing(self.trace, "indexing", (self,), {}, result) if _is_view(result, key) else result


def _classes_for(base: Any) -> tuple[Any, Any, Any]:
    """Return one library's classes of assignable arrays, of their parts, and of results that may share memory."""

    class Assignable(_Assignable, base):  # type: ignore[misc]
        """An array that a traced function created."""

        __slots__ = ("__weakref__", "parts", "sharing_results", "slabs")

    class Part(_Assignable, base):  # type: ignore[misc]
        """A part of an own array, by a key."""

        __slots__ = ("__weakref__", "base", "key")

    class Sharing(_Sharing, base):  # type: ignore[misc]
        """A result that may share the memory of own arrays."""

        __slots__ = ("__weakref__", "roots")

    return Assignable, Part, Sharing


_NDARRAYS, _TENSORS = map(_classes_for, (TracedNdarray, TracedTensor))

ASSIGNABLE_CLASSES = (*_NDARRAYS, *_TENSORS)
"""All classes of arrays that can be assigned into, or that may share memory with one."""


def assignable_classes(trace: Any) -> tuple[Any, ...]:
    """Return the classes of assignable arrays, of parts of these, and of results that may share their memory."""
    return _TENSORS if issubclass(trace.kind, TracedTensor) else _NDARRAYS


def _is_view(result: TracedArray, key: Any) -> bool:
    """Whether the selection by a key shares memory with the array; a single element of a NumPy array does not."""
    return is_basic(key) and not is_element(result, key)


def as_assignable(x: TracedArray) -> TracedArray:
    """Return a new array of the same elements, which can be assigned into."""
    array = assignable_classes(x.trace)[0](x.trace, x.value, x.element, x.like)
    array.sharing_results, array.parts, array.slabs = [], [], []
    return array  # type: ignore[no-any-return]


def root_of(x: Any) -> Any:
    """Return the own array that a part belongs to."""
    while hasattr(type(x), "base"):
        x = x.base
    return x


def roots_of(values: Any) -> list[Any]:
    """Return the own arrays whose memory arguments may share."""
    roots: dict[int, Any] = {}
    for leaf in leaves(values):
        if isinstance(leaf, _Assignable):
            base = root_of(leaf)
            roots[id(base)] = base
        elif isinstance(leaf, _Sharing):
            roots |= {id(base): base for base in leaf.roots}
    return [*roots.values()]


def note_sharing(trace: Any, name: str, arguments: Sequence[Any], keywords: Mapping[str, Any], result: Any) -> Any:
    """Return the result of a word; each array in it notes the assignable arrays whose memory it may share.

    Args:
        trace: the arrays' trace.
        name: the word's name.
        arguments: the arguments of the word.
        keywords: the keyword arguments of the word.
        result: the word's result.
    """
    if name in COPYING_WORDS[issubclass(trace.kind, TracedTensor)] or (
        name in ("astype", "array") and keywords.get("copy", len(arguments) < _MAX_ASTYPE_ARGUMENTS or arguments[-1])
    ):
        return as_assignable(result) if isinstance(result, TracedArray) else result
    inputs = [*arguments, *keywords.values()]
    roots = roots_of(inputs)
    if not roots:
        return result
    # A view of a whole array counts as the array itself; of a part, NumPy may make a copy.
    identical = (
        {id(leaf) for leaf in leaves(inputs) if name in _CONVERTING_WORDS or leaf is root_of(leaf)}
        if name not in _WORDS_THAT_MAY_COPY
        else set()
    )

    def with_note(value: Any) -> Any:
        if isinstance(value, (list, tuple)):
            items = map(with_note, value)
            return [*items] if isinstance(value, list) else tuple(items)
        if not isinstance(value, TracedArray) or id(value) in identical:
            return value
        array = assignable_classes(value.trace)[2](value.trace, value.value, value.element, value.like)
        array.roots = roots
        for base in roots:
            base.sharing_results.append((weakref.ref(array), name))
        return array

    return with_note(result)


def filled(x: TracedArray, value: Any) -> TracedArray:
    """Fill an assignable array with a number, and return the array, as PyTorch's methods do."""
    copy_into(x, fill(x, (), value))
    return x


def copied(x: TracedArray, src: Any) -> TracedArray:
    """Assign elements, and return the array, as PyTorch's methods do."""
    copy_into(x, src)
    return x


def copy_into(dst: TracedArray, src: Any, where: Any = True) -> None:
    """Assign elements as `copyto` does, in all places or where a mask holds.

    Raises:
        FuseError: `dst` cannot be assigned into, or something does not fit.
    """
    if not isinstance(dst, _Assignable):
        raise not_assignable(dst)
    if not dst.INDEXES_LIKE_TORCH and not any(isinstance(leaf, TracedArray) for leaf in leaves(src)):
        # Unlike assignments, NumPy's function refuses numbers of another kind.
        number = pinned_number(src)
        np.copyto(np.empty(np.shape(number), dst.element), number)
    assign(dst, ... if where is True else where, src)


def assign(x: Any, key: Any, value: Any) -> None:
    """Replace elements of an assignable array, or of a part of one.

    Raises:
        FuseError: the key or the elements do not fit, or another result may share the array's memory.
    """
    with named_errors("an assignment"):
        base = root_of(x)
        check_unshared(base)
        while x is not base:
            key, value, x = x.key, replaced(x, key, value), x.base
        _write(base, key, value)
        _refresh(base)


def call(word: Any, name: str, trace: Any, arguments: Sequence[Any], keywords: Mapping[str, Any]) -> Any:
    """Call a word in a function that may assign into arrays; `out` may be an assignable array."""
    out = keywords.get("out")
    if not isinstance(out, _Assignable):
        return note_sharing(trace, name, arguments, keywords, word.call(trace, arguments, keywords))
    assign(out, ..., word.call(trace, arguments, {key: value for key, value in keywords.items() if key != "out"}))
    return out


def check_unshared(base: Any) -> None:
    """Check that no other result may share an assignable array's memory.

    Raises:
        FuseError: another result may share the memory.
    """
    base.sharing_results = [(reference, name) for reference, name in base.sharing_results if reference() is not None]
    for _, name in base.sharing_results:
        hint = f"assign before {name}, or take {name} of a copy"
        raise fuse_error(f"cannot assign into {base!r} after {name} of it, which may share its memory: {hint}")


def _refresh(base: Any) -> None:
    """Update the parts of an assignable array to the array's current elements."""
    live_parts = [(reference, part) for reference in base.parts if (part := reference()) is not None]
    base.parts = [reference for reference, _ in live_parts]
    for _, part in live_parts:
        part.value = indexed(part.base, part.key).value


def _write(base: Any, key: Any, value: Any) -> None:
    """Assign into an assignable array; if the changed rows are known, only these are composed again."""
    rows = _rows_of(base, key)
    if rows is None:
        base.value, base.slabs = replaced(base, key, value).value, []
        return
    first, count, inner_key = rows
    if not base.slabs:
        base.slabs = [_slab(0, base.trace.new_array(base.value, base.element, base.like))]
    begins, end = [slab.start for slab in base.slabs], first + count
    low, high = bisect_right(begins, first) - 1, bisect_right(begins, end - 1)
    touched = base.slabs[low:high]
    touched_rows = [slab.rows for slab in touched]
    old_rows = touched_rows[0] if len(touched_rows) == 1 else join(touched_rows, 0)
    begin, size = begins[low], old_rows.shape[0]
    changed = [_slab(first, replaced(_rows(old_rows, first - begin, end - begin), inner_key, value))]
    if begin < first:
        changed.insert(0, _slab(begin, _rows(old_rows, 0, first - begin)))
    if end < begin + size:
        changed.append(_slab(end, _rows(old_rows, end - begin, size)))
    base.slabs[low:high] = changed
    pieces = tuple(chain.from_iterable([slab.pieces for slab in base.slabs]))
    if len(pieces) <= MAX_PIECES:
        base.value = Value(base.shape, base.itemsize, pieces)
    else:
        base.value, base.slabs = join([slab.rows for slab in base.slabs], 0).value, []


def _rows_of(base: Any, key: Any) -> tuple[int, int, Any] | None:
    """Return the first row that a key selects, the number of rows, and the key within these rows; None if unknown."""
    items = key if isinstance(key, tuple) else (key,)
    size = base.shape[0] if base.ndim else None
    if type(size) is not int or not items or not is_basic(key):
        return None
    row, inner_key = items[0], items[1:]
    if type(row) is int and -size <= row < size:
        return row % size, 1, (0, *inner_key)
    if type(row) is slice and row.step in (None, 1) and not is_open((row.start, row.stop)):
        start, stop, _ = row.indices(size)
        return (start, stop - start, (slice(None), *inner_key)) if stop > start else None
    return None


def _slab(start: int, rows: TracedArray) -> _Slab:
    pieces = rows.value.pieces
    moved = [Piece((at[0] + start, *at[1:]), factors, source) for at, factors, source in pieces] if start else pieces
    return _Slab(start, rows, tuple(moved))


def _rows(array: TracedArray, start: int, stop: int) -> TracedArray:
    """Return some rows of an array, or the array if these are all."""
    return array if stop - start == array.shape[0] else cut(array, 0, start, stop - start)


def new_assignable_array(trace: Any, shape: Any, dtype: Any, fill_value: Any = None) -> TracedArray:
    """Return a new array of a trace, filled with a number, which can be assigned into."""
    check_dtype(np.dtype(dtype), "an array that the function creates")
    like = trace.new_array(Value.of_fill((), bytes(np.dtype(dtype).itemsize)), np.dtype(dtype))
    return as_assignable(fill(like, shape, fill_value))
