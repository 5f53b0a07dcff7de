"""Signals that raise while work is shared, and in any step of Python's around it."""

import ast
import dis
import signal
import subprocess
import sys
import types
from pathlib import Path

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


def functions_of(code):
    yield code
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from functions_of(constant)


def uncovered_lines(code):
    """Lines of a function whose jump back to a loop's beginning leaves out handlers that the beginning has."""
    parsed = dis.Bytecode(code)
    handlers = lambda at: {each.target for each in parsed.exception_entries if each.start <= at < each.end}  # noqa: E731
    return {
        each.positions.lineno
        for each in parsed
        if each.opname == "JUMP_BACKWARD" and not handlers(each.argval) <= handlers(each.offset)
    }


def test_a_signal_at_a_loops_jump_back_leaves_no_lock_taken():
    # CPython 3.12 and 3.13 leave some of these jumps out of what `with` covers: github.com/python/cpython/issues/130279
    wrong = []
    for path in Path(dml.__file__).parent.rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        if "lock" not in text or path.parent.name == "core":  # the core is compiled by Cython
            continue
        held = [
            range(each.lineno, each.end_lineno + 1)
            for each in ast.walk(ast.parse(text))
            if isinstance(each, ast.With) and any("lock" in ast.unparse(item).lower() for item in each.items)
        ]
        lines = {line for code in functions_of(compile(text, path, "exec")) for line in uncovered_lines(code)}
        wrong += [f"{path}:{line}" for line in lines if any(line in each for each in held)]
    assert not wrong


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


@needs_core
@needs_alarms
@pytest.mark.parametrize(
    "call", [lambda x: dml.split(x, 1024), lambda x: dml.sequence(x, 0, 1)], ids=["split", "sequence"]
)
def test_what_a_handler_raises_ends_a_call(call):
    x, fired, raised = np.zeros((1024, 1 << 16), np.uint8), 0, 0

    def interrupt(*_):
        nonlocal fired
        fired += 1
        raise Interruption

    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        for k in range(1, 40):
            try:
                signal.setitimer(signal.ITIMER_REAL, k * 1e-3)
                call(x)
                signal.setitimer(signal.ITIMER_REAL, 0)
            except Interruption:
                raised += 1
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert raised == fired > 0


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
