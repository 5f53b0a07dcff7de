"""`anydml run` for ONNX files, `anydml onnx`, and helpers for commands that read ONNX files."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from anydml.cli.command import Group, with_options
from anydml.cli.options import dry_run_option
from anydml.cli.output import LocalPath, no_stream, overwrite_option, print_line, print_status, quiet_option
from anydml.cli.plan_output import json_option, print_json, values_as_json
from anydml.cli.standard_input import ModelFile, model_file
from anydml.errors import ModelError
from anydml.paths import path_text
from anydml.text import escape_controls

if TYPE_CHECKING:
    from onnx import ModelProto

MAX_PRINTED_ELEMENTS = 100
"""Elements printed of an output that is not written to a file."""

MAX_PRINTED_TEXT = 200
"""Characters printed of a string element."""

Log = Callable[[str], object]
T = TypeVar("T")


def is_onnx(model: str) -> bool:
    """Return whether a file is an ONNX model, judging by its name."""
    return model.lower().endswith(".onnx")


def refuse_options(context: click.Context, names: Sequence[str], kind: str) -> None:
    """Refuse options that do not apply to a kind of model, instead of ignoring them.

    Args:
        context: context of the command.
        names: parameter names of the options.
        kind: the kind of model that they do apply to, for the error.

    Raises:
        ClickException: one of the options was given.
    """
    for parameter in context.command.params:
        source = context.get_parameter_source(parameter.name or "")
        if parameter.name in names and source == click.core.ParameterSource.COMMANDLINE:
            raise click.ClickException(f"{parameter.opts[0]} is for {kind}: leave it out, or name such a model")


def run_onnx(
    file: ModelFile,
    inputs: Sequence[str],
    outputs: Sequence[str],
    allow_outside: bool,
    overwrite: bool,
    log: Log,
    explain: bool = False,
) -> dict[str, Any]:
    """Run an ONNX file.

    Args:
        file: the model.
        inputs: ``NAME=FILE.npy`` for each input without a default.
        outputs: ``NAME=FILE.npy`` for outputs to write; the others are printed.
        allow_outside: whether external data may lie outside the model's folder.
        overwrite: whether existing files may be replaced.
        log: called with each line of output.
        explain: whether to log the nodes and moves of each program.

    Returns:
        `outputs`: the `dtype` and `shape` of each, and `values`, or the `file` that it was written to; lists of these
        for sequences.

    Raises:
        ModelError: a file or the graph is invalid, or an input does not match the graph.
    """
    _need_onnx()
    from anydml.files.folder import check_replaceable
    from anydml.files.location import Location, names, show
    from anydml.onnx import load, npy
    from anydml.onnx.budget import Budget
    from anydml.onnx.external import external_files
    from anydml.onnx.program import Program

    model, folder = file.path, file.folder or Path(file.path).parent
    location = Location(model)
    sources, targets = _pairs("--input", inputs), _pairs("--output", outputs)
    program = _with_file_name(location, lambda: Program(load(model, allow_outside=allow_outside, folder=folder)))
    for option, files, names_in_model in (("--input", sources, program.inputs), ("--output", targets, program.outputs)):
        wrong = next((name for name in files if name not in names_in_model), None)
        if wrong is not None:
            raise ModelError(
                f"{option}: {model} has no {option[2:]} {show(wrong)}; it has {names(names_in_model)}", field=wrong
            )
    data = external_files(load(model, external_data=False), folder) if targets else ()
    written: dict[Path, str] = {}
    for name, path in targets.items():
        check_replaceable(path, [Path(model), *sources.values(), *data], overwrite, Location(f"--output {name}={path}"))
        first_name = written.setdefault(path.resolve(), name)
        if first_name != name:
            raise ModelError(f"--output {name}={path}: '{first_name}' is written there, too", field=name)
    arrays = {
        name: npy.read(path, program.inputs[name].dtype, Location(f"--input {name}")) for name, path in sources.items()
    }
    log_lines: Log = lambda text: [log(escape_controls(line)) for line in text.split("\n")]  # noqa: E731
    results = _with_file_name(location, lambda: program.run(arrays, log_lines if explain else None))
    list_names = (n for n, array in zip(program.outputs, results, strict=True) if isinstance(array, list))
    list_name = next((name for name in list_names if name in targets), None)
    if list_name is not None:
        raise ModelError(f"--output {list_name}: it is a sequence, and a .npy file holds one array", field=list_name)
    documents = dict[str, Any]()
    for name, array in zip(program.outputs, results, strict=True):
        if isinstance(array, list):
            documents[name] = [_as_document(item) for item in array]
            for k, item in enumerate(array):
                log(escape_controls(f"Output '{name}', {k} ({item.dtype} {list(item.shape)}): {_format_array(item)}"))
            log(escape_controls(f"Output '{name}' is a sequence of {len(array)}"))
        elif name in targets:
            if array.dtype.hasobject:
                # A .npy file pads every string to the longest: once as an array, and once as the file's bytes.
                size = 8 * array.size * max(map(len, array.flat), default=0)
                Budget().ask(f"output {show(name)}", "writing strings of one length", size)
            npy.write(targets[name], array, Location(f"--output {name}"), [Path(model), *sources.values()])
            documents[name] = {**_as_document(array, False), "file": str(targets[name])}
            log(escape_controls(f"Output '{name}' written to '{targets[name]}'"))
        else:
            documents[name] = _as_document(array)
            log(escape_controls(f"Output '{name}' ({array.dtype} {list(array.shape)}): {_format_array(array)}"))
    return {"outputs": documents}


def _as_document(array: Any, has_values: bool = True) -> dict[str, Any]:
    """Return an array for JSON."""
    document: dict[str, Any] = {"dtype": str(array.dtype), "shape": [*array.shape]}
    if has_values:
        document["values"] = values_as_json((array.astype("f4") if array.dtype.kind == "V" else array).tolist())
    return document


def load_onnx(model: str, work: Callable[[ModelProto], T]) -> T:
    """Load an ONNX file without its external data, and return ``work(model)``.

    Raises:
        ModelError: the file cannot be read, or `work` raises ModelError; the message names the file.
    """
    _need_onnx()
    from anydml.files.location import Location
    from anydml.onnx import load

    return _with_file_name(Location(model), lambda: work(load(model, external_data=False)))


@click.group(cls=Group, name="onnx", no_args_is_help=False)
def onnx_group() -> None:
    """Rewrite ONNX files."""


@onnx_group.command(short_help="Replace training operators by standard ones.", examples=("in.onnx out.onnx",))
@click.argument("source", metavar="IN.onnx", type=LocalPath(is_read=True, reads_input=True))
@click.argument("output", metavar="OUT.onnx", type=LocalPath())
@overwrite_option
@dry_run_option
@json_option
@quiet_option("errors")
def portable(source: str, output: str, overwrite: bool, dry_run: bool, as_json: bool, quiet: bool) -> None:
    """Rewrite IN.onnx for runtimes without SplitTraining and ConcatTraining.

    The two operators are replaced by standard Split, Concat and shape arithmetic. Nothing else changes; a model without
    them is copied. External data is neither read nor copied: if there is any, OUT.onnx must be in the folder of
    IN.onnx, which is a file, or - for standard input.
    """
    _need_onnx()
    from anydml.files.folder import check_replaceable, write_whole
    from anydml.files.location import Location
    from anydml.onnx import load, make_portable
    from anydml.onnx.checks import check, serialize
    from anydml.onnx.external import external_files, external_tensors
    from anydml.onnx.portable import training_nodes

    out, refusal = Path(output), None
    with model_file(source) as read:
        location, path = Location(read.path), Path(read.path)
        folder = read.folder or path.resolve().parent
        model = load(path, external_data=False)
        try:
            check_replaceable(out, [path, *external_files(model, folder)], overwrite, Location(output))
        except ModelError as error:
            if not dry_run:
                raise
            refusal = with_options(str(error))
        count = len(training_nodes(model))
        _with_file_name(location, lambda: check(model))
        if external_tensors(model) and out.resolve().parent != folder:
            raise location.error(f"has external data beside it; write {output} into the same folder")
        result = _with_file_name(location, lambda: make_portable(model))
        data = path.read_bytes() if result is model else _with_file_name(location, lambda: serialize(result))
        if not dry_run:
            write_whole(out, lambda file: file.write(data), Location(output), [path])
    outcome = f"{count} node{'s' * (count != 1)} rewritten" if count else "was portable already"
    if as_json:
        fields = {"written": not dry_run, **({"refused": refusal} if dry_run else {})}
        print_json({"model": source, "output": output, "nodes_rewritten": count, **fields})
    print_status(escape_controls(f"{source}: {outcome}" + ("" if dry_run else f", written to '{output}'")))
    if refusal is not None and not as_json:
        # Also said if quiet, for it is an error of the command that writes.
        print_line(escape_controls(f"would be refused: {refusal}"))


def _need_onnx() -> None:
    try:
        import anydml.onnx  # noqa: F401
    except ImportError as error:
        raise click.ClickException(str(error)) from None


def _with_file_name(location: Any, work: Callable[[], T]) -> T:
    """Return ``work()``; prefix its ModelErrors with the file name, unless they have it already."""
    try:
        return work()
    except ModelError as error:
        if str(error).startswith(f"{location}: "):
            raise
        raise ModelError(f"{location}: {error}", error.operator, error.field, error.rule) from None


def _pairs(option: str, texts: Sequence[str]) -> dict[str, Path]:
    """Parse ``NAME=FILE`` options."""
    pairs: dict[str, Path] = {}
    for text in texts:
        name, equals, path = text.partition("=")
        if not (name and equals and path):
            raise click.ClickException(f"{option} {text}: write {option} NAME=FILE.npy")
        if name in pairs:
            raise click.ClickException(f"{option} {name} is given twice")
        if path == "-":
            raise click.ClickException(f"{option} {text}: {no_stream(option == '--input')}")
        pairs[name] = Path(path_text(option, path))
    return pairs


def _format_array(array: Any) -> str:
    import numpy as np

    from anydml.dxdispatch.printing import format_elements

    flat = array.reshape(-1)
    printed = flat[:MAX_PRINTED_ELEMENTS]
    if printed.dtype.hasobject:
        printed = np.array(
            [text if len(text) <= MAX_PRINTED_TEXT else f"{text[:MAX_PRINTED_TEXT]}…" for text in printed], np.object_
        )
    text = format_elements(printed.astype("f4") if flat.dtype.kind == "V" else printed)
    return text if flat.size <= MAX_PRINTED_ELEMENTS else f"{text}, … {flat.size} in all"
