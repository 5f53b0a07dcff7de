"""Random functions as data loaders have them, fused, on batches that differ in everything, compared with NumPy.

python -m tests.fuzz.loaders --functions 10000 --calls 10 --seed 1
"""

from __future__ import annotations

import argparse
import sys
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

DTYPES = ("uint8", "int16", "float32", "float64", "S3")
INTEGERS = (int, int, int, np.int64, np.int64, np.int32, np.uint8)

Numbers = list[Any]
Step = Callable[[np.ndarray, int, bool], np.ndarray]


def cropped(x: np.ndarray, k: int, flag: bool) -> np.ndarray:
    return x[k : k + 3, k:]


def cropped_from_the_end(x: np.ndarray, k: int, flag: bool) -> np.ndarray:
    return x[k:][:4, : len(x) - 1]


def flipped(x: np.ndarray, k: int, flag: bool) -> np.ndarray:
    return x[:, ::-1] if flag else x


def stepped(x: np.ndarray, k: int, flag: bool) -> np.ndarray:
    return x[:: -1 if flag else 1]


def rotated(x: np.ndarray, k: int, flag: bool) -> np.ndarray:
    return np.rot90(x, int(k))


def rolled(x: np.ndarray, k: int, flag: bool) -> np.ndarray:
    return np.roll(x, int(k) - 2, 1)


def padded(x: np.ndarray, k: int, flag: bool) -> np.ndarray:
    return np.pad(x, ((2, 1), (1, 2)))[k : k + 4]


def edged(x: np.ndarray, k: int, flag: bool) -> np.ndarray:
    return np.pad(x, ((1, 2), (0, 1)), "edge")[:, k:] if x.size else x


def transposed(x: np.ndarray, k: int, flag: bool) -> np.ndarray:
    return x.T if flag else x.swapaxes(0, 1)


def doubled(x: np.ndarray, k: int, flag: bool) -> np.ndarray:
    return np.concatenate([x, x[:k]], 0)


def cut_out(x: np.ndarray, k: int, flag: bool) -> np.ndarray:
    return np.concatenate([x[:k], np.zeros_like(x[k : k + 2]), x[k + 2 :]])


def enlarged(x: np.ndarray, k: int, flag: bool) -> np.ndarray:
    return np.repeat(x, int(k) % 3, 0)


def flattened(x: np.ndarray, k: int, flag: bool) -> np.ndarray:
    return x[k:].reshape(-1)[None]


def one_row(x: np.ndarray, k: int, flag: bool) -> np.ndarray:
    return x[k % len(x)][:, None] if len(x) else x


STEPS: tuple[Step, ...] = (
    *(cropped, cropped_from_the_end, flipped, stepped, rotated, rolled, padded, edged, transposed, doubled, cut_out),
    *(enlarged, flattened, one_row),
)


def to_the_longest(parts: list[np.ndarray]) -> np.ndarray:
    height, width = max(len(part) for part in parts), max(part.shape[1] for part in parts)
    return np.stack([np.pad(p, ((0, height - len(p)), (0, width - p.shape[1]))) for p in parts])


def to_a_size(parts: list[np.ndarray]) -> np.ndarray:
    return np.stack([np.pad(p[:5, :5], ((0, max(0, 5 - len(p))), (0, max(0, 5 - p.shape[1])))) for p in parts])


def in_a_row(parts: list[np.ndarray]) -> np.ndarray:
    return np.concatenate([part.reshape(-1) for part in parts])


def apart(parts: list[np.ndarray]) -> dict[str, Any]:
    return {"first": parts[0], "others": tuple(parts[1:])}


COLLATES: tuple[Callable[..., Any], ...] = (to_the_longest, to_a_size, in_a_row, apart)


class Loader:
    """A random function of a list of matrices, and of a number and a flag for each.

    Args:
        seed: what it is drawn from.
    """

    def __init__(self, seed: list[int]) -> None:
        self.rng = np.random.default_rng(seed)
        self.dtype = str(self.rng.choice(DTYPES))
        self.count = None if self.rng.random() < 0.2 else int(self.rng.integers(1, 6))
        self.integer = INTEGERS[int(self.rng.integers(len(INTEGERS)))]
        self.is_alike = bool(self.rng.random() < 0.5)
        self.steps = [STEPS[k] for k in self.rng.integers(0, len(STEPS), self.rng.integers(1, 4))]
        self.collate = COLLATES[int(self.rng.integers(len(COLLATES)))]

    def function(self) -> Callable[..., Any]:
        """Return the function."""
        steps, collate = self.steps, self.collate

        def load(images: list[np.ndarray], numbers: Numbers, flags: list[bool]) -> Any:
            parts = []
            for x, number, flag in zip(images, numbers, flags, strict=True):
                for step in steps:
                    x = step(x, number, flag)  # noqa: PLW2901
                parts.append(x)
            return collate(parts)

        return load

    def arguments(self) -> tuple[list[np.ndarray], Numbers, list[bool]]:
        """Return arguments for a call."""
        count = self.count or int(self.rng.integers(1, 6))
        low = 0 if self.rng.random() < 0.3 else 3
        images = [self._image(low) for _ in range(count)]
        flags = [bool(self.rng.random() < 0.5)] * count if self.is_alike else [*map(bool, self.rng.random(count) < 0.5)]
        return images, [self.integer(n) for n in self.rng.integers(0, 5, count)], flags

    def _image(self, low: int) -> np.ndarray:
        rows, columns = self.rng.integers(low, 9, 2)
        whole = self.rng.integers(0, 99, (2 * rows, columns + 1)).astype(self.dtype)
        kind = int(self.rng.integers(6))
        if kind == 0:
            return whole[::2, :-1]
        if kind == 1:
            return whole[:rows, columns - 1 :: -1] if columns else whole[:rows, :0]
        if kind == 2:
            return np.broadcast_to(whole[:1, :columns], (rows, columns))
        return np.array(whole[:rows, :columns], order="F" if kind == 3 else "C")


def leaves(tree: Any) -> list[Any]:
    """Return the arrays of a structure."""
    if isinstance(tree, dict):
        return [leaf for each in tree.values() for leaf in leaves(each)]
    return [leaf for each in tree for leaf in leaves(each)] if isinstance(tree, (list, tuple)) else [tree]


def check(seed: list[int], calls: int, seen: dict[str, int]) -> None:
    """Compare calls of a random function with NumPy.

    Raises:
        AssertionError: a result or an error is another one, or a result is not new.
    """
    import anydml as dml

    loader = Loader(seed)
    plain = loader.function()
    fused = dml.fuse(loader.function())
    for number in range(calls):
        arguments = loader.arguments()
        name = f"function {seed}, call {number}: {[step.__name__ for step in loader.steps]} {loader.collate.__name__}"
        before = [image.tobytes() for image in arguments[0]]
        expected = error = None
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                expected = plain(*arguments)
        except (ValueError, IndexError, OverflowError, ZeroDivisionError, TypeError) as raised:
            error = raised
        try:
            found = fused(*arguments)
        except Exception as raised:
            if error is None:
                raise AssertionError(f"{name}: NumPy raises nothing") from raised
            seen["errors"] = seen.get("errors", 0) + 1
            continue
        assert error is None, f"{name}: NumPy raises {error!r}"
        assert type(found) is type(expected), name
        for one, other in zip(leaves(found), leaves(expected), strict=True):
            np.testing.assert_array_equal(one, other, name, strict=True)
            assert one.flags.c_contiguous, name
            assert not any(np.shares_memory(one, image) for image in arguments[0]), name
        assert [image.tobytes() for image in arguments[0]] == before, name
        seen["calls"] = seen.get("calls", 0) + 1


def main() -> int:
    """Compare; 0 where nothing differs."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz.loaders", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--functions", type=int, default=100)
    parser.add_argument("--calls", type=int, default=10)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    seen: dict[str, int] = {}
    different = 0
    for number in range(given.functions):
        try:
            check([given.seed, number], given.calls, seen)
        except AssertionError as error:
            different += 1
            print(error, repr(error.__cause__))
    print(f"{given.functions} functions × {given.calls}: {different} different; {seen}")
    return different > 0


if __name__ == "__main__":
    sys.exit(main())
