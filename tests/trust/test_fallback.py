"""Without a kernel the work is done all the same, and one warning says so."""

import os
import subprocess
import sys
import textwrap
import warnings
from pathlib import Path

import numpy as np
import pytest
from anydml.engines.cpu.kernels import compilation, interleave, kept, lookup, rows

import anydml as dml
from anydml.engines.cpu import engine

X = np.arange(600_000, dtype=np.uint32).reshape(200_000, 3)


@pytest.fixture
def never_warned(monkeypatch):
    """Nothing was said yet."""
    monkeypatch.setattr(engine, "_WARNED", type(engine._WARNED)())


def broken(*_):
    raise RuntimeError("no target for this processor")


def test_a_kernel_that_cannot_be_compiled(never_warned, monkeypatch):
    for module, name in ((interleave, "interleave_kernel"), (rows, "rows_kernel")):
        load = getattr(module, name)
        monkeypatch.setattr(module, name, getattr(load, "__wrapped__", load))
    monkeypatch.setattr(kept, "read", lambda name: None)
    monkeypatch.setattr(compilation, "machine_code", broken)
    monkeypatch.setattr(compilation, "plain", broken)
    desc = dml.SplitOperatorDesc(dml.TensorDesc("UINT32", X.shape), [dml.TensorDesc("UINT32", (200_000, 1))] * 3, 1)
    with pytest.warns(RuntimeWarning, match="NumPy does the work: RuntimeError: no target for this processor") as said:
        operator = dml.Device().compile_operator(desc)
    assert len(said) == 1
    parts = [np.zeros((200_000, 1), np.uint32) for _ in range(3)]
    operator.bind([X], parts).dispatch()
    for k, part in enumerate(parts):
        np.testing.assert_array_equal(part[:, 0], X[:, k])
    assert "there is no kernel" in str(operator)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        rows_only = dml.JoinOperatorDesc([desc.input_tensor], desc.input_tensor, 0)
        copy = np.zeros_like(X)
        dml.Device().compile_operator(rows_only).bind([X], [copy]).dispatch()
    np.testing.assert_array_equal(copy, X)


def test_a_compiler_that_cannot_be_imported():
    program = """
        import sys, warnings
        sys.modules["numba"] = None
        import numpy as np, anydml
        x = np.arange(10**6)
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            for axis_index in ([-1, 3, 2**40], range(-5, 10**5)):
                picked = anydml.gather(x, np.array(axis_index), out_of_range="clamp")
                assert picked.tolist() == [min(i % 10**6 if i < 0 else i, 10**6 - 1) for i in axis_index]
            y, tensor = np.empty_like(x), anydml.TensorDesc("INT64", x.shape)
            flip = anydml.Slice1OperatorDesc(tensor, tensor, [0], x.shape, [-1])
            anydml.Device().compile_operator(flip).bind([x], [y]).dispatch()
            assert (y == x[::-1]).all()
        print(*(warning.message for warning in said), sep="\\n")
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(program)], capture_output=True, text=True, check=True)
    (line,) = done.stdout.splitlines()
    assert line.startswith("no kernel can be compiled here, so NumPy does the work: ")


def test_a_kernel_that_cannot_be_kept(never_warned, monkeypatch):
    """A full disk, or a folder that cannot be written: the kernel is compiled all the same."""

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(kept, "read", lambda name: None)
    for step in ("mkstemp", "TemporaryFile"):
        monkeypatch.setattr(kept.tempfile, step, full)
    monkeypatch.setattr(Path, "write_bytes", full)
    load = getattr(lookup.rows_kernel, "__wrapped__", lookup.rows_kernel)
    assert load(-64).entry
    monkeypatch.setattr(kept, "writable", lambda: Path("anywhere"))
    assert load(-64).entry


def test_a_compiler_that_is_switched_off():
    program = """
        import warnings, faulthandler
        faulthandler.dump_traceback_later(60, exit=True)
        import numpy as np, anydml
        x = np.arange(4 * 10**6)
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            y, tensor = np.empty_like(x), anydml.TensorDesc("INT64", x.shape)
            flip = anydml.Slice1OperatorDesc(tensor, tensor, [0], x.shape, [-1])
            for _ in range(3):
                anydml.Device().compile_operator(flip).bind([x], [y]).dispatch()
                assert (y == x[::-1]).all()
        print(*(warning.message for warning in said), sep="\\n")
    """
    environment = {**os.environ, "NUMBA_DISABLE_JIT": "1", "ANYDML_NUM_THREADS": "3"}
    command = [sys.executable, "-c", textwrap.dedent(program)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    said = "no kernel can be compiled here, so NumPy does the work: RuntimeError: NUMBA_DISABLE_JIT is set\n"
    assert done.stdout == said


def test_too_little_memory_to_compile_is_an_error_of_this_call_only(never_warned, monkeypatch):
    monkeypatch.setattr(rows, "rows_kernel", getattr(rows.rows_kernel, "__wrapped__", rows.rows_kernel))

    def full(*_, **__):
        raise MemoryError

    tensor = dml.TensorDesc("UINT32", X.shape)
    desc = dml.JoinOperatorDesc([tensor], tensor, 0)
    with monkeypatch.context() as patch:
        patch.setattr(kept, "read", lambda name: None)
        patch.setattr(compilation, "machine_code", full)
        with pytest.raises(MemoryError):
            dml.Device().compile_operator(desc)
    assert "rows: " in str(dml.Device().compile_operator(desc))
