"""New results own their memory, whatever their size; large ones take memory that was used before and is free now."""

import gc
import pickle
import random
import signal
import subprocess
import sys
import threading
import time
import tracemalloc
import weakref

import numpy as np
import pytest

import anydml as dml
from anydml import core
from anydml.memory.results import default_limit

MIB = 1 << 20
LEAST = 256 << 10

compiled = pytest.mark.skipif(core.memory is None, reason="the core is not compiled: all results are NumPy's own")
on_linux = pytest.mark.skipif(sys.platform != "linux", reason="it asks Linux what the process has")


@pytest.fixture(autouse=True)
def empty():
    dml.empty_cache()
    yield
    dml.set_cache_limit(default_limit())
    dml.empty_cache()


def address(array):
    return array.__array_interface__["data"][0]


def listed(results):
    return [*results] if isinstance(results, list | tuple) else [results]


def source(rows=512):
    return np.arange(rows * 1024, dtype=np.float32).reshape(rows, 1024)


ROLLED = dml.fuse(lambda x: np.concatenate([x[1:], x[:1]]))
SEVERAL = dml.fuse(lambda x: [x.T, x[:2], {"x": x}["x"]])


def calls(n):
    """A call of each function, by its name, whose results have n² elements or half as many."""
    x = np.arange(n * n, dtype=np.float32).reshape(n, n)
    rows, columns = np.arange(n), np.broadcast_to(np.arange(n), (n, n)).copy()
    image = x.reshape(1, 4, n // 2, n // 2)
    return {
        "copy": lambda: dml.copy(x.T),
        "nonzero_coordinates": lambda: dml.nonzero_coordinates(x),
        "compress": lambda: dml.compress(x % 3 > 0, x),
        "split": lambda: dml.split(x, 2, 1),
        "join": lambda: dml.join([x, x]),
        "slice": lambda: dml.slice(x, [0, 0], [n, n]),
        "slice1": lambda: dml.slice1(x, [0, 0], [n, n], [1, -1]),
        "gather": lambda: dml.gather(x, rows),
        "tile": lambda: dml.tile(x, [1, 2]),
        "pad": lambda: dml.pad(x, [1, 1, 1, 1]),
        "gather_elements": lambda: dml.gather_elements(x, columns),
        "gather_nd": lambda: dml.gather_nd(x, rows[:, None]),
        "scatter": lambda: dml.scatter(x, columns, x),
        "scatter_nd": lambda: dml.scatter_nd(x, rows[:, None], x),
        "slice_grad": lambda: dml.slice_grad(x, [n, 2 * n], [0, 0], [n, n], [1, 1]),
        "space_to_depth": lambda: dml.space_to_depth(image, 2),
        "depth_to_space": lambda: dml.depth_to_space(image, 2),
        "diagonal_matrix": lambda: dml.diagonal_matrix(x, 1),
        "fill": lambda: dml.fill(x, 3),
        "sequence": lambda: dml.sequence(x, 0, 1),
        "where": lambda: dml.where(x > 2, x, x),
        "reverse_subsequences": lambda: dml.reverse_subsequences(x, rows[:, None]),
        "one_hot": lambda: dml.one_hot(rows, np.array([0, 1], np.float32), n),
        "repeat": lambda: dml.repeat(x, 2, 0),
        "upsample": lambda: dml.upsample(x, [1, 2]),
        "unfold": lambda: dml.unfold(image, [2, 2], [2, 2]),
        "split_training": lambda: dml.split_training(x, None, num_outputs=2),
        "concat_training": lambda: dml.concat_training([x, x]),
        "permute_dims": lambda: dml.permute_dims(x, [1, 0]),
        "flip": lambda: dml.flip(x, 0),
        "roll": lambda: dml.roll(x, 1, 0),
        "tril": lambda: dml.tril(x),
        "triu": lambda: dml.triu(x, 1),
        "broadcast_to": lambda: dml.broadcast_to(x, [2, n, n]),
        "stack": lambda: dml.stack([x, x]),
        "fuse": lambda: [ROLLED(x), *SEVERAL(x)],
    }


def names():
    """The functions that make arrays."""
    functions = {name: getattr(dml, name) for name in dml.__all__ if callable(getattr(dml, name))}
    return {name for name, each in functions.items() if "out" in getattr(each, "__annotations__", ())}


def test_every_function_is_here():
    assert names() | {"compress", "fuse", "nonzero_coordinates"} == {*calls(4)}


@pytest.mark.parametrize("n", [4, 512])
@pytest.mark.parametrize("name", [*calls(4)])
def test_results_own_their_memory(name, n):
    call = calls(n)[name]
    expected = [each.tobytes() for each in listed(call())]
    # The first calls of a layout go other ways than later ones.
    for _ in range(20):
        results = listed(call())
        assert all(each.base is None and each.flags.owndata and each.flags.writeable for each in results)
        assert [each.tobytes() for each in results] == expected
    while results:
        result = results.pop()
        assert pickle.loads(pickle.dumps(result)).tobytes() == result.tobytes()
        for length in (3 * result.size, 5, 100_000, result.size):
            before, common_length = result.reshape(-1).copy(), min(length, result.size)
            result.resize(length, refcheck=False)
            assert np.array_equal(result[:common_length], before[:common_length])
            assert not result[common_length:].any()


def test_results_of_models_own_their_memory():
    onnx = pytest.importorskip("onnx")
    from anydml.onnx import backend

    helper, kind = onnx.helper, onnx.TensorProto.FLOAT
    nodes = [
        helper.make_node("Transpose", ["x"], ["t"]),
        helper.make_node("Reshape", ["t", "shape"], ["r"]),
        helper.make_node("Reshape", ["x", "shape"], ["alone"]),
        helper.make_node("Split", ["r"], ["a", "b"], num_outputs=2),
        helper.make_node("Identity", ["x"], ["same"]),
    ]
    outputs = [helper.make_tensor_value_info(name, kind, None) for name in ("t", "r", "a", "b", "alone", "same")]
    shape = onnx.numpy_helper.from_array(np.array([-1]), "shape")
    inputs = [helper.make_tensor_value_info("x", kind, ["N", "N"])]
    model = helper.make_model(
        helper.make_graph(nodes, "g", inputs, outputs, [shape]), opset_imports=[helper.make_opsetid("", 18)]
    )
    prepared = backend.prepare(model)
    for n in (4, 512):
        x = np.arange(n * n, dtype=np.float32).reshape(n, n)
        for _ in range(3):
            results = prepared.run({"x": x})
            assert all(each.base is None and each.flags.owndata for each in results)
            assert np.array_equal(results[3], x.T.reshape(-1)[n * n // 2 :])


def test_a_result_that_grows_in_a_loop():
    result = dml.copy(source())
    for rows in (*range(513, 560), 2000, 512, 1, 512):
        result.resize((rows, 1024), refcheck=False)
        assert np.array_equal(result[0], source(1)[0])
    assert not result[1:].any()


@pytest.mark.parametrize("seed", range(4))
def test_resizing_at_random_leaves_other_results_alone(seed):
    choose = random.Random(seed)
    alive = []
    for turn in range(400):
        length = choose.choice((0, 1, 1000, 65_535, 65_536, 65_537, 80_000, 200_000, 1_000_000))
        if len(alive) < 4 or choose.random() < 0.3:
            alive.append((dml.copy(np.full(length, turn, np.float32)), turn, length))
        else:
            result, value, filled = alive.pop(choose.randrange(len(alive)))
            result.resize(length, refcheck=False)
            alive.append((result, value, min(filled, length)))
            del result
        if len(alive) > 8:
            alive.pop(choose.randrange(8))
        if choose.random() < 0.02:
            dml.set_cache_limit(choose.choice((0, MIB, 1 << 30)))
    for result, value, filled in alive:
        assert (result[:filled] == value).all()
        assert not result[filled:].any()


@compiled
@pytest.mark.parametrize("name", [*calls(4)])
def test_a_result_takes_the_memory_of_one_that_died(name):
    call = calls(512)[name]
    call()
    for _ in range(20):
        places = {address(each) for each in listed(call()) if each.nbytes >= LEAST}
        assert places == {address(each) for each in listed(call()) if each.nbytes >= LEAST}


@compiled
@on_linux
def test_what_is_stored_in_between_takes_the_memory_of_results():
    import resource

    # A gather across the parts of a join is stored before.
    fused = dml.fuse(lambda x, i: np.concatenate([x, x[:, ::-1]])[i][:2])
    x, indices = source(), np.arange(1024)[::-1].copy()
    assert fused.lower(x, indices).scratch_bytes >= 4 * MIB
    expected = np.concatenate([x, x[:, ::-1]])[indices][:2]
    for _ in range(40):
        np.testing.assert_array_equal(fused(x, indices), expected)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(40):
        fused(x, indices)
    # Fresh pages would be 40 MiB at least in pages of 2 MiB, and most are smaller.
    assert resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before < 40


KEEPERS = {
    "itself": lambda y: y,
    "a view": lambda y: y[3:7, ::-2],
    "a view of a view": lambda y: y.reshape(-1)[5:].view(np.int32)[::3],
    "another class": lambda y: y.view(np.recarray),
    "a memoryview": lambda y: memoryview(y)[2:4],
    "a capsule": lambda y: y.__dlpack__(),
    "through DLPack": np.from_dlpack,
    "an iterator": iter,
    "a broadcast view": lambda y: np.broadcast_to(y, (2, *y.shape)),
    "a buffer": lambda y: np.frombuffer(y.data.cast("B"), np.uint8),
}


def torch_keepers():
    torch = pytest.importorskip("torch")
    return {
        "a tensor": torch.from_numpy,
        "a tensor's view": lambda y: torch.from_numpy(y)[1:2],
        "a tensor's storage": lambda y: torch.from_numpy(y).untyped_storage(),
        "a tensor through DLPack": torch.from_dlpack,
        "a capsule's": lambda y: torch.utils.dlpack.to_dlpack(torch.from_numpy(y)),
        "a gradient": lambda y: torch.from_numpy(y).requires_grad_().sum(),
    }


TENSORS = ("a tensor", "a tensor's view", "a tensor's storage", "a tensor through DLPack", "a capsule's", "a gradient")


@compiled
@pytest.mark.parametrize("name", [*KEEPERS, *TENSORS])
def test_memory_in_use_is_not_given_out(name):
    keep = KEEPERS.get(name) or torch_keepers()[name]
    x = source()
    held = keep(first := dml.copy(x))
    place = address(first)
    del first
    gc.collect()
    others = [dml.copy(x + k) for k in range(3)]
    assert place not in map(address, others)
    del held, others
    gc.collect()
    assert place in [address(each) for each in [dml.copy(x) for _ in range(4)]]


def test_cycles_and_their_finalizers():
    saved = []

    class Node:
        def __init__(self, array):
            self.array = array
            self.me = self

        def __del__(self):
            saved.append(self.array)

    node = Node(dml.copy(source()))
    place = address(node.array)
    gone = weakref.ref(node)
    del node
    gc.collect()
    assert gone() is None
    assert address(dml.copy(source())) != place
    assert np.array_equal(saved[0], source())


def test_threads_never_share_memory():
    wrong, stop = [], time.monotonic() + 2

    def work(seed):
        rng = random.Random(seed)
        held = []
        while time.monotonic() < stop:
            rows = rng.choice((80, 81, 160, 161))
            y = dml.copy(np.full((rows, 1024), seed, np.float32))
            y += len(held)
            held.append((y[rng.randrange(rows) :], seed + len(held)))
            if len(held) > 5 or rng.random() < 0.3:
                view, value = held.pop(rng.randrange(len(held)))
                if not (view == value).all():
                    wrong.append(seed)
            held = [(view, value) for view, value in held if (view == value).all() or wrong.append(seed)]
            if rng.random() < 0.02:
                dml.empty_cache()
            if rng.random() < 0.02:
                dml.set_cache_limit(rng.choice((1 << 30, MIB, 0)))

    threads = [threading.Thread(target=work, args=(100 * k,)) for k in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_one_threads_results_die_in_another():
    x, queue, wrong = source(), [], []

    def make():
        queue.extend((dml.copy(x + k), k) for k in range(300))

    def drop():
        for _ in range(300):
            while not queue:
                time.sleep(0)
            result, k = queue.pop(0)
            if not (result[:, 0] == x[:, 0] + k).all():
                wrong.append(k)

    threads = [threading.Thread(target=each) for each in (make, drop, make, drop)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


@pytest.mark.parametrize(("given", "error"), [(-1, ValueError), (1.5, TypeError), ("1", TypeError), (None, TypeError)])
def test_limits_are_integers(given, error):
    with pytest.raises(error):
        dml.set_cache_limit(given)
    dml.set_cache_limit(np.int64(5 * MIB))
    dml.set_cache_limit(1 << 100)


def test_results_are_traced_and_the_rest_of_numpys_arrays_are_its_own():
    from numpy._core.multiarray import get_handler_name

    x = source()
    tracemalloc.start()
    result = dml.copy(x)
    assert x.nbytes <= tracemalloc.get_traced_memory()[0] < x.nbytes + MIB
    tracemalloc.stop()
    assert get_handler_name(np.empty_like(result)) == get_handler_name() == "default_allocator"
    with pytest.raises(MemoryError):
        dml.broadcast_to(np.zeros(1, np.complex128), [1 << 46])
    assert get_handler_name() == "default_allocator"


def run(text, timeout=900):
    """What a Python of its own prints, and nothing else."""
    # Python 3.12 and later remark on every fork beside threads, whatever these do.
    silent = ["-X", "faulthandler", "-W", "ignore:This process:DeprecationWarning"]
    done = subprocess.run(
        [sys.executable, *silent, "-c", START + text], capture_output=True, text=True, check=False, timeout=timeout
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


START = """
import gc, os, resource, signal, sys, threading, time
import numpy as np
import anydml as dml
MIB = 1 << 20
x = np.full((512, 1024), 7, np.float32)
def now(word=1):
    return int(open("/proc/self/statm").read().split()[word]) * resource.getpagesize() / MIB
"""

PEAK = """
limit = 32
x = np.ones((64 * MIB // 4096, 1024), np.float32)
y = dml.copy(x[:, ::-1])
del y
dml.set_cache_limit(limit * MIB)
dml.empty_cache()
before, peak = now(), 0
for _ in range(12):
    y = dml.copy(x[:, ::-1])
    peak = max(peak, now() - before)
small = [dml.copy(x[k * 256 : (k + 1) * 256]) for k in range(64)]
del y, small
waiting = now() - before
dml.empty_cache()
left = now() - before
small = [dml.copy(x[k * 256 : (k + 1) * 256]) for k in range(64)]
dml.set_cache_limit(0)
del small
print(peak, waiting, left, now() - before)
"""


@compiled
@on_linux
def test_the_limit_holds():
    peak, waiting, left, without = map(float, run(PEAK).split())
    assert peak <= 2 * 64 + 32 + 8, "two results, and the limit"
    assert 24 <= waiting <= 32 + 8
    assert left <= 8
    assert without <= 8


IDLING = """
held = dml.copy(x)
results = [dml.copy(np.ones((rows, 1024), np.float32)) for rows in range(512, 1024, 8)]
dml.copy(x)
before = now()
del results
waiting = now()
end = time.monotonic() + 600
while now() > before - 150 and time.monotonic() < end:
    time.sleep(0.1)
print(before - waiting, before - now(), (held == 7).all())
"""


@compiled
@on_linux
def test_what_waits_long_goes():
    at_once, later, is_kept = run(IDLING).split()
    assert float(at_once) < 8, "it waits at first"
    assert float(later) > 150
    assert is_kept == "True"


SIZES = """
for size in (256 << 10, (256 << 10) + 1, 300_001, MIB - 1, MIB, 5 * MIB + 7, 64 * MIB + 1):
    x = np.zeros(size, np.uint8)
    dml.copy(x)
    dml.empty_cache()
    before = now(0)
    y = dml.copy(x)
    print(size / MIB, now(0) - before)
    del x, y
"""


@compiled
@on_linux
def test_blocks_are_little_larger_than_results():
    for line in run(SIZES).splitlines():
        size, taken = map(float, line.split())
        assert size <= taken <= 1.126 * size + 0.1


FORK = """
held = dml.copy(x)
dml.copy(x)
child = os.fork()
mine = [dml.copy(x + (1 if child else 2)) for _ in range(3)]
good = all((each == (8 if child else 9)).all() for each in mine) and (held == 7).all()
held += 1
del mine
good = good and (dml.copy(x) == 7).all() and (held == 8).all()
if not child:
    os._exit(0 if good else 1)
_, status = os.waitpid(child, 0)
print(good and status == 0)
"""

FORKS_BESIDE_THREADS = """
going = True
for _ in range(40):
    dml.copy(x[:64])
def work():
    while going:
        for rows in (64, 65, 80, 128):
            dml.copy(x[:rows])
threads = [threading.Thread(target=work) for _ in range(3)]
[thread.start() for thread in threads]
statuses = []
for k in range(30):
    child = os.fork()
    if not child:
        good = all((dml.copy(x[:rows]) == 7).all() for rows in (64, 65, 80, 128))
        os._exit(0 if good else 1)
    statuses.append(os.waitpid(child, 0)[1])
going = False
print(not any(statuses))
"""

SIGNALS = """
seen = []
def handle(*_):
    seen.append((dml.copy(x[:64]) == 7).all())
    gc.collect(0)
signal.signal(signal.SIGALRM, handle)
signal.setitimer(signal.ITIMER_REAL, 0.02, 0.02)
end = time.monotonic() + 600
while len(seen) <= 20 and time.monotonic() < end:
    cycle = [dml.copy(x[:64]), dml.copy(x[:64])]
    cycle.append(cycle)
signal.signal(signal.SIGALRM, signal.SIG_IGN)
print(len(seen) > 20 and all(seen))
"""

MANY = """
kind = x.dtype
y = x[:64]
for _ in range(2000):
    dml.copy(y), dml.split(y, 2)
before, references = now(), sys.getrefcount(kind)
for _ in range(100_000):
    dml.copy(y)
print(now() - before < 4 and abs(sys.getrefcount(kind) - references) < 10)
"""


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="this system has other signals, and no forks")
@pytest.mark.parametrize(
    "text", [FORK, FORKS_BESIDE_THREADS, SIGNALS], ids=["a fork", "forks beside threads", "signals"]
)
def test_results_are_ones_own(text):
    assert run(text) == "True\n"


@on_linux
def test_nothing_grows_over_100_000_calls():
    assert run(MANY) == "True\n"


OUTLIVING = {
    "builtins": "import builtins; builtins.kept = kept",
    "NumPy": "np.kept = kept",
    "a cycle": "cycle = [kept]; cycle.append(cycle)",
    "a class": "Kept = type('Kept', (), {'kept': kept}); Kept.own = Kept",
    "a finalizer": "Last = type('Last', (), {'__del__': lambda self: make().fill(1)}); sys.last = Last()",
    "a function at the end": "import atexit; atexit.register(lambda: make().fill(1))",
    "a thread": "threading.Thread(target=lambda: any(map(work, iter(int, 1))), daemon=True).start()",
    "a child": "pid = os.fork(); kept.append(make()); pid and os.waitpid(pid, 0)",
    "waiting": "del kept",
}


@pytest.mark.parametrize("keeper", OUTLIVING)
def test_results_may_outlive_everything(keeper):
    if keeper == "a child" and sys.platform == "win32":
        pytest.skip("this system has no fork")
    text = "make = lambda: dml.copy(x)\nkept = [make() for _ in range(30)]\nwork = lambda _: make().fill(1)\n"
    assert set(run(f"{text}{OUTLIVING[keeper]}\n").split()) == set()
