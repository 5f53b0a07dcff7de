"""Programs are kept within a budget of bytes, and the weights that are counted are those that are there."""

import threading
import weakref

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

import anydml as dml
from anydml.engines.program_cache import KEY_BYTES, ProgramCache


class Weight:
    def __init__(self, weight):
        self.weight = weight


def kept(cache, number, weight=0, made=None):
    """The program of a number and a weight; new ones are added to `made`."""

    def make():
        found = Weight(weight)
        if made is not None:
            made.append(weakref.ref(found))
        return found

    return cache.find((number, weight), make)


@given(st.lists(st.tuples(st.integers(0, 30), st.integers(0, 4000)), max_size=200))
def test_what_is_kept_is_within_the_budget(calls):
    cache, made = ProgramCache(20_000), []
    for call in calls:
        assert kept(cache, *call, made).weight == call[1]
        # What was just asked for is there.
        assert kept(cache, *call, made) is kept(cache, *call, made)
        alive = [found.weight for each in made if (found := each()) is not None]
        assert sum(alive) + len(alive) * KEY_BYTES <= cache.budget


def test_what_is_asked_for_stays_and_the_rest_goes():
    cache, made = ProgramCache(100 * KEY_BYTES), []
    first = kept(cache, 0, made=made)
    for number in range(1, 1000):
        assert kept(cache, 0, made=made) is first
        kept(cache, number, made=made)
    assert len(made) == 1000
    kept(cache, 1, made=made)
    assert len(made) == 1001


def test_what_is_heavier_than_half_the_budget_is_not_kept():
    cache = ProgramCache(1000)
    first = kept(cache, 0, 600)
    assert kept(cache, 0, 600) is not first


def test_nothing_is_there_once_it_is_cleared():
    cache = ProgramCache()
    first = kept(cache, 5)
    assert kept(cache, 5) is first
    cache.clear()
    assert kept(cache, 5) is not first


def test_threads_get_what_they_asked_for():
    cache, wrong, made = ProgramCache(50 * KEY_BYTES), [], []

    def work(seed):
        numbers = np.random.default_rng(seed).integers(0, 100, 3000).tolist()
        wrong.extend(number for number in numbers if kept(cache, number, number % 3, made).weight != number % 3)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    assert sum(each() is not None for each in made) <= 60


def columns(count):
    return lambda seed: dml.split(np.zeros((32, 4 * count), "f4"), uneven(seed, count, 4 * count), 1)


def uneven(seed, count, total):
    cuts = np.random.default_rng(seed).choice(np.arange(1, total), count - 1, replace=False)
    return np.diff([0, *np.sort(cuts), total]).tolist()


WORK = {
    "two parts": lambda seed: dml.split(np.zeros(100_000, "f4"), uneven(seed, 2, 100_000)),
    "thousands of parts": lambda seed: dml.split(np.zeros(100_000, "f4"), uneven(seed, 5000, 100_000)),
    "hundreds of columns": columns(500),
    "parts with gaps": lambda seed: dml.split(np.zeros((8, 8, 900, 2), "f4")[:, ::2], uneven(seed, 300, 900), 2),
    "reversals": lambda seed: dml.slice1(np.zeros((seed + 9, 30, 999), "u1"), [0] * 3, [seed, 30, 999], [-1, 1, -1]),
    "lookups": lambda seed: dml.gather(np.zeros((seed + 9, 30, 99), "f4"), np.zeros(30, int), 1),
}
