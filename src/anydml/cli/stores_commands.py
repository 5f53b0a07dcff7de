"""The commands for array files: stores, reshard, convert and rechunk."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from anydml.cli.checkpoint_options import (
    LAYOUTS,
    check_dry_run,
    check_options,
    checkpoint_output_options,
    extras_of,
    ranks_of,
    renames,
    tensor_selection_options,
)
from anydml.cli.command import Command
from anydml.cli.options import Size, Whole
from anydml.cli.output import AnyPath, LocalPath, check_readable, fail, overwrite_option, print_status, quiet_option
from anydml.cli.plan_output import PlanOutput, json_option, print_json
from anydml.progress import waiting

if TYPE_CHECKING:
    from anydml.stores import Plan
    from anydml.stores.checkpoints.presets import LayoutName


@click.command(
    cls=Command,
    short_help="List the arrays of a file or checkpoint.",
    examples=("model", "model.safetensors x.zarr", "hf://owner/name"),
)
@click.argument("models", metavar="MODEL...", nargs=-1, required=True, type=AnyPath(is_read=True, is_checked=False))
@click.option("--no-follow", is_flag=True, help="Refuse symbolic links that lead out of a folder.")
@click.option("--json", "as_json", is_flag=True, help="Print a line of JSON for each MODEL.")
@quiet_option("errors")
def stores(models: tuple[str, ...], no_follow: bool, as_json: bool, quiet: bool) -> int:
    """List the arrays of each MODEL.

    MODEL is a .npy, .npz, .safetensors, .gguf or torch.save file, an index file, a folder of such files, a distributed
    checkpoint of PyTorch, or a Zarr array or group, here or at an address such as s3://bucket/x.zarr.

    The exit code is 0, or 2 if a MODEL cannot be read; the others are still listed.
    """
    from anydml.cli.listing import lines_of, list_arrays

    code = 0
    for model in models:
        try:
            check_readable(model)
            report = list_arrays(model, not no_follow)
        except (ValueError, OSError, click.ClickException) as error:
            code = fail(str(error))
            report = {"error": str(error), "model": model}
        if as_json:
            print_json(report)
        elif report.get("error") is None:
            for line in lines_of(report):
                print_status(line)
    return code


@click.command(
    cls=Command,
    short_help="Consolidate, reshard or rearrange a checkpoint.",
    examples=("model out.safetensors", "model ranks --tp 4 --memory 256MB", "ranks whole --dry-run",
              "run model --only model --strip model. --dtype bf16"),
)  # fmt: skip
@click.argument("inputs", metavar="IN...", nargs=-1, type=AnyPath(is_read=True))
@click.argument("output", metavar="OUT", type=AnyPath())
@tensor_selection_options
@click.option(
    "--layout", type=LocalPath(is_read=True), metavar="FILE", help="Rules for the tensors, in TOML or Python."
)
@click.option(
    "--vocab-size",
    type=int,
    metavar="N",
    help="Cut vocabulary padding: keep the first N rows of embeddings and output layers.",
)
@checkpoint_output_options("IN")
def reshard(
    inputs: tuple[str, ...], output: str, layout: str | None, dtype: str | None, memory: str, shard_size: str,
    shards: int | None, scheduler: str | None, scratch: str | None, dcp: bool, extras_from: str | None,
    no_extras: bool, no_follow: bool, overwrite: bool, dry_run: bool, verbose: bool, as_json: bool, quiet: bool,
    only: tuple[str, ...], drop: tuple[str, ...], strip: tuple[str, ...], rename: tuple[str, ...],
    vocab_size: int | None, **ranks: int | None,
) -> None:  # fmt: skip
    """Write the checkpoint IN as OUT: consolidated, resharded, or in another layout.

    IN is a file or folder of whole tensors, a distributed checkpoint of PyTorch, a folder of DeepSpeed, Megatron or
    Meta's Llama, or a folder of rank files written by --tp. Several INs may be files of one such folder, or files
    without a common tensor, in any order; otherwise they are taken as tensor-parallel ranks, in the given order. OUT
    is a .safetensors, .gguf or .npz file, or a folder of safetensors files. Both may be at an address, such as
    s3://bucket/model.

    An interrupted command resumes when it is repeated.
    """
    from anydml.stores.resharding import reshard as make

    if not inputs:
        raise click.UsageError(f"IN and OUT are needed, but {output!r} was given alone: write anydml reshard IN OUT")
    check_options(output)
    options = memory, shard_size, overwrite, extras_of(extras_from, no_extras), not no_follow, dtype, dcp, shards
    with waiting("reshard: planning", not quiet):
        plan = make(
            inputs, output, layout, ranks_of(ranks), *options, only, drop, strip, renames(rename), vocab_size, scratch
        )
    _run(plan, PlanOutput(output, quiet, as_json), scheduler, dry_run, verbose)


def _run(plan: Plan, output: PlanOutput, scheduler: str | None, dry_run: bool, verbose: bool = False) -> None:
    """Run a plan, or list what it would write if `dry_run`."""
    if dry_run:
        output.print_plan(plan, verbose)
    else:
        output.run(plan, scheduler)


@click.command(
    cls=Command,
    short_help="Convert a model between the layout of transformers and its original layout.",
    examples=("model out", "model out --to original", "model ranks --to vllm --tp 4"),
)
@click.argument("model", type=LocalPath(is_read=True))
@click.argument("output", metavar="OUT", type=AnyPath())
@click.option("--to", type=click.Choice(LAYOUTS), default="transformers", show_default=True,
              help="transformers: as from_pretrained loads it. original: as save_pretrained saves it. per-expert: like "
                   "transformers, with one tensor per expert. vllm, megatron: as in these libraries.")  # fmt: skip
@checkpoint_output_options("MODEL")
def convert(
    model: str, output: str, to: LayoutName, dtype: str | None, memory: str, shard_size: str, shards: int | None,
    scheduler: str | None, scratch: str | None, dcp: bool, extras_from: str | None, no_extras: bool, no_follow: bool,
    overwrite: bool, dry_run: bool, verbose: bool, as_json: bool, quiet: bool, **ranks: int | None,
) -> None:  # fmt: skip
    """Write MODEL, a folder with a safetensors checkpoint and its config.json, as OUT in another layout.

    Names and shapes follow the conversion mapping of the installed transformers for this model. Models whose mapping
    computes, rather than only moving elements, are refused. The mapping of a model is cached in your
    folder for caches, or in the folder ANYDML_CACHE; if this variable is empty, nothing is cached.

    An interrupted command resumes when it is repeated.
    """
    from anydml.stores.converting import convert as make

    check_options(output)
    options = memory, shard_size, overwrite, extras_of(extras_from, no_extras), not no_follow, dtype, dcp, shards
    with waiting("convert: planning", not quiet):
        plan = make(model, output, to, ranks_of(ranks), *options, scratch)
    _run(plan, PlanOutput(output, quiet, as_json), scheduler, dry_run, verbose)


@click.command(
    cls=Command,
    short_help="Rewrite an array with other chunks or another axis order.",
    examples=("maps.zarr series.zarr --chunks=-1,36,72 --memory 512MB", "x.npy x.zarr --chunks 64,64",
              "x.zarr y.zarr --slice time=0:365 --codec zstd:3"),
)  # fmt: skip
@click.argument("source", metavar="IN", type=AnyPath(is_read=True), required=False)
@click.argument("output", metavar="OUT", type=AnyPath(), required=False)
@click.option("--chunks", metavar="[NAME=]N,…", multiple=True,
              help="Chunk shape of OUT, with -1 for a whole axis, or all sizes along one, as 10+10+5; default: that of "
              "IN. For a group, it applies to all arrays of this rank except coordinates, or to "
              "array NAME; may be repeated.")  # fmt: skip
@click.option(
    "--shards",
    metavar="N,…",
    help="Shard shape, with -1 for a whole axis, or none; default: that of IN, rounded to whole chunks.",
)
@click.option("--permute", metavar="AXIS,…", help="Axes of IN in the order of OUT.")
@click.option(
    "--slice", "slices", metavar="A:B:C,…", help="Python slice of each axis of IN, or AXIS=A:B:C,… by names of axes."
)
@click.option("--flip", metavar="AXIS,…", help="Axes of IN to reverse.")
@click.option(
    "--codec",
    metavar="NAME[:OPTION,…]",
    help="none, zstd, gzip, blosc, lz4, zlib, bz2, lzma or pcodec, such as zstd:3 or blosc:lz4,5,bitshuffle; "
    "default: that of IN.",
)
@click.option(
    "--dtype", metavar="DTYPE", help="Of a .npy file: cast floating-point numbers, or swap bytes, as by '<f4'."
)
@click.option("--zarr-format", type=click.Choice(["2", "3"]), help="Version of OUT; default: that of IN, or 3.")
@click.option(
    "--memory",
    type=Size(),
    default="512MB",
    show_default=True,
    metavar="SIZE",
    help="Total size of all buffers, which hold blocks, chunks and requests; Python and its libraries take more.",
)
@click.option("--scheduler", metavar="ADDRESS", help="Write OUT on a Dask cluster, such as tcp://10.0.0.1:8786.")
@click.option(
    "--plan",
    "plan_file",
    type=LocalPath(),
    metavar="FILE",
    help="Write tasks to FILE for other processes; without IN and OUT, run the tasks that are left.",
)
@click.option("--tasks", type=Whole(1), metavar="N", help="Number of tasks; default: one per 256 MiB.")
@click.option("--task", type=Whole(0), metavar="K", help="Run task K of --plan FILE, from 0.")  # fmt: skip
@click.option("--verify", is_flag=True, help="After writing, compare OUT with IN.")
@overwrite_option
@click.option("--dry-run", is_flag=True, help="Print the plan without writing anything.")
@json_option
@quiet_option("errors and differences")
def rechunk(
    source: str | None, output: str | None, chunks: tuple[str, ...], permute: str | None, slices: str | None,
    flip: str | None,
    codec: str | None, memory: str, scheduler: str | None, overwrite: bool, dry_run: bool, as_json: bool, quiet: bool,
    shards: str | None, zarr_format: str | None, verify: bool, plan_file: str | None, tasks: int | None,
    task: int | None, dtype: str | None,
) -> int:  # fmt: skip
    """Write IN, a Zarr array or group or a .npy file, as OUT, with other chunks, shards, codecs or axes.

    OUT is a .npy file if its name ends in .npy, a zip store of Zarr if in .zip, a new repository of Icechunk if in
    .icechunk, otherwise a folder of Zarr. Of a group, such as a dataset of xarray, arrays that keep their chunks are
    copied. IN and OUT may be at an address, such as s3://bucket/x.zarr; credentials come from the environment.

    Arrays are sliced, then reversed, then permuted. From Zarr to Zarr, codecs, filters, shards and attributes are
    preserved unless an option changes them.

    An interrupted command resumes when it is repeated.

    To share the work among processes, run anydml rechunk IN OUT … --plan plan.json, then anydml rechunk --plan
    plan.json --task K in each of them, and finally anydml rechunk --plan plan.json.
    """
    from anydml.stores.rechunking import rechunk as make

    if source is None or output is None:
        return _run_tasks(plan_file, task, PlanOutput(plan_file or "", quiet, as_json))
    if task is not None:
        raise click.UsageError("--task takes IN and OUT from --plan FILE: do not give them")
    options: dict[str, Any] = {
        "chunks": _chunks(chunks), "permute": _integers("--permute", permute), "slices": slices,
        "flip": _integers("--flip", flip) or (), "codec": codec, "memory": memory, "overwrite": overwrite,
        "shards": () if shards == "none" else _integers("--shards", shards),
        "zarr_format": None if zarr_format is None else int(zarr_format), "dtype": dtype,
    }  # fmt: skip
    if plan_file is not None:
        from anydml.stores.task_plans import plan_tasks

        if dry_run or verify or scheduler is not None:
            raise click.UsageError("--plan takes no --dry-run, --verify or --scheduler: its tasks are run later")
        with waiting("rechunk: planning", not quiet):
            plan = plan_tasks(plan_file, source, output, tasks, **options)
        PlanOutput(output, quiet, as_json).print_plan(plan, False, is_dry=False)
        return 0
    if tasks is not None:
        raise click.UsageError("--tasks is the number of tasks that --plan FILE writes")
    check_dry_run()
    with waiting("rechunk: planning", not quiet):
        plan = make(source, output, **options)
    if not verify:
        _run(plan, PlanOutput(output, quiet, as_json), scheduler, dry_run)
        return 0
    return PlanOutput(output, quiet, as_json).run_and_verify(plan, scheduler)


def _run_tasks(plan_file: str | None, task: int | None, output: PlanOutput) -> int:
    """Run a task of a plan in a file, or the rest of the plan."""
    from anydml.stores.task_plans import finish_tasks, run_task

    context = click.get_current_context()
    of_others = [
        parameter.opts[0] for parameter in context.command.params
        if parameter.name not in ("plan_file", "task", "as_json", "quiet")
        and context.get_parameter_source(parameter.name or "") is ParameterSource.COMMANDLINE
        and context.params[parameter.name or ""] is not None
    ]  # fmt: skip
    if plan_file is None or context.params["source"] is not None:
        raise click.UsageError("IN and OUT are needed, or --plan FILE alone")
    if of_others:
        raise click.UsageError(f"{of_others[0]} is fixed when the plan is made: leave it out")
    if task is None:
        output.report_finished(finish_tasks(plan_file, output.shows_progress))
    else:
        run_task(plan_file, task, output.shows_progress)
        output.report_task(plan_file, task)
    return 0


def _chunks(texts: tuple[str, ...]) -> list[Any] | dict[str, list[Any]] | None:
    """Parse --chunks: one chunk shape, or chunk shapes by array name."""
    if len(texts) == 1 and "=" not in texts[0]:
        return _sizes(texts[0])
    shapes = {name: _sizes(sizes) for name, _, sizes in (text.rpartition("=") for text in texts)}
    if "" in shapes or len(shapes) < len(texts):
        raise click.BadParameter("is given several times, but not as NAME=N,… of each array", param_hint="'--chunks'")
    return shapes or None


def _sizes(text: str) -> list[Any]:
    """Parse a chunk shape: sizes, or sums of all sizes along an axis."""
    try:
        return [[int(size) for size in part.split("+")] if "+" in part else int(part) for part in text.split(",")]
    except ValueError:
        raise click.BadParameter(
            f"{text[:40]!r} must be one size per axis, separated by commas, such as 256,-1 or 10+10+5,20",
            param_hint="'--chunks'",
        ) from None


def _integers(option: str, text: str | None) -> list[int] | None:
    """Parse comma-separated integers."""
    if text is None:
        return None
    try:
        return [int(part) for part in text.split(",")]
    except ValueError:
        raise click.BadParameter(
            f"{text[:40]!r} is not a list of comma-separated integers, such as 1,0", param_hint=f"'{option}'"
        ) from None
