"""Triton's compiler without what it does again for every kernel, or for nobody."""

import inspect
import os
import pathlib

from triton import language
from triton.runtime.cache import FileCacheManager

UNREAD = (".source", ".ttir")
"""Ends of files that Triton keeps for people: what it read of a kernel's source, which is most that it writes."""


class Files(FileCacheManager):
    """A cache in a folder that no other process looks into: no file has to be moved to where it is complete."""

    def put(self, data, filename, binary=True):
        """Write a file; where it is."""
        path = pathlib.Path(self._make_path(filename))
        if isinstance(data, bytes):
            path.write_bytes(data)
        else:
            path.write_text("" if path.suffix in UNREAD else str(data), encoding="utf-8")
        return str(path)


def compile_quickly():
    """From now on, this process compiles so."""
    os.environ["TRITON_CACHE_MANAGER"] = f"{__name__}:{Files.__name__}"
    for method in vars(language.constexpr).values():
        if inspect.isfunction(method):
            # Triton works it out at every call of one that has none.
            method.signature = inspect.signature(method)
