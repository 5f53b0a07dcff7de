"""Without the compiled core the work is done all the same, by NumPy, and nothing is said about it."""

import subprocess
import sys
import textwrap

import pytest

from trust.children import environment

MODULES = ["moving", "pool", "fusing", "views"]
"""Each of which may be the one that this Python or NumPy does not load."""


@pytest.mark.parametrize("missing", [MODULES, *([name] for name in MODULES)], ids="-".join)
def test_a_core_that_cannot_be_imported(missing):
    program = f"""
        import sys, threading
        for name in {missing}:
            sys.modules["anydml.core." + name] = None
        import numpy as np, anydml as dml
        x = np.arange(10**6)
        for indices in ([-1, 3, 2**40], range(-5, 10**5)):
            picked = dml.gather(x, np.array(indices), out_of_range="clamp")
            assert picked.tolist() == [min(i % 10**6 if i < 0 else i, 10**6 - 1) for i in indices]
        y, tensor = np.empty_like(x), dml.TensorDesc("INT64", x.shape)
        flip = dml.Device().compile_operator(dml.Slice1OperatorDesc(tensor, tensor, [0], x.shape, [-1]))
        flip.bind([x], [y]).dispatch()
        assert (y == x[::-1]).all()
        fused = dml.fuse(lambda x: (x[::-1], x[:4], {{"found": np.take(x, [1, 2])}}))
        for _ in range(3):
            back, first, rest = fused(x)
            assert (back == y).all() and first.tolist() == [0, 1, 2, 3] and rest["found"].tolist() == [1, 2]
        out = np.empty_like(x), np.empty(4, x.dtype), {{"found": np.empty(2, x.dtype)}}
        assert fused(x, out=out) is out and (out[0] == y).all()
        assert dml.nonzero_coordinates(x[:5]).ravel().tolist() == [1, 2, 3, 4]
        dml.set_num_threads(2)
        assert dml.get_num_threads() == 2
        print("well", str(flip).splitlines()[1])
    """
    command = [sys.executable, "-W", "error", "-c", textwrap.dedent(program)]
    done = subprocess.run(command, env=environment(), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("well")
    if missing == MODULES:
        assert done.stdout == "well   by NumPy: there is no compiled code for it here\n"
