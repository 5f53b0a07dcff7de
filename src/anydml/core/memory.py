# cython: freethreading_compatible=True
"""New arrays. Large ones reuse blocks of released memory: the first touch of pages costs more than most moves.

Arrays own their memory as usual: NumPy allocates and releases it through a handler (NEP 49). Released blocks of one
size wait on a shelf, a stack whose top block may still be in the caches.

Arrays may be freed on any thread, so one mutex guards the shelves. While it is held, no Python code runs and no memory
is allocated or freed, so that neither garbage collection nor signal handlers interfere; a fork waits for it. A thread
without Python state returns blocks that have waited long to the system, and exits when none wait.
"""

import cython
import numpy as np
from cython.cimports.anydml.core.pages import (
    MOST,
    ask_for_huge,
    give_pages,
    lock,
    sleep,
    take_pages,
    unlock,
    watch_forks,
)
from cython.cimports.anydml.core.pool import now, start
from cython.cimports.cpython.pycapsule import PyCapsule_New
from cython.cimports.cpython.ref import Py_INCREF
from cython.cimports.libc.stdint import int64_t
from cython.cimports.libc.string import memcpy, memset, strcpy
from cython.cimports.numpy import PyDataMem_Handler, PyDataMem_SetHandler, dtype, npy_intp

LEAST = cython.declare(cython.size_t, 256 << 10)
"""Bytes of the smallest array that uses a block."""

IDLE = cython.declare(int64_t, 5_000_000_000)
LOOK = cython.declare(int64_t, 1_000_000_000)
"""Nanoseconds that a block waits before it is returned to the system, and between two checks for such blocks."""

waiting = cython.declare(Waiting)
handler = cython.declare(PyDataMem_Handler)


def shelf_of(size):
    """The shelf of blocks for `size` bytes, at least `LEAST`; there are eight shelves per power of two."""
    exponent: cython.int = 64 - leading_zeros(size - 1)
    step: cython.size_t = cython.cast(cython.size_t, 1) << (exponent - 4)
    return (exponent - 18) * 8 + cython.cast(cython.int, (size + step - 1) // step) - 9


def size_on(shelf):
    """The size in bytes of the blocks on a shelf."""
    return cython.cast(cython.size_t, 9 + shelf % 8) << (14 + shelf // 8)


def taken(first):
    """Pop the first block of a nonempty list. The caller holds the mutex."""
    block: cython.pointer(Block) = first[0]
    first[0] = block.under
    waiting.bytes -= block.size
    return block


def surplus(most, before):
    """Pop blocks until the rest has at most `most` bytes, and was released at `before` or later if that is not 0.

    The sizes that were released least recently go first. The caller holds the mutex, and passes the returned list to
    `give` after unlocking it.
    """
    found: cython.pointer(Block) = cython.NULL
    block: cython.pointer(Block)
    first: cython.pointer(cython.pointer(Block))
    oldest: cython.pointer(cython.pointer(Block))
    k: cython.int
    while waiting.bytes > most:
        oldest = cython.NULL
        for k in range(SHELVES):
            first = waiting.shelves + k
            if first[0] and (not oldest or first[0].since < oldest[0].since):
                oldest = first
        block = taken(oldest)
        block.under = found
        found = block
    for k in range(SHELVES if before else 0):
        first = waiting.shelves + k
        while first[0] and first[0].since >= before:
            first = cython.address(first[0].under)
        while first[0]:
            block = taken(first)
            block.under = found
            found = block
    return found


def give(block):
    """Return a list of blocks to the system."""
    under: cython.pointer(Block)
    while block:
        under = block.under
        give_pages(cython.cast(cython.p_char, block + 1), block.size)
        block = under


def trim(most):
    """Return blocks to the system until the rest has at most `most` bytes."""
    found: cython.pointer(Block)
    lock()
    found = surplus(most, 0)
    unlock()
    give(found)


def watch(nothing):
    """Return blocks that have waited long to the system, until none wait."""
    found: cython.pointer(Block)
    goes_on: cython.bint = True
    while goes_on:
        sleep(LOOK)
        lock()
        found = surplus(waiting.limit, now() - IDLE)
        waiting.is_watched = goes_on = waiting.bytes > 0
        unlock()
        give(found)
    return cython.NULL


def allocate(nothing, size):
    """As malloc: a waiting block, or a new one. It has at least `LEAST` bytes, as arrays may shrink below that."""
    if size > MOST:
        return cython.NULL
    shelf: cython.int = shelf_of(max(size, LEAST))
    block: cython.pointer(Block) = cython.NULL
    lock()
    if waiting.shelves[shelf]:
        block = taken(waiting.shelves + shelf)
    unlock()
    if block:
        return block + 1
    pages: cython.p_char = take_pages(size_on(shelf))
    if not pages:
        trim(0)
        pages = take_pages(size_on(shelf))
    if pages:
        block = cython.cast(cython.pointer(Block), pages) - 1
        block.size = size_on(shelf)
        block.shelf = shelf
    return pages


def allocate_zeros(nothing, count, size):
    """As calloc."""
    if size and count > MOST // size:
        return cython.NULL
    found: cython.p_void = allocate(nothing, count * size)
    if found:
        memset(found, 0, count * size)
    return found


def reallocate(nothing, bytes_, size):
    """As realloc."""
    if not bytes_:
        return allocate(nothing, size)
    block: cython.pointer(Block) = cython.cast(cython.pointer(Block), bytes_) - 1
    if size <= MOST and shelf_of(max(size, LEAST)) == block.shelf:
        return bytes_
    found: cython.p_void = allocate(nothing, size)
    if found:
        memcpy(found, bytes_, min(size, block.size))
        release(nothing, bytes_, 0)
    return found


def release(nothing, bytes_, size):
    """As free. The size is ignored, as an array's may have changed since."""
    if not bytes_:
        return
    block: cython.pointer(Block) = cython.cast(cython.pointer(Block), bytes_) - 1
    block.since = now()
    found: cython.pointer(Block) = cython.NULL
    is_first: cython.bint
    lock()
    block.under = waiting.shelves[block.shelf]
    waiting.shelves[block.shelf] = block
    waiting.bytes += block.size
    if waiting.bytes > waiting.limit:
        found = surplus(waiting.limit, 0)
    is_first = not waiting.is_watched and waiting.bytes > 0
    waiting.is_watched |= is_first
    unlock()
    give(found)
    if is_first and start(watch):
        # No thread could be started: the next block released tries again.
        lock()
        waiting.is_watched = False
        unlock()


def begin_child():
    """After a fork, the child has no thread that trims the shelves."""
    waiting.is_watched = False
    unlock()


def new_array(rank, shape, kind):
    """Return a new packed array that owns its memory, as `numpy.empty` does.

    Args:
        rank: number of dimensions.
        shape: their sizes.
        kind: dtype of the elements.

    Raises:
        MemoryError: the system has no memory left.
    """
    # NumPy rejects sizes beyond 64 bits.
    size: cython.double = kind.itemsize
    k: cython.int
    for k in range(rank):
        size *= shape[k]
    is_large: cython.bint = LEAST <= size <= MOST
    is_large = is_large and size_on(shelf_of(cython.cast(cython.size_t, size))) <= waiting.limit
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
    """As `new_array`, for Python.

    Args:
        shape: sizes.
        kind: dtype of the elements.
    """
    sizes: npy_intp[64]
    rank: cython.Py_ssize_t = len(shape)
    k: cython.Py_ssize_t
    if rank > 64:
        return np.empty(shape, kind)
    for k in range(rank):
        sizes[k] = shape[k]
    return new_array(rank, sizes, kind)


def ask_for_huge_pages(address: cython.size_t, size: cython.size_t) -> None:
    """Request huge pages for memory that has not been touched, if the system has them."""
    ask_for_huge(cython.cast(cython.p_char, address), size)


def set_limit(size: int) -> None:
    """Limit waiting blocks to `size` bytes from now on. With 0, new arrays use no blocks."""
    number: cython.size_t = min(size, MOST)
    lock()
    waiting.limit = number
    unlock()
    trim(number)


def give_back() -> None:
    """Return all waiting blocks to the system."""
    trim(0)


strcpy(handler.name, b"anydml")
handler.version = 1
handler.allocator.ctx = cython.NULL
handler.allocator.malloc = allocate
handler.allocator.calloc = allocate_zeros
handler.allocator.realloc = reallocate
handler.allocator.free = release
HANDLER = PyCapsule_New(cython.address(handler), b"mem_handler", cython.NULL)
watch_forks(begin_child)
