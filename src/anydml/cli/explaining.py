"""`anydml explain`: explain the data movement of a model file as text, picture or HTML page."""

from __future__ import annotations

from functools import partial
from typing import Any

import click

from anydml.cli.command import Command
from anydml.cli.onnx_checking import read_sizes
from anydml.cli.onnx_commands import is_onnx, load_onnx, refuse_options
from anydml.cli.output import LocalPath, check_target, overwrites, quiet_option, say, tell, warn
from anydml.cli.plan_output import json_option, say_json
from anydml.text import printable


@click.command(cls=Command, short_help="Explain the data movement of a model file without running it.")
@click.argument("model", type=LocalPath(is_read=True))
@click.option("--html", metavar="FILE.html", type=LocalPath(), help="Write a page with pictures and tables.")
@click.option("--svg", metavar="FILE.svg", type=LocalPath(), help="Write the picture of the first operator.")
@click.option("--size", "sizes", multiple=True, metavar="NAME=SIZE", help="Value of a symbolic size of an ONNX model.")
@click.option("--allow-outside", is_flag=True, help="Allow sourcePath outside the model's folder.")
@overwrites
@json_option
@quiet_option
def explain(
    model: str, html: str | None, svg: str | None, sizes: tuple[str, ...], allow_outside: bool, overwrite: bool,
    as_json: bool, quiet: bool,
) -> None:  # fmt: skip
    """Explain the data movement of MODEL, a JSON or ONNX file, without running it.

    Without --html and --svg, print tensors, moves and kernels as text. Pages and pictures show every element of small
    tensors, and large ones as boxes to scale. A page is a single file without external resources.
    """
    from anydml.errors import ModelError
    from anydml.explain import explain as explained
    from anydml.explain.terminal import as_document, notation

    check_target("--html", html, ".html", [model], overwrite)
    check_target("--svg", svg, ".svg", [model], overwrite)
    if is_onnx(model):
        named: dict[str, Any] = {**read_sizes(sizes)}
        found = load_onnx(model, partial(explained, **named))
        found.title = model
    else:
        refuse_options(click.get_current_context(), ["sizes"], "ONNX models")
        from anydml import dxdispatch

        loaded = dxdispatch.load(model, allow_outside=allow_outside)
        for line in loaded.warnings:
            warn(line)
        found = explained(loaded)
    if svg is not None and not found.sections:
        raise ModelError(f"{model}: nothing moves, so there is no picture")
    for target in filter(None, (html, svg)):
        found.save(target)
        tell(printable(f"'{model}' is explained in '{target}'"))
    if as_json:
        say_json({"model": model, "html": html, "svg": svg, **as_document(found.sections, found.notes)})
    elif html is None and svg is None:
        for line in str(found).splitlines():
            say(line)
        if found.sections:
            say(f"\n{notation(found.sections)}")
