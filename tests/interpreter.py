"""Triton's interpreter without what it does again for every launch, and what it works out for nobody.

It replaces the functions of Triton's language before a launch and puts them back after it, which takes longer than a
small launch; it lists all of its types whenever it wants the NumPy type of one; it looks for a common type of operands
that have the same, and makes tensors of the numbers in a kernel's source, and types of blocks, again and again; and it
computes whether an integer overflowed even where, without `debug`, it then does not ask.
"""

import contextlib
import dataclasses
import functools
import inspect

from anydml.engines.cuda.available import is_interpreted


class Kept:
    """What a launch puts back: nothing, for the next one needs the same."""

    def restore(self):
        pass


MAX_NUMBERS = 4096
"""Tensors of numbers that are kept, some of them as large as a tile."""


def aligning(align, tensor):
    """What gives two operands one type and shape: at once where they have, and numbers of the source only once."""
    numbers = {}

    @functools.wraps(align)
    def align_quickly(semantic, lhs, rhs, *args, **kwargs):
        if type(lhs) is tensor and lhs.dtype.is_int():
            if type(rhs) is tensor:
                if rhs.type is lhs.type or rhs.type == lhs.type:
                    return lhs, rhs
                if rhs.dtype is lhs.dtype:
                    return semantic.broadcast_impl_value(lhs, rhs)
            elif type(rhs) is int:
                shape = lhs.type.shape if lhs.type.is_block() else ()
                key = rhs, lhs.dtype.name, *shape, None, args, *kwargs.items()
                number = numbers.get(key)
                if number is None:
                    if len(numbers) == MAX_NUMBERS:
                        numbers.clear()
                    number = numbers[key] = align(semantic, lhs, rhs, *args, **kwargs)[1]
                if number.dtype == lhs.dtype:
                    return lhs, number
        return align(semantic, lhs, rhs, *args, **kwargs)

    return align_quickly


def casting(cast):
    """What changes a tensor's type, at once where it has it."""

    @functools.wraps(cast)
    def cast_quickly(semantic, value, kind, *args, **kwargs):
        return value if value.dtype is kind else cast(semantic, value, kind, *args, **kwargs)

    return cast_quickly


def making_blocks(language):
    """What makes types of blocks: each once, and what all tensors of one have in common is noted in it."""
    make, made = language.block_type.__init__, {}

    @functools.wraps(make)
    def make_quickly(self, element_ty, shape):
        is_pointer = type(element_ty) is language.pointer_type
        more = (element_ty.address_space, element_ty.const) if is_pointer else type(element_ty)
        key = element_ty.name, more, *shape
        if key not in made:
            make(self, element_ty, shape)
            made[key] = {**vars(self), "of_tensors": {}}
        self.__dict__.update(made[key])

    return make_quickly


def making_tensors(language):
    """What makes tensors, with no shape worked out where they have none, or others of their type had the same."""
    make = language.tensor.__init__
    like = vars(language.tensor(None, language.int32))

    @functools.wraps(make)
    def make_quickly(self, handle, type):
        if not type.is_block():
            self.__dict__.update(like, handle=handle, type=type, dtype=type.scalar)
            return
        alike = type.__dict__.get("of_tensors")
        if alike:
            self.__dict__.update(alike, handle=handle, type=type)
            return
        make(self, handle, type)
        if alike is not None:
            alike.update(vars(self), handle=None, type=None)

    return make_quickly


def unwrapping(language):
    """What takes constants for their values: most are none."""
    unwrap, constant = language.core._unwrap_if_constexpr, language.constexpr
    plain = {int, bool, language.tensor, language.dtype, language.block_type, language.pointer_type}

    @functools.wraps(unwrap)
    def unwrap_quickly(value):
        kind = type(value)
        return value if kind in plain else value.value if kind is constant else unwrap(value)

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
    options, scopes = builder.options, {}
    patch_one = interpreter._patch_attr
    type_of_one = functools.cache(numpy_type)

    def patch_once(fn):
        seen = frozenset(id(x) for x in fn.__globals__.values() if inspect.ismodule(x) and is_language(x))
        if seen not in scopes:
            scopes[seen] = patch(fn)
        return Kept()

    def patch_inner(owner, name, member, *args):
        # What is around a member only looks whether it is called by the interpreter.
        patch_one(owner, name, getattr(member, "__wrapped__", member), *args)

    def is_language(module):
        return module in (language, language.core)

    def type_of(kind):
        return numpy_type(kind) if kind.scalar.is_ptr() else type_of_one(kind.scalar)

    semantic = type(getattr(interpreter, "interpreter_semantic", None))
    quicker = [
        (language.block_type, "__init__", making_blocks(language)),
        (language.tensor, "__init__", making_tensors(language)),
        (language.core, "_unwrap_if_constexpr", unwrapping(language)),
        (interpreter, "_patch_lang", patch_once),
        (interpreter, "_patch_attr", patch_inner),
        (interpreter, "_get_np_dtype", type_of),
    ]
    if hasattr(semantic, "binary_op_type_checking_impl"):  # Triton 3.3 has functions instead.
        align = aligning(semantic.binary_op_type_checking_impl, language.tensor)
        quicker += [(semantic, "binary_op_type_checking_impl", align), (semantic, "cast", casting(semantic.cast))]
    if not options.debug:
        quicker.append((builder, "options", dataclasses.replace(options, sanitize_overflow=False)))
    before = [(owner, name, getattr(owner, name)) for owner, name, _ in quicker]
    try:
        for owner, name, new in quicker:
            setattr(owner, name, new)
        yield
    finally:
        for owner, name, old in before:
            setattr(owner, name, old)
        for scope in reversed(scopes.values()):
            if scope is not None:  # Triton 3.3 puts nothing back.
                scope.restore()
