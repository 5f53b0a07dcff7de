"""`anydml prove`: whether two ONNX models compute the same, as text or as documents for programs."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree

import click

from anydml.cli.command import Command
from anydml.cli.onnx_checking import read_sizes
from anydml.cli.onnx_commands import is_onnx, load_onnx
from anydml.cli.options import exclude
from anydml.cli.output import LocalPath, check_target, overwrites, quiet_option, say
from anydml.cli.plan_output import say_json
from anydml.text import counted, printable

if TYPE_CHECKING:
    from anydml.proving import Proof
    from anydml.proving.terms import Weights

SAME, DIFFERENT, UNDECIDED = 0, 1, 3
"""Exit codes of `anydml prove` for files that can be read."""


@click.command(cls=Command, short_help="Prove that two ONNX models compute the same.")
@click.argument("first", metavar="A.onnx", type=LocalPath(is_read=True))
@click.argument("second", metavar="B.onnx", type=LocalPath(is_read=True))
@click.option("--size", "sizes", multiple=True, metavar="NAME=SIZE", help="Prove it for this value of a symbolic size.")
@click.option("--rounding", is_flag=True, help="Allow what is equal for real numbers, but may be rounded otherwise.")
@click.option(
    "--weights",
    type=click.Choice(["bits", "value", "none"]),
    default="bits",
    help="Compare constants of floats by bits, by value (0 is −0), or not at all.",
)
@click.option("--no-run", is_flag=True, help="Do not look for an input that tells them apart by running both.")
@click.option("--input", "shown", metavar="FILE.npz", type=LocalPath(), help="Write the input that tells them apart.")
@click.option("--allow-outside", is_flag=True, help="Allow external data outside the models' folders.")
@click.option("--json", "as_json", is_flag=True, help="Print one line of JSON instead of text.")
@click.option("--junit", "as_junit", is_flag=True, help="Print JUnit XML, which CI servers show as tests.")
@overwrites
@quiet_option
def prove(
    first: str, second: str, sizes: tuple[str, ...], rounding: bool, weights: Weights, no_run: bool, shown: str | None,
    allow_outside: bool, as_json: bool, as_junit: bool, overwrite: bool, quiet: bool,
) -> int:  # fmt: skip
    """Prove that A.onnx and B.onnx compute the same, however elements are moved and constants computed in between.

    Without --size, it is proved for all sizes from 1 on that A's inputs may have. Constants are compared bit for bit;
    sums of products may be added up in another order. What is not proved is run on ONNX Runtime, if it is installed.

    The exit code is 0 if it is proved, 1 if they differ, 2 if a file cannot be read, and 3 if neither is known, or if
    numbers may be rounded otherwise and --rounding is not given.
    """
    exclude("as_json", "as_junit")
    for model in (first, second):
        if not is_onnx(model):
            raise click.ClickException(f"{model}: its name must end in .onnx")
    check_target("--input", shown, ".npz", [first, second], overwrite)
    given = read_sizes(sizes)

    from anydml.files.folder import Folder
    from anydml.proving import prove as work

    folders = [Folder(Path(model).resolve().parent, allow_outside) for model in (first, second)]
    a, b = load_onnx(first, lambda model: model), load_onnx(second, lambda model: model)
    found = work(a, b, given, (folders[0], folders[1]), not no_run, weights)
    if shown is not None and found.verdict == "different" and found.shown is not None:
        import numpy as np

        np.savez(shown, **found.shown.inputs)
    code = _code(found, rounding)
    if as_json:
        say_json({"first": first, "second": second, "exit_code": code, **as_document(found)})
    elif as_junit:
        for line in _junit(first, second, found, code).splitlines():
            say(line)
    elif not (quiet and code == SAME):
        for line in lines(found):
            say(printable(line))
        if shown is not None and found.verdict == "different" and found.shown is not None:
            say(printable(f"the input is written to '{shown}'"))
    return code


def _code(found: Proof, rounding: bool) -> int:
    if found.verdict == "proved" or (found.verdict == "rounded" and rounding):
        return SAME
    return DIFFERENT if found.verdict == "different" else UNDECIDED


def lines(found: Proof) -> Iterator[str]:
    """Yield what is known of two models, as text."""
    yield f"{_verdict(found)}{_where(found)}"
    yield from (f"    {each}" for each in (*found.reasons, *found.rounding))
    if found.samples:
        yield f"    at {'; '.join(_sizes(each) for each in found.samples)} all results are equal"
    shown = found.shown
    if shown is not None:
        at = f" where {_sizes(shown.sizes)}" if shown.sizes else ""
        if shown.output:
            much = shown.note or (
                "differs in more than numbers" if math.isinf(shown.error)
                else f"is off by {shown.error:.0f} units in the last place of its largest number"
            )  # fmt: skip
            yield f"    output '{shown.output}'{at}: {much}" if not shown.note else f"    {much}"
        else:
            yield f"    run on random inputs, results are off by {shown.error:.0f} units in the last place at most{at}"
    place = found.parting
    if place is not None and found.verdict in ("different", "undecided"):
        yield f"    output '{place.output}' parts first at:"
        for name, node, term in zip("AB", place.nodes, place.terms, strict=True):
            yield f"        {name}: {node + ': ' if node else ''}{term}"


def _verdict(found: Proof) -> str:
    match found.verdict:
        case "proved":
            return "proved: both compute the same"
        case "rounded":
            return "equal for real numbers: both compute the same, but numbers may be rounded otherwise"
        case "different":
            return "different: they do not compute the same"
    wrong = [name for name, is_same in found.outputs.items() if not is_same]
    return f"not decided: {counted(len(wrong), 'output')} of {len(found.outputs)} not proved"


def _where(found: Proof) -> str:
    if found.verdict in ("different", "undecided"):
        return ""
    names = ", ".join(_sizes_of(found.names))
    given = _sizes(found.sizes)
    if found.names:
        where = "".join(f", where {each}" for each in found.where)
        return f", for all sizes {names} from 1 on{f', and {given}' if given else ''}{where}"
    return f", for {given}" if given else ""


def _sizes_of(names: list[str]) -> list[str]:
    from anydml.proving.names import show_size

    return [show_size(name) for name in names]


def _sizes(sizes: Mapping[str, int]) -> str:
    return ", ".join(f"{name} = {size}" for name, size in zip(_sizes_of([*sizes]), sizes.values(), strict=True))


def as_document(found: Proof) -> dict[str, Any]:
    """Return what is known of two models, for JSON."""
    place, shown = found.parting, found.shown
    return {
        "verdict": found.verdict,
        "sizes": found.sizes,
        "all_sizes": found.names,
        "where": found.where,
        "outputs": found.outputs,
        "reasons": found.reasons,
        "rounding": found.rounding,
        "equal_at": found.samples,
        "parts_at": None if place is None else {"output": place.output, "nodes": place.nodes, "terms": place.terms},
        "run": None if shown is None else {
            "sizes": shown.sizes, "output": shown.output or None, "note": shown.note,
            "units_in_the_last_place": None if math.isinf(shown.error) else shown.error,
        },
    }  # fmt: skip


def _junit(first: str, second: str, found: Proof, code: int) -> str:
    """Return JUnit XML, in ASCII: a case per output."""
    outputs = found.outputs or {"model": False}
    bad = [name for name, is_same in outputs.items() if code and (found.verdict == "rounded" or not is_same)]
    kind = "failure" if code == DIFFERENT else "skipped"
    counts = {"tests": str(len(outputs)), "failures": "0", "skipped": "0"}
    counts["failures" if kind == "failure" else "skipped"] = str(len(bad))
    suite = ElementTree.Element("testsuite", {"name": printable(f"{first} and {second}"), **counts})
    for name in outputs:
        case = ElementTree.SubElement(suite, "testcase", classname=printable(second), name=printable(name))
        if name in bad:
            note = ElementTree.SubElement(case, kind, message=_verdict(found))
            note.text = "\n".join(map(printable, lines(found)))
    ElementTree.indent(suite)
    text: bytes = ElementTree.tostring(suite, encoding="us-ascii", xml_declaration=True)
    return text.decode()
