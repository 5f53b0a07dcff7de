"""The peers: NumPy, PyTorch and ONNX Runtime on the same arrays, each in every way that might be its fastest."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from benchmarks.work import Work

Run = Callable[[], object]


def numpy_peers(work: Work) -> dict[str, Run]:
    """`copyto` of views, `concatenate(out=)`, `take(out=)`."""
    case, inputs = work.case, work.inputs
    x = inputs[0]
    if case.kind == "join":
        return {"numpy": lambda: np.concatenate(inputs, case.axis, out=work.outputs[0])}
    if case.kind == "gather":
        mode = "wrap" if case.order == "signed" else "clip"
        return {"numpy": lambda: np.take(x, inputs[1], case.axis, out=work.outputs[0], mode=mode)}
    if case.kind == "slice1":
        view = x[case.window_slices]
        return {"numpy": lambda: np.copyto(work.outputs[0], view)}

    def copy_parts() -> None:
        sizes = work.sizes if case.fresh else case.parts
        start = 0
        for output, size in zip(work.outputs, sizes, strict=True):
            np.copyto(output, x[(np.s_[:],) * case.axis + (np.s_[start : start + size],)])
            start += size

    return {"numpy": copy_parts}


def torch_peers(work: Work) -> dict[str, Run]:
    """The out= kernels, `copy_` of views, `flip`; nothing where PyTorch is not installed."""
    try:
        import torch
    except ImportError:
        return {}
    case = work.case
    tensors = [torch.from_numpy(array) for array in work.inputs]
    outputs = [torch.from_numpy(array) for array in work.outputs]
    x, axis = tensors[0], case.axis
    if case.fresh:
        return {
            "torch split_with_sizes_copy": lambda: torch.split_with_sizes_copy(
                x, work.sizes.tolist(), axis, out=[torch.from_numpy(output) for output in work.outputs]
            )
        }
    if case.kind == "split":

        def copy_parts() -> None:
            for output, part in zip(outputs, torch.split(x, case.parts, axis), strict=True):
                output.copy_(part)

        return {
            "torch split_with_sizes_copy": lambda: torch.split_with_sizes_copy(x, list(case.parts), axis, out=outputs),
            "torch copy_": copy_parts,
        }
    if case.kind == "join":
        return {"torch cat": lambda: torch.cat(tensors, axis, out=outputs[0])}
    if case.kind == "gather":
        if case.order == "signed":
            where = (slice(None),) * axis + (tensors[1],)
            flat = outputs[0].reshape(*case.shape[:axis], -1, *case.shape[axis + 1 :])

            def wrapped() -> None:
                indices = torch.remainder(tensors[1].reshape(-1), case.shape[axis])
                torch.index_select(x, axis, indices, out=flat)

            return {"torch indexing": lambda: [x[where].numpy()], "torch index_select": wrapped}
        return {"torch index_select": lambda: torch.index_select(x, axis, tensors[1], out=outputs[0])}
    return _torch_slices(work, x, outputs[0])


def _torch_slices(work: Work, x: Any, output: Any) -> dict[str, Run]:
    import torch

    offsets, sizes, strides = work.case.window
    window = x
    for d, (offset, size, stride) in enumerate(zip(offsets, sizes, strides, strict=True)):
        window = window.narrow(d, offset, size)
        if stride > 1:
            window = window[(slice(None),) * d + (slice(None, None, stride),)]
    backwards = [d for d, stride in enumerate(strides) if stride < 0]
    if not backwards:
        return {"torch copy_": lambda: output.copy_(window)}
    (d,) = backwards
    order = torch.arange(sizes[d] - 1, -1, -1)
    return {
        "torch flip": lambda: [torch.flip(window, backwards).numpy()],
        "torch index_select": lambda: torch.index_select(window, d, order, out=output),
    }


def onnxruntime_peers(work: Work) -> dict[str, Run]:
    """One node with I/O binding; nothing where ONNX Runtime is not installed."""
    try:
        import onnxruntime
        from onnx import TensorProto, helper
    except ImportError:
        return {}
    case = work.case
    names = [f"x{i}" for i in range(len(work.inputs))]
    outputs = [f"y{i}" for i in range(len(work.outputs) or len(case.parts))]
    constants: dict[str, Any] = {}
    if case.kind == "split":
        node = helper.make_node("Split", ["x0", "sizes"], outputs, axis=case.axis)
        constants["sizes"] = np.array(case.parts, np.int64)
    elif case.kind == "join":
        node = helper.make_node("Concat", names, outputs, axis=case.axis)
    elif case.kind == "gather":
        node = helper.make_node("Gather", names, outputs, axis=case.axis)
    else:
        node, constants = _slice_node(work, helper)
    kinds = {"float32": TensorProto.FLOAT, "float16": TensorProto.FLOAT16, "uint8": TensorProto.UINT8}
    element, index = kinds[case.dtype], {"int64": TensorProto.INT64, "int32": TensorProto.INT32}[case.index_dtype]
    types = [index if case.kind == "gather" and i == 1 else element for i in range(len(names))]
    given = {"sizes"} if case.fresh else set()
    graph = helper.make_graph(
        [node],
        "case",
        [
            helper.make_tensor_value_info(n, t, [None] * a.ndim)
            for n, t, a in zip(names, types, work.inputs, strict=True)
        ]
        + [helper.make_tensor_value_info(n, TensorProto.INT64, [len(case.parts)]) for n in given],
        [helper.make_tensor_value_info(n, element, None) for n in outputs],
        [helper.make_tensor(n, TensorProto.INT64, a.shape, a.tolist()) for n, a in constants.items() if n not in given],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    binding = session.io_binding()

    def bind_outputs() -> None:
        for name, array in zip(outputs, work.outputs, strict=True):
            binding.bind_output(name, "cpu", 0, array.dtype, array.shape, array.ctypes.data)

    for name, array in zip(names, work.inputs, strict=True):
        binding.bind_ortvalue_input(name, onnxruntime.OrtValue.ortvalue_from_numpy(array))
    if not case.fresh:
        bind_outputs()
        return {"onnxruntime": lambda: session.run_with_iobinding(binding)}

    def run_fresh() -> None:
        binding.bind_ortvalue_input("sizes", onnxruntime.OrtValue.ortvalue_from_numpy(work.sizes))
        bind_outputs()
        session.run_with_iobinding(binding)

    return {"onnxruntime": run_fresh}


def _slice_node(work: Work, helper: Any) -> tuple[Any, dict[str, Any]]:
    offsets, sizes, strides = (np.array(values, np.int64) for values in work.case.window)
    forwards = strides > 0
    starts = np.where(forwards, offsets, offsets + sizes - 1)
    before = np.iinfo(np.int64).min
    ends = np.where(forwards, offsets + sizes, np.where(offsets > 0, offsets - 1, before))
    axes = np.arange(len(sizes))
    node = helper.make_node("Slice", ["x0", "starts", "ends", "axes", "steps"], ["y0"])
    return node, {"starts": starts, "ends": ends, "axes": axes, "steps": strides}
