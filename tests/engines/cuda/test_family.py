"""Random descs of the family on the GPU engine and on the judge: the same bytes, padding included."""

import numpy as np
import pytest
from cuda_memory import Memory
from random_family import FAMILY, fill_indices

import anydml as dml

CASES = 8


@pytest.mark.parametrize("operator", FAMILY)
def test_random_descs(operator, device):
    rng = np.random.default_rng([16, *map(ord, operator)])
    for _ in range(CASES):
        desc = FAMILY[operator](rng)
        names, tensors = zip(*desc.inputs, *desc.outputs, strict=True)
        buffers = [rng.integers(0, 256, tensor.size_in_bytes, np.uint8) for tensor in tensors]
        first = len(desc.inputs)
        views = [
            np.ndarray(t.sizes, t.data_type.dtype, b, 0, [s * t.data_type.itemsize for s in t.element_strides])
            for t, b in zip(tensors, buffers, strict=True)
        ]
        fill_indices(rng, list(zip(names, views, strict=True))[:first])
        memories = [Memory(buffer) for buffer in buffers]
        bound = [m.window(0, (b.size,), (1,), np.uint8) for m, b in zip(memories, buffers, strict=True)]
        device.compile_operator(desc).bind(bound[:first], bound[first:]).dispatch()
        judge = [memoryview(buffer) for buffer in buffers]
        dml.Device("reference").compile_operator(desc).bind(judge[:first], judge[first:]).dispatch()
        for memory, right in zip(memories, buffers, strict=True):
            np.testing.assert_array_equal(memory.read(), right, str(desc))
