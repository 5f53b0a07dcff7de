"""`anydml doctor`: report the installation, and what makes anydml slow on this machine."""

from __future__ import annotations

import contextlib
import os
import platform
import warnings
from collections.abc import Iterator
from pathlib import Path

import click

from anydml.cli.command import Command
from anydml.cli.output import print_line
from anydml.cli.plan_output import json_option, print_json
from anydml.text import bytes_text, count_noun, escape_controls

LIBRARIES = (
    "numpy", "ml_dtypes", "torch", "triton", "jax", "cupy", "onnx", "onnxruntime", "zarr", "h5py", "dask",
    "transformers",
)  # fmt: skip

Fact = tuple[str, str]
Facts = tuple[list[Fact], list[str]]
"""Facts, and causes of slowness with remedies."""


@click.command(
    cls=Command, short_help="Show versions, threads, fast paths, and causes of slowness.", examples=("", "--json")
)
@json_option
def doctor(as_json: bool) -> None:
    """Show versions, cores, threads, memory, the compiled core, the GPU, and causes of slowness on this machine."""
    facts, slow = [*_versions()], list[str]()
    for probe in (_threads, _core, _libraries, _gpu):
        probed, causes = probe()
        facts += probed
        slow += causes
    if as_json:
        print_json({"facts": dict(facts), "slow": slow})
        return
    width = max(len(name) for name, _ in facts)
    for name, value in facts:
        print_line(escape_controls(f"{name:{width}}  {value}"))
    print_line("")
    print_line("What is slow here:" if slow else "Nothing that anydml knows of is slow here.")
    for line in slow:
        print_line(escape_controls(f"- {line}"))


def versions() -> Iterator[Fact]:
    """Yield the names and versions of anydml, Python and the libraries that are installed."""
    from importlib import metadata

    yield "anydml", metadata.version("anydml")
    yield "Python", platform.python_version()
    for name in LIBRARIES:
        with contextlib.suppress(metadata.PackageNotFoundError):
            yield name, metadata.version(name)


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
    from anydml.engines.cpu.threads import available_cores, get_num_threads
    from anydml.memory.limits import available_memory

    usable_cores, machine_cores, threads = available_cores(), os.cpu_count() or 1, get_num_threads()
    available = available_memory()
    facts = [
        (
            "cores",
            f"{usable_cores}" if usable_cores == machine_cores else f"{usable_cores} of the machine's {machine_cores}",
        ),
        ("threads", f"{threads} for large work"),
        ("memory", "unknown" if available is None else f"{bytes_text(available)} available"),
    ]
    slow = []
    if threads < usable_cores:
        slow.append(
            f"{threads} of {count_noun(usable_cores, 'core')} work: unset ANYDML_NUM_THREADS, or call "
            f"set_num_threads({usable_cores})"
        )
    if threads > usable_cores:
        slow.append(
            f"{count_noun(threads, 'thread')} share {count_noun(usable_cores, 'core')} and "
            f"wait for each other: set ANYDML_NUM_THREADS={usable_cores}"
        )
    return facts, slow


def _core() -> Facts:
    from anydml import core

    if core.IS_COMPILED:
        return [("core", f"compiled, {core.instruction_set()}")], []
    reason = "anydml has no compiled core, so Python plans every call, which takes 50 µs or more"
    return [("core", "not compiled")], [f"{reason}: reinstall anydml where a C compiler works, or pip can get one"]


def _libraries() -> Facts:
    """Report how arrays of installed libraries are read."""
    from importlib.util import find_spec

    from anydml import core

    facts, slow = list[Fact](), list[str]()
    if find_spec("torch") is not None:
        import torch

        has_table = hasattr(torch.Tensor, "__dlpack_c_exchange_api__")
        is_quick = core.IS_COMPILED and has_table
        facts.append(("tensors", "read by compiled code, by DLPack's table" if is_quick else "read by Python"))
        if core.IS_COMPILED and not has_table:
            reason = (
                "this PyTorch has no DLPack table, so Python plans every call on tensors, which takes 50 µs or more"
            )
            slow.append(f"{reason}: install PyTorch 2.10 or later")
    if find_spec("jax") is not None:
        facts.append(("JAX's arrays", "read by NumPy, without a copy"))
    return facts, slow


def _gpu() -> Facts:
    from anydml.engines import gpu

    try:
        with warnings.catch_warnings():
            # PyTorch warns about drivers, which the returned text covers.
            warnings.simplefilter("ignore")
            name, slow = gpu()
    except ValueError as error:
        return [("gpu", f"none: {error}")], []
    return [("gpu", name)], [slow] if slow else []
