"""Signals that raise while work is shared, and in any step of Python's around it."""

import signal
import subprocess
import sys

import numpy as np
import pytest

import anydml as dml
from anydml import core
from anydml.engines.cpu import engine, threads
from trust.children import forking

HANG = 1800

needs_core = pytest.mark.skipif(core.pool is None, reason="there is no compiled core")
needs_alarms = pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="there are no alarms")


@needs_core
@needs_alarms
@pytest.mark.parametrize("options", [["1"], ["2", "--busy"]], ids=str)
def test_a_storm(options):
    command = [sys.executable, "-X", "faulthandler", "-m", "trust.signals", "--seed", "5", "--seconds", *options]
    done = subprocess.run(command, check=False, env=forking(), capture_output=True, text=True, timeout=HANG)
    assert (done.returncode, done.stdout) == (0, "well\n"), done.stderr


class Interruption(BaseException):
    """What is raised."""


def interrupt_each_step(call, *files):
    """Call it again and again, raising at one step more each time of functions in files; yields after each."""
    step = 0
    while True:
        left = step

        def trace(frame, event, arg):
            if frame.f_code.co_filename not in files:
                return None
            # Python 3.13 reports no instructions of a frame that has no function yet.
            frame.f_trace, frame.f_trace_opcodes = local, True
            return local

        def local(frame, event, arg):
            nonlocal left
            if event == "opcode":
                if not left:
                    left = -1
                    raise Interruption
                left -= left > 0
            return local

        other = sys.gettrace()  # coverage's, perhaps, which goes on afterwards
        sys.settrace(trace)
        try:
            call()
        except Interruption:
            pass
        finally:
            sys.settrace(other)
        if left >= 0:
            return
        yield step
        step += 1


def test_every_step_of_a_first_dispatch_and_of_a_fused_call():
    x = np.arange(300_000, dtype=np.int32)
    tensor = dml.TensorDesc("INT32", x.shape)
    desc = dml.Slice1OperatorDesc(tensor, tensor, [0], x.shape, [-1])
    before = dml.get_num_threads()

    def all_of_it():
        dml.set_num_threads(1)
        dml.set_num_threads(3)
        out = np.zeros_like(x)
        dml.Device().compile_operator(desc).bind([x], [out]).dispatch()
        return out, dml.fuse(lambda x: x[::-1])(x[1:])

    from anydml.tracing import fused as fusing

    steps = 0
    for _ in interrupt_each_step(all_of_it, engine.__file__, threads.__file__, fusing.__file__):
        steps += 1
        if steps % 10 == 0:
            out, result = all_of_it()
            assert (out == x[::-1]).all()
            assert (result == x[:0:-1]).all()
    dml.set_num_threads(before)
    assert steps > 60
