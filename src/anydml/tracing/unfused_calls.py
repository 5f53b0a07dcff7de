"""Calls of fused functions without a trace: the function itself runs if tracing would take longer.

Its results are those of a trace: new, contiguous arrays. It executes only instructions that traces have executed (see
`executed_instructions`); others may have to be refused. If it raises an error, the call is traced, and the trace raises
its own error.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from functools import partial
from time import perf_counter
from typing import Any

import numpy as np

from anydml.functions import copy
from anydml.tracing.executed_instructions import ExecutedInstructions, NotTracedError
from anydml.tracing.joinable import Joinable, as_plain_array, joinable_views
from anydml.tracing.refusing import fuse_error
from anydml.tracing.structure import PLAIN_TYPES, leaves, map_leaves

MUST_TRACE: Any = object()
"""Returned if a call must be traced."""

MAX_TRACE_TIMES = 8
"""Calls of one pattern are traced again once they have taken this many times as long as tracing."""

MAX_PATTERNS = 4096


class UnfusedCalls:
    """The calls of one fused function that are not fused.

    Args:
        function: the function.

    Attributes:
        instructions: the instructions that traces of the function have executed.
        calls: the number of calls that ran without a trace.
        is_assigning: whether the function may assign into arrays; it then gets read-only views of its arguments.
        is_naming: whether the function passes texts or dtypes to functions on arrays, which may make these compute.
        has_elements: whether the function returns single elements, which traces return as arrays without dimensions.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        self.instructions = ExecutedInstructions(function)
        self.calls = 0
        self.is_assigning = self.is_naming = self.has_elements = False
        self._function = function
        self._trace_seconds = 0.0
        self._seconds: dict[bytes, float] = {}
        self._max_trace_times: float = MAX_TRACE_TIMES

    def run(
        self, pattern: bytes | None, arguments: tuple[Any, ...], keywords: dict[str, Any], is_unsteady: bool = False
    ) -> Any:
        """Run the function, or return `MUST_TRACE`.

        Args:
            pattern: what the call has in common with similar ones, of which one must have been traced.
            arguments: positional arguments.
            keywords: keyword arguments.
            is_unsteady: whether a second run would give something else, so that no trace may follow an error.
        """
        if is_unsteady and not self.instructions.is_complete:
            return MUST_TRACE
        seconds_before = None if pattern is None or not self.instructions.has_watched else self._seconds.get(pattern)
        if pattern is None or seconds_before is None or seconds_before > self._max_trace_times * self._trace_seconds:
            return MUST_TRACE
        start = perf_counter()
        passed_arguments = arguments, keywords
        if has_tensors := _is_tensor(_first_array(passed_arguments)):
            passed_arguments = _with_own_containers(arguments), _with_own_containers(keywords)
        else:
            # Code that asks for classes must see NumPy's.
            views_of = partial(
                joinable_views, is_joined=not self.instructions.asks_classes, is_writeable=not self.is_assigning
            )
            passed_arguments = views_of(arguments), views_of(keywords)
        try:
            returned = [self.instructions.call(self._function, *passed_arguments)]
            result = _with_new_arrays(returned, (arguments, keywords), has_tensors, self.has_elements)
        except (Exception, NotTracedError):
            if is_unsteady:
                raise
            # A trace raises the error.
            return MUST_TRACE
        self._seconds[pattern] = seconds_before + perf_counter() - start
        self.calls += 1
        return result

    def note(self, is_assigning: bool, is_naming: bool, has_elements: bool) -> None:
        """Note what a trace did; once a trace has used names, patterns without names are discarded."""
        if is_naming and not self.is_naming:
            self._seconds.clear()
        self.is_assigning |= is_assigning
        self.is_naming |= is_naming
        self.has_elements |= has_elements

    def traced(self, patterns: Sequence[bytes | None], seconds: float, has_paid: bool) -> None:
        """Note that a call was traced.

        Args:
            patterns: as for `run`, with and without the names of objects.
            seconds: the time that tracing took.
            has_paid: whether calls have used the traces before this one.
        """
        self._trace_seconds = seconds
        self._max_trace_times = MAX_TRACE_TIMES if has_paid else 2 * self._max_trace_times
        if len(self._seconds) >= MAX_PATTERNS:
            self._seconds.clear()
        self._seconds.update({pattern: 0.0 for pattern in patterns if pattern is not None})


def _is_tensor(leaf: Any) -> bool:
    torch = sys.modules.get("torch")
    return torch is not None and type(leaf) is torch.Tensor


def _with_new_arrays(returned: list[Any], arguments: Any, has_tensors: bool, has_elements: bool) -> Any:
    """Return the only item of a list, a function's result, with new, contiguous arrays.

    Args:
        returned: the list.
        arguments: a structure of the function's arguments.
        has_tensors: whether the arguments' arrays are PyTorch's tensors.
        has_elements: as in `UnfusedCalls`.

    Raises:
        FuseError: there is something else than arrays of the arguments' library and numbers.
    """
    torch = sys.modules["torch"] if has_tensors else None
    addresses: list[int] = []

    def with_new_arrays(container: Any, key: Any) -> Any:
        item = container[key]
        class_ = type(item)
        if class_ is list or isinstance(item, tuple):
            items = [with_new_arrays(item, k) for k in range(len(item))]
            return items if class_ is list else class_(*items) if hasattr(item, "_fields") else tuple(items)
        if class_ is dict:
            return {name: with_new_arrays(item, name) for name in item}
        if torch is not None and class_ is torch.Tensor:
            is_new = (
                not item._is_view() and item.is_contiguous() and sys.getrefcount(item) <= _REFERENCES_OF_A_NAMED_ITEM
            )
            if item.requires_grad:
                raise fuse_error("a function returned a tensor that requires gradients")
            if is_new:
                if not addresses:
                    addresses.extend(leaf.data_ptr() for leaf in leaves(arguments) if type(leaf) is torch.Tensor)
                storage = item.untyped_storage()
                start, size = storage.data_ptr(), storage.nbytes()
                is_new = not any(start <= address < start + size for address in addresses)
            return item if is_new else item.clone(memory_format=torch.contiguous_format)
        if torch is None and class_ in (np.ndarray, Joinable):
            is_new = (
                item.flags.c_contiguous and sys.getrefcount(item) <= _REFERENCES_OF_A_NAMED_ITEM and _is_owned(item)
            )
            array = as_plain_array(item) if class_ is Joinable else item
            return array if is_new else copy(array)
        if has_elements and isinstance(item, np.generic) and not any(item is leaf for leaf in leaves(arguments)):
            return np.array(item)
        if isinstance(item, PLAIN_TYPES):
            return item
        raise fuse_error(f"a function returned an object of {class_.__name__}: return arrays in tuples, lists or dicts")

    return with_new_arrays(returned, 0)


def _with_own_containers(tree: Any) -> Any:
    """Copy the lists and dicts of a structure, so that the function may change them, as in a trace."""
    class_ = type(tree)
    if class_ is list or class_ is tuple:
        items = [_with_own_containers(item) if isinstance(item, (list, tuple, dict)) else item for item in tree]
        return items if class_ is list else tuple(items)
    return map_leaves(tree, lambda leaf, _: leaf, "") if isinstance(tree, (list, tuple, dict)) else tree


def _first_array(tree: Any) -> Any:
    """Return the first array in a structure; None if there is none."""
    if type(tree) is np.ndarray or _is_tensor(tree):
        return tree
    items = tree.values() if isinstance(tree, dict) else tree if isinstance(tree, (tuple, list)) else ()
    for item in items:
        if (array := _first_array(item)) is not None:
            return array
    return None


def _is_owned(array: Any) -> bool:
    """Whether an array owns its memory, or is the only view of an array of the same size."""
    base = array.base
    if base is None:
        return bool(array.flags.owndata)
    return (
        type(base) is np.ndarray
        and base.flags.owndata
        and base.nbytes == array.nbytes
        and sys.getrefcount(base) <= _REFERENCES_OF_A_NAMED_ITEM
    )


def _references_of_a_named_item() -> int:
    container = [object()]
    item = container[0]
    return sys.getrefcount(item)


_REFERENCES_OF_A_NAMED_ITEM = _references_of_a_named_item()
"""The result of `sys.getrefcount` for an object that one container and one variable refer to."""
