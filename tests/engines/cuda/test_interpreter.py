"""What tests leave out of Triton's interpreter: the language is patched once, and afterwards it is as it was."""

import cuda_calls
import numpy as np
import pytest
import triton.language as tl
from cuda_memory import ON_GPU, get, needs_functions, put
from interpreter import patched_once

from anydml.memory.device_array import as_array


@pytest.fixture(scope="module", autouse=True)
def interpreter():
    """Other files' launches are within `patched_once`; here the tests say which."""


def reverse(x):
    return get(cuda_calls.slice_(as_array(put(x)), (x.size - 1,), (x.size,), (-1,), None))


@pytest.mark.skipif(ON_GPU, reason="nothing is interpreted on a GPU")
@needs_functions
def test_many_launches_patch_the_language_once(monkeypatch):
    from triton.runtime import interpreter

    patch, patched = interpreter._patch_lang, []

    def counted(fn):
        patched.append(fn)
        return patch(fn)

    monkeypatch.setattr(interpreter, "_patch_lang", counted)
    language, core, options = dict(vars(tl)), dict(vars(tl.core)), interpreter.interpreter_builder.options
    x = np.arange(20, dtype=np.int32)
    with patched_once():
        assert all(reverse(x).tolist() == x[::-1].tolist() for _ in range(3))
        assert len(patched) == 1
        assert vars(tl) != language
    assert vars(tl) == language
    assert vars(tl.core) == core
    assert interpreter.interpreter_builder.options is options
    assert reverse(x).tolist() == x[::-1].tolist()
    assert len(patched) == 2
