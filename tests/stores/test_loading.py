"""`plan_load`: following its runs with plain reads gives a rank's tensors, and its ranges are exactly their bytes."""

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from safetensors.numpy import save_file

from anydml import stores
from anydml.errors import ModelError

AXES = """
[[axes]]
match = "rows*"
axis = 0
[[axes]]
match = "columns*"
axis = 1
[[axes]]
match = "all*"
replicate = true
"""


def followed(plan):
    """Tensors made of nothing but descriptors."""
    made = {name: bytearray(int(np.prod(shape)) * dtype.itemsize) for name, (shape, dtype) in plan.tensors.items()}
    for run in plan.descriptors():
        content = run.path.read_bytes()[run.offset : run.offset + run.length]
        assert len(content) == run.length
        made[run.tensor][run.start : run.start + run.length] = content
    return {
        name: np.frombuffer(bytes(made[name]), dtype).reshape(shape) for name, (shape, dtype) in plan.tensors.items()
    }


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory):
    folder = tmp_path_factory.mktemp("checkpoint")
    rng = np.random.default_rng(1)
    tensors = {f"{kind}.{k}": rng.random((12, 24), np.float32) for kind in ("rows", "columns", "all") for k in range(3)}
    tensors["all.none"], tensors["all.number"] = np.zeros((0, 4)), np.array(3.0)
    (folder / "in").mkdir()
    for k in range(2):
        save_file(dict([*tensors.items()][k::2]), folder / "in" / f"model-{k}.safetensors")
    (folder / "axes.toml").write_text(AXES)
    return folder / "in", folder / "axes.toml", tensors


@given(data=st.data(), ranks=st.sampled_from([1, 2, 3, 4, 12]))
def test_each_rank_has_its_part(checkpoint, data, ranks):
    folder, axes, tensors = checkpoint
    rank = data.draw(st.integers(0, ranks - 1))
    plan = stores.plan_load(folder, rank, ranks, axes)
    found = followed(plan)
    assert {*found} == {*tensors}
    for name, each in tensors.items():
        axis = {"rows": 0, "columns": 1}.get(name.split(".")[0])
        wanted = each if axis is None else np.split(each, ranks, axis)[rank]
        assert np.array_equal(found[name], wanted), name
    needed = np.concatenate([np.arange(run.offset, run.offset + run.length) for run in plan.descriptors()])
    asked = [stop - start for own in plan.ranges().values() for start, stop in own]
    assert sum(asked) == len(needed) == sum(each.nbytes for each in found.values())


def test_ranges_are_sorted_apart_and_cover_the_runs(checkpoint):
    folder, axes, _ = checkpoint
    plan = stores.plan_load(folder, 1, 4, axes)
    ranges = plan.ranges()
    for own in ranges.values():
        flat = [end for each in own for end in each]
        assert flat == sorted({*flat})
    for run in plan.descriptors():
        assert any(a <= run.offset and run.offset + run.length <= b for a, b in ranges[run.path])


def test_rules_and_json(checkpoint, tmp_path):
    folder, _, tensors = checkpoint
    rules = tmp_path / "rules.toml"
    rules.write_text(
        '[[rules]]\njoin = ["rows.0", "rows.1"]\nto = "rows.joined"\naxis = 0\n'
        '[[rules]]\nmatch = "rows.joined"\npermute = [1, 0]\n' + AXES
    )
    plan = stores.plan_load(folder, 1, 2, rules)
    wanted = np.concatenate([tensors["rows.0"], tensors["rows.1"]]).T[12:]
    assert np.array_equal(followed(plan)["rows.joined"], wanted)
    said = json.loads(plan.to_json())
    assert [each["name"] for each in said["tensors"]] == [*plan.tensors]
    runs = [
        (Path(said["files"][f]["path"]), a, said["tensors"][t]["name"], b, n) for f, a, t, b, n in said["descriptors"]
    ]
    assert runs == [tuple(run) for run in plan.descriptors()]
    assert {Path(each["path"]): [*map(tuple, each["ranges"])] for each in said["files"]} == plan.ranges()


def test_refusals(checkpoint, tmp_path):
    folder, axes, _ = checkpoint
    for rank, ranks, message in ((2, 2, "rank is 2, where 0 to 1"), (0, 5, "cannot share evenly")):
        with pytest.raises(ModelError, match=message):
            stores.plan_load(folder, rank, ranks, axes)
    with pytest.raises(ModelError, match="whose axis is not known"):
        stores.plan_load(folder, 0, 2)
    order = [k * 5 % 12 for k in range(12)] * 40
    (tmp_path / "pick.toml").write_text(f'[[rules]]\nmatch = "rows.0"\ngather = 0\nindices = {order}\n')
    with pytest.raises(ModelError, match="picks rows in an order"):
        stores.plan_load(folder, layout=tmp_path / "pick.toml")
