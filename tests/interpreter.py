"""Triton's interpreter without what it does again for every launch, and what it works out for nobody.

It replaces the functions of Triton's language before a launch and puts them back after it, which takes longer than a
small launch; it lists all of its types whenever it wants the NumPy type of one; and it computes whether an integer
overflowed even where, without `debug`, it then does not ask. Coverage would follow each of the hundreds of calls that
one operation takes, of which it measures none: it is stopped while a kernel is interpreted.
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

    interpreter._patch_lang = patch_once
    interpreter._get_np_dtype = type_of
    interpreter.GridExecutor.__call__ = launch_unmeasured
    if not options.debug:
        builder.options = dataclasses.replace(options, sanitize_overflow=False)
    try:
        yield
    finally:
        interpreter._patch_lang, builder.options, interpreter._get_np_dtype = patch, options, numpy_type
        interpreter.GridExecutor.__call__ = launch
        for scope in reversed(scopes.values()):
            if scope is not None:  # Triton 3.3 puts nothing back.
                scope.restore()
