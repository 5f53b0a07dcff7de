"""Results of transformers' mappings in the user's cache folder, so that transformers need not be imported again.

The name of a file depends on the tensors' names, shapes and files, on config.json, and on the size and time of every
file of the installed transformers and of anydml. Files are JSON; only those that belong to the user are read.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import stat
import sys
from collections.abc import Iterator
from contextlib import suppress
from importlib.machinery import ModuleSpec
from pathlib import Path

from anydml.stores.checkpoints.mapping_results import Answer, answer_of

MAX_FILES = 64
"""Maximum number of cached results; the least recently used ones are removed."""

MAX_BYTES = 256 << 20
"""Maximum bytes of all cached results; the least recently used ones are removed."""

DIGEST = hashlib.sha256().digest_size


def folder() -> Path | None:
    """Return the folder of cached results; None if ``ANYDML_CACHE`` is empty."""
    if (variable := os.environ.get("ANYDML_CACHE")) is not None:
        return Path(variable) / "layouts" if variable else None
    if sys.platform == "win32":
        caches = os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local"
    elif sys.platform == "darwin":
        caches = Path.home() / "Library" / "Caches"
    else:
        caches = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(caches) / "anydml" / "layouts"


def name_of(model: Path, question: bytes) -> str | None:
    """Return the name of the cached result for a model; None if it cannot be determined.

    Args:
        model: the folder with config.json.
        question: everything else that the result depends on, except the installed packages.
    """
    if folder() is None:
        return None
    digest = hashlib.sha256(question)
    digest.update(repr((sys.version_info, sys.platform)).encode())
    try:
        for config in sorted(model.glob("config*.json")):
            content = config.read_bytes()
            digest.update(f"{config.name} {len(content)} ".encode() + content)
        for package, is_whole in ("anydml", True), ("transformers", True), ("torch", False), ("numpy", False):
            spec = importlib.util.find_spec(package)
            if spec is None or not spec.submodule_search_locations:
                return None
            for line in _files_of(spec, is_whole):
                digest.update(line.encode())
    except (OSError, ValueError):
        return None
    return digest.hexdigest()


def _files_of(spec: ModuleSpec, is_whole: bool) -> Iterator[str]:
    """Yield the paths, sizes and times of the Python files of a package, or of its version's files."""
    for location in spec.submodule_search_locations or ():
        waiting = [location]
        while waiting:
            path = waiting.pop()
            yield f"{path}\n"
            with os.scandir(path) as entries:
                for entry in sorted(entries, key=lambda entry: entry.name):
                    if entry.is_dir() and is_whole and entry.name != "__pycache__":
                        waiting.append(entry.path)
                    elif entry.name.endswith(".py") and (is_whole or entry.name in ("__init__.py", "version.py")):
                        status = entry.stat()
                        yield f"{entry.name} {status.st_size} {status.st_mtime_ns}\n"


def read_cached(name: str) -> Answer | None:
    """Return the cached result of a name; None if there is none."""
    cache_folder = folder()
    try:
        if cache_folder is None or not (_is_users(cache_folder) and _is_users(path := cache_folder / name)):
            return None
        content = path.read_bytes()
        if hashlib.sha256(content[DIGEST:]).digest() != content[:DIGEST]:
            return None
        os.utime(path)
        return answer_of(content[DIGEST:])
    except (OSError, RuntimeError, ValueError, TypeError, LookupError):  # the result can be computed again
        return None


def write_cached(name: str, text: bytes) -> None:
    """Cache a result as JSON, if the user's folder is writable."""
    with suppress(OSError, RuntimeError):
        if (cache_folder := folder()) is None:
            return
        cache_folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not _is_users(cache_folder):
            return
        part = cache_folder / f"{name}.{os.getpid()}.part"
        try:
            descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), 0o600)
            with os.fdopen(descriptor, "wb") as file:
                file.write(hashlib.sha256(text).digest())
                file.write(text)
            part.replace(cache_folder / name)
        finally:
            part.unlink(missing_ok=True)
        _remove_old(cache_folder)


def _is_users(path: Path) -> bool:
    """Whether a file or folder belongs to the user, and nobody else can write to it."""
    status = path.lstat()
    if not stat.S_ISREG(status.st_mode) and not stat.S_ISDIR(status.st_mode):
        return False
    return sys.platform == "win32" or (status.st_uid == os.getuid() and not status.st_mode & 0o022)


def _remove_old(cache_folder: Path) -> None:
    """Remove the least recently used results beyond the limits."""
    files = sorted(((path.stat(), path) for path in cache_folder.iterdir()), key=lambda pair: -pair[0].st_mtime_ns)
    size = 0
    for file_number, (status, path) in enumerate(files):
        size += status.st_size
        if file_number >= MAX_FILES or (file_number and size > MAX_BYTES):
            path.unlink(missing_ok=True)
