"""Paths of users as files and folders of this machine, or as addresses."""

from __future__ import annotations

import importlib.util
import os
import re
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar
from urllib.parse import urlsplit

from anydml.errors import ModelError
from anydml.files.addresses import Address
from anydml.files.location import Location
from anydml.files.object_paths import ADDRESS_START
from anydml.files.object_stores import hub
from anydml.paths import address, path_text
from anydml.text import did_you_mean

KINDS = "s3://, gs://, az://, https://, hf://, memory:// and file://"

_FILE = re.compile(r"file:/", re.IGNORECASE)

_HUB = re.compile(r"hf:/{1,2}(?!datasets/|spaces/|buckets/)([^/@]+/[^/@]+)(?:@([^/@]+))?((?:/[^/]+)*)/?", re.IGNORECASE)
"""A model in Hugging Face's hub: its owner and name, perhaps a revision, and a file or folder in it."""


def locate(name: str, value: object) -> Path:
    """Return the path of a file or folder on this machine, or an `Address`.

    Args:
        name: the name of the function, for errors.
        value: a path or an address, as a `str` or `pathlib.Path`.

    Raises:
        TypeError: the path is neither a `str` nor a `pathlib.Path`.
        ModelError: the address is of another kind, or has parts that no address may have.
    """
    if isinstance(value, Address):
        return value
    text = str(value) if isinstance(value, Path) else value
    if isinstance(text, str) and _FILE.match(text):
        return _local_path(name, text)
    if isinstance(text, str) and (model := _HUB.fullmatch(text)):
        text = f"{hub()}/{model[1]}/resolve/{model[2] or 'main'}{model[3]}"
    match = ADDRESS_START.match(text) if isinstance(text, str) else None
    if not isinstance(text, str) or match is None:
        if isinstance(text, str) and address(text) is not None:
            if text.lower().rstrip("/") + "//" in KINDS:
                raise ModelError(f"{name}: {text!r} is only the beginning of an address such as s3://bucket/x.zarr")
            if text[:3].lower() == "hf:":
                raise ModelError(
                    f"{name}: {text[:200]!r} must be a model in the hub: hf://OWNER/NAME[@REVISION][/FILE]"
                )
            meant = did_you_mean(text.partition(":")[0], KINDS.replace("://", "").replace(" and", ",").split(", "))
            raise ModelError(
                f"{name}: {text[:200]!r} is an address of an unsupported kind, not of {KINDS}{meant}: "
                "copy it to this machine first; a folder of this name needs its whole path"
            )
        return Path(path_text(name, text))
    # No error shows a password.
    after_scheme = text[match.end() :]
    location = Location(f"{name}: {match[1].lower()}://{after_scheme.partition('/')[0].rpartition('@')[2]}/…")
    if "@" in after_scheme.partition("/")[0]:
        raise location.error("has a name or password before its host: give them by the settings of obstore instead")
    if "?" in text or "#" in text:
        raise location.error("has a query or fragment, which is not read: name the folder or object alone")
    if any(part in ("", ".", "..") for part in after_scheme.rstrip("/").split("/")):
        raise location.error("has a part that is empty, or one or two dots")
    if importlib.util.find_spec("obstore") is None:
        raise location.error('is an address, which obstore reads and writes: pip install "anydml[remote]"')
    # If one store had two names, an output that is also an input would not be recognized.
    scheme = match[1].lower().removesuffix("a")
    return Address(f"{scheme}:/{after_scheme.rstrip('/')}")


def real_path(path: Path) -> str:
    """Return a path without links, or the text of an address; a path in a file has its file's path without links."""
    return str(path) if isinstance(path, Address) and not path.is_local else os.path.realpath(str(path))


MAX_REQUESTS = 32
"""Requests that are made at once."""

T = TypeVar("T")
R = TypeVar("R")


def map_concurrently(function: Callable[[T], R], values: Iterable[T]) -> list[R]:
    """Call a function that waits for requests for many values concurrently, and return the results."""
    with ThreadPoolExecutor(MAX_REQUESTS, "anydml-addresses") as pool:
        return [*pool.map(function, values)]


def file_size(path: Path) -> int:
    """Return bytes of a file or an object.

    Raises:
        OSError: the file does not exist, or cannot be looked for.
    """
    if not isinstance(path, Address):
        return path.stat().st_size
    if (metadata := path.head()) is None:
        raise FileNotFoundError(2, "there is no such object", str(path))
    return int(metadata["size"])


def _local_path(name: str, uri: str) -> Path:
    """Return the local path of a file:// address."""
    # Imported here, because it loads Python's HTTP modules, which plans of files do not need.
    from urllib.request import url2pathname

    split_uri = urlsplit(uri)
    if split_uri.netloc not in ("", "localhost") or split_uri.query or split_uri.fragment:
        raise ModelError(f"{name}: {uri[:200]!r} {address(uri)}, without a host, a query or a fragment")
    return Path(url2pathname(split_uri.path))
