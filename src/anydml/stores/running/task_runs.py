"""Runs of tasks: parts of a plan that separate processes write, and the final step that renames the outputs."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path

from anydml.errors import BindingError
from anydml.files.addresses import Address
from anydml.files.located import map_concurrently
from anydml.files.location import Location
from anydml.progress import progress_bar
from anydml.stores.planning.base_plan import BasePlan
from anydml.stores.planning.identities import check_unchanged
from anydml.stores.running.journal import is_under_way
from anydml.stores.running.run import run, staging_of, writer_of
from anydml.stores.running.staging import Staging
from anydml.stores.running.staging_elsewhere import StagingElsewhere


def begin(plan: BasePlan, digest: str) -> None:
    """Create a plan's outputs, in staging, and its journal, unless both exist.

    Raises:
        ModelError: an output exists, or another process writes it.
        OSError: a file cannot be written.
    """
    staging = staging_of(plan)
    staging.prepare(partial(check_unchanged, plan.name, plan.identities))
    is_begun = is_under_way(staging.journal, digest)
    staging.check_free()
    journal = staging.open_journal(digest)
    try:
        journal.take()
        if not is_begun or not staging.has_all_parts():
            journal.restart(digest)
            staging.wait_for_workers()
            staging.begin()
    finally:
        journal.close(False)


def write_task(
    plan: BasePlan, digest: str, task_number: int, blocks: Sequence[int], progress: bool | Callable[[int], None]
) -> None:
    """Write the blocks of a task, then the task's mark; do nothing if the outputs are complete.

    Raises:
        ModelError: a block cannot be written.
        BindingError: the outputs were not begun.
    """
    staging = staging_of(plan)
    location = Location(str(staging.top[0]))
    try:
        with staging.share():
            if _is_over(staging, digest):
                return
            _check_begun(staging, digest)
            with (
                writer_of(plan) as writer,
                progress_bar(sum(map(plan.blocking.block_bytes, blocks)), 0, progress) as advance,
            ):
                writer.write(blocks, lambda _, size: advance(size))
                writer.sync()
            check_unchanged(plan.name, plan.identities)
            staging.sync_parts()
            _write(_mark(staging, task_number), json.dumps({"plan": digest}).encode())
    except OSError as error:
        prefix = f"{error.filename}: " if error.filename else ""
        raise location.error(f"cannot be written: {prefix}{error.strerror or error}; run the task again") from None


def finished_tasks(plan: BasePlan, digest: str, count: int) -> list[int]:
    """Return the numbers of the tasks that have left their marks."""
    staging = staging_of(plan)

    def is_finished(task_number: int) -> bool:
        try:
            return bool(json.loads(_mark(staging, task_number).read_bytes())["plan"] == digest)
        except (OSError, ValueError, LookupError, TypeError):
            return False

    numbers = range(count)
    finished = (
        map_concurrently(is_finished, numbers) if isinstance(staging.journal, Address) else [*map(is_finished, numbers)]
    )
    return [number for number, is_done in zip(numbers, finished, strict=True) if is_done]


def finish(
    plan: BasePlan, digest: str, finished: Iterable[int], tasks: int, progress: bool | Callable[[int], None]
) -> None:
    """Write all remaining blocks, and give the outputs their names, unless they have them.

    Raises:
        ModelError: as in `run`.
        BindingError: the outputs were not begun.
    """
    staging = staging_of(plan)
    if _is_over(staging, digest):
        plan.already_complete = True
        return
    _check_begun(staging, digest)
    run(plan, progress, digest=digest, done=finished)
    for task_number in range(tasks):
        with suppress(OSError):
            _mark(staging, task_number).unlink(missing_ok=True)


def _mark(staging: Staging | StagingElsewhere, task_number: int) -> Path:
    """Return the path of the mark of a finished task."""
    return staging.journal.with_name(f"{staging.journal.name}-task-{task_number}")


def _write(path: Path, text: bytes) -> None:
    """Write a small file atomically."""
    if isinstance(path, Address):
        path.write_bytes(text)
        return
    part = path.with_name(f"{path.name}-{os.getpid()}")
    part.write_bytes(text)
    part.replace(path)


def _is_over(staging: Staging | StagingElsewhere, digest: str) -> bool:
    """Whether a plan has given its outputs their names, and they have not changed since."""
    return not is_under_way(staging.journal, digest) and not staging.is_begun() and staging.was_written_by(digest)


def _check_begun(staging: Staging | StagingElsewhere, digest: str) -> None:
    if not is_under_way(staging.journal, digest):
        raise BindingError(
            f"{staging.top[0]} is not being written by this plan: it is finished, or was begun by another one"
        )
