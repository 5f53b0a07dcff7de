"""Rules that several operators share: each method yields the violations of one rule."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import ClassVar

from anydml.operators.desc_text import Printed
from anydml.operators.enums import InterpolationMode
from anydml.operators.problem import Problem, camel
from anydml.operators.scalars import Scalar, scalar_problem
from anydml.operators.types import INDEX_TYPES
from anydml.tensor import UINT_MAX, DataType, TensorDesc
from anydml.text import a, count_noun


class Rules(Printed):
    """Building blocks of `OperatorDesc.constraints`."""

    __slots__ = ()

    OPERATOR: ClassVar[str]
    OUTPUTS: ClassVar[tuple[str, ...]]

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

    def same_kind(self, *fields: str) -> Iterator[Problem]:
        """Check that the tensors in `fields` have the DataType and DimensionCount of the first of them."""
        (first, model), *others = self._named(fields)
        for name, tensor in others:
            if tensor.data_type != model.data_type:
                message = f"{name}.DataType is {tensor.data_type}, but {first}.DataType is {model.data_type}"
                yield self.problem(
                    f"{name}.DataType", message, f"{' and '.join(map(camel, fields))} must have the same DataType"
                )
            yield from self.same_dimensions(first, model, name, tensor)

    def same_dimensions(self, first: str, model: TensorDesc, name: str, tensor: TensorDesc) -> Iterator[Problem]:
        """Check that DimensionCount of `tensor` matches that of `model`, whose name is `first`."""
        if len(tensor.sizes) != len(model.sizes):
            counts = f"{name} has {count_noun(len(tensor.sizes), 'dimension')}, but {first} has {len(model.sizes)}"
            yield self.problem(f"{name}.Sizes", counts, f"{first} and {name} must have the same DimensionCount")

    def sizes_are(self, name: str, tensor: TensorDesc, expected: Sequence[int], rule: str) -> Iterator[Problem]:
        """Check that Sizes of `tensor` are `expected`."""
        if tensor.sizes != tuple(expected):
            message = f"{name}.Sizes is {list(tensor.sizes)}, but must be {list(expected)}"
            yield self.problem(f"{name}.Sizes", message, rule)

    def same_except_axis(self, name: str, tensor: TensorDesc, model: TensorDesc, axis: int) -> Iterator[Problem]:
        """Check that Sizes of `tensor` match those of `model` along all other axes."""
        expected = (*model.sizes[:axis], tensor.sizes[axis], *model.sizes[axis + 1 :])
        yield from self.sizes_are(name, tensor, expected, "sizes must be InputTensor's, except along Axis")

    def index_type(self, name: str, tensor: TensorDesc, types: Sequence[DataType] = INDEX_TYPES) -> Iterator[Problem]:
        """Check that DataType of indices is one of `types`."""
        if tensor.data_type not in types:
            message = f"{name}.DataType is {tensor.data_type}, which is not a type of indices"
            yield self.problem(f"{name}.DataType", message, f"indices must be {', '.join(t.name for t in types)}")

    def scalars_are(self, field: str, data_type: DataType, **values: Scalar) -> Iterator[Problem]:
        """Check that DML_SCALAR_UNIONs have the output's DataType, which `field` must repeat."""
        output = next(self._named(self.OUTPUTS))[1].data_type
        if data_type != output:
            message = f"{field} is {data_type}, but OutputTensor.DataType is {output}"
            yield self.problem(field, message, f"{field} must be OutputTensor.DataType")
            return
        for name, value in values.items():
            if wrong := scalar_problem(value, data_type):
                yield self.problem(name, f"{name} {wrong}", f"{name} must be {a(str(data_type))}")

    def axis_in_range(self, axis: int, dimensions: int, tensor: str = "InputTensor") -> Iterator[Problem]:
        """Check that Axis is one of `dimensions`, counted from 0."""
        if not 0 <= axis < dimensions:
            message = f"Axis is {axis}, but {tensor} has {count_noun(dimensions, 'dimension')}"
            yield self.problem("Axis", message, f"Axis must be 0 to {tensor}.DimensionCount − 1")

    def signed_axis_in_range(self, axis: int, tensor: TensorDesc) -> Iterator[Problem]:
        """Check that Axis is one of the dimensions of `tensor`; negative ones count from the end."""
        rank = len(tensor.sizes)
        if not -rank <= axis < rank:
            yield self.problem("Axis", f"Axis is {axis}, but the rank is {rank}", f"Axis must be {-rank} to {rank - 1}")

    def nearest_only(self, mode: InterpolationMode) -> Iterator[Problem]:
        """Check that InterpolationMode is the one that computes nothing."""
        if mode != InterpolationMode.NEAREST_NEIGHBOR:
            message = f"InterpolationMode is {mode}, but anydml moves data and computes nothing"
            yield self.problem("InterpolationMode", message, "InterpolationMode must be NEAREST_NEIGHBOR")

    def host_vector(self, name: str, tensor: TensorDesc, count: int) -> Iterator[Problem]:
        """Check that a tensor on the host is INT64, with one dimension and one entry per part."""
        if tensor.data_type != DataType.INT64:
            message = f"{name}.DataType is {tensor.data_type}"
            yield self.problem(f"{name}.DataType", message, f"{name} must be INT64")
        if tensor.sizes != (count,):
            message = f"{name}.Sizes is {list(tensor.sizes)} for {count_noun(count, 'part')}"
            yield self.problem(f"{name}.Sizes", message, f"{name} must have one dimension, one entry per part")

    def one_per_dimension(
        self, field: str, values: Sequence[int], count: int, tensor: str = "InputTensor", is_signed: bool = False
    ) -> Iterator[Problem]:
        """Check that a list has one UINT, or one signed integer of any size, per dimension of `tensor`."""
        if len(values) != count:
            message = (
                f"{field} has {count_noun(len(values), 'entry')}, but {tensor} has {count_noun(count, 'dimension')}"
            )
            yield self.problem(field, message, "one entry per dimension (DimensionCount)")
        if is_signed:
            return
        for i, value in enumerate(values):
            if not 0 <= value <= UINT_MAX:
                yield self.problem(f"{field}[{i}]", f"{field}[{i}] is {value}", "it must be 0 to 4294967295 (UINT)")
