"""Triton's interpreter without what it does again for every launch, and what it works out for nobody.

It replaces the functions of Triton's language before a launch and puts them back after it, which takes longer than a
small launch; it lists all of its types whenever it wants the NumPy type of one; it looks for a common type of operands
that have the same, and makes tensors of the numbers in a kernel's source again and again; and it computes whether an
integer overflowed even where, without `debug`, it then does not ask. Coverage would follow each of the hundreds of
calls that one operation takes, of which it measures none: it is stopped while a kernel is interpreted.
"""

import contextlib
import dataclasses
import functools
import inspect

try:
    from measured import unmeasured
except ModuleNotFoundError:
    # `python -m tests.fuzz` has the root on its path, not this folder.
    from .measured import unmeasured

from anydml.engines.cuda.available import is_interpreted


class Kept:
    """What a launch puts back: nothing, for the next one needs the same."""

    def restore(self):
        pass


def aligning(align, tensor):
    """What gives two operands one type and shape: at once where they have, and numbers of the source only once."""
    numbers = {}

    @functools.wraps(align)
    def align_quickly(semantic, lhs, rhs, *args, **kwargs):
        if type(lhs) is tensor and lhs.dtype.is_int():
            if type(rhs) is tensor:
                if rhs.type is lhs.type or rhs.type == lhs.type:
                    return lhs, rhs
            elif type(rhs) is int and not lhs.type.is_block():
                key = rhs, lhs.dtype.name, args, *kwargs.items()
                if key not in numbers:
                    numbers[key] = align(semantic, lhs, rhs, *args, **kwargs)[1]
                if numbers[key].dtype == lhs.dtype:
                    return lhs, numbers[key]
        return align(semantic, lhs, rhs, *args, **kwargs)

    return align_quickly


def making_scalars(language):
    """What makes tensors, with no shape worked out where they have none."""
    make = language.tensor.__init__
    like = vars(language.tensor(None, language.int32))

    @functools.wraps(make)
    def make_quickly(self, handle, type):
        if type.is_block():
            make(self, handle, type)
        else:
            self.__dict__.update(like, handle=handle, type=type, dtype=type.scalar)

    return make_quickly


def unwrapping(language):
    """What takes constants for their values: most are none."""
    unwrap = language.core._unwrap_if_constexpr
    plain = {int, language.tensor, language.dtype, language.block_type, language.pointer_type}

    @functools.wraps(unwrap)
    def unwrap_quickly(value):
        return value if type(value) in plain else unwrap(value)

    return unwrap_quickly


@contextlib.contextmanager
def patched_once():
    """Within this, the interpreter patches the language once; without the interpreter, this does nothing."""
    if not is_interpreted():
        yield
        return
    from triton import language
    from triton.runtime import interpreter

    patch, builder, numpy_type = interpreter._patch_lang, interpreter.interpreter_builder, interpreter._get_np_dtype
    options, scopes, launch = builder.options, {}, interpreter.GridExecutor.__call__
    type_of_one = functools.cache(numpy_type)

    def patch_once(fn):
        seen = frozenset(id(x) for x in fn.__globals__.values() if inspect.ismodule(x) and is_language(x))
        if seen not in scopes:
            scopes[seen] = patch(fn)
        return Kept()

    def is_language(module):
        return module in (language, language.core)

    def type_of(kind):
        return numpy_type(kind) if kind.scalar.is_ptr() else type_of_one(kind.scalar)

    @functools.wraps(launch)
    def launch_unmeasured(executor, *args, **kwargs):
        with unmeasured():
            return launch(executor, *args, **kwargs)

    semantic = type(getattr(interpreter, "interpreter_semantic", None))
    align, make = getattr(semantic, "binary_op_type_checking_impl", None), language.core.tensor.__init__
    unwrap = language.core._unwrap_if_constexpr
    interpreter._patch_lang = patch_once
    interpreter._get_np_dtype = type_of
    interpreter.GridExecutor.__call__ = launch_unmeasured
    language.core.tensor.__init__ = making_scalars(language)
    language.core._unwrap_if_constexpr = unwrapping(language)
    if align is not None:  # Triton 3.3 has functions instead.
        semantic.binary_op_type_checking_impl = aligning(align, language.tensor)
    if not options.debug:
        builder.options = dataclasses.replace(options, sanitize_overflow=False)
    try:
        yield
    finally:
        interpreter._patch_lang, builder.options, interpreter._get_np_dtype = patch, options, numpy_type
        interpreter.GridExecutor.__call__ = launch
        language.core.tensor.__init__, language.core._unwrap_if_constexpr = make, unwrap
        if align is not None:
            semantic.binary_op_type_checking_impl = align
        for scope in reversed(scopes.values()):
            if scope is not None:  # Triton 3.3 puts nothing back.
                scope.restore()
