"""The representation of ONNX nodes in this package: operator, version, attributes, and errors that name the node."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol

from onnx import AttributeProto, OperatorSetIdProto

from anydml.errors import ModelError
from anydml.files.json_path import show
from anydml.text import printable, with_rule

if TYPE_CHECKING:
    from anydml.onnx.values import GraphValue
    from anydml.operators import OperatorDesc

MICROSOFT = "com.microsoft"


class ComputesError(ModelError):
    """A node of a supported operator computes, which anydml does not."""


Opsets = Mapping[str, int]
"""Opset versions by domain."""


@dataclass(frozen=True)
class Entry:
    """The implementation of an operator, a line of the table in `anydml.onnx.table`.

    Attributes:
        versions: supported versions of the operator.
        run: ``run(node, context, inputs)`` lowers a node in a `LoweringContext`, and returns its results.
        describe: returns the DirectML desc of a `Described` node; None if DirectML has no operator for it.
        decided_by: numbers of the inputs whose elements determine sizes of results.
    """

    versions: tuple[int, ...]
    run: Callable[[Node, Any, Sequence[GraphValue | None]], Iterable[GraphValue]]
    describe: Callable[[Any], OperatorDesc | None] | None = None
    decided_by: tuple[int, ...] = ()


@dataclass(frozen=True)
class Node:
    """A node of an operator in the table.

    Attributes:
        domain: domain of the operator; empty for ONNX's own.
        version: version of the operator, not of the opset: Split in opset 15 has version 13.
        inputs, outputs: names of values; empty for omitted ones.
        attributes: attributes by name.
        entry: the operator's implementation.
    """

    name: str
    domain: str
    operator: str
    version: int
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: Mapping[str, AttributeProto]
    entry: Entry

    @cached_property
    def label(self) -> str:
        """The node's name in error messages: ``node "split" (Split)``."""
        return label(self.name, self.domain, self.operator)

    def error(self, message: str, field: str | None = None, rule: str | None = None) -> ModelError:
        """Return an error about this node, with a message and the violated rule."""
        return ModelError(f"{self.label}: {with_rule(message, rule)}", self.operator, field, rule)

    def computes(self, message: str, field: str | None = None, rule: str | None = None) -> ComputesError:
        """Return an error for a valid node that computes."""
        return ComputesError(f"{self.label}: {message}", self.operator, field, rule)

    def reworded(self, error: Exception) -> ModelError:
        """Convert an error of an anydml function to an error of this node."""
        name = getattr(error, "operator", None) or self.operator.lower()
        message = str(error).removeprefix(f"{name}: ")
        return ModelError(
            f"{self.label}: {message}", self.operator, getattr(error, "field", None), getattr(error, "rule", None)
        )

    def integer(self, name: str, default: int | None = None) -> int | None:
        """An INT attribute, or `default`.

        Raises:
            ModelError: it has another type.
        """
        found = self.attributes.get(name)
        return default if found is None else int(self._typed(found, AttributeProto.INT).i)

    def number(self, name: str, default: float) -> float:
        """A FLOAT attribute, or `default`.

        Raises:
            ModelError: it has another type.
        """
        found = self.attributes.get(name)
        return default if found is None else float(self._typed(found, AttributeProto.FLOAT).f)

    def numbers(self, name: str) -> list[float] | None:
        """A FLOATS attribute, or None.

        Raises:
            ModelError: it has another type.
        """
        found = self.attributes.get(name)
        return None if found is None else list(self._typed(found, AttributeProto.FLOATS).floats)

    def text(self, name: str, default: str, known: Sequence[str]) -> str:
        """A STRING attribute, or `default`.

        Raises:
            ModelError: it has another type, or is not in `known`.
        """
        found = self.attributes.get(name)
        value = default if found is None else self._typed(found, AttributeProto.STRING).s.decode("utf-8", "replace")
        if value not in known:
            message = f"{name} is {show(value)}, but anydml knows {', '.join(known)}"
            raise self.error(message, name, f"{name} must be one of {', '.join(known)}")
        return value

    def integers(self, name: str) -> list[int] | None:
        """An INTS attribute, or None.

        Raises:
            ModelError: it has another type.
        """
        found = self.attributes.get(name)
        return None if found is None else list(self._typed(found, AttributeProto.INTS).ints)

    def axis(self, rank: int, default: int | None = 0) -> int:
        """The attribute `axis`, from 0 to rank − 1.

        Raises:
            ModelError: it is missing and has no default, or outside −rank … rank − 1.
        """
        axis = self.integer("axis", default)
        if axis is None:
            raise self.error("has no attribute axis", "axis", "axis is required")
        if not -rank <= axis < rank:
            rule = f"axis must be {-rank} to {rank - 1}" if rank else "a scalar has no axis"
            raise self.error(f"axis is {axis}, but the rank is {rank}", "axis", rule)
        return axis % rank

    def _typed(self, attribute: AttributeProto, kind: int) -> AttributeProto:
        if attribute.type != kind:
            kinds: Any = AttributeProto.AttributeType
            expected = kinds.Name(kind)
            name = printable(attribute.name)
            raise self.error(f"attribute {name} is no {expected}", attribute.name, f"{name} must be {expected}")
        return attribute


def label(name: str, domain: str, kind: str) -> str:
    """Return a node's name in error messages."""
    return f"node {show(name)} ({printable(f'{domain}:{kind}' if domain else kind)})"


def opsets_of(imports: Iterable[OperatorSetIdProto]) -> Opsets:
    """Return versions by domain; ``ai.onnx`` is an alias of the empty domain (ONNX IR, "Operator Sets")."""
    return {plain_domain(entry.domain): entry.version for entry in imports}


def plain_domain(domain: str) -> str:
    """Return the canonical name of a domain."""
    return "" if domain == "ai.onnx" else domain


class Named(Protocol):
    """A node with named inputs and outputs; names of omitted ones are empty."""

    @property
    def inputs(self) -> Sequence[str]:
        """Names of the inputs."""

    @property
    def outputs(self) -> Sequence[str]:
        """Names of the outputs."""


def last_use(nodes: Sequence[Named], kept: Sequence[str]) -> dict[int, list[str]]:
    """Return, by node number, the values that can be freed after each node.

    Args:
        nodes: nodes in order.
        kept: values that must not be freed.
    """
    last: dict[str, int] = {}
    for i, node in enumerate(nodes):
        for name in node.inputs:
            last[name] = i
        for name in node.outputs:
            last[name] = i
    for name in (*kept, ""):
        last.pop(name, None)
    drops: dict[int, list[str]] = {}
    for name, i in last.items():
        drops.setdefault(i, []).append(name)
    return drops


def decisive(nodes: Sequence[Node]) -> set[str]:
    """Return the names of the values that determine sizes, and of the values that these depend on."""
    found: set[str] = set()
    for node in reversed(nodes):
        # Outputs of Shape and Size, and the second output of ConcatTraining, depend on sizes only.
        made = node.outputs[:1] if node.operator == "ConcatTraining" else node.outputs
        if node.operator in ("Shape", "Size"):
            continue
        if not found.isdisjoint(made):
            found.update(node.inputs)
        found.update(node.inputs[k] for k in node.entry.decided_by if k < len(node.inputs))
    found.discard("")
    return found
