"""Outputs at addresses: made on this machine, and then sent, a file at a time, until all have their names."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from pathlib import Path

from anydml.files.addresses import Address, check_written
from anydml.files.json_path import JsonPath
from anydml.stores.formats.model_files import INDEX, METADATA
from anydml.stores.formats.store import state_of


class Upload:
    """A file or folder that gets another place.

    Args:
        to: the address.
        scratch: a folder with room for all of it.

    Attributes:
        made: where it is made first.

    Raises:
        ModelError: nothing is written at this address.
    """

    def __init__(self, to: Address, scratch: Path) -> None:
        check_written(to)
        self.to = to
        digest = hashlib.sha256(str(to).encode()).hexdigest()[:12]
        self.made = scratch / f"anydml-{digest}" / to.name
        self._journal = self.made.parent / "sent"

    def check_free(self) -> None:
        """Refuse a name that is taken, unless an interrupted run of the same output has begun to take it.

        Raises:
            ModelError: there is something.
        """
        place = JsonPath(str(self.to))
        with place.reading():
            if not self._journal.exists() and self.to.exists():
                raise place.error("exists already: name another, or remove it first; nothing is replaced at addresses")

    def send(self) -> None:
        """Send what was made, and remove it here; files that were sent before, and have not changed, are left out.

        Raises:
            ModelError: it cannot be sent; the same call goes on with the next file.
        """
        self.check_free()
        place = JsonPath(str(self.to))
        files = [self.made] if self.made.is_file() else [entry for entry in self.made.rglob("*") if entry.is_file()]
        # By these, readers find the others.
        last = (INDEX, METADATA)
        try:
            sent = json.loads(self._journal.read_text("utf-8")) if self._journal.exists() else {}
            for name in sent.keys() - {file.relative_to(self.made).as_posix() for file in files}:
                # An interrupted run with other options, whose output this one replaces, had sent it.
                (self.to / name).unlink(missing_ok=True)
            for upload_file in sorted(files, key=lambda file: (file.name.endswith(last), file)):
                name = upload_file.relative_to(self.made).as_posix()
                target = self.to if upload_file == self.made else self.to / name
                state = [*state_of(upload_file.stat())]
                if name in sent and sent[name] == [state, [*target.state()]]:
                    continue
                target.copy_from(upload_file)
                sent[name] = state, target.state()
                self._keep(json.dumps(sent))
            shutil.rmtree(self.made.parent)
        except OSError as error:
            raise place.error(f"cannot be written: {error.strerror or error}; repeat the command to resume") from None

    def _keep(self, text: str) -> None:
        part = self._journal.with_name("sent.part")
        part.write_text(text, "utf-8")
        os.replace(part, self._journal)
