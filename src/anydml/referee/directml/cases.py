"""Cases of DirectML's operators: a desc that a level allows, contents, and what its document's formula gives."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.random import Generator

from anydml.device import Device
from anydml.errors import ModelError
from anydml.feature_level import FeatureLevel
from anydml.operators import FillValueSequenceOperatorDesc, JoinOperatorDesc, OperatorDesc
from anydml.operators.enums import NamedEnum, Size2D
from anydml.operators.problem import camel
from anydml.referee.case_selection import draw_missing
from anydml.referee.directml.breaking import broken
from anydml.referee.directml.contents import fill, is_decided
from anydml.referee.directml.features import EDGES, features_of, levels_of, of_indices, reachable_features
from anydml.referee.directml.page_sentences import SENTENCES, document, questions, sentence
from anydml.referee.directml.random_descs import DRAWS
from anydml.referee.directml.random_tensors import collides
from anydml.referee.external_engines import WRITTEN
from anydml.tensor import DataType, TensorDesc, TensorFlags
from anydml.text import did_you_mean

TRIES = 400
"""Descs that are drawn for a level that allows few, before another level is taken."""

MODEL, ABOUT, EXPECTED = "model.json", "case.json", "expected_{}.npy"


class DirectmlCase(NamedTuple):
    """A case of DirectML.

    Attributes:
        name: the case's name, unique among those of one call.
        operator: the operator's name in small letters.
        desc: the desc.
        level: the feature level, which allows the desc.
        inputs: the memory of the inputs, as elements of their types.
        outputs: the results, in the sizes of the outputs; none of an invalid case.
        sentence: the sentence that decides it; for an invalid case, the rule that is broken.
        features: the case's features, for coverage and for causes.
        broken: the field whose rule an invalid case breaks; empty if it is valid.
    """

    name: str
    operator: str
    desc: OperatorDesc
    level: FeatureLevel
    inputs: tuple[Any, ...]
    outputs: tuple[Any, ...]
    sentence: str
    features: tuple[str, ...]
    broken: str = ""

    @property
    def document(self) -> str:
        """The document that decides."""
        return document(self.operator)


def operator_names(names: Sequence[str]) -> list[str]:
    """Return DirectML's operators by names in any case, with or without `DML_OPERATOR_`; all if there are no names.

    Raises:
        ModelError: there is no such operator.
    """
    chosen = []
    for name in names:
        plain = name.lower().removeprefix("dml_operator_").replace("scatter_elements", "scatter")
        if plain not in SENTENCES:
            supported = ", ".join(name.upper() for name in SENTENCES)
            raise ModelError(
                f"there are no cases of {name!r}{did_you_mean(name, map(str.upper, SENTENCES))}",
                rule=f"DirectML's operators are {supported}",
            )
        chosen.append(plain)
    return [*dict.fromkeys(chosen)] or [*SENTENCES]


def directml_cases(
    names: Sequence[str] = (), count: int = 1000, seed: int = 0, is_valid: bool = True
) -> Iterator[DirectmlCase]:
    """Draw cases, operator by operator.

    Args:
        names: operators; all by default.
        count: the number of cases, shared among the operators.
        seed: gives the same cases again.
        is_valid: False for cases that break one rule each, at every level.

    Raises:
        ModelError: there is no such operator.
    """
    chosen = operator_names(names)
    for k, name in enumerate(chosen):
        missing = {*reachable_features(name)} - {*EDGES}
        share = count * (k + 1) // len(chosen) - count * k // len(chosen)
        for case_number in range(share):
            rng = np.random.default_rng([seed, case_number, *map(ord, name)])
            case = f"{name.upper()}_{case_number:05d}"
            if not is_valid:
                yield _invalid(case, name, rng)
                continue
            desc, level = draw_missing(
                partial(draw_desc, name, rng),
                lambda desc_and_level: features_of(*desc_and_level),
                missing,
                case_number,
                share,
            )
            yield make_case(case, name, desc, level, partial(fill, rng, desc))


def draw_desc(name: str, rng: Generator) -> tuple[OperatorDesc, FeatureLevel]:
    """Return a desc whose results are decided by its document, and a level that allows the desc."""
    level: FeatureLevel | None = None
    for k in range(TRIES):
        desc: Any = DRAWS[name](rng)
        levels = levels_of(desc)
        level = level or levels[int(rng.integers(len(levels)))]
        if isinstance(desc, FillValueSequenceOperatorDesc) and rng.random() < 0.8:
            start, delta = int(rng.integers(0, 40)), int(rng.integers(-3, 4))
            desc = dataclasses.replace(desc, value_start=start, value_delta=delta)
        desc = simplify(desc)
        if not is_decided(desc, level):
            continue
        if not any(True for _ in desc.problems(level)):
            return desc, level
        if k > TRIES // 10:
            level = FeatureLevel.LATEST
    raise AssertionError(f"no desc of {name} in {TRIES} tries")


def simplify(desc: Any) -> Any:
    """Return a desc whose indices share no memory, so that none is repeated, and whose inputs are bound at one time."""
    indices = getattr(desc, "indices_tensor", None)
    if indices is not None and collides(indices.sizes, indices.element_strides):
        return dataclasses.replace(desc, indices_tensor=TensorDesc(indices.data_type, indices.sizes))
    if isinstance(desc, JoinOperatorDesc):
        inputs = [dataclasses.replace(tensor, flags=TensorFlags.NONE) for tensor in desc.input_tensors]
        return dataclasses.replace(desc, input_tensors=inputs)
    return desc


def make_case(case: str, name: str, desc: Any, level: FeatureLevel, write: Callable[[list[Any]], None]) -> DirectmlCase:
    """Return a valid case of a desc.

    Args:
        case: the name of the case.
        name: the operator.
        desc: the desc.
        level: the feature level.
        write: writes the elements of the inputs to arrays in their sizes.
    """
    tensors = [tensor for _, tensor in (*desc.inputs, *desc.outputs)]
    memory = [*map(_memory, tensors)]
    flat = [array.view(tensor.data_type.dtype) for array, tensor in zip(memory, tensors, strict=True)]
    views = [*map(tensor_view, flat, tensors)]
    first = len(desc.inputs)
    # Elements of an input that share memory all have the value that is written last.
    write(views[:first])
    Device("reference").compile_operator(desc).bind(memory[:first], memory[first:]).dispatch()
    indices = [view for (field, _), view in zip(desc.inputs, views, strict=False) if field == "IndicesTensor"]
    outputs = tuple(view.copy() for view in views[first:])
    features = (*features_of(desc, level), *dict.fromkeys(of_indices(desc, views[:first])))
    return DirectmlCase(case, name, desc, level, tuple(flat[:first]), outputs, sentence(name, indices), features)


def _invalid(case: str, name: str, rng: Generator) -> DirectmlCase:
    for _ in range(TRIES):
        changed = broken(rng, draw_desc(name, rng)[0])
        if changed is None:
            continue
        desc, problem = changed
        flat = tuple(_memory(tensor).view(tensor.data_type.dtype) for _, tensor in desc.inputs)
        features = (f"breaks {problem.field}",)
        return DirectmlCase(case, name, desc, FeatureLevel.LATEST, flat, (), problem.rule, features, problem.field)
    raise AssertionError(f"no invalid case of {name} in {TRIES} tries")


def _memory(tensor: TensorDesc) -> Any:
    return np.zeros(-(-tensor.size_in_bytes // 8) * 8, np.uint8)


def tensor_view(flat: Any, tensor: TensorDesc) -> Any:
    """Return a tensor's elements in its memory, a view in its sizes.

    Args:
        flat: the memory, as elements.
        tensor: the desc.
    """
    strides = [stride * flat.itemsize for stride in tensor.element_strides]
    return np.lib.stride_tricks.as_strided(flat, tensor.sizes, strides)


def model_of(case: DirectmlCase) -> dict[str, Any]:
    """Return the model file of a case, for DxDispatch."""
    resources: dict[str, Any] = {}
    bound: dict[str, Any] = {}
    initial: dict[str, Any] = {}
    for (name, tensor), flat in zip(case.desc.inputs, case.inputs, strict=True):
        resources[name] = {"initialValuesDataType": str(tensor.data_type), "initialValues": [*map(_number, flat)]}
        _bind(initial if tensor.flags & TensorFlags.OWNED_BY_DML else bound, name)
    commands: list[dict[str, Any]] = []
    for k, (name, tensor) in enumerate(case.desc.outputs):
        count = -(-tensor.size_in_bytes // 8) * 8 // tensor.data_type.itemsize
        constant = {"valueCount": count, "value": 0}
        resources[name] = {"initialValuesDataType": str(tensor.data_type), "initialValues": constant}
        _bind(bound, name)
        commands.append({"type": "writeFile", "resource": name, "targetPath": WRITTEN.format(k)})
    operator: dict[str, Any] = {"type": f"DML_OPERATOR_{case.operator.upper()}", "desc": desc_of(case.desc)}
    if initial:
        operator["bindings"] = initial
    dispatch = {"type": "dispatch", "dispatchable": case.operator, "bindings": bound}
    return {"resources": resources, "dispatchables": {case.operator: operator}, "commands": [dispatch, *commands]}


def _bind(bindings: dict[str, Any], name: str) -> None:
    """Return the binding of a tensor to the resource of its name; arrays of tensors get a list."""
    field, is_array, _ = name.partition("[")
    if is_array:
        bindings.setdefault(field, []).append(name)
    else:
        bindings[name] = name


def _number(value: Any) -> Any:
    number = value.item()
    return number if isinstance(number, int) or math.isfinite(number) else str(number)


def desc_of(desc: OperatorDesc) -> dict[str, Any]:
    """Return a desc as DxDispatch's JSON has it."""
    fields: dict[str, Any] = {}
    for field in dataclasses.fields(desc):  # type: ignore[arg-type]  # every desc is a dataclass
        value, name = getattr(desc, field.name), camel(field.name)
        if isinstance(value, tuple) and not isinstance(value, Size2D):
            count = name.removesuffix("Tensors") + "Count" if value and isinstance(value[0], TensorDesc) else ""
            fields |= {count: len(value)} if count else {"DimensionCount": len(value)}
            fields[name] = [_field(item) for item in value]
        else:
            fields[name] = _field(value)
    return fields


def _field(value: Any) -> Any:
    match value:
        case TensorDesc():
            fields: dict[str, Any] = {"DataType": str(value.data_type), "Sizes": [*value.sizes]}
            if value.strides is not None:
                fields["Strides"] = [*value.strides]
            if value.flags:
                fields["Flags"] = [value.flags.name]
            if value.total_tensor_size_in_bytes is not None:
                fields["TotalTensorSizeInBytes"] = value.total_tensor_size_in_bytes
            fields["GuaranteedBaseOffsetAlignment"] = value.guaranteed_base_offset_alignment
            return fields
        case NamedEnum():
            return f"{value.prefix()}{value.name}"
        case DataType():
            return str(value)
        case Size2D():
            return {"Width": value.width, "Height": value.height}
        case float():
            return value if math.isfinite(value) else str(value)
        case _:
            return value


def write_directml(case: DirectmlCase, folder: Path) -> int:
    """Write a case to a new folder: model.json, expected_0.npy and so on, and case.json; return 1."""
    target = folder / case.name
    target.mkdir(parents=True)
    (target / MODEL).write_text(json.dumps(model_of(case), indent=1), encoding="utf-8")
    for k, value in enumerate(case.outputs):
        np.save(target / EXPECTED.format(k), value, allow_pickle=False)
    about = {
        "operator": case.operator.upper(),
        "feature_level": case.level.name.removeprefix("LEVEL_"),
        "document": case.document,
        "sentence": case.sentence,
        "broken": case.broken,
        "readings": [],
        "left_out": questions(case.operator),
        "features": case.features,
    }
    (target / ABOUT).write_text(json.dumps(about), encoding="utf-8")
    return 1
