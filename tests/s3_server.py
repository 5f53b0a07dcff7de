"""An S3 server on the loopback, and the environment by which obstore finds it."""

import contextlib
import os
import subprocess
import sys
from pathlib import Path

import pytest

CHILD = Path(__file__).parent / "stores/s3_child.py"


@contextlib.contextmanager
def s3_server():
    """The process of the server, whose bucket is empty; the test is skipped where moto is not installed."""
    pytest.importorskip("moto.server", reason='moto is not installed: pip install "moto[s3]" flask flask-cors')
    with subprocess.Popen([sys.executable, CHILD], stdin=-1, stdout=-1, text=True) as child:
        port = child.stdout.readline().strip()
        named = {
            "AWS_ACCESS_KEY_ID": "x",
            "AWS_SECRET_ACCESS_KEY": "y",
            "AWS_REGION": "us-east-1",
            "AWS_ENDPOINT_URL": f"http://127.0.0.1:{port}",
            "AWS_ALLOW_HTTP": "true",
        }
        before = dict(os.environ)
        os.environ.update(named)
        try:
            yield child
        finally:
            os.environ.clear()
            os.environ.update(before)
            child.kill()
