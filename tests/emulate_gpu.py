"""Compiles launches for an NVIDIA GPU and runs their code on the host. Run as a script: cases an operator, a seed.

Random programs are compared with NumPy's engine. Threads that store to one address do it in the wrong order.

Every case is compared with NumPy, byte for byte. No access may be misaligned or outside its tensor's memory, every
element is written exactly once, and nothing else is. Prints how much was run.
"""

import contextlib
import json
import sys

import numpy as np
import ptx
from compile_kernels import TARGETS, NoDevice
from cuda_calls import gather, join, slice_, split
from random_descs import OPERATORS, expected_outputs, fill_inputs, padded_strides, random_desc
from random_programs import random_program
from triton.runtime import driver

from anydml.engines.cuda import engine, launch, operands, plan
from anydml.engines.cuda.arrays import DeviceArrays, block_starts
from anydml.engines.numpy.engine import NumpyProgram
from anydml.functions.call_plans import PLANS
from anydml.functions.function_lowering import lower_function
from anydml.moves import simplify
from anydml.operators.registry import FUNCTIONS
from anydml.tensor import Layout

HOST_TENSORS = ("SplitTensor", "PerInputLengthTensor")
MEMORY = 1 << 25
LIMIT = plan.LIMIT
gpu = ptx.Gpu(MEMORY)
counts = {"cases": 0, "launches": 0, "programs": 0}
codes = {}


class Loaded:
    """A compiled kernel, as the engine launches it."""

    def __init__(self, compiled):
        self.code = ptx.Kernel(compiled.asm["ptx"])
        self.compiled = compiled

    def __getitem__(self, grid):
        def start(values, shape, lookups, table, parts, *constants):
            numbers = [*values, table, parts]
            # Triton adds one or two addresses of memory that this kernel does not ask for.
            scratch = [0] * (len(self.code.parameters) - len(numbers))
            assert len(scratch) in (1, 2)
            counts["launches"] += 1
            self.code.launch(grid[0], [*numbers, *scratch], gpu)

        return start


class Upload:
    """Numbers in the memory of the GPU that is not there."""

    def __init__(self, numbers, number):
        self._memory = gpu.put(numbers.reshape(-1).view(np.uint8))
        self.address = self._memory.ctypes.data

    def read(self):
        """A copy of them."""
        return self._memory.copy()

    def wait(self, on_host):
        """It is there."""

    def keep(self):
        """It stays."""


def pretend():
    """Make the engine launch on `gpu`."""
    driver.set_active(NoDevice(TARGETS["sm_90"]))
    compile_kernel = launch.compiled_kernel

    def load(plan, named, number):
        compiled = compile_kernel(plan, named, number)
        return codes.setdefault(id(compiled), Loaded(compiled))

    launch.compiled_kernel = load
    launch.Upload = operands.upload = Upload
    operands.reserve = lambda size, number: Upload(np.full(size, 0xEE, np.uint8), number)
    engine.is_captured = lambda number: False
    engine.callers_stream = lambda operands, number: contextlib.nullcontext


def place(rng, array, strides=None):
    """A copy of an array on the GPU, by strides of bytes, some of them backwards where none are given."""
    if strides is None:
        item = array.itemsize
        strides = padded_strides(rng, array.shape, item, 5 if rng.random() < 0.3 else 1)
        strides = [-s if rng.random() < 0.2 else s for s in strides]
    reach = [(n - 1) * s for n, s in zip(array.shape, strides, strict=True)]
    offset = -sum(r for r in reach if r < 0)
    span = offset + sum(r for r in reach if r > 0) + array.itemsize
    memory = gpu.put(np.zeros(span, np.uint8), int(rng.choice([0, 4, 8, 1, 2])))
    view = np.ndarray(array.shape, array.dtype, memory, offset, strides)
    view[...] = array
    return view


def compare(outputs, expected, about):
    """Each element of the outputs is as expected, and was written once; no other byte was."""
    spots = np.zeros(len(gpu.written), np.uint16)
    for output, value in zip(outputs, expected, strict=True):
        item = np.dtype((np.void, output.itemsize))
        assert np.array_equal(output.view(item), np.ascontiguousarray(value).view(item)), about
        first = output.ctypes.data - gpu.start
        if output.size:
            written = np.ndarray(
                (*output.shape, output.itemsize), np.uint16, spots, 2 * first, [2 * s for s in (*output.strides, 1)]
            )
            written += 1
    assert np.array_equal(spots, gpu.written), f"written twice, or where nothing is: {about}"
    counts["cases"] += 1


def fresh(limit=LIMIT):
    """Forget what lay on the GPU; from now on, offsets from `limit` on have 64 bits."""
    gpu.clear()
    plan.LIMIT = limit
    PLANS.clear()


def check_desc(rng, operator):
    """A random desc, bound to windows of any strides and alignment, or to flat buffers."""
    fresh(LIMIT if rng.random() < 0.7 else 0)
    desc = random_desc(rng, operator)
    is_flat = rng.random() < 0.5
    tensors = [(name.partition("[")[0], tensor) for name, tensor in (*desc.inputs, *desc.outputs)]
    views = []
    for name, tensor in tensors:
        item = tensor.data_type.itemsize
        raw = rng.integers(0, 256, (*tensor.sizes, item), np.uint8)
        content = np.ndarray(tensor.sizes, tensor.data_type.dtype, raw)
        if name in HOST_TENSORS:
            views.append(content)
        else:
            views.append(place(rng, content, [s * item for s in tensor.element_strides] if is_flat else None))
    first = len(desc.inputs)
    fill_inputs(rng, desc, views[:first])
    on_host = {n for n, (name, _) in enumerate(tensors) if name in HOST_TENSORS}
    program = engine.CudaProgram(desc.OPERATOR, simplify(desc.moves([Layout.of(view) for view in views])), on_host, 0)
    program.bind([*views, *desc.lower()[1]])()
    outputs = [n for n in range(first, len(views)) if n not in on_host]
    expected = expected_outputs(desc, views[:first])
    compare([views[n] for n in outputs], [expected[n - first] for n in outputs], desc)


def check_program(seed):
    """A random program, with indices that are outside and may not be."""
    fresh()
    program, arrays = random_program([8, seed], 1, ("clamp", "skip", *(["error"] if seed % 4 == 0 else [])))
    expected = [array.copy() for array in arrays]
    views = [gpu.put(array.view(np.uint8)) for array in arrays]
    about = []
    for work in (NumpyProgram(program).bind(expected), engine.CudaProgram.of(program, 0).bind(views)):
        try:
            work()
            about.append(None)
        except IndexError as error:
            about.append(str(error))
    assert about[0] == about[1], about
    for number, (view, right) in enumerate(zip(views, expected, strict=True)):
        assert np.array_equal(view, right.view(np.uint8)), f"operand {number} of {program}"
    counts["programs"] += 1


def elements(rng, shape, size):
    """Random elements of `size` bytes."""
    return np.ndarray(shape, (np.void, size), rng.integers(0, 256, (*shape, size), np.uint8))


def check_parts(rng, count, is_equal, size, rows):
    """A split into many parts, by pointers and in one block, and its inverse."""
    sizes = [int(rng.integers(1, 40))] * count if is_equal else rng.integers(0, 30, count).tolist()
    if sum(sizes) == 0:
        return
    fresh()
    x = place(rng, elements(rng, (rows, sum(sizes)), size), [sum(sizes) * size, size])
    parts = np.split(x, np.cumsum(sizes)[:-1], 1)
    outputs = [place(rng, elements(rng, part.shape, size), [part.shape[1] * size, size]) for part in parts]
    split(x, sizes, 1, outputs, gpu=0)
    compare(outputs, parts, f"split of {size} B into {sizes}")

    shapes = tuple(part.shape for part in parts)
    starts = block_starts(shapes, size)
    block = gpu.put(np.zeros(starts[-1] * size, np.uint8))
    gpu.written[:] = 0
    layouts = [Layout.packed(shape, size) for shape in shapes]
    program = lower_function("split", FUNCTIONS["split"], [Layout.of(x)], [], layouts, (tuple(sizes), 1))
    DeviceArrays(0).compile_program(program, shapes, size).run((x, block))
    whole = block.view((np.void, size))
    in_block = [whole[s : s + p.size].reshape(p.shape) for s, p in zip(starts, parts, strict=False)]
    compare(in_block, parts, f"block of {size} B into {sizes}")

    joined = place(rng, elements(rng, x.shape, size), x.strides)
    gpu.written[:] = 0
    join(outputs, 1, joined, gpu=0)
    compare([joined], [x], f"join of {size} B from {sizes}")


def check_large(rng):
    """Tiles that are full, cut off, and several a row, of every vector and with the constants of large work."""
    for size, shape, sizes in (
        (4, (1100, 300), [100, 100, 100]),
        (4, (1200, 256), [128, 64, 64]),
        (1, (40_000, 28), [4, 4, 4, 16]),
        (16, (100, 700), [400, 300]),
        (1, (400_000, 3), [1, 1, 1]),
        (2, (3, 200_001), [1, 200_000]),
    ):
        fresh()
        x = place(rng, elements(rng, shape, size), [shape[1] * size, size])
        parts = np.split(x, np.cumsum(sizes)[:-1], 1)
        outputs = [place(rng, elements(rng, part.shape, size), [part.shape[1] * size, size]) for part in parts]
        split(x, sizes, 1, outputs, gpu=0)
        compare(outputs, parts, f"split of {shape} of {size} B into {sizes}")
    for size, shape, steps in ((4, (700, 500), (1, -1)), (1, (500, 900, 3), (1, -1, 1)), (2, (300, 4000), (-1, 4))):
        fresh()
        x = place(rng, elements(rng, shape, size), [int(np.prod(shape[d + 1 :])) * size for d in range(len(shape))])
        taken = x[tuple(np.s_[::step] for step in steps)]
        output = place(rng, elements(rng, taken.shape, size), np.ascontiguousarray(taken).strides)
        starts = tuple(n - 1 if step < 0 else 0 for n, step in zip(shape, steps, strict=True))
        slice_(x, starts, taken.shape, steps, output, gpu=0)
        compare([output], [taken], f"slice of {shape} of {size} B by {steps}")
    for dtype in ("int32", "int64", "uint32", "uint64"):
        for shape, axis in (((900, 64), 0), ((70, 300), 1), ((4000,), 0)):
            fresh()
            x = place(rng, elements(rng, shape, 8), [int(np.prod(shape[d + 1 :])) * 8 for d in range(len(shape))])
            low = -shape[axis] if dtype.startswith("i") else 0
            numbers = rng.integers(low, shape[axis], 3000 if axis == 0 else 450).astype(dtype)
            indices = place(rng, numbers, numbers.strides)
            taken = np.take(x, numbers.astype(np.int64) % shape[axis], axis)
            output = place(rng, elements(rng, taken.shape, 8), taken.strides)
            gather(x, indices, axis, output, gpu=0)
            compare([output], [taken], f"gather of {shape} along {axis} by {dtype}")


def main(cases, seed):
    """Everything."""
    pretend()
    rng = np.random.default_rng([7, seed])
    for operator in OPERATORS:
        for _ in range(cases):
            check_desc(rng, operator)
    for count in (1, 2, 31, 32, 33, 300):
        for size in (1, 2, 4, 8, 16) if count in (2, 33) else (1, 8):
            for is_equal in (True, False):
                check_parts(rng, count, is_equal, size, int(rng.integers(1, 20)))
    check_large(rng)
    of_cases = dict(counts)
    for _ in range(2 * cases):
        check_program(counts["programs"])
    of_cases["programs"] = counts["programs"]
    print(json.dumps({**of_cases, "kernels": len(codes)}))


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
