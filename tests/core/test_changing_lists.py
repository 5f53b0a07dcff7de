"""Lists that change while a call runs: what is read is held, in compiled code and in Python's."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
WAYS = {
    "compiled": "changing_lists.main({seed}, 60)",
    "in Python": "with call_ways.in_python():\n    changing_lists.main({seed}, 60)",
}


@pytest.mark.parametrize("way", WAYS)
def test_what_is_read_is_held(way):
    code = "import call_ways, changing_lists\n" + WAYS[way].format(seed=1)
    path = os.pathsep.join([str(HERE), str(HERE.parent), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        [sys.executable, "-X", "faulthandler", "-W", "ignore", "-c", code],
        env=os.environ | {"PYTHONPATH": path},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    kept, changed = map(int, done.stdout.split())
    assert kept > changed > 0
