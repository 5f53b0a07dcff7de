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


@pytest.mark.skipif(ON_GPU, reason="nothing is interpreted on a GPU")
def test_types_are_those_of_the_interpreter():
    from triton.runtime import interpreter

    kinds = [*(getattr(tl, name) for name in ("int1", "uint8", "int32", "uint64", "float16", "bfloat16", "float8e5"))]
    kinds += [tl.pointer_type(tl.int8), tl.block_type(tl.int16, [8])]
    kinds += [tl.block_type(tl.pointer_type(tl.int64), [2, 4])]
    expected = [interpreter._get_np_dtype(kind) for kind in kinds]
    with patched_once():
        assert [interpreter._get_np_dtype(kind) for kind in kinds * 2] == expected * 2


@pytest.mark.skipif(ON_GPU, reason="nothing is interpreted on a GPU")
@pytest.mark.parametrize("number", [1, True, -1, 200, 2**40, 1.5])
def test_operands_become_alike_as_the_interpreter_makes_them(number):
    from triton.language.semantic import IncompatibleTypeErrorImpl
    from triton.runtime import interpreter

    semantic = getattr(interpreter, "interpreter_semantic", None)
    if semantic is None:
        pytest.skip("this Triton has functions instead")
    kinds = [getattr(tl, name) for name in ("int1", "int8", "uint32", "int32", "uint64", "float32")]
    kinds.append(tl.pointer_type(tl.int32))

    def tensor(kind, shape):
        data = np.full(shape, 3, interpreter._get_np_dtype(kind))
        return tl.tensor(interpreter.TensorHandle(data, kind), tl.block_type(kind, list(shape)) if shape else kind)

    tensors = [tensor(kind, shape) for kind in kinds for shape in ((), (4,), (2, 4))]

    def shown(value):
        return value.type, value.dtype, value.shape, value.numel, value.handle.dtype, value.handle.data.tolist()

    def alike(*operands, **options):
        try:
            return [shown(value) for value in semantic.binary_op_type_checking_impl(*operands, **options)]
        except (TypeError, ValueError, IncompatibleTypeErrorImpl) as error:
            return str(error)

    def all_of_them():
        pairs = [(x, y) for x in tensors for y in (*tensors, number)] + [(number, x) for x in tensors]
        options = {}, {"allow_lhs_ptr": True, "allow_rhs_ptr": True}, {"arithmetic_check": False}, {"div_or_mod": True}
        return [alike(*pair, **given) for pair in pairs for given in options]

    expected = all_of_them()
    with patched_once():
        assert all_of_them() == expected
        # The second time, numbers have been made tensors.
        assert all_of_them() == expected
