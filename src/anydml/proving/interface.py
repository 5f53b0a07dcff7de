"""Comparison of two models' inputs and outputs, and of the names of their dimensions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from onnx import ModelProto, ValueInfoProto

from anydml.errors import ModelError
from anydml.files.location import show
from anydml.onnx.tensor_protos import sizes_text, tensor_type, type_name
from anydml.onnx.walk import main_graphs, nodes
from anydml.proving.names import refuse_unknown_sizes, show_size, size_names, unnamed_size
from anydml.proving.sizes import Size, Sizes, name
from anydml.text import count_noun


def differences(first: ModelProto, second: ModelProto, sizes: Mapping[str, int]) -> Iterator[str]:
    """Yield the differences of two models' inputs and outputs, except those of names of sizes.

    Args:
        first: a model.
        second: the other model.
        sizes: given sizes by name.
    """
    first_inputs, second_inputs = _inputs(first), _inputs(second)
    yield from _names("input", [*first_inputs], [*second_inputs])
    for key in first_inputs.keys() & second_inputs.keys():
        yield from _compare_declared(f"input {show(key)}", first_inputs[key], second_inputs[key], sizes)
    outputs = [{value.name: value for value in model.graph.output} for model in (first, second)]
    yield from _names("output", [*outputs[0]], [*outputs[1]])
    for key in outputs[0].keys() & outputs[1].keys():
        kinds = [outputs[k][key].type.tensor_type.elem_type for k in range(2)]
        if all(kinds) and kinds[0] != kinds[1]:
            yield f"output {show(key)} is {type_name(kinds[0])} in A and {type_name(kinds[1])} in B"


def _inputs(model: ModelProto) -> dict[str, ValueInfoProto]:
    constants = {tensor.name for tensor in model.graph.initializer}
    return {value.name: value for value in model.graph.input if value.name not in constants}


def _names(noun: str, first: list[str], second: list[str]) -> Iterator[str]:
    for model, other_model, names in (
        ("A", "B", [n for n in first if n not in second]),
        ("B", "A", [n for n in second if n not in first]),
    ):
        if names:
            yield f"{model} has {count_noun(len(names), noun)} that {other_model} lacks: {', '.join(map(show, names))}"
    if {*first} == {*second} and first != second:
        yield f"{noun}s are in another order: {', '.join(map(show, first))} in A, {', '.join(map(show, second))} in B"
    elif {*first} != {*second} and len(first) == len(second):
        yield f"{noun}s are compared by name; if they are only called otherwise, rename those of one model"


def _compare_declared(
    label: str, first: ValueInfoProto, second: ValueInfoProto, sizes: Mapping[str, int]
) -> Iterator[str]:
    if {value.type.WhichOneof("value") for value in (first, second)} != {"tensor_type"}:
        if first.type != second.type:
            yield f"{label} is of another type in A than in B"
        return
    (kind, dtype), (other_type_name, other_dtype) = tensor_type(first), tensor_type(second)
    if kind != other_type_name:
        yield f"{label} is {type_name(kind)} in A and {type_name(other_type_name)} in B"
    if dtype is None or other_dtype is None:
        if dtype != other_dtype:
            yield f"{label} has a shape in one model only"
        return
    if len(dtype) != len(other_dtype):
        yield f"{label} has {count_noun(len(dtype), 'dimension')} in A and {len(other_dtype)} in B"
        return
    values = [[sizes.get(n or unnamed_size(first.name, axis), n) if not isinstance(n, int) else n
               for axis, n in enumerate(shape)] for shape in (dtype, other_dtype)]  # fmt: skip
    if any(
        isinstance(a, int) != isinstance(b, int) or (isinstance(a, int) and a != b)
        for a, b in zip(*values, strict=True)
    ):
        yield f"{label} is {sizes_text(values[0])} in A and {sizes_text(values[1])} in B"


def wrong_sizes(first: ModelProto, second: ModelProto, shapes: Mapping[str, Sizes | None]) -> Iterator[str]:
    """Yield the sizes that the second model alone declares for its outputs and that these have not for all inputs.

    Runtimes rely on declared sizes when they plan memory.

    Args:
        first: a model.
        second: another model with the same outputs.
        shapes: shapes of the outputs by name; None for those that are not known.
    """
    known = {value.name: value for value in first.graph.output}
    for value in second.graph.output:
        shape = shapes[value.name]
        if shape is None or value.type.WhichOneof("value") != "tensor_type":
            continue
        declared = tensor_type(value)[1]
        if declared is None or declared == tensor_type(known[value.name])[1]:
            continue
        if len(declared) != len(shape):
            yield f"B declares {count_noun(len(declared), 'dimension')} for {show(value.name)}, which has {len(shape)}"
        for axis, (wrong, size) in enumerate(zip(declared, shape, strict=False)):
            # Runtimes take negative sizes for unknown ones.
            if isinstance(wrong, int) and wrong >= 0 and wrong != size:
                yield f"B declares size {wrong} for axis {axis} of {show(value.name)}, whose size is {size}"


def wrong_sizes_in_bodies(first: ModelProto, second: ModelProto) -> Iterator[str]:
    """Yield the operators in whose bodies the second model alone declares sizes of outputs, which may be wrong."""
    known = {*_sizes_in_bodies(first)}
    for op_type in sorted({op_type for op_type, *sizes in {*_sizes_in_bodies(second)} - known}):
        yield f"B declares sizes of outputs in a body of {op_type}, which A does not: they may be wrong"


def _sizes_in_bodies(model: ModelProto) -> Iterator[tuple[str, str, int, tuple[int | str | None, ...]]]:
    """Yield operators, attributes, outputs and declared sizes of all bodies whose outputs have known sizes."""
    for node in nodes([*main_graphs(model), *model.functions]):
        for attribute in node.attribute:
            for graph in (attribute.g, *attribute.graphs):
                for number, value in enumerate(graph.output):
                    is_tensor = value.type.WhichOneof("value") == "tensor_type"
                    sizes = tensor_type(value)[1] if is_tensor else None
                    if sizes is not None and (not sizes or any(isinstance(size, int) for size in sizes)):
                        yield node.op_type, attribute.name, number, tuple(sizes)


def names_in_both(
    first: ModelProto, second: ModelProto, sizes: Mapping[str, int]
) -> tuple[dict[str, Size], dict[str, Size]]:
    """Return the sizes that the names of both models' dimensions stand for, in names of the first model.

    Args:
        first: a model.
        second: the other model, whose inputs differ in names of sizes at most.
        sizes: given sizes by names of the first model.

    Raises:
        ModelError: two sizes are equal in one model only, or a given name does not exist.
    """
    refuse_unknown_sizes(sizes, first, "A")
    first_sizes: dict[str, Size] = {key: sizes.get(key, name(key)) for key in size_names(first)}
    sizes_in_both: dict[str, Size] = {}
    second_inputs = _inputs(second)
    back: dict[Size, str] = {}
    for key, value in _inputs(first).items():
        if value.type.WhichOneof("value") != "tensor_type":
            continue
        shapes = tensor_type(value)[1] or [], tensor_type(second_inputs[key])[1] or []
        for axis, (a, b) in enumerate(zip(*shapes, strict=True)):
            if isinstance(a, int) or isinstance(b, int):
                continue
            first_name, second_name = a or unnamed_size(key, axis), b or unnamed_size(key, axis)
            if sizes_in_both.setdefault(second_name, first_sizes[first_name]) != first_sizes[first_name]:
                rule = "both models must take inputs of the same sizes; give them with --size"
                raise ModelError(f"{show_size(second_name)} of B is two sizes of A", field=second_name, rule=rule)
            if (
                not isinstance(first_sizes[first_name], int)
                and back.setdefault(first_sizes[first_name], second_name) != second_name
            ):
                rule = "both models must take inputs of the same sizes; give them with --size"
                raise ModelError(f"{show_size(first_name)} of A is two sizes of B", field=first_name, rule=rule)
    return first_sizes, sizes_in_both
