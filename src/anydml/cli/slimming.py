"""`anydml slim`: rewrite an ONNX model so that it moves fewer bytes, for any runtime."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from anydml.cli.command import Command, with_options
from anydml.cli.onnx_checking import read_sizes
from anydml.cli.onnx_commands import is_onnx, load_onnx
from anydml.cli.options import dry_run_option, exclude
from anydml.cli.output import LocalPath, check_target, overwrite_option, print_line, print_status, quiet_option
from anydml.cli.plan_output import json_option, print_json
from anydml.cli.standard_input import ModelFile, model_file
from anydml.errors import ModelError
from anydml.text import bytes_text, count_noun, escape_controls

if TYPE_CHECKING:
    from onnx import ModelProto

    from anydml.files.folder import Folder
    from anydml.slim import SlimmedModel

MAX_LISTED_REGIONS = 20
"""Regions that are listed individually."""


@click.command(
    cls=Command,
    short_help="Rewrite an ONNX model to move fewer bytes.",
    examples=(
        "model.onnx slim.onnx",
        "model.onnx slim.onnx --exact --prove",
        "model.onnx slim.onnx --size N=8 --html page.html",
    ),
)
@click.argument("model", metavar="MODEL.onnx", type=LocalPath(is_read=True, reads_input=True))
@click.argument("output", metavar="OUT.onnx", type=LocalPath())
@click.option(
    "--exact",
    is_flag=True,
    help="Keep every bit: last bits of matrix products, signs of zeros, and numbers below 10⁻³⁷.",
)
@click.option(
    "--merge-scales",
    is_flag=True,
    help="Merge factors and biases of channels into the weights before, which rounds these weights again.",
)
@click.option(
    "--size", "size_options", multiple=True, metavar="NAME=SIZE", help="Fix a named size: OUT.onnx takes no other."
)
@click.option("--prove", is_flag=True, help="Prove the new model equal to the old one, as `anydml prove` does.")
@click.option("--html", metavar="FILE.html", type=LocalPath(), help="Write a page with bytes and pictures.")
@click.option("--allow-outside", is_flag=True, help="Allow external data outside the model's folder.")
@overwrite_option
@dry_run_option
@json_option
@quiet_option("errors")
def slim(
    model: str, output: str, exact: bool, merge_scales: bool, size_options: tuple[str, ...], prove: bool,
    html: str | None, allow_outside: bool, overwrite: bool, dry_run: bool, as_json: bool, quiet: bool,
) -> None:  # fmt: skip
    """Write MODEL.onnx as OUT.onnx with its data movement composed: fewer bytes, fewer nodes, the same results.

    Connected nodes that only move elements, such as Transpose, Reshape, Slice and Concat, are replaced by the cheapest
    equivalent standard nodes. Some nodes that compute are rewritten for another order of axes, if that moves fewer
    bytes. This may change the last bits of products by constant matrices, signs of zeros where sums with 0 are
    removed, and numbers below 10⁻³⁷ in Gelus; --exact prevents all three. --merge-scales changes more last bits, for
    fewer nodes. The names of inputs and outputs are unchanged.

    MODEL.onnx is a file, or - for standard input.
    """
    exclude("exact", "merge_scales", reason="weights that are merged are rounded again")
    sizes = read_sizes(size_options)
    refusal = None
    try:
        check_target("", output, ".onnx", [model], overwrite)
        check_target("--html", html, ".html", [model], overwrite)
    except ModelError as error:
        if not dry_run:
            raise
        refusal = with_options(str(error))

    def work(loaded: ModelProto, file: ModelFile) -> list[str]:
        from anydml.files.folder import Folder
        from anydml.slim import slim
        from anydml.slim.files import write

        folder = Folder(file.folder or Path(model).resolve().parent, allow_outside)
        # Proofs compare every bit, signs of zeros included, if sums keep their order.
        slimmed = slim(loaded, folder, exact, prove, sizes, merge_scales)
        proof = _proof(loaded, slimmed, folder, sizes) if prove else []
        if not dry_run:
            write(loaded, slimmed, Path(output), folder, overwrite, [Path(file.path)])
        written = "" if dry_run else f", written to '{output}'"
        lines = [f"{model}: {slimmed.summary}{written}", *_lines(slimmed), *proof]
        if html is not None and not dry_run:
            from anydml.slim.report import report

            report(model, slimmed).save(html)
            lines.append(f"'{model}' is explained in '{html}'")
        if as_json:
            outcome = {"written": not dry_run, **({"refused": refusal} if dry_run else {})}
            print_json(
                {
                    "model": model,
                    "output": output,
                    "html": None if dry_run else html,
                    **outcome,
                    **_document(slimmed),
                    "proof": proof,
                }
            )
        return lines

    with model_file(model) as file:
        if not is_onnx(file.path):
            raise ModelError(f"{file.path}: is not an ONNX model: its name must end in .onnx")
        for line in load_onnx(file.path, lambda loaded: work(loaded, file)):
            print_status(escape_controls(line))
    if refusal is not None and not as_json:
        # Also said if quiet, for it is an error of the command that writes.
        print_line(escape_controls(f"would be refused: {refusal}"))


def _document(slimmed: SlimmedModel) -> dict[str, Any]:
    """Return the changes for JSON; costs have `bytes` and `nodes` of movement."""
    before, after = ({"bytes": cost.bytes_moved, "nodes": cost.nodes} for cost in slimmed.movement)
    regions = [
        {"title": region.title, "bytes_before": region.before.bytes_moved, "bytes_after": region.after.bytes_moved}
        for region in slimmed.changed
    ]
    unchanged = [{"title": region.title, "why": region.refused} for region in slimmed.regions if region.refused]
    stages = [stage.title for stage in slimmed.stages if stage.title]
    document = {"before": before, "after": after, "is_exact": slimmed.is_exact, "regions": regions}
    return {**document, "stages": stages, "left_alone": unchanged, "notes": slimmed.notes}


def _proof(loaded: ModelProto, slimmed: SlimmedModel, folder: Folder, sizes: Mapping[str, int]) -> list[str]:
    """Return the lines of `anydml prove` about the new model; nothing is written unless it is proved equal."""
    from anydml.cli.proving import lines
    from anydml.proving import prove

    proof = prove(loaded, slimmed.model, sizes, (folder, folder))
    proof_lines = [*lines(proof)]
    is_equal = proof.verdict in ("proved", "rounded") or (proof.verdict == "undecided" and bool(proof.samples))
    if not is_equal:
        reason = "; ".join(escape_controls(line.strip()) for line in proof_lines)
        raise click.ClickException(f"nothing is written: {reason}")
    return proof_lines


def _lines(slimmed: SlimmedModel) -> Iterator[str]:
    from anydml.slim.pipeline import format_counts

    regions = slimmed.changed
    for region in regions[:MAX_LISTED_REGIONS]:
        before, after = format_counts(region.kinds_before), format_counts(region.kinds_after)
        yield f"    {region.title}: {bytes_text(region.before.bytes_moved)} → {bytes_text(region.after.bytes_moved)}"
        yield f"        {before} → {after}"
    if len(regions) > MAX_LISTED_REGIONS:
        yield f"    and {count_noun(len(regions) - MAX_LISTED_REGIONS, 'more region')}"
    for stage in slimmed.stages:
        if stage.title:
            yield f"    {stage}"
    for region in slimmed.regions:
        if region.refused:
            yield f"    {region.title}: left alone, {region.refused}"
    for note in slimmed.notes:
        yield f"    {note}"
