"""The features of a call, as text, and those that the cases of an operator must reach: types, ranks, options, edges."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from anydml.referee.nodes import Array
from anydml.referee.webnn.call_rules import INDICES
from anydml.referee.webnn.operators import RESAMPLED, TYPES, WEBNN, Call

MAX_RANK = 4
"""Ranks that the cases must reach; some have more."""

TENSORS: Mapping[str, Mapping[str, Sequence[str]]] = {
    **{name: {"input": TYPES} for name in WEBNN},
    "concat": {"inputs": TYPES},
    "resample2d": {"input": tuple(kind.__name__ for kind in RESAMPLED)},
    "where": {"condition": ("uint8",), "trueValue": TYPES, "falseValue": TYPES},
    **{name: {"input": TYPES, "indices": INDICES} for name in ("gather", "gatherElements", "gatherND")},
    **{name: {"input": TYPES, "indices": INDICES, "updates": TYPES} for name in ("scatterElements", "scatterND")},
}
"""The types that WebNN lists for the tensors of each operator."""

MIN_RANKS: Mapping[str, int] = {
    "concat": 1, "gather": 1, "gatherElements": 1, "gatherND": 1, "scatterElements": 1, "scatterND": 1, "split": 1,
    "triangular": 2, "resample2d": 4,
}  # fmt: skip
"""The least ranks of first tensors, but 0."""

OPTIONS: Mapping[str, Sequence[str]] = {
    **dict.fromkeys(("gather", "gatherElements", "scatterElements", "split"), ("axis",)),
    "pad": ("mode", "value"),
    "resample2d": ("mode", "scales", "sizes", "axes"),
    "reverse": ("axes",),
    "slice": ("strides",),
    "transpose": ("permutation",),
    "triangular": ("upper", "diagonal"),
}
"""The options that each operator has."""

VALUES: Mapping[str, Sequence[str]] = {
    "pad": ("mode=constant", "mode=edge", "mode=reflection"),
    "resample2d": ("mode=nearest-neighbor",),
    "triangular": ("upper=True", "upper=False", "diagonal below 0", "diagonal above 0"),
    "slice": ("starts first", "the last element is in a window"),
    "split": ("splits is a number", "splits is a list"),
}


def reachable_features(name: str) -> tuple[str, ...]:
    """Return the features that the cases of an operator must reach."""
    tensors, first = TENSORS[name], next(iter(TENSORS[name]))
    names = [f"{tensor} is {kind}" for tensor, kinds in tensors.items() for kind in kinds]
    names += [f"{first} of rank {rank}" for rank in range(MIN_RANKS.get(name, 0), MAX_RANK + 1)]
    names += [f"{option} {how}" for option in OPTIONS.get(name, ()) for how in ("given", "omitted")]
    names += VALUES.get(name, ())
    if name == "concat" or "axis" in OPTIONS.get(name, ()):
        names += ["axis first", "axis last"]
    if "indices" in tensors:
        names += ["indices first", "indices last", "indices below 0"]
    return tuple(names)


def features_of(name: str, call: Call) -> tuple[str, ...]:
    """Return the features of a call, in words."""
    return tuple(dict.fromkeys(_features(name, call)))


def _features(name: str, call: Call) -> Iterator[str]:
    for tensor, input_number in call.tensors.items():
        value = call.node.array(input_number)
        plain = tensor.partition("[")[0]
        yield f"{plain} is {value.dtype.name}"
        yield f"{plain} of rank {value.ndim}"
        if 1 in value.shape:
            yield f"{plain} has a size of 1"
    x, options = call.node.array(0), call.options
    for option in OPTIONS.get(name, ()):
        option_value = options.get(option)
        yield f"{option} {'omitted' if option_value is None else 'given'}"
        if isinstance(option_value, str | bool):
            yield f"{option}={option_value}"
    if diagonal := options.get("diagonal"):
        yield f"diagonal {'below' if diagonal < 0 else 'above'} 0"
    axis = call.arguments.get("axis", options.get("axis", 0))
    if name == "concat" or "axis" in OPTIONS.get(name, ()):
        yield from (f"axis {end}" for end, at in (("first", 0), ("last", x.ndim - 1)) if axis == at)
    if "indices" in call.tensors:
        yield from _of_indices(call.node.array(call.tensors["indices"]), x, axis, name.endswith("ND"))
    if name == "slice":
        windows = [*zip(call.arguments["starts"], call.arguments["sizes"], x.shape, strict=False)]
        if any(start == 0 for start, *_ in windows):
            yield "starts first"
        if any(start + size == n for start, size, n in windows):
            yield "the last element is in a window"
    if name == "split":
        yield f"splits is a {'number' if isinstance(call.arguments['splits'], int) else 'list'}"


def _of_indices(indices: Array, x: Array, axis: int, is_nd: bool) -> Iterator[str]:
    """Whether the first and the last element are taken, from either end."""
    if not indices.size or axis >= x.ndim:
        return
    signed = indices.astype("int64")
    columns = [*zip(signed.reshape(-1, signed.shape[-1]).T, x.shape, strict=False)] if is_nd else [
        (signed, x.shape[axis])
    ]  # fmt: skip
    if any((column == 0).any() for column, _ in columns):
        yield "indices first"
    if any((column == size - 1).any() for column, size in columns):
        yield "indices last"
    if (signed < 0).any():
        yield "indices below 0"
