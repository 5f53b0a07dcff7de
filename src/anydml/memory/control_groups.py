"""The control groups that limit this process: its memory and its processors."""

from __future__ import annotations

import math
from collections.abc import Iterator

ROOT = ""
"""The folder in which /proc and /sys are."""


def text(path: str) -> str:
    """Return a file's text: importing `pathlib` would take longer than everything that is done here.

    Raises:
        OSError: it cannot be read.
    """
    with open(ROOT + path, encoding="utf-8", errors="surrogateescape") as file:
        return file.read()


def groups(controller: str) -> Iterator[tuple[str, int]]:
    """Yield the folders of the groups that this process is in, inner ones first, and their version, 2 or 1.

    A container often sees its own group as the root, although the kernel reports the path on the machine, so folders
    may be missing.

    Args:
        controller: the controller's name in version 1, such as ``"memory"``.
    """
    root = "/sys/fs/cgroup"
    paths = {"": "/", controller: "/"}
    try:
        for line in text("/proc/self/cgroup").splitlines():
            _, controllers, path = line.split(":", 2)
            if not controllers or controller in controllers.split(","):
                paths[controller if controllers else ""] = path
    except (OSError, ValueError):
        # Only the root groups are tried.
        pass
    for top, path, version in (
        (root, paths[""], 2),
        (f"{root}/unified", paths[""], 2),
        (f"{root}/{controller}", paths[controller], 1),
    ):
        names = [name for name in path.split("/") if name not in ("", ".", "..")]
        for depth in range(len(names), -1, -1):
            yield "/".join((top, *names[:depth])), version


def processors() -> int | None:
    """Return the number of processors whose time this process may use, rounded up, or None without a limit.

    Containers see all of the machine's processors, and are limited in time (``docker run --cpus``, Kubernetes).
    """
    found = [quota for group, version in groups("cpu") if (quota := _quota(group, version)) is not None]
    return min(found, default=None)


def _quota(group: str, version: int) -> int | None:
    try:
        if version == 2:
            quota, period = text(f"{group}/cpu.max").split()
        else:
            quota, period = (text(f"{group}/cpu.cfs_{name}_us") for name in ("quota", "period"))
        return max(1, math.ceil(int(quota) / int(period))) if int(quota) > 0 else None
    except (OSError, ValueError, ZeroDivisionError):
        # No such file, or "max": no limit.
        return None
