"""The representation of ONNX nodes in this package: operator, version, attributes, and errors that name the node."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from onnx import AttributeProto, GraphProto, NodeProto, OperatorSetIdProto

from anydml.errors import FuseError, ModelError
from anydml.files.location import show
from anydml.onnx.graph_values import GraphValue, Tensor
from anydml.onnx.signature import Formal, Signature, value_of
from anydml.onnx.walk import bodies, plain_domain, subgraphs
from anydml.text import count_noun, escape_controls, with_rule

if TYPE_CHECKING:
    from anydml.operators import OperatorDesc

MICROSOFT = "com.microsoft"

T = TypeVar("T")


class ComputesError(ModelError):
    """A node of a supported operator computes, which anydml does not."""


class UnenforcedRuleError(ModelError):
    """A node breaks a rule that some runtimes do not enforce, such as by a word of a later version of its operator."""


Opsets = Mapping[str, int]
"""Opset versions by domain."""


@dataclass(frozen=True)
class Entry:
    """The implementation of an operator, a line of the table in `anydml.onnx.table`.

    Attributes:
        versions: supported versions of the operator.
        run: ``run(node, ctx, *inputs)`` lowers a node in a `LoweringContext`, and returns its result, or a list of
            results. It gets the inputs of `signature`, None for omitted ones.
        describe: ``describe(described, *inputs)`` returns the DirectML desc of a `Described` node, or None; it is None
            if DirectML has no operator for it.
        decided_by: numbers of the inputs whose elements determine sizes of results.
        signature: inputs and attributes; by default, those that onnx declares.
    """

    versions: tuple[int, ...]
    run: Callable[..., GraphValue | list[Any]]
    describe: Callable[..., OperatorDesc | None] | None = None
    decided_by: tuple[int, ...] = ()
    signature: Signature | None = None


@dataclass(frozen=True)
class Node:
    """A node of an operator in the table.

    Attributes:
        domain: domain of the operator; empty for ONNX's own.
        version: version of the operator, not of the opset: Split in opset 15 has version 13.
        inputs, outputs: names of values; empty for omitted ones.
        attributes: attributes by name.
        entry: the operator's implementation.
        signature: the operator's inputs and attributes.
    """

    name: str
    domain: str
    operator: str
    version: int
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: Mapping[str, AttributeProto]
    entry: Entry
    signature: Signature

    @cached_property
    def label(self) -> str:
        """The node's name in error messages: ``node "split" (Split)``."""
        return label(self.name, self.domain, self.operator)

    @cached_property
    def _formals(self) -> tuple[Formal, ...]:
        return self.signature.formals(len(self.inputs))

    def error(self, message: str, field: str | None = None, rule: str | None = None) -> ModelError:
        """Return an error about this node, with a message and the violated rule."""
        return ModelError(f"{self.label}: {with_rule(message, rule)}", self.operator, field, rule)

    def computes(self, message: str, field: str | None = None, rule: str | None = None) -> ComputesError:
        """Return an error for a valid node that computes."""
        return ComputesError(f"{self.label}: {message}", self.operator, field, rule)

    def unenforced(self, message: str, field: str, rule: str) -> UnenforcedRuleError:
        """Return an error for a rule that some runtimes do not enforce."""
        return UnenforcedRuleError(f"{self.label}: {with_rule(message, rule)}", self.operator, field, rule)

    def as_node_error(self, error: Exception) -> ModelError:
        """Convert an error of an anydml function to an error of this node."""
        name = getattr(error, "operator", None) or self.operator.lower()
        # The caller's line is that of the graph.
        reason = error.reason if isinstance(error, FuseError) else str(error)
        message = reason.removeprefix(f"{name}: ")
        return ModelError(
            f"{self.label}: {message}", self.operator, getattr(error, "field", None), getattr(error, "rule", None)
        )

    def get(self, name: str) -> Any:
        """Return the value of an attribute, or its default; None if there is neither.

        Raises:
            ModelError: the attribute has another type, or is required but missing.
        """
        attribute, declared = self.attributes.get(name), self.signature.attributes.get(name)
        if attribute is None or declared is None:
            if declared is not None and declared.is_required:
                raise self.error(f"has no attribute {name}", name, f"{name} is required")
            return None if declared is None else declared.default
        if attribute.type not in declared.types:
            kinds: Any = AttributeProto.AttributeType
            expected = " or ".join(map(kinds.Name, declared.types))
            raise self.error(f"attribute {name} is not {expected}", name, f"{name} must be {expected}")
        return value_of(attribute)

    def word(self, name: str, allowed: Sequence[str]) -> Any:
        """Return an attribute that is one of a few words; None if this version of the operator has no such attribute.

        Raises:
            ModelError: the attribute has another type.
            UnenforcedRuleError: the word is not in `allowed`.
        """
        value = self.get(name)
        if value is not None and value not in allowed:
            message = f"{name} is {show(value)}, but anydml knows {', '.join(allowed)}"
            raise self.unenforced(message, name, f"{name} must be one of {', '.join(allowed)}")
        return value

    def axis(self, rank: int, default: int | None = None) -> int:
        """Return the attribute `axis`, from 0 to rank − 1.

        Raises:
            ModelError: the axis is missing, or outside −rank … rank − 1.
        """
        axis = self.get("axis")
        axis = default if axis is None else axis
        if axis is None:
            raise self.error("has no attribute axis", "axis", "axis is required")
        if not -rank <= axis < rank:
            rule = f"axis must be {-rank} to {rank - 1}" if rank else "a scalar has no axis"
            raise self.error(f"axis is {axis}, but the rank is {rank}", "axis", rule)
        return int(axis % rank)

    def inputs_in(self, values: Mapping[str, T]) -> list[T | None]:
        """Return the inputs among values by name; None for omitted ones.

        Raises:
            ModelError: no earlier node creates one.
        """
        missing = next((name for name in self.inputs if name and name not in values), None)
        if missing is not None:
            message = f"nothing makes its input {show(missing)} before it runs"
            raise self.error(message, missing, "nodes must come in order")
        return [values[name] if name else None for name in self.inputs]

    def checked(self, inputs: Sequence[GraphValue | None]) -> list[GraphValue | None]:
        """Check inputs against the signature.

        Args:
            inputs: one per name in ``self.inputs``, None for omitted ones.

        Returns:
            One per input of the signature, None for omitted ones; as many as there are in place of a variadic one.

        Raises:
            ModelError: an input is missing or surplus, or of a wrong type; or a tensor is a sequence, or the reverse.
        """
        formals, missing = self._formals, len(self._formals) - len(inputs)
        padded = [*inputs, *[None] * missing] if missing >= 0 else [*inputs[:missing]]
        if missing < 0 and any(value is not None for value in inputs[missing:]):
            raise self.error(f"has {count_noun(len(inputs), 'input')}, but takes {len(formals)}")
        groups: dict[str, tuple[str, np.dtype[Any]]] = {}
        for input_number, ((name, is_required, _, type_name, dtypes, group), value) in enumerate(
            zip(formals, padded, strict=True)
        ):
            if value is None:
                if is_required:
                    raise self.error(f"input {input_number} ({name}) is missing", name, f"{name} is required")
            elif not isinstance(value, Tensor):
                if type_name == "tensor":
                    # Copies of unrolled bodies may be of a version before sequences; types have been checked.
                    message = f"input {input_number} ({name}) is a sequence"
                    raise self.unenforced(message, name, f"{name} must be a tensor")
            elif type_name == "sequence":
                raise self.error(f"input {input_number} ({name}) is not a sequence", name, f"{name} must be a sequence")
            elif dtypes and value.dtype not in dtypes:
                message = f"{with_verb(name)} {value.dtype} of shape {list(value.shape)}"
                raise self.error(message, name, f"{name} must be {' or '.join(dtypes.values())}")
            elif group:
                first_name, dtype = groups.setdefault(group, (name, value.dtype))
                if value.dtype is not dtype and value.dtype != dtype:
                    message = f"{with_verb(name)} {value.dtype}, but {with_verb(first_name)} {dtype}"
                    raise self.error(message, name, f"{first_name} and {name} must have one type")
        return padded


def with_verb(name: str) -> str:
    """Return an input's name with its verb: ``"axis is"``, ``"axes are"``."""
    is_plural = name.endswith("s") and name != "axis"
    return f"{name} {'are' if is_plural else 'is'}"


def label(name: str, domain: str, kind: str) -> str:
    """Return a node's name in error messages."""
    return f"node {show(name)} ({escape_controls(f'{domain}:{kind}' if domain else kind)})"


def opsets_of(imports: Iterable[OperatorSetIdProto]) -> Opsets:
    """Return versions by domain."""
    return {plain_domain(entry.domain): entry.version for entry in imports}


Names = Sequence[str]
"""Names of values; empty for omitted ones."""


def last_use(nodes: Iterable[tuple[Names, Names]], graph_outputs: Names) -> dict[int, list[str]]:
    """Return, by node number, the values that can be freed after each node.

    Args:
        nodes: names of the inputs and of the outputs of each node, in order.
        graph_outputs: values that must not be freed.
    """
    last = {name: i for i, (inputs, outputs) in enumerate(nodes) for name in (*inputs, *outputs)}
    for name in (*graph_outputs, ""):
        last.pop(name, None)
    drops: dict[int, list[str]] = {}
    for name, i in last.items():
        drops.setdefault(i, []).append(name)
    return drops


def size_determining(nodes: Sequence[Node]) -> set[str]:
    """Return the names of the values that determine sizes, and of all values from which those are made."""
    names: set[str] = set()
    for node in reversed(nodes):
        # Outputs of Shape and Size, and the second output of ConcatTraining, depend on sizes only.
        outputs = node.outputs[:1] if node.operator == "ConcatTraining" else node.outputs
        if node.operator in ("Shape", "Size"):
            continue
        if not names.isdisjoint(outputs):
            names.update(node.inputs)
        names.update(node.inputs[k] for k in node.entry.decided_by if k < len(node.inputs))
    names.discard("")
    return names


def read_as_data(nodes: Sequence[tuple[NodeProto, Node | ModelError]], graph: GraphProto) -> set[str]:
    """Return the values whose elements reach an output otherwise than by determining sizes."""
    names = {output.name for output in graph.output}
    for proto, node in reversed(nodes):
        if names.isdisjoint(proto.output) or proto.op_type in ("Shape", "Size"):
            continue
        by = node.entry.decided_by if isinstance(node, Node) else ()
        names.update(name for k, name in enumerate(proto.input) if k not in by)
        for body in bodies(subgraphs(proto)):
            names.update(name for inner in body.node for name in inner.input)
            names.update(output if isinstance(output, str) else output.name for output in body.output)
    return names
