"""The run of a plan: from its journal to the final names of its outputs."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import partial

from anydml.errors import BindingError, ModelError
from anydml.files.addresses import Address
from anydml.files.location import Location
from anydml.progress import progress_bar, waiting
from anydml.stores.planning.base_plan import BasePlan
from anydml.stores.planning.file_blocking import FileBlocking
from anydml.stores.planning.identities import check_unchanged
from anydml.stores.running.blocks_writer import BlocksWriter
from anydml.stores.running.file_blocks import FileBlocks
from anydml.stores.running.journal import Journal
from anydml.stores.running.journal_elsewhere import JournalElsewhere
from anydml.stores.running.staging import Staging
from anydml.stores.running.staging_elsewhere import StagingElsewhere
from anydml.text import count_noun

WriteBlocks = Callable[[str, Iterable[int], Callable[[int, int], None]], None]
"""Writes blocks of the plan with a digest; calls a function with the number and the bytes of each."""


def staging_of(plan: BasePlan) -> Staging | StagingElsewhere:
    """Return the staging of a plan, where its outputs are until they get their final names."""
    if any(isinstance(array.path, Address) for array in plan.arrays):
        return StagingElsewhere(plan.arrays, plan.other_files, plan.folder, plan.overwrite)
    return Staging(plan.files, plan.arrays, plan.other_files, plan.folder, plan.overwrite, plan.sources)


def writer_of(plan: BasePlan, begun: Callable[[], object] = lambda: None) -> BlocksWriter:
    """Return a writer of the blocks of a plan.

    Args:
        plan: the plan.
        begun: waits until the outputs have been begun, which those that are files must have been already.
    """
    staging = staging_of(plan)
    if isinstance(plan.blocking, FileBlocking):
        return FileBlocks(plan, staging.part)
    # Plans of plain files do without codecs.
    from anydml.stores.running.grid_blocks import GridBlocks

    return GridBlocks(plan, staging.scratch, staging.part, begun)


def refusal_of_outputs(plan: BasePlan) -> str | None:
    """Return why `run` would refuse the names of the outputs; None if they are accepted."""
    staging = staging_of(plan)
    if staging.is_begun():
        return None
    try:
        staging.check_free()
    except ModelError as error:
        return None if not plan.overwrite and staging.was_written_by(plan.digest()) else str(error)
    return None


def run(
    plan: BasePlan,
    progress: bool | Callable[[int], None] = False,
    write: WriteBlocks | None = None,
    digest: str | None = None,
    done: Iterable[int] = (),
) -> None:
    """Run a plan.

    Args:
        plan: the plan.
        progress: as in `Plan.run`.
        write: writes blocks; by default this process does.
        digest: the digest with which the plan was begun; by default its own.
        done: blocks that other processes have written.

    Raises:
        ModelError: an output exists, or cannot be written.
        BindingError: an input has changed.
        KeyboardInterrupt: as it was raised; its message says which files are kept.
    """
    staging = staging_of(plan)
    location = Location(str(staging.top[0]))
    try:
        staging.prepare(partial(check_unchanged, plan.name, plan.identities))
        with waiting(f"{plan.name}: listing {count_noun(plan.blocking.count, 'block')}", progress is True):
            digest = digest or plan.digest()
        if not staging.is_begun():
            plan.already_complete = not plan.overwrite and staging.was_written_by(digest)
            if plan.already_complete:
                return
            staging.check_free()
        journal = staging.open_journal(digest)
    except OSError as error:
        raise location.error(f"cannot be written: {error.strerror or error}") from None
    is_over = False
    try:
        for block_number in {*done} - journal.finished:
            journal.add(block_number, plan.blocking.block_bytes(block_number))
            journal.finished.add(block_number)
        if not journal.is_whole or not staging.has_all():
            begin: Callable[[], None] | None = partial(_begin, staging, journal, digest)
            if journal.is_taken or write is not None:
                _begin(staging, journal, digest)
                begin = None
            plan.resumed = len(journal.finished)
            _write_remaining(plan, journal, digest, progress, write or partial(_write_here, plan, begin))
            try:
                # If inputs have changed, the plan is another one, which must not use this journal.
                staging.do([partial(check_unchanged, plan.name, plan.identities), staging.sync, journal.mark_synced])
            except BindingError:
                is_over = True
                staging.discard()
                raise
        staging.wait_for_workers()
        staging.finish(digest)
        is_over = True
    except KeyboardInterrupt:
        raise KeyboardInterrupt(str(location.error(_describe_kept(journal, len(plan.blocks), staging)))) from None
    except OSError as error:
        prefix = f"{error.filename}: " if error.filename else ""
        end = "nothing is kept" if _is_nothing_kept(journal) else "repeat the command to resume"
        raise location.error(f"cannot be written: {prefix}{error.strerror or error}; {end}") from None
    finally:
        if not is_over and _is_nothing_kept(journal):
            staging.wait_for_workers()
            is_over = staging.discard()
        journal.close(is_over)


def _begin(staging: Staging | StagingElsewhere, journal: Journal | JournalElsewhere, digest: str) -> None:
    """Create the outputs, unless an earlier run has."""
    journal.take()
    staging.check_free()
    if not journal.finished or not staging.has_all_parts():
        journal.restart(digest)
        staging.wait_for_workers()
        staging.begin()


def _is_nothing_kept(journal: Journal | JournalElsewhere) -> bool:
    """Whether a run that ends has written nothing that another could resume, so that its files are removed."""
    return journal.is_empty and not journal.is_whole


def _describe_kept(journal: Journal | JournalElsewhere, blocks: int, staging: Staging | StagingElsewhere) -> str:
    """Describe the files that an interrupted run leaves."""
    if _is_nothing_kept(journal):
        return "interrupted; nothing is kept"
    part = staging.part(staging.top[0])
    total = count_noun(blocks, "block")
    return f"interrupted; {journal.count} of {total} are kept in {part}; repeat the command to resume"


def _write_here(
    plan: BasePlan,
    begin: Callable[[], None] | None,
    _digest: str,
    numbers: Iterable[int],
    finished: Callable[[int, int], None],
) -> None:
    """Write blocks; if outputs are still to be begun, the first blocks are read meanwhile."""
    if begin is None:
        with writer_of(plan) as writer:
            writer.write(numbers, finished)
        return
    with ThreadPoolExecutor(1, "anydml-begin") as pool:
        try:
            begun = pool.submit(begin)
        except RuntimeError as error:
            raise MemoryError(f"{plan.name}: {error}") from None
        with writer_of(plan, begun.result) as writer:
            writer.write(numbers, finished)
        begun.result()


def _write_remaining(
    plan: BasePlan,
    journal: Journal | JournalElsewhere,
    digest: str,
    progress: bool | Callable[[int], None],
    write: WriteBlocks,
) -> None:
    """Write all unfinished blocks."""
    unwritten = (k for k in range(len(plan.blocks)) if k not in journal.finished)
    finished_bytes = sum(map(plan.blocking.block_bytes, journal.finished))
    with progress_bar(plan.totals.bytes_written, finished_bytes, progress) as advance:

        def finished(block_number: int, size: int) -> None:
            journal.add(block_number, size)
            advance(size)

        write(digest, unwritten, finished)
