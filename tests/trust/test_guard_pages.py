"""No kernel reads or writes a byte outside its operands, whatever the tail and whatever the indices say."""

import json
import os
import re
import signal
import subprocess
import sys

import pytest
from how_many import how_many

from trust.children import environment
from trust.patterns import GROUPS

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="there is no mprotect")

HANG = 900
KERNELS = {
    "elements": {"elements"},
    "fill": {"repeat"},
    "in_line": {"look-up"},
    "interleave": {"interleave"},
    "lookup": {"look-up"},
    "masked": {"select"},
    "patterned": {"fill"},
    "pixels": {"interleave"},
    "row_blocks": {"rows"},
    "rows": {"rows"},
    "runs": {"runs"},
    "table": {"elements"},
    "transpose": {"transpose"},
}
"""Kernels that a group of patterns is there for."""


@pytest.fixture
def child(tmp_path):
    """Runs all patterns of a group in a process of its own: what it says of its end, and where it was."""

    def run(group, *options):
        report = tmp_path / "report"
        every = ["--every"] if "ANYDML_EVERY_PATTERN" in os.environ else []
        command = [sys.executable, "-m", "trust.guard_child", group, str(report), *options, *every]
        done = subprocess.run(command, check=False, env=environment(), capture_output=True, text=True, timeout=HANG)
        return done, report.read_text().strip()

    return run


@pytest.mark.parametrize("group", GROUPS)
def test_nothing_outside_is_touched(group, child):
    done, report = child(group)
    assert done.returncode == 0, f"{report}\n{done.stderr}"
    count, kernels = json.loads(done.stdout)
    assert count > 200
    assert not kernels or KERNELS[group] <= set(kernels)


def test_a_byte_too_far_is_caught(child):
    done, report = child("rows", "--short")
    assert done.returncode in {-signal.SIGSEGV, -signal.SIGBUS}, f"{report}\n{done.stderr}"


def test_fused_programs_touch_nothing_outside(tmp_path):
    count, report = how_many(12), tmp_path / "report"
    command = [sys.executable, "-m", "fuzz.fused", "--cases", str(count), "--report", str(report)]
    done = subprocess.run(command, check=False, env=environment(), capture_output=True, text=True, timeout=HANG)
    assert done.returncode == 0, f"{report.read_text().strip()}\n{done.stderr}"
    assert int(re.search(r"in (\d+) ways", done.stdout)[1]) >= 0.9 * 8 * count
