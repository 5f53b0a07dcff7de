"""Every way to do a case: ours, and each peer's."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

import anydml as dml
from benchmarks.grid import Case
from benchmarks.peers import numpy_peers, onnxruntime_peers, torch_peers
from benchmarks.work import Work

Run = Callable[[], object]


def ways(work: Work) -> dict[str, Run]:
    """Ours first, then every way of every peer, by name."""
    runs: dict[str, Run] = {"anydml": ours(work)}
    for find in (numpy_peers, torch_peers, onnxruntime_peers):
        runs.update(find(work))
    return runs


def ours(work: Work) -> Run:
    """A bound operator's dispatch; the function where sizes are new on every call."""
    case = work.case
    if case.fresh:
        return lambda: dml.split_training(work.inputs[0], work.sizes, case.axis, out=work.outputs)
    desc = describe(case)
    inputs = work.inputs
    if case.runtime:
        inputs = [*inputs, np.array(case.parts, np.int64)]
    inputs = [array.reshape(tensor.sizes) for array, (_, tensor) in zip(inputs, desc.inputs, strict=True)]
    outputs = [array.reshape(tensor.sizes) for array, (_, tensor) in zip(work.outputs, desc.outputs, strict=True)]
    return dml.Device("cpu").compile_operator(desc).bind(inputs=inputs, outputs=outputs).dispatch


def describe(case: Case) -> dml.OperatorDesc:
    """The case as a desc. SPLIT and JOIN of what DirectML limits are written as the training operators."""
    data_type = dml.DataType.parse(case.dtype.upper())
    whole = dml.TensorDesc(data_type, case.shape)
    if case.kind in ("split", "join"):
        shapes = [(*case.shape[: case.axis], part, *case.shape[case.axis + 1 :]) for part in case.parts]
        parts = [dml.TensorDesc(data_type, shape) for shape in shapes]
        if case.kind == "join":
            return dml.JoinOperatorDesc(parts, whole, case.axis)
        if case.runtime:
            split = dml.TensorDesc(dml.DataType.INT64, [len(parts)])
            return dml.SplitTrainingOperatorDesc(whole, split, parts, case.axis)
        return dml.SplitOperatorDesc(whole, parts, case.axis)
    output = dml.TensorDesc(data_type, case.output_shapes[0])
    if case.kind == "slice1":
        return dml.Slice1OperatorDesc(whole, output, *case.window)
    rank = max(len(case.shape), len(case.output_shapes[0]))
    index_type = dml.DataType.parse(case.index_dtype.upper())

    def padded(kind: dml.DataType, shape: tuple[int, ...]) -> dml.TensorDesc:
        return dml.TensorDesc(kind, (1,) * (rank - len(shape)) + shape)

    axis = case.axis + rank - len(case.shape)
    indices = padded(index_type, case.indices)
    output = padded(data_type, case.output_shapes[0])
    return dml.GatherOperatorDesc(padded(data_type, case.shape), indices, output, axis, len(case.indices))
