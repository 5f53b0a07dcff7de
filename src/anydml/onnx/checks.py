"""Wrappers of onnx's checker and inliner, which bound their input because the C++ code is unsafe on invalid models."""

from __future__ import annotations

import os
import reprlib
from collections.abc import Iterator, Set
from graphlib import TopologicalSorter

import onnx.checker
import onnx.defs
import onnx.inliner
from google.protobuf.message import EncodeError
from onnx import AttributeProto, FunctionProto, ModelProto, NodeProto, TensorProto, ValueInfoProto

from anydml.errors import ModelError
from anydml.files.location import show
from anydml.onnx.budget import Budget
from anydml.onnx.external import external_tensors
from anydml.onnx.walk import Body, Name, function_name, main_graphs, names, nodes, plain_domain, tensors
from anydml.text import escape_controls

MAX_BYTES = 2**31 - 1
"""The largest message that protobuf serializes."""

MAX_NODES = 100_000
"""Largest number of nodes after inlining: nested calls of few functions can expand to any number."""

MAX_IMPORTS = 1000
"""Largest number of opset imports: onnx's checker scans all of them for each function."""

NODE_BYTES = 2048
"""Memory in bytes of a node with few inputs, in all representations that reading and checking create."""

NAME_GROWTH_BYTES = 64
"""Bytes by which inlining a function may lengthen a name to make it unique."""


def check_is_model(name: str, model: object) -> None:
    """Check that a function got a model, and not a path or anything else.

    Raises:
        TypeError: `model` is not a ModelProto.
    """
    if isinstance(model, ModelProto):
        return
    shown = " ".join(reprlib.repr(model).split())
    is_path = isinstance(model, str | os.PathLike)
    advice = f"anydml.onnx.load({str(model)[:80]!r}) reads one" if is_path else "anydml.onnx.load reads one"
    raise TypeError(f"{name} takes a ModelProto, not {shown}: {advice}")


def check(model: ModelProto) -> None:
    """Check a model with onnx's checker, without its external data.

    Unlike the checker, allow inputs and outputs without a shape and outputs without a type, as onnx's evaluator does.

    Raises:
        ModelError: onnx's checker refuses the model, the installed onnx does not know its opset, or there is not enough
            memory to check it.
    """
    _check_opsets(model)
    size = _byte_size(model)
    if size > MAX_BYTES:
        # The checker needs a serialized model, but a model this large, with its external data, cannot be serialized.
        return
    if len(model.opset_import) > MAX_IMPORTS:
        message = f"the model imports {len(model.opset_import)} opsets, but anydml reads at most {MAX_IMPORTS}"
        raise ModelError(message, field="opset_import", rule="an import for each domain that is used")
    Budget().ask("the model", "checking it", 2 * size + NODE_BYTES * len(model.graph.node))
    try:
        onnx.checker.check_model(_replace_unchecked(model))
    except Exception as error:
        raise ModelError(f"the model breaks a rule of ONNX: {reason(error)}") from None


def _check_opsets(model: ModelProto) -> None:
    """Refuse opsets of ONNX that the installed onnx does not know, whose operators may have another meaning."""
    newest = onnx.defs.onnx_opset_version()
    for opset in (opset for importer in (model, *model.functions) for opset in importer.opset_import):
        if not plain_domain(opset.domain) and opset.version > newest:
            rule = f"the installed onnx {onnx.__version__} knows opsets up to {newest}: install a newer one"
            message = f"the model imports opset {opset.version} of ONNX, but {rule}"
            raise ModelError(message, field="opset_import", rule="the installed onnx must know the opset")


def serialize(model: ModelProto) -> bytes:
    """Serialize a model.

    Raises:
        ModelError: the model has 2 GiB or more, or there is not enough memory.
    """
    try:
        return bytes(model.SerializeToString())
    except EncodeError:
        message = "the model cannot be serialized: it has 2 GiB or more, or there is not enough memory"
        raise ModelError(message, rule="protobuf writes less than 2 GiB") from None


def inline_functions(model: ModelProto) -> ModelProto:
    """Inline all functions of a checked model.

    Raises:
        ModelError: a function returns an input, which onnx does not inline and ONNX Runtime refuses; it imports another
            version of a domain than the model, in which an operator means something else; onnx cannot inline it for
            another reason; the default of an attribute depends on a call; or the result would have too many nodes or
            bytes.
    """
    if not model.functions:
        return model
    for function in model.functions:
        for name in function.output:
            if name in function.input:
                message = f"function {show(function.name)} returns its input {show(name)}: return an Identity of it"
                raise ModelError(message, field=name, rule="outputs of functions must be made by nodes")
    functions = {function_name(function) for function in model.functions}
    model = _with_default_attributes(model)
    try:
        _check_inlined_size(model)
        inlined = onnx.inliner.inline_local_functions(_with_one_opset(model, functions))
    except ModelError:
        raise
    except Exception as error:
        raise ModelError(f"the model's functions cannot be inlined: {reason(error)}") from None
    for node in nodes([inlined.graph]):
        if function_name(node) in functions:
            raise ModelError(f"function {show(node.op_type)} cannot be inlined", field=node.op_type)
    return inlined


def _with_default_attributes(model: ModelProto) -> ModelProto:
    """Return a model whose calls of functions give all attributes that have defaults, which onnx's inliner ignores."""
    defaults = {function_name(function): function.attribute_proto for function in model.functions}
    if not any(defaults.values()):
        return model
    incomplete = _attributes_left_out(model)
    for function in model.functions:
        declared = {attribute.name for attribute in function.attribute_proto}
        for node in nodes([function]):
            replaced = {attribute.name for attribute in defaults.get(function_name(node), ())}
            for attribute in node.attribute:
                passed = attribute.ref_attr_name
                is_incomplete = (function_name(function), passed) in incomplete and passed not in declared
                if attribute.name in replaced and passed and is_incomplete:
                    message = f"function {show(function.name)} passes its attribute {show(attribute.ref_attr_name)} on"
                    rule = f"it must have a default, since {show(attribute.name)} of {show(node.op_type)} has one"
                    raise ModelError(message, field=attribute.ref_attr_name, rule=rule)
    calls = [node for node in nodes([*main_graphs(model), *model.functions]) if function_name(node) in defaults]
    added = sum(_bytes(attribute) for call in calls for attribute in defaults[function_name(call)])
    Budget().ask("the model's functions", "giving the defaults of their attributes", 2 * added + model.ByteSize())
    copy = ModelProto()
    copy.CopyFrom(model)
    for node in nodes([*main_graphs(copy), *copy.functions]):
        present = {attribute.name for attribute in node.attribute}
        missing = (default for default in defaults.get(function_name(node), ()) if default.name not in present)
        node.attribute.extend(missing)
    return copy


def _attributes_left_out(model: ModelProto) -> set[tuple[Name, str]]:
    """Return functions and those of their attributes that a call leaves out, or may leave out."""
    left_out = set[tuple[Name, str]]()
    declared = {function_name(function): [*function.attribute] for function in model.functions}
    for caller in (*main_graphs(model), *model.functions):
        known = {item.name for item in caller.attribute_proto} if isinstance(caller, FunctionProto) else set()
        for node in nodes([caller]):
            if (called := function_name(node)) in declared:
                given = {item.name for item in node.attribute if not item.ref_attr_name or item.ref_attr_name in known}
                left_out |= {(called, name) for name in declared[called] if name not in given}
    return left_out


def _with_one_opset(model: ModelProto, functions: Set[Name]) -> ModelProto:
    """Return a model whose functions import the model's opsets, because onnx inlines no other functions."""
    versions: dict[str, int] = {}
    for opset in (opset for importer in (model, *model.functions) for opset in importer.opset_import):
        versions.setdefault(plain_domain(opset.domain), opset.version)
    copy: ModelProto | None = None
    for function_number, function in enumerate(model.functions):
        imports = {plain_domain(opset.domain): opset.version for opset in function.opset_import}
        if all(versions[domain] == version for domain, version in imports.items()):
            continue
        for node in nodes([function]):
            domain = plain_domain(node.domain)
            version = imports.get(domain, versions.get(domain, 0))
            if function_name(node) not in functions and not _means_the_same(node, version, versions.get(domain, 0)):
                message = f"function {show(function.name)} imports version {version} of {show(domain or 'ai.onnx')}"
                rule = f"{node.op_type} must mean the same in version {versions[domain]}, which the model imports"
                raise ModelError(message, field=function.name, rule=rule)
        if copy is None:
            copy = ModelProto()
            copy.CopyFrom(model)
        for opset in copy.functions[function_number].opset_import:
            opset.version = versions[plain_domain(opset.domain)]
    return model if copy is None else copy


def _means_the_same(node: NodeProto, version: int, other: int) -> bool:
    """Whether two versions of a domain define a node's operator in the same way."""
    if version == other:
        return True
    domain = plain_domain(node.domain)
    try:
        since, since_other = (
            onnx.defs.get_schema(node.op_type, opset_version, domain).since_version
            for opset_version in (version, other)
        )
    except onnx.defs.SchemaError:
        return False
    return bool(since == since_other)


def _check_inlined_size(model: ModelProto) -> None:
    """Bound the number of nodes and bytes after inlining, and check them against the limits.

    Inlining replaces names and attribute references in a body; each is assumed to become as long as the longest name or
    attribute of the model.
    """
    longest = NAME_GROWTH_BYTES + max(map(_bytes, names(model)), default=0)
    largest = max(map(_bytes, _passed_attributes(model)), default=0)
    functions = {function_name(function): function for function in model.functions}
    calls = {
        name: {function_name(node) for node in nodes([function])} & functions.keys()
        for name, function in functions.items()
    }
    sizes: dict[Name, tuple[int, int]] = {}

    def size(top: Body) -> tuple[int, int]:
        """Return the numbers of nodes and bytes, saturated just above the limits."""
        count = total = 0
        for node in nodes([top]):
            node_bytes = node.ByteSize() + (len(node.input) + len(node.output)) * longest
            node_bytes += largest * sum(bool(attribute.ref_attr_name) for attribute in node.attribute)
            count_inside, inside = sizes.get(function_name(node), (1, node_bytes))
            count, total = min(MAX_NODES + 1, count + count_inside), min(MAX_BYTES + 1, total + inside)
        return count, total

    for name in TopologicalSorter(calls).static_order():
        sizes[name] = size(functions[name])
    count, total = size(model.graph)
    if count > MAX_NODES or total > MAX_BYTES:
        message = f"the model's functions, which call each other, come to more than {MAX_NODES} nodes or 2 GiB"
        raise ModelError(message, rule="functions must be inlined")
    Budget().ask("the model's functions", "inlining them", 4 * total + NODE_BYTES * count)


def _passed_attributes(model: ModelProto) -> Iterator[AttributeProto]:
    """Yield the attributes that may replace references in functions: those of calls, and defaults."""
    domains = {plain_domain(function.domain) for function in model.functions}
    for function in model.functions:
        yield from function.attribute_proto
    for node in nodes([*main_graphs(model), *model.functions]):
        if plain_domain(node.domain) in domains:
            yield from node.attribute


def _bytes(item: str | AttributeProto) -> int:
    if isinstance(item, AttributeProto):
        return int(item.ByteSize())
    return len(item) if item.isascii() else 4 * len(item)


def reason(error: Exception) -> str:
    """Return the first paragraph of an error in a line, for onnx's multi-line errors of many types."""
    paragraph = (str(error).strip() or repr(error)).partition("\n\n")[0]
    return escape_controls(" ".join(paragraph.split()))


def _byte_size(model: ModelProto) -> int:
    """Return the serialized size of a model, or the size of its tensors if protobuf cannot serialize it.

    Raises:
        MemoryError: protobuf fails although the model is small enough.
    """
    try:
        return int(model.ByteSize())
    except EncodeError:
        size = sum(len(tensor.raw_data) for tensor in tensors(model))
    if size <= MAX_BYTES:
        raise MemoryError
    return size


def _replace_unchecked(model: ModelProto) -> ModelProto:
    """Return the model with placeholders for the values that onnx's checker need not see.

    It requires shapes and types of inputs and outputs, but does not compare them, and looks for the files of external
    tensors in the current folder.
    """
    fields = ("input", "output")
    has_shapes = all(_has_shape(value) for field in fields for value in getattr(model.graph, field))
    if has_shapes and not external_tensors(model):
        return model
    copy = ModelProto()
    copy.CopyFrom(model)
    for field in fields:
        for value in getattr(copy.graph, field):
            if not _has_shape(value):
                tensor = value.type.tensor_type
                tensor.shape.SetInParent()
                if field == "output" and not tensor.elem_type:
                    tensor.elem_type = TensorProto.FLOAT
    for tensor in external_tensors(copy):
        for field in ("dims", "external_data", "data_location", "raw_data"):
            tensor.ClearField(field)
        tensor.dims.append(0)
    return copy


def _has_shape(value: ValueInfoProto) -> bool:
    type_name = value.type.WhichOneof("value")
    return type_name not in (None, "tensor_type") or value.type.tensor_type.HasField("shape")
