"""The command `anydml`: checkpoints, Zarr arrays, and models of ONNX and DirectML.

Everything beyond click is imported by the command that needs it, so that each starts quickly.
"""

from __future__ import annotations

import contextlib
import os
import sys
from typing import Any, NoReturn

import click
from click.shell_completion import CompletionItem

from anydml._interrupt import INTERRUPTED, handle_as_usual
from anydml.cli.checking import check
from anydml.cli.command import Group, command_of, document_of_error, with_options
from anydml.cli.comparing import manifest, verify
from anydml.cli.doctor import doctor
from anydml.cli.explaining import explain
from anydml.cli.foreign_options import advice_for
from anydml.cli.onnx_commands import is_onnx, onnx_group, refuse_options, run_onnx
from anydml.cli.options import Whole, allow_outside, feature_level
from anydml.cli.output import (
    LocalPath,
    fail,
    libraries_warnings,
    overwrite_option,
    print_line,
    print_status,
    quiet_option,
    warn,
)
from anydml.cli.plan_output import json_option, print_json
from anydml.cli.proving import prove
from anydml.cli.refereeing import cases, judge
from anydml.cli.slimming import slim
from anydml.cli.standard_input import model_file
from anydml.cli.stores_commands import convert, rechunk, reshard, stores

# DxDispatch writes --dispatch_iterations, most other tools --dispatch-iterations: both are read.
_SETTINGS = {
    "help_option_names": ["-h", "--help"],
    "token_normalize_func": lambda token: token.replace("_", "-"),
    "max_content_width": 100,
}

CHECKPOINT_COMMANDS = ("stores", "reshard", "convert", "verify", "manifest")
"""Commands on which users try options of other checkpoint tools; their errors name the equivalent."""

OPTION_SYNONYMS = {
    ("rechunk", option): meant
    for meant, options in (
        ("--permute", "--axes --order --transpose --swapaxes --moveaxis"),
        ("--codec", "--codecs --compressor --compressors --compression --compress"),
        ("--chunks", "--chunk --chunk-size --chunk-shape --chunksize --target-chunks"),
        ("--slice", "--subset --select --sel --isel --region"),
        ("--memory", "--max-mem --max-memory --memory-limit"),
    )
    for option in options.split()
}
"""The option to suggest, by command and by the name that another tool gives it."""


def main(arguments: list[str] | None = None) -> NoReturn:
    """Run the command line and end the process.

    The exit code is 0 on success; 1 if a check or comparison failed; 2 after a user error, which is one line on stderr;
    3 if nothing was decided; 141 if the reader of the output closed it. Each command's help says which it uses.
    """
    argv = sys.argv[1:] if arguments is None else arguments
    try:
        code = _main(argv)
    except KeyboardInterrupt:
        code = INTERRUPTED
    sys.exit(code)


def _main(argv: list[str]) -> int | str | None:
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            # The process was started without a standard stream.
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115  # until the process ends
        if hasattr(stream := getattr(sys, name), "reconfigure"):
            # Output that the terminal cannot encode must not be an error.
            stream.reconfigure(errors="backslashreplace")
    try:
        handle_as_usual()
        with libraries_warnings():
            code: int | str | None = anydml.main(argv or ["--help"], prog_name="anydml", standalone_mode=False)
        sys.stdout.flush()
    except click.UsageError as error:
        # An invalid argument of an option is reported before there is a context.
        named = f"anydml {argv[0]}" if argv and argv[0] in anydml.commands else "anydml"
        command = error.ctx.command_path if error.ctx else named
        message = error.format_message()
        if isinstance(error, click.NoSuchOption) and command.split()[-1] in CHECKPOINT_COMMANDS:
            answer = advice_for(error.option_name)
            message = message if answer is None else f"No such option '{error.option_name}': {answer}"
        if isinstance(error, click.NoSuchOption) and (
            meant := OPTION_SYNONYMS.get((command.split()[-1], error.option_name))
        ):
            message = f"No such option '{error.option_name}'. Did you mean '{meant}'?"
        file = next((word for word in argv if word.startswith("-") and os.path.lexists(word)), None)
        if isinstance(error, click.NoSuchOption) and file is not None:
            message = f"No such option '{error.option_name}': the file of this name is written './{file}'"
        stop = "" if message.endswith((".", "?")) else "."
        code = _report_failure(argv, f"{message}{stop} See '{command} --help'.")
    except click.ClickException as error:
        code = _report_failure(argv, error.format_message())
    except (click.Abort, KeyboardInterrupt) as error:
        # click wraps the error whose message says what is kept.
        cause = error if isinstance(error, KeyboardInterrupt) else error.__cause__
        _report_failure(argv, str(cause or "") or "interrupted")
        code = INTERRUPTED
    except MemoryError:
        code = _report_failure(argv, "there is not enough memory")
    except (ValueError, OSError) as error:
        running = command_of(anydml, argv)
        code = _report_failure(argv, str(error) if running is None else with_options(str(error), running))
    return code


def _report_failure(argv: list[str], message: str) -> int:
    """Print an error, and the document of it that --json, --junit or --sarif ask for; return its exit code."""
    if (document := document_of_error(anydml, argv, message)) is not None:
        # The failed stream may be standard output.
        with contextlib.suppress(OSError, SystemExit):
            for line in document.splitlines():
                print_line(line)
    return fail(message)


def _version(context: click.Context, _: click.Parameter, is_asked: bool) -> None:
    if is_asked and not context.resilient_parsing:
        from anydml.cli.doctor import versions

        anydml_version, *library_versions = versions()
        print_line(f"anydml {anydml_version[1]}")
        print_line(", ".join(f"{name} {version}" for name, version in library_versions))
        context.exit()


class DeviceName(click.ParamType):  # type: ignore[type-arg]  # generic from click 8.4 on
    """The name of a device, which is checked when the device is opened."""

    name = "device"

    def get_metavar(self, param: click.Parameter, ctx: click.Context | None = None) -> str:
        """Return all names, which the engines have."""
        from anydml.engines import ENGINES

        return f"[{'|'.join(ENGINES)}]"

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        """Return the engines' names."""
        from anydml.engines import ENGINES

        return [CompletionItem(name) for name in ENGINES if name.startswith(incomplete)]


@click.group(cls=Group, context_settings=_SETTINGS)
@click.option("--version", is_flag=True, expose_value=False, is_eager=True, callback=_version, help="Show the version.")
def anydml() -> None:
    """Run, check and explain data movement: model files of DirectML and ONNX, checkpoints and Zarr arrays."""


@anydml.command(
    short_help="Run a model file (JSON or ONNX).",
    examples=(
        "model.json",
        "model.json --device reference --json",
        "model.onnx --input x=x.npy --output y=y.npy",
    ),
)
@click.argument("model", type=LocalPath(is_read=True, reads_input=True))
@click.option("--device", type=DeviceName(), default="cpu", show_default=True,
              help="Device to run on; cuda:1 is the second GPU.")  # fmt: skip
@feature_level
@click.option("-i", "--dispatch-iterations", "iterations", type=Whole(0), default=1, metavar="N",
              help="Timing samples per dispatch; 1 by default.")  # fmt: skip
@click.option("-r", "--dispatch-repeat", "repeat", type=Whole(1), default=1, metavar="N",
              help="Dispatches per sample; 1 by default.")  # fmt: skip
@click.option("-t", "--milliseconds-to-run", "milliseconds", type=Whole(0), default=None, metavar="MS",
              help="Take samples for this time, instead of -i samples.")  # fmt: skip
@click.option("-I", "--dispatch-interval", "interval", type=Whole(0), default=0, metavar="MS",
              help="Minimum time from one sample to the next.")  # fmt: skip
@click.option("-w", "--warmup-samples", "warmup", type=Whole(0), default=1, metavar="N",
              help="Maximum number of samples that count as cold; 1 by default.")  # fmt: skip
@click.option("-v", "--timing-verbosity", "verbosity", type=Whole(0, 2), default=0, metavar="0|1|2",
              help="0: hot median, 1: initialization, cold and hot, 2: every sample.")  # fmt: skip
@allow_outside
@click.option("--explain", is_flag=True, help="Explain what each dispatchable, or region of nodes, was compiled to.")
@click.option("--input", "inputs", multiple=True, metavar="NAME=FILE.npy", help="An input of an ONNX model.")
@click.option("--output", "outputs", multiple=True, metavar="NAME=FILE.npy",
              help="Where to write an output of an ONNX model; the others are printed.")  # fmt: skip
@overwrite_option
@json_option
@quiet_option("errors")
def run(
    model: str, device: str, feature_level: str, allow_outside: bool, explain: bool, inputs: tuple[str, ...],
    outputs: tuple[str, ...], overwrite: bool, as_json: bool, quiet: bool, **timing: Any,
) -> None:  # fmt: skip
    """Run MODEL, a file in the JSON format of DirectML's tool DxDispatch, an ONNX file, or - for standard input.

    The name of an ONNX file ends in .onnx. Standard input that does not begin like JSON is taken for ONNX.
    """
    with model_file(model) as file:
        if is_onnx(file.path):
            refuse_options(click.get_current_context(), ["device", "feature_level", *timing], "JSON models")
            document = run_onnx(file, inputs, outputs, allow_outside, overwrite, print_status, explain)
        else:
            refuse_options(click.get_current_context(), ["inputs", "outputs", "overwrite"], "ONNX models")
            from anydml.cli.json_running import run_json

            document = run_json(
                file, device, feature_level, allow_outside, explain,
                log=print_status, warn=lambda line: warn(file.with_name(line)), progress=not quiet, **timing,
            )  # fmt: skip
    if as_json:
        print_json({"model": model, **document})


anydml.add_command(check)
anydml.add_command(onnx_group)
anydml.add_command(doctor)
anydml.add_command(explain)
anydml.add_command(slim)
anydml.add_command(prove)
anydml.add_command(stores)
anydml.add_command(reshard)
anydml.add_command(convert)
anydml.add_command(verify)
anydml.add_command(manifest)
anydml.add_command(rechunk)
anydml.add_command(cases)
anydml.add_command(judge)


@anydml.command(
    short_help="Show the operators, and what each feature level supports.", examples=("", "gather slice1", "--json")
)
@click.argument("operators", metavar="[OPERATOR...]", nargs=-1)
@json_option
def ops(operators: tuple[str, ...], as_json: bool) -> None:
    """Show the feature levels of operators, with the tensors, numbers of dimensions and data types of each.

    Without an OPERATOR, such as gather or DML_OPERATOR_GATHER, all are shown.
    """
    from anydml.cli.operator_table import find_operators, operator_table, rows_of_operators

    desc_classes = find_operators(operators)
    if as_json:
        print_json({"operators": rows_of_operators(desc_classes)})
    else:
        print_line(operator_table(desc_classes, sys.stdout.isatty()).rstrip())


anydml.sections = {
    "Checkpoints": ("stores", "reshard", "convert", "verify", "manifest"),
    "Zarr arrays, and .npy files": ("rechunk",),
    "ONNX models": ("slim", "prove", "onnx"),
    "Model files of ONNX and DirectML": ("run", "check", "explain", "ops"),
    "Engines and this machine": ("cases", "judge", "doctor"),
}
