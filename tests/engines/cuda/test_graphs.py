"""Random graphs on the GPU engine: what their nodes give one by one on the judge."""

import numpy as np
import pytest
from cuda_memory import Memory
from graph.random_graphs import node_by_node, random_buffers, random_graph

CHUNKS, GRAPHS = 4, 10


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_random_graphs(chunk, device):
    for k in range(GRAPHS):
        rng = np.random.default_rng([151, chunk, k])
        desc = random_graph(rng, 4)
        buffers = random_buffers(rng, desc)
        expected = node_by_node(desc, buffers)
        memories = [Memory(buffer) for buffer in (*buffers, *map(np.zeros_like, expected))]
        bound = [memory.window(0, (len(memory.read()),), (1,), np.uint8) for memory in memories]
        first = len(buffers)
        device.compile_graph(desc).bind(bound[:first], bound[first:]).dispatch()
        for memory, wanted in zip(memories[first:], expected, strict=True):
            np.testing.assert_array_equal(memory.read(), wanted, f"{chunk} {k}\n{desc.program()}")
