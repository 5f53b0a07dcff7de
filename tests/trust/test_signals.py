"""Signals that raise: between any two steps of a dispatch, while kernels are compiled, and while the compiler comes."""

import os
import signal
import subprocess
import sys
import textwrap
import threading
import time

import numpy as np
import pytest

import anydml as dml
from anydml.engines.cpu import compiler, crew, engine
from anydml.engines.cpu import pool as pools
from anydml.engines.cpu.block import OPEN, OWNER, STATE, WORKERS
from anydml.engines.cpu.pool import Pool
from trust.children import SHARING, forking, give_kernels

HANG = 1800

needs_alarms = pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="there are no alarms")
needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")


@needs_alarms
@pytest.mark.parametrize("options", [["2"], ["2", "--in-python"], ["3", "--busy"]], ids=str)
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
            frame.f_trace_opcodes = True
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


@pytest.mark.parametrize("way", ["compiled", "python"])
def test_every_step_of_a_dispatch(monkeypatch, way):
    pool = Pool(in_python=way == "python")
    monkeypatch.setattr(engine, "POOL", pool)
    monkeypatch.setattr(pools, "POOL", pool)
    monkeypatch.setattr(engine, "SHARED_BYTES", 0)
    monkeypatch.setattr(pools, "ROUND_BYTES", 1)
    x = np.arange(300_000, dtype=np.int32)
    out = np.zeros_like(x)
    tensor = dml.TensorDesc("INT32", x.shape)
    operator = dml.Device().compile_operator(dml.Slice1OperatorDesc(tensor, tensor, [0], x.shape, [-1]))
    bound = operator.bind([x], [out])
    threads = 3

    def all_of_it():
        dml.set_num_threads(1)
        dml.set_num_threads(threads)
        bound.dispatch()

    steps = 0
    for _ in interrupt_each_step(all_of_it, pools.__file__, crew.__file__):
        words = pool._crew.words
        assert not words[OWNER]
        assert not words[STATE] & (OPEN | WORKERS)
        before = out.copy()
        time.sleep(0.0005)
        assert (before == out).all(), "somebody still writes"
        dml.set_num_threads(threads)
        out[...] = 0
        bound.dispatch()
        assert (out == x[::-1]).all()
        steps += 1
    assert steps > 60
    end = time.monotonic() + HANG
    while pool.workers < threads - 1 and time.monotonic() < end:
        bound.dispatch()
    assert pool.workers == threads - 1
    pool.end()


@needs_fork
def test_every_step_of_a_fork():
    """In a process of its own: interruptions of what is called at a fork are told on stderr."""
    script = """
        import os, sys
        import numba
        from trust.test_signals import interrupt_each_step
        from anydml.engines.cpu import compiler
        compiler.import_kernels()
        def fork():
            child = os.fork()
            if not child:
                sys.settrace(None)
                held = [lock for lock in compiler._locks() if lock._is_owned()]
                os._exit(len(held))
            assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        steps = 0
        for _ in interrupt_each_step(fork, compiler.__file__):
            locks = list(compiler._locks())
            assert len(locks) == 4 and not any(lock._is_owned() for lock in locks)
            assert not compiler._COMPILER.held
            steps += 1
        print(steps)
    """
    command = [sys.executable, "-c", textwrap.dedent(script)]
    done = subprocess.run(command, check=False, env=forking(), capture_output=True, text=True, timeout=HANG)
    assert done.returncode == 0, done.stderr[-3000:]
    assert int(done.stdout) > 60


AT_IMPORT = """
class Told:
    def find_spec(self, name, path, target=None):
        if name == "numba":
            began.set()
sys.meta_path.insert(0, Told())
"""
AT_WORK = """
from anydml.engines.cpu.kernels import compilation
compile_extra = compilation.compile_extra
def told(*arguments, **more):
    began.set()
    return compile_extra(*arguments, **more)
compilation.compile_extra = told
"""


@needs_fork
@pytest.mark.parametrize("moment", [AT_IMPORT, AT_WORK], ids=["at its import", "at work"])
def test_a_fork_while_another_thread_compiles(tmp_path, moment):
    """The child compiles a kernel, too."""
    give_kernels(tmp_path, *SHARING)
    script = f"""
import os, signal, sys, threading
import numpy as np, anydml as dml
began = threading.Event()
{moment}
def compile_much():
    for n in (2, 3, 4):
        dml.split(np.zeros((100_000, n), np.uint8), n, axis=1)
thread = threading.Thread(target=compile_much)
thread.start()
assert began.wait({HANG})
child = os.fork()
if not child:
    signal.alarm(900)
    x = np.arange(400_000, dtype=np.int64)
    assert (dml.slice1(x, [0], x.shape, [-1]) == x[::-1]).all()
    os._exit(0)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
thread.join()
print("well")
"""
    command = [sys.executable, "-X", "faulthandler", "-W", "error", "-c", script]
    given = forking(NUMBA_CACHE_DIR=str(tmp_path))
    done = subprocess.run(command, check=False, env=given, capture_output=True, text=True, timeout=HANG)
    assert (done.returncode, done.stdout) == (0, "well\n"), done.stderr


@needs_fork
@pytest.mark.parametrize("module", ["arrays", "kernel_call"])
def test_a_fork_while_another_thread_imports(module):
    """The child would wait for ever for a module that nobody there goes on importing."""
    script = f"""
        import os, signal, sys, threading, time
        import numpy as np, anydml as dml
        began = threading.Event()
        class Slow:
            def find_spec(self, name, path, target=None):
                if name == "anydml.engines.cpu.{module}":
                    began.set()
                    time.sleep(0.5)
        sys.meta_path.insert(0, Slow())
        # Compiled code has no modules to import.
        for function in (dml.split, dml.slice1):
            function.__globals__["native"] = lambda *given: None
        x = np.arange(12).reshape(3, 4)
        thread = threading.Thread(target=lambda: dml.split(x, 2, axis=1))
        thread.start()
        assert began.wait({HANG})
        child = os.fork()
        if not child:
            signal.alarm({HANG})
            assert (dml.slice1(x, [0, 0], x.shape, [-1, -1]) == x[::-1, ::-1]).all()
            os._exit(0)
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
        thread.join()
    """
    command = [sys.executable, "-X", "faulthandler", "-c", textwrap.dedent(script)]
    done = subprocess.run(command, check=False, env=forking(), capture_output=True, text=True, timeout=HANG)
    assert (done.returncode, done.stdout) == (0, "0\n"), done.stderr


@needs_alarms
@pytest.mark.parametrize("delay", [0.1, 0.5])
def test_an_interrupt_while_the_compiler_is_imported(tmp_path, delay):
    """It is raised, whatever its kind; the next call compiles, and nobody is told that there is no compiler."""
    give_kernels(tmp_path, *SHARING)
    script = f"""
        import signal, sys, time
        import numpy as np, anydml as dml
        class Alarm(Exception): pass
        def handler(*_): raise Alarm
        signal.signal(signal.SIGALRM, handler)
        x = np.arange(400_000, dtype=np.int64)
        tensor = dml.TensorDesc("INT64", x.shape)
        desc = dml.Slice1OperatorDesc(tensor, tensor, [0], x.shape, [-1])
        # Not the clock on the wall: on a busy machine others' work counts there. The compiler's counts here.
        start = time.process_time()
        try:
            signal.setitimer(signal.ITIMER_REAL, {delay})
            dml.Device().compile_operator(desc)
            time.sleep({HANG})
        except Alarm:
            raised = time.process_time() - start
        assert raised < {delay} + 2, raised
        assert "interleave: " in str(dml.Device().compile_operator(desc))
        assert (dml.slice1(x, [0], x.shape, [-1]) == x[::-1]).all()
        print("well")
    """
    command = [sys.executable, "-X", "faulthandler", "-W", "error", "-c", textwrap.dedent(script)]
    given = forking(NUMBA_CACHE_DIR=str(tmp_path))
    done = subprocess.run(command, check=False, env=given, capture_output=True, text=True, timeout=HANG)
    assert (done.returncode, done.stdout) == (0, "well\n"), done.stderr


def test_errors_of_the_compilers_thread_are_the_callers():
    def fail():
        assert threading.current_thread() is not threading.main_thread()
        raise OSError(28, "No space left on device")

    with pytest.raises(compiler.NoCompilerError, match=r"OSError: .*No space left on device"):
        compiler.quietly(fail)
    assert compiler.quietly(lambda: 5) == 5


def test_the_compiler_works_without_more_threads(monkeypatch):
    def refuse(*_):
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(compiler._thread, "start_new_thread", refuse)
    assert compiler.quietly(lambda: 5) == 5
