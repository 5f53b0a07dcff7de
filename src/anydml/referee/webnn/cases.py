"""Cases of WebNN: a call with its tensors, and what it gives, as a test of web-platform-tests."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from anydml.errors import ModelError
from anydml.referee.case_selection import draw_missing, with_rules
from anydml.referee.drawing import Draw
from anydml.referee.nodes import Array, evaluate
from anydml.referee.operators import OPERATORS, results_of
from anydml.referee.webnn.features import features_of, reachable_features
from anydml.referee.webnn.operators import TYPES, WEBNN, Call
from anydml.referee.webnn.steps import RULES
from anydml.text import did_you_mean

MAX_JSON_NUMBER = 2**53 - 1
"""The largest number that every reader of JSON has."""

TRIES = 2000


class WebnnCase(NamedTuple):
    """A case of WebNN.

    Attributes:
        name: the case's name, unique among those of one call.
        operator: the operator.
        call: the call.
        outputs: the results; none of an invalid case.
        constant: numbers of the tensors that are constants.
        features: the case's features, for coverage and for causes.
        sentence: the sentence that decides it; for an invalid case, the rule that is broken.
        broken: the rule that an invalid case breaks; empty if it is valid.
    """

    name: str
    operator: str
    call: Call
    outputs: tuple[Array, ...]
    constant: frozenset[int]
    features: tuple[str, ...]
    sentence: str
    broken: str = ""

    @property
    def document(self) -> str:
        """The document that decides."""
        return f"WebNN's {self.operator}"


def webnn_names(names: Sequence[str]) -> list[str]:
    """Return the operators of WebNN by their names, in any case; all if none is given.

    Raises:
        ModelError: there is no such operator.
    """
    by_name = {name.lower(): name for name in WEBNN}
    for name in names:
        if name.lower() not in by_name:
            raise ModelError(
                f"there are no cases of {name!r}{did_you_mean(name, WEBNN)}",
                rule=f"WebNN's operators are {', '.join(WEBNN)}",
            )
    return [*dict.fromkeys(by_name[name.lower()] for name in names)] or [*WEBNN]


def webnn_cases(
    names: Sequence[str] = (), count: int = 1000, seed: int = 0, is_valid: bool = True
) -> Iterator[WebnnCase]:
    """Draw cases, operator by operator.

    Args:
        names: operators; all by default.
        count: the number of cases, shared among the operators.
        seed: gives the same cases again, with one version of onnx.
        is_valid: False for cases that break one rule each.

    Raises:
        ModelError: there is no such operator, or none of them has a rule to break.
    """
    chosen = webnn_names(names)
    if not is_valid:
        chosen = with_rules(chosen, RULES)
    for k, name in enumerate(chosen):
        missing = set(reachable_features(name))
        share = count * (k + 1) // len(chosen) - count * k // len(chosen)
        for case_number in range(share):
            draw = Draw(f"{seed} {name} {case_number}")
            if not is_valid:
                yield _invalid(name, draw, f"{name} {case_number}")
                continue
            call = draw_missing(partial(draw_call, name, draw), partial(features_of, name), missing, case_number, share)
            constant = frozenset(tensor for tensor in call.tensors.values() if draw.is_likely(0.3))
            yield valid_case(f"{name} {case_number}", name, call, constant)


def valid_case(case: str, name: str, call: Call, constant: frozenset[int]) -> WebnnCase:
    """Return the case of a valid call."""
    outputs: tuple[Any, ...] = tuple(evaluate(call.node, OPERATORS[call.node.operator].formula))
    return WebnnCase(case, name, call, outputs, constant, features_of(name, call), WEBNN[name].sentence)


def _invalid(name: str, draw: Draw, case: str) -> WebnnCase:
    for _ in range(TRIES):
        rule = draw.choice(RULES[name])
        call = rule.broken(draw_call(name, draw), draw)
        if call is not None and [rule.name for rule in RULES[name] if not rule.holds(call)] == [rule.name]:
            features = (f"breaks {rule.name}",)
            return WebnnCase(case, name, call, (), frozenset(), features, rule.sentence, rule.name)
    raise AssertionError(f"no invalid case of {name} in {TRIES} tries")


def draw_call(name: str, draw: Draw) -> Call:
    """Return a valid call of an operator."""
    for _ in range(TRIES):
        call = WEBNN[name].draw(draw)
        if call is None:
            continue
        node = call.node
        used = [node.array(input_number) for input_number in call.tensors.values()]
        shapes = [result.shape for result in results_of(node)]
        if all(array.dtype.name in TYPES and array.size and array.ndim <= 5 for array in used) and all(
            0 not in shape and len(shape) <= 5 for shape in shapes
        ):
            for input_number in call.tensors.values():
                node = node.with_input(input_number, json_array(node.array(input_number)))
            return call._replace(node=node)
    raise AssertionError(f"no call of {name} in {TRIES} tries")


def json_array(array: Array) -> Array:
    """Return an array whose elements JSON has."""
    if array.dtype.kind == "f":
        return np.where(np.isfinite(array), array, np.array(2.5, array.dtype)).astype(array.dtype)
    if array.dtype.itemsize == 8:
        return np.asarray(np.clip(array, 0 if array.dtype.kind == "u" else -MAX_JSON_NUMBER, MAX_JSON_NUMBER)).astype(
            array.dtype
        )
    return array


def as_wpt_test(case: WebnnCase) -> dict[str, Any]:
    """Return a case as a test of web-platform-tests, with the rule that decides it."""
    call = case.call
    inputs: dict[str, Any] = {}
    arguments: list[dict[str, Any]] = []
    listed: list[str] = []
    for name, input_number in call.tensors.items():
        tensor_name = f"{name.replace('[', '').replace(']', '')}Tensor"
        inputs[tensor_name] = tensor_of(call.node.array(input_number))
        if input_number in case.constant:
            inputs[tensor_name]["constant"] = True
        if name.startswith("inputs["):
            listed.append(tensor_name)
        else:
            arguments.append({name: tensor_name})
    if listed:
        arguments.append({"inputs": listed})
    arguments += [{name: value} for name, value in call.arguments.items()]
    if call.options:
        arguments.append({"options": dict(call.options)})
    names = [f"output{k}" for k in range(call.node.outputs)]
    results: Any = names if case.operator == "split" else names[0]
    operator = {"name": case.operator, "arguments": arguments, "outputs": results}
    # An invalid case has no outputs.
    expected = {name: tensor_of(value) for name, value in zip(names, case.outputs, strict=False)}
    return {
        "name": case.name,
        "graph": {"inputs": inputs, "operators": [operator], "expectedOutputs": expected},
        "case": {
            "operator": case.operator,
            "document": case.document,
            "sentence": case.sentence,
            "broken": case.broken,
            "readings": [],
            "features": case.features,
        },
    }


def tensor_of(array: Array) -> dict[str, Any]:
    """Return a tensor as web-platform-tests have it."""
    return {
        "data": array.reshape(-1).tolist(),
        "descriptor": {"shape": [*array.shape], "dataType": array.dtype.name},
    }


def write_webnn(cases: list[WebnnCase], folder: Path) -> int:
    """Write the cases of one operator to a file, and return their number."""
    document = {"operation": cases[0].operator, "tests": [as_wpt_test(case) for case in cases]}
    (folder / f"{cases[0].operator}.json").write_text(json.dumps(document, indent=1), encoding="utf-8")
    return len(cases)


def by_operator(cases: Iterable[WebnnCase]) -> Iterator[list[WebnnCase]]:
    """Yield the cases of each operator."""
    for _, group in groupby(cases, lambda case: case.operator):
        yield list(group)
