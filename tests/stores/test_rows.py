"""Copies that indices ask for: many of them are numbers, and a plan of twice as many is no more work."""

import sys

import numpy as np
import pytest
from stores.test_opening import written
from stores.test_plans import FUNCTIONS, check
from stores.test_resharding import assert_equal

import anydml as dml
from anydml import stores
from anydml.stores.checkpoints import composed as picking
from anydml.stores.planning import copies as rows
from anydml.stores.planning import known_lookups

PICKS = {
    "rows": lambda x, i: x[i],
    "rows of a part": lambda x, i: x[5:, 3:, 4:][i % 19],
    "some of them": lambda x, i: x[i][7:333:3],
    "by two axes of indices": lambda x, i: x[i.reshape(25, 20)],
    "beside others": lambda x, i: np.concatenate([x[:7], x[i], x[::-1]]),
    "as columns": lambda x, i: np.concatenate([x[i], x[i][:, :4]], 1),
    "points": lambda x, i: x.reshape(-1)[i * 7],
    "turned": lambda x, i: x[i].transpose(1, 0, 2),
    "columns": lambda x, i: x.reshape(-1, 540)[:, i],
    "several": lambda x, i: (x[i], [x[i][:, 2:]]),
}


@pytest.mark.parametrize("memory", [40_000, "2MB"])
@pytest.mark.parametrize("name", PICKS)
def test_many_indices_give_what_numpy_gives(tmp_path, name, memory):
    rng = np.random.default_rng(1)
    x = rng.integers(0, 1 << 15, (24, 30, 18)).astype("<i2")
    np.save(tmp_path / "x.npy", x)
    index = rng.integers(0, 24, 500)
    check(tmp_path, lambda x: PICKS[name](x, index), x, memory)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_few_are_the_same_as_rows(tmp_path, monkeypatch, name):
    monkeypatch.setattr(known_lookups, "MAX_SINGLE_COPIES", 0)
    x = np.random.default_rng(1).integers(0, 1 << 15, (24, 30, 18)).astype("<i2")
    np.save(tmp_path / "x.npy", x)
    check(tmp_path, FUNCTIONS[name], x, 4200)


@pytest.mark.parametrize("length", [1, 3, 700, 5000, 20_000])
@pytest.mark.parametrize("share", [0.02, 0.4, 3])
def test_rows_of_any_length_read_here_and_there(tmp_path, length, share):
    count = 6_000_000 // length
    picked = min(100_000, int(count * share))
    rng = np.random.default_rng(length)
    x = np.frombuffer(rng.bytes(count * length), np.uint8).reshape(count, length)
    np.save(tmp_path / "x.npy", x)
    index = rng.integers(0, count, picked)
    np.save(tmp_path / "i.npy", index)
    taken = dml.fuse(lambda x, i: x[i])
    inputs = [stores.open(tmp_path / f"{name}.npy") for name in "xi"]
    plan = taken.plan(inputs, stores.create(tmp_path / "out.npy", (picked, length), "u1"), "20MB")
    plan.run()
    np.testing.assert_array_equal(np.load(tmp_path / "out.npy"), x[index])
    assert plan.totals.bytes_written == picked * length


def calls(function):
    """How many functions of Python's and of C's a function calls, all in all."""
    count = 0

    def called(frame, event, argument):
        nonlocal count
        count += event in ("call", "c_call")

    sys.setprofile(called)
    try:
        function()
    finally:
        sys.setprofile(None)
    return count


def test_a_plan_of_many_rows_is_no_more_work_than_one_of_few(tmp_path):
    found = []
    for count in (2_000, 128_000):
        np.lib.format.open_memmap(tmp_path / f"x{count}.npy", "w+", np.float32, (count, 16)).flush()
        np.save(tmp_path / f"i{count}.npy", np.random.default_rng(0).permutation(count))
        inputs = [stores.open(tmp_path / f"{name}{count}.npy") for name in "xi"]
        target = stores.create(tmp_path / f"o{count}.npy", (count, 16), "f4")
        taken = dml.fuse(lambda x, i: x[i])
        found.append(calls(lambda: taken.plan(inputs, target)))  # noqa: B023  # it is called at once
    assert found[1] < 2 * found[0]
    assert found[1] < 20_000


def test_a_layout_of_many_rows_neither(tmp_path):
    found = []
    for count in (1_000, 20_000):
        order = np.random.default_rng(0).permutation(count)
        written(tmp_path / f"{count}.safetensors", {"w": np.arange(count * 4, dtype=np.int16).reshape(count, 4)})
        layout = tmp_path / f"{count}.toml"
        layout.write_text(f'[[rules]]\nmatch = "w"\ngather = 0\nindices = {order.tolist()}\n')
        source, target = tmp_path / f"{count}.safetensors", tmp_path / f"out{count}.safetensors"
        plan = stores.reshard([source], target, layout)
        values = dml.stores.open(source)["w"].read()
        plan.run()
        np.testing.assert_array_equal(stores.open(target)["w"].read(), values[order])
        found.append(calls(lambda: picking.pick_indices(*described(count), order.tolist())))  # noqa: B023
    assert found[1] < found[0] + 100


def described(count):
    from anydml.moves.composer import Composer

    composer = Composer("a test")
    return composer, "indices", composer.input("x", (count, 4), (8, 2), 2), 0


RULES = '[[rules]]\nmatch = "w"\n'


@pytest.mark.parametrize("shards", [None, 0, 1])
def test_rules_after_a_gather_of_many_rows(tmp_path, shards):
    rng = np.random.default_rng(4)
    w = rng.integers(0, 1 << 15, (600, 24)).astype(np.int16)
    order = rng.permutation(600)
    layout = tmp_path / "layout.toml"
    layout.write_text(
        f"{RULES}gather = 0\nindices = {order.tolist()}\n"
        f"{RULES}unflatten = 0\nsizes = [20, 30]\n{RULES}permute = [1, 0, 2]\n{RULES}flatten = [0, 1]\n"
        f"{RULES}gather = 0\nindices = {order[::-1].tolist()}\n"
        f'{RULES}split = ["a", "b"]\naxis = 1\nsizes = [7, 17]\n'
        '[[rules]]\nmatch = "a"\nslice = 0\nstart = 5\nstep = 3\n'
        + ("" if shards is None else f'[[axes]]\nmatch = "*"\naxis = {shards}\n')
    )
    sources = []
    for k, part in enumerate(np.split(w, 1 if shards is None else 2, shards or 0)):
        sources.append(written(tmp_path / f"{k}.safetensors", {"w": np.ascontiguousarray(part)}))
    stores.reshard(sources, tmp_path / "out.safetensors", layout, memory="50kB").run()
    wanted = w[order].reshape(20, 30, 24).transpose(1, 0, 2).reshape(600, 24)[order[::-1]]
    assert_equal(stores.open(tmp_path / "out.safetensors"), {"a": wanted[5::3, :7], "b": wanted[:, 7:]})


@pytest.mark.parametrize("seed", range(20))
def test_rows_of_an_interval(seed):
    rng = np.random.default_rng(seed)
    count, length = int(rng.integers(1, 40)), int(rng.integers(1, 9))
    source = rng.integers(0, 255, 400, np.uint8)
    to, at = rng.permutation(60)[:count] * length, rng.integers(0, 400 - length, count)
    whole = np.zeros(60 * length, np.uint8)
    for a, b in zip(to, at, strict=True):
        whole[a : a + length] = source[b : b + length]
    found = rows.copies_of(1, 0, to, at, length)
    assert found.bytes == count * length
    assert (np.diff(found.to) > 0).all()
    for left in range(0, whole.size, 7):
        right = min(whole.size, left + int(rng.integers(1, 50)))
        out = np.zeros(right - left, np.uint8)
        found.inside(left, right).run(source, out)
        np.testing.assert_array_equal(out, whole[left:right])


def test_more_rows_than_a_plan_holds_are_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(known_lookups, "MAX_COPIES", 1000)
    np.save(tmp_path / "x.npy", np.zeros((5000, 2)))
    taken = dml.fuse(lambda x, i: x[i])
    for count, is_refused in ((900, False), (1500, True)):
        np.save(tmp_path / "i.npy", np.arange(0, 3 * count, 3) // 3 * 7919 % 5000)
        inputs = [stores.open(tmp_path / f"{name}.npy") for name in "xi"]
        target = stores.create(tmp_path / f"out{count}.npy", (count, 2), "f8")
        if is_refused:
            with pytest.raises(dml.BindingError, match="it picks 1500 runs, but the maximum of a plan is 1000"):
                taken.plan(inputs, target)
        else:
            taken.plan(inputs, target)
