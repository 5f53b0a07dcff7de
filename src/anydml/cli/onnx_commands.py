"""What `anydml run`, `anydml check` and `anydml onnx` do with ONNX files; JSON models never come here."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from anydml.errors import ModelError
from anydml.text import printable

if TYPE_CHECKING:
    from onnx import ModelProto

SHOWN = 100
"""Elements of an output that are printed where nobody asked for a file."""

LONGEST = 200
"""Characters of each, where they are strings."""

Log = Callable[[str], object]
T = TypeVar("T")


def is_onnx(model: str) -> bool:
    """Whether a model is an ONNX file, by its name."""
    return model.lower().endswith(".onnx")


def refuse_options(context: click.Context, names: Sequence[str], kind: str) -> None:
    """Refuse options that mean nothing for a kind of model, rather than ignore them.

    Raises:
        ClickException: one of them was given.
    """
    for parameter in context.command.params:
        source = context.get_parameter_source(parameter.name or "")
        if parameter.name in names and source == click.core.ParameterSource.COMMANDLINE:
            raise click.ClickException(f"{parameter.opts[0]} is for {kind}")


def run_onnx(
    model: str, inputs: Sequence[str], outputs: Sequence[str], allow_outside: bool, log: Log, explain: bool = False
) -> None:
    """Run an ONNX file.

    Args:
        model: the file.
        inputs: ``NAME=FILE.npy`` for each input without a default.
        outputs: ``NAME=FILE.npy`` for outputs to write; the others are printed.
        allow_outside: whether external data may leave the model's folder.
        log: takes lines for the user.
        explain: whether to say which nodes became one program, and what each moves.

    Raises:
        ModelError: a file or the graph is not as it should be.
    """
    _need_onnx()
    from anydml.files.json_path import JsonPath, names, show
    from anydml.onnx import load, npy
    from anydml.onnx.budget import Budget
    from anydml.onnx.program import Program

    place = JsonPath(model)
    sources, targets = _pairs("--input", inputs), _pairs("--output", outputs)
    program = _placed(place, lambda: Program(load(model, allow_outside=allow_outside)))
    for option, given, known in (("--input", sources, program.inputs), ("--output", targets, program.outputs)):
        wrong = next((name for name in given if name not in known), None)
        if wrong is not None:
            raise ModelError(f"{option}: {model} has no {option[2:]} {show(wrong)}; it has {names(known)}", field=wrong)
    arrays = {
        name: npy.read(path, program.inputs[name].dtype, JsonPath(f"--input {name}")) for name, path in sources.items()
    }
    said: Log = lambda text: [log(printable(line)) for line in text.split("\n")]  # noqa: E731
    results = _placed(place, lambda: program.run(arrays, said if explain else None))
    listed = (n for n, array in zip(program.outputs, results, strict=True) if isinstance(array, list))
    many = next((name for name in listed if name in targets), None)
    if many is not None:
        raise ModelError(f"--output {many}: it is a sequence, and a .npy file holds one array", field=many)
    for name, array in zip(program.outputs, results, strict=True):
        if isinstance(array, list):
            for k, each in enumerate(array):
                log(printable(f"Output '{name}', {k} ({each.dtype} {list(each.shape)}): {_text(each)}"))
            log(printable(f"Output '{name}' is a sequence of {len(array)}"))
        elif name in targets:
            if array.dtype.hasobject:
                # A .npy file stores every string as long as the longest; there it is an array, and as bytes.
                size = 8 * array.size * max(map(len, array.flat), default=0)
                Budget().ask(f"output {show(name)}", "writing strings of one length", size)
            npy.write(targets[name], array, JsonPath(f"--output {name}"))
            log(printable(f"Output '{name}' written to '{targets[name]}'"))
        else:
            log(printable(f"Output '{name}' ({array.dtype} {list(array.shape)}): {_text(array)}"))


def load_onnx(model: str, work: Callable[[ModelProto], T]) -> T:
    """What work makes of an ONNX file, whose external data is not read.

    Raises:
        ModelError: the file cannot be read, or the work refuses it; the message names the file.
    """
    _need_onnx()
    from anydml.files.json_path import JsonPath
    from anydml.onnx import load

    return _placed(JsonPath(model), lambda: work(load(model, external_data=False)))


@click.group(name="onnx", no_args_is_help=False)
def onnx_group() -> None:
    """Rewrite ONNX files."""


@onnx_group.command(short_help="Write a file for runtimes without the training operators.")
@click.argument("source", metavar="IN.onnx", type=click.Path())
@click.argument("target", metavar="OUT.onnx", type=click.Path())
def portable(source: str, target: str) -> None:
    """Write IN.onnx for runtimes without SplitTraining and ConcatTraining.

    The two become standard Split, Concat and shape arithmetic. Nothing else changes; a model without them is copied.
    External data is neither read nor copied: where there is any, OUT.onnx belongs into the folder of IN.onnx.
    """
    _need_onnx()
    from anydml.files.folder import write_whole
    from anydml.files.json_path import JsonPath
    from anydml.onnx import load, make_portable
    from anydml.onnx.checks import check, serialized
    from anydml.onnx.external import external_tensors
    from anydml.onnx.portable import training_nodes

    place, out = JsonPath(source), Path(target)
    model = load(source, external_data=False)
    count = len(training_nodes(model))
    _placed(place, lambda: check(model))
    if external_tensors(model) and out.resolve().parent != Path(source).resolve().parent:
        raise place.error(f"has external data beside it; write {target} into the same folder")
    result = _placed(place, lambda: make_portable(model))
    data = Path(source).read_bytes() if result is model else _placed(place, lambda: serialized(result))
    write_whole(out, lambda file: file.write(data), JsonPath(target))
    what = f"{count} node{'s' * (count != 1)} rewritten" if count else "was portable already"
    click.echo(printable(f"{source}: {what}, written to '{target}'"))


def _need_onnx() -> None:
    try:
        import anydml.onnx  # noqa: F401
    except ImportError as error:
        raise click.ClickException(str(error)) from None


def _placed(place: Any, work: Callable[[], T]) -> T:
    """Do work; its errors name the file, unless they do already."""
    try:
        return work()
    except ModelError as error:
        if str(error).startswith(f"{place}: "):
            raise
        raise ModelError(f"{place}: {error}", error.operator, error.field, error.rule) from None


def _pairs(option: str, given: Sequence[str]) -> dict[str, Path]:
    """``NAME=FILE`` options as a mapping."""
    pairs: dict[str, Path] = {}
    for text in given:
        name, equals, path = text.partition("=")
        if not (name and equals and path):
            raise click.ClickException(f"{option} {text}: write {option} NAME=FILE.npy")
        if name in pairs:
            raise click.ClickException(f"{option} {name} is given twice")
        pairs[name] = Path(path)
    return pairs


def _text(array: Any) -> str:
    import numpy as np

    from anydml.dxdispatch.printing import format_elements

    flat = array.reshape(-1)
    shown = flat[:SHOWN]
    if shown.dtype.hasobject:
        shown = np.array([text if len(text) <= LONGEST else f"{text[:LONGEST]}…" for text in shown], np.object_)
    text = format_elements(shown.astype("f4") if flat.dtype.kind == "V" else shown)
    return text if flat.size <= SHOWN else f"{text}, … {flat.size} in all"
