"""The obstore client for an address, configured by environment variables."""

from __future__ import annotations

import os
import re
from functools import cache, lru_cache
from typing import Any

from anydml.files.location import Location

CREDENTIALS = (
    "credentials are missing or wrong: set variables such as AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or "
    "AWS_SKIP_SIGNATURE=true for a public bucket"
)
"""Advice where obstore looked for credentials and found none."""

_ASKS_FOR_CREDENTIALS = re.compile(r"169\.254\.(169|170)\.|metadata\.google\.internal|credential", re.IGNORECASE)
"""Addresses of cloud machines that give credentials, and the word."""

UNREACHABLE = "no server answers: check the address, and whether this machine is online"
"""Advice where no server was reached."""


def first_line(error: Exception) -> str:
    """Return the first line of an error of obstore, which may hold a page of a server's answer."""
    lines = str(error).strip().splitlines()
    line = lines[0][:300] if lines else type(error).__name__
    if _ASKS_FOR_CREDENTIALS.search(str(error)):
        return f"{CREDENTIALS} ({line})"
    return f"{UNREACHABLE} ({line})" if "error sending request" in str(error) else line


def store_of(scheme: str, root: str) -> Any:
    """Return the store of a bucket, container or server; memory:// stores last as long as this process."""
    if scheme == "memory":
        return _memory(root)
    # Credentials and servers may change while a process runs.
    settings = [(name, os.environ[name]) for name in os.environ if name.startswith(_SETTINGS)]
    return _store_by(scheme, root, tuple(settings))


_SETTINGS = ("AWS_", "AZURE_", "GOOGLE_", "SERVICE_ACCOUNT", "HF_")
"""The beginnings of the names of variables by which stores are set."""


def hub() -> str:
    """Return the address of Hugging Face's hub."""
    return os.environ.get("HF_ENDPOINT", "https://huggingface.co").rstrip("/")


@cache
def _memory(_root: str) -> Any:
    from obstore.store import MemoryStore

    return MemoryStore()


@lru_cache(maxsize=64)
def _store_by(scheme: str, root: str, settings: tuple[tuple[str, str], ...]) -> Any:
    """Return the store by settings of the environment, with its connections."""
    from obstore.store import from_url

    # Options would replace the environment's options for other kinds of stores.
    client: dict[str, Any] = {"allow_http": True} if scheme == "http" else {}
    if f"{scheme}://{root}" == hub() and (token := os.environ.get("HF_TOKEN")):
        # The token goes to the hub alone: it is left out where the hub redirects requests to other servers.
        client["default_headers"] = {"authorization": f"Bearer {token}"}
    options: Any = {"client_options": client} if client else {}
    try:
        return from_url(f"{scheme}://{root}", **options)
    except Exception as error:
        raise Location(f"{scheme}://{root}").error(f"cannot be opened: {first_line(error)}") from None
