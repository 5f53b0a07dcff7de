"""A plan's run, from the journal to the final names: what has those is whole, and what was stopped goes on."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from functools import partial

from anydml.errors import BindingError
from anydml.files.json_path import JsonPath
from anydml.progress import shown
from anydml.stores.identities import check_unchanged
from anydml.stores.journal import Journal
from anydml.stores.runnable import Runnable

Write = Callable[[str, Iterable[int], Callable[[int, int], None]], None]
"""Writes blocks of the plan with a digest, and says of each that it is written, and its bytes."""


def run(plan: Runnable, progress: bool | Callable[[int], None] = False, scheduler: str | None = None) -> None:
    """As `Plan.run` says."""
    if scheduler is None:
        _run(plan, progress, partial(_write_here, plan))
        return
    from anydml.stores.cluster import connected, write_on

    # Nothing is begun before the cluster is there.
    with connected(scheduler) as client:
        _run(plan, progress, partial(write_on, client, scheduler, plan))


def _write_here(plan: Runnable, _digest: str, numbers: Iterable[int], finished: Callable[[int, int], None]) -> None:
    with plan.blocks_writer() as writer:
        writer.write(numbers, finished)


def _run(plan: Runnable, progress: bool | Callable[[int], None], write: Write) -> None:
    staging = plan.staging()
    place = JsonPath(str(staging.top[0]))
    try:
        staging.journal.parent.mkdir(parents=True, exist_ok=True)
        check_unchanged(plan.name, plan.identities)
        digest = plan.digest()
        if not os.path.exists(staging.journal):
            plan.was_there = not plan.overwrite and staging.is_of(digest)
            if plan.was_there:
                return
            staging.check_free()
        journal = Journal(staging.journal, digest, staging.sync)
    except OSError as error:
        raise place.error(f"cannot be written: {error.strerror or error}") from None
    is_over = False
    try:
        if not journal.is_whole or not staging.has_all():
            staging.check_free()
            if not journal.finished or not staging.is_there():
                journal.restart(digest)
                staging.settle()
                staging.begin()
            plan.resumed = len(journal.finished)
            _go_on(plan, journal, digest, progress, write)
            try:
                check_unchanged(plan.name, plan.identities)
            except BindingError:
                is_over = True
                staging.drop()
                raise
            staging.sync()
            journal.whole()
        staging.settle()
        staging.finish(digest)
        is_over = True
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        raise place.error(f"cannot be written: {where}{error.strerror or error}; the same command goes on") from None
    finally:
        if not is_over and journal.is_empty and not journal.is_whole:
            # There is nothing to go on with.
            staging.settle()
            staging.drop()
            is_over = True
        journal.close(is_over)


def _go_on(plan: Runnable, journal: Journal, digest: str, progress: bool | Callable[[int], None], write: Write) -> None:
    """Write all blocks that are not finished."""
    waiting = (k for k in range(len(plan.blocks)) if k not in journal.finished)
    done = sum(map(plan.block_bytes, journal.finished))
    with shown(plan.totals.bytes_written, done, progress) as advance:

        def finished(number: int, size: int) -> None:
            journal.add(number, size)
            advance(size)

        write(digest, waiting, finished)
