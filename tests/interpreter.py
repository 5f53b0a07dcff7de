"""Triton's interpreter without what it does again for every launch, and what it works out for nobody.

It replaces the functions of Triton's language before a launch and puts them back after it, which takes longer than a
small launch; and it computes whether an integer overflowed even where, without `debug`, it then does not ask.
"""

import contextlib
import dataclasses
import inspect

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

    patch, builder = interpreter._patch_lang, interpreter.interpreter_builder
    options, scopes = builder.options, {}

    def patch_once(fn):
        seen = frozenset(id(x) for x in fn.__globals__.values() if inspect.ismodule(x) and is_language(x))
        if seen not in scopes:
            scopes[seen] = patch(fn)
        return Kept()

    def is_language(module):
        return module in (language, language.core)

    interpreter._patch_lang = patch_once
    if not options.debug:
        builder.options = dataclasses.replace(options, sanitize_overflow=False)
    try:
        yield
    finally:
        interpreter._patch_lang, builder.options = patch, options
        for scope in reversed(scopes.values()):
            if scope is not None:  # Triton 3.3 puts nothing back.
                scope.restore()
