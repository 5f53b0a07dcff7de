"""Run one case and compare every byte of every operand, padding too."""

from __future__ import annotations

from typing import Any

import numpy as np

import anydml as dml

from .case import DATA_TYPES, Case, How, Memory, Sizes
from .forced import forced
from .model import contents, results, view
from .model_file import run_model
from .seen import Seen


class Mismatch(AssertionError):
    """A case that came out otherwise than NumPy says."""


def script(case: Case) -> str:
    """Two lines that run a case again, from the repository's root."""
    return f"from tests.fuzz.check import Case, How, Memory, check\ncheck({case})"


def check(case: Case, seen: Seen | None = None) -> None:
    """Run a case.

    Args:
        case: what to run.
        seen: counts the kernels that ran.

    Raises:
        Mismatch: a byte differs, or the engine refused; with the script that does it again.
    """
    inputs, outputs = contents(case)
    wanted_inputs = [block.copy() for block in inputs]
    sources = [view(memory, block) for memory, block in zip(case.inputs, wanted_inputs, strict=True)]
    values = results(case, sources)
    wanted_outputs = [block.copy() for block in outputs]
    for memory, block, value in zip(case.outputs, wanted_outputs, values, strict=True):
        view(memory, block)[...] = value
    try:
        with forced(case.how, seen):
            returned = _run(case, inputs, outputs)
    except Exception as error:
        raise Mismatch(f"{type(error).__name__}: {error}\n{script(case)}") from error
    problem = None
    if case.interface == "new":
        for number, (result, value) in enumerate(zip(returned, values, strict=True)):
            if (result.dtype, result.shape) != (value.dtype, value.shape) or _bytes(result) != _bytes(value):
                problem = f"output {number} is wrong"
    for name, blocks, wanted in (("input", inputs, wanted_inputs), ("output", outputs, wanted_outputs)):
        for number, (block, right) in enumerate(zip(blocks, wanted, strict=True)):
            if not np.array_equal(block, right) and not (name == "output" and case.interface == "new"):
                at = int(np.flatnonzero(block != right)[0])
                problem = f"{name} {number}: byte {at} is {block[at]}, and should be {right[at]}"
    if problem:
        raise Mismatch(f"{problem}\n{script(case)}")


def _bytes(array: np.ndarray) -> bytes:
    return np.ascontiguousarray(array).tobytes()


def _run(case: Case, inputs: list[np.ndarray], outputs: list[np.ndarray]) -> list[np.ndarray]:
    if case.interface == "device":
        _dispatch(case, inputs, outputs)
        return []
    if case.interface == "model":
        run_model(case, _desc(case), inputs, outputs)
        return []
    sources = [view(memory, block) for memory, block in zip(case.inputs, inputs, strict=True)]
    targets: Any = None
    if case.interface == "function":
        targets = [view(memory, block) for memory, block in zip(case.outputs, outputs, strict=True)]
    one = targets and targets[0]
    arguments = case.arguments
    match case.operator:
        case "split":
            return dml.split(sources[0], arguments["lengths"], arguments["axis"], out=targets)
        case "split_training":
            return dml.split_training(sources[0], arguments["lengths"], axis=arguments["axis"], out=targets)
        case "join":
            return [dml.join(sources, arguments["axis"], out=one)]
        case "concat_training":
            joined, lengths = dml.concat_training(sources, arguments["axis"], out=one)
            if lengths.tolist() != [source.shape[arguments["axis"]] for source in sources]:
                raise Mismatch(f"per_input_length is {lengths.tolist()}\n{script(case)}")
            return [joined]
        case "slice":
            return [dml.slice(sources[0], arguments["offsets"], arguments["sizes"], arguments["strides"], out=one)]
        case "slice1":
            window = [arguments[name] for name in ("offsets", "windows", "strides", "sizes")]
            return [dml.slice1(sources[0], *window, out=one)]
        case _:
            return [dml.gather(sources[0], sources[1], arguments["axis"], out_of_range="clamp", out=one)]


def _tensor(memory: Memory) -> dml.TensorDesc:
    item = np.dtype(memory.dtype).itemsize
    strides: Sizes | None = tuple(s // item for s in memory.strides) if memory.flat else memory.desc
    return dml.TensorDesc(DATA_TYPES[memory.dtype], memory.sizes, strides)


def _bound(memory: Memory, block: np.ndarray) -> Any:
    if not memory.flat:
        return view(memory, block)
    rest = block[memory.offset :]
    if memory.flat in ("typed", "exact"):
        item = np.dtype(memory.dtype).itemsize
        return rest[: rest.size // item * item].view(memory.dtype)
    return {"bytearray": bytearray, "memoryview": memoryview}.get(memory.flat, lambda array: array)(rest)


def _dispatch(case: Case, inputs: list[np.ndarray], outputs: list[np.ndarray]) -> None:
    sources = [_bound(memory, block) for memory, block in zip(case.inputs, inputs, strict=True)]
    targets = [_bound(memory, block) for memory, block in zip(case.outputs, outputs, strict=True)]
    if case.operator == "split_training":
        sources.append(np.array(case.arguments["lengths"], np.int64))
    operator = dml.Device(case.how.engine).compile_operator(_desc(case))
    operator.bind(sources, targets).dispatch()
    for memory, block, target in zip(case.outputs, outputs, targets, strict=True):
        if isinstance(target, bytearray):
            # A copy of the block's end.
            block[memory.offset :] = np.frombuffer(target, np.uint8)


def _desc(case: Case) -> Any:
    x, *_ = sources = [_tensor(memory) for memory in case.inputs]
    y, *_ = targets = [_tensor(memory) for memory in case.outputs]
    arguments = case.arguments
    match case.operator:
        case "split":
            return dml.SplitOperatorDesc(x, targets, arguments["axis"])
        case "split_training":
            numbers = dml.TensorDesc("INT64", [len(targets)])
            return dml.SplitTrainingOperatorDesc(x, numbers, targets, arguments["axis"])
        case "join":
            return dml.JoinOperatorDesc(sources, y, arguments["axis"])
        case "concat_training":
            return dml.ConcatTrainingOperatorDesc(sources, y, None, arguments["axis"])
        case "slice":
            return dml.SliceOperatorDesc(x, y, arguments["offsets"], arguments["sizes"], arguments["strides"])
        case "slice1":
            window = [arguments[name] for name in ("offsets", "windows", "strides")]
            return dml.Slice1OperatorDesc(x, y, *window)
        case _:
            return dml.GatherOperatorDesc(x, sources[1], y, arguments["axis"], arguments["index_dimensions"])


__all__ = ["Case", "How", "Memory", "Mismatch", "check", "script"]
