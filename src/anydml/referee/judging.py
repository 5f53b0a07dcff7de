"""Runs of an engine over cases, in processes: a crash or hang is a verdict, and the next case runs in a new process."""

from __future__ import annotations

import contextlib
import json
import os
import queue
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any, NamedTuple

from anydml.errors import ModelError
from anydml.processes import start_python
from anydml.referee.case_folders import StoredCase
from anydml.referee.engines import check_engine
from anydml.referee.find_cases import find_cases, number_in_file
from anydml.referee.verdicts import (
    AGREES,
    CRASHES,
    DIFFERS,
    FAILURES,
    HANGS,
    MISSING,
    UNREADABLE,
    VERDICTS,
    Verdict,
    kind_of,
    without_excuses,
)
from anydml.text import count_noun

CASE_SECONDS = 20.0
"""Maximum time of a case."""

MEMORY = 4 << 30
"""Maximum bytes of a case, beyond those of the loaded engine."""

MIN_MEMORY = 64 << 20
"""Minimum limit in bytes: with less, the engine's threads cannot start."""

ENGINE_START_SECONDS = 120.0
"""Maximum seconds for loading an engine."""


class EngineReport(NamedTuple):
    """The verdicts of an engine over cases.

    Attributes:
        engine: the engine's name and version.
        folder: the folder of the cases.
        cases: the cases.
        verdicts: one per case, in the order of the cases.
        seconds: the time that all cases took.
        restarts: the number of restarts of workers.
        undone: cases whose crash of a shared worker did not recur in a worker of their own; see earlier cases.
    """

    engine: str
    folder: Path
    cases: tuple[StoredCase, ...]
    verdicts: tuple[Verdict, ...]
    seconds: float
    restarts: int
    undone: tuple[str, ...]

    @property
    def counts(self) -> dict[str, int]:
        """The number of cases by verdict."""
        counts = Counter(verdict.verdict for verdict in self.verdicts)
        return {verdict: counts[verdict] for verdict in VERDICTS}

    @property
    def doubted(self) -> int:
        """The illegal cases that the engine refused without running any legal case of their operator."""
        illegal = {case.name for case in self.cases if not case.is_valid}
        ran = {
            verdict.operator
            for verdict in self.verdicts
            if verdict.verdict in (AGREES, DIFFERS) and verdict.case not in illegal
        }
        refused = (verdict for verdict in self.verdicts if verdict.verdict == AGREES and verdict.case in illegal)
        return sum(case.operator not in ran for case in refused)

    @property
    def ways(self) -> dict[str, int]:
        """The number of cases by the way they were run, the most frequent first; empty if the engine has one way."""
        return dict(Counter(verdict.way for verdict in self.verdicts if verdict.way).most_common())

    @property
    def is_clean(self) -> bool:
        """Whether some cases agree, all can be read and have outputs, and no verdict is one of `FAILURES`."""
        failed = any(verdict.verdict in FAILURES or verdict.kind in (UNREADABLE, MISSING) for verdict in self.verdicts)
        return not failed and self.counts[AGREES] > 0


def judge(
    folder: Path | str,
    engine: str,
    jobs: int | None = None,
    seconds: float = CASE_SECONDS,
    memory: int = MEMORY,
    progress: Callable[[int], None] = lambda done: None,
) -> EngineReport:
    """Run an engine over the cases of a folder.

    Args:
        folder: a folder of cases, or one case.
        engine: ``"anydml"``, ``"onnxruntime"``, ``"reference"``, ``"openvino"``, ``"tract"``, ``"command:PROGRAM"``, or
            ``"outputs:FOLDER"`` for outputs that another machine has written beside the cases; ``"anydml:reference"``
            and so on run DirectML's desc of a case, if it has one, on a device of anydml.
        jobs: worker processes; by default one per core, 4 at most.
        seconds: the maximum time of a case.
        memory: bytes that a case may take; 0 for no limit.
        progress: called with the number of finished cases.

    Raises:
        ModelError: the folder has no cases or one is not whole, there is no such engine, it cannot be loaded, or
            ``memory`` is less than any case takes.
    """
    check_engine(engine)
    if 0 < memory < MIN_MEMORY:
        raise ModelError(
            f"--memory is {count_noun(memory, 'byte')}",
            rule=f"give at least {MIN_MEMORY >> 20} MiB, which an engine takes for its threads, or 0 for no limit",
        )
    cases = find_cases(Path(folder))
    queued: queue.SimpleQueue[tuple[int, StoredCase]] = queue.SimpleQueue()
    for k, case in enumerate(cases):
        queued.put((k, case))
    run = _Run(engine, seconds, memory, queued, [None] * len(cases), progress)
    started = time.perf_counter()
    count = min(jobs or min(4, os.cpu_count() or 1), len(cases))
    threads = [threading.Thread(target=run.work, daemon=True) for _ in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if run.error:
        raise ModelError(run.error)
    verdicts = without_excuses([verdict for verdict in run.verdicts if verdict is not None])
    if len(verdicts) != len(cases):
        raise ModelError(f"{count_noun(len(cases) - len(verdicts), 'case')} got no verdict")
    return EngineReport(
        run.version,
        Path(folder),
        tuple(cases),
        verdicts,
        time.perf_counter() - started,
        run.restarts,
        tuple(run.undone),
    )


class _Run:
    """The work of all threads, each of which has its own process."""

    def __init__(
        self,
        engine: str,
        seconds: float,
        memory: int,
        queued: queue.SimpleQueue[tuple[int, StoredCase]],
        verdicts: list[Verdict | None],
        progress: Callable[[int], None],
    ) -> None:
        self.engine, self.seconds, self.memory, self.queued, self.verdicts = engine, seconds, memory, queued, verdicts
        self.version = self.error = ""
        self.restarts = self.done = 0
        self.undone: list[str] = []
        self._progress, self._lock = progress, threading.Lock()

    def work(self) -> None:
        """Take cases until there are none, or the engine cannot be loaded."""
        worker: Worker | None = None
        try:
            while not self.error:
                k, stored = self.queued.get_nowait()
                if worker is None:
                    worker = Worker(self.engine, self.memory)
                    self.version = worker.version
                verdict = worker.answer(stored, self.seconds)
                if verdict.verdict == CRASHES and worker.answers > 1 and not worker.is_alive():
                    # Run the case again, alone: the crash may be due to an earlier case.
                    worker.close()
                    worker = Worker(self.engine, self.memory)
                    self.restarts += 1
                    verdict = worker.answer(stored, self.seconds)
                    if verdict.verdict != CRASHES:
                        self.undone.append(stored.name)
                self.verdicts[k] = verdict
                if not worker.is_alive():
                    worker.close()
                    worker = None
                    self.restarts += 1
                with self._lock:
                    self.done += 1
                    self._progress(self.done)
        except queue.Empty:
            pass
        except ModelError as error:
            self.error = str(error)
        # A case must not vanish with its thread.
        except Exception as error:
            self.error = f"the work on cases ended: {type(error).__name__}: {error}"
        finally:
            if worker is not None:
                worker.close()


START = """
import json, sys
sys.path[:] = json.loads(sys.stdin.readline())
from anydml.referee.worker import main
main(sys.argv[1], int(sys.argv[2]))
"""
"""The code of a worker's process, which has the same import path."""


class Worker:
    """A process of `anydml.referee.worker`.

    Attributes:
        version: the engine's name and version.
        answers: the number of cases that it was given.

    Raises:
        ModelError: the engine cannot be loaded, or no process can be started.
    """

    def __init__(self, engine: str, memory: int) -> None:
        self._errors: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115  # as long as the process
        # Collecting a backtrace takes longer than most cases.
        quiet = {**os.environ, "RUST_BACKTRACE": "0"}
        try:
            self._process = start_python(
                START,
                "to run engines",
                [engine, str(memory)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._errors,
                text=True,
                encoding="utf-8",
                env=quiet,
                start_new_session=True,
            )
        except ModelError:
            self._errors.close()
            raise
        self._is_late = False
        self.answers = 0
        assert self._process.stdin is not None, "it is a pipe"
        with contextlib.suppress(OSError):  # the process has ended, which is noticed when it does not answer
            self._process.stdin.write(json.dumps(sys.path) + "\n")
            self._process.stdin.flush()
        self._lines: queue.SimpleQueue[str] = queue.SimpleQueue()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        answer = self._line(ENGINE_START_SECONDS)
        if answer is None or "error" in answer:
            reason = answer["error"] if answer else f"it ended while it was loaded: {self._describe_end(0, last=True)}"
            self.close()
            raise ModelError(f"the engine {engine!r} cannot be used: {reason}")
        self.version: str = answer["version"]

    def answer(self, stored: StoredCase, seconds: float) -> Verdict:
        """Return the verdict on a case."""
        self.answers += 1
        before = self._errors.seek(0, os.SEEK_END)
        assert self._process.stdin is not None
        try:
            case = [str(stored.folder), number_in_file(stored), stored.name]
            self._process.stdin.write(json.dumps(case) + "\n")
            self._process.stdin.flush()
            answer = self._line(seconds)
        except BrokenPipeError:
            answer = None
        if answer is not None:
            return Verdict(**answer)
        code = self._process.wait()
        base = Verdict(stored.name, stored.operator, CRASHES)
        if self._is_late:
            return base._replace(verdict=HANGS, kind=f"longer than {seconds:g} s", detail=f"longer than {seconds:g} s")
        name = signal.Signals(-code).name if code < 0 else f"exit code {code}"
        stderr_text = self._describe_end(before)
        return base._replace(kind=kind_of(f"{name} {stderr_text}"), detail=f"{name} {stderr_text}".strip())

    def _read(self) -> None:
        """Read the output of the process, in another thread."""
        assert self._process.stdout is not None
        with self._process.stdout as lines:
            for line in lines:
                # The last line may be cut off.
                if line.endswith("\n"):
                    self._lines.put(line)

    def _line(self, seconds: float) -> Any:
        """Return the next line of the process; None if it ends, or is ended after the time limit.

        Its output may stay open afterwards, if the engine has started other processes that hold it.
        """
        until = time.monotonic() + seconds
        while True:
            has_ended = self._process.poll() is not None
            try:
                return json.loads(self._lines.get(timeout=0.2))
            except queue.Empty:
                if has_ended:
                    return None
            if time.monotonic() > until:
                self._is_late = True
                self._kill()

    def _kill(self) -> None:
        """End the process, and those that it has started."""
        if sys.platform == "win32":
            self._process.kill()
            return
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)

    def _describe_end(self, before: int, last: bool = False) -> str:
        self._errors.seek(before)
        lines = self._errors.read().decode("utf-8", "replace").strip().splitlines()
        return lines[-1 if last else 0] if lines else ""

    def is_alive(self) -> bool:
        """Whether the process runs."""
        return self._process.poll() is None

    def close(self) -> None:
        """End the process."""
        if self._process.stdin is not None:
            # The process may have ended.
            with contextlib.suppress(OSError):
                self._process.stdin.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(5)
        self._kill()
        self._process.wait()
        # A process that has left the group may hold the output; the thread closes it when that process ends.
        self._reader.join(1)
        self._errors.close()
