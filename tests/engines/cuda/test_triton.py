"""Says in every run whether the kernels were tested, and on what."""

import pytest


def test_the_kernels_can_run():
    pytest.importorskip("triton", reason="Triton is not installed: the GPU engine is not tested (pip install triton)")
    import anydml as dml
    from anydml.engines.cuda.available import is_interpreted

    operator = dml.Device("cuda").compile_operator(
        dml.SplitOperatorDesc(dml.TensorDesc("FLOAT32", [2]), [dml.TensorDesc("FLOAT32", [2])], 0)
    )
    assert ("Triton's interpreter" in str(operator)) == is_interpreted()
