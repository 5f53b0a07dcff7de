"""Rules that several operators share: each method yields the violations of one rule."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import ClassVar

from anydml.operators.desc_text import Printed
from anydml.operators.enums import InterpolationMode
from anydml.operators.problem import Problem, camel
from anydml.operators.scalars import Scalar, scalar_problem
from anydml.operators.types import INDEX_TYPES, Levels
from anydml.tensor import UINT_MAX, DataType, TensorDesc
from anydml.text import a, count_noun


class Rules(Printed):
    """Building blocks of `OperatorDesc.constraints`."""

    __slots__ = ()

    LEVELS: ClassVar[Levels] = ()
    SELECTING: ClassVar[str] = "IndicesTensor"
    SAME: ClassVar[tuple[str, ...]]

    def problem(self, field: str, message: str, rule: str) -> Problem:
        """Return a broken rule of this operator."""
        return Problem(self.OPERATOR, field, message, rule)

    def _named(self, fields: Sequence[str]) -> Iterator[tuple[str, TensorDesc]]:
        for field in fields:
            value = getattr(self, field)
            if isinstance(value, TensorDesc):
                yield camel(field), value
            elif value is not None:
                for i, tensor in enumerate(value):
                    yield f"{camel(field)}[{i}]", tensor

    def kind_problems(self) -> Iterator[Problem]:
        """Check DataTypes, DimensionCounts, and Axis, if there is one: the first tensor of `SAME` is the model."""
        (first, model), *other_tensors = self._named(self.SAME)
        selecting = [(name, tensor) for name, tensor in self._named(self.INPUTS) if name == self.SELECTING]
        for name, tensor in (*other_tensors, *selecting):
            if name != self.SELECTING and tensor.data_type != model.data_type:
                message = f"{name}.DataType is {tensor.data_type}, but {first}.DataType is {model.data_type}"
                rule = f"{' and '.join(map(camel, self.SAME))} must have the same DataType"
                yield self.problem(f"{name}.DataType", message, rule)
            if len(tensor.sizes) != len(model.sizes):
                message = f"{name} has {count_noun(len(tensor.sizes), 'dimension')}, but {first} has {len(model.sizes)}"
                yield self.problem(f"{name}.Sizes", message, f"{first} and {name} must have the same DimensionCount")
        yield from self.axis_problems(first, len(model.sizes))
        for name, tensor in selecting:
            yield from self.type_is(name, tensor, self.LEVELS[0][-1] if self.LEVELS else INDEX_TYPES)

    def axis_problems(self, tensor: str, dimensions: int) -> Iterator[Problem]:
        """Check that Axis, if there is one, is one of `dimensions`, counted from 0."""
        axis = getattr(self, "axis", 0)
        if not 0 <= axis < dimensions:
            message = f"Axis is {axis}, but {tensor} has {count_noun(dimensions, 'dimension')}"
            yield self.problem("Axis", message, f"Axis must be 0 to {tensor}.DimensionCount − 1")

    def type_is(self, name: str, tensor: TensorDesc, types: Sequence[DataType]) -> Iterator[Problem]:
        """Check that DataType of `tensor` is one of `types`."""
        if tensor.data_type not in types:
            rule = f"{name} must be {' or '.join(t.name for t in types)}"
            yield self.problem(f"{name}.DataType", f"{name}.DataType is {tensor.data_type}", rule)

    def sizes_are(self, field: str, expected: Sequence[int], rule: str) -> Iterator[Problem]:
        """Check that Sizes of a tensor are `expected`."""
        name, sizes = camel(field), getattr(self, field).sizes
        if sizes != tuple(expected):
            message = f"{name}.Sizes is {list(sizes)}, but must be {list(expected)}"
            yield self.problem(f"{name}.Sizes", message, rule)

    def have_equal_sizes(self, model: str, *fields: str) -> Iterator[Problem]:
        """Check that Sizes of tensors are those of a model."""
        for field in fields:
            yield from self.sizes_are(field, getattr(self, model).sizes, f"sizes must be {camel(model)}'s")

    def indices_match(self, indices: TensorDesc, model: TensorDesc, axis: int) -> Iterator[Problem]:
        """Check that Sizes of indices match those of the input along all other axes."""
        expected = (*model.sizes[:axis], indices.sizes[axis], *model.sizes[axis + 1 :])
        yield from self.sizes_are("indices_tensor", expected, "sizes must be InputTensor's, except along Axis")

    def scalars_are(self, type_field: str, **values: Scalar) -> Iterator[Problem]:
        """Check that DML_SCALAR_UNIONs, by field, have the output's DataType, which `type_field` must repeat."""
        data_type, output = getattr(self, type_field), next(self._named(self.OUTPUTS))[1].data_type
        if data_type != output:
            message = f"{camel(type_field)} is {data_type}, but OutputTensor.DataType is {output}"
            yield self.problem(camel(type_field), message, f"{camel(type_field)} must be OutputTensor.DataType")
            return
        for name, value in values.items():
            if wrong := scalar_problem(value, data_type):
                yield self.problem(camel(name), f"{camel(name)} {wrong}", f"{camel(name)} must be {a(str(data_type))}")

    def nearest_only(self, mode: InterpolationMode) -> Iterator[Problem]:
        """Check that InterpolationMode is the one that computes nothing."""
        if mode != InterpolationMode.NEAREST_NEIGHBOR:
            message = f"InterpolationMode is {mode}, but anydml moves data and computes nothing"
            yield self.problem("InterpolationMode", message, "InterpolationMode must be NEAREST_NEIGHBOR")

    def one_per_dimension(
        self, *fields: str, tensor: str = "input_tensor", are_signed: bool = False
    ) -> Iterator[Problem]:
        """Check that lists have one UINT, or one signed integer of any size, per dimension of `tensor`."""
        dimensions = len(getattr(self, tensor).sizes)
        for field in fields:
            count = len(getattr(self, field))
            if count != dimensions:
                have = f"{camel(tensor)} has {count_noun(dimensions, 'dimension')}"
                message = f"{camel(field)} has {count_noun(count, 'entry')}, but {have}"
                yield self.problem(camel(field), message, "one entry per dimension (DimensionCount)")
            if not are_signed:
                yield from self.are_uints(field)

    def are_uints(self, field: str) -> Iterator[Problem]:
        """Check that a list has UINTs."""
        for i, value in enumerate(getattr(self, field)):
            if not 0 <= value <= UINT_MAX:
                name = f"{camel(field)}[{i}]"
                yield self.problem(name, f"{name} is {value}", "it must be 0 to 4294967295 (UINT)")
