"""`prove`: whether two models compute the same for all sizes, and where they first differ."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from onnx import ModelProto

from anydml.errors import ModelError
from anydml.files.folder import Folder
from anydml.onnx.checks import check, check_is_model
from anydml.onnx.declared_types import check_types
from anydml.onnx.node_checks import check_nodes
from anydml.proving.batches import Batch
from anydml.proving.constants import Constants
from anydml.proving.counterexample import RunComparison, compare_runs
from anydml.proving.fingerprint_arithmetic import NoFingerprintError
from anydml.proving.first_difference import FirstDifference, are_same, first_difference
from anydml.proving.fused import in_own_domains
from anydml.proving.interface import differences, names_in_both, wrong_sizes, wrong_sizes_in_bodies
from anydml.proving.model_terms import Read, Reader
from anydml.proving.movement_terms import Form
from anydml.proving.names import size_names, small_sizes
from anydml.proving.reassociation import ORDER
from anydml.proving.refusing import condition_of
from anydml.proving.runtime_process import DEFAULT_SECONDS
from anydml.proving.sizes import Size, evaluate
from anydml.proving.term_fingerprints import fingerprints_of
from anydml.proving.terms import Term, Weights
from anydml.text import count_noun

Verdict = Literal["proved", "rounded", "different", "undecided"]

FORMS: Sequence[Form] = ("floats", "zeros", "real", "merged")
"""The forms in which models are compared, from the strictest on; `Form` says what each counts as equal."""

Folders = tuple[Folder | None, Folder | None]

KnownSizes = tuple[Mapping[str, Size], Mapping[str, Size]]
"""The sizes that the names of both models' dimensions stand for."""


@dataclass
class Proof:
    """The result of comparing two models.

    Attributes:
        verdict: "proved" if they compute the same; "rounded" if they do for real numbers, but may round floats
            differently; "different" if their declarations or an input show a difference; else "undecided".
        sizes: the given sizes; empty if the verdict is for all sizes.
        names: names of the sizes for which the verdict holds at all values from 1 on.
        where: further conditions on sizes as strings, such as "N ≤ 512".
        outputs: whether each output is proved, by name.
        reasons: why there is no proof, or what the proof assumes.
        rounding: the results that may be rounded differently.
        samples: the sizes at which the results were found equal, if there is no proof for all sizes.
        first_difference: the first place where the models differ, if they do.
        run: the comparison of the results of running both models, if they were run.
    """

    verdict: Verdict
    sizes: dict[str, int] = field(default_factory=dict)
    names: list[str] = field(default_factory=list)
    where: list[str] = field(default_factory=list)
    outputs: dict[str, bool] = field(default_factory=dict)
    reasons: list[str] = field(default_factory=list)
    rounding: list[str] = field(default_factory=list)
    samples: list[dict[str, int]] = field(default_factory=list)
    first_difference: FirstDifference | None = None
    run: RunComparison | None = None


# Constants may have NaN of all kinds, and numbers that overflow.
@np.errstate(all="ignore")
def prove(
    first: ModelProto,
    second: ModelProto,
    sizes: Mapping[str, int] | None = None,
    folders: Folders = (None, None),
    runs: bool = True,
    weights: Weights = "bits",
    seconds: float = DEFAULT_SECONDS,
) -> Proof:
    """Compare what two models compute, up to data movement, constants that are computed ahead, and the order of sums.

    Args:
        first: a valid model.
        second: the other model, also valid.
        sizes: sizes of dimensions by name; for names without a size, all sizes are compared.
        folders: folders of the models' external data; None for a model that has none, or whose data has been loaded.
        runs: whether to run both models without a proof, to find an input for which they differ.
        weights: how constants of floats are compared: "bits"; "value", by which −0 is 0; or "none", by which all of one
            type and shape are equal, as in models that were trained for longer, and nothing is run.
        seconds: the time limit of a run.

    Returns:
        The verdict, and what it rests on. Names of sizes stand for 1 and more.

    Raises:
        ModelError: a model is not valid, A has a node that no runtime runs, constants cannot be read, or a size has no
            such name.
        TypeError: an argument is not a ModelProto.
    """
    for model in (first, second):
        check_is_model("prove", model)
    models = in_own_domains(first), in_own_domains(second)
    label = "A"
    try:
        check_nodes(models[0], sizes)
        label = "B"
        # A node of B that refuses inputs is part of the verdict.
        check(models[1])
        check_types(models[1])
    except ModelError as error:
        raise ModelError(f"{label}: {error}", error.operator, error.field, error.rule) from None
    fixed_sizes = dict(sizes or {})
    proof = Proof("undecided", fixed_sizes, [name for name in size_names(first) if name not in fixed_sizes])
    proof.reasons = [*differences(first, second, fixed_sizes)]
    if proof.reasons:
        proof.verdict = "different"
        return proof
    sizes_of_both = names_in_both(first, second, fixed_sizes)
    for form in FORMS:
        reader, a, b = _read(models, folders, sizes_of_both, form, weights)
        proof.outputs, marks = marked_outputs(a, b, proof.names, proof.reasons)
        if all(proof.outputs.values()):
            if refusals := _refusals(models, a, b, marks):
                proof.reasons = refusals
                break
            proof.rounding = _rounding(reader, a, b)
            proof.where = [f"{size} ≤ {limit}" for size, limit in reader.mover.assumed.items()]
            proof.verdict = "proved" if form == "floats" else "rounded"
            proof.reasons = [*_COMPARED[weights]] + [_operators_text(reader.own)] * bool(reader.own)
            return proof
        wrong = next(key for key, is_same in proof.outputs.items() if not is_same)
        proof.first_difference = first_difference(a, b, wrong, marks)
    if proof.names:
        _sample(proof, models, folders, sizes_of_both, weights)
    if runs and weights != "none" and not proof.samples:
        proof.run = compare_runs(first, second, folders, sizes_of_both[0], seconds)
        if proof.run is not None and proof.run.output:
            proof.verdict = "different"
    return proof


def _read(
    models: tuple[ModelProto, ModelProto], folders: Folders, sizes_of_both: KnownSizes, form: Form, weights: Weights
) -> tuple[Reader, Read, Read]:
    reader = Reader(form, weights=weights)
    a, b = (
        reader.read(model, Constants(model, folder), sizes)
        for model, folder, sizes in zip(models, folders, sizes_of_both, strict=True)
    )
    return reader, a, b


def _rounding(reader: Reader, a: Read, b: Read) -> list[str]:
    """Return a sentence for each assumed equality that rounding in a runtime may break."""
    if reader.mover.is_real and not all(equal_outputs(a, b).values()):
        reader.mover.rounded.add(ORDER)
    return [*reader.rounding()]


def _refusals(models: tuple[ModelProto, ModelProto], a: Read, b: Read, marks: Mapping[int, Any]) -> list[str]:
    """Return the reasons why B may refuse inputs that A takes."""
    nodes = [f"B may refuse inputs that A takes, at {node}" for node in nodes_that_may_refuse(a, b, marks)]
    shapes = {key: term.shape for key, term in b.outputs.items()}
    return [*nodes, *wrong_sizes(*models, shapes), *wrong_sizes_in_bodies(*models)]


def _operators_text(operators: set[str]) -> str:
    return f"{count_noun(len(operators), 'operator')} that ONNX does not define: {', '.join(sorted(operators))}"


def equal_outputs(a: Read, b: Read) -> dict[str, bool]:
    """Return for each output, by name, whether it is the same term in both models."""
    return {key: term is b.outputs[key] for key, term in a.outputs.items()}


def marked_outputs(
    a: Read, b: Read, names: Sequence[str], reasons: list[str]
) -> tuple[dict[str, bool], Mapping[int, Any]]:
    """Return for each output, by name, whether its fingerprints are equal, and the fingerprints of all terms.

    Args:
        a: a model.
        b: the other model.
        names: names of sizes; the first one may be the batch.
        reasons: gets the reason if there are no fingerprints.
    """
    outputs, batch = equal_outputs(a, b), Batch(names[0] if names else "")
    wrong = [key for key, is_same in outputs.items() if not is_same]
    if any(
        (shape := read.outputs[key].shape) is None or batch.inner(shape) is None for read in (a, b) for key in wrong
    ):
        return outputs, {}
    try:
        first, second = ([read.outputs[key] for key in wrong] for read in (a, b))
        marks = fingerprints_of(first, second, batch, a.terms)
    except NoFingerprintError as error:
        reasons += [str(error)] * (str(error) not in reasons)
        return outputs, {}
    return {**outputs, **{key: are_same(a.outputs[key], b.outputs[key], marks) for key in wrong}}, marks


def nodes_that_may_refuse(a: Read, b: Read, marks: Mapping[int, Any]) -> list[str]:
    """Return the nodes of B that may refuse inputs and have no counterpart in A.

    Args:
        a: a model.
        b: the other model.
        marks: fingerprints by the numbers of terms; some terms have none.
    """

    def elements(term: Term) -> Hashable:
        mark = marks.get(term.number)
        # Sorted, since B's nodes may get the elements in another order. Terms without fingerprints may have any sizes.
        return None if mark is None or not mark.size else (term.kind, np.sort(mark, axis=None).tobytes())

    refused = list[str]()
    for path, terms in b.refusing.items():
        # Nodes around a body run whenever the body runs.
        known_terms = {
            term_number: term
            for k in range(len(path) + 1)
            for term_number, term in a.refusing.get(path[:k], {}).items()
        }
        unmatched = [term for term_number, term in terms.items() if term_number not in known_terms]
        if not unmatched:
            continue
        known = {
            key for term in known_terms.values() for key in (elements(term), condition_of(term)) if key is not None
        }
        refused += [
            b.node(term) for term in unmatched if elements(term) not in known and condition_of(term) not in known
        ]
    return refused


_COMPARED: Mapping[Weights, Sequence[str]] = {
    "bits": [],
    "value": ["constants of floats are compared by value"],
    "none": ["constants of floats are not compared"],
}


def _sample(
    proof: Proof, models: tuple[ModelProto, ModelProto], folders: Folders, sizes_of_both: KnownSizes, weights: Weights
) -> None:
    """Compare the models at several small sizes, and note the sizes if all results are equal."""
    rounding: set[str] = set()
    for values in small_sizes(proof.names):
        numbered = [{key: evaluate(size, values) or 0 for key, size in sizes.items()} for sizes in sizes_of_both]
        for form in FORMS:
            reader, a, b = _read(models, folders, (numbered[0], numbered[1]), form, weights)
            outputs, marks = marked_outputs(a, b, (), proof.reasons)
            if all(outputs.values()) and not _refusals(models, a, b, marks):
                rounding.update(_rounding(reader, a, b))
                proof.samples.append(dict(values))
                break
        else:
            proof.samples.clear()
            return
    proof.rounding = sorted(rounding)
