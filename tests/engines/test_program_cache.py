"""Programs are kept within a budget of bytes, and the weights that are counted are those that are there."""

import threading

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

import anydml as dml
from anydml.engines.program_cache import KEY_BYTES, ProgramCache


class Weight:
    def __init__(self, weight):
        self.weight = weight


@given(st.lists(st.tuples(st.integers(0, 30), st.integers(0, 4000)), max_size=200))
def test_what_is_kept_is_within_the_budget(calls):
    cache = ProgramCache(20_000)
    make = cache(lambda number, weight: Weight(weight))
    for call in calls:
        assert make(*call).weight == call[1]
        # What was just asked for is there.
        assert make(*call) is make(*call)
        info = cache.info()
        assert info.programs * KEY_BYTES <= info.bytes <= cache.budget


def test_what_is_asked_for_stays_and_the_rest_goes():
    cache = ProgramCache(100 * KEY_BYTES)
    made = []
    make = cache(lambda number: made.append(number) or Weight(0))
    for number in range(1000):
        make(0)
        make(number)
    assert made.count(0) == 1
    make(1)
    assert made.count(1) == 2


def test_what_is_heavier_than_half_the_budget_is_not_kept():
    cache = ProgramCache(1000)
    make = cache(lambda: Weight(600))
    assert make() is not make()
    assert cache.info() == (0, 0)


def test_functions_share_one_budget_and_are_told_apart():
    cache = ProgramCache()
    one, other = cache(lambda x: Weight(1)), cache(lambda x: Weight(2))
    assert (one(5).weight, other(5).weight) == (1, 2)
    assert cache.info().programs == 2
    one.cache_clear()
    assert other.cache_info().programs == 0


def test_threads_get_what_they_asked_for():
    cache = ProgramCache(50 * KEY_BYTES)
    make, wrong = cache(Weight), []

    def work(seed):
        numbers = np.random.default_rng(seed).integers(0, 100, 3000).tolist()
        wrong.extend(number for number in numbers if make(number).weight != number)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    assert cache.info().programs <= 60


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
