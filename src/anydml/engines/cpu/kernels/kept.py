"""Compiled kernels on disk: a file each, named by all that its machine code depends on.

They lie in the folder that NUMBA_CACHE_DIR names. Without it, they lie in the package's own `__pycache__` if that can
be written, else in the user's cache, and are read from both: what is compiled by those who may write to the package
serves all others.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib.util
import os
import struct
import sys
import sysconfig
import tempfile
import threading
import zlib
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

SUFFIX = ".kernel"

BUDGET = 64 << 20
"""Bytes that compiled kernels may take in one folder."""

_HEADER = struct.Struct("<14sHI")
_MAGIC, _VERSION = b"anydml kernel\n", 1

_LONGEST = 100
"""Characters of a kernel's own name in that of its file, at most: systems allow 255."""

_OTHER_VARIABLES = {"NUMBA_CACHE_DIR", "NUMBA_NUM_THREADS", "NUMBA_DISABLE_JIT", "NUMBA_DISABLE_PERFORMANCE_WARNINGS"}
"""Variables of Numba's that machine code does not depend on."""


class MachineCode(NamedTuple):
    """A kernel before it is loaded.

    Attributes:
        name: of its function, and of its file.
        content: an object file of this machine's (see `loading`).
    """

    name: str
    content: bytes


def folders() -> Iterator[Path]:
    """Where kernels may lie, those first that are preferred."""
    if named := os.environ.get("NUMBA_CACHE_DIR"):
        yield Path(named) / "anydml"
        return
    yield Path(__file__).parent / "__pycache__"
    with contextlib.suppress(RuntimeError):
        # There may be no home.
        yield _users_cache() / "anydml"


def _users_cache() -> Path:
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local")
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")


def writable() -> Path | None:
    """The folder where kernels are kept, made if it is not there; None where they cannot be."""
    for folder in folders():
        with contextlib.suppress(OSError):
            folder.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryFile(dir=folder):
                return folder
    return None


def name_of(function: str, file: str, *others: object) -> str | None:
    """The name that a kernel's machine code has here, and nowhere else; None where it cannot be kept.

    Args:
        function: the kernel's own name.
        file: that it is written in.
        others: what else its code depends on, whose `str` says all of it.
    """
    checksum, machine = _checksum(file), _machine()
    if checksum is None or machine is None:
        return None
    everything = "\0".join([function, checksum, machine, *map(str, others)])
    plain = "".join(letter if letter.isascii() and letter.isalnum() else "_" for letter in function)
    return f"{plain[:_LONGEST]}-{hashlib.sha256(everything.encode()).hexdigest()[:32]}"


@cache
def _checksum(file: str) -> str | None:
    try:
        return f"{zlib.crc32(Path(file).read_bytes()):08x}"
    except OSError:
        return None


@cache
def _machine() -> str | None:
    """The processor, and all that makes machine code for it; None where there is no Numba."""
    import llvmlite
    from llvmlite import binding

    try:
        numba = importlib.util.find_spec("numba")
    except ValueError:
        return None
    if numba is None or not numba.origin:
        return None
    version = _checksum(str(Path(numba.origin).with_name("_version.py")))
    variables = sorted(
        each for each in os.environ.items() if each[0].startswith("NUMBA_") and each[0] not in _OTHER_VARIABLES
    )
    python = sys.implementation.cache_tag, sysconfig.get_config_var("Py_GIL_DISABLED")
    features = ""
    with contextlib.suppress(RuntimeError):
        # LLVM cannot tell them on every system.
        features = binding.get_host_cpu_features().flatten()
    target = binding.get_process_triple(), binding.get_host_cpu_name(), features
    return None if version is None else str((version, llvmlite.__version__, python, target, variables))


def held() -> list[tuple[Path, int]]:
    """The folders that have kernels, and how many."""
    counts = ((folder, sum(1 for _ in folder.glob(f"*{SUFFIX}"))) for folder in folders())
    return [(folder, count) for folder, count in counts if count]


def read(name: str) -> MachineCode | None:
    """What lies on the disk under a name; None where there is nothing, or not what was written."""
    for folder in folders():
        try:
            content = (folder / (name + SUFFIX)).read_bytes()
        except OSError:
            continue
        if len(content) >= _HEADER.size:
            magic, version, checksum = _HEADER.unpack_from(content)
            code = content[_HEADER.size :]
            if (magic, version, checksum) == (_MAGIC, _VERSION, zlib.crc32(code)):
                return MachineCode(name, code)
    return None


def write(code: MachineCode) -> None:
    """Keep machine code, if that is possible; other processes see all of the file or none."""
    folder = writable()
    if folder is None:
        return
    with contextlib.suppress(OSError):
        # Not `tempfile`: others may read what they cannot write.
        path = folder / f".{code.name}.{os.getpid()}-{threading.get_ident()}"
        try:
            path.write_bytes(_HEADER.pack(_MAGIC, _VERSION, zlib.crc32(code.content)) + code.content)
            path.replace(folder / (code.name + SUFFIX))
        except OSError:
            path.unlink(missing_ok=True)
            raise
        trim(folder)


def trim(folder: Path) -> None:
    """Delete the oldest kernels of a folder, those of older versions among them, until all are within the budget.

    A process that misses one compiles it again.
    """
    files = []
    for path in folder.glob(f"*{SUFFIX}"):
        # Another process may tidy up as well.
        with contextlib.suppress(OSError):
            status = path.stat()
            files.append((status.st_mtime_ns, status.st_size, path))
    total = sum(size for _, size, _ in files)
    for _, size, path in sorted(files):
        if total <= BUDGET:
            return
        with contextlib.suppress(OSError):
            path.unlink(missing_ok=True)
        total -= size
