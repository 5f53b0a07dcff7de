"""What every operator desc has in common: its tensors, its checks in order, and its moves.

An operator's own file adds four things: its fields, its support table, its constraints, and its two readings: `moves`
(what is run) and `elements` (the formula of its document, element by element, that judges the first).
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any, ClassVar, cast

import numpy as np

from anydml.feature_level import FeatureLevel, SupportTable, lowest_level, row_at
from anydml.moves import Constant, Move, Operand, Program
from anydml.moves.program import AtOnce, Element, Formula, ReadIndex
from anydml.operators.problem import Problem, camel, dimension_text
from anydml.operators.readers import READERS
from anydml.operators.rules import Rules
from anydml.operators.texts import Problems
from anydml.tensor import MAX_BYTES, Layout, TensorDesc, tensor_problems
from anydml.text import counted

FUNCTIONS_HINT = "; anydml's functions on arrays are bound by no level"


@functools.cache
def _readers(kind: Any) -> dict[str, Callable[[str, str, Any], Any]]:
    """What reads each field of a kind of desc."""
    return {field.name: READERS[field.type] for field in dataclasses.fields(kind)}


class OperatorDesc(Rules):
    """Base of the operator descs: frozen dataclasses with DirectML's fields in snake case.

    Class attributes:
        OPERATOR: the name that errors carry.
        SUPPORT: rows of the document's table, newest first; empty where no feature level binds the operator.
        INPUTS, OUTPUTS: the tensor fields, in binding order.
        HOST: the tensors that lie in host memory on every device.
        TYPES: its names in model files; ``DML_OPERATOR_<name>`` by default.
        UNSUPPORTED_HINT: what to do instead of what no level supports.

    Examples:
        >>> T = dml.TensorDesc
        >>> desc = dml.SplitOperatorDesc(T("FLOAT32", [6]), [T("FLOAT32", [4]), T("FLOAT32", [2])], axis=0)
        >>> isinstance(desc, dml.OperatorDesc), desc.problems()
        (True, no problems)
        >>> [name for name, _ in desc.outputs]
        ['OutputTensors[0]', 'OutputTensors[1]']
    """

    __slots__ = ()

    OPERATOR: ClassVar[str]
    SUPPORT: ClassVar[SupportTable] = ()
    INPUTS: ClassVar[tuple[str, ...]]
    OUTPUTS: ClassVar[tuple[str, ...]]
    HOST: ClassVar[tuple[str, ...]] = ()
    TYPES: ClassVar[tuple[str, ...]] = ()
    UNSUPPORTED_HINT: ClassVar[str] = ""

    @classmethod
    def types(cls) -> tuple[str, ...]:
        """Its names in model files."""
        return cls.TYPES or (f"DML_OPERATOR_{cls.OPERATOR.removeprefix('DML_')}",)

    @property
    def inputs(self) -> tuple[tuple[str, TensorDesc], ...]:
        """Field names and tensors of the inputs in binding order; arrays give one entry an element."""
        return tuple(self._named(self.INPUTS))

    @property
    def outputs(self) -> tuple[tuple[str, TensorDesc], ...]:
        """Field names and tensors of the outputs in binding order; arrays give one entry an element."""
        return tuple(self._named(self.OUTPUTS))

    @property
    def tensor_count(self) -> int:
        """Number of inputs and outputs."""
        values = [getattr(self, field) for field in (*self.INPUTS, *self.OUTPUTS)]
        return sum(len(value) if isinstance(value, tuple) else value is not None for value in values)

    @property
    def constants(self) -> tuple[Constant, ...]:
        """Operands that follow inputs and outputs, known from the desc alone."""
        return ()

    @property
    def at_once(self) -> AtOnce | None:
        """What does all of it on host memory in less time than the moves, if anything does."""
        return None

    @property
    def scratch(self) -> tuple[tuple[int, str], ...]:
        """Operands that follow the constants: bytes of memory that the moves write and read, and why."""
        return ()

    def _put(self, **fields: Any) -> None:
        """Set the fields of a new desc, each in the type that its annotation says.

        Raises:
            DescTypeError: one is not of that type.
        """
        readers = _readers(cast(Any, type(self)))
        for field, value in fields.items():
            read = readers[field]
            object.__setattr__(self, field, read(self.OPERATOR, camel(field), value))

    def constraints(self) -> Iterator[Problem]:
        """The operator's own rules; asked only when every tensor is sound by itself."""
        raise AssertionError("each operator has its own")

    def moves(self, layouts: Sequence[Layout] | None = None) -> tuple[Move, ...]:
        """The operator as moves between its operands: inputs, outputs, constants, then scratch.

        Args:
            layouts: where the operands' elements really lie, one a tensor; by default as the desc says.
        """
        raise AssertionError("each operator has its own")

    def elements(self, read: ReadIndex) -> Iterator[Element]:
        """The document's formula, one element after the other."""
        raise AssertionError("each operator has its own")

    def program(self, layouts: Sequence[Layout] | None = None) -> Program:
        """The operator as a program: its tensors, its constants and scratch, and its moves between them.

        Args:
            layouts: as for `moves`.

        Raises:
            DescError: a tensor has more bytes than addresses have, in a desc that nobody has checked.
        """
        every = tuple(layouts or self.layouts())
        named = (*self.inputs, *self.outputs)
        for name, tensor in named:
            if tensor.span_in_bytes > MAX_BYTES:
                message = f"{name} spans {tensor.span_in_bytes} bytes"
                raise Problem(self.OPERATOR, name, message, "a tensor must span fewer than 2^63 bytes").error()
        operands = [Operand("input", name, is_on_host=name in self.HOST) for name, _ in self.inputs]
        operands += [Operand("output", name, is_on_host=name in self.HOST) for name, _ in self.outputs]
        constants = self.constants
        operands += [Operand("constant", f"constant {k}", value=value) for k, value in enumerate(constants)]
        operands += [Operand("scratch", f"scratch {k}", n, reason=why) for k, (n, why) in enumerate(self.scratch)]
        tensors = [
            (layout.sizes, layout.strides, tensor.data_type.dtype)
            for layout, (_, tensor) in zip(every, named, strict=True)
        ]
        tensors += [(value.shape, value.strides, value.dtype) for value in constants]
        formula = Formula(self.elements, tuple(tensors))
        return Program(self.OPERATOR, tuple(operands), self.moves(every), formula, self.at_once)

    def host_problem(self, values: Callable[[int], np.ndarray[Any, Any]]) -> str | None:
        """What is wrong with the values of inputs that are read on the host at bind, or None.

        Args:
            values: gives the values of an input by its number.
        """
        return None

    def known_output(self, output: int) -> np.ndarray[Any, Any] | None:
        """What an output holds, whatever the inputs hold; None where that is not known.

        Args:
            output: its number.
        """
        return None

    def layouts(self) -> tuple[Layout, ...]:
        """The layout of every input and output, as the desc says."""
        return tuple(tensor.layout for _, tensor in (*self.inputs, *self.outputs))

    def problems(self, feature_level: FeatureLevel | str = FeatureLevel.LATEST) -> Problems[Problem]:
        """Every rule that this desc breaks at a feature level.

        Returns:
            The tensors' own problems; if there are none, the operator's; then what the level does not support. They
            are looked for when they are asked for; a REPL shows them one a line.

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
            yield from self.constraints()
        yield from self._support_problems(level)

    def check(self, feature_level: FeatureLevel | str = FeatureLevel.LATEST) -> None:
        """Raise the first problem, if there is one.

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
            yield Problem(self.OPERATOR, "Type", f"there is no such operator at {level}", rule, first, is_of_level=True)
            return
        for name, tensor in (*self.inputs, *self.outputs):
            kind = name.partition("[")[0]
            support = row.tensors[kind]
            dimensions = len(tensor.sizes)
            low, high = support.min_dimensions, support.max_dimensions
            if low <= dimensions <= high and tensor.data_type in support.data_types:
                continue
            needs = lowest_level(table, kind, dimensions, tensor.data_type)
            hint = "" if needs else f" and no level supports it{self.UNSUPPORTED_HINT or FUNCTIONS_HINT}"
            if not low <= dimensions <= high:
                supported = dimension_text(low, high)
                rule = f"{supported} dimensions at {level}"
                message = f"{name} has {counted(dimensions, 'dimension')}, but {level} supports {supported}{hint}"
                yield Problem(self.OPERATOR, f"{name}.Sizes", message, rule, needs, is_of_level=True)
            if tensor.data_type not in support.data_types:
                types = ", ".join(t.name for t in support.data_types)
                message = f"{name}.DataType is {tensor.data_type}, but {level} supports {types}{hint}"
                rule = f"{types} at {level}"
                yield Problem(self.OPERATOR, f"{name}.DataType", message, rule, needs, is_of_level=True)
