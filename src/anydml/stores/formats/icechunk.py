"""Repositories of Icechunk on this machine: the objects of the latest snapshot of the branch main, read by icechunk."""

from __future__ import annotations

import importlib.util
import threading
from collections.abc import Coroutine, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from anydml.files.location import Location
from anydml.stores.formats.references import References

if TYPE_CHECKING:
    import asyncio

BRANCH = "main"


class IcechunkObject(NamedTuple):
    """An object of a repository.

    Attributes:
        store: icechunk's.
        name: the name of the object.
    """

    store: Any
    name: str

    def read(self, start: int | None, stop: int) -> bytes:
        """Return some of the bytes; with no `start`, the last `stop` of them.

        Raises:
            OSError: icechunk cannot read them.
        """
        from zarr.abc.store import RangeByteRequest, SuffixByteRequest
        from zarr.core.buffer import default_buffer_prototype

        span = SuffixByteRequest(stop) if start is None else RangeByteRequest(start, stop)
        data = self._call("get", default_buffer_prototype(), span)
        if data is None:
            raise OSError(0, "is not in the repository any more", self.name)
        return bytes(data.to_bytes())

    def length(self) -> int:
        """Return number of bytes.

        Raises:
            OSError: icechunk does not know it.
        """
        return int(self._call("getsize"))

    def _call(self, name: str, *arguments: Any) -> Any:
        try:
            return _wait_for(getattr(self.store, name)(self.name, *arguments))
        except Exception as error:
            # icechunk wraps errors of the storage in its own types.
            line = _first_line(error)
            if "virtual chunk" in line:
                line = "its bytes are in another file, which is not read: write references of VirtualiZarr as JSON"
            raise OSError(0, f"cannot be read by icechunk: {line}", self.name) from None


def is_icechunk(path: Path) -> bool:
    """Whether a folder is a repository of Icechunk."""
    has_refs = (path / "refs").is_dir() or (path / "repo").is_file()
    return has_refs and all((path / name).is_dir() for name in ("snapshots", "manifests"))


def snapshot_of(path: Path) -> str:
    """Return the latest snapshot of a repository, which changes with every commit.

    Raises:
        ModelError: icechunk is not installed, or cannot open the repository.
    """
    return str(_session(path, Location(str(path))).snapshot_id)


def references_of_icechunk(path: Path, location: Location) -> References:
    """Return the objects of a repository.

    Raises:
        ModelError: icechunk is not installed, or cannot open the repository.
    """
    session = _session(path, location)

    async def names() -> list[str]:
        return [name async for name in session.store.list()]

    objects = {name: IcechunkObject(session.store, name) for name in _wait_for(names())}
    return References(objects, version=f"snapshot {session.snapshot_id} of branch {BRANCH}")


def require_icechunk(location: Location) -> None:
    """Import icechunk.

    Raises:
        ModelError: icechunk is not installed.
    """
    if importlib.util.find_spec("icechunk") is None:
        raise location.error("is a repository of Icechunk, which icechunk reads and writes: pip install icechunk")


def write_icechunk(folder: Path, path: Path, names: Sequence[str]) -> None:
    """Make a repository of the files of a Zarr hierarchy, by one commit.

    Args:
        folder: the folder of the files.
        path: the path of the repository, where nothing is.
        names: the names of the files, relative to the folder.

    Raises:
        OSError: icechunk cannot write them.
    """
    import icechunk
    from zarr.core.buffer import default_buffer_prototype

    to_buffer = default_buffer_prototype().buffer.from_bytes
    try:
        session = icechunk.Repository.create(icechunk.local_filesystem_storage(str(path))).writable_session(BRANCH)
        # Groups and arrays come first, and each array before its chunks.
        for name in sorted(names, key=lambda name: (not name.endswith("zarr.json"), name.count("/"), name)):
            _wait_for(session.store.set(name, to_buffer((folder / name).read_bytes())))
        session.commit("Written by anydml")
    except Exception as error:
        # As in `IcechunkObject`.
        raise OSError(0, f"cannot be written by icechunk: {_first_line(error)}", str(path)) from None


def _session(path: Path, location: Location) -> Any:
    require_icechunk(location)
    import icechunk

    try:
        storage = icechunk.local_filesystem_storage(str(path))
        return icechunk.Repository.open(storage).readonly_session(BRANCH)
    except Exception as error:
        # As in `IcechunkObject`.
        raise location.error(f"is a repository of Icechunk that cannot be opened: {_first_line(error)}") from None


def _wait_for(call: Coroutine[Any, Any, Any]) -> Any:
    """Return the result of an asynchronous call."""
    import asyncio

    return asyncio.run_coroutine_threadsafe(call, _loop()).result()


@cache
def _loop() -> asyncio.AbstractEventLoop:
    """Return an asyncio loop in a new thread: zarr-python's loop may be the caller, which waits."""
    import asyncio

    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, name="anydml-icechunk", daemon=True).start()
    return loop


def _first_line(error: Exception) -> str:
    """Return the first line of an error of icechunk: the other lines are places in icechunk's sources."""
    lines = [line.strip(" │×╰─▶") for line in str(error).splitlines()]
    return next((line for line in lines if line), type(error).__name__).removeprefix("x ")[:200]
