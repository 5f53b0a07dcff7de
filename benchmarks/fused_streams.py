"""Chains of moves whose shapes are new in each call: ``python -m benchmarks.fused --streams``.

As `benchmarks.streams`, for fused functions: each call has a size that its process has not seen. Everybody's first few
calls are made before the clock starts: ``torch.compile``, which has dynamic sizes, compiles in them.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

import anydml as dml
from benchmarks import fused_cases
from benchmarks.report import geometric_mean
from benchmarks.sizes import size_text
from benchmarks.streams import Array, Run, check, timed

SIZES = (4 << 10, 58 << 10, 1 << 20, 4 << 20)
CALLS, WARM = 40, 3


class Stream(NamedTuple):
    """A chain.

    Attributes:
        unit: bytes of its first argument for each step of its length.
        make: its arguments, of a length.
        numpy: the chain of NumPy's arrays.
        torch: the same of PyTorch's tensors.
    """

    unit: int
    make: Callable[[int], tuple[Any, ...]]
    numpy: Callable[..., Any]
    torch: Callable[..., Any]


def _floats(*shape: int) -> Array:
    return np.arange(int(np.prod(shape)), dtype=np.float32).reshape(shape)


def _bytes(*shape: int) -> Array:
    return (np.arange(int(np.prod(shape))) % 251).astype(np.uint8).reshape(shape)


def _torch() -> Any:
    import torch

    return torch


def _half(x: Any) -> Any:
    first, second = np.split(x, 2, axis=-1)
    return np.concatenate([second, first], axis=-1)


def _torch_half(x: Any) -> Any:
    first, second = x.chunk(2, dim=-1)
    return _torch().cat([second, first], dim=-1)


def _windows(x: Any) -> Any:
    n, h, w, c = x.shape
    rolled = np.roll(x, (-3, -3), axis=(1, 2))
    return rolled.reshape(n, h // 7, 7, w // 7, 7, c).transpose(0, 1, 3, 2, 4, 5).reshape(-1, 49, c)


def _torch_windows(x: Any) -> Any:
    n, h, w, c = x.shape
    rolled = _torch().roll(x, (-3, -3), (1, 2))
    return rolled.view(n, h // 7, 7, w // 7, 7, c).permute(0, 1, 3, 2, 4, 5).reshape(-1, 49, c)


def _crops(images: Any, places: Any) -> Any:
    cut = [image[y : y + 24, x : x + 24] for image, (y, x) in zip(images, places, strict=True)]
    return np.stack([each[:, ::-1] if k % 2 else each for k, each in enumerate(cut)]).transpose(0, 3, 1, 2)


def _torch_crops(images: Any, places: Any) -> Any:
    cut = [image[y : y + 24, x : x + 24] for image, (y, x) in zip(images, places, strict=True)]
    return _torch().stack([each.flip(1) if k % 2 else each for k, each in enumerate(cut)]).permute(0, 3, 1, 2)


def _crop_arguments(n: int) -> tuple[Any, ...]:
    images = [_bytes(32 + n % 97 + k, 40 + n, 3) for k in range(4)]
    return images, tuple((1 + (n + k) % 7, 1 + (n + 3 * k) % 11) for k in range(4))


def _slot(cache: Any, new: Any, at: int) -> Any:
    return np.concatenate([cache[:, :, :at], new, cache[:, :, at + 1 :]], axis=2)


def _torch_slot(cache: Any, new: Any, at: int) -> Any:
    return _torch().cat([cache[:, :, :at], new, cache[:, :, at + 1 :]], dim=2)


def _collated(rows: Any) -> Any:
    longest = max(len(row) for row in rows)
    return np.stack([np.pad(row, (0, longest - len(row))) for row in rows])


def _torch_collated(rows: Any) -> Any:
    return _torch().nn.utils.rnn.pad_sequence(rows, batch_first=True)


def _rows(n: int) -> tuple[Any, ...]:
    return ([_floats(1 + (n * (k + 3)) % (2 * n)) for k in range(32)],)


def _ids(count: int, n: int) -> Array:
    return np.random.default_rng(n).integers(0, count, n)


STREAMS = {
    "F1 heads": Stream(12288, lambda n: (_floats(1, n, 3072),), fused_cases.heads, fused_cases.torch_heads),
    "F2 halves": Stream(4096, lambda n: (_floats(1, 16, n, 64),), fused_cases.halves, fused_cases.torch_halves),
    "F3 windows": Stream(6272, lambda n: (_floats(1, 7 * n, 28, 8),), _windows, _torch_windows),
    "F4 crops": Stream(480, _crop_arguments, _crops, _torch_crops),
    "F5 focus": Stream(1536, lambda n: (_floats(1, 3, 2 * n, 64),), fused_cases.focus, fused_cases.torch_focus),
    "F6 im2col": Stream(1024, lambda n: (_floats(1, 8, 4 + n, 32),), fused_cases.columns, fused_cases.torch_columns),
    "F7 shuffle": Stream(
        2048, lambda n: (_floats(1, 16, 6 + n, 32),), fused_cases.shuffled, fused_cases.torch_shuffled
    ),
    "F8 embedding": Stream(
        512, lambda n: (_floats(5000, 64), _ids(5000, 2 * n).reshape(2, n), _floats(n, 64)),
        fused_cases.embedded, fused_cases.torch_embedded,
    ),
    "F9 pages": Stream(
        8192, lambda n: (_floats(max(64, n), 4, 8, 64), _ids(64, n)), fused_cases.pages, fused_cases.torch_pages
    ),
    "rotate half": Stream(4096, lambda n: (_floats(1, 16, n, 64),), _half, _torch_half),
    "KV append": Stream(
        2048, lambda n: (_floats(1, 8, n, 64), _floats(1, 8, 1, 64)),
        lambda cache, new: np.concatenate([cache, new], axis=2), lambda cache, new: _torch().cat([cache, new], dim=2),
    ),
    "slot write": Stream(2048, lambda n: (_floats(1, 8, n + 2, 64), _floats(1, 8, 1, 64), n), _slot, _torch_slot),
    "beam reorder": Stream(
        1024, lambda n: (_floats(4, n, 64), _ids(4, 4)), lambda cache, at: cache[at], lambda cache, at: cache[at]
    ),
    "collate": Stream(128, _rows, _collated, _torch_collated),
    "HWC to CHW": Stream(
        192, lambda n: (_bytes(n, 64, 3),), lambda x: x.transpose(2, 0, 1), lambda x: x.permute(2, 0, 1)
    ),
    "RGB to BGR": Stream(192, lambda n: (_bytes(n, 64, 3),), lambda x: x[..., ::-1], lambda x: x.flip(-1)),
}  # fmt: skip
"""F1 to F9 in sizes that grow, and what decoders and loaders do."""


def _new(results: Any) -> Any:
    """Results that are new and contiguous."""
    return tuple(map(np.ascontiguousarray, results)) if isinstance(results, tuple) else np.ascontiguousarray(results)


def _new_tensors(results: Any) -> Any:
    return tuple(each.contiguous() for each in results) if isinstance(results, tuple) else results.contiguous()


def _tensors(given: Any) -> Any:
    """Arguments with tensors that have the memory of arrays."""
    if isinstance(given, (list, tuple)):
        return type(given)(map(_tensors, given))
    return _torch().from_numpy(given) if isinstance(given, np.ndarray) else given


def _arrays(given: Any) -> list[Array]:
    if isinstance(given, (list, tuple)):
        return [array for each in given for array in _arrays(each)]
    return [given] if isinstance(given, np.ndarray) else []


def measured(name: str, size: int, compiles: bool) -> dict[str, float]:
    """Median seconds of a call, by name; everybody's results are NumPy's."""
    stream = STREAMS[name]
    fused = dml.fuse(stream.numpy)

    def eager(*tensors: Any) -> Any:
        return _new_tensors(stream.torch(*tensors))

    # Whatever was compiled for another stream is forgotten.
    _torch().compiler.reset()
    compiled = _torch().compile(eager, dynamic=True) if compiles else None

    def runs_of(arguments: tuple[Any, ...]) -> dict[str, Run]:
        tensors = _tensors(arguments)
        runs: dict[str, Run] = {
            "anydml": lambda: fused(*arguments),
            "numpy": lambda: _new(stream.numpy(*arguments)),
            "torch": lambda: eager(*tensors),
        }
        return {**runs, "torch.compile": lambda: compiled(*tensors)} if compiled else runs

    first = max(2, size // stream.unit)
    calls = [stream.make(first + k) for k in range(WARM + CALLS)]
    every = [(runs_of(arguments), _arrays(arguments)) for arguments in calls]
    for runs, _ in every[:WARM]:
        check(name, runs)
    found = timed(every[WARM:])
    for runs, _ in every[WARM:]:
        check(name, runs)
    return found


def main(compiles: bool) -> int:
    """Measure the streams, and print them."""
    warnings.simplefilter("ignore")
    _torch().set_num_threads(dml.get_num_threads())
    ratios = []
    for name in STREAMS:
        for size in SIZES:
            seconds = measured(name, size, compiles)
            ours = seconds.pop("anydml")
            peer = min(seconds, key=lambda each: seconds[each])
            ratios.append(seconds[peer] / ours)
            print(f"{name:14}{size_text(size):>9}{ours * 1e6:>10.1f} µs {ratios[-1]:>6.2f} of {peer}", flush=True)
    mean = f"{geometric_mean(ratios):.2f} of the fastest peer (geometric mean), least {min(ratios):.2f}"
    print(f"{mean}, {sum(ratio < 1 for ratio in ratios)} of {len(ratios)} slower")
    return 0
