"""What builds the package: setuptools' hooks (PEP 517), and a C compiler from pip where the machine has none."""

import functools
import importlib.util
import os
import re
import shlex
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from setuptools import build_meta

PURE = os.environ.get("ANYDML_PURE", "") not in ("", "0")
"""Whether nothing is to be compiled."""

HINT = "With ANYDML_PURE=1 in the environment nothing is compiled: anydml is installed, and NumPy does its work."

ZIG = [sys.executable, "-m", "ziglang", "cc", "-mcpu=baseline"]
"""Zig's C compiler, which pip can install; without the option what it makes runs on this processor only."""

TRIAL = """
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
typedef uint8_t bytes __attribute__((vector_size(16)));
bytes added(bytes a, bytes b) { return a + b; }
"""
"""What a compiler must be able to make a library of."""


def readme() -> str:
    """README.md with addresses instead of paths, which lead nowhere on the page of a package index."""
    root = Path(__file__).parent
    where = (root / "src/anydml/_version.py").read_text(encoding="utf-8")
    version = re.findall(r'^__version__ = "(.+)"', where, re.M)[0]
    text = (root / "README.md").read_text(encoding="utf-8")
    for start, kind in ((r"(!\[[^]]*\]\()", "raw"), (r"((?<!!)\[[^]]*\]\()", "blob")):
        address = f"https://github.com/anydml/anydml/{kind}/v{version}/"
        text = re.sub(rf"{start}(?!https:|#)", rf"\g<1>{address}", text)
    return text


@functools.cache
def own_compiler() -> list[str] | None:
    """The command of a C compiler that works here: the one that CC names if it is set; None where there is none."""
    named = os.environ.get("CC")
    usual = [] if sys.platform == "win32" else [sysconfig.get_config_var("CC") or "cc", "cc", "gcc", "clang"]
    return next(filter(works, map(shlex.split, [named] if named else usual)), None)


def works(command: list[str]) -> bool:
    """Whether a command compiles and links C, threads, atomics and vectors included."""
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder, "trial.c")
        source.write_text(TRIAL, encoding="utf-8")
        command = [*command, "-shared", "-fPIC", str(source), "-o", f"{folder}/trial.so"]
        try:
            return subprocess.run(command, capture_output=True, check=False).returncode == 0
        except OSError:
            return False


def compiler() -> list[str]:
    """The command of the C compiler that is used.

    Raises:
        SystemExit: There is none.
    """
    found = own_compiler() or (ZIG if importlib.util.find_spec("ziglang") else None)
    if found is None:
        tried = f"CC={os.environ['CC']}" if os.environ.get("CC") else "cc, gcc and clang"
        raise SystemExit(
            f"error: the core needs a C compiler, and none works here ({tried}): install one, or ziglang by pip. {HINT}"
        )
    return found


def needed(config_settings: Any = None) -> list[str]:
    """What is needed beyond pyproject.toml's list: a compiler where none works."""
    return [] if PURE or own_compiler() else ["ziglang>=0.13; sys_platform in 'linux darwin win32'"]


def beside(hook: Callable[..., str]) -> Callable[..., str]:
    """A hook that leaves nothing among the sources, and so meets neither what others build at once nor what is old."""

    @functools.wraps(hook)
    def run(*args: Any, **settings: Any) -> str:
        with tempfile.TemporaryDirectory() as folder:
            extra = Path(folder, "extra.cfg")
            extra.write_text(f"[build]\nbuild_base={folder}/build\n[egg_info]\negg_base={folder}\n", encoding="utf-8")
            os.environ["DIST_EXTRA_CONFIG"] = str(extra)
            os.environ["ZIG_GLOBAL_CACHE_DIR"] = os.environ["ZIG_LOCAL_CACHE_DIR"] = f"{folder}/zig"
            return hook(*args, **settings)

    return run


get_requires_for_build_wheel = get_requires_for_build_editable = needed
build_sdist = beside(build_meta.build_sdist)
build_wheel = beside(build_meta.build_wheel)
build_editable = beside(build_meta.build_editable)
prepare_metadata_for_build_wheel = beside(build_meta.prepare_metadata_for_build_wheel)
prepare_metadata_for_build_editable = beside(build_meta.prepare_metadata_for_build_editable)
