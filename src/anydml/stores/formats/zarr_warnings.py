"""zarr-python without its warnings about metadata, in as many threads as there are."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

_lock = threading.Lock()
_inside = [0]
_filters = ExitStack()


@contextmanager
def unwarned() -> Iterator[None]:
    """Suppress warnings of zarr-python, such as those on codecs that the specification lacks.

    Python's warning filters are global. If each thread saved and restored them, threads could restore each other's. So
    the first thread to enter changes them, and the last one to leave restores them.
    """
    with _lock:
        if not _inside[0]:
            _filters.enter_context(warnings.catch_warnings(action="ignore", category=UserWarning))
            warnings.simplefilter("ignore", FutureWarning)
        _inside[0] += 1
    try:
        yield
    finally:
        with _lock:
            _inside[0] -= 1
            if not _inside[0]:
                _filters.close()
