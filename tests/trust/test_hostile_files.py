"""Files from strangers: each ends soon, in little memory, with what it asks for or one line that says why not."""

import os
import subprocess
import sys

import pytest

from trust.children import environment
from trust.hostile_child import ADDRESS_SPACE, ENVIRONMENT

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="memory is limited in Linux' way")

HANG = 600 + float(os.environ.get("ANYDML_HOSTILE_FILES", "0"))
FILES = int(os.environ.get("ANYDML_HOSTILE_FILES", "150"))
FIRST = int(os.environ.get("ANYDML_HOSTILE_FIRST", "0"))


@pytest.mark.parametrize("kind", ["json", "onnx", "npy", "safetensors", "zarr"])
def test_nothing_but_an_explanation(kind, tmp_path):
    pytest.importorskip({"onnx": "onnx", "zarr": "zarr"}.get(kind, "anydml"))
    command = [sys.executable, "-m", "trust.hostile_child", kind, str(FIRST), str(FILES), str(tmp_path)]
    limited = ["sh", "-c", f'ulimit -v {ADDRESS_SPACE >> 10} && exec "$@"', "sh", *command]
    given = environment(**ENVIRONMENT)
    done = subprocess.run(limited, check=False, env=given, capture_output=True, text=True, timeout=HANG)
    # The last number is the case; -27 is too long, other negative codes are crashes.
    assert done.returncode == 0, f"{done.returncode}\n{done.stderr[-3000:]}"
    codes = dict(map(int, entry.split(":")) for entry in done.stdout.split())
    assert sum(codes.values()) == FILES
    assert min(codes[0], codes[2]) > FILES // 20, "the files are all good, or all bad: too little is tried"
