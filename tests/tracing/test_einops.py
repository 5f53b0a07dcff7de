"""einops' patterns in fused functions: what they give is what einops gives."""

import numpy as np
import pytest
from how_many import how_many

import anydml as dml

einops = pytest.importorskip("einops")

from einops import pack, rearrange, repeat, unpack  # noqa: E402  # where there is einops

CHUNKS, PATTERNS = 8, how_many(400) // 8


def side(rng, names):
    """Names in groups of one and more, as a side of a pattern."""
    groups, at = [], 0
    while at < len(names):
        size = int(rng.choice([1, 1, 1, 2, 3]))
        groups.append(names[at : at + size])
        at += size
    if rng.random() < 0.2:
        groups.insert(int(rng.integers(0, len(groups) + 1)), [])
    return groups


def written(groups):
    return " ".join(group[0] if len(group) == 1 else f"({' '.join(group)})" for group in groups)


class Pattern:
    """A random call of rearrange or repeat, or of pack and unpack."""

    def __init__(self, seed):
        rng = self.rng = np.random.default_rng(seed)
        names = [f"n{k}" for k in range(int(rng.integers(1, 6)))]
        sizes = {name: int(rng.choice([1, 2, 3, 4])) for name in names}
        left = side(rng, names)
        right = [names[k] for k in rng.permutation(len(names))]
        self.way = str(rng.choice(["rearrange", "repeat", "list", "pack", "both"]))
        lengths = {name: sizes[name] for group in left for name in group[1:]}
        if self.way in ("repeat", "both"):
            lengths["new"] = int(rng.integers(1, 4))
            right.insert(int(rng.integers(0, len(right) + 1)), "new")
        shape = [int(np.prod([sizes[name] for name in group])) for group in left]
        if self.way == "list":
            self.count = int(rng.integers(1, 4))
            left, right = [["b"], *left], [*right[:1], "b", *right[1:]]
        dots = rng.random() < 0.2 and not any(not group for group in left)
        self.pattern = f"{written(left)} -> {written(side(rng, right))}"
        if dots and self.way != "list":
            shape = [2, *shape, 3][: len(shape) + 2]
            self.pattern = f"x {written(left)} ... -> {written(side(rng, right))} ... x"
        self.lengths = lengths
        dtype = str(rng.choice(["uint8", "int16", "float32", "float64"]))
        count = self.count if self.way == "list" else int(rng.integers(1, 4))
        self.arrays = [rng.integers(0, 99, shape).astype(dtype) for _ in range(count)]

    def __call__(self, *arrays):
        if self.way == "list":
            return rearrange([*arrays], self.pattern, **self.lengths)
        if self.way == "pack":
            parts = [*arrays, arrays[0].reshape(-1)]
            packed, shapes = pack(parts, "*")
            return [*unpack(packed[::-1], shapes, "*"), packed]
        first = (rearrange if self.way == "rearrange" else repeat)(arrays[0], self.pattern, **self.lengths)
        return rearrange(first, "... last -> last ...") if self.way == "both" and first.ndim else first


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_random_patterns(chunk):
    ways = set()
    for k in range(PATTERNS):
        pattern = Pattern([154, chunk, k])
        ways.add(pattern.way)
        expected, fused = pattern(*pattern.arrays), dml.fuse(pattern)
        found = fused(*pattern.arrays)
        for one, other in zip(
            *((each,) if isinstance(each, np.ndarray) else each for each in (found, expected)), strict=True
        ):
            np.testing.assert_array_equal(one, other, f"{pattern.way} {pattern.pattern}", strict=True)
        assert list(fused.lower(*pattern.arrays).problems()) == []
    assert len(ways) == 5


def test_attention_heads_are_one_move_each():
    x = np.arange(2 * 6 * 24, dtype=np.float32).reshape(2, 6, 24)
    heads = dml.fuse(lambda x: rearrange(x, "b s (three h d) -> three b h s d", three=3, h=2))
    np.testing.assert_array_equal(heads(x), x.reshape(2, 6, 3, 2, 4).transpose(2, 0, 3, 1, 4))
    assert (len(heads.lower(x).moves), heads.lower(x).scratch_bytes) == (1, 0)


def test_pytorchs_tensors():
    torch = pytest.importorskip("torch")
    x = torch.arange(24.0).reshape(2, 3, 4)
    for function in (
        lambda x: rearrange(x, "a (b c) d -> (c d) b a", c=3),
        lambda x: repeat(x, "a b c -> (a two) c b", two=2),
        lambda x: rearrange([x, x], "n a b c -> a (n b) c"),
        lambda x: pack([x, x[..., 0]], "a b *")[0],
        lambda x: unpack(x, [(3,), ()], "a b *")[1],
    ):
        found = dml.fuse(function)(x)
        assert type(found) is torch.Tensor
        assert torch.equal(found, function(x))


def test_a_layer_of_einops():
    torch = pytest.importorskip("torch")
    from einops.layers.torch import Rearrange

    layer, x = Rearrange("b (h d) -> b h d", h=2), torch.arange(12.0).reshape(2, 6)
    assert torch.equal(dml.fuse(layer.forward)(x), layer(x))


def test_an_import_within_the_function():
    def turned(x):
        from einops import rearrange as inner

        return inner(x, "a b -> b a")

    np.testing.assert_array_equal(dml.fuse(turned)(np.eye(2, 3)), np.eye(3, 2))


@pytest.mark.parametrize(
    "function",
    [
        lambda x: einops.reduce(x, "a b -> a", "sum"),
        lambda x: einops.einsum(x, x, "a b, a c -> b c"),
    ],
)
def test_what_computes_is_refused(function):
    with pytest.raises(dml.FuseError, match="does not compute") as raised:
        dml.fuse(function)(np.zeros((2, 3)))
    assert str(raised.value).startswith(f"{__file__}:{function.__code__.co_firstlineno}: ")


def test_patterns_that_do_not_fit_are_einops_errors():
    with pytest.raises(einops.EinopsError):
        dml.fuse(lambda x: rearrange(x, "(a b) c -> a b c", a=2))(np.zeros((3, 3)))
