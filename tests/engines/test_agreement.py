"""Random descs on every engine, against NumPy and so against each other, byte for byte, padding included."""

import collections

import numpy as np
import pytest
from how_many import how_many
from random_descs import OPERATORS, expected_outputs, fill_inputs, is_read_flat, padded_strides, random_desc

import anydml as dml

CHUNKS = 24
DESCS_PER_CHUNK = how_many(40)
DEVICES = ("cpu", "reference")


def flat_operand(rng, tensor):
    """Random bytes for a flat buffer, at any alignment, and the view that the desc's strides make of them."""
    base = rng.integers(0, 256, tensor.size_in_bytes + 8, np.uint8)
    start = int(rng.integers(0, 4))
    flat = base[start : start + tensor.size_in_bytes + int(rng.integers(0, 3))]
    strides = [s * tensor.data_type.itemsize for s in tensor.element_strides]
    return base, memoryview(flat), np.ndarray(tensor.sizes, tensor.data_type.dtype, flat, 0, strides)


def shaped_operand(rng, tensor, is_distinct):
    """Random bytes seen with gaps, swapped, reversed, unaligned and (unless distinct) broadcast axes."""
    item = tensor.data_type.itemsize
    strides = padded_strides(rng, tensor.sizes, item, 5 if rng.random() < 0.5 else 1)
    if not is_distinct and rng.random() < 0.3:
        strides = [0 if rng.random() < 0.5 else s for s in strides]
    span = item + sum((n - 1) * s for n, s in zip(tensor.sizes, strides, strict=True))
    base = rng.integers(0, 256, span + 4, np.uint8)
    array = np.ndarray(tensor.sizes, tensor.data_type.dtype, base, int(rng.integers(0, 4)), strides)
    view = array[tuple(np.s_[::-1] if rng.random() < 0.4 else np.s_[:] for _ in tensor.sizes)]
    if is_read_flat(view, tensor):
        view = view[::-1]
    return base, view, view


def check(rng, desc, make_operand):
    """Run `desc` on each device over the same random memory; no byte but the outputs' elements may change."""
    inputs = [make_operand(rng, tensor, name == "SplitTensor") for name, tensor in desc.inputs]
    outputs = [make_operand(rng, tensor, True) for _, tensor in desc.outputs]
    fill_inputs(rng, desc, [view for _, _, view in inputs])
    before = [base.copy() for base, _, _ in (*inputs, *outputs)]
    for (_, _, view), value in zip(outputs, expected_outputs(desc, [view for _, _, view in inputs]), strict=True):
        view[...] = value
    expected = [base.copy() for base, _, _ in (*inputs, *outputs)]
    for device in DEVICES:
        for (base, _, _), bytes_before in zip((*inputs, *outputs), before, strict=True):
            base[...] = bytes_before
        operator = dml.Device(device).compile_operator(desc)
        operator.bind([bound for _, bound, _ in inputs], [bound for _, bound, _ in outputs]).dispatch()
        for (base, _, _), bytes_after in zip((*inputs, *outputs), expected, strict=True):
            np.testing.assert_array_equal(base, bytes_after, f"{device}: {desc}")


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_flat_buffers(chunk):
    rng = np.random.default_rng([2026, chunk])
    for i in range(DESCS_PER_CHUNK):
        desc = random_desc(rng, OPERATORS[i % len(OPERATORS)])
        check(rng, desc, lambda rng, tensor, is_distinct: flat_operand(rng, tensor))


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_shaped_arrays(chunk):
    rng = np.random.default_rng([1120, chunk])
    for i in range(DESCS_PER_CHUNK):
        check(rng, random_desc(rng, OPERATORS[i % len(OPERATORS)]), shaped_operand)


def test_the_random_descs_are_varied():
    rng = np.random.default_rng(7)
    seen = collections.Counter()
    for i in range(700):
        desc = random_desc(rng, OPERATORS[i % len(OPERATORS)])
        for kind, tensors in (("input", desc.inputs), ("output", desc.outputs)):
            for _, tensor in tensors:
                seen[kind, "packed" if tensor.strides is None else "strided"] += 1
                seen[kind, "broadcast"] += 0 in tensor.element_strides
                seen[len(tensor.sizes)] += 1
                seen[tensor.data_type] += 1
    assert all(seen[n] >= 10 for n in range(1, 9))
    assert all(seen[t] >= 10 for t in dml.DataType)
    assert all(seen[kind, how] >= 50 for kind in ("input", "output") for how in ("packed", "strided"))
    assert seen["input", "broadcast"] >= 50
    assert seen["output", "broadcast"] == 0
