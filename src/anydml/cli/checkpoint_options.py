"""Options of the commands that read and write checkpoints."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial, reduce
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from anydml.cli.options import Size, exclude
from anydml.cli.output import AnyPath, LocalPath, overwrite_option, quiet_option
from anydml.cli.plan_output import json_option

LAYOUTS = ("transformers", "original", "per-expert", "vllm", "megatron")
"""Layouts of `anydml.stores.convert`; commands do not load it before they run."""

RANKS = (
    ("tp", "tensor-parallel ranks"),
    ("ep", "ranks that share the experts"),
    ("pp", "pipeline stages"),
    ("fsdp", "ranks that share the first axis of tensors, as in PyTorch's FSDP"),
)
"""Options for the numbers of ranks of each kind, and descriptions of the ranks."""


def checkpoint_output_options(source: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Return options of the commands that write a checkpoint.

    Args:
        source: the name of the checkpoint that is read, in the help of the options.
    """
    size = partial(click.option, type=Size(), show_default=True, metavar="SIZE")
    options = [
        *(
            click.option(f"--{name}", type=int, metavar="N", help=f"Write a file for each of N {ranks}.")
            for name, ranks in RANKS
        ),
        click.option("--dtype", metavar="DTYPE", help="Cast floating-point tensors when they are read."),
        size("--memory", default="256MB", help="Total size of all buffers."),
        size("--shard-size", default="5GB", help="Approximate size of an output file."),
        click.option("--shards", type=int, metavar="N", help="Write N files of about equal size instead."),
        click.option(
            "--scheduler", metavar="ADDRESS", help="Write OUT on a Dask cluster, such as tcp://10.0.0.1:8786."
        ),
        click.option(
            "--scratch",
            metavar="DIR",
            type=LocalPath(),
            help="Local folder in which OUT is made before it is uploaded to an address such as s3://bucket/model.",
        ),
        click.option("--dcp", is_flag=True, help="Write a distributed checkpoint of PyTorch: .distcp and .metadata."),
        click.option(
            "--extras-from",
            metavar="FOLDER",
            type=AnyPath(is_read=True),
            help="Copy config.json, tokenizers and so on from it.",
        ),
        click.option("--no-extras", is_flag=True, help="Do not copy config.json, tokenizers and the like."),
        click.option("--no-follow", is_flag=True, help=f"Refuse symbolic links that lead out of {source}."),
        overwrite_option,
        click.option("--dry-run", is_flag=True, help="Print the plan without writing anything."),
        click.option("-v", "--verbose", is_flag=True, help="With --dry-run, list every tensor."),
        json_option,
        quiet_option("errors and differences"),
    ]
    return lambda command: reduce(lambda decorated, option: option(decorated), reversed(options), command)


def ranks_of(counts: Mapping[str, int | None]) -> dict[str, int] | None:
    """Return the numbers of ranks by option; None for options that were not given."""
    return {name: count for name, count in counts.items() if count is not None} or None


def extras_of(extras_from: str | None, no_extras: bool) -> bool | str:
    """Return whether small files are copied, or the folder that they are copied from."""
    exclude("extras_from", "no_extras")
    return not no_extras if extras_from is None else extras_from


def check_options(output: str) -> None:
    """Refuse options of `checkpoint_output_options` that contradict each other, or do not apply to this output."""
    context = click.get_current_context()
    exclude("shards", "shard_size")
    for name in ("dcp", *dict(RANKS)):
        exclude("shard_size", name, reason="each rank gets one file")
    is_sized = context.get_parameter_source("shard_size") is ParameterSource.COMMANDLINE
    if is_sized and Path(output).suffix.lower() in (".safetensors", ".gguf", ".npz"):
        raise click.UsageError(f"--shard-size is for the files of a folder, and {output} is one file", context)
    check_dry_run()


def check_dry_run() -> None:
    """Refuse options that do not go with --dry-run, or only with it."""
    context = click.get_current_context()
    exclude("dry_run", "verify", reason="nothing is written that could be verified")
    exclude("dry_run", "scheduler", reason="nothing is written, here or on a cluster")
    exclude("verbose", "quiet")
    if context.params.get("verbose") and not context.params["dry_run"]:
        raise click.UsageError("--verbose lists the tensors of a plan: add --dry-run", context)


def tensor_selection_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Return options for the tensors that are taken, and their names."""
    repeatable_option = partial(click.option, multiple=True)
    options = [
        repeatable_option(
            "--only",
            metavar="NAME",
            help="Keep only these tensors: a name, a dotted prefix (model) or a pattern ('*.weight'). Repeatable.",
        ),
        repeatable_option("--drop", metavar="NAME", help="Leave out these tensors (same syntax), after --only."),
        repeatable_option("--strip", metavar="PREFIX", help="Remove this prefix from tensor names, e.g. model."),
        repeatable_option(
            "--rename", metavar="OLD=NEW", help="Rename by patterns, such as '*.gamma=*.weight'; after --strip."
        ),
    ]
    return reduce(lambda decorated, option: option(decorated), reversed(options), command)


def renames(texts: tuple[str, ...]) -> list[tuple[str, str]]:
    """Parse --rename."""
    pairs = [text.partition("=")[::2] for text in texts]
    if wrong := next((text for text, pair in zip(texts, pairs, strict=True) if not all(pair)), None):
        raise click.BadParameter(f"{wrong[:60]!r} is not OLD=NEW", param_hint="'--rename'")
    return pairs
