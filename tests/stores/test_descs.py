"""Every operator over files, in blocks of a few bytes, against its document's formula."""

import dataclasses

import numpy as np
import pytest
from random_descs import OPERATORS, random_desc
from random_family import FAMILY, fill_indices

import anydml as dml
from anydml import stores

REFUSED = {
    "scatter", "scatter_nd", "one_hot", "split_training", "concat_training", "reverse_subsequences", "padding",
    "padding1", "nonzero_coordinates",
}  # fmt: skip
"""Those that write by indices, need scratch, read values on the host, or, in some modes, what they have written."""

SMALL = {"slice", "slice1", "gather_nd", "gather_nd1"}
"""Those of which the random descs write so little that one block holds it."""


def packed(desc):
    """The desc with tensors as files have them."""
    fields = {field.name: getattr(desc, field.name) for field in dataclasses.fields(desc)}
    changed = {}
    for name, value in fields.items():
        if isinstance(value, dml.TensorDesc):
            changed[name] = dml.TensorDesc(value.data_type, value.sizes)
        elif isinstance(value, tuple) and value and all(isinstance(each, dml.TensorDesc) for each in value):
            changed[name] = tuple(dml.TensorDesc(each.data_type, each.sizes) for each in value)
    return dataclasses.replace(desc, **changed)


def check(folder, desc, seed):
    """Run a desc over files with very little memory, and compare; False where it cannot be planned."""
    rng = np.random.default_rng(seed)
    inputs = [
        np.frombuffer(rng.bytes(int(np.prod(t.sizes)) * t.data_type.itemsize), t.data_type.dtype)
        .reshape(t.sizes)
        .copy()
        for _, t in desc.inputs
    ]
    fill_indices(rng, [(name, array) for (name, _), array in zip(desc.inputs, inputs, strict=True)])
    outputs = [np.zeros(t.sizes, t.data_type.dtype) for _, t in desc.outputs]
    try:
        dml.Device("reference").compile_operator(desc).bind(inputs, outputs).dispatch()
    except dml.BindingError:
        return None
    opened = []
    for k, array in enumerate(inputs):
        np.save(folder / f"{k}.npy", array)
        opened.append(stores.open(folder / f"{k}.npy"))
    targets = [stores.create(folder / f"out{k}.npy", like=array) for k, array in enumerate(outputs)]
    least = 64 + sum(constant.nbytes for constant in desc.lower()[1])
    plan = None
    for memory in (200, 400, 800, 1600, 6400):
        try:
            plan = stores.plan(desc, opened, targets, least + memory, overwrite=True)
            break
        except dml.BindingError as error:
            if "no way was found" not in str(error) and "of memory" not in str(error):
                return False
    assert plan is not None, desc
    plan.run()
    for k, array in enumerate(outputs):
        assert np.load(folder / f"out{k}.npy").tobytes() == array.tobytes(), (desc, str(plan))
    return len(plan.blocks)


@pytest.mark.parametrize("operator", [*OPERATORS, *FAMILY])
def test_random_descs(tmp_path, monkeypatch, operator):
    monkeypatch.setattr("anydml.stores.planning.base_plan.MIN_MEMORY", 0)
    monkeypatch.setattr("anydml.stores.planning.choosing.LONG_BLOCK_BYTES", 64)
    results = []
    for seed in range(6):
        rng = np.random.default_rng([seed, len(operator)])
        desc = packed(FAMILY[operator](rng) if operator in FAMILY else random_desc(rng, operator))
        results.append(check(tmp_path, desc, seed))
    if operator in REFUSED:
        assert False in results or None in results
    else:
        assert not any(result is False for result in results)
        assert operator in SMALL or any(result and result > 1 for result in results)
