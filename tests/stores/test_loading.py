"""`plan_load`: following its runs with plain reads gives a rank's tensors, and its ranges are exactly their bytes."""

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from safetensors.numpy import save_file

from anydml import stores
from anydml.errors import BindingError, ModelError

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


@given(gap=st.integers(0, 100), rank=st.integers(0, 3))
def test_ranges_with_a_gap_are_those_without_it_joined(checkpoint, gap, rank):
    folder, axes, _ = checkpoint
    plan = stores.plan_load(folder, rank, 4, axes)
    for path, own in plan.ranges(gap).items():
        wanted = []
        for start, stop in plan.ranges()[path].tolist():
            if wanted and start - wanted[-1][1] <= gap:
                wanted[-1][1] = stop
            else:
                wanted.append([start, stop])
        assert own.tolist() == wanted


def test_more_runs_than_can_be_listed_are_planned(tmp_path):
    shape = [1 << 13, 1 << 13]
    header = {f"m.layers.{k}.mlp.down_proj.weight": {"dtype": "U8", "shape": shape} for k in range(9)}
    for k, each in enumerate(header.values()):
        each["data_offsets"] = [k << 26, (k + 1) << 26]
    text = json.dumps(header).encode()
    with (tmp_path / "x.safetensors").open("wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        file.truncate(8 + len(text) + (9 << 26))
    plan = stores.plan_load(stores.open(tmp_path / "x.safetensors"), 1 << 11, 1 << 12)
    (ranges,) = plan.ranges().values()
    assert ranges.shape == (9 << 13, 2)
    assert (np.diff(ranges) == 2).all()
    (tmp_path / "turn.toml").write_text('[[rules]]\nmatch = "*"\npermute = [1, 0]\n')
    turned = stores.plan_load(tmp_path / "x.safetensors", layout=tmp_path / "turn.toml")
    (ranges,) = turned.ranges().values()
    assert ranges.tolist() == [[8 + len(text), 8 + len(text) + (9 << 26)]]
    assert len(json.loads(turned.to_json())["boxes"]) == 9
    assert "[0:8192, 0:8192] = x.safetensors: m.layers.8.mlp" in turned.explain("*.8.*")
    with pytest.raises(
        ModelError, match="67108864 runs of bytes, but the maximum is 16777216: to_json has them as boxes"
    ):
        next(turned.descriptors())
    (tmp_path / "skip.toml").write_text('[[rules]]\nmatch = "*"\nslice = 1\nstep = 2\n')
    skipping = stores.plan_load(tmp_path / "x.safetensors", layout=tmp_path / "skip.toml")
    with pytest.raises(ModelError, match=r"the ranges are 301989888 runs of bytes, .* give a gap larger than 0"):
        skipping.ranges()
    assert len(*skipping.ranges(1).values()) == 1


def test_patterns_that_see_numbers_tell_layers_apart(tmp_path):
    tensors = {f"layers.{k}.{n}.w": np.arange(8.0).reshape(2, 4) + k for k in range(3) for n in range(2)}
    save_file(tensors, tmp_path / "x.safetensors")
    said = "".join(
        f'[[axes]]\nmatch = "{match}"\naxis = {axis}\n' for match, axis in (("*.{k}.{k}.w", 0), ("*.2.*", 0), ("*", 1))
    )
    (tmp_path / "axes.toml").write_text(said)
    plan = stores.plan_load(tmp_path / "x.safetensors", 1, 2, tmp_path / "axes.toml")
    for name, each in followed(plan).items():
        _, k, n, _ = name.split(".")
        np.testing.assert_array_equal(each, tensors[name][1:] if k == n or k == "2" else tensors[name][:, 2:])


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
    runs = []
    for f, k, offset, start, length, sizes, reads, writes in said["boxes"]:
        for digits in np.ndindex(*sizes):
            at, to = (first + int(np.dot(digits, steps)) for first, steps in ((offset, reads), (start, writes)))
            runs.append((Path(said["files"][f]["path"]), at, said["tensors"][k]["name"], to, length))
    assert runs == [tuple(run) for run in plan.descriptors()]
    assert {Path(each["path"]): each["ranges"] for each in said["files"]} == {
        path: own.tolist() for path, own in plan.ranges().items()
    }


def test_refusals(checkpoint, tmp_path):
    folder, axes, _ = checkpoint
    for rank, ranks, message in ((2, 2, "rank must be from 0 to 1, not 2"), (0, 5, "divided evenly among")):
        with pytest.raises(ModelError, match=message):
            stores.plan_load(folder, rank, ranks, axes)
    with pytest.raises(ModelError, match="whose axis is not known"):
        stores.plan_load(folder, 0, 2)
    order = [k * 5 % 12 for k in range(12)] * 40
    (tmp_path / "pick.toml").write_text(f'[[rules]]\nmatch = "rows.0"\ngather = 0\nindices = {order}\n')
    with pytest.raises(ModelError, match="picks rows in an order"):
        stores.plan_load(folder, layout=tmp_path / "pick.toml")


@given(data=st.data(), ranks=st.sampled_from([1, 2, 3, 4, 12]), memory=st.sampled_from([4096, 8192, "256MB"]))
def test_what_is_loaded_is_what_the_runs_give(checkpoint, data, ranks, memory):
    folder, axes, _ = checkpoint
    plan = stores.plan_load(folder, data.draw(st.integers(0, ranks - 1)), ranks, axes)
    wanted = followed(plan)
    some = data.draw(st.sets(st.sampled_from([*wanted])))
    out = {name: np.empty(wanted[name].shape, wanted[name].dtype) for name in some}
    found = plan.load(out, memory)
    assert [*found] == [*plan.tensors]
    for name, each in wanted.items():
        assert found[name].dtype == each.dtype
        np.testing.assert_array_equal(found[name], each)
        assert name not in out or found[name] is out[name]


def test_tensors_of_pytorch_are_loaded_into(tmp_path):
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    from safetensors.torch import save_file as save

    tensors = {"half": torch.arange(24).reshape(4, 6).bfloat16(), "whole": torch.arange(5), "one": torch.tensor(2.5)}
    save(tensors, tmp_path / "x.safetensors")
    out = {name: torch.zeros_like(each) for name, each in tensors.items()}
    stores.plan_load(tmp_path / "x.safetensors").load(out)
    assert all(torch.equal(out[name], each) for name, each in tensors.items())


def read_only():
    array = np.zeros((2, 3), np.float32)
    array.flags.writeable = False
    return array


@pytest.mark.parametrize(
    ("out", "error"),
    [
        ({"v": np.zeros(3)}, 'out has "v", but the plan has no such tensor: use the names in plan.tensors'),
        ({"w": [[0.0] * 3] * 2}, "must be an array, not"),
        ({"w": np.zeros((3, 2), np.float32)}, r"must be float32 \[2, 3\], not float32 \[3, 2\]"),
        ({"w": np.zeros((2, 3))}, r"must be float32 \[2, 3\], not float64 \[2, 3\]"),
        ({"w": np.zeros((3, 2), np.float32).T}, "must be writable and in C order"),
        ({"w": read_only()}, "must be writable and in C order"),
    ],
)
def test_arrays_that_do_not_fit_are_refused(tmp_path, out, error):
    save_file({"w": np.ones((2, 3), np.float32)}, tmp_path / "x.safetensors")
    with pytest.raises(BindingError, match=error):
        stores.plan_load(tmp_path / "x.safetensors").load(out)
    assert all(not np.any(each) for each in out.values())


def test_a_file_that_has_changed_is_refused(tmp_path):
    save_file({"w": np.ones((2, 3), np.float32)}, tmp_path / "x.safetensors")
    plan = stores.plan_load(tmp_path / "x.safetensors")
    save_file({"other": np.ones((2, 3, 7), np.float32)}, tmp_path / "x.safetensors")
    with pytest.raises(BindingError, match="has changed since it was opened"):
        plan.load()


def slices(text):
    """What brackets hold."""
    return tuple(slice(*map(int, part.split(":"))) for part in text.strip(" []").split(", ") if part)


@given(data=st.data(), ranks=st.sampled_from([1, 2, 3, 4]))
def test_boxes_that_are_explained_hold_the_elements(checkpoint, data, ranks):
    folder, axes, tensors = checkpoint
    plan = stores.plan_load(folder, data.draw(st.integers(0, ranks - 1)), ranks, axes)
    wanted, made = followed(plan), {}
    for line in plan.explain().splitlines():
        if not line.startswith(" "):
            name = line.partition(":")[0]
            made[name] = np.empty_like(wanted[name])
            continue
        to, _, source = line.partition(" = ")
        file, _, part = source.partition(": ")
        source_name, _, box = part.partition("[")
        assert (folder / file).is_file()
        made[name][slices(to)] = tensors[source_name][slices(box)]
    for name, each in wanted.items():
        np.testing.assert_array_equal(made[name], each)


def test_parts_that_wrap_are_explained_by_all_that_they_touch(tmp_path):
    save_file({"w": np.arange(24, dtype=np.float32).reshape(4, 6)}, tmp_path / "x.safetensors")
    (tmp_path / "flat.toml").write_text(
        '[[rules]]\nmatch = "w"\nflatten = [0, 1]\n[[rules]]\nmatch = "w"\nslice = 0\nstart = 4\nstop = 9\n'
    )
    plan = stores.plan_load(tmp_path / "x.safetensors", layout=tmp_path / "flat.toml")
    assert plan.explain() == "w: float32 [5]\n  [0:5] = x.safetensors: w[0:2, 0:6]"
    assert plan.explain("v*") == ""
