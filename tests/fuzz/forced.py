"""Makes the CPU engine work in one way: by NumPy, with programs or without, or by certain kernels, streamed or not."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from unittest import mock

import anydml as dml
from anydml.engines.cpu import admission, columns, engine, kernel_call, lookups, pixels, plan
from anydml.functions import calling, planning

from .case import How
from .seen import Seen

KERNELS = ("planned", "few", "numpy", "rows", "elements")
"""Ways to choose: as it is planned for large work; in functions, as few numbers are moved; never a kernel; every run by
rows; no pattern in registers."""

CPU_WAYS = tuple(
    How("cpu", kernels, streamed, threads, chunk)
    for kernels, streamed, threads, chunk in (
        ("planned", False, 1, 256 << 10),
        ("planned", True, 1, 256 << 10),
        ("planned", False, 3, 1 << 10),
        ("planned", True, 2, 1),
        ("numpy", False, 1, 256 << 10),
        ("rows", False, 1, 256 << 10),
        ("rows", True, 3, 1 << 10),
        ("elements", False, 1, 256 << 10),
        ("elements", True, 3, 1 << 10),
        ("few", False, 1, 256 << 10),
    )
)
OTHER_WAYS = {"reference": How("reference"), "cuda": How("cuda")}


@contextmanager
def forced(how: How, seen: Seen | None = None) -> Iterator[None]:
    """Let compilation inside follow `how`; count the kernels that were chosen, and NumPy as one of them."""
    if how.engine != "cpu" or how.kernels == "as found":
        yield
        if seen is not None:
            seen.ran(how.engine)
        return
    always, never = -1, 1 << 62
    by_numpy = how.kernels in ("few", "numpy")
    settings = [
        (planning, "FEW_BYTES", never if how.kernels == "few" else always),
        (engine, "SMALL_BYTES", never if by_numpy else always),
        (engine, "SMALL_MOVES", never if by_numpy else always),
        (engine, "SHARED_BYTES", 0 if how.threads > 1 else never),
        (plan, "most_cached", lambda: always if how.streamed else never),
        (plan, "LONG_TABLES_BYTES", always),
        (plan, "PERMUTED_BYTES", always if how.kernels == "planned" else never),
        (kernel_call, "CHUNK", how.chunk),
        (admission, "LARGE", always),
        (admission, "MOST", never),
    ]
    if how.kernels == "rows":
        settings += [(module, name, 0) for module in (plan, lookups) for name in ("ELEMENT", "SHORT_ROW")]
    if how.kernels == "elements":
        settings += [(columns, "INTERLEAVE_BYTES", 0), (pixels, "MOST_BYTES", 0)]
    planned = engine.plan

    def counted(moves, *others):
        steps = planned(moves, *others)
        if seen is not None:
            seen.kernels(steps or (), how.streamed)
        return steps

    settings.append((engine, "plan", counted))
    threads = dml.get_num_threads()
    patches = [mock.patch.object(*setting) for setting in settings]
    for patch in patches:
        patch.start()
    dml.set_num_threads(how.threads)
    calling.PLANS.clear()
    try:
        yield
        if seen is not None and by_numpy:
            seen.ran(how.kernels)
    finally:
        for patch in reversed(patches):
            patch.stop()
        dml.set_num_threads(threads)
        calling.PLANS.clear()
