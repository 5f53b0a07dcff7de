"""Moves in their simplest form: the one shape that kernels are written for, and as few as do the same."""

from __future__ import annotations

import contextlib
import os

import cython
from cython.cimports.anydml.core.kernels import (
    anydml_check,
    anydml_choose,
    anydml_isa,
    anydml_plan,
    anydml_run,
    anydml_step_name,
    anydml_work,
    anydml_written,
)
from cython.cimports.cpython.exc import PyErr_CheckSignals
from cython.cimports.libc.stdint import int32_t, int64_t

HELD_EFFORT = 64 << 10
SHARED_EFFORT = 128 << 10
"""Efforts up to which work is done under the GIL, and from which threads share it: to let go of the GIL, or to tell
another core, costs more than less work takes. An effort is what a plain copy writes in the same time, in bytes."""

ITEM_BYTES = 18
LOOKUP_BYTES = 56
"""What an element costs beside its bytes, and one that is looked up."""

ROUND_EFFORT = 64 << 20
"""Effort between two looks at signals."""

CLAIMS = 16
LEAST_CLAIM = 16 << 10
MOST_CLAIM = 512 << 10
"""How many claims a thread could make of middling work; the least and the most effort of one: few enough for a thread
that comes late to find some, and for a caller not to wait for the last one of another."""

CACHE, SHARE = 32 << 20, 4
"""Bytes of the last cache where the system does not say; the part of it that stores may fill, beside what is read."""


def simplify(m, rank, n, a, b):
    """Put a box into a move without lookups, whose ends and element are set.

    Sizes of 1 go; strides of the destination become positive and sorted, the largest first; neighbours that continue
    each other merge, the innermost into the element.

    Returns:
        0, or 1 where nothing moves, or −1 where there are more dimensions than a move has.
    """
    count: cython.int = 0
    k: cython.int
    j: cython.int
    size: int64_t
    p: int64_t
    q: int64_t
    for k in range(rank):
        size = n[k]
        if size == 1:
            continue
        if size == 0:
            return 1
        p = a[k]
        q = b[k]
        if p < 0:
            m.to = moved(m.to, p * (size - 1))
            m.source = moved(m.source, q * (size - 1))
            p = -p
            q = -q
        if count and m.a[count - 1] == p * size and m.b[count - 1] == q * size:
            # In row-major order most of what continues stands side by side already.
            m.n[count - 1] *= size
            m.a[count - 1] = p
            m.b[count - 1] = q
            continue
        if count == ANYDML_RANK:
            return -1
        j = count
        while j > 0 and m.a[j - 1] < p:
            m.n[j] = m.n[j - 1]
            m.a[j] = m.a[j - 1]
            m.b[j] = m.b[j - 1]
            j -= 1
        m.n[j] = size
        m.a[j] = p
        m.b[j] = q
        count += 1
    while count and m.a[count - 1] == m.element and (m.pattern or m.b[count - 1] == m.element):
        count -= 1
        m.element *= m.n[count]
    k = 0
    for j in range(1, count):
        if m.a[k] == m.a[j] * m.n[j] and m.b[k] == m.b[j] * m.n[j]:
            m.n[k] *= m.n[j]
            m.a[k] = m.a[j]
            m.b[k] = m.b[j]
        else:
            k += 1
            m.n[k] = m.n[j]
            m.a[k] = m.a[j]
            m.b[k] = m.b[j]
    m.rank = k + 1 if count else 0
    return 0 if m.element else 1


def simplify_looking(m, rank, n, a, b, strides):
    """The same of a move with lookups, which have all but their strides.

    What lookups in the destination write twice is written by the later one: dimensions then keep their order.
    """
    column: int64_t
    count: cython.int = 0
    j: cython.int
    k: cython.int
    d: cython.int
    size: int64_t
    is_sorted: cython.bint = True
    for k in range(m.lookups):
        is_sorted = is_sorted and m.lookup[k].into != -2
    for d in range(rank):
        size = n[d]
        if size == 0:
            return 1
        column = a[d]
        for k in range(m.lookups):
            column |= strides[k][d]
        if size == 1 or column == 0:
            # What is written over and over is written once, the last time.
            m.source = moved(m.source, (size - 1) * b[d])
            continue
        if count == ANYDML_RANK:
            return -1
        m.n[count] = size
        m.a[count] = a[d]
        m.b[count] = b[d]
        for k in range(m.lookups):
            m.lookup[k].b[count] = strides[k][d]
        if is_sorted:
            if a[d] < 0:
                turn(m, count)
            for j in range(count, 0, -1):
                if m.a[j - 1] >= m.a[j]:
                    break
                swap_dimensions(m, j - 1, j)
        count += 1
    k = 0
    for j in range(1, count):
        if goes_on(m, k, j):
            size = m.n[k]
            copy_dimension(m, k, j)
            m.n[k] *= size
        else:
            k += 1
            copy_dimension(m, k, j)
    count = k + 1 if count else 0
    if count and m.a[count - 1] == m.element and m.b[count - 1] == m.element:
        size = 0
        for k in range(m.lookups):
            size |= m.lookup[k].b[count - 1]
        if size == 0:
            count -= 1
            m.element *= m.n[count]
    m.rank = count
    return 0 if m.element else 1


def copy_dimension(m, to, source):
    """Let one dimension be as another."""
    k: cython.int
    m.n[to] = m.n[source]
    m.a[to] = m.a[source]
    m.b[to] = m.b[source]
    for k in range(m.lookups):
        m.lookup[k].b[to] = m.lookup[k].b[source]


def swap_dimensions(m, d, e):
    """Let each of two dimensions be as the other."""
    k: cython.int
    m.n[d], m.n[e] = m.n[e], m.n[d]
    m.a[d], m.a[e] = m.a[e], m.a[d]
    m.b[d], m.b[e] = m.b[e], m.b[d]
    for k in range(m.lookups):
        m.lookup[k].b[d], m.lookup[k].b[e] = m.lookup[k].b[e], m.lookup[k].b[d]


def goes_on(m, outer, inner):
    """Whether two dimensions are one at both ends, and of all lookups."""
    k: cython.int
    size: int64_t = m.n[inner]
    if m.a[outer] != m.a[inner] * size or m.b[outer] != m.b[inner] * size:
        return False
    for k in range(m.lookups):
        if m.lookup[k].b[outer] != m.lookup[k].b[inner] * size:
            return False
    return True


def turn(m, d):
    """See a dimension from its other end."""
    k: cython.int
    last: int64_t = m.n[d] - 1
    m.to = moved(m.to, m.a[d] * last)
    m.source = moved(m.source, m.b[d] * last)
    m.a[d] = -m.a[d]
    m.b[d] = -m.b[d]
    for k in range(m.lookups):
        m.lookup[k].at = moved(m.lookup[k].at, m.lookup[k].b[d] * last)
        m.lookup[k].b[d] = -m.lookup[k].b[d]


def continues(first, second):
    """Let a simple move do what follows it at both ends, too; False where it does not follow.

    Both are boxes with the same strides, which differ in one size at most, and meet along that one.
    """
    d: cython.int
    differing: cython.int = -2
    by: int64_t = cython.cast(int64_t, cython.cast(cython.size_t, second.to) - cython.cast(cython.size_t, first.to))
    further: int64_t = cython.cast(
        int64_t, cython.cast(cython.size_t, second.source) - cython.cast(cython.size_t, first.source)
    )
    if first.rank != second.rank or first.pattern or second.pattern or first.lookups or second.lookups:
        return False
    if first.element != second.element:
        differing = -1
    for d in range(first.rank):
        if first.a[d] != second.a[d] or first.b[d] != second.b[d]:
            return False
        if first.n[d] != second.n[d]:
            if differing != -2:
                return False
            differing = d
    if differing < 0 and by == first.element and further == first.element:
        first.element += second.element
        d = first.rank - 1
        if d >= 0 and first.a[d] == first.element and first.b[d] == first.element:
            # Rows that have become whole lie together.
            first.element *= first.n[d]
            first.rank = d
        return True
    for d in range(first.rank):
        if (differing == d or differing == -2) and by == first.n[d] * first.a[d] and further == first.n[d] * first.b[d]:
            first.n[d] += second.n[d]
            return d == 0 or not goes_on(first, d - 1, d) or merge(first, d)
    return False


def merge(m, d):
    """Make a dimension and the one before it one; True."""
    k: cython.int
    m.a[d - 1] = m.a[d]
    m.b[d - 1] = m.b[d]
    m.n[d - 1] *= m.n[d]
    for k in range(d, m.rank - 1):
        copy_dimension(m, k, k + 1)
    m.rank -= 1
    return True


def effort(m, count):
    """Bytes that a plain copy writes in the time that moves take one thread, about."""
    total: int64_t = 0
    items: int64_t
    j: int64_t
    k: cython.int
    for j in range(count):
        items = 1
        for k in range(m[j].rank):
            items *= m[j].n[k]
        total += items * (m[j].element + (LOOKUP_BYTES if m[j].lookups else ITEM_BYTES))
    return total


def run(m, count):
    """Run simple moves, as if one after the other. The caller has the GIL, which large work is done without.

    Raises:
        KeyboardInterrupt: or whatever else a signal's handler raises in the midst of large work.
    """
    stage: Stage
    done: int64_t
    written: int64_t
    if effort(m, count) <= HELD_EFFORT:
        anydml_run(m, count)
        return 0
    with cython.nogil:
        written = anydml_written(m, count)
        while count > 0:
            done = anydml_plan(cython.address(stage), m, count, written)
            run_stage(cython.address(stage), effort(m, done))
            m += done
            count -= done
    return 0


def run_stage(stage, total):
    """Do what a stage plans, of so much effort; between rounds of much, signals' handlers have their turn."""
    each: int64_t = total // max(stage.units, 1) + 1
    step: int64_t = max(1, min(max(total // CLAIMS, LEAST_CLAIM), MOST_CLAIM) // each)
    most: int64_t = max(1, ROUND_EFFORT // each)
    first: int64_t = 0
    last: int64_t
    while first < stage.units:
        last = min(first + most, stage.units)
        if total < SHARED_EFFORT:
            anydml_work(stage, first, last)
        else:
            share(some_units, stage, first, last, step, each * (last - first))
        first = last
        if total >= SHARED_EFFORT:
            with cython.gil:
                PyErr_CheckSignals()
    return 0


def some_units(plan, first, last):
    """Some units of a stage, for the pool."""
    anydml_work(cython.cast(cython.pointer(cython.const[Stage]), plan), first, last)


def written_by(m, count):
    """Bytes that moves write."""
    return anydml_written(m, count)


def plan(stage, m, count, written):
    """Choose steps for the first moves, all of which may be done at once; how many moves they do."""
    return anydml_plan(stage, m, count, written)


def refuses(m, which):
    """Whether lookups of a move, a bit each, have indices outside their axes, or ones that others skip: say at once."""
    k: cython.int
    refused: int32_t = 0
    none: int64_t[16]
    looks: Lookup[16]
    strides: cython.pointer(cython.const[int64_t])[16]
    one: Move = m[0]
    one.lookup = looks
    for k in range(m.rank):
        none[k] = 0
    for k in range(m.lookups):
        looks[k] = m.lookup[k]
        looks[k].refused = cython.address(refused) if which >> k & 1 else cython.NULL
        strides[k] = m.lookup[k].b
    # Without ends, indices that are used again are looked at once.
    if simplify_looking(cython.address(one), m.rank, m.n, none, none, strides) == 0:
        anydml_check(cython.address(one))
    return refused != 0


def name_of(step):
    """What a step's kernel is called."""
    return anydml_step_name(step)


def run_backwards(m, count):
    """The same, by one thread, the units of each stage from the last to the first: their order must not count."""
    stage: Stage
    unit: int64_t
    done: int64_t = 0
    written: int64_t = anydml_written(m, count)
    while done < count:
        done += anydml_plan(cython.address(stage), m + done, count - done, written)
        for unit in range(stage.units - 1, -1, -1):
            anydml_work(cython.address(stage), unit, unit + 1)


def instruction_set() -> str:
    """The instruction set whose kernels are in use, such as ``"x86-64-v4"``."""
    return anydml_isa().decode()


def choose(limit: str = "", stream_from: int | None = None) -> None:
    """Choose the kernels.

    Args:
        limit: ``"v2"``, ``"v3"`` or ``"v4"``: none of a higher instruction set; the best there are, by default.
        stream_from: bytes written from which on stores go past the caches; a share of the last one, by default.
    """
    anydml_choose(limit.encode(), last_cache() // SHARE if stream_from is None else stream_from)


def last_cache() -> int:
    """Bytes of the first processor's largest cache, as far as the system says."""
    largest = 0
    for number in range(8):
        path = f"/sys/devices/system/cpu/cpu0/cache/index{number}/size"
        with contextlib.suppress(OSError, ValueError, KeyError), open(path, encoding="ascii") as file:
            text = file.read().strip()
            largest = max(largest, int(text.rstrip("KMG")) << {"K": 10, "M": 20, "G": 30}[text.strip("0123456789")])
    return largest or CACHE


choose(os.environ.get("ANYDML_ISA", ""))
