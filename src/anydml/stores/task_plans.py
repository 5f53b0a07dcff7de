"""Tasks: a plan of `rechunk` in a file, whose parts any processes run, in any order and several times."""

from __future__ import annotations

import hashlib
import itertools
import json
import math
import os
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from inspect import signature
from pathlib import Path
from typing import Any

from anydml._version import __version__
from anydml.errors import BindingError
from anydml.files.addresses import Address
from anydml.files.location import Location
from anydml.paths import path_text
from anydml.stores.argument_checks import checked
from anydml.stores.formats.inside_files import PathInFile, absolute_path, locate_inside
from anydml.stores.formats.safetensors import parse_json
from anydml.stores.formats.zarr_strings import holds_strings
from anydml.stores.planning.block_shapes import size_of
from anydml.stores.planning.grid_blocking import GridBlocking
from anydml.stores.plans import Plan
from anydml.stores.rechunking import rechunk
from anydml.stores.running.task_runs import begin, finish, finished_tasks, write_task
from anydml.text import count_noun

TASK_BYTES = 256 << 20
"""Bytes that a task writes, where their number is not given."""


@checked()
def plan_tasks(
    file: str | os.PathLike[str],
    source: str | os.PathLike[str],
    target: str | os.PathLike[str],
    tasks: int | None = None,
    **options: Any,
) -> Plan:
    """Plan to rewrite arrays as `rechunk` does, and write the plan as tasks that any processes may run.

    The outputs are begun under hidden names, beside which the tasks leave what they have finished. `run_task` runs
    one, and `finish_tasks` writes what none has written and gives the outputs their names.

    Args:
        file: the JSON file that is written.
        source: as for `rechunk`; all processes must find it, and the target, under the same path.
        target: as for `rechunk`.
        tasks: their number; by default each writes about 256 MiB, or reads as many bytes of files with texts. Where the
            blocks of the plan are fewer, they are made smaller; where they cannot be, the last tasks have nothing to
            do.
        options: further arguments of `rechunk`.

    Returns:
        The plan.

    Raises:
        ModelError: as in `rechunk`, or an output exists, or the file exists and is not such a plan.
        BindingError: as in `rechunk`, or neither the source nor the target is in chunks.

    Examples:
        >>> from anydml import stores
        >>> np.save("x.npy", np.arange(6).reshape(2, 3))
        >>> plan = stores.plan_tasks("plan.json", "x.npy", "x.zarr", tasks=2, chunks=[1, 3], memory="1MB")
        >>> stores.run_task("plan.json", 0)
        >>> stores.finish_tasks("plan.json").resumed
        1
        >>> stores.open("x.zarr").shape
        (2, 3)
    """
    written = Path(path_text("plan_tasks", file))
    location = Location(str(written))
    if tasks is not None and (isinstance(tasks, bool) or not isinstance(tasks, int) or tasks < 1):
        raise BindingError(f"{location}: tasks must be a number of tasks, at least 1, not {tasks!r:.40}")
    paths = [str(absolute_path(locate_inside("rechunk", path))) for path in (source, target)]
    plan = rechunk(paths[0], paths[1], **options)
    if not isinstance(plan.blocking, GridBlocking):
        raise BindingError(
            "--plan needs an array in chunks, as of Zarr, as IN or OUT: leave it out, or call rechunk for plan_tasks"
        )
    count = tasks or math.ceil(max(plan.totals.bytes_written, _text_bytes(plan)) / TASK_BYTES)
    plan.blocking = plan.blocking.divided(count)
    work = _work_digest(plan)
    groups = _groups(plan, tasks or min(count, len(plan.blocks)) or 1)
    document = _document_in(location, written)
    digest = _digest_in(document, work, groups) or f"{plan.digest()}-{uuid.uuid4().hex}"
    report = {"anydml": __version__, "digest": digest, "work": work, "source": paths[0], "target": paths[1]}
    part = written.with_name(f".{written.name}.anydml-part")
    try:
        written.parent.mkdir(parents=True, exist_ok=True)
        with part.open("w", encoding="utf-8") as out:
            # Outputs are begun only if the file can be written.
            begin(plan, digest)
            out.write(f'{json.dumps({**report, "options": options})[:-1]}, "tasks": [\n')
            for task_number, blocks in enumerate(groups):
                out.write((",\n" if task_number else "") + json.dumps(_describe(plan, task_number, blocks)))
            out.write("\n]}\n")
        part.replace(written)
    except OSError as error:
        raise location.error(f"cannot be written: {error.strerror or error}") from None
    finally:
        with suppress(OSError):
            part.unlink(missing_ok=True)
    idle = sum(not blocks for blocks in groups)
    blocks_there = f"there {'is' if len(plan.blocks) == 1 else 'are'} only {count_noun(len(plan.blocks), 'block')}"
    explanation = f"; {idle} of them {'has' if idle == 1 else 'have'} nothing to do: {blocks_there}" if idle else ""
    plan.remarks.append(f"is divided into {count_noun(len(groups), 'task')} in {written}{explanation}")
    return plan


@checked()
def run_task(file: str | os.PathLike[str], number: int, progress: bool | Callable[[int], None] = False) -> None:
    """Run a task of a plan. A task that was run already, or by a process that died, may be run again.

    Nothing is done if `finish_tasks` has given the outputs their names.

    Args:
        file: the file that `plan_tasks` wrote.
        number: the number of the task, from 0.
        progress: as in `Plan.run`.

    Raises:
        ModelError: a file cannot be read or written.
        BindingError: there is no such task, or something has changed since the plan was made.

    Examples:
        >>> from anydml import stores
        >>> np.save("x.npy", np.arange(6).reshape(2, 3))
        >>> plan = stores.plan_tasks("plan.json", "x.npy", "x.zarr", chunks=[1, 3])
        >>> stores.run_task("plan.json", 0)
        >>> stores.finish_tasks("plan.json").resumed == len(plan.blocks)
        True
    """
    plan, document, location = _read_plan("run_task", file)
    tasks = document["tasks"]
    if isinstance(number, bool) or not isinstance(number, int) or not 0 <= number < len(tasks):
        raise BindingError(
            f"{location} has {count_noun(len(tasks), 'task')}, numbered from 0: there is no task {number!r:.20}"
        )
    first, last = tasks[number]["blocks"]
    write_task(plan, str(document["digest"]), number, range(first, last), progress)


@checked()
def finish_tasks(file: str | os.PathLike[str], progress: bool | Callable[[int], None] = False) -> Plan:
    """Write the blocks that no task has written, and give the outputs their names.

    Args:
        file: the file that `plan_tasks` wrote.
        progress: as in `Plan.run`.

    Returns:
        The plan; its `resumed` says how many blocks the tasks had written, and `already_complete` whether the
        outputs had their names, so that nothing was left to do.

    Raises:
        ModelError: a file cannot be read or written.
        BindingError: something has changed since the plan was made.

    Examples:
        >>> from anydml import stores
        >>> np.save("x.npy", np.arange(6).reshape(2, 3))
        >>> plan = stores.plan_tasks("plan.json", "x.npy", "x.zarr", chunks=[1, 3])
        >>> stores.finish_tasks("plan.json").resumed
        0
    """
    plan, document, _ = _read_plan("finish_tasks", file)
    blocks = [range(*task["blocks"]) for task in document["tasks"]]
    finished = finished_tasks(plan, str(document["digest"]), len(blocks))
    finish(
        plan,
        str(document["digest"]),
        [block_number for task in finished for block_number in blocks[task]],
        len(blocks),
        progress,
    )
    return plan


def _read_plan(name: str, file: str | os.PathLike[str]) -> tuple[Plan, Mapping[str, Any], Location]:
    """Read a file of tasks; return the plan, which is made again, the JSON document, and the file's location.

    Raises:
        ModelError: `plan_tasks` did not write the file.
        BindingError: another plan comes of it now.
    """
    path = Path(path_text(name, file))
    location = Location(str(path))
    with location.reading():
        document = parse_json(path.read_bytes(), location, "text")
    try:
        source, target, options, work = (document[key] for key in ("source", "target", "options", "work"))
        block_ranges = [task["blocks"] for task in document["tasks"]]
        is_plan = all(len(interval) == 2 and all(isinstance(end, int) for end in interval) for interval in block_ranges)
        is_plan = is_plan and {*options} <= {*signature(rechunk).parameters}
        version = str(document["anydml"])
    except (TypeError, LookupError):
        is_plan, version = False, ""
    if not is_plan:
        raise location.error("is not a plan: name a file that anydml rechunk --plan has written")
    if version != __version__:
        raise location.error(f"is a plan of anydml {version[:20]}, and this is {__version__}: plan it again")
    plan = rechunk(str(source), str(target), **options)
    if isinstance(plan.blocking, GridBlocking):
        plan.blocking = plan.blocking.divided(len(block_ranges))
    if _work_digest(plan) != work or any(not 0 <= first <= last <= len(plan.blocks) for first, last in block_ranges):
        raise BindingError(f"{location}: {source} has changed since the plan was made: plan it again")
    return plan, document, location


def _text_bytes(plan: Plan) -> int:
    """Return bytes of the files that hold strings of any length, whose elements a plan counts as numbers."""
    return sum(map(_bytes_inside, {store.path for store in plan.inputs if holds_strings(store.dtype)}))


def _bytes_inside(folder: Path) -> int:
    if isinstance(folder, PathInFile):
        objects, start = folder.references.objects, f"{folder.key}/" if folder.key else ""
        sizes = (len(content) if isinstance(content, bytes) else content.length()
                 for name, content in objects.items() if name.startswith(start))  # fmt: skip
        return sum(sizes)
    if isinstance(folder, Address):
        return sum(int(entry["size"]) for entry in folder.inside()) if folder.is_listed else 0
    return sum(os.stat(Path(root, name)).st_size for root, _, files in os.walk(folder) for name in files)


def _document_in(location: Location, file: Path) -> Any:
    """Return the plan in a file, which a new one replaces; None if there is no file.

    Raises:
        ModelError: the file cannot be read, or is not a plan.
    """
    try:
        document = json.loads(file.read_bytes())
        _ = document["anydml"], document["digest"], document["tasks"]
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise location.error(f"cannot be read: {error.strerror or error}") from None
    except (ValueError, LookupError, TypeError, RecursionError):
        raise location.error("exists, and is not a plan of tasks: name another file, or remove it first") from None
    return document


def _digest_in(document: Any, work: str, groups: Sequence[range]) -> str | None:
    """Return the digest of a plan if it has the same work and tasks, some of which may have run; else None."""
    try:
        is_same = document["work"] == work and [range(*task["blocks"]) for task in document["tasks"]] == groups
        return str(document["digest"]) if is_same else None
    except (ValueError, LookupError, TypeError):
        return None


def _work_digest(plan: Plan) -> str:
    """Return a digest of a plan's blocks and inputs, equal on all machines that have these inputs."""
    digest = hashlib.sha256()
    for part in plan.blocking.state():
        digest.update(part)
    for path, state in plan.identities.items():
        digest.update(repr((str(path), _without_device(state))).encode())
    for array in plan.arrays:
        digest.update(repr(sorted(array.metadata.items())).encode())
    return digest.hexdigest()


def _without_device(state: Any) -> Any:
    """Return the state of a file without its device, whose number may be another one on each machine."""
    if not isinstance(state, tuple):
        return state
    return tuple(map(_without_device, state[1:] if len(state) == 5 and isinstance(state[0], int) else state))


def _groups(plan: Plan, count: int) -> list[range]:
    """Return the blocks of each task, of about equal bytes; the last ones have none if there are too few."""
    sizes = [plan.blocking.block_bytes(block_number) for block_number in range(len(plan.blocks))]
    total = sum(sizes)
    group_count, ends, planned = min(count, len(sizes)), [0], 0
    for block_number, size in enumerate(sizes[:-1], 1):
        planned += size
        # A task gets no block that a later task needs, so that every task has one.
        if len(ends) < group_count and (
            planned * group_count >= total * len(ends) or len(sizes) - block_number <= group_count - len(ends)
        ):
            ends.append(block_number)
    ends += [len(sizes)] * (count + 1 - len(ends))
    return [range(low, high) for low, high in itertools.pairwise(ends)]


def _describe(plan: Plan, task_number: int, blocks: Sequence[int]) -> dict[str, Any]:
    """Return a task for people and programs: what it reads and writes."""
    all_boxes = [*_boxes(plan, blocks)]
    return {
        "task": task_number,
        "blocks": [blocks[0], blocks[-1] + 1] if blocks else [0, 0],
        "bytes_read": sum(read.pop("bytes") for block in all_boxes for read in block["reads"]),
        "bytes_written": sum(map(plan.blocking.block_bytes, blocks)),
        "boxes": all_boxes,
    }


def _boxes(plan: Plan, blocks: Sequence[int]) -> Iterator[dict[str, Any]]:
    for block_number in blocks:
        output, _, box = plan.blocks[block_number]
        target = plan.outputs[output]
        reads = [
            {"array": str(plan.inputs[operand].path), "box": interval,
             "bytes": size_of(interval) * plan.inputs[operand].dtype.itemsize}
            for operand, interval in plan.blocking.regions(output, box)  # type: ignore[union-attr]
        ]  # fmt: skip
        files = target.layout.file
        chunks = [] if target.layout.is_one else [
            [low // size, -(-high // size)] for (low, high), size in zip(box, files, strict=True)
        ]  # fmt: skip
        yield {"reads": reads, "array": str(target.path), "box": box, "chunks": chunks}
