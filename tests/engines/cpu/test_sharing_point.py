"""Where sharing begins: read, measured and kept, and what it is good for."""

import json

import numpy as np
import pytest

import anydml as dml
from anydml.engines.cpu import engine, sharing_point
from anydml.engines.cpu.kernels import kept
from anydml.engines.cpu.sharing_point import FREE, PROBES, SIZES, TAKEN, VARIABLE, first_worth, shared_bytes
from anydml.text import counted

KIB = 1 << 10


def probe(*together):
    """Seconds by size: one thread takes 1, all take these."""
    return {size: (1.0, other) for size, other in zip(SIZES, together, strict=True)}


@pytest.fixture(autouse=True)
def anew(monkeypatch):
    monkeypatch.delenv(VARIABLE, raising=False)
    sharing_point.forget()
    yield
    sharing_point.forget()


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Where it is kept, and how often it is measured; sharing pays from 512 KiB on."""

    def measure():
        times.append(1)
        return probe(1.0, 1.0, 1.0, 0.6, 0.6)

    times = []
    monkeypatch.setattr(kept, "folders", lambda: iter([tmp_path]))
    monkeypatch.setattr(sharing_point, "measured", measure)
    monkeypatch.setattr(sharing_point, "POOL", type("Pool", (), {"threads": 3}))
    return tmp_path, times


@pytest.mark.parametrize(
    ("together", "expected"),
    [
        ((0.5, 0.5, 0.5, 0.5, 0.5), 64 * KIB),
        ((3.0, 2.0, 0.8, 0.7, 0.6), 256 * KIB),
        # What pays below and not above is noise.
        ((0.5, 0.5, 0.5, 0.95, 0.5), 1024 * KIB),
        ((0.5, 0.5, 0.5, 0.5, 0.95), None),
    ],
)
def test_sharing_has_to_pay_from_there_on(together, expected):
    assert first_worth([probe(*together)]) == expected


def test_most_probes_decide():
    probes = [probe(0.5, 0.5, 0.5, 0.5, 0.5), probe(2.0, 0.8, 0.8, 0.8, 0.8), probe(2.0, 2.0, 0.8, 0.8, 0.8)]
    assert first_worth(probes) == 128 * KIB
    assert first_worth([]) is None


def test_it_is_measured_once_a_machine(folder):
    path, times = folder
    for _ in range(3):
        assert shared_bytes() == 512 * KIB
        sharing_point.forget()
    assert len(times) == FREE
    (kept,) = path.iterdir()
    assert json.loads(kept.read_text())["bytes"] == 512 * KIB


@pytest.mark.parametrize("text", ["", "{", "[]", '{"bytes": 7}', '{"bytes": true}', '{"bytes": "x"}', "\x00\xff"])
def test_a_damaged_file_is_measured_anew(folder, text):
    path, times = folder
    shared_bytes()
    (kept,) = path.iterdir()
    kept.write_bytes(text.encode("latin-1"))
    sharing_point.forget()
    assert shared_bytes() == 512 * KIB
    assert len(times) == 2 * FREE
    assert json.loads(kept.read_text())["bytes"] == 512 * KIB


def test_what_cannot_be_kept_is_measured_by_each_process(folder, monkeypatch):
    path, times = folder

    def refuse(*_, **__):
        raise OSError("full")

    monkeypatch.setattr(sharing_point.os, "replace", refuse)
    for _ in range(2):
        assert shared_bytes() == 512 * KIB
        sharing_point.forget()
    assert len(times) == 2 * FREE
    assert not [*path.iterdir()]


def test_a_busy_machine_is_asked_again_soon(folder, monkeypatch):
    path, times = folder
    now = [1000.0]
    monkeypatch.setattr(sharing_point.time, "monotonic", lambda: now[0])
    with monkeypatch.context() as busy:
        probes = []
        busy.setattr(sharing_point, "measured", lambda: probes.append(1) or probe(1.2, 1.2, 1.2, 1.2, 1.2))
        assert shared_bytes() == TAKEN
        assert len(probes) == PROBES
    assert shared_bytes() == TAKEN
    assert not times
    # Nobody else is told so.
    assert not [*path.iterdir()]
    now[0] += 2 * sharing_point.AGAIN
    assert shared_bytes() == 512 * KIB


def test_probes_in_which_the_cores_were_taken_do_not_count(folder, monkeypatch):
    path, _ = folder
    taken, free = probe(1.2, 1.2, 1.2, 1.2, 0.95), probe(1.2, 0.8, 0.8, 0.8, 0.8)
    probes = [taken, free, taken, free, taken, taken, free]
    monkeypatch.setattr(sharing_point, "measured", lambda: probes.pop(0))
    assert shared_bytes() == 128 * KIB
    assert not probes
    (kept,) = path.iterdir()
    assert json.loads(kept.read_text())["bytes"] == 128 * KIB


def test_what_a_busy_machine_lets_be_seen_is_used_and_not_kept(folder, monkeypatch):
    path, _ = folder
    probes = [probe(1.2, 0.8, 0.8, 0.8, 0.8)] + [probe(1.2, 1.2, 1.2, 1.2, 1.2)] * (PROBES - 1)
    monkeypatch.setattr(sharing_point, "measured", lambda: probes.pop(0))
    assert shared_bytes() == 128 * KIB
    assert not [*path.iterdir()]


def test_the_environment_says_it(folder, monkeypatch):
    monkeypatch.setenv(VARIABLE, "300000")
    assert shared_bytes() == 300_000
    sharing_point.forget()
    monkeypatch.setenv(VARIABLE, "many")
    with pytest.warns(RuntimeWarning, match="'many', which is no number of bytes"):
        assert shared_bytes() == 512 * KIB


def test_the_machine_at_hand_is_measured():
    times = sharing_point.measured()
    assert [*times] == [*SIZES]
    assert all(0 < alone < 1 and 0 < together < 1 for alone, together in times.values())
    assert SIZES[0] <= shared_bytes() <= SIZES[-1]


@pytest.mark.parametrize("size", [96, 200, 300, 700, 1500])
def test_work_is_shared_from_there_on(monkeypatch, size):
    monkeypatch.setenv(VARIABLE, str(256 * KIB))
    monkeypatch.setattr(engine, "SHARED_BYTES", None)
    tensor = dml.TensorDesc("UINT8", [2, size * KIB // 2])
    compiled = dml.Device("cpu").compile_operator(dml.ElementWiseIdentityOperatorDesc(tensor, tensor))
    x, y = np.ones(tensor.sizes, np.uint8), np.zeros(tensor.sizes, np.uint8)
    bound = compiled.bind(inputs=[x], outputs=[y])
    bound.dispatch()
    assert np.array_equal(x, y)
    threads = dml.get_num_threads() if size >= 256 else 1
    assert f"{counted(threads, 'thread')}" in str(bound)
