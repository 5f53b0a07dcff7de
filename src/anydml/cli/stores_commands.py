"""What `anydml stores` and `anydml reshard` do."""

from __future__ import annotations

import click

from anydml.text import printable


@click.command(short_help="List the arrays of a file or checkpoint.")
@click.argument("model", type=click.Path())
def stores(model: str) -> None:
    """List the arrays of MODEL: a .npy or .safetensors file, an index, or a folder of safetensors files."""
    from anydml import stores as room
    from anydml.stores.sizes import bytes_text
    from anydml.stores.store import Store

    opened = room.open(model)
    every = [opened] if isinstance(opened, Store) else [*opened.values()]
    cells = [(each.name, each.dtype, [*each.shape], bytes_text(each.nbytes), each.path.name) for each in every]
    rows = [[printable(str(cell)) for cell in row] for row in cells]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        click.echo("  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).strip())
    count = f"{len(every)} array{'s' * (len(every) != 1)}"
    click.echo(printable(f"{model}: {count}, {bytes_text(sum(each.nbytes for each in every))}"))
    if not isinstance(opened, Store):
        for key, value in opened.metadata.items():
            click.echo(printable(f"  {key}: {value[:200]}"))


@click.command(short_help="Consolidate, share or lay out a checkpoint.")
@click.argument("inputs", metavar="IN...", nargs=-1, required=True, type=click.Path())
@click.argument("output", metavar="OUT", type=click.Path())
@click.option("--layout", type=click.Path(), metavar="FILE", help="Rules for the tensors, in TOML.")
@click.option("--tp", type=int, metavar="N", help="Write a file for each of N tensor-parallel ranks.")
@click.option("--memory", default="256MB", show_default=True, metavar="SIZE", help="Bytes of all buffers together.")
@click.option("--shard-size", default="5GB", show_default=True, metavar="SIZE", help="Bytes of a file of OUT, about.")
@click.option("--overwrite", is_flag=True, help="Replace OUT where it exists.")
@click.option("--dry-run", is_flag=True, help="Say what would be read and written, and write nothing.")
def reshard(
    inputs: tuple[str, ...], output: str, layout: str | None, tp: int | None, memory: str, shard_size: str,
    overwrite: bool, dry_run: bool,
) -> None:  # fmt: skip
    """Write the safetensors checkpoint IN as OUT: consolidated, sharded again, or laid out in another way.

    IN is a file or a folder: of whole tensors, of a distributed checkpoint of PyTorch's, or of ranks as --tp writes
    them. Where there are several, each is one tensor-parallel rank, in order.

    What was stopped goes on when the same command is given again.
    """
    from anydml.stores.resharding import reshard as make

    plan = make(inputs, output, layout, tp, memory, shard_size, overwrite)
    click.echo(printable_lines(str(plan)))
    if dry_run:
        for target in plan.outputs:
            click.echo(printable(f"  {target.file.path.name}: {target.name}: {target.dtype} {[*target.shape]}"))
        return
    plan.run()
    if plan.resumed:
        click.echo(f"{plan.resumed} of {len(plan.blocks)} blocks had been written before")
    click.echo(printable(f"written to '{output}'"))


def printable_lines(text: str) -> str:
    """Several lines as a terminal may show them."""
    return "\n".join(map(printable, text.splitlines()))
