"""Fused functions on the GPU engine: random NumPy programs, and the recipes of the guide for sharded training."""

import re
from pathlib import Path

import numpy as np
import pytest
from cuda_memory import ON_GPU, Memory
from how_many import how_many
from tracing.random_numpy import Program

import anydml as dml
from anydml.engines.cuda.engine import CudaProgram, as_operand

CHUNKS, PROGRAMS = 4, how_many(48) // 4
GPU = 0 if ON_GPU else None
GUIDE = Path(__file__).parents[3] / "docs" / "torch.md"


def results(fused, *arguments):
    """What a fused function gives on the GPU engine, as arrays."""
    program, inputs, outputs = fused.lower_call(*arguments)
    arrays = [np.ascontiguousarray(each).reshape(-1).view(np.uint8) for each in inputs]
    arrays += [np.full(int(np.prod(shape)) * dtype.itemsize, 0xA5, np.uint8) for shape, dtype in outputs]
    memories = [Memory(array) for array in arrays]
    operands = [
        as_operand("test", "x", memory.window(0, (array.nbytes,), (1,), np.uint8), GPU)
        for memory, array in zip(memories, arrays, strict=True)
    ]
    CudaProgram.of(program, GPU).bind(operands)()
    found = [memory.read() for memory in memories[len(inputs) :]]
    return [each.view(dtype).reshape(shape) for each, (shape, dtype) in zip(found, outputs, strict=True)]


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_random_programs(chunk):
    done = 0
    for k in range(PROGRAMS):
        program = Program([15, chunk, k])
        program.arrays = [np.array(array, order="C") for array in program.arrays]
        fused = dml.fuse(program)
        if not program.expected.size:
            continue
        try:
            (found,) = results(fused, program.arrays)
        except dml.FuseError as error:
            if "these would have to move first" not in str(error):
                raise
            continue
        np.testing.assert_array_equal(found, program.expected, f"{chunk} {k}", strict=True)
        done += 1
    # The others are of nothing, or refused.
    assert done >= 0.6 * PROGRAMS


def recipes():
    """The guide's functions, by name, and the module that they need."""
    torch = pytest.importorskip("torch")
    lines = [
        line[4:]
        for line in GUIDE.read_text().partition("## Copies of sharded training")[2].splitlines()
        if re.match(r"(>>>|\.\.\.) ", line)
    ]
    source = "\n".join(lines)
    functions = re.findall(r"@dml\.fuse\n(?:def .*\n)(?:    .*\n)+", source + "\n")
    names = {"dml": dml, "torch": torch, "F": torch.nn.functional, "math": __import__("math")}
    exec("\n".join(functions), names)
    return torch, names


def test_recipes_of_sharded_training():
    torch, known = recipes()
    gathered = torch.arange(4 * 34.0).reshape(4, 34)
    shapes, dims = ((6, 4), (3, 16), (5, 7)), (0, 1, 0)
    parameters = [torch.arange(1000.0 * k, 1000 * k + np.prod(shape)).reshape(shape) for k, shape in enumerate(shapes)]
    tokens, chosen = torch.arange(36.0).reshape(12, 3), torch.arange(24).reshape(12, 2) % 5
    order = torch.argsort(chosen.flatten(), stable=True)
    counts = torch.bincount(chosen.flatten(), minlength=5).tolist()
    parts = [*tokens[order // 2].split(counts)]
    cache, table = torch.arange(5 * 2 * 3 * 4.0).reshape(5, 2, 3, 4), torch.tensor([4, 0, 2])
    calls = {
        "copy_out": (gathered, shapes, dims),
        "copy_in": (parameters, dims, 4),
        "to_experts": (tokens, order // 2, counts),
        "from_experts": (parts, torch.argsort(order), 2),
        "heads_first": (cache, table),
    }
    for name, arguments in calls.items():
        fused = known[name]
        eager = fused.__wrapped__(*arguments)
        expected = [eager] if isinstance(eager, torch.Tensor) else [*eager]
        for one, other in zip(results(fused, *arguments), expected, strict=True):
            np.testing.assert_array_equal(one, other.numpy(), name, strict=True)
        on_host = fused(*arguments)
        for one, other in zip([on_host] if isinstance(on_host, torch.Tensor) else on_host, expected, strict=True):
            assert torch.equal(one, other)
