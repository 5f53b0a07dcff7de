"""Output of the command on stdout and stderr, either of which may be closed or full."""

from __future__ import annotations

import contextlib
import os
import re
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, TextIO, TypeVar

import click

from anydml.errors import PATH_NOT_FOUND
from anydml.paths import address
from anydml.text import escape_controls

F = TypeVar("F", bound=Callable[..., Any])


class _Named(click.Path):
    """A path. An empty string, as from an unset shell variable, is refused: click takes it for the current folder.

    Args:
        is_read: whether it is an input rather than an output.
        reads_input: whether - is standard input.
        is_checked: whether an input that is missing, or may not be read, is an error at once.
    """

    def __init__(self, is_read: bool = False, reads_input: bool = False, is_checked: bool = True) -> None:
        super().__init__(readable=False)
        self.is_read, self.reads_input, self.is_checked = is_read, reads_input, is_checked

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the path.

        Raises:
            ClickException: the path is empty, is -, or is an input that cannot be read.
        """
        if value == "":
            raise click.ClickException("a path is empty: this folder is written as .")
        if value == "-" and self.reads_input:
            return value
        if value == "-":
            raise click.ClickException(f"-: {no_stream(self.is_read)}")
        path = super().convert(value, param, ctx)
        if self.is_read and self.is_checked and isinstance(path, str):
            check_readable(path)
        return path


def no_stream(is_read: bool) -> str:
    """Return why a path may not be -, which other programs take for standard input or output."""
    reason = "standard input is not read" if is_read else "nothing is written to standard output"
    return f"{reason} here: name a file, or write ./- for the file of this name"


def check_readable(path: str) -> None:
    """Check that a file or folder exists and may be read; addresses are only checked when they are opened.

    Raises:
        ClickException: the path does not exist, or may not be read.
    """
    if address(path) is not None:
        return
    try:
        if any(parent.is_file() or (parent / "snapshots").is_dir() for parent in Path(path).parents):
            # An array in a file, such as in HDF5's, or in a repository of Icechunk, is looked for by its reader.
            return
        os.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        raise click.ClickException(f"{path}: {PATH_NOT_FOUND}") from None
    except (OSError, ValueError) as error:
        raise click.ClickException(f"{path}: cannot be read: {getattr(error, 'strerror', error)}") from None
    if Path(path).exists() and not os.access(path, os.R_OK):
        raise click.ClickException(f"{path}: cannot be read: permission denied")


class LocalPath(_Named):
    """The path of a file or folder on this machine."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the path.

        Raises:
            ClickException: as in `_Named`, or it is an address.
        """
        if isinstance(value, str) and (reason := address(value)) is not None:
            raise click.ClickException(f"{value[:200]!r} {reason}")
        return super().convert(value, param, ctx)


class AnyPath(_Named):
    """The path of a file or folder, or an address."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the path.

        Raises:
            ClickException: as in `_Named`, or it is an address in the memory of this process, which ends with the
                command.
        """
        if isinstance(value, str) and value.lower().startswith("memory:/"):
            raise click.ClickException(
                f"{value[:200]!r} is in the memory of this process, which ends with the command: name a file"
            )
        return super().convert(value, param, ctx)


MAX_CHARACTERS = 2000
"""Largest length of an error message, which may quote a file."""

EXIT_CODE_CLOSED_PIPE = 141
"""Exit code by which shells report a process ended by SIGPIPE: 128 + 13."""

_CONTROL = re.compile(r"[^\n\t -~]+")
"""Characters that may control a terminal, and non-ASCII text. Tabs and newlines in names are escaped by callers."""


def print_line(line: str) -> None:
    """Print a line on stdout, with control characters escaped; end the process if its reader has closed it.

    Raises:
        OSError: the line cannot be written.
    """
    try:
        print(_CONTROL.sub(lambda match: escape_controls(match[0]), line), flush=True)
    except BrokenPipeError:
        give_up(sys.stdout)
        # click would end with 1, as if there were problems.
        raise SystemExit(EXIT_CODE_CLOSED_PIPE) from None
    except OSError as error:
        raise OSError(f"the output cannot be written: {error.strerror}") from None


def warn(line: str) -> None:
    """Print a warning on stderr, if it is open."""
    # Continue if stderr is closed.
    with contextlib.suppress(OSError):
        print("anydml: warning:", escape_controls(line), file=sys.stderr, flush=True)


@contextlib.contextmanager
def libraries_warnings() -> Iterator[None]:
    """Print each warning of a library once, as one line without a source location."""
    # icechunk warns of commits at once whenever it opens a folder, and reads this when it is imported.
    os.environ.setdefault("ICECHUNK_LOG", "error")
    printed = set()

    def show(message: Warning | str, *_: Any, **__: Any) -> None:
        line = " ".join(str(message).split())
        if line not in printed:
            printed.add(line)
            warn(line)

    with warnings.catch_warnings():
        warnings.showwarning = show
        yield


def print_status(line: str) -> None:
    """Print a line about what was done, unless only errors, or a document, are asked for."""
    context = click.get_current_context(silent=True)
    if context is None or not (context.params.get("quiet") or context.params.get("as_json")):
        print_line(line)


def quiet_option(printed: str) -> Callable[[F], F]:
    """Return the option --quiet, with which only what is `printed` appears."""
    return click.option("-q", "--quiet", is_flag=True, help=f"Print {printed} only.")


def overwrite_option(command: F) -> F:
    """Add the option --overwrite to a command that writes files."""
    return click.option("--overwrite", is_flag=True, help="Replace existing output files.")(command)


def check_target(option: str, path: str | None, suffix: str, sources: Iterable[str | Path], overwrite: bool) -> None:
    """Check the name of a file to write, that its folder exists, and that nothing is lost.

    Args:
        option: the option that names it, for errors; empty for an argument.
        path: the name; None if the option is not given.
        suffix: the suffix that the name must have.
        sources: the files that are read.
        overwrite: whether an existing file may be replaced.

    Raises:
        ClickException: the name has another suffix, or there is no such folder.
        ModelError: the path is one of `sources`, or exists and may not be replaced.
    """
    if path is None:
        return
    from anydml.files.folder import check_replaceable
    from anydml.files.location import Location

    named = f"{option} {path}".lstrip()
    if Path(path).suffix.lower() != suffix:
        raise click.ClickException(f"{named}: its name must end in {suffix}")
    if not Path(path).parent.is_dir():
        raise click.ClickException(
            f"{named}: there is no folder {Path(path).parent}: create it, or name another folder"
        )
    check_replaceable(Path(path), map(Path, sources), overwrite, Location(named))


def fail(message: str) -> int:
    """Print an error as one line on stderr; return its exit code."""
    try:
        sys.stdout.flush()
    except OSError:
        give_up(sys.stdout)
    line = " ".join(message.splitlines())
    if len(line) > MAX_CHARACTERS:
        line = f"{line[: MAX_CHARACTERS // 2]} … {line[-MAX_CHARACTERS // 2 :]}"
    try:
        print("anydml:", escape_controls(line), file=sys.stderr, flush=True)
    except OSError:
        give_up(sys.stderr)
    return 2


def give_up(stream: TextIO) -> None:
    """Redirect a broken stream to the null device, so that Python does not report an error when it exits."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
