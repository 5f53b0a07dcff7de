"""A model written again, with the steps of a plan in the places of its movement."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
from onnx import ModelProto, NodeProto, TensorProto, helper, numpy_helper

from anydml.onnx.budget import Budget
from anydml.onnx.graph import opsets_of
from anydml.onnx.operators import run_node
from anydml.onnx.training_nodes import FreshNames
from anydml.onnx.values import Array
from anydml.slim.constants import Constants
from anydml.slim.following import Following
from anydml.slim.planning import Plan
from anydml.slim.sizes import StandIns
from anydml.slim.steps import Step
from anydml.slim.walking import alive, captured

LAST = 2**63 - 1
"""What Slice takes as "to the end"."""


class Writer:
    """Writes a model.

    Args:
        model: which; it is not changed.
        plan: how its values are made.
        stand_ins: the sizes of the plan.
        constants: reads its constants.
    """

    def __init__(self, model: ModelProto, plan: Plan, stand_ins: StandIns, constants: Constants) -> None:
        self._model, self._plan, self._stand_ins, self._constants_of = model, plan, stand_ins, constants
        self._following: Following = plan.following
        self._fresh = FreshNames(model)
        self._opset = opsets_of(model.opset_import)[""]
        self._budget = Budget()
        self._nodes: list[NodeProto] = []
        self._tensors: dict[str, TensorProto] = {}
        self._constants: dict[tuple[bytes, str, tuple[int, ...]], str] = {}
        self._names: dict[int, str] = {}
        self._splits: dict[int, list[str]] = {}
        self._kept: dict[int, list[str]] = {}
        wanted = {id(plan.step(name)): name for region in plan.regions for name in region.results}
        self._wanted = {**wanted, **{id(plan.step(name)): name for name in self._following.output_names
                                     if self._following.values[name].node is not None}}  # fmt: skip
        self._arrays: dict[str, Array] = {}
        self._initializers = {tensor.name: tensor for tensor in model.graph.initializer}
        self._producers = {name: proto for _, proto, _ in self._following.nodes for name in proto.output if name}
        self._made: set[str] = {*self._initializers, *(value.name for value in model.graph.input)}

    def written(self) -> ModelProto:
        """The model."""
        plan, graph = self._plan, self._model.graph
        region_nodes = {number for region in plan.regions for number in region.nodes}
        for number, (_, proto, _) in enumerate(self._following.nodes):
            made = next((self._following.values[name] for name in proto.output if name), None)
            if number in region_nodes or (made is not None and made.node is not None):
                continue
            for name in captured(proto):
                if name in self._producers and name not in self._made:
                    self._named(name)
            self._copy(proto)
        for output in graph.output:
            if output.name in self._producers and output.name not in self._made:
                self._named(output.name)
        result = ModelProto()
        result.CopyFrom(self._model)
        del result.graph.node[:]
        nodes = alive(self._nodes, {output.name for output in graph.output})
        result.graph.node.extend(nodes)
        used = {name for node in nodes for name in (*node.input, *captured(node))}
        used.update(output.name for output in graph.output)
        before = {name for node in graph.node for name in (*node.input, *captured(node))}
        inputs = {value.name for value in graph.input}
        gone = {name for name in self._initializers if name in before and name not in used and name not in inputs}
        _keep(result.graph.initializer, lambda tensor: tensor.name not in gone)
        result.graph.initializer.extend(tensor for name, tensor in self._tensors.items() if name in used)
        there = {name for node in nodes for name in node.output}
        _keep(result.graph.value_info, lambda value: value.name in there)
        _keep(result.graph.quantization_annotation, lambda each: each.tensor_name not in gone)
        return result

    def _copy(self, proto: NodeProto) -> None:
        """A node that stays; what it reads is made before."""
        copy = NodeProto()
        copy.CopyFrom(proto)
        names = [self._read(name) for name in proto.input]
        del copy.input[:]
        copy.input.extend(names)
        self._nodes.append(copy)
        self._made.update(proto.output)

    def _read(self, name: str) -> str:
        """The name under which a value is read from now on."""
        if not name:
            return name
        if self._plan.is_folded(name):
            return self._constant(name, self._array(name))
        if name in self._made or name not in self._following.values or self._following.values[name].node is None:
            return name
        return self._step(self._plan.step(name), name)

    def _named(self, name: str) -> None:
        """Make a value under its own name."""
        value = self._following.values.get(name)
        if value is None or value.node is None:
            return
        step = self._plan.step(name)
        found = self._step(step, name)
        if found != name:
            self._add("Identity", [found], name)

    def _step(self, step: Step, name: str) -> str:
        """The name of what a step makes: a result's own if it is one, else one like `name`."""
        if id(step) in self._names:
            return self._names[id(step)]
        asked = self._wanted.get(id(step), "")
        if step.kind == "":
            found = str(step.numbers) if isinstance(step.numbers, str) else self._node(step)
        elif step.kind == "Split":
            found = self._part(step, name)
        elif step.kind == "Constant":
            found = self._constant(step.numbers, self._array(step.numbers))
        else:
            inputs = [self._step(each, name) for each in step.inputs]
            found = asked if asked and asked not in self._made else self._fresh.new(name, step.kind.lower())
            self._made.add(found)
            self._add_step(step, inputs, found)
        self._names[id(step)] = found
        return found

    def _part(self, step: Step, name: str) -> str:
        """An output of a Split, whose node is written with the first of them."""
        (node,) = step.inputs
        axis, lengths, number = step.numbers
        if id(node) not in self._splits:
            source = self._step(node.inputs[0], name)
            outputs = []
            for k in range(len(lengths)):
                asked = self._wanted.get(id(self._plan.steps.part(node, k)), "")
                outputs.append(asked if asked and asked not in self._made else self._fresh.new(name, "part"))
                self._made.add(outputs[-1])
            sizes = self._integers(name, lengths)
            label = self._fresh.new(name, "Split")
            self._nodes.append(helper.make_node("Split", [source, sizes], outputs, label, axis=axis))
            self._splits[id(node)] = outputs
        return self._splits[id(node)][int(number)]

    def _node(self, step: Step) -> str:
        """A node that stays; its data may come from elsewhere."""
        number, output = step.numbers
        proto = self._following.nodes[number][1]
        if number not in self._kept:
            data = self._following.values[proto.output[output]].data
            given = {name: self._step(each, name) for name, each in zip(data, step.inputs[0].inputs, strict=True)}
            copy = NodeProto()
            copy.CopyFrom(proto)
            count = len(data)
            names = [given[name] if k < count else self._read(name) for k, name in enumerate(proto.input)]
            # A name may have been given to a cheaper way to make the same.
            outputs = [self._fresh.new(name, "kept") if name in self._made else name for name in proto.output]
            del copy.input[:], copy.output[:]
            copy.input.extend(names)
            copy.output.extend(outputs)
            self._kept[number] = outputs
            self._nodes.append(copy)
            self._made.update(outputs)
        return self._kept[number][int(output)]

    def _array(self, name: str) -> Array:
        """A constant, moved as the model's nodes do."""
        if name not in self._arrays:
            known = self._following.values[name].tensor
            if known is not None and known.array is not None:
                self._arrays[name] = known.array
            elif name in self._constants_of:
                self._arrays[name] = self._constants_of.read(name)
            else:
                number = next(n for n, (_, proto, _) in enumerate(self._following.nodes) if name in proto.output)
                node = self._following.nodes[number][2]
                assert node is not None, "it moves, or is a constant"
                inputs = [None if not each else self._array(each) for each in node.inputs]
                for each, array in zip(node.outputs, run_node(node, inputs, self._budget), strict=False):
                    self._arrays[each] = array
        return self._arrays[name]

    def _add(self, kind: str, inputs: Sequence[str], output: str, **attributes: Any) -> None:
        self._nodes.append(helper.make_node(kind, inputs, [output], self._fresh.new(output, kind), **attributes))
        self._made.add(output)

    def _add_step(self, step: Step, inputs: Sequence[str], output: str) -> None:
        source = step.inputs[0]
        match step.kind:
            case "Reshape":
                shape = self._stand_ins.shape(source.sizes, step.sizes)
                assert shape is not None, "it was found before"
                self._add("Reshape", [*inputs, self._integers(output, shape)], output)
            case "Transpose":
                self._add("Transpose", inputs, output, perm=step.numbers)
            case "DepthToSpace":
                self._add("DepthToSpace", inputs, output, blocksize=step.numbers[0], mode=step.numbers[1])
            case "SpaceToDepth":
                self._add("SpaceToDepth", inputs, output, blocksize=step.numbers[0])
            case "Concat":
                self._add("Concat", inputs, output, axis=step.numbers)
            case "Gather":
                axis, indices = step.numbers
                self._add("Gather", [*inputs, self._integers(output, indices)], output, axis=axis)
            case "Expand":
                wide = [1 if a == b else b for a, b in zip(source.sizes, step.sizes, strict=True)]
                self._add("Expand", [*inputs, self._integers(output, wide)], output)
            case "Slice":
                self._add("Slice", [*inputs, *self._window(step, output)], output)
            case "Pad":
                self._pad(step, inputs, output)

    def _window(self, step: Step, output: str) -> Iterable[str]:
        cut = [
            (axis, first, LAST if first + (count - 1) * by + by >= size else first + (count - 1) * by + 1, by)
            for axis, (size, (first, count, by)) in enumerate(zip(step.inputs[0].sizes, step.numbers, strict=True))
            if (first, count, by) != (0, size, 1)
        ]
        for numbers in ([c[1] for c in cut], [c[2] for c in cut], [c[0] for c in cut], [c[3] for c in cut]):
            yield self._integers(output, numbers)

    def _pad(self, step: Step, inputs: Sequence[str], output: str) -> None:
        pads, fill, dtype = step.numbers
        value = self._constant(output, np.frombuffer(fill, dtype).reshape(()))
        self._add("Pad", [*inputs, self._integers(output, pads), value], output)

    def _integers(self, base: str, numbers: Sequence[int]) -> str:
        return self._constant(base, np.array(numbers, np.int64))

    def _constant(self, base: str, array: Array) -> str:
        """The name of an initializer."""
        key = array.tobytes(), str(array.dtype), array.shape
        if key not in self._constants:
            name = self._fresh.new(base, "constant")
            self._constants[key] = name
            self._tensors[name] = numpy_helper.from_array(np.ascontiguousarray(array).reshape(array.shape), name)
            self._made.add(name)
        return self._constants[key]


def _keep(repeated: Any, wanted: Callable[[Any], bool]) -> None:
    """Only those of a repeated field that are wanted."""
    for k in reversed(range(len(repeated))):
        if not wanted(repeated[k]):
            del repeated[k]
