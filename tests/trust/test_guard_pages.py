"""No kernel reads or writes a byte outside its operands, whatever the tail and whatever the indices say."""

import os
import re
import signal
import subprocess
import sys

import pytest
from how_many import how_many

from trust.children import environment
from trust.guard_forks import Forks
from trust.patterns import KERNELS

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="there is no mprotect")

HANG = 900


@pytest.fixture(scope="module")
def forks():
    with Forks() as forks:
        yield forks


@pytest.fixture
def child(forks, tmp_path):
    """Runs all patterns of a kernel in a process of its own: how that ended, what it printed, and where it was."""

    def run(kernel, *options):
        printed, report = tmp_path / "printed", tmp_path / "report"
        every = ["--every"] if "ANYDML_EVERY_PATTERN" in os.environ else []
        code = forks.run(printed, kernel, str(report), *options, *every)
        return code, printed.read_text(), report.read_text().strip()

    return run


@pytest.mark.parametrize("kernel", KERNELS)
def test_nothing_outside_is_touched(kernel, child):
    code, printed, report = child(kernel)
    assert code == 0, f"{report}\n{printed}"
    assert int(printed) > 1000


@pytest.mark.parametrize("kernel", KERNELS)
def test_a_kernel_that_goes_too_far_is_caught(kernel, child, request, tmp_path):
    # What is kept there from run to run need not be compiled again.
    cache = getattr(request.config, "cache", None)
    folder = cache.mkdir("kernels that go too far") if cache else tmp_path
    code, printed, report = child(kernel, "--break", str(folder))
    assert code in {-signal.SIGSEGV, -signal.SIGBUS}, f"{report}\n{printed}"


def test_fused_programs_touch_nothing_outside(tmp_path):
    count, report = how_many(12), tmp_path / "report"
    command = [sys.executable, "-m", "fuzz.fused", "--cases", str(count), "--report", str(report)]
    done = subprocess.run(command, check=False, env=environment(), capture_output=True, text=True, timeout=HANG)
    assert done.returncode == 0, f"{report.read_text().strip()}\n{done.stderr}"
    assert int(re.search(r"in (\d+) ways", done.stdout)[1]) >= 0.9 * 8 * count
