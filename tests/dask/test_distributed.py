"""Fused functions, rechunk and reshard on a cluster of two processes."""

import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

import anydml as dml
from anydml import stores
from anydml.cli import main
from anydml.stores.running import cluster

dask = pytest.importorskip("dask", reason='Dask is not installed: pip install "anydml[dask]"')
da = pytest.importorskip("dask.array", reason="Dask has no arrays without NumPy")
distributed = pytest.importorskip("distributed", reason="distributed is not installed: pip install distributed")

pytestmark = [
    pytest.mark.slow,
    # What its threads and sockets leave when the interpreter goes is distributed's.
    pytest.mark.filterwarnings("ignore"),
]


@pytest.fixture(scope="module")
def client():
    with (
        # On a busy machine processes take long to begin.
        dask.config.set({"distributed.comm.timeouts.connect": "600s"}),
        distributed.LocalCluster(2, threads_per_worker=1, processes=True, dashboard_address=None) as cluster,
        distributed.Client(cluster) as client,
    ):
        yield client


def turned(x):
    return np.concatenate([x.T[::-1], x.T], 1)


def test_a_fused_function_and_a_killed_worker(client):
    array = np.arange(400 * 300, dtype=np.int32).reshape(400, 300)
    x = da.from_array(array, chunks=(20, 30)).map_blocks(slowly, dtype=array.dtype)
    future = client.compute(dml.fuse(turned)(x))
    pids = client.run(process_id)
    worker = next(iter(pids))
    os.kill(pids[worker], signal.SIGKILL)
    np.testing.assert_array_equal(future.result(timeout=600), turned(array))
    assert client.run(process_id) != pids, "one was started anew"


def slowly(block):
    time.sleep(0.01)
    return block


def process_id():
    return os.getpid()


@pytest.fixture
def x(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    array = np.arange(120 * 90 * 8, dtype=np.int32).reshape(120, 90, 8)
    np.save("x.npy", array)
    return array


def command(capsys, *arguments):
    with pytest.raises(SystemExit) as ended:
        main([*arguments])
    said = capsys.readouterr()
    return ended.value.code or 0, said.out, said.err


def address(client):
    return client.scheduler.address


def test_rechunk_gives_its_blocks_to_a_cluster(client, x):
    pytest.importorskip("zarr", reason='zarr-python is not installed: pip install "anydml[stores]"')
    first = ["rechunk", "x.npy", "x.zarr", "-q", "--chunks", "7,90,8", "--codec", "zstd", "--memory", "200kB"]
    # In a process of its own, which has no client yet.
    first = [sys.executable, "-m", "anydml", *first, "--scheduler", address(client)]
    ended = subprocess.run(first, check=False, capture_output=True, text=True)
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "", "")
    for target in ("y.zarr", "y.npy"):
        # Too little memory for chunks to be decoded once: each worker keeps those that it decoded.
        plan = stores.rechunk("x.zarr", target, permute=(2, 0, 1), memory="100kB")
        plan.run(scheduler=address(client))
        np.testing.assert_array_equal(stores.open(target).read(), x.transpose(2, 0, 1))
    assert sorted(os.listdir()) == ["x.npy", "x.zarr", "y.npy", "y.zarr"]


def test_a_group_is_written_by_a_cluster(client, x, capsys):
    zarr = pytest.importorskip("zarr", reason="zarr-python is not installed")
    group = zarr.open_group("x.zarr", mode="w")
    for name, array in (("maps", x), ("more", x[::2])):
        group.create_array(name, data=array, chunks=(5, 9, 4))
    group.create_array("index", data=np.arange(9))
    arguments = ["rechunk", "x.zarr", "y.zarr", "--chunks", "7,30,-1", "--memory", "200kB"]
    code, _, err = command(capsys, *arguments, "--scheduler", address(client))
    assert (code, err.count("anydml: ")) == (0, 0)
    written = zarr.open_group("y.zarr", mode="r")
    assert written["maps"].chunks == (7, 30, x.shape[2])
    np.testing.assert_array_equal(written["maps"][...], x)
    np.testing.assert_array_equal(written["more"][...], x[::2])
    np.testing.assert_array_equal(written["index"][...], np.arange(9))
    assert sorted(path for path in os.listdir() if "zarr" in path) == ["x.zarr", "y.zarr"]


def test_reshard_gives_its_blocks_to_a_cluster(client, x, capsys):
    rows = x.reshape(120, -1)
    tensors = {f"layers.{k}.mlp.up_proj.weight": rows.shape for k in range(4)}
    whole = dml.fuse(lambda x: dict.fromkeys(tensors, x[::-1].reshape(rows.shape)))
    whole.plan(stores.open("x.npy"), stores.create("w.safetensors", tensors, x.dtype)).run()
    options = ["--memory", "300kB", "--scheduler", address(client)]
    assert command(capsys, "reshard", "w.safetensors", "ranks", "--tp", "3", *options)[0] == 0
    assert command(capsys, "reshard", "ranks", "back", "--shard-size", "1MB", *options)[0] == 0
    checkpoint = stores.open("back")
    assert len(checkpoint) == 4
    for store in checkpoint.values():
        np.testing.assert_array_equal(store.read(), rows[::-1])


@pytest.mark.parametrize("target", ["y.npy", "y.zarr"])
def test_a_worker_is_killed_in_the_midst_and_nothing_is_lost(client, x, target):
    if target == "y.zarr":
        pytest.importorskip("zarr", reason='zarr-python is not installed: pip install "anydml[stores]"')
    chunks = None if target == "y.npy" else (10, 10, 8)
    plan = stores.rechunk("x.npy", target, chunks, (1, 0, 2), memory="20kB")
    written = []

    def kill_one(size):
        if not written:
            os.kill(next(iter(client.run(process_id).values())), signal.SIGKILL)
        written.append(size)

    plan.run(kill_one, address(client))
    assert len(written) == len(plan.blocks) > 20, "every block is said once"
    np.testing.assert_array_equal(stores.open(target).read(), x.transpose(1, 0, 2))
    assert sorted(os.listdir()) == ["x.npy", target]


def test_what_was_stopped_leaves_nothing_and_goes_on_on_a_cluster_or_without(client, x):
    count = []

    def stop(size):
        count.append(size)
        if len(count) % 10 == 0:
            raise KeyboardInterrupt

    for resumed, scheduler in ((0, address(client)), (10, None), (20, address(client))):
        plan = stores.rechunk("x.npy", "y.npy", permute=(1, 0, 2), memory="20kB")
        with pytest.raises(KeyboardInterrupt):
            plan.run(stop, scheduler)
        assert resumed <= plan.resumed < resumed + 10
        assert not os.path.exists("y.npy")
    plan = stores.rechunk("x.npy", "y.npy", permute=(1, 0, 2), memory="20kB")
    plan.run(scheduler=address(client))
    assert plan.resumed >= 30
    np.testing.assert_array_equal(np.load("y.npy"), x.transpose(1, 0, 2))
    assert sorted(os.listdir()) == ["x.npy", "y.npy"]


def test_what_does_not_work_is_said_in_a_line(client, x, capsys, monkeypatch):
    monkeypatch.setattr(cluster, "SECONDS_TO_ANSWER", 1)
    code, _, err = command(capsys, "rechunk", "x.npy", "y.npy", "-q", "--scheduler", "tcp://127.0.0.1:1")
    assert (code, len(err.splitlines())) == (2, 1)
    assert "no Dask scheduler answers" in err
    for scheduler in "nowhere://", "tls://127.0.0.1:1":
        code, _, err = command(capsys, "rechunk", "x.npy", "y.npy", "-q", "--scheduler", scheduler)
        assert (code, len(err.splitlines())) == (2, 1)
    # As where workers do not find the files under the same paths.
    monkeypatch.setattr(cluster, "absolute_path", lambda path: "/nowhere" / path)
    code, _, err = command(capsys, "rechunk", "x.npy", "y.npy", "-q", "--scheduler", address(client))
    assert (code, len(err.splitlines())) == (2, 1)
    assert "same paths" in err
    assert not os.path.exists("y.npy")
