"""Tensors that are copied whole: those that follow each other in a file are read and written at once."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.numpy import load_file, save_file

from anydml import stores

DTYPES = ("uint8", "float16", "float32", "int64")


@st.composite
def checkpoints(draw):
    """Files of tensors of any shapes and dtypes, empty ones and scalars among them."""
    rng = np.random.default_rng(draw(st.integers(0, 99)))
    files = []
    for number in range(draw(st.integers(1, 3))):
        kinds = st.tuples(st.lists(st.integers(0, 5), max_size=3), st.sampled_from(DTYPES))
        drawn = draw(st.lists(kinds, min_size=1, max_size=6))
        names = draw(st.permutations([f"{number}.{k}" for k in range(len(drawn))]))
        files.append(
            {name: rng.integers(0, 99, shape).astype(dtype) for name, (shape, dtype) in zip(names, drawn, strict=True)}
        )
    return files


def written(folder, files):
    folder.mkdir()
    for k, tensors in enumerate(files):
        save_file({name: np.ascontiguousarray(each) for name, each in tensors.items()}, folder / f"{k}.safetensors")


@settings(max_examples=60, deadline=None)
@given(files=checkpoints(), memory=st.sampled_from([4096, "256MB"]), shard_size=st.sampled_from([40, "1GB"]))
def test_every_tensor_arrives(tmp_path_factory, files, memory, shard_size):
    folder = tmp_path_factory.mktemp("any")
    written(folder / "in", files)
    stores.reshard([folder / "in"], folder / "out", memory=memory, shard_size=shard_size).run()
    found = {name: each for path in (folder / "out").glob("*.safetensors") for name, each in load_file(path).items()}
    wanted = {name: each for tensors in files for name, each in tensors.items()}
    assert found.keys() == wanted.keys()
    for name, each in wanted.items():
        assert found[name].dtype == each.dtype
        np.testing.assert_array_equal(found[name], each)
    assert stores.verify(folder / "in", folder / "out", memory=17_000 if memory == 4096 else 1 << 20) is None


def test_neighbours_are_read_and_written_at_once(tmp_path):
    written(tmp_path / "in", [{f"{k:04}": np.full(256, k, np.float32) for k in range(2000)}])
    plan = stores.reshard([tmp_path / "in"], tmp_path / "out.safetensors")
    assert (len(plan.blocks), plan.totals.reads, plan.totals.writes) == (1, 1, 1)


def test_each_byte_is_read_once_where_tensors_change_places(tmp_path):
    written(tmp_path / "in", [{f"{k:04}": np.full(2048, k, np.float32) for k in range(300)}])
    (tmp_path / "turned.py").write_text("def layout(tensors):\n    return dict(reversed(tensors.items()))\n")
    plan = stores.reshard([tmp_path / "in"], tmp_path / "out.safetensors", layout=tmp_path / "turned.py")
    assert plan.totals.bytes_read == plan.totals.bytes_written == 300 * 2048 * 4
    plan.run()
    assert stores.verify(tmp_path / "in", tmp_path / "out.safetensors") is None


@pytest.mark.parametrize("changed", [0, 1, 150, 299])
def test_the_tensor_that_differs_is_named_among_its_neighbours(tmp_path, changed):
    tensors = {f"{k:04}": np.full((3, 5), k, np.float32) for k in range(300)}
    written(tmp_path / "one", [tensors])
    tensors[f"{changed:04}"][1, 2] = -1
    written(tmp_path / "other", [tensors])
    difference = stores.verify(tmp_path / "one", tmp_path / "other")
    assert difference == f'"{changed:04}" differs at [1, 2]: {changed}.0 and -1.0'
