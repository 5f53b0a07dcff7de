"""What nodes broadcast themselves need not be repeated before: matrices in grouped attention, and what is expanded.

For MatMul, the batch is written with an axis of its own for what repeats, which has size 1 where the same matrix is
meant. What is computed from the repeated matrices element by element, as a scale is, is computed once.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence

import numpy as np
from onnx import ModelProto, NodeProto, helper, numpy_helper

from anydml.onnx.graph import plain_domain
from anydml.onnx.training_nodes import FreshNames
from anydml.slim.following import Following
from anydml.slim.parts import boxed
from anydml.slim.pushing import ELEMENTWISE
from anydml.slim.sizes import StandIns
from anydml.slim.walking import captured


class Sharing:
    """Looks for such products in one model.

    Args:
        model: the model, whose movement is composed already.
        following: its values.
        stand_ins: the sizes of `following`.
    """

    def __init__(self, model: ModelProto, following: Following, stand_ins: StandIns) -> None:
        self._model, self._following, self._stand_ins = model, following, stand_ins
        self._fresh = FreshNames(model)
        self._makers = {name: node for node in model.graph.node for name in node.output if name}
        self._bound = {output.name for output in model.graph.output}
        for node in model.graph.node:
            self._bound.update(captured(node))
        self._made: list[NodeProto] = []
        self._tensors: dict[tuple[int, ...], str] = {}

    def shared(self) -> ModelProto | None:
        """The model with all such products; None where there is none."""
        result = ModelProto()
        result.CopyFrom(self._model)
        del result.graph.node[:]
        found = False
        for node in self._model.graph.node:
            made = self._product(node) or self._plain(node)
            found = found or made is not None
            result.graph.node.extend(made or [node])
        for numbers, name in self._tensors.items():
            result.graph.initializer.append(numpy_helper.from_array(np.array(numbers, np.int64), name))
        return result if found else None

    def _plain(self, node: NodeProto) -> list[NodeProto] | None:
        """A node that reads what was there before it was expanded."""
        values = self._following.values
        names = [name for name in (*node.input, *node.output) if name]
        if not (node.op_type in ELEMENTWISE or node.op_type == "MatMul") or plain_domain(node.domain):
            return None
        if any(name not in values or values[name].tensor is None for name in names):
            return None
        kept = 2 if node.op_type == "MatMul" else 0
        copy = NodeProto()
        copy.CopyFrom(node)
        for k, name in enumerate(node.input):
            maker = self._makers.get(name)
            given = values.get(maker.input[0]) if maker is not None and maker.op_type == "Expand" else None
            if maker is None or given is None or given.tensor is None or plain_domain(maker.domain):
                continue
            others = [values[each].sizes for i, each in enumerate(copy.input) if each and i != k]
            shapes = [given.sizes, *others, values[node.output[0]].sizes]
            if min(map(len, shapes)) < kept or (kept and given.sizes[-2:] != values[name].sizes[-2:]):
                continue
            *batches, result = (sizes[: len(sizes) - kept] for sizes in shapes)
            with contextlib.suppress(ValueError):
                if np.broadcast_shapes(*batches) == tuple(result):
                    copy.input[k] = maker.input[0]
        return [copy] if [*copy.input] != [*node.input] else None

    def _product(self, node: NodeProto) -> list[NodeProto] | None:
        if node.op_type != "MatMul" or plain_domain(node.domain):
            return None
        values = self._following.values
        names = [*node.input, *node.output]
        if any(name not in values or values[name].tensor is None for name in names):
            return None
        first, second, result = (values[name].sizes for name in names)
        if not len(first) == len(second) == len(result) > 2 or not first[:-2] == second[:-2] == result[:-2]:
            return None
        root, chain = self._root(node.input[1])
        found = self._repeated(root)
        if found is None:
            return None
        batch, repeats = found
        shapes = (*batch, *first[-2:]), (*batch, *second[-2:])
        before = [self._stand_ins.shape(first, shapes[0]), self._stand_ins.shape(second, shapes[1])]
        behind = self._stand_ins.shape((*batch, first[-2], second[-1]), result)
        if None in before or behind is None:
            return None
        self._made = []
        left = self._add("Reshape", [node.input[0], self._numbers(before[0])])
        right = self._add("Reshape", [root, self._numbers(before[1])])
        zeros, ones = (0,) * len(repeats), (1,) * len(repeats)
        right = self._add("Slice", [right, *map(self._numbers, (zeros, ones, repeats))])
        for each, name in chain:
            copy = NodeProto()
            copy.CopyFrom(each)
            copy.output[0] = self._fresh.new(each.output[0], "shared")
            copy.input[[*each.input].index(name)] = right
            self._made.append(copy)
            right = copy.output[0]
        copy = NodeProto()
        copy.CopyFrom(node)
        del copy.input[:]
        copy.input.extend([left, right])
        copy.output[0] = self._fresh.new(node.output[0], "shared")
        self._made += [copy, helper.make_node("Reshape", [copy.output[0], self._numbers(behind)], [node.output[0]])]
        self._made[-1].name = self._fresh.new(node.output[0], "shape")
        return self._made

    def _root(self, name: str) -> tuple[str, list[tuple[NodeProto, str]]]:
        """What repeats before it is scaled, and the nodes that do it, in order, each with the name that it reads."""
        chain: list[tuple[NodeProto, str]] = []
        while name not in self._bound and self._following.uses.get(name, 0) == 1:
            node = self._makers.get(name)
            if node is None or node.op_type not in ELEMENTWISE or plain_domain(node.domain):
                break
            large = [each for each in node.input if not self._is_single(each)]
            if len(large) != 1 or large[0] not in self._following.values:
                break
            chain.append((node, large[0]))
            name = large[0]
        return name, chain[::-1]

    def _is_single(self, name: str) -> bool:
        value = self._following.values.get(name)
        return not name or (value is not None and value.tensor is not None and value.tensor.size == 1)

    def _repeated(self, name: str) -> tuple[tuple[int, ...], tuple[int, ...]] | None:
        """The sizes of a batch, cut where it repeats, and which of them repeat; None where it does not."""
        value = self._following.values[name]
        parts = self._following.parts(value.forms[0]) if value.forms else None
        box = boxed(parts[0], value.sizes) if parts is not None and len(parts) == 1 else None
        if box is None or parts is None or parts[0].source < 0:
            return None
        batch: list[int] = []
        repeats: list[int] = []
        for axis, size in enumerate(value.sizes):
            runs = sorted((run for own, run in box.runs if own == axis), key=lambda run: -run.step)
            if axis >= len(value.sizes) - 2:
                if any(run.size > 1 and not run.stride for run in runs):
                    return None
                continue
            for run in runs or ():
                if not run.stride:
                    repeats.append(len(batch))
                batch.append(run.size)
            if not runs:
                batch.append(size)
        return (tuple(batch), tuple(repeats)) if repeats else None

    def _add(self, kind: str, inputs: Sequence[str]) -> str:
        name = self._fresh.new(inputs[0], kind.lower())
        self._made.append(helper.make_node(kind, inputs, [name], name))
        return name

    def _numbers(self, numbers: Sequence[int] | None) -> str:
        key = tuple(numbers or ())
        if key not in self._tensors:
            self._tensors[key] = self._fresh.new("numbers", "shared")
        return self._tensors[key]
