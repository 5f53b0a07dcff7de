"""No kernel reads or writes a byte outside its operands, whatever the tail and whatever the indices say."""

import os
import re
import subprocess
import sys

import pytest
from how_many import how_many

from trust.children import environment
from trust.patterns import KERNELS

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="there is no mprotect")

HANG = 900


def child(kernel, report, *options):
    """Run all patterns of a kernel in a process of its own."""
    command = [sys.executable, "-m", "trust.guard_child", kernel, str(report), *options]
    if "ANYDML_EVERY_PATTERN" in os.environ:
        command.append("--every")
    return subprocess.run(command, check=False, env=environment(), capture_output=True, text=True, timeout=HANG)


@pytest.mark.parametrize("kernel", KERNELS)
def test_nothing_outside_is_touched(kernel, tmp_path):
    done = child(kernel, tmp_path / "report")
    assert done.returncode == 0, f"{(tmp_path / 'report').read_text().strip()}\n{done.stderr}"
    assert int(done.stdout) > 1000


@pytest.mark.parametrize("kernel", KERNELS)
def test_a_kernel_that_goes_too_far_is_caught(kernel, tmp_path):
    done = child(kernel, tmp_path / "report", "--break")
    killed = {-11, -7}  # SIGSEGV, and SIGBUS where the system calls it that
    assert done.returncode in killed, f"{(tmp_path / 'report').read_text().strip()}\n{done.stderr}"


def test_fused_programs_touch_nothing_outside(tmp_path):
    count, report = how_many(12), tmp_path / "report"
    command = [sys.executable, "-m", "fuzz.fused", "--cases", str(count), "--report", str(report)]
    done = subprocess.run(command, check=False, env=environment(), capture_output=True, text=True, timeout=HANG)
    assert done.returncode == 0, f"{report.read_text().strip()}\n{done.stderr}"
    assert int(re.search(r"in (\d+) ways", done.stdout)[1]) >= 0.9 * 8 * count
