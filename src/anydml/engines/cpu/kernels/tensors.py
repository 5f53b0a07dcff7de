"""Tensors of another library, read by the words of `anydml.memory.tensor_struct`: what DLPack says of one, and more.

Only tensors that are nothing else than memory are described: of the plain class and keys, recording no gradients, and
within their storage.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from anydml.engines.cpu.kernels.atomics import call_of_four, call_of_two
from anydml.engines.cpu.kernels.driver import code_of, compiled, word
from anydml.engines.cpu.kernels.ir import load, store
from anydml.engines.cpu.kernels.language import helper, uint64
from anydml.memory import dlpack_struct as dlpack
from anydml.memory import tensor_struct as own

CODE = code_of("atomics.py", "../../../memory/tensor_struct.py"), dlpack.SIZE
"""Part of the names of what is compiled here."""

BYTE, NUMBER = 0xFF, 0xFFFF
"""What counts of C's truth values, and of a dtype's number, in a word."""


@helper
def is_true(answer):
    """What a function of C says by its lowest byte."""
    return answer & uint64(BYTE) != uint64(0)


@helper
def is_within(shape, strides, rank, start, size, held):
    """Whether a tensor that is not empty, whose elements have so many bytes, lies within so many."""
    last = start
    for k in range(rank):
        at = uint64(8) * uint64(k)
        length = load(shape + at)
        if length == uint64(0):
            return False
        last += (length - uint64(1)) * load(strides + at)
    return (last + uint64(1)) * size <= held


@cache
def reader() -> Any:
    """Describe a tensor as DLPack does, by a structure's words: 0 for done, 1 for one that is not plain."""

    def reader(words, tensor, description):
        handle = tensor + word(words, own.HANDLE)
        body = load(handle)
        keys = load(body + word(words, own.KEYS))
        if load(body) != word(words, own.CLASS) or (
            keys != word(words, own.PLAIN) and keys != word(words, own.INFERRING)
        ):
            return uint64(1)
        number = load(body + word(words, own.NUMBER)) & uint64(NUMBER)
        kind = word(words, uint64(own.FIRST_DTYPE) + number) if number < uint64(own.DTYPES) else uint64(0)
        if kind == uint64(0):
            return uint64(1)
        zero = uint64(0)
        if is_true(call_of_four(word(words, own.RECORDS), body, zero, zero, zero)) and is_true(
            call_of_four(word(words, own.IS_RECORDING), zero, zero, zero, zero)
        ):
            return uint64(1)
        rank = load(body + word(words, own.RANK))
        shape = body + word(words, own.SIZES)
        strides = shape + uint64(8 * own.IN_LINE)
        if rank > uint64(own.IN_LINE):
            shape = load(shape)
            strides = shape + uint64(8) * rank
        held = load(load(body + word(words, own.STORAGE)) + word(words, own.HELD))
        size = (kind >> uint64(40) & uint64(BYTE)) >> uint64(3)
        if not is_within(shape, strides, rank, load(body + word(words, own.START)), size, held):
            return uint64(1)
        if call_of_two(word(words, own.ADDRESS), handle, description + uint64(dlpack.DATA)) != 0:
            return uint64(1)
        store(description + uint64(dlpack.DEVICE), uint64(dlpack.HOST))
        store(description + uint64(dlpack.DIMENSIONS), kind | rank)
        store(description + uint64(dlpack.SHAPE), shape)
        store(description + uint64(dlpack.STRIDES), strides)
        store(description + uint64(dlpack.OFFSET), zero)
        return zero

    return compiled(reader, *CODE, nogil=False)


@helper
def are_new_ones_plain(words):
    """Whether nothing sees to it now that new tensors become others."""
    zero = uint64(0)
    modes = call_of_four(word(words, own.MODES), zero, zero, zero, zero)
    modes |= call_of_four(word(words, own.MORE_MODES), zero, zero, zero, zero)
    for key in range(own.TRANSFORM, own.FUNCTIONAL + 1):
        modes |= call_of_four(word(words, own.IS_UNDER), word(words, uint64(key)), zero, zero, zero) & uint64(BYTE)
    return modes == zero


@helper
def is_recorded(words):
    """Whether calls are recorded now."""
    zero = uint64(0)
    return is_true(call_of_four(word(words, own.IS_UNDER), word(words, own.TRACER), zero, zero, zero))


@helper
def say_written(words, tensor):
    """Tell a library that a tensor was written, as its own writes do."""
    handle = tensor + word(words, own.HANDLE)
    if load(load(handle) + word(words, own.KEYS)) == word(words, own.PLAIN):
        call_of_four(word(words, own.CHANGED), handle, uint64(0), uint64(0), uint64(0))
