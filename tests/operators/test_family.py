"""Every operator of the family on every engine: random descs over random memory, against its document's formula."""

import dataclasses

import numpy as np
import pytest
from fuzz.forced import CPU_WAYS, forced
from how_many import how_many
from random_descs import padded_strides
from random_family import FAMILY, fill_indices

import anydml as dml

CASES = how_many(40)
DEVICES = ("reference", "numpy", "cpu")


def flat_operand(rng, tensor):
    """Random bytes for a flat buffer, at any alignment, and the view that the desc's strides make of them."""
    base = rng.integers(0, 256, tensor.size_in_bytes + 8, np.uint8)
    start = int(rng.integers(0, 4))
    flat = base[start : start + tensor.size_in_bytes]
    strides = [s * tensor.data_type.itemsize for s in tensor.element_strides]
    return base, memoryview(flat), np.ndarray(tensor.sizes, tensor.data_type.dtype, flat, 0, strides)


def shaped_operand(rng, tensor):
    """Random bytes seen with gaps, swapped and reversed."""
    item = tensor.data_type.itemsize
    strides = padded_strides(rng, tensor.sizes, item, 5 if rng.random() < 0.5 else 1)
    span = item + sum((n - 1) * s for n, s in zip(tensor.sizes, strides, strict=True))
    base = rng.integers(0, 256, span + 4, np.uint8)
    array = np.ndarray(tensor.sizes, tensor.data_type.dtype, base, int(rng.integers(0, 4)), strides)
    view = array[tuple(np.s_[::-1] if rng.random() < 0.4 else np.s_[:] for _ in tensor.sizes)]
    return base, view, view


@pytest.fixture
def threads(request):
    """As many threads as the test asks for."""
    before = dml.get_num_threads()
    dml.set_num_threads(request.param)
    yield request.param
    dml.set_num_threads(before)


def packed(desc):
    """The desc without strides, by which arrays of one dimension would be read as flat buffers."""
    fields = {field.name: getattr(desc, field.name) for field in dataclasses.fields(desc)}
    tensors = {
        name: dml.TensorDesc(t.data_type, t.sizes) for name, t in fields.items() if isinstance(t, dml.TensorDesc)
    }
    return dataclasses.replace(desc, **tensors)


def check(rng, desc, make_operand):
    """Run `desc` on each device over the same memory: all of it is the same afterwards, padding included."""
    operands = [make_operand(rng, tensor) for _, tensor in (*desc.inputs, *desc.outputs)]
    count = len(desc.inputs)
    views = [view for _, _, view in operands[:count]]
    fill_indices(rng, [(name, view) for (name, _), view in zip(desc.inputs, views, strict=True)])
    before = [base.copy() for base, _, _ in operands]
    expected = None
    for device in DEVICES:
        for (base, _, _), same in zip(operands, before, strict=True):
            base[...] = same
        bound = [bound for _, bound, _ in operands]
        dml.Device(device).compile_operator(desc).bind(bound[:count], bound[count:]).dispatch()
        after = [base.copy() for base, _, _ in operands]
        expected = expected or after
        for got, right in zip(after, expected, strict=True):
            np.testing.assert_array_equal(got, right, f"{device}: {desc}")


@pytest.mark.parametrize("make_operand", [flat_operand, shaped_operand])
@pytest.mark.parametrize("operator", FAMILY)
def test_random_descs(operator, make_operand):
    rng = np.random.default_rng([14, *map(ord, operator)])
    for _ in range(CASES // 2):
        desc = FAMILY[operator](rng)
        check(rng, packed(desc) if make_operand is shaped_operand else desc, make_operand)


@pytest.mark.parametrize("operator", FAMILY)
def test_moves_keep_the_rules_of_programs(operator):
    rng = np.random.default_rng([15, *map(ord, operator)])
    for _ in range(25):
        desc = packed(FAMILY[operator](rng))
        assert list(desc.program().problems()) == [], desc


@pytest.mark.parametrize("way", CPU_WAYS, ids=str)
@pytest.mark.parametrize("operator", FAMILY)
def test_random_descs_by_kernels(operator, way):
    rng = np.random.default_rng([17, *map(ord, f"{operator} {way}")])
    with forced(way):
        for _ in range(CASES // 20):
            check(rng, FAMILY[operator](rng), flat_operand)


@pytest.mark.parametrize("threads", [1, 2], indirect=True)
@pytest.mark.parametrize("operator", ["scatter", "scatter_nd"])
def test_large_scatters_with_duplicates_are_what_one_thread_writes(operator, threads):
    rng = np.random.default_rng(18)
    x, updates = rng.random((2, 300, 500), np.float32)
    where = rng.integers(-400, 400, (300, 500) if operator == "scatter" else (300, 1))
    tensor = dml.TensorDesc("FLOAT32", [300, 500])
    expected = x.copy()
    if operator == "scatter":
        desc = dml.ScatterOperatorDesc(tensor, dml.TensorDesc("INT64", where.shape), tensor, tensor, 0)
        for i, j in np.ndindex(*where.shape):
            if -300 <= where[i, j] < 300:
                expected[where[i, j], j] = updates[i, j]
    else:
        desc = dml.ScatterNdOperatorDesc(tensor, dml.TensorDesc("INT64", where.shape), tensor, tensor, 2, 2)
        for i, (to,) in enumerate(where):
            if -300 <= to < 300:
                expected[to] = updates[i]
    for device in ("cpu", "numpy"):
        y = np.zeros_like(x)
        dml.Device(device).compile_operator(desc).bind([x, where, updates], [y]).dispatch()
        np.testing.assert_array_equal(y, expected, device)
