"""Plans on a Dask cluster: workers write blocks; the process of the plan keeps the journal and renames outputs."""

from __future__ import annotations

import copy
import itertools
import pickle
import platform
import threading
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from typing import Any

from anydml.errors import BindingError, ModelError
from anydml.files.addresses import Address
from anydml.stores.formats.inside_files import absolute_path
from anydml.stores.formats.target import NewFile, Target
from anydml.stores.formats.targets import Targets
from anydml.stores.planning.base_plan import BasePlan
from anydml.stores.running.journal import is_under_way
from anydml.stores.running.run import run, staging_of, writer_of

TASK_BYTES = 64 << 20
"""Approximate bytes that a task of several small blocks writes."""

TASKS_PER_WORKER = 2
"""Number of tasks submitted per worker, so that no worker is idle, and few tasks are repeated if one dies."""

SECONDS_TO_ANSWER = 10

MAX_OPEN = 4
"""Maximum number of plans whose files a worker keeps open: nothing else closes those of a killed process."""


def run_on(scheduler: str, plan: BasePlan, progress: bool | Callable[[int], None]) -> None:
    """Run a plan on a cluster; arguments and errors are those of `Plan.run`."""
    written = [*(file.path for file in plan.files), *(array.path for array in plan.arrays)]
    if any(isinstance(path, Address) for path in written):
        raise BindingError(
            f"{plan.name}: a Dask cluster writes files only, and the output is at an address: leave out the scheduler"
        )
    # Nothing is created before the cluster answers.
    with connect(scheduler) as client:
        run(plan, progress, partial(write_on, client, scheduler, plan))


def write_on(
    client: Any,
    scheduler: str,
    plan: BasePlan,
    digest: str,
    numbers: Iterable[int],
    finished: Callable[[int, int], None],
) -> None:
    """Let workers write blocks of outputs in staging.

    Args:
        client: the client of the cluster.
        scheduler: the address of the scheduler.
        plan: the plan of the blocks.
        digest: the digest of the plan, by which workers recognize its journal.
        numbers: the numbers of the blocks.
        finished: called with the number and the bytes of each block that was written.

    Raises:
        ModelError: the scheduler no longer answers, or a block cannot be written.
    """
    import distributed

    token = f"anydml-plan-{uuid.uuid4()}"
    # Unlike scattered data, the result of a task is computed again if a worker loses it.
    data = client.submit(bytes, pickle.dumps(_with_absolute_paths(plan)), key=token)
    under_way: Any = distributed.as_completed(loop=client.loop)  # not the loop of a client of the caller
    groups = _groups(plan, numbers, len(client.nthreads()))
    try:
        while True:
            free = TASKS_PER_WORKER * max(1, len(client.nthreads())) - under_way.count()
            for group in itertools.islice(groups, max(0, free)):
                task = client.submit(_write, data, token, digest, group, key=f"anydml-blocks-{uuid.uuid4()}", retries=0)
                under_way.add(task)
            if under_way.is_empty():
                return
            for block_number, size in _result(distributed, scheduler, next(under_way)):
                finished(block_number, size)
    except (distributed.comm.CommClosedError, TimeoutError, RuntimeError) as error:
        raise ModelError(f"{scheduler}: {_one_line(error)}; repeat the command to resume") from None
    finally:
        # Running tasks continue; `Staging.wait_for_workers` waits for them.
        with suppress(Exception):
            client.cancel([*under_way.futures], force=True)
            client.run(_forget, token)


@contextmanager
def connect(scheduler: str) -> Iterator[Any]:
    """Return a client of a scheduler that has workers.

    Raises:
        ModelError: no scheduler answers, or it has no workers.
    """
    try:
        import distributed
    except ImportError:
        raise ModelError(f'{scheduler}: a Dask scheduler needs Dask: pip install "anydml[dask]"') from None
    try:
        client = distributed.Client(scheduler, timeout=SECONDS_TO_ANSWER, set_as_default=False)
    except Exception as error:
        # Each kind of address has errors of its own.
        raise ModelError(
            f"{scheduler}: no Dask scheduler answers: {_one_line(error)}; name one such as tcp://10.0.0.1:8786"
        ) from None
    with client:
        try:
            client.wait_for_workers(1, timeout=SECONDS_TO_ANSWER)
            yield client
        except TimeoutError:
            raise ModelError(f"{scheduler}: the scheduler has no workers: start some, by dask worker") from None


def _one_line(error: BaseException) -> str:
    """Return the message of an error as one line."""
    return " ".join(str(error).split())[:300] or type(error).__name__


def _result(distributed: Any, scheduler: str, task: Any) -> list[tuple[int, int]]:
    """Return the numbers and bytes of the blocks that a task has written."""
    try:
        finished: list[tuple[int, int]] | str = task.result()
    except distributed.KilledWorker as error:
        raise ModelError(
            f"{scheduler}: workers died several times in the same blocks ({_one_line(error)}): see whether they have "
            "enough memory, and run the same command again, which resumes"
        ) from None
    except Exception as error:
        # A worker that cannot start may raise any error, for example because anydml is missing or differs in version.
        raise ModelError(
            f"{scheduler}: a worker cannot write blocks: {type(error).__name__}: {_one_line(error)}; if anydml "
            "is missing there or has another version, install this version on all workers"
        ) from None
    if isinstance(finished, str):
        raise ModelError(f"{scheduler}: {finished}; repeat the command to resume")
    return finished


def _groups(plan: BasePlan, numbers: Iterable[int], workers: int) -> Iterator[list[int]]:
    """Yield the blocks of each task: enough to be worth a task, and few enough for all workers to get some."""
    max_bytes = min(TASK_BYTES, plan.totals.bytes_written // (4 * max(1, workers)))
    group, size = list[int](), 0
    for block_number in numbers:
        group.append(block_number)
        size += plan.blocking.block_bytes(block_number)
        if size >= max_bytes:
            yield group
            group, size = [], 0
    if group:
        yield group


def _with_absolute_paths(plan: BasePlan) -> BasePlan:
    """Return the plan with absolute paths."""
    moved_plan: Any = copy.copy(plan)
    moved_plan.inputs = tuple(replace(store, path=absolute_path(store.path)) for store in plan.inputs)
    if isinstance(plan.outputs, Targets):
        moved_plan.outputs = plan.outputs.with_paths(absolute_path)
        moved_plan.files = tuple(moved_plan.outputs.files)
    else:
        files: dict[int, NewFile] = {}

        def target(output: Any) -> Any:
            if not isinstance(output, Target):
                return replace(output, path=absolute_path(output.path))
            file = files.setdefault(id(output.file), replace(output.file, path=absolute_path(output.file.path)))
            return replace(output, file=file)

        moved_plan.outputs = tuple(map(target, plan.outputs))
        moved_plan.files = tuple(files.values())
        moved_plan.arrays = tuple(output for output in moved_plan.outputs if not isinstance(output, Target))
    moved_plan.folder = None if plan.folder is None else absolute_path(plan.folder)
    moved_plan.other_files = {absolute_path(path): content for path, content in plan.other_files.items()}
    moved_plan.blocking = plan.blocking.with_paths(absolute_path)
    return moved_plan  # type: ignore[no-any-return]


# The code below runs on workers.

_LOCK = threading.Lock()
"""Tasks of a worker write in turn, because a plan's memory is the limit of one process."""

_OPEN: dict[str, Any] = {}
"""Plans and the writers of their blocks, by the tokens of their runs."""


def _write(data: bytes, token: str, digest: str, numbers: Sequence[int]) -> list[tuple[int, int]] | str:
    """Write blocks, and return their numbers and bytes, or an error message."""
    finished: list[tuple[int, int]] = []
    with _LOCK:
        try:
            plan, writer = _open(data, token, digest)
            with staging_of(plan).share():
                _check_journal(plan, digest)
                writer.write(numbers, lambda block_number, size: finished.append((block_number, size)))
                writer.sync()
        except OSError as error:
            prefix = f"{error.filename}: " if error.filename else ""
            return f"a worker on {platform.node()} says: {prefix}{error.strerror or error}"
        except ValueError as error:
            return f"a worker says: {_one_line(error)}"
    return finished


def _check_journal(plan: BasePlan, digest: str) -> None:
    """Refuse a late task: another plan may have begun, or the plan may be complete."""
    staging = staging_of(plan)
    if not is_under_way(staging.journal, digest):
        raise BindingError(
            f"{staging.journal} is not the journal of this plan: workers need the same files under the same paths"
        )


def _open(data: bytes, token: str, digest: str) -> tuple[Any, Any]:
    if token not in _OPEN:
        while len(_OPEN) >= MAX_OPEN:
            _OPEN.pop(next(iter(_OPEN)))[1].__exit__()
        plan = pickle.loads(data)
        _check_journal(plan, digest)
        _OPEN[token] = plan, writer_of(plan)
    opened: tuple[Any, Any] = _OPEN[token]
    return opened


def _forget(token: str) -> None:
    """Close the files of a plan after the block that is being written."""

    def close() -> None:
        with _LOCK:
            if token in _OPEN:
                _OPEN.pop(token)[1].__exit__()

    threading.Thread(target=close, daemon=True).start()
