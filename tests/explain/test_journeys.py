"""Where pictures say that elements come from: against the documents' formulas, for every operator; and NumPy."""

import numpy as np
import pytest
from random_descs import OPERATORS, random_desc
from random_family import FAMILY, fill_indices

import anydml as dml
from anydml.explain.journeys import MAX_CELLS, follow, is_small

CASES = 40
EVERY = {name: lambda rng, name=name: random_desc(rng, name) for name in OPERATORS} | FAMILY
# What counts through scratch writes numbers that come from nowhere.
del EVERY["nonzero_coordinates"]


def arrays_of(rng, desc):
    """Values of a desc's inputs, indices of which few are outside."""
    arrays = [
        rng.integers(0, 200, tensor.sizes).astype(tensor.data_type.dtype)
        if tensor.data_type.itemsize > 1
        else rng.integers(0, 100, tensor.sizes).astype(tensor.data_type.dtype)
        for _, tensor in desc.inputs
    ]
    fill_indices(rng, [(name, array) for (name, _), array in zip(desc.inputs, arrays, strict=True)])
    return arrays


def element(section, cell):
    """Where an element is, or its bytes where it is a constant's: documents give these."""
    tensor = section.tensors[cell[0]]
    return tensor.values.reshape(-1)[cell[1]].tobytes() if tensor.role == "constant" else address(section, cell)


def byte(tensor, at):
    return sum(int(c) * stride for c, stride in zip(at, tensor.strides, strict=True))


def address(section, cell):
    """An element's operand and byte: elements that lie on each other are one."""
    tensor = section.tensors[cell[0]]
    return cell[0], byte(tensor, np.unravel_index(cell[1], tensor.sizes) if tensor.sizes else ())


def by_formula(section, arrays):
    """What the document says of every element that is written: the last source that it has."""
    formula = section.program.formula
    constants = [operand.value for operand in section.program.operands if operand.role == "constant"]
    values = dict(enumerate(arrays)) | dict(
        zip(range(len(section.tensors) - len(constants), len(section.tensors)), constants, strict=True)
    )
    origins = {}
    for output, to, source, at in formula.elements(lambda operand, at: int(values[operand][at])):
        came = source
        if not isinstance(source, bytes):
            tensor = section.tensors[source]
            came = tensor.values[at].tobytes() if tensor.role == "constant" else (source, byte(tensor, at))
        origins[output, byte(section.tensors[output], to)] = came
    return origins


def by_journeys(section):
    origins = {}
    for run in follow(section).runs:
        for k, cell in enumerate(run.destination):
            size = section.tensors[cell[0]].element_size
            came = run.fill * (size // len(run.fill)) if run.fill is not None else element(section, run.source[k])
            # Mirrored padding is read from what has been written.
            origins[address(section, cell)] = origins.get(came, came)
    return origins


@pytest.mark.parametrize("name", EVERY)
def test_every_element_comes_from_where_the_document_says(name):
    seen = 0
    for seed in range(CASES):
        rng = np.random.default_rng(seed)
        desc = EVERY[name](rng)
        if list(desc.problems()):
            continue
        arrays = arrays_of(rng, desc)
        (section,) = dml.explain(desc, *arrays, device="").sections
        if is_small(section):
            seen += 1
            laid_out = [tensor.values for tensor in section.tensors[: len(arrays)]]
            assert by_journeys(section) == by_formula(section, laid_out), desc
    assert seen >= CASES // 4


def test_labels_are_the_results_of_a_fused_function():
    rng = np.random.default_rng(3)
    x, index = rng.integers(0, 1000, (4, 6)), np.array([3, 0, 0, -1])

    @dml.fuse
    def chain(x, index):
        first, second = x, x[::-1]
        rows = np.take(np.concatenate([first, second[:, ::-1]], axis=1), index, axis=0)
        return np.pad(rows, ((1, 0), (0, 0)), constant_values=7), rows.T

    expected = chain(x, index)
    (section,) = dml.explain(chain, x, index).sections
    labels = follow(section).labels
    outputs = [k for k, tensor in enumerate(section.tensors) if tensor.role == "output"]
    for k, result in zip(outputs, expected, strict=True):
        assert section.tensors[k].sizes == result.shape
        assert [labels[k, cell] for cell in range(result.size)] == [str(value) for value in result.ravel()]


def test_an_index_that_is_not_known_is_said_to_decide():
    tensor = dml.TensorDesc
    desc = dml.GatherOperatorDesc(tensor("FLOAT32", [3]), tensor("INT64", [2]), tensor("FLOAT32", [2]), 0, 1)
    (section,) = dml.explain(desc, device="").sections
    for k, run in enumerate(follow(section).runs):
        assert (run.destination, run.source, run.indices) == (((2, k),), (), ((1, k),))


def test_a_skipped_element_is_not_written():
    tensor = dml.TensorDesc
    updates = tensor("INT32", [2]), tensor("INT32", [2])
    desc = dml.ScatterOperatorDesc(tensor("INT32", [3]), *updates, tensor("INT32", [3]), 0)
    (section,) = dml.explain(desc, [1, 2, 3], [0, 9], [7, 8], device="").sections
    runs = follow(section).runs
    assert [run.is_skipped for run in runs if run.indices] == [False, True]
    assert [follow(section).labels[3, k] for k in range(3)] == ["7", "2", "3"]


def test_what_is_large_is_not_followed():
    big = dml.TensorDesc("UINT8", [MAX_CELLS])
    (section,) = dml.explain(dml.ElementWiseIdentityOperatorDesc(big, big), device="").sections
    assert not is_small(section)
