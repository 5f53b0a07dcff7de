"""Python made for one structure: judged by walks over structures, drawn at random."""

import collections
import itertools
import random

import numpy as np
import pytest
from anydml.tracing.form_source import DEEPEST, builder, is_deep, opener, taker
from anydml.tracing.forms import taken_apart

import anydml as dml
from anydml.arrays.quick import kind_of
from anydml.tracing.structure import leaves, paired

Pair = collections.namedtuple("Pair", "first second")


class Leaf:
    def __init__(self, number):
        self.number = number


CONSTANTS = (None, True, 1, 1.0, 0, 0.0, -0.0, float("nan"), "1", 'it\'s\n"quoted"', 7**30)
KEYS = ("a", "b", 1, None, 'it\'s\n"quoted"', ("a", 1))


def drawn(rng, leaf, kinds, depth=3):
    """A structure of leaves and constants."""
    which = rng.randrange(6 if depth else 2)
    if which == 0:
        return leaf()
    if which == 1:
        return leaf() if rng.random() < 0.5 else rng.choice(CONSTANTS)
    kind = rng.choice(kinds)
    parts = [drawn(rng, leaf, kinds, depth - 1) for _ in range(1 if kind is Pair else rng.randrange(4))]
    if kind is dict:
        return dict(zip(rng.sample(KEYS, len(parts)), parts, strict=True))
    return Pair(*parts, None) if kind is Pair else kind(parts)


def same(one, other):
    """Whether two structures are of the same kinds, with the very same leaves."""
    if type(one) is not type(other):
        return False
    if isinstance(one, dict):
        return [*one] == [*other] and all(map(same, one.values(), other.values()))
    if isinstance(one, (list, tuple)):
        return len(one) == len(other) and all(map(same, one, other))
    return one is other


@pytest.mark.parametrize("seed", range(300))
def test_results_are_put_together_and_taken_apart(seed):
    rng, numbers = random.Random(seed), itertools.count()
    tree = drawn(rng, lambda: Leaf(next(numbers)), (list, tuple, dict, Pair))
    arrays = [object() for _ in range(next(numbers))]
    built = builder(tree, Leaf)(arrays)
    flat = [leaf for leaf in leaves(tree) if isinstance(leaf, Leaf)]
    assert [leaf.number for leaf in flat] == [*range(len(arrays))]
    assert same(built, walked(tree, arrays))
    take = taker(tree, Leaf)
    assert take(built) == [arrays[leaf.number] for leaf in flat]
    other = drawn(rng, object, (list, tuple, dict))
    try:
        meant = [each for _, _, each in paired(tree, other, Leaf, "")]
    except ValueError:
        # Whoever writes to them sees that structures are no arrays.
        assert any(isinstance(each, (list, tuple, dict)) for each in take(other) or [()])
    else:
        assert take(other) in (meant, None)


def walked(tree, arrays):
    if isinstance(tree, Leaf):
        return arrays[tree.number]
    if isinstance(tree, dict):
        return {key: walked(each, arrays) for key, each in tree.items()}
    if isinstance(tree, Pair):
        return Pair(*[walked(each, arrays) for each in tree])
    return type(tree)([walked(each, arrays) for each in tree]) if isinstance(tree, (list, tuple)) else tree


def changed(rng, tree):
    """A structure with something else in one place, or none."""
    if not isinstance(tree, (list, tuple, dict)) or not tree or rng.random() < 0.2:
        return rng.choice([*CONSTANTS, np.zeros(1), [np.zeros(1)], (np.zeros(1),), {"a": np.zeros(1)}, tree, tree])
    items = [*tree.values()] if isinstance(tree, dict) else [*tree]
    place = rng.randrange(len(items))
    items[place] = changed(rng, items[place])
    if not isinstance(tree, dict):
        return type(tree)(items)
    keys = [*tree] if rng.random() < 0.8 else rng.sample(KEYS, len(items))
    return dict(zip(keys, items, strict=True))


@pytest.mark.parametrize("seed", range(300))
def test_arguments_are_told_apart_as_by_a_walk(seed):
    rng = random.Random(seed)
    arguments = [drawn(rng, lambda: np.zeros(1), (list, tuple, dict)) for _ in range(rng.randrange(1, 3))]
    keywords = {"x": drawn(rng, lambda: np.zeros(1), (list, tuple, dict))} if rng.random() < 0.5 else {}
    taken = taken_apart(arguments, keywords)
    if taken is None:
        return
    opened = opener(arguments, keywords)
    assert same(opened(arguments, keywords), taken.arrays)
    for _ in range(20):
        others = [*arguments]
        others[0] = changed(rng, others[0])
        named = {rng.choice("xy"): changed(rng, each) for each in keywords.values()}
        if rng.random() < 0.1:
            others.append(None)
        other = taken_apart(others, named)
        found = opened(others, named)
        if other is None or other.form != taken.form:
            assert found is None
        else:
            assert same(found, other.arrays)


def test_tensors_and_parameters_are_of_one_kind():
    torch = pytest.importorskip("torch")
    dml.copy(torch.zeros(1))
    x, y = torch.zeros(2), torch.nn.Parameter(torch.ones(2))
    if kind_of(x) is None:
        pytest.skip("this PyTorch has no table of DLPack's functions")
    opened = opener([{"a": x, "b": 2}], {})
    assert same(opened([{"a": y, "b": 2}], {}), [y])
    assert opened([{"a": np.zeros(2), "b": 2}], {}) is None
    assert opener([[np.zeros(2)]], {})([[x]], {}) is None


def test_deep_structures_take_the_long_way():
    deep = 0
    for _ in range(DEEPEST + 1):
        deep = [deep]
    assert is_deep(deep)
    assert not is_deep(deep[0])

    def nested(x, levels):
        for _ in range(levels):
            x = [x]
        return x

    x = np.arange(6).reshape(2, 3)
    fused = dml.fuse(lambda x: nested(x.T, 120))
    for _ in range(40):
        found = fused(x)
    for _ in range(120):
        (found,) = found
    assert np.array_equal(found, x.T)
    for _ in range(40):
        assert np.array_equal(dml.fuse(lambda x: flat(x).T)(nested(x, 60)), x.T)


def flat(tree):
    while isinstance(tree, list):
        (tree,) = tree
    return tree
