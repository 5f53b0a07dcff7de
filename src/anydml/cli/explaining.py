"""`anydml explain`: explain the data movement of a model file as text, picture or HTML page."""

from __future__ import annotations

from functools import partial
from typing import Any

import click

from anydml.cli.command import Command
from anydml.cli.onnx_checking import read_sizes
from anydml.cli.onnx_commands import is_onnx, load_onnx, refuse_options
from anydml.cli.output import LocalPath, check_target, overwrite_option, print_line, print_status, quiet_option, warn
from anydml.cli.plan_output import json_option, print_json
from anydml.cli.standard_input import model_file
from anydml.text import escape_controls


@click.command(
    cls=Command,
    short_help="Explain the data movement of a model file without running it.",
    examples=("model.json", "model.onnx --size N=4 --html page.html"),
)
@click.argument("model", type=LocalPath(is_read=True, reads_input=True))
@click.option("--html", metavar="FILE.html", type=LocalPath(), help="Write a page with pictures and tables.")
@click.option("--svg", metavar="FILE.svg", type=LocalPath(), help="Write the picture of the first operator.")
@click.option("--size", "sizes", multiple=True, metavar="NAME=SIZE", help="Value of a named size of an ONNX model.")
@click.option("--allow-outside", is_flag=True, help="Allow a sourcePath outside the model's folder.")
@overwrite_option
@json_option
@quiet_option("errors and the explanation")
def explain(
    model: str, html: str | None, svg: str | None, sizes: tuple[str, ...], allow_outside: bool, overwrite: bool,
    as_json: bool, quiet: bool,
) -> None:  # fmt: skip
    """Explain the data movement of MODEL, a JSON or ONNX file, or - for standard input, without running it.

    Without --html and --svg, print tensors, moves and kernels as text. Pages and pictures show every element of small
    tensors, and large ones as boxes to scale. A page is a single file without external resources.
    """
    from anydml.errors import ModelError
    from anydml.explain import explain as explain_model
    from anydml.explain.terminal import as_document, notation

    check_target("--html", html, ".html", [model], overwrite)
    check_target("--svg", svg, ".svg", [model], overwrite)
    with model_file(model) as file:
        if is_onnx(file.path):
            named: dict[str, Any] = {**read_sizes(sizes)}
            explanation = load_onnx(file.path, partial(explain_model, **named))
        else:
            refuse_options(click.get_current_context(), ["sizes"], "ONNX models")
            from anydml import dxdispatch

            loaded = dxdispatch.load(file.path, allow_outside=allow_outside, folder=file.folder)
            for line in loaded.warnings:
                warn(file.with_name(line))
            explanation = explain_model(loaded)
        explanation.title = model
    if svg is not None and not explanation.sections:
        raise ModelError(f"{model}: there is no picture: {'; '.join(explanation.notes)}")
    for target in filter(None, (html, svg)):
        explanation.save(target)
        print_status(escape_controls(f"'{model}' is explained in '{target}'"))
    if as_json:
        print_json({"model": model, "html": html, "svg": svg, **as_document(explanation.sections, explanation.notes)})
    elif html is None and svg is None:
        for line in str(explanation).splitlines():
            print_line(line)
        if explanation.sections:
            print_line(f"\n{notation(explanation.sections)}")
