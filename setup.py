"""What is compiled: typed Python in src/anydml/core, and all that has a .pxd beside it, made C by Cython.

`python setup.py build_ext --inplace` builds what has changed, beside its sources.
"""

import os
import re
import shlex
import subprocess
import sys
import sysconfig
from functools import partial
from pathlib import Path
from threading import Lock
from time import monotonic
from typing import Any

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext
from setuptools.modified import newer_group

import building
import rule_sources

CORE = Path("src/anydml/core")
MODULES = [each.stem for each in sorted(CORE.glob("*.py")) if each.with_suffix(".pxd").exists()]
MODULES.sort(key="moving".__ne__)  # takes longest, and so begins first
RULES = "build/rules.pyx"
"""Made of the operators' texts."""
PLAIN = sorted(each for each in Path("src/anydml").rglob("*.pxd") if each.parent != CORE)
"""Modules that also run uncompiled, as Python."""

# No -march: kernels are built for several processors, and chosen where they run.
FLAGS = [
    *("-O3", "-g0", "-fPIC", "-fwrapv", "-fno-strict-aliasing", "-ffp-contract=off"),
    *("-Wno-unused-function", "-DNDEBUG"),
    *("-DNPY_NO_DEPRECATED_API=NPY_2_0_API_VERSION", "-DNPY_TARGET_VERSION=NPY_2_0_API_VERSION"),
]
# Python's headers for Windows say this to Microsoft's compiler alone.
DEFINED = {"win32": ["-DMS_WIN64"]}
LINKED = {
    "darwin": ["-undefined", "dynamic_lookup"],
    "win32": [f"-L{sys.base_exec_prefix}/libs", f"-lpython{sys.version_info.major}{sys.version_info.minor}"],
}

# Of modules that also run uncompiled: only what a .pxd says has a type.
LANGUAGE = {"language_level": 3, "annotation_typing": False}
# As in C: nothing is checked that the sources do not check, and division rounds to 0. A variable has the type of what
# is assigned to it.
DIRECTIVES = {"language_level": 3, "cdivision": True, "infer_types": True} | dict.fromkeys(
    ("boundscheck", "wraparound", "initializedcheck"), False
)


def headers_of(*sources: Path) -> set[Path]:
    """The headers of the core that C files include, and those that these include."""
    headers = set[Path]()
    while sources:
        texts = [source.read_text(encoding="utf-8") for source in sources]
        names = {name for text in texts for name in re.findall('^ *# *include "(.+)"', text, re.M)}
        sources = tuple({path for name in names if (path := CORE / name).exists()} - headers)
        headers.update(sources)
    return headers


class Build(build_ext):
    """Builds modules by Cython and a C compiler, with the same options on every machine."""

    def initialize_options(self) -> None:
        """Take as many processes as there are processors, where nobody says another number."""
        super().initialize_options()
        self.parallel = True

    def build_extensions(self) -> None:
        """Build all modules, or end with what to do."""

        def given(name: str) -> list[str]:
            return shlex.split(os.environ.get(name, ""))

        compiler = building.compiler()
        headers = sysconfig.get_path("include")
        try:
            if not Path(headers, "Python.h").exists():
                hint = "Debian has it in python3-dev, Fedora in python3-devel"
                raise FileNotFoundError(f"{headers} has no Python.h ({hint})")
            import numpy
            from Cython.Build import cythonize

            includes = [f"-I{each}" for each in (CORE, numpy.get_include(), headers)]
            flags = [*given("ARCHFLAGS"), *FLAGS, *DEFINED.get(sys.platform, [])]
            self.compile = [*compiler, *flags, *includes, *given("CFLAGS"), "-shared"]
            self.link = [*LINKED.get(sys.platform, []), *given("LDFLAGS")]
            rules = Path(RULES)
            text = rule_sources.source()
            if not rules.exists() or rules.read_text(encoding="utf-8") != text:
                rules.parent.mkdir(parents=True, exist_ok=True)
                rules.write_text(text, encoding="utf-8")
            options = {"build_dir": self.build_temp, "force": self.force}
            # In this process, whose start takes Cython as long as most of its work, one after another: C compilers
            # run meanwhile.
            self.lock, self.cythonize = Lock(), partial(cythonize, include_path=["src"], quiet=True, **options)
            self.compiled = 0
            print(
                f"anydml: looks at {len(self.extensions)} modules, and compiles by {compiler[0]} what is not up to date"
            )
            begin = monotonic()
            super().build_extensions()
            print(f"anydml: {self.compiled} modules compiled in {monotonic() - begin:.0f} s", flush=True)
        except Exception as error:  # Cython's, compilers', or that something is not there
            raise SystemExit(f"error: anydml's core was not compiled: {error}. {building.HINT}") from None

    def build_extension(self, ext: Extension) -> None:
        """Make a module's C, and the module of that if it, or a header, is newer."""
        with self.lock:
            directives = DIRECTIVES if ".core." in ext.name else LANGUAGE
            (ext.sources,) = (each.sources for each in self.cythonize([ext], compiler_directives=directives))
        made = Path(self.get_ext_fullpath(ext.name))
        if self.force or newer_group([*ext.sources, *headers_of(*map(Path, ext.sources))], made):
            made.parent.mkdir(parents=True, exist_ok=True)
            begin = monotonic()
            subprocess.run([*self.compile, *ext.sources, "-o", str(made), *self.link], check=True)
            with self.lock:
                self.compiled += 1
                print(f"anydml: {ext.name} compiled in {monotonic() - begin:.0f} s", flush=True)

    def copy_file(self, infile: str, outfile: str, *args: Any, **options: Any) -> tuple[str, bool]:
        """Copy beside the target, then rename: processes that run may have loaded what is there."""
        beside = f"{outfile}.{os.getpid()}"
        copied = super().copy_file(infile, beside, *args, **options)
        os.replace(beside, outfile)
        return outfile, copied[1]


EXTENSIONS = [Extension(f"anydml.core.{name}", [str(CORE / f"{name}.py")]) for name in MODULES]
EXTENSIONS.append(Extension("anydml.core.rules", [RULES]))
EXTENSIONS += [
    Extension(".".join(each.relative_to("src").with_suffix("").parts), [str(each.with_suffix(".py"))]) for each in PLAIN
]
setup(
    ext_modules=[] if building.PURE else EXTENSIONS,
    cmdclass={"build_ext": Build},
    long_description=building.readme(),
    long_description_content_type="text/markdown",
)
