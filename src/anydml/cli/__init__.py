"""The command `anydml`: run and check model files, list the operators, and rewrite ONNX files.

Everything beyond click is imported by the command that needs it, so that each starts quickly.
"""

from __future__ import annotations

import contextlib
import os
import re
import sys
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, NoReturn, TextIO, TypeVar

import click

from anydml.cli.onnx_commands import check_onnx, is_onnx, onnx_group, refuse_options, run_onnx
from anydml.cli.stores_commands import reshard, stores
from anydml.engines import ENGINES
from anydml.text import printable

if TYPE_CHECKING:
    from anydml.dxdispatch import Model
    from anydml.feature_level import FeatureLevel

F = TypeVar("F", bound=Callable[..., Any])

MOST_CHARACTERS = 2000
"""Of an error, which may repeat what a file says."""

MOST_PROBLEMS = 1000
"""That `check` shows; nobody reads more, and a file may have millions."""

_STRANGE = re.compile(r"[^\n\t -~]+")
"""What may command a terminal; tabs and newlines are ours, those of names are escaped where the line is made."""

# DxDispatch writes --dispatch_iterations, most other tools --dispatch-iterations: both are read.
_SETTINGS = {
    "help_option_names": ["-h", "--help"],
    "token_normalize_func": lambda token: token.replace("_", "-"),
    "max_content_width": 100,
}


def main(arguments: list[str] | None = None) -> NoReturn:
    """Run the command line and end the process.

    Ends with 0; 1 where `check` found problems; 2 after an error of the user's, with one line on stderr.
    """
    given = sys.argv[1:] if arguments is None else arguments
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            # The process was started without one.
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115  # until the process ends
        if hasattr(stream := getattr(sys, name), "reconfigure"):
            # A name that the terminal's encoding lacks is no reason to fail.
            stream.reconfigure(errors="backslashreplace")
    try:
        code = anydml.main(given or ["--help"], prog_name="anydml", standalone_mode=False)
        sys.stdout.flush()
    except click.ClickException as error:
        code = _fail(error.format_message())
    except (click.Abort, KeyboardInterrupt):
        code = 130
    except BrokenPipeError:
        # Whoever read the output wants no more of it.
        _give_up(sys.stdout)
        code = 1
    except MemoryError:
        code = _fail("there is not enough memory")
    except (ValueError, OSError) as error:
        code = _fail(str(error))
    sys.exit(code)


def _fail(message: str) -> int:
    try:
        sys.stdout.flush()
    except OSError:
        _give_up(sys.stdout)
    line = " ".join(message.splitlines())
    if len(line) > MOST_CHARACTERS:
        line = f"{line[: MOST_CHARACTERS // 2]} … {line[-MOST_CHARACTERS // 2 :]}"
    try:
        print("anydml:", printable(line), file=sys.stderr, flush=True)
    except OSError:
        _give_up(sys.stderr)
    return 2


def _give_up(stream: TextIO) -> None:
    """Let nothing more be written to a stream that fails; Python would try, and complain, once more at its end."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def _say(line: str) -> None:
    try:
        print(_STRANGE.sub(lambda match: printable(match[0]), line), flush=True)
    except BrokenPipeError:
        raise
    except OSError as error:
        raise OSError(f"the output cannot be written: {error.strerror}") from None


def _warn(line: str) -> None:
    # Standard error may be closed; the work goes on without it.
    with contextlib.suppress(OSError):
        print("anydml: warning:", printable(line), file=sys.stderr, flush=True)


def _version(context: click.Context, _: click.Parameter, wanted: bool) -> None:
    if wanted and not context.resilient_parsing:
        from importlib.metadata import version

        click.echo(f"anydml {version('anydml')}")
        context.exit()


def _feature_level(function: F) -> F:
    text = "Feature level to check against, such as 2_1; the newest one if not given."
    names = ("--feature-level", "--dml-feature-level")
    return click.option(*names, "feature_level", metavar="LEVEL", default="latest", help=text)(function)


def _model(function: F) -> F:
    return click.argument("model", type=click.Path())(function)


def _allow_outside(function: F) -> F:
    text = "Let sourcePath and targetPath leave the model's folder."
    return click.option("--allow-outside", is_flag=True, help=text)(function)


@click.group(context_settings=_SETTINGS)
@click.option("--version", is_flag=True, expose_value=False, is_eager=True, callback=_version, help="Show the version.")
def anydml() -> None:
    """DirectML's data-movement operators on any machine."""


@anydml.command()
@_model
@click.option("--device", default="cpu", show_default=True, help=f"Where to run: {', '.join(ENGINES)}.")
@_feature_level
@click.option("-i", "--dispatch-iterations", "iterations", type=click.IntRange(0), default=1, metavar="N",
              help="Timing samples a dispatch; 1 if not given.")  # fmt: skip
@click.option("-r", "--dispatch-repeat", "repeat", type=click.IntRange(1), default=1, metavar="N",
              help="Dispatches a sample; 1 if not given.")  # fmt: skip
@click.option("-t", "--milliseconds-to-run", "milliseconds", type=click.IntRange(0), default=None, metavar="MS",
              help="Take samples until this time is over, whatever -i says.")  # fmt: skip
@click.option("-I", "--dispatch-interval", "interval", type=click.IntRange(0), default=0, metavar="MS",
              help="Least time from one sample to the next.")  # fmt: skip
@click.option("-w", "--warmup-samples", "warmup", type=click.IntRange(0), default=1, metavar="N",
              help="Most samples that count as cold; 1 if not given.")  # fmt: skip
@click.option("-v", "--timing-verbosity", "verbosity", type=click.IntRange(0, 2), default=0, metavar="0|1|2",
              help="0: hot median, 1: initialisation, cold and hot, 2: every sample.")  # fmt: skip
@_allow_outside
@click.option("--explain", is_flag=True, help="Say what each dispatchable was compiled to.")
@click.option("--input", "inputs", multiple=True, metavar="NAME=FILE.npy", help="An input of an ONNX model.")
@click.option("--output", "outputs", multiple=True, metavar="NAME=FILE.npy",
              help="Where to write an output of an ONNX model; the others are printed.")  # fmt: skip
def run(
    model: str, device: str, feature_level: str, allow_outside: bool, explain: bool, inputs: tuple[str, ...],
    outputs: tuple[str, ...], **timing: Any,
) -> None:  # fmt: skip
    """Run MODEL, a file in the JSON format of DirectML's DxDispatch tool, or an ONNX file (.onnx)."""
    if is_onnx(model):
        refuse_options(click.get_current_context(), ["device", "feature_level", "explain", *timing], "JSON models")
        run_onnx(model, inputs, outputs, allow_outside, _say)
        return
    refuse_options(click.get_current_context(), ["inputs", "outputs"], "ONNX models")
    from anydml import dxdispatch

    dxdispatch.run(
        dxdispatch.load(model, allow_outside=allow_outside),
        device=device,
        feature_level=feature_level,
        timing=dxdispatch.Timing(**timing),
        explain=explain,
        log=_say,
        warn=_warn,
    )


@anydml.command()
@_model
@_feature_level
@_allow_outside
def check(model: str, feature_level: str, allow_outside: bool) -> int:
    """List what is wrong with MODEL, a JSON or ONNX file, and run nothing.

    Of an ONNX file it says what DirectML would not accept at that feature level.

    Ends with 0 where nothing is, 1 where something is, and 2 where MODEL cannot be read.
    """
    from anydml import dxdispatch
    from anydml.feature_level import FeatureLevel

    level = FeatureLevel.parse(feature_level)
    if is_onnx(model):
        lines = check_onnx(model, level)
    else:
        lines = _problems(dxdispatch.load(model, allow_outside=allow_outside), level)
    found = False
    for line in lines:
        found = True
        _say(line)
    if not found:
        _say(f"{printable(model)}: no problems at {level}")
    return 1 if found else 0


def _problems(model: Model, level: FeatureLevel) -> Iterator[str]:
    from anydml.dxdispatch.plan import plan
    from anydml.errors import ModelError

    yield from model.warnings
    sound = True
    for count, (place, problem) in enumerate(model.problems(level)):
        sound = False
        if count == MOST_PROBLEMS:
            yield f"{model.place}: and more; {MOST_PROBLEMS} problems are shown"
            break
        allowed = f"{problem.needs} allows it" if problem.needs else "no feature level allows it"
        yield from (f"{place}: {problem.operator}: {problem.message}", f"    rule: {problem.rule}", f"    {allowed}")
    if sound:
        try:
            # What is bound is only worth a look once the tensors are sound.
            plan(model)
        except ModelError as error:
            yield str(error)


anydml.add_command(onnx_group)
anydml.add_command(stores)
anydml.add_command(reshard)


@anydml.command()
def warmup() -> None:
    """Compile the CPU kernels that common work needs, so that nobody waits for them later on this machine."""
    from anydml.engines.cpu.warmup import kernels

    start = time.perf_counter()
    count = 0
    for _, compile_kernel in kernels():
        compile_kernel()
        count += 1
    _say(f"{count} kernels are ready after {time.perf_counter() - start:.1f} s")


@anydml.command()
def ops() -> None:
    """Show every operator: feature levels, tensors, dimension counts, data types."""
    from anydml.cli.operator_table import operator_table

    _say(operator_table(sys.stdout.isatty()).rstrip())
