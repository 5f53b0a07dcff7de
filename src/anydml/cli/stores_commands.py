"""The commands over files: stores, reshard, convert, verify and rechunk."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from anydml.text import bytes_text, counted, printable

if TYPE_CHECKING:
    from anydml.stores import GridPlan, Plan


LAYOUTS = ("transformers", "original", "per-expert", "vllm", "megatron")
"""As `anydml.stores.convert` has them; commands do not load it before they run."""


def _for_ranks(command: Callable[..., Any]) -> Callable[..., Any]:
    """Options for what is written for ranks."""
    for name, what in (
        ("fsdp", "that share first axes, as PyTorch's FSDP does"),
        ("pp", "with a stage of the layers each"),
        ("ep", "that share experts"),
        ("tp", "that are tensor-parallel"),
    ):
        text = f"Write a file for each of N ranks {what}."
        command = click.option(f"--{name}", type=int, metavar="N", help=text)(command)
    return command


def _ranks(given: Mapping[str, int | None]) -> dict[str, int] | None:
    """Counts of ranks that were given; None where none was."""
    return {name: count for name, count in given.items() if count is not None} or None


@click.command(short_help="List the arrays of a file or checkpoint.")
@click.argument("model", type=click.Path())
@click.option("--no-follow", is_flag=True, help="Refuse files of a folder that are links out of it.")
def stores(model: str, no_follow: bool) -> None:
    """List the arrays of MODEL.

    It is a .npy, .npz, .safetensors or .gguf file, one of torch.save, an index, a folder of these or of a distributed
    checkpoint of PyTorch's, or a Zarr array.
    """
    from anydml import stores as api
    from anydml.stores.axes import Axes
    from anydml.stores.sources import is_distributed, read_sources

    opened: Any = None
    if is_distributed(Path(model)):
        tensors, _ = read_sources([model], Axes(), not no_follow)
        every = [
            (name, each.dtype, each.shape, each.nbytes, counted(len(each.pieces), "piece"))
            for name, each in tensors.items()
        ]
    else:
        opened = api.open(model, follow=not no_follow)
        arrays = [*opened.values()] if isinstance(opened, api.Checkpoint) else [opened]
        every = [(each.name, each.dtype, each.shape, each.nbytes, each.path.name) for each in arrays]
    cells = [(name, dtype, [*shape], bytes_text(size), where) for name, dtype, shape, size, where in every]
    rows = [[printable(str(cell)) for cell in row] for row in cells]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        click.echo("  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).strip())
    click.echo(printable(f"{model}: {counted(len(every), 'array')}, {bytes_text(sum(each[3] for each in every))}"))
    if isinstance(opened, api.ZarrStore):
        codec = "none" if opened.layout.is_plain else (opened.layout.codec or {}).get("id", "of zarr-python's")
        click.echo(f"  Zarr {opened.layout.version}, chunks {[*opened.chunks]}, codec {printable(str(codec))}")
    if isinstance(opened, api.Checkpoint):
        for key, value in opened.metadata.items():
            click.echo(printable(f"  {key}: {value[:200]}"))


@click.command(short_help="Consolidate, share or lay out a checkpoint.")
@click.argument("inputs", metavar="IN...", nargs=-1, type=click.Path())
@click.argument("output", metavar="OUT", type=click.Path())
@click.option("--layout", type=click.Path(), metavar="FILE", help="Rules for the tensors, in TOML or Python.")
@_for_ranks
@click.option("--memory", default="256MB", show_default=True, metavar="SIZE", help="Bytes of all buffers together.")
@click.option("--shard-size", default="5GB", show_default=True, metavar="SIZE", help="Bytes of a file of OUT, about.")
@click.option("--scheduler", metavar="ADDRESS", help="Let a Dask cluster write OUT, such as tcp://10.0.0.1:8786.")
@click.option("--no-extras", is_flag=True, help="Leave config.json, a tokenizer's files and other small ones behind.")
@click.option("--no-follow", is_flag=True, help="Refuse files of IN that are links out of it.")
@click.option("--overwrite", is_flag=True, help="Replace OUT where it exists.")
@click.option("--dry-run", is_flag=True, help="Say what would be read and written, and write nothing.")
@click.option("-v", "--verbose", is_flag=True, help="Say of each tensor where it would be, with --dry-run.")
@click.option("-q", "--quiet", is_flag=True, help="Say nothing but errors.")
def reshard(
    inputs: tuple[str, ...], output: str, layout: str | None, memory: str, shard_size: str, scheduler: str | None,
    no_extras: bool, no_follow: bool, overwrite: bool, dry_run: bool, verbose: bool, quiet: bool, **ranks: int | None,
) -> None:  # fmt: skip
    """Write the checkpoint IN as OUT, in safetensors files: consolidated, sharded again, or laid out in another way.

    IN is a file or a folder: of whole tensors, of a distributed checkpoint of PyTorch's, or of ranks as --tp writes
    them. Where there are several, each is one tensor-parallel rank, in order.

    What was stopped goes on when the same command is given again.
    """
    from anydml.stores.resharding import reshard as make

    if not inputs:
        raise click.UsageError(f"IN and OUT are needed, but {output!r} was given alone: write anydml reshard IN OUT")
    plan = make(inputs, output, layout, _ranks(ranks), memory, shard_size, overwrite, not no_extras, not no_follow)
    _run_checkpoint(plan, output, scheduler, dry_run, verbose, quiet)


def _run_checkpoint(
    plan: Plan, output: str, scheduler: str | None, dry_run: bool, verbose: bool, quiet: bool
) -> None:  # fmt: skip
    """Run a plan, or list the files that it would write."""
    if not dry_run:
        _run(plan, output, quiet, scheduler)
        return
    _say(quiet, str(plan))
    for file, group in groupby(plan.outputs, lambda target: target.file):
        own = [*group]
        _say(quiet, f"  {file.path.name}: {counted(len(own), 'tensor')}, {bytes_text(file.size)}")
        for target in own if verbose else ():
            _say(quiet, f"    {target.name}: {target.dtype} {[*target.shape]}")


@click.command(short_help="Write a model in the layout of transformers, or in its original one.")
@click.argument("model", type=click.Path())
@click.argument("output", metavar="OUT", type=click.Path())
@click.option("--to", type=click.Choice(LAYOUTS), default="transformers", show_default=True,
              help="transformers: as from_pretrained loads it. original: as save_pretrained saves it. per-expert: the "
                   "first, with a tensor for each expert. vllm, megatron: as their parameters are.")  # fmt: skip
@_for_ranks
@click.option("--memory", default="256MB", show_default=True, metavar="SIZE", help="Bytes of all buffers together.")
@click.option("--shard-size", default="5GB", show_default=True, metavar="SIZE", help="Bytes of a file of OUT, about.")
@click.option("--scheduler", metavar="ADDRESS", help="Let a Dask cluster write OUT, such as tcp://10.0.0.1:8786.")
@click.option("--no-extras", is_flag=True, help="Leave config.json, a tokenizer's files and other small ones behind.")
@click.option("--no-follow", is_flag=True, help="Refuse files of MODEL that are links out of it.")
@click.option("--overwrite", is_flag=True, help="Replace OUT where it exists.")
@click.option("--dry-run", is_flag=True, help="Say what would be read and written, and write nothing.")
@click.option("-v", "--verbose", is_flag=True, help="Say of each tensor where it would be, with --dry-run.")
@click.option("-q", "--quiet", is_flag=True, help="Say nothing but errors.")
def convert(
    model: str, output: str, to: str, memory: str, shard_size: str, scheduler: str | None, no_extras: bool,
    no_follow: bool, overwrite: bool, dry_run: bool, verbose: bool, quiet: bool, **ranks: int | None,
) -> None:  # fmt: skip
    """Write MODEL, a folder with a safetensors checkpoint and its config.json, as OUT in another layout.

    Names and shapes follow the conversion mapping that the installed transformers has for the model. Tensors are moved
    and never computed: a model whose mapping computes is refused.

    What was stopped goes on when the same command is given again.
    """
    from anydml.stores.converting import convert as make

    plan = make(model, output, to, _ranks(ranks), memory, shard_size, overwrite, not no_extras, not no_follow)
    _run_checkpoint(plan, output, scheduler, dry_run, verbose, quiet)


@click.command(short_help="Compare two checkpoints.")
@click.argument("first", metavar="A", type=click.Path())
@click.argument("second", metavar="B", type=click.Path())
@click.option(
    "--layout", type=click.Path(), metavar="FILE", help="Rules for A, in TOML or Python, as reshard has them."
)
@click.option("--to", type=click.Choice(LAYOUTS), help="Compare what convert would make of A.")
@click.option("--memory", default="256MB", show_default=True, metavar="SIZE", help="Bytes of all buffers together.")
@click.option("--no-follow", is_flag=True, help="Refuse files that are links out of their folder.")
@click.option("-q", "--quiet", is_flag=True, help="Say nothing but errors and the difference.")
def verify(
    first: str, second: str, layout: str | None, to: str | None, memory: str, no_follow: bool, quiet: bool
) -> int:
    """Compare the checkpoints A and B: names, dtypes, shapes and bytes, however files and ranks divide them.

    Ends with 1 where they differ, and names the first difference.
    """
    from anydml.stores.verifying import verify as compare

    difference = compare(first, second, layout, to, memory, not no_follow, not quiet)
    if difference is not None:
        click.echo(printable(difference))
        return 1
    _say(quiet, f"'{first}' and '{second}' hold the same tensors")
    return 0


@click.command(short_help="Write an array again, in other chunks or another order.")
@click.argument("source", metavar="IN", type=click.Path())
@click.argument("output", metavar="OUT", type=click.Path())
@click.option("--chunks", metavar="[NAME=]N,…", multiple=True,
              help="Sizes of a chunk of OUT, -1 for a whole axis; those of IN if not given. Of a group: those of all "
              "arrays of so many axes but coordinates, or, once for each, of the array NAME.")  # fmt: skip
@click.option("--shards", metavar="N,…", help="Sizes of a shard, or none; those of IN if not given, of whole chunks.")
@click.option("--permute", metavar="AXIS,…", help="The axes of IN in the order in which OUT has them.")
@click.option("--slice", "slices", metavar="A:B:C,…", help="What to take of each axis of IN, as Python slices.")
@click.option("--flip", metavar="AXIS,…", help="Axes of IN to turn round.")
@click.option("--codec", metavar="NAME[:LEVEL]", help="none, zstd, gzip or blosc; that of IN if not given.")
@click.option("--memory", default="512MB", show_default=True, metavar="SIZE", help="Bytes of all buffers together.")
@click.option("--scheduler", metavar="ADDRESS", help="Let a Dask cluster write OUT, such as tcp://10.0.0.1:8786.")
@click.option("--overwrite", is_flag=True, help="Replace OUT where it exists.")
@click.option("--dry-run", is_flag=True, help="Say what would be read and written, and write nothing.")
@click.option("-q", "--quiet", is_flag=True, help="Say nothing but errors.")
def rechunk(
    source: str, output: str, chunks: tuple[str, ...], permute: str | None, slices: str | None, flip: str | None,
    codec: str | None, memory: str, scheduler: str | None, overwrite: bool, dry_run: bool, quiet: bool,
    shards: str | None,
) -> None:  # fmt: skip
    """Write IN, a Zarr array or a .npy file, as OUT: a .npy file where its name ends so, else a Zarr array.

    IN may be a Zarr group, such as a dataset of xarray's: OUT is one, too, and what has no other chunks is copied.

    An array is sliced, then turned round, then permuted. From Zarr to Zarr all is kept that is not asked for otherwise:
    codecs, filters, shards, attributes.

    What was stopped goes on when the same command is given again.
    """
    from anydml.stores.rechunking import rechunk as make

    plan = make(
        source, output, _chunks(chunks), _numbers("--permute", permute), slices,
        _numbers("--flip", flip) or (), codec, memory, overwrite,
        () if shards == "none" else _numbers("--shards", shards),
    )  # fmt: skip
    if dry_run:
        _say(quiet, str(plan))
        for target in plan.outputs:
            _say(quiet, f"  {target!r}")
        return
    _run(plan, output, quiet, scheduler)


def _chunks(given: tuple[str, ...]) -> list[int] | dict[str, list[int]] | None:
    """Sizes, or sizes by the names of arrays."""
    if len(given) == 1 and "=" not in given[0]:
        return _numbers("--chunks", given[0])
    found = {name: _numbers("--chunks", sizes) or [] for name, _, sizes in (text.rpartition("=") for text in given)}
    if "" in found or len(found) < len(given):
        raise click.BadParameter("is given several times, but not as NAME=N,… of each array", param_hint="--chunks")
    return found or None


def _numbers(option: str, text: str | None) -> list[int] | None:
    """Numbers with commas in between."""
    if text is None:
        return None
    try:
        return [int(part) for part in text.split(",")]
    except ValueError:
        raise click.BadParameter(
            f"{text[:40]!r} are no numbers with commas in between, such as 1,0", param_hint=option
        ) from None


def _say(quiet: bool, text: str) -> None:
    if not quiet:
        click.echo(printable_lines(text))


def _run(plan: Plan | GridPlan, output: str, quiet: bool, scheduler: str | None) -> None:
    """Say what a plan does, do it, and say how far it is."""
    _say(quiet, str(plan))
    plan.run(progress=not quiet, scheduler=scheduler)
    if plan.was_there:
        _say(quiet, f"'{output}' is whole: this command had written it before, and nothing has changed since")
        return
    if plan.resumed:
        _say(quiet, f"{plan.resumed} of {len(plan.blocks)} blocks had been written before")
    _say(quiet, f"written to '{output}'")


def printable_lines(text: str) -> str:
    """Several lines as a terminal may show them."""
    return "\n".join(map(printable, text.splitlines()))
