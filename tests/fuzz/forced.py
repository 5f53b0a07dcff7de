"""Makes the CPU engine work in one way: by kernels of one instruction set, streamed or not, or by NumPy."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from unittest import mock

import anydml as dml
from anydml import core
from anydml.functions import call_plans

from .case import How
from .seen import Seen

CPU_WAYS = tuple(
    How("cpu", kernels, streamed, threads)
    for kernels, streamed, threads in (
        ("", False, 1),
        ("", True, 1),
        ("", False, 3),
        ("", True, 2),
        ("numpy", False, 1),
        ("v2", False, 1),
        ("v2", True, 3),
        ("v3", False, 1),
        ("v3", True, 3),
    )
)
OTHER_WAYS = {"reference": How("reference"), "cuda": How("cuda")}


@contextmanager
def forced(how: How, seen: Seen | None = None) -> Iterator[None]:
    """Let what is compiled and done inside follow `how`; count the kernels of programs."""
    if how.engine != "cpu" or how.kernels == "as found":
        yield
        if seen is not None:
            seen.ran(how.engine)
        return
    threads = dml.get_num_threads()
    with ExitStack() as ways:
        if how.kernels == "numpy":
            ways.enter_context(mock.patch.object(core, "program", None))
        elif core.program is not None:
            from anydml.core import moving

            ways.callback(moving.choose_kernels)
            moving.choose_kernels(how.kernels, 0 if how.streamed else 1 << 62)
        if seen is not None:
            ways.enter_context(_counted(how, seen))
        ways.callback(dml.set_num_threads, threads)
        ways.callback(call_plans.PLANS.clear)
        dml.set_num_threads(how.threads)
        call_plans.PLANS.clear()
        yield


@contextmanager
def _counted(how: How, seen: Seen) -> Iterator[None]:
    from anydml.engines.cpu.engine import CpuProgram

    make = CpuProgram.__init__

    def counted(program, source):
        make(program, source)
        seen.kernels([(("numpy",), 0, False, 0)] if program.packed is None else program.packed.stages())

    with mock.patch.object(CpuProgram, "__init__", counted):
        yield
