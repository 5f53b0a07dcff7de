"""Arrays that compiled code does not read itself: everything is done all the same."""

import subprocess
import sys

from anydml.memory import numpy_struct

WITHOUT_GIL = """
import sys
sys._is_gil_enabled = lambda: False
import numpy as np
import anydml as dml
from anydml.memory import numpy_struct
assert not numpy_struct.IS_KNOWN
for shape in ((3, 4), (600, 1000)):
    x = np.arange(shape[0] * shape[1], dtype=np.int32).reshape(shape)
    out = np.zeros_like(x)
    kind = dml.TensorDesc(dml.DataType.INT32, shape)
    device = dml.Device()
    bound = device.compile_operator(dml.ElementWiseIdentityOperatorDesc(kind, kind)).bind([x], [out])
    for _ in range(100):
        assert (dml.permute_dims(x, (1, 0)) == x.T).all()
        assert all(map(np.array_equal, dml.split(x, 2, 1), np.split(x, 2, 1)))
        out[:] = 0
        assert dml.gather(x, [2, 0, 1] + [2] * (len(x) - 3), 0, out=out) is out
        assert (out[:3] == x[[2, 0, 1]]).all()
        bound.dispatch()
        assert (out == x).all()
out.flags.writeable = False
try:
    bound.dispatch()
except dml.BindingError as error:
    print(error)
"""


def test_without_a_gil_nobody_reads_arrays_in_compiled_code():
    command = [sys.executable, "-X", "faulthandler", "-c", WITHOUT_GIL]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=600)
    assert (done.returncode, done.stderr) == (0, "")
    assert "read-only" in done.stdout


def test_a_gil_that_is_there_changes_nothing(monkeypatch):
    monkeypatch.setattr(sys, "_is_gil_enabled", lambda: True, raising=False)
    assert numpy_struct._is_known() or sys.implementation.name != "cpython"
    monkeypatch.setattr(sys, "_is_gil_enabled", lambda: False, raising=False)
    assert not numpy_struct._is_known()
