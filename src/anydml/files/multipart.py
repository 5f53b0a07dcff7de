"""Large files, uploaded to S3 in parts, of which an interrupted upload keeps those that have arrived.

obstore has no public calls for parts. botocore has them, and gets the settings that obstore reads.
"""

from __future__ import annotations

import importlib.util
import os
import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import cached_property
from pathlib import Path
from typing import Any

from anydml.files.location import names
from anydml.files.object_paths import PART_BYTES, ObjectPath, part_bytes

PARTS_AT_ONCE = 4
"""Parts that are in memory, and are sent, at once."""

_SETTINGS = re.compile(
    "AWS_(ACCESS_KEY_ID|SECRET_ACCESS_KEY|SESSION_TOKEN|(DEFAULT_)?REGION|ENDPOINT(_URL)?|ALLOW_HTTP|ROLE_ARN"
    "|ROLE_SESSION_NAME|WEB_IDENTITY_TOKEN_FILE|CONTAINER_.*|PROFILE|CONFIG_FILE|SHARED_CREDENTIALS_FILE|PAGER"
    "|CA_BUNDLE|EXECUTION_ENV|SDK_.*|CLI_.*|LAMBDA_.*)"
)
"""Variables that are followed here as by obstore, or ignored by both; obstore has others, such as for encryption."""

_NO_FILES = {
    "profile": (None, None, None, None),
    "config_file": (None, None, os.devnull, None),
    "credentials_file": (None, None, os.devnull, None),
}
"""Variables of a session of botocore that reads no configuration files, because obstore reads none."""


def why_restarted(to: ObjectPath) -> str | None:
    """Return why an interrupted upload to an address begins again; None if it is resumed."""
    if to.scheme != "s3":
        return "only uploads to s3:// are resumed"
    if importlib.util.find_spec("botocore") is None:
        return 'botocore, by which uploads are resumed, is not installed: pip install "anydml[remote]"'
    others = sorted(name for name in os.environ if name.startswith("AWS_") and not _SETTINGS.fullmatch(name))
    return f"uploads with the setting {names(others)} are not resumed" if others else None


class PartedUploads:
    """Uploads of files, in parts where an interrupted upload can be resumed."""

    @cached_property
    def _client(self) -> Any:
        from botocore.config import Config
        from botocore.session import Session

        setting = os.environ.get
        # A part is checked by its signature, as obstore has it; not all servers know the newer checksums.
        config = Config(
            s3={"addressing_style": "path", "payload_signing_enabled": True},
            request_checksum_calculation="when_required",
            retries={"mode": "standard", "total_max_attempts": 10},
        )
        return Session(session_vars=_NO_FILES).create_client(
            "s3",
            region_name=setting("AWS_REGION") or setting("AWS_DEFAULT_REGION") or "us-east-1",
            endpoint_url=setting("AWS_ENDPOINT_URL") or setting("AWS_ENDPOINT"),
            config=config,
        )

    def send(self, file: Path, to: ObjectPath, upload_id: str | None) -> Iterator[str | None]:
        """Upload a file, and yield the ID by which this upload can be resumed, None if it cannot be, before it is sent.

        Args:
            file: a file of this machine.
            to: its address.
            upload_id: the ID of an interrupted upload of the same file; None if there is none.

        Raises:
            OSError: the file cannot be read, or a request fails; parts that have arrived are kept.
        """
        size = file.stat().st_size
        if size <= PART_BYTES or why_restarted(to) is not None:
            yield None
            to.copy_from(file)
            return
        tags = None if upload_id is None else self.arrived(file, to, upload_id)
        with _requests(to):
            if tags is None:
                tags, upload_id = {}, self._client.create_multipart_upload(**_object(to))["UploadId"]
        yield upload_id
        step = part_bytes(size)

        def send_part(number: int) -> str:
            with file.open("rb") as opened:
                opened.seek((number - 1) * step)
                body = opened.read(step)
            return str(self._client.upload_part(**part_of, PartNumber=number, Body=body)["ETag"])

        part_of = {**_object(to), "UploadId": upload_id}
        missing = [number for number in range(1, -(-size // step) + 1) if number not in tags]
        with _requests(to):
            with ThreadPoolExecutor(PARTS_AT_ONCE, "anydml-parts") as pool:
                tags |= zip(missing, pool.map(send_part, missing), strict=True)
            parts = [{"PartNumber": number, "ETag": tag} for number, tag in sorted(tags.items())]
            self._client.complete_multipart_upload(**part_of, MultipartUpload={"Parts": parts})

    def arrived(self, file: Path, to: ObjectPath, upload_id: str) -> dict[int, str] | None:
        """Return the tags of the parts of a file that have arrived, by number from 1; None if the upload is gone.

        Raises:
            OSError: a request fails.
        """
        size = file.stat().st_size
        step = part_bytes(size)
        with _requests(to):
            try:
                pages = [*self._client.get_paginator("list_parts").paginate(**_object(to), UploadId=upload_id)]
            except self._client.exceptions.NoSuchUpload:
                return None
        parts = [part for page in pages for part in page.get("Parts", ())]
        return {
            part["PartNumber"]: part["ETag"]
            for part in parts
            if part["Size"] == min(step, size - (part["PartNumber"] - 1) * step)
        }

    def abort(self, to: ObjectPath, upload_id: str | None) -> None:
        """Remove the parts of an interrupted upload, if there are any.

        Raises:
            OSError: the request fails.
        """
        if upload_id is not None and why_restarted(to) is None:
            with _requests(to), suppress(self._client.exceptions.NoSuchUpload):
                self._client.abort_multipart_upload(**_object(to), UploadId=upload_id)


def _object(to: ObjectPath) -> dict[str, str]:
    bucket, _, key = str(to).partition("://")[2].partition("/")
    return {"Bucket": bucket, "Key": key}


@contextmanager
def _requests(to: ObjectPath) -> Iterator[None]:
    """Turn errors of requests into OSError."""
    try:
        yield
    except OSError:
        raise
    except Exception as error:
        raise to.error(error) from None
