"""One pool of threads for all compiled work (see pool.h)."""

import cython

if not cython.compiled:
    raise ImportError("this module has to be compiled")


def share(work, plan, first, last, step, effort):
    """Do units of a plan with every thread that is free, `step` at a time.

    Args:
        work: does some units of the plan.
        plan: stays as it is until this returns; then nothing is under way.
        first: unit.
        last: the unit after the last one.
        step: units that a thread claims at a time.
        effort: bytes that a plain copy writes in the time that one thread takes: workers that sleep are woken for much.
    """
    anydml_share(work, plan, first, last, step, effort)


def set_threads(number: cython.int) -> None:
    """Share work between so many threads from the next job on, the caller included."""
    anydml_set_threads(number)


def threads() -> int:
    """Threads that work is shared between, the caller included."""
    return anydml_threads()


def workers() -> int:
    """Threads that there are, without callers: none before the first work that is shared, and none after a fork."""
    return anydml_workers()


def sleepers() -> int:
    """Workers that sleep."""
    return anydml_sleepers()


anydml_watch_forks()
