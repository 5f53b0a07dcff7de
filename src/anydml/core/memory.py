# cython: freethreading_compatible=True
"""New arrays. Large ones reuse blocks of released memory: the first touch of pages costs more than most moves.

Arrays own their memory as usual: NumPy allocates and releases it through a handler (NEP 49). Released blocks of one
size class are cached in a list, a stack whose top block may still be in the processor's caches.

Arrays may be freed on any thread, so one mutex guards the lists. While it is held, no Python code runs and no memory
is allocated or freed, so that neither garbage collection nor signal handlers interfere; a fork waits for it. A thread
without Python state returns blocks that have not been used for long to the system, and exits when none are left.
"""

import cython
import numpy as np
from cython.cimports.anydml.core import pages
from cython.cimports.anydml.core.pool import now, start
from cython.cimports.cpython.pycapsule import PyCapsule_New
from cython.cimports.cpython.ref import Py_INCREF
from cython.cimports.libc.string import memcpy, memset, strcpy
from cython.cimports.numpy import PyDataMem_Handler, PyDataMem_SetHandler

MIN_SIZE = cython.declare(cython.size_t, 256 << 10)
"""Bytes of the smallest array that uses a block."""

MAX_AGE = cython.declare(int64_t, 5_000_000_000)
"""Nanoseconds for which a block is cached before it is returned to the system."""

TRIM_INTERVAL = cython.declare(int64_t, 1_000_000_000)
"""Nanoseconds between two checks for blocks older than `MAX_AGE`."""

cache = cython.declare(Cache)
handler = cython.declare(PyDataMem_Handler)


def size_class(size):
    """Return the size class of a block of `size` bytes, at least `MIN_SIZE`; there are eight per power of two."""
    exponent: cython.int = 64 - leading_zeros(size - 1)
    step: cython.size_t = cython.cast(cython.size_t, 1) << (exponent - 4)
    return (exponent - 18) * 8 + cython.cast(cython.int, (size + step - 1) // step) - 9


def class_size(number):
    """Return the size in bytes of the blocks of a size class."""
    return cython.cast(cython.size_t, 9 + number % 8) << (14 + number // 8)


def move_block(first, to):
    """Move the first block of a nonempty list of the cache to another list. The caller holds the mutex."""
    block: cython.pointer(Block) = first[0]
    first[0] = block.next
    block.next = to[0]
    to[0] = block
    cache.bytes -= block.size


def trim(is_all, before):
    """Return all blocks to the system, or those beyond the limit and those released earlier than `before`.

    The sizes that were released least recently go first.
    """
    surplus: cython.pointer(Block) = cython.NULL
    following: cython.pointer(Block)
    first: cython.pointer(cython.pointer(Block))
    oldest: cython.pointer(cython.pointer(Block))
    pages.lock()
    while cache.bytes > (0 if is_all else cache.limit):
        oldest = cython.NULL
        for k in range(SIZE_CLASSES):
            first = cache.free_lists + k
            if first[0] and (not oldest or first[0].released_at < oldest[0].released_at):
                oldest = first
        move_block(oldest, cython.address(surplus))
    for k in range(SIZE_CLASSES if before else 0):
        first = cache.free_lists + k
        while first[0] and first[0].released_at >= before:
            first = cython.address(first[0].next)
        while first[0]:
            move_block(first, cython.address(surplus))
    pages.unlock()
    while surplus:
        following = surplus.next
        pages.unmap_pages(cython.cast(cython.p_char, surplus + 1), surplus.size)
        surplus = following


def trim_periodically(unused):
    """Return blocks that have not been used for long to the system, until none are left."""
    goes_on: cython.bint = True
    while goes_on:
        pages.sleep(TRIM_INTERVAL)
        trim(False, now() - MAX_AGE)
        pages.lock()
        cache.has_trimmer = goes_on = cache.bytes > 0
        pages.unlock()
    return cython.NULL


def allocate(unused, size):
    """Return a cached block or a new one, of at least `MIN_SIZE` bytes, since arrays may shrink later."""
    if size > pages.MAX_SIZE:
        return cython.NULL
    number: cython.int = size_class(max(size, MIN_SIZE))
    block: cython.pointer(Block) = cython.NULL
    pages.lock()
    if cache.free_lists[number]:
        move_block(cache.free_lists + number, cython.address(block))
    pages.unlock()
    if block:
        return block + 1
    mapped: cython.p_char = pages.map_pages(class_size(number))
    if not mapped:
        trim(True, 0)
        mapped = pages.map_pages(class_size(number))
    if mapped:
        block = cython.cast(cython.pointer(Block), mapped) - 1
        block.size = class_size(number)
        block.size_class = number
    return mapped


def allocate_zeros(unused, count, size):
    """Like calloc."""
    if size and count > pages.MAX_SIZE // size:
        return cython.NULL
    memory: cython.p_void = allocate(unused, count * size)
    if memory:
        memset(memory, 0, count * size)
    return memory


def reallocate(unused, bytes_, size):
    """Like realloc."""
    if not bytes_:
        return allocate(unused, size)
    block: cython.pointer(Block) = cython.cast(cython.pointer(Block), bytes_) - 1
    if size <= pages.MAX_SIZE and size_class(max(size, MIN_SIZE)) == block.size_class:
        return bytes_
    memory: cython.p_void = allocate(unused, size)
    if memory:
        memcpy(memory, bytes_, min(size, block.size))
        release(unused, bytes_, 0)
    return memory


def release(unused, bytes_, size):
    """Like free. The size is ignored, as an array's may have changed since."""
    if not bytes_:
        return
    block: cython.pointer(Block) = cython.cast(cython.pointer(Block), bytes_) - 1
    block.released_at = now()
    pages.lock()
    block.next = cache.free_lists[block.size_class]
    cache.free_lists[block.size_class] = block
    cache.bytes += block.size
    is_over: cython.bint = cache.bytes > cache.limit
    is_first: cython.bint = not cache.has_trimmer
    cache.has_trimmer = True
    pages.unlock()
    if is_over:
        trim(False, 0)
    if is_first and start(trim_periodically):
        # No thread could be started: the next block released tries again.
        pages.lock()
        cache.has_trimmer = False
        pages.unlock()


def reset_in_child():
    """After a fork, the child has no thread that trims the cache."""
    cache.has_trimmer = False
    pages.unlock()


def new_array(rank, shape, kind):
    """Return a new packed array that owns its memory, as `numpy.empty` does; raises MemoryError."""
    # NumPy rejects sizes beyond 64 bits.
    size: cython.double = kind.itemsize
    for k in range(rank):
        size *= shape[k]
    is_large: cython.bint = MIN_SIZE <= size <= pages.MAX_SIZE
    is_large = is_large and class_size(size_class(cython.cast(cython.size_t, size))) <= cache.limit
    # PyArray_Empty steals a reference to the dtype.
    Py_INCREF(kind)
    if not is_large:
        return PyArray_Empty(rank, shape, kind, 0)
    before = PyDataMem_SetHandler(HANDLER)
    try:
        return PyArray_Empty(rank, shape, kind, 0)
    finally:
        PyDataMem_SetHandler(before)


def empty(shape: tuple, kind: dtype) -> object:
    """Like `new_array`, for Python.

    Args:
        shape: sizes.
        kind: dtype of the elements.
    """
    sizes: npy_intp[64]
    rank: cython.Py_ssize_t = len(shape)
    if rank > 64:
        return np.empty(shape, kind)
    for k in range(rank):
        sizes[k] = shape[k]
    return new_array(rank, sizes, kind)


def set_limit(size: int) -> None:
    """Limit cached blocks to `size` bytes from now on. With 0, new arrays use no blocks."""
    number: cython.size_t = min(size, pages.MAX_SIZE)
    pages.lock()
    cache.limit = number
    pages.unlock()
    trim(False, 0)


def release_blocks() -> None:
    """Return all cached blocks to the system."""
    trim(True, 0)


strcpy(handler.name, b"anydml")
handler.version = 1
handler.allocator.ctx = cython.NULL
handler.allocator.malloc = allocate
handler.allocator.calloc = allocate_zeros
handler.allocator.realloc = reallocate
handler.allocator.free = release
HANDLER = PyCapsule_New(cython.address(handler), b"mem_handler", cython.NULL)
pages.register_fork_handlers(reset_in_child)
