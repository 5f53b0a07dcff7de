"""The code blocks of Markdown documents, and how they are run: sessions as doctests, commands by a shell."""

from __future__ import annotations

import contextlib
import doctest
import importlib.util
import io
import os
import re
import shutil
import subprocess
import sys
import sysconfig
from dataclasses import dataclass
from pathlib import Path

import pytest

from anydml.cli import main

ROOT = Path(__file__).parents[1]


@dataclass(frozen=True)
class Block:
    """A fenced block: ``title`` is the file that it is, if it is one."""

    language: str
    title: str
    body: str


def blocks(text, language=None):
    """The blocks of a document in order, of one language or of all."""
    found = re.findall(r'^```(\w*)(?: title="([^"]+)")?\n(.*?)^```$', text, re.S | re.M)
    return [Block(*parts) for parts in found if language in (None, parts[0])]


def sections(text):
    """The headings of a document's second level, and what stands under each."""
    first, *rest = re.split(r"^## (.+)$", text, flags=re.M)
    return {"top": first, **dict(zip(rest[::2], rest[1::2], strict=True))}


def anchors(text):
    """The names of a document's headings as forges and the site's generator make them, and those that it gives."""
    found = set()
    for heading in re.findall(r"^#{1,6} (.+?)\s*#*$", re.sub(r"^```.*?^```$", "", text, flags=re.S | re.M), re.M):
        given = re.search(r"\{[^}]*#([\w-]+)[^}]*\}$", heading)
        words = re.sub(r"\[([^\]]*)\]\([^)]*\)|[`*]", r"\1", heading).lower()
        found.add(given[1] if given else re.sub(r"\s", "-", re.sub(r"[^\w\s-]", "", words).strip()))
    return found | set(re.findall(r"\b(?:id|name)=\"([^\"]+)\"", text))


def run_session(code, name):
    """Run ``>>>`` lines; what they print is what is shown."""
    test = doctest.DocTestParser().get_doctest(code, {}, name, name, 0)
    report = []
    runner = doctest.DocTestRunner(optionflags=doctest.REPORT_NDIFF)
    assert runner.run(test, out=report.append, clear_globs=False).failed == 0, "".join(report)
    return len(test.examples)


def run_session_apart(code, folder, sources):
    """The same in a process of its own, which finds anydml in `sources`."""
    file = folder / "session.txt"
    file.write_text(code, encoding="utf-8")
    program = (
        "import sys, doctest, pathlib, anydml; assert sys.argv[1] in anydml.__file__; "
        "sys.exit(doctest.testfile(sys.argv[2], module_relative=False, encoding='utf-8').failed)"
    )
    arguments = [sys.executable, "-c", program, str(sources), str(file)]
    done = subprocess.run(arguments, cwd=folder, env=environment(sources), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def copy_of_sources(target):
    """A copy of the package to change, with the bytecode that was made of what is copied."""
    source = ROOT / "src"
    shutil.copytree(source, target)
    for original in source.rglob("*.py"):
        copy = target / original.relative_to(source)
        made, remade = (Path(importlib.util.cache_from_source(str(path))) for path in (original, copy))
        if made.exists() and not remade.exists():
            remade.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(made, remade)


def run_commands(commands, folder, sources=None):
    """What a shell prints; `anydml` and `python` are those of this Python. `anydml` alone needs no process."""
    if sources is None and re.fullmatch(r"(anydml [\w :./,=-]+\n)+", commands):
        return "".join(printed_by(line.split()[1:]) for line in commands.splitlines())
    bash = shutil.which("bash")
    found = subprocess.run(
        [bash, "-e", "-c", commands], cwd=folder, env=environment(sources), capture_output=True, text=True, check=False
    )
    assert found.returncode == 0, found.stdout + found.stderr
    return found.stdout


def printed_by(arguments):
    """What `anydml` prints in this process, in the folder where it is."""
    printed = io.StringIO()
    with pytest.raises(SystemExit) as end, contextlib.redirect_stdout(printed):
        main(arguments)
    assert not end.value.code, printed.getvalue()
    return printed.getvalue()


def environment(sources=None):
    """Where programs and anydml are found."""
    path = os.pathsep.join((sysconfig.get_path("scripts"), str(Path(sys.executable).parent), os.environ["PATH"]))
    return os.environ | {"PATH": path} | ({"PYTHONPATH": str(sources)} if sources else {})


def untimed(text):
    """A program's output without its timings."""
    return re.sub(r"\d+\.\d+ (ms|s)\b", r"T \1", text).rstrip()


def edited(text, diff):
    """A file's text after the hunks of a diff; each hunk's old lines must stand in it exactly once."""
    for hunk in re.split(r"^@@.*\n", diff, flags=re.M):
        lines = hunk.splitlines()
        old = "".join(f"{line[1:]}\n" for line in lines if line[:1] != "+")
        new = "".join(f"{line[1:]}\n" for line in lines if line[:1] != "-")
        if hunk:
            assert text.count(old) == 1, f"{text.count(old)} times in the file:\n{old}"
            text = text.replace(old, new)
    return text
