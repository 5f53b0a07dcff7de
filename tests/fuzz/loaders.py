"""Random functions as data loaders have them, fused, on batches that differ in everything, compared with the function.

python -m tests.fuzz.loaders --functions 10000 --calls 10 --seed 1 [--library torch]
"""

from __future__ import annotations

import argparse
import importlib
import sys
import types
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

DTYPES = {
    "numpy": ("uint8", "int16", "float32", "float64", "S3", ">f4", "bool", "M8[s]", "complex64"),
    "torch": ("uint8", "int16", "float32", "float64", "bool", "bfloat16", "int64"),
}

_ENDINGS = {"numpy": "", "torch": "_torch"}

FLAGS: tuple[Callable[[bool], Any], ...] = (bool, np.bool_, lambda flag: None if flag else True, int)


def _integers(library: str) -> tuple[Callable[[int], Any], ...]:
    """Return the types of numbers that loaders draw."""
    common = (int, int, int, np.int64, np.int32, np.uint8)
    if library == "torch":
        import torch

        return *common, torch.tensor, lambda number: torch.tensor(number, dtype=torch.int32)
    return *common, np.int64, np.int8, np.int16, np.uint16, np.array, lambda number: np.array(number, np.int32)


class Loader:
    """A random function of a batch: of images, and of a number and a flag for each.

    Args:
        seed: what it is drawn from.
        library: ``numpy`` or ``torch``.
    """

    def __init__(self, seed: list[int], library: str = "numpy") -> None:
        self.rng = rng = np.random.default_rng(seed)
        self.library = library
        written = importlib.import_module(f".loader_steps{_ENDINGS[library]}", __package__)
        self.dtype = DTYPES[library][rng.integers(len(DTYPES[library]))]
        self.count = None if rng.random() < 0.25 else int(rng.integers(1, 6))
        integers = _integers(library)
        self.integer = integers[rng.integers(len(integers))]
        self.flag = FLAGS[rng.integers(len(FLAGS))]
        self.is_alike = bool(rng.random() < 0.2)
        self.rank = int(rng.integers(2, 4))
        self.channels = 3 if rng.random() < 0.3 else None
        self.passing = int(rng.integers(len(_PASSING)))
        self.steps = [written.STEPS[k] for k in rng.integers(0, len(written.STEPS), rng.integers(1, 5))]
        self.collate = written.COLLATES[rng.integers(len(written.COLLATES))]

    def __str__(self) -> str:
        steps = [step.__name__ for step in self.steps]
        return f"{steps} {self.collate.__name__} of {self.dtype}, rank {self.rank}, passed by way {self.passing}"

    def function(self) -> Callable[..., Any]:
        """Return the function, whose code calls the steps by their names, as people write it."""
        lines = [
            "def batch(images, numbers, flags, chosen):",
            "    parts = []",
            "    for number, x in enumerate(images):",
        ]
        lines += [f"        x = {step.__name__}(x, numbers[number], flags[number], chosen)" for step in self.steps]
        lines += ["        parts.append(x)", f"    return {self.collate.__name__}(parts)"]
        # Functions of one package are traced alike.
        names = {"__name__": self.collate.__module__}
        names |= {each.__name__: each for each in (*self.steps, self.collate)}
        exec("\n".join(lines), names)
        return _PASSING[self.passing](names["batch"])

    def arguments(self) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return positional and keyword arguments for a call."""
        rng = self.rng
        count = self.count or int(rng.integers(1, 6))
        low = 0 if rng.random() < 0.3 else 8 if rng.random() < 0.3 else 3
        channels = self.channels or int(rng.integers(1, 4))
        images = [self._image(low, channels) for _ in range(count)]
        is_wild = self.integer is int and rng.random() < 0.3
        numbers = [self.integer(int(k)) for k in rng.integers(*((-4, 12) if is_wild else (0, 6)), count)]
        flags = [self.flag(bool(flag)) for flag in rng.random(count) < 0.5]
        flags = flags[:1] * count if self.is_alike else flags
        chosen: Any = rng.integers(0, 8, int(rng.integers(0, 6)))
        if self.library == "torch":
            chosen = _tensor(chosen)
        if self.passing == 0:
            return (images, numbers, flags, chosen), {}
        if self.passing == 1:
            return (images,), {"numbers": numbers, "flags": flags, "chosen": chosen}
        if self.passing == 2:
            return ([*zip(images, numbers, flags, strict=True)], chosen), {}
        if self.passing == 3:
            samples = zip(images, numbers, flags, strict=True)
            return ([{"image": x, "k": k, "flag": flag} for x, k, flag in samples], chosen), {}
        if self.passing == 4:
            return ({"images": images, "numbers": numbers, "flags": flags, "chosen": chosen},), {}
        return (numbers, flags, chosen, *images), {}

    def _image(self, low: int, channels: int) -> Any:
        rows, columns = map(int, self.rng.integers(low, 10, 2))
        inner = (channels,) * (self.rank - 2)
        whole: Any = self.rng.integers(0, 99, (2 * rows, columns + 1, *inner))
        kind = int(self.rng.integers(7))
        if self.library == "torch":
            import torch

            whole = _tensor(whole).to(getattr(torch, self.dtype))
        else:
            whole = whole.astype(self.dtype)
        image = whole[:rows, :columns]
        if kind == 0:
            return whole[::2, :-1]
        if kind == 1:
            row = whole[:1, :columns] if rows else image
            return row.expand(image.shape) if self.library == "torch" else np.broadcast_to(row, image.shape)
        if self.library == "torch":
            return image.transpose(0, 1).contiguous().transpose(0, 1) if kind == 2 else image.clone()
        if kind == 2:
            return whole[:rows, columns - 1 :: -1] if columns else image
        return image[::-1] if kind == 3 else np.array(image, order="F" if kind == 4 else "C")


def _tensor(array: np.ndarray[Any, Any]) -> Any:
    import torch

    return torch.from_numpy(array)


Batch = Callable[[Any, Any, Any, Any], Any]


def _by_keywords(batch: Batch) -> Callable[..., Any]:
    return lambda images, *, numbers, flags, chosen=None: batch(images, numbers, flags, chosen)


def _by_tuples(batch: Batch) -> Callable[..., Any]:
    def load(samples: Any, chosen: Any) -> Any:
        return batch([x for x, _, _ in samples], [k for _, k, _ in samples], [flag for *_, flag in samples], chosen)

    return load


def _by_dicts(batch: Batch) -> Callable[..., Any]:
    def load(samples: Any, chosen: Any) -> Any:
        images, numbers, flags = ([sample[name] for sample in samples] for name in ("image", "k", "flag"))
        return batch(images, numbers, flags, chosen)

    return load


def _by_one_dict(batch: Batch) -> Callable[..., Any]:
    return lambda given: batch(given["images"], given["numbers"], given["flags"], given["chosen"])


def _by_positions(batch: Batch) -> Callable[..., Any]:
    return lambda numbers, flags, chosen, *images: batch(images, numbers, flags, chosen)


_PASSING: tuple[Callable[[Batch], Callable[..., Any]], ...] = (
    *(lambda batch: batch, _by_keywords, _by_tuples, _by_dicts, _by_one_dict, _by_positions),
)
"""Ways in which a function takes its batch."""


def leaves(tree: Any) -> list[Any]:
    """Return the leaves of a structure."""
    if isinstance(tree, dict):
        return [leaf for each in tree.values() for leaf in leaves(each)]
    return [leaf for each in tree for leaf in leaves(each)] if isinstance(tree, (list, tuple)) else [tree]


def arrays(tree: Any) -> list[Any]:
    """Return the arrays and tensors of a structure."""
    return [leaf for leaf in leaves(tree) if isinstance(leaf, np.ndarray) or _is_tensor(leaf)]


def _is_tensor(leaf: Any) -> bool:
    torch: types.ModuleType | None = sys.modules.get("torch")
    return torch is not None and isinstance(leaf, torch.Tensor)


def content(array: Any) -> bytes:
    """Return the elements of an array or a tensor in row-major order, as bytes."""
    if _is_tensor(array):
        import torch

        array = torch.empty(array.numel(), dtype=array.dtype).copy_(array.reshape(-1)).view(torch.uint8).numpy()
    return array.tobytes()  # type: ignore[no-any-return]


def check(seed: list[int], calls: int, seen: dict[str, int], library: str = "numpy") -> None:
    """Compare calls of a random function, fused, with the function.

    Raises:
        AssertionError: a result or an error is another one, a result is not new, or an argument was changed.
    """
    import anydml as dml

    loader = Loader(seed, library)
    plain = loader.function()
    fused = dml.fuse(loader.function())
    for number in range(calls):
        arguments, keywords = loader.arguments()
        name = f"function {seed}, call {number}: {loader}"
        given = arrays((arguments, keywords))
        before = [*map(content, given)]
        expected = error = None
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                expected = plain(*arguments, **keywords)
        except Exception as raised:
            error = raised
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                result = fused(*arguments, **keywords)
        except Exception as raised:
            if error is None:
                raise AssertionError(f"{name}: the function raises nothing") from raised
            seen["errors"] = seen.get("errors", 0) + 1
            continue
        assert error is None, f"{name}: the function raises {error!r}"
        assert _structure(result) == _structure(expected), name
        for one, other in zip(leaves(result), leaves(expected), strict=True):
            assert (one.dtype, one.shape, content(one)) == (other.dtype, other.shape, content(other)), name
            assert _is_new(one, given), name
        assert [*map(content, given)] == before, name
        seen["calls"] = seen.get("calls", 0) + 1


def _structure(tree: Any) -> Any:
    """Return the types of a structure, and the names in it."""
    if isinstance(tree, dict):
        return dict, [(name, _structure(each)) for name, each in tree.items()]
    return (type(tree), [*map(_structure, tree)]) if isinstance(tree, (list, tuple)) else type(tree)


def _is_new(array: Any, given: list[Any]) -> bool:
    """Whether an array is contiguous, and shares no memory with what was given."""
    if _is_tensor(array):
        storages = {each.untyped_storage().data_ptr() for each in given if _is_tensor(each) and each.numel()}
        return array.is_contiguous() and not (array.numel() and array.untyped_storage().data_ptr() in storages)
    return array.flags.c_contiguous and not any(np.shares_memory(array, each) for each in given)


def main() -> int:
    """Compare; 0 where nothing differs."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz.loaders", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--functions", type=int, default=100)
    parser.add_argument("--calls", type=int, default=10)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--library", choices=[*DTYPES], default="numpy")
    given = parser.parse_args()
    seen: dict[str, int] = {}
    different = 0
    for number in range(given.functions):
        try:
            check([given.seed, number], given.calls, seen, given.library)
        except AssertionError as error:
            different += 1
            print(error, repr(error.__cause__))
    print(f"{given.library}, {given.functions} functions × {given.calls}: {different} different; {seen}")
    return different > 0


if __name__ == "__main__":
    sys.exit(main())
