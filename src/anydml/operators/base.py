"""The base class of operator descs: their tensors, their checks, and their lowering to a program.

A subclass adds its fields, its support table, its constraints, and two definitions of its result. `apply`, its rule,
makes the moves that engines run. `element`, or `elements` for several outputs, is the formula of its document; tests
compare the moves with it.
"""

from __future__ import annotations

import functools
import inspect
import itertools
import re
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any, ClassVar, TypeAlias, cast

import numpy as np

from anydml.feature_level import FeatureLevel, SupportTable, lowest_level, row_at
from anydml.hooks import HOOKS
from anydml.moves import Constant, Move, Operand, Program
from anydml.moves.move_maker import MoveMaker
from anydml.moves.program import Coordinate, Element, Formula, HostKernel, ReadIndex
from anydml.moves.verbs import views_of
from anydml.operators.desc_text import Problems
from anydml.operators.problem import Problem, camel, dimension_text
from anydml.operators.readers import READERS, Reader
from anydml.operators.shared_rules import Rules
from anydml.operators.types import support_table
from anydml.records import ListOf, Named, record
from anydml.tensor import MAX_BYTES, Layout, TensorDesc, tensor_problems
from anydml.text import count_noun, did_you_mean

__all__ = ["Coordinate", "ListOf", "Named", "OperatorDesc", "Problem", "ReadIndex", "Source", "TensorDesc", "record"]

Source: TypeAlias = tuple[int | bytes, Coordinate]
"""The source of an element: an input's number and a coordinate, or bytes and no coordinate."""

PUBLIC = ("check", "problems", "describe", "inputs", "outputs", "program", "moves")
"""Names that `help` and completion list of a desc beside its fields."""

FUNCTIONS_HINT = "; anydml's functions on arrays are bound by no level"


@functools.cache
def _readers(annotation: Any) -> dict[str, Reader]:
    """Return the converter of each field of a desc class."""
    return {name: READERS[parameter.annotation] for name, parameter in _signature(annotation).parameters.items()}


@functools.cache
def _signature(kind: Any) -> inspect.Signature:
    """Return the signature of a desc class: its fields, in order."""
    import dataclasses

    required = inspect.Parameter.empty
    return inspect.Signature(
        [
            inspect.Parameter(
                field.name,
                inspect.Parameter.POSITIONAL_OR_KEYWORD,
                default=required if field.default is dataclasses.MISSING else field.default,
                annotation=field.type,
            )
            for field in (dataclasses.fields(kind) if dataclasses.is_dataclass(kind) else ())
        ]
    )


def _wrong_fields(signature: inspect.Signature, value_count: int, named: Collection[str]) -> str:
    """Return why values do not fit the fields: an unknown name first, since a misspelt field is also a missing one."""
    fields = [*signature.parameters]
    listed = f"the fields are {', '.join(fields)}"
    for name in named:
        if name not in fields:
            return f"there is no field {name!r}: {listed}{did_you_mean(name, fields)}"
    if value_count > len(fields):
        return f"{value_count} values are given, but {listed}"
    for name in fields[:value_count]:
        if name in named:
            return f"{name} is given twice, by position and by name"
    required = [name for name in fields[value_count:] if signature.parameters[name].default is inspect.Parameter.empty]
    return f"no value is given for {' and '.join(name for name in required if name not in named)}: {listed}"


class _FieldSignature:
    """Descriptor that computes the signature of each subclass when `inspect.signature` reads it."""

    def __get__(self, instance: Any, owner: Any) -> inspect.Signature:
        return _signature(owner)


class _DescType(type):
    """The type of desc classes: `help` and completion list what callers use first, and no methods of engines."""

    def __dir__(cls) -> list[str]:
        return [*_signature(cls).parameters, *PUBLIC]


class OperatorDesc(Rules, metaclass=_DescType):
    """Base class of the operator descs: frozen dataclasses with DirectML's fields in snake case.

    Class attributes:
        OPERATOR: the operator's name in errors; from the class by default, such as DML_SLICE1 of Slice1OperatorDesc.
        LEVELS: the document's table, newest level first; empty if no feature level restricts the operator. A row has a
            level, the least and greatest number of dimensions, and data types; those of `SELECTING`, if others, last.
        SELECTING: the tensor that has data types of its own there.
        SUPPORT: the same by tensor; from LEVELS by default.
        INPUTS, OUTPUTS: names of the tensor fields, in binding order; by default, those that begin with ``output`` are
            outputs.
        SAME: names of the tensor fields that have the DataType and DimensionCount of the first of them; by default, all
            but `SELECTING`.
        HOST: names of the tensors that are in host memory on every device.
        TYPES: the operator's names in model files; ``DML_OPERATOR_<name>`` by default.
        UNSUPPORTED_HINT: alternative to suggest if no level supports a tensor.

    Examples:
        >>> T = dml.TensorDesc
        >>> desc = dml.SplitOperatorDesc(T("FLOAT32", [6]), [T("FLOAT32", [4]), T("FLOAT32", [2])], axis=0)
        >>> isinstance(desc, dml.OperatorDesc), desc.problems()
        (True, no problems)
        >>> [name for name, _ in desc.outputs]
        ['OutputTensors[0]', 'OutputTensors[1]']
    """

    __slots__ = ()
    __signature__ = _FieldSignature()

    SUPPORT: ClassVar[SupportTable] = ()
    HOST: ClassVar[tuple[str, ...]] = ()
    TYPES: ClassVar[tuple[str, ...]]
    UNSUPPORTED_HINT: ClassVar[str] = ""

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if "INPUTS" not in vars(cls):
            named = (name for base in reversed(cls.__mro__) for name in vars(base).get("__annotations__", ()))
            tensors = [*dict.fromkeys(name for name in named if name.endswith(("tensor", "tensors")))]
            cls.INPUTS = tuple(name for name in tensors if not name.startswith("output"))
            cls.OUTPUTS = tuple(name for name in tensors if name.startswith("output"))
        name = cls.__name__.removesuffix("OperatorDesc")
        if "OPERATOR" not in vars(cls) and name != cls.__name__:
            cls.OPERATOR = f"DML{re.sub('(?=[A-Z]|[0-9][a-z])', '_', name).upper()}"
        if "TYPES" not in vars(cls) and hasattr(cls, "OPERATOR"):
            cls.TYPES = (f"DML_OPERATOR_{cls.OPERATOR.removeprefix('DML_')}",)
        if "SAME" not in vars(cls):
            cls.SAME = tuple(name for name in (*cls.INPUTS, *cls.OUTPUTS) if camel(name) != cls.SELECTING)
        # A dataclass with slots is created twice: the second class has the table already.
        if "LEVELS" in vars(cls) and "SUPPORT" not in vars(cls):
            cls.SUPPORT = support_table(cls.LEVELS, [*map(camel, (*cls.INPUTS, *cls.OUTPUTS))], cls.SELECTING)

    @property
    def inputs(self) -> tuple[tuple[str, TensorDesc], ...]:
        """Field names and tensors of the inputs in binding order; arrays of tensors have one entry per tensor."""
        return tuple(self._named(self.INPUTS))

    @property
    def outputs(self) -> tuple[tuple[str, TensorDesc], ...]:
        """Field names and tensors of the outputs in binding order; arrays of tensors have one entry per tensor."""
        return tuple(self._named(self.OUTPUTS))

    @property
    def tensor_count(self) -> int:
        """Number of inputs and outputs."""
        return len(self.inputs) + len(self.outputs)

    @property
    def host_kernel(self) -> HostKernel | None:
        """A faster equivalent of the moves on host memory, if there is one."""
        return None

    @property
    def scratch(self) -> tuple[tuple[int, str], ...]:
        """Scratch operands, which follow the constants: bytes, and why they are needed."""
        return ()

    def __init__(self, *values: Any, **named: Any) -> None:
        # Converters raise DescTypeError for a value that does not have the annotated type.
        signature = _signature(cast(Any, type(self)))
        try:
            bound = signature.bind(*values, **named)
        except TypeError:
            raise TypeError(f"{type(self).__name__}: {_wrong_fields(signature, len(values), named)}") from None
        bound.apply_defaults()
        readers = _readers(cast(Any, type(self)))
        for field, value in bound.arguments.items():
            object.__setattr__(self, field, readers[field](self.OPERATOR, camel(field), value))

    def __dir__(self) -> list[str]:
        return dir(type(self))

    def constraints(self) -> Iterator[Problem]:
        """Yield violations of the operator's own rules. Only called if DimensionCounts and Axis are valid."""
        raise NotImplementedError

    def moves(self, layouts: Sequence[Layout] | None = None) -> tuple[Move, ...]:
        """Lower the operator to moves between its operands: inputs, outputs, constants, then scratch.

        Args:
            layouts: actual layouts of inputs and outputs; the desc's by default.
        """
        return self.lower(layouts)[0]

    def apply(self, maker: Any, *inputs: Any) -> None:
        """Make the outputs by the operator's rule.

        Args:
            maker: the maker of the results (see `anydml.moves.verbs`).
            inputs: views of the inputs.
        """
        raise NotImplementedError

    def lower(self, layouts: Sequence[Layout] | None = None) -> tuple[tuple[Move, ...], tuple[Constant, ...]]:
        """Return `moves`, and the constants that they read."""
        bound, first = layouts or self.layouts(), len(self.inputs)
        maker = MoveMaker(first, bound[first:])
        self.apply(maker, *views_of(bound[:first], [tensor.data_type.name.lower() for _, tensor in self.inputs]))
        maker.finish()
        return tuple(maker.moves), tuple(maker.constants)

    def elements(self, read: ReadIndex) -> Iterator[Element]:
        """Yield the source of every output element, by the document's formula."""
        output, sizes = len(self.inputs), self.outputs[0][1].sizes if self.outputs else ()
        for at in itertools.product(*map(range, sizes)):
            yield output, at, *self.element(at, read)

    def element(self, at: Coordinate, read: ReadIndex) -> Source:
        """Return the source of an element of the only output, by the document's formula."""
        raise NotImplementedError

    def program(self, layouts: Sequence[Layout] | None = None) -> Program:
        """Lower the operator to a program: its tensors, its constants and scratch, and its moves between them.

        Args:
            layouts: as for `moves`.

        Raises:
            DescError: a tensor of an unchecked desc spans 2⁶³ bytes or more.
        """
        inputs, outputs = self.inputs, self.outputs
        named = (*inputs, *outputs)
        bound = tuple(layouts or [tensor.layout for _, tensor in named])
        for name, tensor in named:
            if tensor.span_in_bytes > MAX_BYTES:
                message = f"{name} spans {tensor.span_in_bytes} bytes"
                raise Problem(self.OPERATOR, name, message, "a tensor must span fewer than 2^63 bytes").error()
        operands = [Operand("input", name, is_on_host=name in self.HOST) for name, _ in inputs]
        operands += [Operand("output", name, is_on_host=name in self.HOST) for name, _ in outputs]
        moves, constants = self.lower(bound)
        operands += [Operand("constant", f"constant {k}", value=value) for k, value in enumerate(constants)]
        operands += [Operand("scratch", f"scratch {k}", n, reason=why) for k, (n, why) in enumerate(self.scratch)]
        tensors = [
            (layout.sizes, layout.strides, tensor.data_type.dtype)
            for layout, (_, tensor) in zip(bound, named, strict=True)
        ]
        tensors += [(value.shape, value.strides, value.dtype) for value in constants]
        formula = Formula(self.elements, tuple(tensors))
        return Program(self.OPERATOR, tuple(operands), moves, formula, self.host_kernel)

    def host_problem(self, values: Callable[[int], np.ndarray[Any, Any]]) -> str | None:
        """Return a description of what is wrong with the values of host inputs, or None.

        Args:
            values: returns the values of an input by its number.
        """
        return None

    def constant_output(self, output: int) -> np.ndarray[Any, Any] | None:
        """Return the contents of an output that does not depend on the inputs, else None.

        Args:
            output: number of the output.
        """
        return None

    def layouts(self) -> tuple[Layout, ...]:
        """Return the layouts that the desc gives inputs and outputs."""
        return tuple(tensor.layout for _, tensor in (*self.inputs, *self.outputs))

    def problems(self, feature_level: FeatureLevel | str = FeatureLevel.LATEST) -> Problems[Problem]:
        """List the rules that this desc breaks at a feature level.

        Returns:
            The tensors' own problems; if there are none, the operator's; then unsupported types and dimensions. The
            sequence is lazy; a REPL shows one problem per line.

        Raises:
            ValueError: there is no such level.
        """
        level = FeatureLevel.parse(feature_level)
        return Problems(lambda: self._problems(level))

    def _problems(self, level: FeatureLevel) -> Iterator[Problem]:
        broken = False
        for is_output, tensors in ((False, self.inputs), (True, self.outputs)):
            for name, tensor in tensors:
                for field, values, rule in tensor_problems(tensor, is_output):
                    broken = True
                    yield self.problem(f"{name}.{field}", f"{name}.{field} {values}", rule)
        if empty := [fields for fields in (self.INPUTS, self.OUTPUTS) if {getattr(self, f) for f in fields} == {()}]:
            fields = empty[0]
            names = " and ".join(map(camel, fields))
            yield self.problem(names, f"{names} has no tensors", "there must be at least one")
        elif not broken:
            kinds = [*self.kind_problems()]
            yield from kinds
            if all(problem.field.endswith(".DataType") for problem in kinds):
                yield from self.constraints()
        yield from self._support_problems(level)

    def _repr_html_(self) -> str | None:
        return None if self.problems() else HOOKS["explain"](self, device="")._repr_html_()

    def check(self, feature_level: FeatureLevel | str = FeatureLevel.LATEST) -> None:
        """Raise the first problem, if any.

        Raises:
            DescError: a rule is broken; the message names operator, field, values and rule.
        """
        for problem in self.problems(feature_level):
            raise problem.error()

    def _support_problems(self, level: FeatureLevel) -> Iterator[Problem]:
        table = self.SUPPORT
        if not table:
            return
        row = row_at(table, level)
        if row is None:
            first = table[-1].level
            rule = f"this operator was introduced in {first}"
            yield Problem(
                self.OPERATOR, "Type", f"there is no such operator at {level}", rule, first, comes_from_level=True
            )
            return
        for name, tensor in (*self.inputs, *self.outputs):
            field = name.partition("[")[0]
            support = row.tensors[field]
            dimensions = len(tensor.sizes)
            low, high = support.min_dimensions, support.max_dimensions
            broken = []
            if not low <= dimensions <= high:
                have = f"{name} has {count_noun(dimensions, 'dimension')}"
                broken.append(("Sizes", have, dimension_text(low, high), " dimensions"))
            if tensor.data_type not in support.data_types:
                types = ", ".join(t.name for t in support.data_types)
                broken.append(("DataType", f"{name}.DataType is {tensor.data_type}", types, ""))
            for property_name, have, supported, noun in broken:
                needs = lowest_level(table, field, dimensions, tensor.data_type)
                hint = "" if needs else f" and no level supports it{self.UNSUPPORTED_HINT or FUNCTIONS_HINT}"
                message, rule = f"{have}, but {level} supports {supported}{hint}", f"{supported}{noun} at {level}"
                yield Problem(self.OPERATOR, f"{name}.{property_name}", message, rule, needs, comes_from_level=True)
