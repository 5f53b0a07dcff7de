"""What the operators mean, by NumPy's public indexing; nothing of anydml is used here."""

from __future__ import annotations

import numpy as np

from .case import Case, Memory

HOSTILE = (0, -1, 2**31, 2**31 - 1, -(2**31), 2**32 - 1, 2**63, 2**63 - 1, -(2**63), 2**64 - 1)


def view(memory: Memory, block: np.ndarray) -> np.ndarray:
    """The tensor in its block of bytes."""
    return np.ndarray(memory.sizes, memory.dtype, block, memory.offset, memory.strides)


def contents(case: Case) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Blocks of random bytes for inputs and outputs; indices good and hostile."""
    rng = np.random.default_rng(case.seed)
    inputs, outputs = (
        [rng.integers(0, 256, memory.size, np.uint8) for memory in memories] for memories in (case.inputs, case.outputs)
    )
    if case.operator == "gather":
        axis = case.arguments["axis"]
        write_indices(rng, view(case.inputs[1], inputs[1]), case.inputs[0].sizes[axis])
    for memory, block in zip(case.inputs, inputs, strict=True):
        if memory.dtype == "?":
            view(memory, block)[...] = rng.integers(0, 2, memory.sizes)
    return inputs, outputs


def write_indices(rng: np.random.Generator, array: np.ndarray, size: int) -> None:
    """Indices of which some are at, or far beyond, the ends of the axis."""
    bits = 8 * array.itemsize
    signed = array.dtype.kind == "i"
    special = [*HOSTILE, size, size - 1, size + 1, -size, -size - 1]
    wrapped = [value % 2**bits for value in special]
    choices = np.array(wrapped, np.uint64)[rng.integers(0, len(wrapped), array.shape)]
    good = rng.integers(-size if signed else 0, size, array.shape).astype(np.int64).view(np.uint64)
    chosen = np.where(rng.random(array.shape) < rng.choice([0.0, 0.3, 1.0]), choices, good)
    array[...] = chosen.astype(f"u{array.itemsize}").view(array.dtype)


def results(case: Case, inputs: list[np.ndarray]) -> list[np.ndarray]:
    """The outputs for these inputs."""
    arguments = case.arguments
    match case.operator:
        case "split" | "split_training":
            ends = np.cumsum(arguments["lengths"])[:-1]
            return np.split(inputs[0], ends, arguments["axis"])
        case "join" | "concat_training":
            return [np.concatenate(inputs, arguments["axis"])]
        case "slice":
            spans = zip(arguments["offsets"], arguments["sizes"], arguments["strides"], strict=True)
            return [inputs[0][tuple(np.s_[o : o + (n - 1) * s + 1 : s] for o, n, s in spans)]]
        case "slice1":
            spans = zip(arguments["offsets"], arguments["windows"], strict=True)
            inside = inputs[0][tuple(np.s_[o : o + w] for o, w in spans)]
            stepped = inside[tuple(np.s_[::s] for s in arguments["strides"])]
            return [stepped[tuple(np.s_[:n] for n in arguments["sizes"])]]
        case "gather":
            size = inputs[0].shape[arguments["axis"]]
            numbers = [int(i) for i in inputs[1].flat]
            picked = np.array([min(max(i + size if i < 0 else i, 0), size - 1) for i in numbers], np.intp)
            return [np.take(inputs[0], picked, arguments["axis"]).reshape(case.outputs[0].sizes)]
    raise AssertionError(case.operator)
