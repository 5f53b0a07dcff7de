"""Plans over files: equal to NumPy's, within the budget, and as they say they will be."""

import os

import ml_dtypes
import numpy as np
import pytest
from stores.test_opening import written

import anydml as dml
from anydml import stores
from anydml.stores.planning.file_blocking import SPARE
from anydml.text import bytes_text, count_noun, parse_size

FUNCTIONS = {
    "copy": lambda x: x.copy(),
    "turned": lambda x: x.transpose(2, 1, 0),
    "last two swapped": lambda x: x.swapaxes(1, 2),
    "flipped": lambda x: x[::-1, :, ::-1],
    "halves exchanged": lambda x: np.concatenate([x[..., 9:], x[..., :9]], -1),
    "steps": lambda x: x[1::3, ::-2, 4:17],
    "repeated": lambda x: np.repeat(x, 3, 1),
    "padded": lambda x: np.pad(x, ((1, 2), (3, 0), (5, 5)), constant_values=7),
    "repeated and rolled": lambda x: np.roll(np.repeat(x[:, :1, :1], 4, 2), -6),
    "merged and turned": lambda x: x.reshape(-1, x.shape[2]).T,
    "rows by a list": lambda x: x[[3, 1, 2, 3, 20, 21, 22, 9, 7, 5]],
    "columns by a list": lambda x: x[:, :, [0, 5, 4, 3, 3, 16]],
    "broadcast": lambda x: np.broadcast_to(x[:1], (9, *x.shape[1:])),
    "nothing": lambda x: x[:, :0],
    "one": lambda x: x[3, 2, 1],
    "several": lambda x: (x[:7], [x[7:].transpose(1, 0, 2), x[:, :, 3]]),
}


@pytest.mark.parametrize("memory", [4200, "30KB", "2MB"])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_plan_gives_what_numpy_gives(tmp_path, name, memory):
    x = np.random.default_rng(1).integers(0, 1 << 15, (24, 30, 18)).astype("<i2")
    np.save(tmp_path / "x.npy", x)
    check(tmp_path, FUNCTIONS[name], x, memory)


def check(folder, function, x, memory):
    """Run a plan of a function of one array, x.npy, and compare."""
    fused = dml.fuse(function)
    wanted = function(x)
    flat = [wanted] if isinstance(wanted, np.ndarray | np.generic) else [wanted[0], *wanted[1]]
    flat = [*map(np.asarray, flat)]
    targets = [stores.create(folder / f"{k}.npy", like=array) for k, array in enumerate(flat)]
    outputs = targets[0] if len(flat) == 1 else (targets[0], targets[1:])
    plan = fused.plan(stores.open(folder / "x.npy"), outputs, memory)
    assert plan.threads * (plan.totals.block_bytes + SPARE) <= parse_size(memory)
    plan.run()
    assert plan.totals.bytes_written == sum(array.nbytes for array in flat)
    for k, array in enumerate(flat):
        found = np.load(folder / f"{k}.npy")
        assert found.dtype == array.dtype
        assert found.shape == array.shape
        assert found.tobytes() == array.tobytes()  # random bytes are not numbers
    assert sorted(os.listdir(folder)) == sorted(["x.npy", *(f"{k}.npy" for k in range(len(flat)))])


@pytest.mark.parametrize("seed", range(25))
def test_random_views_give_what_numpy_gives(tmp_path, seed):
    rng = np.random.default_rng(seed)
    shape = tuple(int(n) for n in rng.integers(1, 14, rng.integers(1, 5)))
    dtype = rng.choice(["u1", "<i2", "f4", "c16", "S3"])
    x = np.frombuffer(rng.bytes(int(np.prod(shape)) * np.dtype(dtype).itemsize), np.uint8).view(dtype).reshape(shape)
    if dtype == "S3":
        x = np.char.add(x, b"")  # without zeros that end a text
        x = x.astype("S3")
    np.save(tmp_path / "x.npy", np.asarray(x, order=rng.choice(["C", "F"])))
    steps = [(int(rng.integers(4)), rng.integers(0, 1 << 30, 8).tolist()) for _ in range(int(rng.integers(1, 5)))]

    def chain(x):
        for way, numbers in steps:
            if not x.ndim or 0 in x.shape:
                return x
            axis = numbers[0] % x.ndim
            if way == 0:
                x = np.moveaxis(x, axis, numbers[1] % x.ndim)
            elif way == 1:
                size = x.shape[axis]
                start, step = numbers[1] % size, (1, 2, 3, -1, -2)[numbers[2] % 5]
                x = x[(slice(None),) * axis + (slice(start, None, step),)]
            elif way == 2:
                x = np.concatenate([x, x[(slice(None),) * axis + (slice(0, 1 + numbers[1] % 5),)]], axis)
            else:
                x = x.reshape(x.shape[0], -1) if numbers[1] % 2 else np.repeat(x, 2, axis)
        return x

    check(tmp_path, chain, x, int(rng.integers(4200, 9000)))


def test_arrays_of_several_files_and_formats(tmp_path):
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal((40, n)).astype(ml_dtypes.bfloat16) for n in (24, 56))
    written(tmp_path / "a.safetensors", {"x": a, "other": np.zeros(5, np.uint8)})
    written(tmp_path / "b.safetensors", {"x": b})

    @dml.fuse
    def joined(a, b, start):
        whole = np.concatenate([a, b], 1)
        return {"whole": whole, "parts": np.split(whole.T, 2)[start:]}

    shapes = {"whole": (40, 80), "first": (40, 40), "second": (40, 40)}
    made = stores.create(tmp_path / "out.safetensors", shapes, ml_dtypes.bfloat16, metadata={"format": "pt"})
    inputs = [stores.open(tmp_path / f"{name}.safetensors")["x"] for name in "ab"]
    outputs = {"whole": made["whole"], "parts": [made["first"], made["second"]]}
    plan = joined.plan((*inputs, 0), outputs, "5KB")
    plan.run()
    found = stores.open(tmp_path / "out.safetensors")
    whole = np.concatenate([a, b], 1)
    assert found.metadata == {"format": "pt"}
    for name, array in (("whole", whole), ("first", whole.T[:40]), ("second", whole.T[40:])):
        assert found[name].read().tobytes() == np.ascontiguousarray(array).tobytes()


def test_indices_of_a_file(tmp_path):
    x, index = np.arange(600.0).reshape(50, 12), np.array([[3, -1, 4], [4, 5, 0]])
    np.save(tmp_path / "x.npy", x)
    np.save(tmp_path / "i.npy", index)
    inputs = [stores.open(tmp_path / f"{name}.npy") for name in "xi"]
    taken = dml.fuse(lambda x, i: x[i])
    taken.plan(inputs, stores.create(tmp_path / "out.npy", (2, 3, 12), "f8"), 4200).run()
    np.testing.assert_array_equal(np.load(tmp_path / "out.npy"), x[index])
    np.save(tmp_path / "i.npy", index + 50)
    inputs[1] = stores.open(tmp_path / "i.npy")
    with pytest.raises(IndexError, match="index 53"):
        taken.plan(inputs, stores.create(tmp_path / "no.npy", (2, 3, 12), "f8"))


def test_constants_are_written_and_count(tmp_path):
    x, known = np.arange(600, dtype=np.int32).reshape(20, 30), np.arange(900, dtype=np.int32)[::-1].reshape(30, 30)
    np.save(tmp_path / "x.npy", x)
    check(tmp_path, lambda x: (np.concatenate([x, known]), [np.zeros_like(x)]), x, 16_000)
    fused = dml.fuse(lambda x: np.concatenate([x, known]))
    with pytest.raises(dml.BindingError, match=r"of which 3600 B are constants"):
        fused.plan(stores.open(tmp_path / "x.npy"), stores.create(tmp_path / "y.npy", (50, 30), "i4"), 6000)


def test_what_would_need_an_intermediate_array_is_refused(tmp_path):
    np.save(tmp_path / "x.npy", np.arange(24.0).reshape(4, 6))
    np.save(tmp_path / "i.npy", np.array([5, 1, 2]))
    fused = dml.fuse(lambda x, i: np.concatenate([x, x])[:, ::-1].reshape(-1)[3:40][i])
    inputs = [stores.open(tmp_path / f"{name}.npy") for name in "xi"]
    with pytest.raises(dml.BindingError, match="needs its whole input at once"):
        fused.plan(inputs, stores.create(tmp_path / "y.npy", (3,), "f8"))


def test_a_desc_over_files(tmp_path):
    x = np.arange(2 * 3 * 40 * 50, dtype=np.float32).reshape(2, 3, 40, 50)
    np.save(tmp_path / "x.npy", x)
    whole = dml.TensorDesc("FLOAT32", x.shape)
    halves = [dml.TensorDesc("FLOAT32", (2, 3, 40, n)) for n in (20, 30)]
    desc = dml.SplitOperatorDesc(whole, halves, axis=3)
    outputs = [stores.create(tmp_path / f"{n}.npy", (2, 3, 40, n), "f4") for n in (20, 30)]
    plan = stores.plan(desc, [stores.open(tmp_path / "x.npy")], outputs, "6KB")
    plan.run()
    np.testing.assert_array_equal(np.load(tmp_path / "20.npy"), x[..., :20])
    np.testing.assert_array_equal(np.load(tmp_path / "30.npy"), x[..., 20:])
    with pytest.raises(dml.BindingError, match=r"OutputTensors\[1\] is float32"):
        stores.plan(desc, [stores.open(tmp_path / "x.npy")], outputs[:1] * 2)


def test_a_split_and_a_join_read_everything_once(tmp_path):
    x = np.arange(64 * 1024, dtype=np.int32).reshape(64, 16, 64)
    np.save(tmp_path / "x.npy", x)
    names = [f"{k}.npy" for k in range(4)]
    split = dml.fuse(lambda x: np.split(x, 4, -1))
    apart = split.plan(
        stores.open(tmp_path / "x.npy"), [stores.create(tmp_path / name, (64, 16, 16), "i4") for name in names], "64KB"
    )
    apart.run()
    join = dml.fuse(lambda *parts: np.concatenate(parts, -1))
    inputs = [stores.open(tmp_path / name) for name in names]
    back = join.plan(inputs, stores.create(tmp_path / "y.npy", like=x), "64KB")
    back.run()
    np.testing.assert_array_equal(np.load(tmp_path / "y.npy"), x)
    for plan in (apart, back):
        assert plan.totals.bytes_read == x.nbytes
        assert plan.totals.bytes_read_again == 0
        assert plan.totals.reads + plan.totals.writes <= 5 * len(plan.blocks)
        assert (
            f"reads {bytes_text(x.nbytes)} in {count_noun(plan.totals.reads, 'request')}, 0 B of it more than once"
            in str(plan)
        )


@pytest.mark.skipif(not hasattr(os, "preadv"), reason="requests are another system's")
def test_a_plan_reads_and_writes_what_it_says(tmp_path, monkeypatch):
    x = np.arange(40_000, dtype=np.uint16).reshape(200, 200)
    np.save(tmp_path / "x.npy", x)
    plan = dml.fuse(lambda x: x.T).plan(
        stores.open(tmp_path / "x.npy"), stores.create(tmp_path / "y.npy", like=x), 9000
    )
    counts = {"read": [], "written": []}
    read, write = os.preadv, os.pwrite
    monkeypatch.setattr(os, "preadv", lambda f, views, at: counts["read"].append(len(views[0])) or read(f, views, at))
    monkeypatch.setattr(os, "pwrite", lambda f, view, at: counts["written"].append(len(view)) or write(f, view, at))
    plan.run()
    totals = plan.totals
    assert (totals.reads, totals.bytes_read) == (len(counts["read"]), sum(counts["read"]))
    assert (totals.writes, totals.bytes_written) == (len(counts["written"]), sum(counts["written"]))
    assert max(*counts["read"], *counts["written"]) <= 9000


def test_what_does_not_fit_is_refused_before_anything_is_written(tmp_path):
    np.save(tmp_path / "x.npy", np.zeros((4, 5), np.float32))
    x, out = stores.open(tmp_path / "x.npy"), tmp_path / "out.npy"
    same = dml.fuse(lambda x: x.copy())
    with pytest.raises(dml.BindingError, match=r"outputs is float32 \(5, 4\), but the result is float32 \(4, 5\)"):
        same.plan(x, stores.create(out, (5, 4), "f4"))
    with pytest.raises(dml.BindingError, match="float64"):
        same.plan(x, stores.create(out, (4, 5), "f8"))
    with pytest.raises(dml.BindingError, match=r"structure .* \(4, 5\), but outputs have that of \[\(4, 5\)\]"):
        same.plan(x, [stores.create(out, (4, 5), "f4")])
    with pytest.raises(dml.BindingError, match="describe a file"):
        same.plan(x, np.zeros((4, 5), np.float32))
    with pytest.raises(dml.BindingError, match="have no store"):
        same.plan(np.zeros(3), stores.create(out, (3,), "f8"))
    with pytest.raises(dml.BindingError, match="must be at least"):
        same.plan(x, stores.create(out, (4, 5), "f4"), 100)
    with pytest.raises(dml.BindingError, match="memory: 'many' is not a size"):
        same.plan(x, stores.create(out, (4, 5), "f4"), "many")
    with pytest.raises(dml.FuseError, match="does not compute"):
        dml.fuse(lambda x: x + 1).plan(x, stores.create(out, (4, 5), "f4"))
    with pytest.raises(dml.BindingError, match="is written twice"):
        twice = [stores.create(out, (4, 5), "f4") for _ in range(2)]
        dml.fuse(lambda x: [x, x]).plan(x, twice)
    assert os.listdir(tmp_path) == ["x.npy"]


@pytest.mark.parametrize(
    ("text", "size"), [(5, 5), ("5", 5), ("256MB", 256_000_000), ("1.5 GiB", 3 << 29), ("3kb", 3000), ("7 b", 7)]
)
def test_sizes_are_read_as_people_write_them(text, size):
    assert parse_size(text) == size
