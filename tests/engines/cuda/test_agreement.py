"""Random descs on the GPU engine, on the judge and by NumPy: the same bytes, padding included."""

import numpy as np
import pytest
from cuda_memory import Memory
from how_many import how_many
from random_descs import OPERATORS, expected_outputs, fill_inputs, is_read_flat, padded_strides, random_desc
from seeds import CASES

import anydml as dml

DRAWN = how_many(100)
HOST_TENSORS = ("SplitTensor", "PerInputLengthTensor")


class Operand:
    """A tensor's bytes on the host, where an element lies in them, and what is bound on the device."""

    def __init__(self, rng, name, tensor, is_flat):
        item = tensor.data_type.itemsize
        self.name, self.is_flat = name, is_flat
        self.shape, self.dtype = tensor.sizes, tensor.data_type.dtype
        if is_flat:
            self.strides = [s * item for s in tensor.element_strides]
            self.offset = int(rng.integers(0, 17))
            self.count = tensor.size_in_bytes
        else:
            self.strides = padded_strides(rng, tensor.sizes, item, 5 if rng.random() < 0.5 else 1)
            self.offset = int(rng.integers(0, 4)) * (1 if rng.random() < 0.5 else item)
            span = item + sum((n - 1) * s for n, s in zip(tensor.sizes, self.strides, strict=True))
            for d, size in enumerate(tensor.sizes):
                if rng.random() < 0.4:
                    self.offset += (size - 1) * self.strides[d]
                    self.strides[d] = -self.strides[d]
            self.count = span
        self.bytes = rng.integers(0, 256, self.offset + self.count + 20, np.uint8)
        if not is_flat and is_read_flat(self.view, tensor):
            self.offset += (tensor.sizes[0] - 1) * item
            self.strides = [-item]

    @property
    def view(self):
        return np.ndarray(self.shape, self.dtype, self.bytes, self.offset, self.strides)

    def bind(self):
        """New device memory with this content, and the window of it to bind."""
        if self.name.partition("[")[0] in HOST_TENSORS:
            if self.is_flat:
                return None, memoryview(self.bytes)[self.offset : self.offset + self.count]
            return None, self.view
        memory = Memory(self.bytes)
        if self.is_flat:
            return memory, memory.window(self.offset, (self.count,), (1,), np.uint8)
        return memory, memory.window(self.offset, self.shape, self.strides, self.dtype)


def check(rng, desc, device, is_flat):
    operands = [Operand(rng, name, tensor, is_flat) for name, tensor in (*desc.inputs, *desc.outputs)]
    first = len(desc.inputs)
    inputs, outputs = operands[:first], operands[first:]
    fill_inputs(rng, desc, [operand.view for operand in inputs])
    bound = [operand.bind() for operand in operands]
    device.compile_operator(desc).bind(
        [window for _, window in bound[:first]], [window for _, window in bound[first:]]
    ).dispatch()
    expected = expected_outputs(desc, [operand.view for operand in inputs])
    judged = [operand.bytes.copy() for operand in operands]
    for operand, value in zip(outputs, expected, strict=True):
        operand.view[...] = value
    views = [np.ndarray(o.shape, o.dtype, b, o.offset, o.strides) for o, b in zip(operands, judged, strict=True)]
    dml.Device("reference").compile_operator(desc).bind(views[:first], views[first:]).dispatch()
    for operand, by_judge, (memory, _) in zip(operands, judged, bound, strict=True):
        np.testing.assert_array_equal(by_judge, operand.bytes, f"reference and NumPy, {operand.name}: {desc}")
        if memory is not None:
            np.testing.assert_array_equal(memory.read(), operand.bytes, f"cuda, {operand.name}: {desc}")


@pytest.mark.parametrize("operator", OPERATORS)
def test_random_descs(operator, device):
    rng = np.random.default_rng([4, OPERATORS.index(operator)])
    for i in range(DRAWN):
        check(rng, random_desc(rng, operator), device, is_flat=i % 2 == 0)


def parts_desc(rng, operator, lengths, data_type):
    """A split or join of rows into or from parts of these lengths, all of them packed."""
    rows = int(rng.integers(1, 5))
    whole = dml.TensorDesc(data_type, [rows, sum(lengths)])
    parts = [dml.TensorDesc(data_type, [rows, n]) for n in lengths]
    numbers = dml.TensorDesc("INT64", [len(lengths)])
    match operator:
        case "split":
            return dml.SplitOperatorDesc(whole, parts, 1)
        case "join":
            return dml.JoinOperatorDesc(parts, whole, 1)
        case "split_training":
            return dml.SplitTrainingOperatorDesc(whole, numbers, parts, 1)
        case "concat_training":
            return dml.ConcatTrainingOperatorDesc(parts, whole, numbers, 1)


@pytest.mark.parametrize("is_equal", [True, False], ids=["equal", "unequal"])
@pytest.mark.parametrize("count", [1, 31, 32, 33, 65])
@pytest.mark.parametrize("operator", ["split", "join", "split_training", "concat_training"])
def test_any_number_of_parts(operator, count, is_equal, device):
    rng = np.random.default_rng([5, count, is_equal])
    wide = "FLOAT32" if operator == "split" else "FLOAT64"
    for data_type in ("UINT8", wide):
        lengths = [int(rng.integers(1, 9))] * count if is_equal else rng.integers(1, 9, count).tolist()
        check(rng, parts_desc(rng, operator, lengths, data_type), device, is_flat=False)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_the_documents_examples(case, device):
    memories = [Memory(np.frombuffer(x.tobytes(), np.uint8)) for x in case.inputs]
    memories += [Memory(np.full(y.nbytes + 3, 0xEE, np.uint8)) for y in case.outputs]
    arrays = (*case.inputs, *case.outputs)
    windows = [m.window(0, x.shape, x.strides, x.dtype) for m, x in zip(memories, arrays, strict=True)]
    first = len(case.inputs)
    device.compile_operator(case.desc).bind(windows[:first], windows[first:]).dispatch()
    for memory, expected in zip(memories[first:], case.outputs, strict=True):
        assert memory.read().tobytes() == expected.tobytes() + b"\xee" * 3
