"""Makes calls of new layouts, and says how much memory the process has, again and again.

    python -m trust.layouts_child numpy|torch|fused|pinned|bound COUNT

No two calls have the same sizes and strides. It prints the resident bytes at eight moments, the last at the end.
"""

from __future__ import annotations

import gc
import itertools
import os
import resource
import sys
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import anydml as dml

MOMENTS = 8
SIDE = 1100
"""Of a square that has room for 10⁶ of them."""


def layouts() -> Iterator[tuple[int, int, int]]:
    """Two sizes and a step, no two alike, from small ones on."""
    for total in itertools.count(2):
        for rows in range(1, min(total, 40)):
            for step in range(1, 31):
                yield rows, total - rows, step


def on_numpy() -> Callable[[int, int, int], None]:
    """A function on NumPy's arrays, one after the other."""
    flat = np.arange(SIDE * SIDE, dtype=np.float32)
    calls = itertools.cycle(_calls(np.array([0, -1])))

    def call(rows: int, columns: int, step: int) -> None:
        x = np.ndarray((rows, columns), flat.dtype, flat, 0, (step * columns * 4, step * 4))
        next(calls)(x)

    return call


def on_torch() -> Callable[[int, int, int], None]:
    """The same on PyTorch's tensors."""
    import torch

    flat = torch.arange(SIDE * SIDE, dtype=torch.float32)
    calls = itertools.cycle(_calls(torch.tensor([0, -1])))

    def call(rows: int, columns: int, step: int) -> None:
        next(calls)(flat.as_strided((rows, columns), (step * columns, step)))

    return call


def _calls(indices: Any) -> list[Callable[[Any], object]]:
    return [
        lambda x: dml.split(x, [0, x.shape[0]]),
        lambda x: dml.join([x, x], 1),
        lambda x: dml.slice1(x, [0, 0], x.shape, [-1, 1]),
        lambda x: dml.gather(x, indices, 1),
        lambda x: dml.pad(x, [1, 0, 0, 2], "edge"),
        lambda x: dml.roll(x, 1, 0),
        lambda x: dml.permute_dims(x, [1, 0]),
        dml.copy,
    ]


def on_fused() -> Callable[[int, int, int], None]:
    """One fused function, which is traced once."""
    return _on_fused(lambda x: np.concatenate([x, x[::-1]]).T)


def on_pinned() -> Callable[[int, int, int], None]:
    """One that is traced again for other sizes, since it needs them as numbers."""
    return _on_fused(lambda x: np.concatenate([x, x[::-1]])[: int(x.shape[0]), : int(x.shape[1])].T)


def _on_fused(function: Callable[[Any], Any]) -> Callable[[int, int, int], None]:
    flat, fused = np.arange(SIDE * SIDE, dtype=np.float32), dml.fuse(function)

    def call(rows: int, columns: int, step: int) -> None:
        fused(np.ndarray((rows, columns), flat.dtype, flat, 0, (step * columns * 4, step * 4)))

    return call


def on_bound() -> Callable[[int, int, int], None]:
    """Operators, compiled, bound and dispatched once."""
    flat, room, device = np.arange(SIDE * SIDE, dtype=np.float32), np.zeros(SIDE * SIDE, np.float32), dml.Device()

    def call(rows: int, columns: int, step: int) -> None:
        x = dml.TensorDesc("FLOAT32", [rows, columns], [step * columns, step])
        y = dml.TensorDesc("FLOAT32", [rows, columns])
        desc = dml.Slice1OperatorDesc(x, y, [0, 0], [rows, columns], [-1, 1])
        device.compile_operator(desc).bind([flat], [room]).dispatch()

    return call


def resident() -> int:
    """Bytes of this process that are in memory."""
    gc.collect()
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * resource.getpagesize()


def main() -> None:
    """Call, and print."""
    kind, count = sys.argv[1], int(sys.argv[2])
    call = globals()[f"on_{kind}"]()
    # What is imported and compiled for large work at all is there before.
    for k in range(100):
        call(39, 800 - k, 30)
    moments = {count * k // MOMENTS for k in range(1, MOMENTS + 1)}
    for number, layout in enumerate(itertools.islice(layouts(), count), 1):
        call(*layout)
        if number in moments:
            print(resident(), flush=True)


if __name__ == "__main__":
    os.environ.setdefault("ANYDML_NUM_THREADS", "1")
    main()
