"""PyTorch's functions and methods of traced tensors: those that move. Arguments are PyTorch's own, but for `out`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from anydml.tracing import numpy_axes, torch_axes, torch_joins, torch_picks
from anydml.tracing.refusing import broken, named, refused
from anydml.tracing.structure import leaves
from anydml.tracing.trace import Trace, TracedArray


def called(trace: Trace, name: str, arguments: Sequence[Any], keywords: dict[str, Any]) -> Any:
    """What one of PyTorch's functions, or methods, gives.

    Raises:
        FuseError: it computes, or its arguments do not fit.
    """
    known = _KNOWN.get(name)
    if known is None:
        raise refused(f"torch's {name} of a traced tensor", "it is none of the functions that move elements only")
    call, parameters = known
    given = {parameters.get(key, key): value for key, value in keywords.items()}
    if given.pop("out", None) is not None:
        raise refused("an assignment into out", "take the result instead")
    with named(f"torch's {name}"):
        return call(trace, *arguments, **given)


def trace_of(tree: Any) -> Trace:
    """The trace of the first traced array in a structure."""
    for leaf in leaves(tree):
        if isinstance(leaf, TracedArray):
            return leaf.trace
    raise broken("a call of traced arrays without one")


def _of(call: Callable[..., Any]) -> Callable[..., Any]:
    """A function whose first argument is a tensor."""

    def given(trace: Trace, *arguments: Any, **keywords: Any) -> Any:
        x, *rest = arguments or (keywords.pop("input"),)
        return call(trace.array(x), *rest, **keywords)

    return given


def _listed(call: Callable[..., Any], parameter: str) -> Callable[..., Any]:
    """A method whose numbers may be given one by one, or as a list."""

    def given(trace: Trace, *arguments: Any, **keywords: Any) -> Any:
        x, *numbers = arguments if arguments else (keywords.pop("input"),)
        if parameter in keywords:
            numbers = [keywords.pop(parameter)]
        is_list = len(numbers) == 1 and isinstance(numbers[0], (list, tuple))
        return call(trace.array(x), [*numbers[0]] if is_list else numbers, **keywords)

    return given


def _same(x: TracedArray, *arguments: Any, **keywords: Any) -> TracedArray:
    """The same: results of a fused function are always new."""
    return x


AXES = {"axis": "dim", "self": "input"}
"""Names of parameters that PyTorch takes from NumPy's users."""

_DIMS = {"axis": "dims", "axes": "dims", "self": "input", "dim": "dims"}
_SIZE = {"sizes": "size", "self": "input"}
_TWO = {"axis0": "dim0", "axis1": "dim1", "self": "input"}

_KNOWN: dict[str, tuple[Callable[..., Any], dict[str, str]]] = {}


def _add(calls: dict[str, Callable[..., Any]], parameters: dict[str, str] = AXES) -> None:
    _KNOWN.update({name: (call, parameters) for name, call in calls.items()})


_add({"__getitem__": lambda trace, x, key: trace.array(x)[key]})
_add(
    {
        "permute": _listed(torch_axes.permute, "dims"),
        "permute_copy": _listed(torch_axes.permute, "dims"),
        "flip": _listed(torch_axes.flip, "dims"),
        "roll": _of(torch_axes.roll),
        "rot90": _of(torch_axes.rot90),
        "tile": _listed(torch_axes.tile, "dims"),
    },
    _DIMS,
)
_add(dict.fromkeys(("transpose", "swapaxes", "swapdims"), _of(torch_axes.transpose)), _TWO)
_add(dict.fromkeys(("movedim", "moveaxis"), _of(numpy_axes.moveaxis)))
_add(dict.fromkeys(("expand", "broadcast_to", "expand_copy"), _listed(torch_axes.expand, "size")), _SIZE)
_add({"repeat": _listed(torch_axes.repeat, "repeats")}, {"sizes": "repeats"})
_add(
    {
        "reshape": _listed(torch_axes.reshape, "shape"),
        "view": _listed(torch_axes.reshape, "shape"),
        "view_copy": _listed(torch_axes.reshape, "shape"),
        "ravel": _of(numpy_axes.ravel),
    },
    {"size": "shape", "self": "input"},
)
_add(
    {
        "t": _of(torch_axes.t),
        "fliplr": _of(lambda x: torch_axes.flip(x, [1])),
        "flipud": _of(lambda x: torch_axes.flip(x, [0])),
        "flatten": _of(torch_axes.flatten),
        "unflatten": _of(torch_axes.unflatten),
        "squeeze": _of(torch_axes.squeeze),
        "unsqueeze": _of(torch_axes.unsqueeze),
        "view_as": _of(lambda x, other: torch_axes.reshape(x, other.shape)),
        "reshape_as": _of(lambda x, other: torch_axes.reshape(x, other.shape)),
        "expand_as": _of(lambda x, other: torch_axes.expand(x, other.shape)),
        "broadcast_tensors": torch_axes.broadcast_tensors,
        "repeat_interleave": _of(torch_axes.repeat_interleave),
        "atleast_1d": torch_axes.at_least(1),
        "atleast_2d": torch_axes.at_least(2),
        "atleast_3d": torch_axes.at_least(3),
        "cat": torch_joins.cat,
        "concat": torch_joins.cat,
        "concatenate": torch_joins.cat,
        "stack": torch_joins.stack,
        "hstack": torch_joins.hstack,
        "vstack": torch_joins.vstack,
        "row_stack": torch_joins.vstack,
        "dstack": torch_joins.dstack,
        "column_stack": torch_joins.column_stack,
        "chunk": _of(torch_joins.chunk),
        "split": _of(torch_joins.split),
        "split_with_sizes": _of(torch_joins.split),
        "tensor_split": _of(torch_joins.tensor_split),
        "hsplit": torch_joins.split_at(1),
        "vsplit": torch_joins.split_at(0),
        "dsplit": torch_joins.split_at(2),
        "unbind": _of(torch_joins.unbind),
        "pad": _of(torch_joins.pad),
        "pixel_shuffle": _of(torch_axes.pixel_shuffle),
        "pixel_unshuffle": _of(torch_axes.pixel_unshuffle),
        "channel_shuffle": _of(torch_axes.channel_shuffle),
        "unfold": torch_picks.unfold,
        "narrow": _of(torch_picks.narrow),
        "select": _of(torch_picks.select),
        "index_select": torch_picks.index_select,
        "gather": torch_picks.gather,
        "take_along_dim": torch_picks.take_along_dim,
        "take": torch_picks.take,
        "embedding": torch_picks.embedding,
        "zeros_like": _of(torch_picks.like(0)),
        "ones_like": _of(torch_picks.like(1)),
        "empty_like": _of(torch_picks.like(0)),
        "full_like": _of(torch_picks.full_like),
        "new_zeros": _listed(torch_picks.new(0), "size"),
        "new_ones": _listed(torch_picks.new(1), "size"),
        "new_empty": _listed(torch_picks.new(0), "size"),
        "new_full": _of(torch_picks.new_full),
        "numel": _of(lambda x: x.count),
        "to": _of(torch_picks.to),
        **dict.fromkeys(("clone", "contiguous", "detach", "cpu"), _of(_same)),
    }
)

METHODS = frozenset(
    {*_KNOWN, "adjoint"}
    - {"atleast_1d", "atleast_2d", "atleast_3d", "broadcast_tensors", "cat", "concat", "concatenate", "stack"}
    - {
        "hstack",
        "vstack",
        "row_stack",
        "dstack",
        "column_stack",
        "embedding",
        "pad",
        "pixel_shuffle",
        "pixel_unshuffle",
    }
    - {"channel_shuffle", "zeros_like", "ones_like", "empty_like", "full_like"}
)
"""Functions that are methods, too."""
