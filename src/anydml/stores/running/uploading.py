"""Outputs at addresses: written locally, and then uploaded file by file."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from pathlib import Path
from typing import Any

from anydml.files.addresses import Address, check_written
from anydml.files.location import Location, show
from anydml.files.multipart import PartedUploads, why_restarted
from anydml.files.object_paths import PART_BYTES
from anydml.stores.formats.model_files import INDEX, METADATA
from anydml.stores.formats.store import state_of
from anydml.stores.running.journal import lock
from anydml.text import count_noun

Sent = tuple[list[int], str | None, list[Any] | None]
"""The state of a local file; then the ID by which its interrupted upload is resumed, or the state of its object."""


class Upload:
    """A file or folder that is uploaded.

    Args:
        to: the address.
        scratch: a folder with room for all of it.

    Attributes:
        local_path: the path of the file on this machine.

    Raises:
        ModelError: outputs cannot be written at this address.
    """

    def __init__(self, to: Address, scratch: Path) -> None:
        check_written(to)
        self.to = to
        digest = hashlib.sha256(str(to).encode()).hexdigest()[:12]
        self.local_path = scratch / f"anydml-{digest}" / to.name
        self._journal = self.local_path.parent / "sent.json"
        self._parted = PartedUploads()

    def check_free(self) -> None:
        """Refuse an address that is taken, unless an interrupted run of the same output began to write there.

        Raises:
            ModelError: the name is taken.
        """
        location = Location(str(self.to))
        with location.reading():
            if not self._journal.exists() and self.to.exists():
                raise location.error(
                    "exists already: name another, or remove it first; nothing is replaced at addresses"
                )

    def _sent(self) -> dict[str, Sent]:
        sent: dict[str, Sent] = json.loads(self._journal.read_text("utf-8")) if self._journal.exists() else {}
        return sent

    def _target(self, name: str) -> Address:
        return self.to if name == "." else self.to / name

    def remarks(self, largest: int) -> list[str]:
        """Describe what an interrupted run has left to be sent, and whether an interruption of this one costs more.

        Args:
            largest: bytes of the largest file.

        Raises:
            ModelError: a request fails.
        """
        why, remarks = why_restarted(self.to), list[str]()
        for name, (state, upload_id, sent_state) in self._sent().items():
            file, target = self.local_path / name, self._target(name)
            if sent_state is not None:
                continue
            is_same = file.is_file() and [*state_of(file.stat())] == state
            with Location(str(target)).reading():
                tags = self._parted.arrived(file, target, upload_id) if is_same and upload_id and not why else None
            if tags is None:
                reason = why or ("the server has none of its parts" if is_same else "it has changed")
                remarks.append(f"sends {show(target.name)} again from its beginning: {reason}")
            else:
                remarks.append(f"resumes the upload of {show(target.name)}: {count_noun(len(tags), 'part')} arrived")
        if why is not None and not remarks and largest > PART_BYTES:
            remarks.append(f"would send a file again from its beginning if this is interrupted: {why}")
        return remarks

    def send(self) -> None:
        """Upload the output, and remove the local copy; unchanged files that were uploaded before are left out.

        Raises:
            ModelError: a file cannot be uploaded; another call continues with this file.
        """
        # Another process that sends the same output ends first, and then the address is taken.
        with lock(self.local_path.parent, False):
            self.check_free()
            self._send()

    def _send(self) -> None:
        location = Location(str(self.to))
        entries = [self.local_path, *self.local_path.rglob("*")]
        files = [entry for entry in entries if entry.is_file()]
        # Readers find the other files by these, which therefore come last.
        last = (INDEX, METADATA)
        try:
            sent = self._sent()
            for name in sent.keys() - {file.relative_to(self.local_path).as_posix() for file in files}:
                # An interrupted run with other options uploaded the file; this output replaces that run's.
                self._parted.abort(self._target(name), sent[name][1])
                self._target(name).unlink(missing_ok=True)
            for upload_file in sorted(files, key=lambda file: (file.name.endswith(last), file)):
                name = upload_file.relative_to(self.local_path).as_posix()
                target, state = self._target(name), [*state_of(upload_file.stat())]
                before, upload_id, sent_state = sent.get(name, (None, None, None))
                if before == state and sent_state is not None and sent_state == [*target.state()]:
                    continue
                if before != state:
                    self._parted.abort(target, upload_id)
                    upload_id = None
                for begun_id in self._parted.send(upload_file, target, upload_id):
                    sent[name] = state, begun_id, None
                    self._keep(sent)
                sent[name] = state, None, [*target.state()]
                self._keep(sent)
            shutil.rmtree(self.local_path.parent)
        except OSError as error:
            raise location.error(
                f"cannot be written: {error.strerror or error}; repeat the command to resume"
            ) from None

    def _keep(self, sent: dict[str, Sent]) -> None:
        part = self._journal.with_name("sent.part")
        part.write_text(json.dumps(sent), "utf-8")
        os.replace(part, self._journal)
