"""Engines that run models: each returns a model's outputs, or raises an error with the reason why it refuses.

An engine is loaded in a worker process, because it may crash.
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from anydml.engines import ENGINES as DEVICES
from anydml.errors import ModelError
from anydml.referee.anydml_engine import Anydml
from anydml.referee.external_engines import Command, NotRunError, WrittenOutputs
from anydml.referee.schema_texts import dtype_of, name_of
from anydml.text import did_you_mean

PACKED = ("int4", "uint4", "float4e2m1", "int2", "uint2")
"""Types with several elements per byte, which only some interfaces support."""


class Engine(Protocol):
    """An engine.

    Attributes:
        version: the engine's name and version.

    An engine with several ways to run cases names the way of the last run in its attribute `way`.
    """

    version: str

    def run(self, model: Path, inputs: Sequence[Any]) -> list[Any]:
        """Run a model.

        Args:
            model: the file.
            inputs: the arrays of its inputs, in order.

        Returns:
            The outputs in order; strings are arrays of dtype object.

        Raises:
            NotRunError: the interface does not support such inputs or outputs.
            Exception: the engine refuses the model or the inputs.
        """
        ...


class Reference:
    """The reference evaluator of the package onnx."""

    def __init__(self) -> None:
        import onnx
        from onnx.reference import ReferenceEvaluator

        self.version = f"onnx.reference {onnx.__version__}"
        self._load, self._make = onnx.load, ReferenceEvaluator

    def run(self, model: Path, inputs: Sequence[Any]) -> list[Any]:
        """Run a model."""
        loaded = self._load(model)
        prepared = self._make(loaded)
        results = prepared.run(None, dict(zip(prepared.input_names, inputs, strict=True)))
        return [
            _element(value_info.type, value) for value_info, value in zip(loaded.graph.output, results, strict=True)
        ]


def _element(kind: Any, value: Any) -> Any:
    """Return a value; an optional value may be a list of its element or of None, and becomes the element."""
    if not kind.HasField("optional_type") or not isinstance(value, list) or len(value) != 1:
        return value
    is_sequence = kind.optional_type.elem_type.HasField("sequence_type")
    return value[0] if not is_sequence or value[0] is None or isinstance(value[0], list) else value


class OnnxRuntime:
    """ONNX Runtime on the CPU, with one thread and its default optimizations."""

    def __init__(self) -> None:
        import onnxruntime

        self.version = f"ONNX Runtime {onnxruntime.__version__}"
        self._library = onnxruntime
        onnxruntime.set_default_logger_severity(4)
        self._options = onnxruntime.SessionOptions()
        self._options.intra_op_num_threads = self._options.inter_op_num_threads = 1

    def run(self, model: Path, inputs: Sequence[Any]) -> list[Any]:
        """Run a model."""
        session = self._library.InferenceSession(str(model), self._options, providers=["CPUExecutionProvider"])
        types = [value_info.type.rpartition("tensor(")[2].strip(")") for value_info in session.get_outputs()]
        names = [value_info.name for value_info in session.get_outputs()]
        feeds = {value_info.name: array for value_info, array in zip(session.get_inputs(), inputs, strict=True)}
        if all(map(_is_plain, inputs)) and not any(map(_is_special, types)):
            return list(session.run(names, feeds))
        if any(isinstance(array, np.ndarray) and array.dtype.hasobject for array in inputs):
            raise NotRunError("the interface takes no strings beside a type that NumPy does not have")
        results = session.run_with_ort_values(names, {name: self._value(array) for name, array in feeds.items()})
        return [self._array(value, type_text) for value, type_text in zip(results, types, strict=True)]

    def _value(self, array: Any) -> Any:
        make = self._library.OrtValue
        if not isinstance(array, np.ndarray):
            raise NotRunError("the interface takes no sequences of a type that NumPy does not have")
        if _is_plain(array):
            return make.ortvalue_from_numpy(array)
        _refuse_packed(array.dtype)
        plain = np.ascontiguousarray(array).view(f"u{array.dtype.itemsize}").reshape(array.shape)
        return make.ortvalue_from_numpy_with_onnx_type(plain, _element_type(array.dtype))

    def _array(self, value: Any, type_text: str) -> Any:
        if not _is_special(type_text):
            return value.numpy()
        if not value.is_tensor():
            raise NotRunError("the interface returns no sequences of a type that NumPy does not have")
        dtype, shape = dtype_of(type_text), value.shape()
        _refuse_packed(dtype)
        size = math.prod(shape) * dtype.itemsize
        return np.frombuffer(ctypes.string_at(value.data_ptr(), size) if size else b"", dtype).reshape(shape)


def _is_plain(array: Any) -> bool:
    """Whether NumPy has the type of an array, or of the arrays in a list."""
    if isinstance(array, list):
        return all(map(_is_plain, array))
    return not isinstance(array, np.ndarray) or array.dtype.isbuiltin == 1


def _is_special(kind: str) -> bool:
    """Whether NumPy lacks an element type of ONNX."""
    return kind in ("bfloat16", *PACKED) or kind.startswith("float8")


class OpenVino:
    """OpenVINO on the CPU, with an inference precision of FLOAT."""

    def __init__(self) -> None:
        import onnx
        import openvino

        self._load = onnx.load
        self.version = f"OpenVINO {openvino.__version__.partition('-')[0]}"
        self._library = openvino
        self._core = openvino.Core()
        self._settings = {"INFERENCE_PRECISION_HINT": "f32", "INFERENCE_NUM_THREADS": 1}

    def run(self, model: Path, inputs: Sequence[Any]) -> list[Any]:
        """Run a model."""
        compiled = self._core.compile_model(self._core.read_model(str(model)), "CPU", self._settings)
        request = compiled.create_infer_request()
        # The compiled model lacks inputs that no output depends on.
        unbound = {name: k for k, port in enumerate(compiled.inputs) for name in port.get_names()}
        for info, array in zip(self._load(model).graph.input, inputs, strict=True):
            tensor = self._tensor(array)
            if info.name in unbound:
                request.set_input_tensor(unbound[info.name], tensor)
        request.infer()
        return [self._array(request.get_output_tensor(k)) for k in range(len(compiled.outputs))]

    def _tensor(self, array: Any) -> Any:
        if not isinstance(array, np.ndarray):
            raise NotRunError("sequences are not given")
        if array.dtype.hasobject:
            return self._library.Tensor(array.astype(str) if array.size else np.empty(array.shape, "U1"))
        if _is_plain(array):
            return self._library.Tensor(np.ascontiguousarray(array).reshape(array.shape))
        _refuse_packed(array.dtype)
        types = {"bfloat16": "bf16", "float8e4m3fn": "f8e4m3", "float8e5m2": "f8e5m2", "float8e8m0": "f8e8m0"}
        name = name_of(array.dtype)
        if name not in types:
            raise NotRunError(f"OpenVINO has no type {name}")
        plain = np.ascontiguousarray(array).view(f"u{array.dtype.itemsize}").reshape(array.shape)
        return self._library.Tensor(plain, list(array.shape), getattr(self._library.Type, types[name]))

    def _array(self, tensor: Any) -> Any:
        type_name, shape = tensor.element_type.get_type_name(), tuple(tensor.shape)
        if type_name == "string":
            return np.array(tensor.str_data, object).reshape(shape)
        if tensor.element_type.bitwidth < 8:
            raise NotRunError(f"OpenVINO's Python package returns no tensors of {type_name}")
        types = {"bf16": "bfloat16", "f8e4m3": "float8e4m3fn", "f8e5m2": "float8e5m2", "f8e8m0": "float8e8m0"}
        if type_name in types:
            dtype = dtype_of(types[type_name])
            return np.frombuffer(np.array(tensor.data).tobytes(), dtype).reshape(shape)
        # The data of a scalar may be a vector.
        return np.array(tensor.data).reshape(shape)


class Tract:
    """tract, through its Python package."""

    def __init__(self) -> None:
        import tract

        self.version = f"tract {tract.version()}"
        self._library = tract

    def run(self, model: Path, inputs: Sequence[Any]) -> list[Any]:
        """Run a model."""
        runnable = self._library.onnx().load(str(model)).into_model().into_runnable()
        for array in inputs:
            if not isinstance(array, np.ndarray) or array.dtype.hasobject or not _is_plain(array):
                raise NotRunError("tract's Python package takes no such tensors")
        return [tensor.to_numpy() for tensor in runnable.run([self._tensor(array) for array in inputs])]

    def _tensor(self, array: Any) -> Any:
        if array.dtype.kind == "c":
            raise NotRunError("tract's Python package takes no such tensors")
        return self._library.Tensor.from_numpy(array)


ENGINES: Mapping[str, type[Any]] = {
    "anydml": Anydml,
    "onnxruntime": OnnxRuntime,
    "reference": Reference,
    "openvino": OpenVino,
    "tract": Tract,
}
"""Engines by name."""

PREFIXES: Mapping[str, type[Any]] = {"anydml": Anydml, "command": Command, "outputs": WrittenOutputs}
"""Engines by the prefix of their names, before a colon."""


def check_engine(name: str) -> None:
    """Check the name of an engine.

    Raises:
        ModelError: there is no such engine, or anydml has no such device.
    """
    prefix, _, argument = name.partition(":")
    if prefix == "anydml" and argument and argument.partition(":")[0] not in DEVICES:
        raise ModelError(f"anydml has no device {argument!r}", rule=f"its devices are {', '.join(DEVICES)}")
    if name not in ENGINES and (prefix not in PREFIXES or not argument):
        forms = f"{', '.join(ENGINES)}, anydml:DEVICE, command:PROGRAM or outputs:FOLDER"
        raise ModelError(f"there is no engine {name!r}{did_you_mean(name, ENGINES)}", rule=f"the engines are {forms}")


def open_engine(name: str) -> Engine:
    """Load an engine.

    Raises:
        ModelError: there is no such engine, or its package is not installed.
    """
    check_engine(name)
    prefix, _, argument = name.partition(":")
    try:
        engine: Engine = PREFIXES[prefix](argument) if argument else ENGINES[name]()
    except ImportError as error:
        raise ModelError(str(error), rule="install its package") from None
    except ValueError as error:
        raise ModelError(str(error)) from None
    return engine


def _element_type(dtype: np.dtype[Any]) -> int:
    from onnx import helper

    return int(helper.np_dtype_to_tensor_dtype(dtype))


def _refuse_packed(dtype: np.dtype[Any]) -> None:
    if name_of(dtype) in PACKED:
        raise NotRunError(f"the interface takes no tensors of {name_of(dtype)}")
