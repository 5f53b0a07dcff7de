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
from anydml.cli.options import Seconds, exclude
from anydml.cli.output import LocalPath, check_target, overwrite_option, print_line, quiet_option
from anydml.cli.plan_output import print_json
from anydml.cli.standard_input import STANDARD_INPUT, model_file
from anydml.errors import ModelError
from anydml.text import count_noun, escape_controls

if TYPE_CHECKING:
    from anydml.proving import Proof
    from anydml.proving.terms import Weights

SAME, DIFFERENT, UNDECIDED = 0, 1, 3
"""Exit codes of `anydml prove` for files that can be read."""


@click.command(
    cls=Command,
    short_help="Prove that two ONNX models compute the same.",
    examples=("old.onnx new.onnx", "exported.onnx optimized.onnx --rounding", "a.onnx b.onnx --weights none --junit"),
)
@click.argument("first", metavar="A.onnx", type=LocalPath(is_read=True, reads_input=True))
@click.argument("second", metavar="B.onnx", type=LocalPath(is_read=True, reads_input=True))
@click.option("--size", "sizes", multiple=True, metavar="NAME=SIZE", help="Prove it for this value of a named size.")
@click.option(
    "--rounding", is_flag=True, help="Accept models that are equal for real numbers, but may round differently."
)
@click.option(
    "--weights",
    type=click.Choice(["bits", "value", "none"]),
    default="bits",
    help="Compare constants of floats by bits, by value (0 is −0), or not at all.",
)
@click.option("--no-run", is_flag=True, help="Do not run the models to find an input for which they differ.")
@click.option("--seconds", type=Seconds(), default=60.0, show_default=True, help="Limit of a run.")
@click.option(
    "--save-input", "saved", metavar="FILE.npz", type=LocalPath(), help="Write the input for which they differ."
)
@click.option("--allow-outside", is_flag=True, help="Allow external data outside the models' folders.")
@click.option("--json", "as_json", is_flag=True, help="Print one line of JSON instead of text.")
@click.option("--junit", "as_junit", is_flag=True, help="Print JUnit XML, which CI servers show as tests.")
@overwrite_option
@quiet_option("errors and differences")
def prove(
    first: str, second: str, sizes: tuple[str, ...], rounding: bool, weights: Weights, no_run: bool, seconds: float,
    saved: str | None, allow_outside: bool, as_json: bool, as_junit: bool, overwrite: bool, quiet: bool,
) -> int:  # fmt: skip
    """Prove that A.onnx and B.onnx compute the same, however elements are moved and constants computed in between.

    Without --size, it is proved for all sizes from 1 on that A's inputs may have. Constants are compared bit for bit;
    sums of products may be added up in another order. What is not proved is run on ONNX Runtime, if it is installed.
    One of the models may be -, standard input.

    The exit code is 0 if it is proved, 1 if they differ, 2 if a file cannot be read, and 3 if neither is known, or if
    numbers may be rounded otherwise and --rounding is not given.
    """
    exclude("as_json", "as_junit")
    if first == second == STANDARD_INPUT:
        raise click.UsageError(
            "standard input (-) can be read only once: name a file for the other model", click.get_current_context()
        )
    check_target("--save-input", saved, ".npz", [first, second], overwrite)
    size_values = read_sizes(sizes)

    from anydml.files.folder import Folder
    from anydml.proving import prove as prove_models

    with model_file(first) as a_file, model_file(second) as b_file:
        for file in (a_file, b_file):
            if not is_onnx(file.path):
                raise ModelError(f"{file.path}: is not an ONNX model: its name must end in .onnx")
        a, b = (load_onnx(file.path, lambda model: model) for file in (a_file, b_file))
        a_folder, b_folder = (
            Folder(file.folder or Path(file.path).resolve().parent, allow_outside) for file in (a_file, b_file)
        )
        proof = prove_models(a, b, size_values, (a_folder, b_folder), not no_run, weights, seconds)
    if saved is not None and proof.verdict == "different" and proof.run is not None:
        import numpy as np

        np.savez(saved, **proof.run.inputs)
    code = _code(proof, rounding)
    if as_json:
        print_json({"first": first, "second": second, "exit_code": code, **as_document(proof)})
    elif as_junit:
        for line in _junit(first, second, proof, code).splitlines():
            print_line(line)
    elif not (quiet and code == SAME):
        for line in lines(proof):
            print_line(escape_controls(line))
        if saved is not None and proof.verdict == "different" and proof.run is not None:
            print_line(escape_controls(f"the input is written to '{saved}'"))
    return code


def _code(proof: Proof, rounding: bool) -> int:
    if proof.verdict == "proved" or (proof.verdict == "rounded" and rounding):
        return SAME
    return DIFFERENT if proof.verdict == "different" else UNDECIDED


def lines(proof: Proof) -> Iterator[str]:
    """Yield the verdict on two models and its reasons, as lines of text."""
    yield f"{_verdict(proof)}{_location_of(proof)}"
    yield from (f"    {reason}" for reason in (*proof.reasons, *proof.rounding))
    if proof.samples:
        yield f"    at {'; '.join(_sizes(sample) for sample in proof.samples)} all results are equal"
    run = proof.run
    if run is not None:
        condition = f" where {_sizes(run.sizes)}" if run.sizes else ""
        if run.note:
            yield f"    {run.note}{condition}"
        elif run.output:
            amount = (
                "differs in shape, or by more than rounding" if math.isinf(run.error)
                else f"is off by {run.error:.0f} units in the last place of its largest number"
            )  # fmt: skip
            yield f'    output "{run.output}"{condition}: {amount}'
        else:
            amount = f"{run.error:.0f} units in the last place of their largest numbers"
            yield f"    results for random inputs are off by at most {amount}{condition}"
    difference = proof.first_difference
    if difference is not None and proof.verdict in ("different", "undecided"):
        yield f'    output "{difference.output}" first differs at:'
        for name, node, term in zip("AB", difference.nodes, difference.terms, strict=True):
            yield f"        {name}: {node + ': ' if node else ''}{term}"


def _verdict(proof: Proof) -> str:
    match proof.verdict:
        case "proved":
            return "proved: both compute the same"
        case "rounded":
            return "equal for real numbers: both compute the same, but numbers may be rounded otherwise"
        case "different":
            return "different: they do not compute the same"
    wrong = [name for name, is_same in proof.outputs.items() if not is_same]
    return f"not decided: {count_noun(len(wrong), 'output')} of {len(proof.outputs)} not proved"


def _location_of(proof: Proof) -> str:
    if proof.verdict in ("different", "undecided"):
        return ""
    names = ", ".join(_sizes_of(proof.names))
    fixed_sizes = _sizes(proof.sizes)
    if proof.names:
        conditions = "".join(f", where {condition}" for condition in proof.where)
        return f", for all sizes {names} from 1 on{f', and {fixed_sizes}' if fixed_sizes else ''}{conditions}"
    return f", for {fixed_sizes}" if fixed_sizes else ""


def _sizes_of(names: list[str]) -> list[str]:
    from anydml.proving.names import show_size

    return [show_size(name) for name in names]


def _sizes(sizes: Mapping[str, int]) -> str:
    return ", ".join(f"{name} = {size}" for name, size in zip(_sizes_of([*sizes]), sizes.values(), strict=True))


def as_document(proof: Proof) -> dict[str, Any]:
    """Return the verdict on two models and its reasons, for JSON."""
    difference, run = proof.first_difference, proof.run
    return {
        "verdict": proof.verdict,
        "sizes": proof.sizes,
        "all_sizes": proof.names,
        "where": proof.where,
        "outputs": proof.outputs,
        "reasons": proof.reasons,
        "rounding": proof.rounding,
        "equal_at": proof.samples,
        "first_difference": None if difference is None else {
            "output": difference.output, "nodes": difference.nodes, "terms": difference.terms,
        },
        "run": None if run is None else {
            "sizes": run.sizes, "output": run.output or None, "note": run.note,
            "units_in_the_last_place": None if math.isinf(run.error) else run.error,
        },
    }  # fmt: skip


def _junit(first: str, second: str, proof: Proof, code: int) -> str:
    """Return JUnit XML, in ASCII: a case per output."""
    outputs = proof.outputs or {"model": False}
    differing = [name for name, is_same in outputs.items() if code and (proof.verdict == "rounded" or not is_same)]
    element_name = "failure" if code == DIFFERENT else "skipped"
    counts = {"tests": str(len(outputs)), "failures": "0", "skipped": "0"}
    counts["failures" if element_name == "failure" else "skipped"] = str(len(differing))
    suite = ElementTree.Element("testsuite", {"name": escape_controls(f"{first} and {second}"), **counts})
    for name in outputs:
        case = ElementTree.SubElement(suite, "testcase", classname=escape_controls(second), name=escape_controls(name))
        if name in differing:
            note = ElementTree.SubElement(case, element_name, message=_verdict(proof))
            note.text = "\n".join(map(escape_controls, lines(proof)))
    ElementTree.indent(suite)
    text: bytes = ElementTree.tostring(suite, encoding="us-ascii", xml_declaration=True)
    return text.decode()
