"""Fused functions on a cluster of two processes."""

import os
import signal
import time

import numpy as np
import pytest

import anydml as dml

da = pytest.importorskip("dask.array", reason="Dask is not installed: pip install 'anydml[dask]'")
distributed = pytest.importorskip("distributed", reason="distributed is not installed: pip install distributed")

pytestmark = [
    pytest.mark.slow,
    # What its threads and sockets leave when the interpreter goes is distributed's.
    pytest.mark.filterwarnings("ignore"),
]


@pytest.fixture(scope="module")
def client():
    with (
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
    np.testing.assert_array_equal(future.result(timeout=120), turned(array))
    assert client.run(process_id) != pids, "one was started anew"


def slowly(block):
    time.sleep(0.01)
    return block


def process_id():
    return os.getpid()
