"""The commands `verify`, which compares checkpoints, and `manifest`, which writes checksums to compare with."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import click

from anydml.cli.checkpoint_options import LAYOUTS, renames, tensor_selection_options
from anydml.cli.command import Command
from anydml.cli.options import Size, Whole, exclude
from anydml.cli.output import AnyPath, LocalPath, overwrite_option, print_line, quiet_option
from anydml.cli.plan_output import json_option, print_json
from anydml.text import count_noun, escape_controls

if TYPE_CHECKING:
    from anydml.stores import Comparison
    from anydml.stores.checkpoints.presets import LayoutName

DEFAULT_SHOWN = 10
"""Differences that are printed."""

_KINDS = {
    "missing": "only in the first", "added": "only in the second", "kind": "of another dtype or shape",
    "elements": "with other elements", "checksum": "with another checksum", "metadata": "in metadata",
    "unread": "not compared",
}  # fmt: skip

_memory = click.option(
    "--memory", type=Size(), default="256MB", show_default=True, metavar="SIZE", help="Total size of all buffers."
)


@click.command(
    cls=Command,
    short_help="Compare two checkpoints, or two Zarr arrays or groups.",
    examples=("model ranks", "run model --only model --strip model. --dtype bf16", "sums.json model", "x.zarr y.zarr"),
)
@click.argument("first", metavar="A", type=AnyPath(is_read=True))
@click.argument("second", metavar="B", type=AnyPath(is_read=True))
@tensor_selection_options
@click.option(
    "--layout", type=LocalPath(is_read=True), metavar="FILE", help="Rules for A, in TOML or Python, as for reshard."
)
@click.option("--layout-b", type=LocalPath(is_read=True), metavar="FILE", help="Rules for B.")
@click.option("--to", type=click.Choice(LAYOUTS), help="Convert A to this layout first.")
@click.option("--dtype", metavar="DTYPE", help="Cast A to this dtype first.")
@click.option("--metadata", is_flag=True, help="Compare the metadata of the files, too.")
@click.option("--first", "max_shown", type=Whole(1), default=DEFAULT_SHOWN, show_default=True, metavar="N",
              help="Print the first N differences.")  # fmt: skip
@click.option("--all", "show_all", is_flag=True, help="Print all differences.")
@_memory
@click.option("--no-follow", is_flag=True, help="Refuse symbolic links that lead out of a folder.")
@json_option
@quiet_option("errors and differences")
def verify(
    first: str, second: str, layout: str | None, layout_b: str | None, to: LayoutName | None, dtype: str | None,
    metadata: bool, max_shown: int, show_all: bool, memory: str, no_follow: bool, as_json: bool, quiet: bool,
    only: tuple[str, ...], drop: tuple[str, ...], strip: tuple[str, ...], rename: tuple[str, ...],
) -> int:  # fmt: skip
    """Compare names, dtypes, shapes and bytes of the checkpoints A and B, regardless of their files and ranks.

    Or compare two Zarr arrays or groups, .npy files, or arrays of .npz files such as x.npz/a, regardless of their
    chunks: elements, fill values, names of axes and attributes.

    A or B may be a manifest, as anydml manifest writes it. --only, --drop, --strip and --rename change A, as they do
    for reshard.

    If they differ, print the first differences and their number, and exit with code 1.
    """
    exclude("show_all", "max_shown")
    from anydml.stores.verifying import compare
    from anydml.stores.verifying_arrays import is_of_arrays

    comparison = compare(
        first, second, layout, to, memory, not no_follow, not quiet, dtype, metadata, only, drop, strip,
        renames(rename), layout_b,
    )  # fmt: skip
    is_same = not comparison.differences
    noun = "array" if is_of_arrays(first) else "tensor"
    if as_json:
        differences = [difference._asdict() for difference in comparison.differences]
        counts = {"tensors_compared": comparison.compared, "remarks": comparison.remarks}
        print_json({"first": first, "second": second, "same": is_same, "differences": differences, **counts})
        return 0 if is_same else 1
    for remark in () if quiet else comparison.remarks:
        print_line(escape_controls(remark))
    shown_differences = comparison.differences if show_all else comparison.differences[:max_shown]
    for difference in shown_differences:
        total = f"; {count_noun(difference.elements, 'element')} in all" if difference.elements > 1 else ""
        print_line(escape_controls(f"{difference.text}{total}"))
    # Also printed if quiet, unless all differences are listed.
    if not quiet or len(shown_differences) < len(comparison.differences):
        print_line(
            escape_controls(
                f"'{first}' and '{second}' hold the same {noun}s" if is_same else _summary(comparison, noun)
            )
        )
    return 0 if is_same else 1


def _summary(comparison: Comparison, noun: str) -> str:
    """Return the number of differences of each kind, as a string."""
    kinds = Counter(difference.kind for difference in comparison.differences)
    counts = ", ".join(f"{count} {_KINDS[kind]}" for kind, count in kinds.items())
    differences = count_noun(len(comparison.differences), "difference")
    return f"{differences}: {counts}; {count_noun(comparison.compared, noun)} compared"


@click.command(
    cls=Command, short_help="Write the SHA-256 of every tensor of a checkpoint.", examples=("model sums.json",)
)
@click.argument("model", type=AnyPath(is_read=True))
@click.argument("output", metavar="OUT", type=LocalPath())
@click.option("--only", multiple=True, metavar="NAME", help="Take these tensors, as for reshard.")
@click.option("--drop", multiple=True, metavar="NAME", help="Leave these tensors out, as for reshard.")
@_memory
@click.option("--no-follow", is_flag=True, help="Refuse symbolic links that lead out of a folder.")
@overwrite_option
@json_option
@quiet_option("errors")
def manifest(
    model: str, output: str, only: tuple[str, ...], drop: tuple[str, ...], memory: str, no_follow: bool,
    overwrite: bool, as_json: bool, quiet: bool,
) -> None:  # fmt: skip
    """Write OUT, a .json file with dtype, shape and SHA-256 of every tensor of MODEL, which verify takes.

    The sums are those of the elements in C order, little-endian, so they do not depend on files and ranks. OUT also
    has the sums of a folder's small files, such as config.json.
    """
    from anydml.stores.manifests import manifest as write_manifest

    remarks = list[str]()
    sums = write_manifest(model, output, memory, not no_follow, overwrite, not quiet, only, drop, remarks.append)
    if as_json:
        print_json({"model": model, "output": output, "tensors": len(sums), "remarks": remarks})
    elif not quiet:
        for remark in remarks:
            print_line(escape_controls(f"{model}: {remark}"))
        print_line(escape_controls(f"written to '{output}': the sums of {count_noun(len(sums), 'tensor')}"))
