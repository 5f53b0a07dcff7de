"""Journals at addresses: one object beside the output, written anew while the plan runs.

It has the lines of a local journal: the first identifies the plan, and the process that writes it; then follow ranges
of finished blocks, and ``whole``. Stores replace an object only if it is the one that was read last, so that a process
learns that another one has taken its output over.
"""

from __future__ import annotations

import json
import os
import threading
import time
import uuid
from contextlib import suppress
from typing import Any

from anydml.errors import ModelError
from anydml.files.addresses import Address
from anydml.files.location import Location
from anydml.files.object_stores import first_line
from anydml.stores.running.journal import boot_id

SECONDS = 1.0
"""Seconds between two versions of a journal while blocks are finished."""

AT_MOST = 5.0
"""Seconds between two versions of a journal while no blocks are finished."""

WATCHED = 4 * AT_MOST
"""Seconds without a new version after which the process that wrote a journal has been killed."""


Version = tuple[list[bytes], str | None]
"""The lines of a journal, and its tag; none, and None, where there is no journal."""


def read_journal(path: Address) -> Version:
    """Return the journal that is at an address.

    Raises:
        ModelError: the journal cannot be read.
    """
    import obstore

    try:
        response = obstore.get(path.store, path.key)
        return bytes(response.bytes()).split(b"\n"), response.meta["e_tag"]
    except FileNotFoundError:
        return [], None
    except Exception as error:
        raise Location(str(path)).error(f"cannot be read: {first_line(error)}") from None


class JournalElsewhere:
    """A journal like `Journal`, at an address. `take` writes a new journal, before anything else is written.

    Args:
        path: the address of the journal.
        digest: the digest of the plan.
        left: the result of `read_journal`.

    Raises:
        ModelError: another process writes the same output, or the journal cannot be written.
    """

    def __init__(self, path: Address, digest: str, left: Version) -> None:
        self.path = path
        self._digest, self._run = digest, uuid.uuid4().hex
        self._location = Location(str(path))
        self._lock, self._saving, self._over = threading.Lock(), threading.Lock(), threading.Event()
        self._lost: Exception | None = None
        journal, self._tag = self._abandoned_journal(left)
        self._ranges, self.is_whole = _ranges_of(journal, digest)
        self.finished = {block_number for low, high in self._ranges for block_number in range(low, high)}
        self._count, self._is_new = len(self.finished), False
        self._thread: threading.Thread | None = None
        if self._tag is not None:
            self.take()

    def take(self) -> None:
        """Write the first version of this process, which keeps others from the output.

        Raises:
            ModelError: another process writes the same output, or the journal cannot be written.
        """
        if self._thread is None:
            try:
                self._save()
            except ModelError as error:
                self._lost = error
                raise
            self._thread = threading.Thread(target=self._keep, daemon=True)
            self._thread.start()

    @property
    def is_taken(self) -> bool:
        """Whether this process has written a version."""
        return self._thread is not None

    def _abandoned_journal(self, left: Version) -> Version:
        """Return the journal at the address, whose process must have been killed."""
        written, tag = left
        if tag is None or _is_dead(written):
            return left
        end = time.monotonic() + WATCHED
        while time.monotonic() < end:
            time.sleep(SECONDS)
            written, version = read_journal(self.path)
            if version is None:
                raise self._location.error("another process has just written the same output")
            if version != tag:
                raise self._location.error("another process is writing the same output")
        return written, tag

    def _save(self, is_left: bool = False) -> None:
        """Write a new version, if the version at the address is the last that this process knows.

        Args:
            is_left: whether this process ends, and another one may go on at once.

        Raises:
            ModelError: another version is there, or this one cannot be written.
        """
        with self._saving:
            self._write_version(is_left)

    def _write_version(self, is_left: bool) -> None:
        import obstore

        with self._lock:
            first = {
                "plan": self._digest,
                "run": self._run,
                "boot": boot_id(),
                "process": None if is_left else os.getpid(),
            }
            lines = [json.dumps(first), *(f"{low}-{high}" for low, high in self._ranges), *["whole"] * self.is_whole]
            text = "".join(f"{line}\n" for line in lines).encode()
            self._is_new = False
        mode: Any = "create" if self._tag is None else {"e_tag": self._tag}
        try:
            self._tag = obstore.put(self.path.store, self.path.key, text, mode=mode, use_multipart=False)["e_tag"]
        except (obstore.exceptions.AlreadyExistsError, obstore.exceptions.PreconditionError):
            # The first request may have succeeded before it was repeated.
            written, tag = read_journal(self.path)
            if b"\n".join(written) != text:
                raise self._location.error("another process is writing the same output") from None
            self._tag = tag
        except Exception as error:
            raise self._location.error(
                f"cannot be written: {first_line(error)}; repeat the command to resume"
            ) from None

    def _keep(self) -> None:
        """Write new versions until the plan is over."""
        last = time.monotonic()
        while not self._over.wait(SECONDS):
            if self._is_new or time.monotonic() - last >= AT_MOST:
                last = time.monotonic()
                try:
                    self._save()
                except ModelError as error:
                    self._lost = error
                    return

    def check(self) -> None:
        """Raise an error if another process has taken the output over.

        Raises:
            ModelError: another process writes it, or the journal could not be written.
        """
        if self._lost is not None:
            raise self._lost

    @property
    def count(self) -> int:
        """Blocks that were written, by this run or an earlier one."""
        return self._count

    @property
    def is_empty(self) -> bool:
        """Whether no block was written, by this run or an earlier one, nor by the process that took its output over."""
        return not self._count and self._lost is None

    def restart(self, _digest: str) -> None:
        """Forget finished blocks."""
        self.check()
        if self._ranges or self.is_whole:
            with self._lock:
                self._ranges, self.finished, self.is_whole, self._count = [], set(), False, 0
            self._save()

    def add(self, block: int, _size: int) -> None:
        """Record that a block was written, within a second.

        Raises:
            ModelError: as `check`.
        """
        self.check()
        with self._lock:
            if self._ranges and self._ranges[-1][1] == block:
                self._ranges[-1] = self._ranges[-1][0], block + 1
            else:
                self._ranges.append((block, block + 1))
            self._count, self._is_new = self._count + 1, True

    def mark_synced(self) -> None:
        """Record that everything is written but the metadata.

        Raises:
            ModelError: as `check`.
        """
        self.check()
        with self._lock:
            self.is_whole = True
        self._save()

    def close(self, is_over: bool) -> None:
        """Write the last version, or remove the journal if the plan is done."""
        self._over.set()
        if self._thread is None:
            return
        self._thread.join()
        if self._lost is not None:
            return
        with suppress(OSError, ModelError):
            if is_over:
                self.path.unlink(missing_ok=True)
            else:
                self._save(is_left=True)


def _ranges_of(lines: list[bytes], digest: str) -> tuple[list[tuple[int, int]], bool]:
    """Return the finished ranges in a journal, and whether all are finished; nothing for another plan's journal."""
    try:
        if json.loads(lines[0])["plan"] != digest:
            return [], False
        ends = [line.split(b"-") for line in lines[1:] if b"-" in line]
        return [(int(low), int(high)) for low, high in ends], b"whole" in lines
    except (IndexError, KeyError, TypeError, ValueError):
        return [], False


def _is_dead(lines: list[bytes]) -> bool:
    """Whether the process that wrote a journal has given it up, or has ended on this machine."""
    try:
        first = json.loads(lines[0])
        if first["process"] is None:
            return True
        if first["boot"] is None or first["boot"] != boot_id():
            return False
        os.kill(int(first["process"]), 0)
        return False
    except ProcessLookupError:
        return True
    except (IndexError, KeyError, TypeError, ValueError, OSError):
        return False
