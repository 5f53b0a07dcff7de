"""Several processes, one empty cache: each kernel is compiled by one of them, and nobody waits for nothing."""

import signal
import subprocess
import sys

import pytest
from trust.children import environment

from anydml.engines.cpu.kernels import one_process as turns
from anydml.engines.cpu.kernels.one_process import one_process

COMPILE = """
import sys

from anydml.engines.cpu.kernels.driver import compiled

def twice(table, counter, chunks):
    return table + table

def thrice(table, counter, chunks):
    return table + table + table

print(compiled(twice)(21, 0, 0), "numba" in sys.modules)
if "numba" not in sys.modules:
    assert compiled(thrice)(14, 0, 0) == 42
"""
"""It prints whether a compiler was needed; who needed none then needs one."""

HOLD = """
import pathlib, sys
from anydml.engines.cpu.kernels.one_process import one_process

with one_process(pathlib.Path(sys.argv[1]), "kernel"):
    print("held", flush=True)
    sys.stdin.read()
"""


def process(*command, **given):
    return subprocess.Popen(
        [sys.executable, *command], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment(**given)
    )


def test_one_of_many_compiles(tmp_path):
    (tmp_path / "kernel.py").write_text(COMPILE)
    # Two suffice: where nobody waits, both begin to compile long before one has ended.
    processes = [process(str(tmp_path / "kernel.py"), NUMBA_CACHE_DIR=str(tmp_path)) for _ in range(2)]
    said = sorted(each.communicate()[0].split() for each in processes)
    assert said == [["42", "False"], ["42", "True"]]
    assert [each.returncode for each in processes] == [0, 0]
    assert not list(tmp_path.rglob("*.lock"))


@pytest.fixture
def holder(tmp_path):
    """Another process that compiles and compiles."""
    with process("-c", HOLD, str(tmp_path)) as holder:
        assert holder.stdout.readline() == "held\n"
        yield holder
        holder.kill()


def test_what_a_killed_process_began_is_done_by_the_next(tmp_path, holder):
    holder.send_signal(getattr(signal, "SIGKILL", signal.SIGTERM))
    with one_process(tmp_path, "kernel"):
        assert holder.wait() != 0


def test_nobody_waits_for_ever(tmp_path, holder, monkeypatch):
    monkeypatch.setattr(turns, "PATIENCE", 0.05)
    with one_process(tmp_path, "kernel"):
        assert holder.poll() is None


def test_what_is_not_kept_is_not_waited_for(tmp_path, holder, monkeypatch):
    monkeypatch.setattr(turns, "_wait", lambda file: pytest.fail("it waits"))
    for folder, name in ((tmp_path, None), (None, "kernel")):
        with one_process(folder, name):
            assert holder.poll() is None


def test_a_folder_that_cannot_be_written(tmp_path):
    (tmp_path / "file").touch()
    with one_process(tmp_path / "file" / "folder", "kernel"):
        pass


def test_errors_are_the_compilers(tmp_path):
    with pytest.raises(PermissionError, match="no disk"), one_process(tmp_path, "kernel"):
        raise PermissionError("no disk")
