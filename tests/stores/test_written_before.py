"""A command whose output is in place already, whole and unchanged, says so, and ends with 0."""

import os
import subprocess
import sys
import time

import numpy as np
import pytest
from stores.test_opening import written

from anydml import stores
from anydml.cli import main
from anydml.errors import ModelError
from anydml.stores.planning import identities

KINDS = {
    "npy": ["rechunk", "x.npy", "y.npy", "--flip", "0"],
    "zarr": ["rechunk", "x.npy", "y.zarr", "--chunks", "3,2"],
    "safetensors": ["reshard", "x.safetensors", "y.safetensors"],
    "folder": ["reshard", "x.safetensors", "y", "--shard-size", "50"],
}

SAID = "is complete: this command wrote it before, and nothing has changed since"

KILLED = """
import os, signal, sys
from pathlib import Path
from anydml.cli import main
from anydml.stores.running import journal
from anydml.stores.running import staging

def killed(*_):
    os.kill(os.getpid(), signal.SIGKILL)

moment, arguments = sys.argv[1], sys.argv[2:]
close, finish = journal.Journal.close, staging.Staging.finish
if moment == "in place":
    staging.Staging.finish = lambda self, digest: (finish(self, digest), killed())
elif moment == "journal":
    journal.Journal.close = lambda self, is_over: (close(self, is_over), killed())
elif moment == "said":
    sys.exit = killed
main(arguments)
"""


@pytest.fixture(params=KINDS)
def command(request, tmp_path, monkeypatch):
    """A command of each kind, where the file system says who has written something."""
    if request.param == "zarr":
        pytest.importorskip("zarr", reason='zarr-python is not installed: pip install "anydml[stores]"')
    monkeypatch.chdir(tmp_path)
    np.save("x.npy", np.arange(42, dtype=np.float32).reshape(7, 6))
    written(tmp_path / "x.safetensors", {f"w.{k}": np.arange(k, k + 12, dtype=np.int32) for k in range(3)})
    try:
        os.setxattr("x.npy", "user.anydml.test", b"kept")
    except (AttributeError, OSError):
        pytest.skip("the file system keeps no attributes of files")
    return KINDS[request.param]


def run(capsys, *arguments):
    with pytest.raises(SystemExit) as ended:
        main([*arguments])
    said = capsys.readouterr()
    return ended.value.code or 0, said.out, said.err


def states():
    """When all files were written, and their contents."""
    found = {}
    for folder, _, names in os.walk("."):
        for name in names:
            path = os.path.join(folder, name)
            with open(path, "rb") as file:
                found[path] = os.stat(path).st_mtime_ns, os.stat(path).st_ino, file.read()
    return found


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="processes are killed")
@pytest.mark.parametrize("moment", ["in place", "journal", "said"])
def test_killed_when_its_output_is_in_place(command, capsys, moment):
    child = [sys.executable, "-c", KILLED, moment, *command]
    assert subprocess.run(child, capture_output=True, timeout=600, check=False).returncode == -9
    before = states()
    assert os.path.exists(command[2])
    code, out, err = run(capsys, *command)
    assert (code, err) == (0, "")
    assert (SAID in out) == (moment != "in place")
    # The journal, where there still was one, is gone.
    after = states()
    assert after == {path: state for path, state in before.items() if "journal" not in path}
    assert run(capsys, *command)[1].count(SAID) == 1


def test_what_has_changed_since_is_no_more_its_own(command, capsys):
    assert run(capsys, *command, "-q") == (0, "", "")
    before = states()
    assert run(capsys, *command, "-q") == (0, "", "")
    assert states() == before
    # Another command refuses, as ever.
    code, _, err = run(capsys, *command, *(["--slice", "::-1"] if command[0] == "rechunk" else ["--memory", "5kB"]))
    assert (code, "exists already" in err) == (2, True)
    assert states() == before
    # To replace it is to write it again.
    assert run(capsys, *command, "-q", "--overwrite") == (0, "", "")
    assert states() != before
    assert {path: content for path, (*_, content) in states().items()} == {
        path: content for path, (*_, content) in before.items()
    }
    # Whoever changes an output, or an input, has others, also where the time of modification is put back.
    for number in range(len([path for path in states() if path.startswith(f"./{command[2]}")])):
        assert run(capsys, *command, "-q", "--overwrite") == (0, "", "")
        assert SAID in run(capsys, *command)[1]
        path = sorted(path for path in states() if path.startswith(f"./{command[2]}"))[number]
        modified = os.stat(path).st_mtime_ns
        if os.path.isfile(command[2]):
            time.sleep(identities.MARKING / 1e9 + 0.1)
        for put in (modified + 1000, modified):
            os.utime(path, ns=(modified, put))
            code, _, err = run(capsys, *command)
            assert (code, "exists already" in err) == (2, True)
    assert run(capsys, *command, "-q", "--overwrite") == (0, "", "")
    os.utime(command[1])
    code, _, err = run(capsys, *command)
    assert (code, "exists already" in err) == (2, True)


def test_a_copy_is_not_its_own(command, capsys):
    assert run(capsys, *command, "-q") == (0, "", "")
    subprocess.run(["cp", "-a", command[2], "copy"], check=True)
    subprocess.run(["rm", "-r", command[2]], check=True)
    os.rename("copy", command[2])
    code, _, err = run(capsys, *command)
    assert (code, "exists already" in err) == (2, True)


def test_plans_say_it_too(command):
    if command[0] != "reshard":
        pytest.skip("one kind is enough")
    plan = stores.reshard([command[1]], command[2], shard_size="50")
    plan.run()
    assert not plan.already_complete
    again = stores.reshard([command[1]], command[2], shard_size="50")
    again.run()
    assert again.already_complete
    with pytest.raises(ModelError, match="exists already"):
        stores.reshard([command[1]], command[2], shard_size="50", memory="5kB").run()


def test_file_systems_without_attributes_refuse_as_ever(command, capsys, monkeypatch):
    def refused(*_):
        raise OSError(95, "Operation not supported")

    monkeypatch.setattr(os, "setxattr", refused)
    assert run(capsys, *command, "-q") == (0, "", "")
    code, _, err = run(capsys, *command)
    assert (code, "exists already" in err) == (2, True)
