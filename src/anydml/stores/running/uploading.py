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
from anydml.stores.formats.model_files import INDEX, METADATA
from anydml.stores.formats.store import state_of
from anydml.stores.running.journal import lock


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
        self._journal = self.local_path.parent / "sent"

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

    def _sent(self) -> dict[str, Any]:
        """Return the states of what was uploaded, by name: None for a file whose upload was interrupted."""
        sent: dict[str, Any] = json.loads(self._journal.read_text("utf-8")) if self._journal.exists() else {}
        return sent

    def remarks(self) -> list[str]:
        """Describe what is uploaded again although parts of it may have arrived."""
        return [
            f"sends {show(name)} again from its beginning: its upload was interrupted, "
            "and obstore has no calls that list and complete the parts of an upload"
            for name, states in self._sent().items()
            if states is None
        ]

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
                (self.to / name).unlink(missing_ok=True)
            for upload_file in sorted(files, key=lambda file: (file.name.endswith(last), file)):
                name = upload_file.relative_to(self.local_path).as_posix()
                target = self.to if upload_file == self.local_path else self.to / name
                state = [*state_of(upload_file.stat())]
                if name in sent and sent[name] == [state, [*target.state()]]:
                    continue
                sent[name] = None
                self._keep(json.dumps(sent))
                target.copy_from(upload_file)
                sent[name] = state, target.state()
                self._keep(json.dumps(sent))
            shutil.rmtree(self.local_path.parent)
        except OSError as error:
            raise location.error(
                f"cannot be written: {error.strerror or error}; repeat the command to resume"
            ) from None

    def _keep(self, text: str) -> None:
        part = self._journal.with_name("sent.part")
        part.write_text(text, "utf-8")
        os.replace(part, self._journal)
