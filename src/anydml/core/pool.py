"""One pool of threads for all compiled work (see pool.h)."""

import cython

if not cython.compiled:
    raise ImportError("this module has to be compiled")


def share(work, plan, first, last, step, effort):
    """Run units of a plan on every free thread, `step` at a time.

    Args:
        work: runs some units of the plan.
        plan: must not change until this returns; all units are finished then.
        first: the first unit.
        last: the unit after the last one.
        step: units that a thread claims at a time.
        effort: bytes that a plain copy writes in the time that one thread takes; if large, sleeping workers are woken.
    """
    anydml_share(work, plan, first, last, step, effort)


def set_threads(thread_count: cython.int) -> None:
    """Set the number of threads that share work, including the caller, from the next job on."""
    anydml_set_threads(thread_count)


def threads() -> int:
    """Return the number of threads that share work, including the caller."""
    return anydml_threads()


def workers() -> int:
    """Return the number of worker threads: 0 before the first shared work, and after a fork."""
    return anydml_workers()


def sleepers() -> int:
    """Return the number of sleeping workers."""
    return anydml_sleepers()


anydml_register_pool_fork_handler()
