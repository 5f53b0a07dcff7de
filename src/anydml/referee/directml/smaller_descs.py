"""Smaller cases of DirectML: descs with plain tensors and fewer sizes, and simpler numbers."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from anydml.device import Device
from anydml.errors import AnydmlError
from anydml.feature_level import FeatureLevel
from anydml.operators.enums import NamedEnum
from anydml.operators.problem import camel
from anydml.referee.cases import are_equal
from anydml.referee.directml.cases import DirectmlCase, desc_of, make_case, tensor_view, write_directml
from anydml.referee.directml.contents import are_decided, is_decided
from anydml.referee.directml.model_folders import StoredDirectml, without_undefined
from anydml.referee.smaller_nodes import as_text, part_of
from anydml.tensor import DataType, TensorDesc, TensorFlags

Arrays = list[Any]


def case_of(stored: StoredDirectml) -> DirectmlCase:
    """Return the case of a folder."""
    desc: Any = stored.desc()
    resources = json.loads(stored.model.read_text("utf-8"))["resources"]
    views = [tensor_view(_flat(resources[name]["initialValues"], tensor), tensor) for name, tensor in desc.inputs]
    level = FeatureLevel.parse(stored.about["feature_level"])
    return _case(stored.name, stored.about["operator"].lower(), desc, level, views)


def _flat(values: Sequence[Any], tensor: TensorDesc) -> Any:
    numbers = [float(value) if isinstance(value, str) else value for value in values]
    return np.array(numbers, tensor.data_type.dtype)


def write_alone(case: DirectmlCase, folder: Path) -> Path:
    """Write a case to a folder of its own; return the folder."""
    write_directml(case, folder)
    return folder / case.name


def lines_of(case: DirectmlCase) -> Iterator[str]:
    """Yield a case as lines to paste."""
    fields = {name: value for name, value in desc_of(case.desc).items() if "Tensor" not in name}
    yield f"DML_OPERATOR_{case.operator.upper()} {fields or ''}".rstrip()
    for (name, tensor), flat in zip(case.desc.inputs, case.inputs, strict=True):
        yield f"{name}{_layout(tensor)}: {as_text(tensor_view(flat, tensor))}"
    for name, tensor in case.desc.outputs:
        yield f"{name}{_layout(tensor)}: {tensor.data_type} {[*tensor.sizes]}"


def _layout(tensor: TensorDesc) -> str:
    strides = "" if tensor.strides is None else f" of strides {[*tensor.strides]}"
    return strides + (f", {tensor.flags.name}" if tensor.flags else "")


def _case(name: str, operator: str, desc: Any, level: FeatureLevel, views: Arrays) -> DirectmlCase:
    def write(targets: list[Any]) -> None:
        for target, view in zip(targets, views, strict=True):
            target[...] = view

    return make_case(name, operator, desc, level, write)


def smaller_cases(case: DirectmlCase) -> Iterator[DirectmlCase | None]:
    """Yield cases that are a little smaller than one; None for a desc that is not valid."""
    views = [tensor_view(flat, tensor) for flat, (_, tensor) in zip(case.inputs, case.desc.inputs, strict=True)]
    for desc, arrays in _smaller_fields(case.desc, views):
        yield _valid(case, desc, arrays)


def _valid(case: DirectmlCase, desc: Any, arrays: Arrays) -> DirectmlCase | None:
    """Return the case of a desc if rules at its level allow it, its results are decided, and anydml agrees."""
    if any(True for _ in desc.problems(case.level)) or not is_decided(desc, case.level):
        return None
    shapes = [tensor.sizes for _, tensor in desc.inputs]
    if [array.shape for array in arrays] != shapes or not are_decided(desc, arrays):
        return None
    smaller = _case(case.name, case.operator, desc, case.level, arrays)
    tensors = [tensor for _, tensor in (*desc.inputs, *desc.outputs)]
    memory = [np.zeros(-(-tensor.size_in_bytes // 8) * 8, np.uint8) for tensor in tensors]
    first = len(arrays)
    for target, content in zip(memory, smaller.inputs, strict=False):
        target[:] = content.view(np.uint8)
    Device("cpu").compile_operator(desc).bind(memory[:first], memory[first:]).dispatch()
    results = [
        tensor_view(array.view(t.data_type.dtype), t) for array, t in zip(memory[first:], tensors[first:], strict=True)
    ]
    agree = all(map(are_equal, without_undefined(desc, results), without_undefined(desc, [*smaller.outputs])))
    return smaller if agree else None


def _tensors(desc: Any) -> dict[str, TensorDesc]:
    """Return the fields of a desc that are tensors, one entry per tensor of a list, named as those of `inputs`."""
    return dict((*desc.inputs, *desc.outputs))


def _replace_tensors(desc: Any, tensors: dict[str, TensorDesc], **fields: Any) -> Any:
    """Return the desc with other tensors and fields; None if no such desc can exist."""
    for field in dataclasses.fields(desc):
        value, name = getattr(desc, field.name), camel(field.name)
        if isinstance(value, TensorDesc) and name in tensors:
            fields[field.name] = tensors[name]
        elif isinstance(value, tuple) and value and isinstance(value[0], TensorDesc):
            fields[field.name] = [tensors[f"{name}[{k}]"] for k in range(len(value)) if f"{name}[{k}]" in tensors]
    try:
        return dataclasses.replace(desc, **fields)
    except (AnydmlError, ValueError, TypeError):
        return None


def _simplify_tensor(tensor: TensorDesc, how: int) -> TensorDesc:
    """Return a tensor that is packed, not OWNED_BY_DML, and as small as possible, or has one of these properties."""
    strides = None if how in (0, 1) else tensor.strides
    flags = TensorFlags.NONE if how in (0, 2) else tensor.flags
    return TensorDesc(tensor.data_type, tensor.sizes, strides, flags)


def _smaller_fields(desc: Any, arrays: Arrays) -> Iterator[tuple[Any, Arrays]]:
    tensors = _tensors(desc)
    for how in range(3):
        plain = {name: _simplify_tensor(tensor, how) for name, tensor in tensors.items()}
        for names in ([*tensors], *([name] for name in tensors)):
            changed = {name: plain[name] if name in names else tensor for name, tensor in tensors.items()}
            if changed != tensors and (changed_desc := _replace_tensors(desc, changed)) is not None:
                yield changed_desc, arrays
    yield from _of_fewer_sizes(desc, arrays, tensors)
    for field in dataclasses.fields(desc):
        before = getattr(desc, field.name)
        for value in _simpler(before):
            for changed in (tensors, *_adjust_outputs(desc, tensors, before, value)):
                if (changed_desc := _replace_tensors(desc, changed, **{field.name: value})) is not None:
                    yield changed_desc, arrays
    yield from _of_plain_elements(desc, arrays, tensors)


def _adjust_outputs(
    desc: Any, tensors: dict[str, TensorDesc], before: Any, after: Any
) -> Iterator[dict[str, TensorDesc]]:
    """Yield tensors whose outputs follow from the inputs by one number per dimension: by a sum, or by a product."""
    (name, output), *_ = desc.outputs
    if not isinstance(before, tuple) or len(before) != len(output.sizes):
        return
    (k,) = (k for k, (a, b) in enumerate(zip(before, after, strict=True)) if a != b)
    for size in (output.sizes[k] - before[k] + after[k], output.sizes[k] * after[k] // before[k]):
        if isinstance(size, int) and 0 < size < output.sizes[k]:
            yield {**tensors, name: _resize_tensor(output, len(before) - k, size)}


def _of_fewer_sizes(desc: Any, arrays: Arrays, tensors: dict[str, TensorDesc]) -> Iterator[tuple[Any, Arrays]]:
    """Yield descs with one dimension less, or a shorter dimension, in all tensors and lists that have the dimension."""
    names = [name for name, _ in desc.inputs]
    rank = max(len(tensor.sizes) for tensor in tensors.values())
    for back in range(1, rank + 1):
        olds = sorted({tensor.sizes[-back] for tensor in tensors.values() if len(tensor.sizes) >= back})
        if olds == [1]:
            dropped = {name: _resize_tensor(tensor, back, None) for name, tensor in tensors.items()}
            changed_desc = _replace_tensors(desc, dropped, **_lists(desc, rank, rank - back, 1, None))
            if changed_desc is not None:
                fewer = [a.reshape(dropped[name].sizes) for a, name in zip(arrays, names, strict=True)]
                yield changed_desc, fewer
        for old in olds:
            for new in dict.fromkeys((1, old // 2, old - 1)) if old > 1 else ():
                yield from _shorten_dimension(desc, arrays, tensors, back, old, new)


def _shorten_dimension(
    desc: Any, arrays: Arrays, tensors: dict[str, TensorDesc], back: int, old: int, new: int
) -> Iterator[tuple[Any, Arrays]]:
    """Yield tensors that are shorter along a dimension, and outputs that follow them by a sum or a product."""
    names = [name for name, _ in desc.inputs]
    same_size = [
        name for name, tensor in tensors.items() if tensor.sizes[-back:][:1] == (old,) and len(tensor.sizes) >= back
    ]
    other_names = [name for name in tensors if name not in same_size and len(tensors[name].sizes) >= back]
    rank = max(len(tensor.sizes) for tensor in tensors.values())
    for group in (same_size, *([name] for name in same_size if len(same_size) > 1)):
        sizes = dict.fromkeys(group, new)
        for follow in (
            {},
            {name: tensors[name].sizes[-back] - old + new for name in other_names},
            {name: tensors[name].sizes[-back] * new // old for name in other_names},
        ):
            new_sizes = {**sizes, **{name: size for name, size in follow.items() if size > 0}}
            changed = {
                name: _resize_tensor(tensor, back, new_sizes[name]) if name in new_sizes else tensor
                for name, tensor in tensors.items()
            }
            for lists in ({}, _lists(desc, rank, rank - back, old, new)):
                changed_desc = _replace_tensors(desc, changed, **lists)
                if changed_desc is not None:
                    parts = [_part(a, changed[name].sizes) for a, name in zip(arrays, names, strict=True)]
                    yield changed_desc, parts


def _part(array: Any, sizes: Sequence[int]) -> Any:
    """Return the first elements of an array; the array itself where it has fewer."""
    return part_of(array[tuple(slice(0, size) for size in sizes)], array) if len(sizes) == array.ndim else array


def _resize_tensor(tensor: TensorDesc, back: int, size: int | None) -> TensorDesc:
    """Return a packed tensor with another size, or without the dimension."""
    if len(tensor.sizes) < back or (size is None and len(tensor.sizes) == 1):
        return tensor
    at = len(tensor.sizes) - back
    between = () if size is None else (size,)
    return TensorDesc(tensor.data_type, [*tensor.sizes[:at], *between, *tensor.sizes[at + 1 :]], None, tensor.flags)


def _lists(desc: Any, rank: int, axis: int, old: int, new: int | None) -> dict[str, Any]:
    """Return lists per dimension with the new size of an axis or without the axis, and the axis."""
    fields: dict[str, Any] = {}
    for field in dataclasses.fields(desc):
        value = getattr(desc, field.name)
        if new is None and field.name == "axis" and value > axis:
            fields["axis"] = value - 1
        if not isinstance(value, tuple) or len(value) != rank or isinstance(value[0], TensorDesc):
            continue
        if new is None:
            fields[field.name] = [*value[:axis], *value[axis + 1 :]]
        elif isinstance(value[axis], int) and value[axis] > new:
            fields[field.name] = [*value[:axis], new, *value[axis + 1 :]]
    return fields


def _simpler(value: Any) -> Iterator[Any]:
    """Yield numbers nearer to 0."""
    match value:
        case bool() | NamedEnum() | DataType():
            return
        case int() | float():
            yield from (number for number in dict.fromkeys((0, 1, int(value) // 2)) if abs(number) < abs(value))
        case tuple() if not hasattr(value, "_fields") and not any(isinstance(item, TensorDesc) for item in value):
            for k, element in enumerate(value):
                yield from ([*value[:k], number, *value[k + 1 :]] for number in _simpler(element))
        case _:
            return


def _of_plain_elements(desc: Any, arrays: Arrays, tensors: dict[str, TensorDesc]) -> Iterator[tuple[Any, Arrays]]:
    """Yield indices of 0, and elements that count, of FLOAT32."""
    names = [name for name, _ in desc.inputs]
    for k, name in enumerate(names):
        if name in ("IndicesTensor", "SequenceLengthsTensor", "ConditionTensor"):
            for at in np.argwhere(arrays[k] != 0):
                changed = arrays[k].copy()
                changed[(*at,)] = 0
                yield desc, [*arrays[:k], changed, *arrays[k + 1 :]]
    data_type = desc.outputs[-1][1].data_type
    same_type = [name for name, tensor in tensors.items() if tensor.data_type == data_type and name != "IndicesTensor"]
    if data_type != DataType.FLOAT32:
        plain = {
            name: TensorDesc("FLOAT32", tensor.sizes, tensor.strides, tensor.flags) if name in same_type else tensor
            for name, tensor in tensors.items()
        }
        fields = {f.name: DataType.FLOAT32 for f in dataclasses.fields(desc) if f.name == "value_data_type"}
        if (changed_desc := _replace_tensors(desc, plain, **fields)) is not None:
            counted = [
                np.arange(1, a.size + 1, dtype=np.float32).reshape(a.shape) if name in same_type else a
                for a, name in zip(arrays, names, strict=True)
            ]
            yield changed_desc, counted
