"""Fake kernels, which check arguments and return results without memory. Sizes may be symbols.

They share their checks with the functions on arrays, so that eager and compiled programs raise identical errors.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch

from anydml import infer
from anydml.arrays.pytorch import MOVABLE_DEVICES, TorchAdapter
from anydml.arrays.receive import check_alike, check_host, check_place
from anydml.fields import integer
from anydml.functions.argument_conversion import check_data, check_mask, check_word, index_dtype_error
from anydml.moves.sizing import Integers
from anydml.moves.verbs import Maker, View
from anydml.operators.function import Function, Inferred
from anydml.operators.split import split_rule
from anydml.operators.split_training import check_list
from anydml.symbols import holds, is_symbol

_INTEGERS = frozenset(
    (torch.uint8, torch.uint16, torch.uint32, torch.uint64, torch.int8, torch.int16, torch.int32, torch.int64)
)
"""Dtypes of indices and sizes."""


def fake_kernel(function: Function) -> Callable[..., Any]:
    """Return the fake kernel of a function."""
    if function.name in _SPECIAL:
        return _SPECIAL[function.name]

    def kernel(*arguments: Any) -> Any:
        values = function.with_defaults(arguments)
        arrays = values[0] if function.is_of_lists else [values[0]]
        _check(function, values)
        shapes = infer_results(function, values).shapes
        data = [
            value for value, parameter in zip(values, function.parameters, strict=True) if parameter.kind == "Array"
        ]
        like = (data or arrays)[0]
        results = [like.new_empty(shape) for shape in shapes]
        if function.lengths is not None:
            return results[0], like.new_empty((len(arrays),), dtype=torch.int64, device="cpu")
        return results if function.has_parts else results[0]

    return kernel


def infer_results(function: Function, values: Sequence[Any]) -> Inferred:
    """Infer the shapes of a function's results from its arguments.

    Raises:
        DescError: the function refuses the shapes or arguments.
    """
    data: list[Any] = []
    indices: list[Any] = []
    dtypes: list[Any] = []
    parameters: list[Any] = []
    for parameter, value in zip(function.parameters, values, strict=True):
        if parameter.kind == "Arrays":
            data += [tuple(tensor.shape) for tensor in value]
        elif parameter.kind == "Array":
            data.append(tuple(value.shape))
        elif parameter.kind == "Indices":
            indices.append(tuple(value.shape))
            is_known = value.dtype in _INTEGERS
            dtypes.append(np.dtype(_name(value.dtype)) if is_known else np.dtype(np.int64))
        elif parameter.kind == "Mask":
            indices.append(tuple(value.shape))
            dtypes.append(np.dtype(np.bool_))
        else:
            parameters.append(tuple(value) if isinstance(value, list) else value)
    return function.infer(function.name, [*data, *indices], (*parameters, *dtypes))


def _check(function: Function, values: Sequence[Any]) -> None:
    """Check devices, layouts and dtypes of tensors, and words such as ``"clamp"``.

    Raises:
        BindingError: a tensor cannot be read, or devices differ.
        DescError: dtypes differ, indices are not integers, or a word is unknown.
    """
    label = function.name
    first: TorchAdapter | None = None
    data: dict[str, Any] = {}
    for parameter, value in zip(function.parameters, values, strict=True):
        field = parameter.name
        if parameter.kind == "Arrays":
            if value:
                check_alike(label, [TorchAdapter(tensor) for tensor in value])
            for i, tensor in enumerate(value):
                _adapter(label, f"{field}[{i}]", tensor)
            continue
        if parameter.kind == "Literal":
            check_word(label, field, value, parameter.words)
        if not parameter.is_array:
            continue
        if first is not None:
            check_place(label, field, TorchAdapter(value), first, function.parameters[0].name)
        adapter = _adapter(label, field, value)
        first = first or adapter
        if parameter.kind == "Mask":
            check_mask(label, field, _name(value.dtype))
        elif parameter.kind == "Indices":
            if not is_integer(value.dtype, value.shape):
                raise index_dtype_error(label, field, _name(value.dtype))
        else:
            data[field] = value
    if data:
        check_data(label, [*data], [*data.values()])


def _split_training(x: Any, split: Any, axis: int = 0, num_outputs: int | None = None) -> list[Any]:
    """Return equal parts, or parts whose sizes are new symbols that add up to the size of the axis."""
    name = "split_training"
    _adapter(name, "x", x)
    axis = infer.axis_of(name, x.ndim, axis)
    axis_size = x.shape[axis]
    check_host(name, "split", _adapter(name, "split", split, MOVABLE_DEVICES), split.device.type == "cpu")
    shape = tuple(map(int, split.shape))
    check_list(name, shape, _name(split.dtype), is_integer(split.dtype, shape), num_outputs)
    if not shape[0]:
        return _parts(
            x, infer.equal_parts(name, integer(name, "num_outputs", num_outputs), axis_size, axis, "num_outputs"), axis
        )
    if type(split) is torch.Tensor:
        # A real tensor: only x is fake.
        return _parts(x, infer.part_sizes(name, split.tolist(), axis_size, axis, "split"), axis)
    context = torch.library.get_ctx()
    sizes = [context.new_dynamic_size() for _ in range(shape[0])]
    holds(sum(sizes) == axis_size)
    return _parts(x, sizes, axis)


_SPECIAL: dict[str, Callable[..., Any]] = {"split_training": _split_training}
"""Fake kernels of functions whose shapes depend on data."""


def _adapter(name: str, field: str, tensor: Any, devices: tuple[str, ...] = (*MOVABLE_DEVICES, "meta")) -> TorchAdapter:
    adapter = TorchAdapter(tensor)
    adapter.check_kind(name, field, devices)
    return adapter


def _parts(x: Any, sizes: Sequence[int], axis: int) -> list[Any]:
    make = Maker()
    split_rule(make, View(tuple(x.shape)), Integers(sizes), axis)
    return [x.new_empty(shape) for shape in make.shapes]


def is_integer(dtype: Any, shape: Any) -> bool:
    """Return whether a tensor can be indices: of an integer dtype, or empty, as PyTorch reads an empty list."""
    return dtype in _INTEGERS or any(not is_symbol(size) and size == 0 for size in shape)


def _name(dtype: Any) -> str:
    return str(dtype).removeprefix("torch.")
