"""A case as a model file: its blocks are raw resources, its tensors bound from an element of them on."""

from __future__ import annotations

import dataclasses
import json
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from anydml import dxdispatch
from anydml.operators.problem import camel
from anydml.tensor import TensorDesc

from .case import Case


def run_model(case: Case, desc: Any, inputs: list[np.ndarray], outputs: list[np.ndarray]) -> None:
    """Write the model, run it, and put what its resources hold back into `outputs` and `inputs`."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        resources: dict[str, Any] = {}
        bound: dict[str, list[Any]] = {"inputs": [], "outputs": []}
        for kind, memories, blocks in (("inputs", case.inputs, inputs), ("outputs", case.outputs, outputs)):
            for number, (memory, block) in enumerate(zip(memories, blocks, strict=True)):
                resource = f"{kind}{number}"
                (folder / f"{resource}.bin").write_bytes(block.tobytes())
                source = {"sourcePath": f"{resource}.bin"}
                resources[resource] = {"initialValuesDataType": "UINT8", "initialValues": source}
                item = np.dtype(memory.dtype).itemsize
                offset = {"elementSizeInBytes": item, "elementOffset": memory.offset // item}
                bound[kind].append({"name": resource, **offset})
        if case.operator == "split_training":
            lengths = list(case.arguments["lengths"])
            resources["split"] = {"initialValuesDataType": "INT64", "initialValues": lengths}
            bound["inputs"].append("split")
        bindings: dict[str, list[Any]] = {}
        for kind, tensors in (("inputs", desc.inputs), ("outputs", desc.outputs)):
            for (field, _), binding in zip(tensors, bound[kind], strict=True):
                bindings.setdefault(field.partition("[")[0], []).append(binding)
        prefix = "ORT_OPERATOR_" if "training" in case.operator else "DML_OPERATOR_"
        dispatchable = {"type": prefix + case.operator.upper(), "desc": _fields(desc)}
        command = {"type": "dispatch", "dispatchable": "d", "bindings": bindings}
        model = {"resources": resources, "dispatchables": {"d": dispatchable}, "commands": [command]}
        file = folder / "model.json"
        file.write_text(json.dumps(model), encoding="utf-8")
        found = dxdispatch.run(
            dxdispatch.load(file), device=case.how.engine, log=lambda line: None, warn=lambda line: None
        )
        for kind, blocks in (("inputs", inputs), ("outputs", outputs)):
            for number, block in enumerate(blocks):
                block[...] = found[f"{kind}{number}"]


def _fields(desc: Any) -> dict[str, Any]:
    fields = {camel(field.name): _value(getattr(desc, field.name)) for field in dataclasses.fields(desc)}
    return {name: value for name, value in fields.items() if value is not None}


def _value(value: Any) -> Any:
    if isinstance(value, TensorDesc):
        tensor = {"DataType": value.data_type.name, "Sizes": value.sizes, "Strides": value.strides}
        return {name: item for name, item in tensor.items() if item is not None}
    return [_value(item) for item in value] if isinstance(value, tuple) else value
