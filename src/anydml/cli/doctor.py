"""`anydml doctor`: what is here, and what would be slow here, and why."""

from __future__ import annotations

import importlib
import os
import platform
import warnings
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import click

from anydml.cli.output import say
from anydml.text import bytes_text, counted, printable

LIBRARIES = ("numpy", "numba", "llvmlite", "torch", "triton", "jax", "cupy", "onnx", "onnxruntime")

Fact = tuple[str, str]
Facts = tuple[list[Fact], list[str]]
"""Lines of name and value, and what is slow."""


@click.command(short_help="Show versions, threads, kernels, and what is slow here.")
def doctor() -> None:
    """Show versions, cores, threads, cache, kernels and GPU, and what would be slow here and why.

    It compiles a kernel, unless it has been compiled before, to see whether that can be done.
    """
    facts, slow = [*_versions()], list[str]()
    for ask in (_threads, _core, _kernels, _gpu):
        found, why = ask()
        facts += found
        slow += why
    width = max(len(name) for name, _ in facts)
    for name, value in facts:
        say(printable(f"{name:{width}}  {value}"))
    say("")
    say("What is slow here:" if slow else "Nothing that anydml knows of is slow here.")
    for line in slow:
        say(printable(f"- {line}"))


def _versions() -> Iterator[Fact]:
    from importlib import metadata

    yield "anydml", f"{metadata.version('anydml')} in {Path(__file__).parents[1]}"
    yield "python", f"{platform.python_version()} ({platform.python_implementation()}), {platform.platform()}"
    for name in LIBRARIES:
        try:
            yield name, metadata.version(name)
        except metadata.PackageNotFoundError:
            yield name, "not installed"


def _threads() -> Facts:
    from anydml.engines.cpu.machine import last_level_cache
    from anydml.engines.cpu.pool import available_cores, get_num_threads
    from anydml.memory.limits import available_memory

    cores, every, threads = available_cores(), os.cpu_count() or 1, get_num_threads()
    available = available_memory()
    facts = [
        ("cores", f"{cores}" if cores == every else f"{cores} of the machine's {every}"),
        ("threads", f"{threads} for work of {_shared_from()} and more"),
        ("largest cache", bytes_text(last_level_cache())),
        ("memory", "the system does not say" if available is None else f"{bytes_text(available)} available"),
    ]
    slow = []
    if threads < cores:
        slow.append(
            f"{threads} of {counted(cores, 'core')} work: unset ANYDML_NUM_THREADS, or call set_num_threads({cores})"
        )
    if threads > cores:
        slow.append(
            f"{counted(threads, 'thread')} share {counted(cores, 'core')} and "
            f"wait for each other: set ANYDML_NUM_THREADS={cores}"
        )
    return facts, slow


def _shared_from() -> str:
    from anydml.engines.cpu.compiler import NoCompilerError
    from anydml.engines.cpu.sharing_point import DEFAULT, shared_bytes

    try:
        return bytes_text(shared_bytes())
    except NoCompilerError:
        return bytes_text(DEFAULT)


def _core() -> Facts:
    from anydml import core

    if core.IS_COMPILED:
        return [("core", f"compiled, {core.instruction_set()}")], []
    why = "its compiled core is not there, so that Python plans every call, in 50 µs and more: install anydml anew"
    return [("core", "not compiled")], [f"{why}, where a C compiler works or pip reaches one"]


def _kernels() -> Facts:
    from anydml.engines.cpu.compiler import NoCompilerError, import_kernels, quietly

    try:
        import_kernels()
        from anydml.engines.cpu.kernels import kept
        from anydml.engines.cpu.kernels.rows import rows_kernel
        from anydml.engines.cpu.warmup import kernels

        rows_kernel()
        # A kernel that lies on the disk needs no compiler.
        quietly(partial(importlib.import_module, "anydml.engines.cpu.kernels.compilation"))
    except NoCompilerError as error:
        slow = f"no kernel can be compiled, so NumPy moves everything, in one thread: {error}"
        return [("compiler", "does not work"), ("kernels", "none")], [slow]
    held = kept.held()
    where = ", ".join(f"{count} compiled, in {folder}" for folder, count in held)
    facts = [("compiler", "works"), ("kernels", where if held else "none kept on disk")]
    are_missing = sum(count for _, count in held) < sum(1 for _ in kernels())
    if are_missing and kept.writable() is None:
        why = (
            "kernels cannot be kept on disk, so each process compiles its own: set NUMBA_CACHE_DIR to a folder of yours"
        )
        return facts, [why]
    if are_missing:
        return facts, ["the first large call of each kind compiles its kernel, in under a second: run anydml warmup"]
    return facts, []


def _gpu() -> Facts:
    from anydml.engines import gpu

    try:
        with warnings.catch_warnings():
            # What PyTorch says of a driver is said by its answer.
            warnings.simplefilter("ignore")
            name, slow = gpu()
    except ValueError as error:
        return [("gpu", f"none: {error}")], []
    return [("gpu", name)], [slow] if slow else []
