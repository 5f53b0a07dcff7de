"""A disk that is full, a limit that is reached, a process that is killed: a file is whole, or is what it was."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
import textwrap

import numpy as np
import pytest

from trust.children import environment

linux = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="done in Linux' way")
COUNT = 300_000


@pytest.fixture
def folder(tmp_path):
    """A folder with a model that writes 300,000 bytes over two files."""
    resources = {"A": {"initialValuesDataType": "UINT8", "initialValues": {"valueCount": COUNT, "value": 1}}}
    commands = [{"type": "writeFile", "resource": "A", "targetPath": name} for name in ("a.bin", "a.npy")]
    fill(tmp_path, {"resources": resources, "dispatchables": {}, "commands": commands})
    return tmp_path


def fill(path, model):
    (path / "m.json").write_text(json.dumps(model))
    for name in ("a.bin", "a.npy"):
        (path / name).write_bytes(b"before")


def run(folder, prelude="", **options):
    """`anydml run m.json` in a process of its own, after some lines of Python."""
    program = textwrap.dedent(prelude) + "\nfrom anydml.cli import main\nmain(['run', 'm.json'])"
    command = [sys.executable, "-c", program]
    return subprocess.run(
        command, env=environment(), cwd=folder, capture_output=True, text=True, check=False, **options
    )


def untouched(folder):
    assert {path.name: path.read_bytes() for path in folder.iterdir() if path.name != "m.json"} == {
        "a.bin": b"before",
        "a.npy": b"before",
    }


def test_what_is_written_where_there_is_room(folder):
    assert run(folder).returncode == 0
    assert (folder / "a.bin").read_bytes() == b"\1" * COUNT
    assert np.load(folder / "a.npy").tolist() == [1] * COUNT


@linux
def test_a_file_that_may_not_grow(folder):
    prelude = """
        import resource, signal
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
    """
    done = run(folder, prelude)
    assert (done.returncode, done.stdout.count("written")) == (2, 0)
    assert done.stderr.startswith("anydml: m.json: line 1: commands[0].targetPath: ")
    assert done.stderr.endswith(" cannot be written: File too large\n")
    untouched(folder)


@linux
def test_a_full_disk(folder, tmp_path):
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = subprocess.run(
        [shutil.which("mount") or "mount", "-t", "tmpfs", "-o", "size=64k", "none", str(disk)],
        check=False,
        capture_output=True,
    )
    if mounted.returncode:
        pytest.skip("nothing may be mounted here")
    try:
        fill(disk, json.loads((folder / "m.json").read_text()))
        done = run(disk)
        assert done.returncode == 2
        assert done.stderr.endswith(" cannot be written: No space left on device\n")
        untouched(disk)
    finally:
        subprocess.run(["umount", str(disk)], check=True)


STOPPED = """
    import os, signal, sys
    from anydml.dxdispatch import runner
    # As from a terminal: a shell starts what runs in the background with interrupts ignored.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    def write_whole(target, write, place, real=runner.write_whole):
        def slowly(file):
            file.write(b"half")
            file.flush()
            {stop}
            write(file)
        real(target, slowly, place)
    runner.write_whole = write_whole
"""


@pytest.mark.parametrize(
    ("stop", "code"),
    [
        ("os.kill(os.getpid(), signal.SIGINT)", 130),
        ("raise MemoryError", 2),
        ("raise OSError(5, 'Input/output error')", 2),
    ],
)
def test_a_write_that_is_stopped_leaves_nothing_behind(stop, code, folder):
    assert run(folder, STOPPED.format(stop=stop)).returncode == code
    untouched(folder)


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="there is no SIGKILL")
def test_a_process_that_is_killed_leaves_the_file_as_it_was(folder):
    done = run(folder, STOPPED.format(stop="os.kill(os.getpid(), signal.SIGKILL)"))
    assert done.returncode == -signal.SIGKILL
    assert (folder / "a.bin").read_bytes() == b"before"
    (left,) = {path.name for path in folder.iterdir()} - {"m.json", "a.bin", "a.npy"}
    assert left.startswith(".")
    assert left.endswith(".part")
