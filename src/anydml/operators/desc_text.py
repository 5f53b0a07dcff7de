"""Text of descs and their problems, for REPLs and notebooks."""

from __future__ import annotations

import itertools
import reprlib
from collections.abc import Callable, Iterable, Iterator
from typing import Any, ClassVar, Generic, TypeVar, cast

from anydml.records import Record
from anydml.tensor import MAX_DIMENSIONS, TensorDesc, TensorFlags

T = TypeVar("T")

MAX_SHOWN = 20
"""Maximum number of problems that a REPL shows."""

_SHORT = reprlib.Repr()
_SHORT.maxlist = MAX_DIMENSIONS


class Problems(Iterable[T], Generic[T]):
    """A lazy sequence of problems; every iteration checks again. ``repr`` shows the first ones, one per line."""

    __slots__ = ("_find",)

    def __init__(self, find: Callable[[], Iterator[T]]) -> None:
        self._find = find

    def __iter__(self) -> Iterator[T]:
        return self._find()

    def __bool__(self) -> bool:
        return next(self._find(), None) is not None

    def __repr__(self) -> str:
        first = [str(problem) for problem in itertools.islice(self._find(), MAX_SHOWN + 1)]
        if not first:
            return "no problems"
        return "\n".join([*first[:MAX_SHOWN], *(["and more"] if len(first) > MAX_SHOWN else [])])


class Printed(Record):
    """Base class with the printed forms of descs."""

    __slots__ = ()

    OPERATOR: ClassVar[str]
    INPUTS: ClassVar[tuple[str, ...]]
    OUTPUTS: ClassVar[tuple[str, ...]]

    def __repr__(self) -> str:
        # For example, ``SplitOperatorDesc(FLOAT32 [1, 1, 6, 2] → 3 × FLOAT32, axis 2)``.
        inputs, outputs = ([getattr(self, name) for name in names] for names in (self.INPUTS, self.OUTPUTS))
        tensors = [
            ", ".join(_tensor_text(value) for value in values if value is not None) for values in (inputs, outputs)
        ]
        moved = " → ".join(tensors) if tensors[0] else f"→ {tensors[1]}"
        fields = [f"{field} {_value_text(value)}" for field, value in self._other_fields() if value is not None]
        return f"{type(self).__name__}({', '.join([moved, *fields])})"

    def describe(self) -> str:
        """Describe every field, one per line, with the strides and bytes of each tensor."""
        lines = []
        for field in (*self.INPUTS, *self.OUTPUTS):
            value = getattr(self, field)
            if isinstance(value, TensorDesc):
                lines.append((field, _tensor_line(value)))
            elif value is None:
                lines.append((field, "None"))
            else:
                lines += [(f"{field}[{i}]", _tensor_line(tensor)) for i, tensor in enumerate(value)]
        lines += [(field, _value_text(value)) for field, value in self._other_fields()]
        width = max(len(name) for name, _ in lines)
        texts = [f"  {name:{width}}  {text}" for name, text in lines]
        return "\n".join([f"{type(self).__name__} ({self.OPERATOR})", *texts])

    def _other_fields(self) -> Iterator[tuple[str, Any]]:
        for name in cast(Any, self).__match_args__:
            if name not in (*self.INPUTS, *self.OUTPUTS):
                yield name, getattr(self, name)


def _tensor_text(value: TensorDesc | tuple[TensorDesc, ...]) -> str:
    if isinstance(value, TensorDesc):
        return f"{value.data_type} {list(value.sizes)}"
    types = {tensor.data_type for tensor in value}
    return f"{len(value)} × {types.pop() if len(types) == 1 else 'tensors'}"


def _tensor_line(tensor: TensorDesc) -> str:
    parts = [_tensor_text(tensor)]
    parts.append("packed" if tensor.strides is None else f"strides {list(tensor.strides)}")
    if tensor.strides is None or len(tensor.sizes) == len(tensor.strides):
        parts.append(f"{tensor.size_in_bytes} bytes")
    if tensor.guaranteed_base_offset_alignment:
        parts.append(f"aligned to {tensor.guaranteed_base_offset_alignment}")
    if tensor.flags & TensorFlags.OWNED_BY_DML:
        parts.append("OWNED_BY_DML")
    return ", ".join(parts)


def _value_text(value: Any) -> str:
    # NamedTuples are shown with their field names.
    if isinstance(value, tuple) and not hasattr(value, "_fields"):
        return _SHORT.repr([*value])
    return str(value)
