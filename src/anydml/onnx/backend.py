"""An implementation of `onnx.backend.base`: `prepare`, `run_model`, `run_node`, `supports_device`.

Examples:
    >>> import onnx.parser, numpy, anydml.onnx
    >>> model = onnx.parser.parse_model('''
    ...     <ir_version: 8, opset_import: ["": 18]>
    ...     g (float[N] x) => (float[A] a, float[B] b) { a, b = Split <axis = 0, num_outputs = 2> (x) }''')
    >>> [part.tolist() for part in anydml.onnx.backend.run_model(model, [numpy.arange(5, dtype="f")])]
    [[0.0, 1.0, 2.0], [3.0, 4.0]]
"""

from __future__ import annotations

import reprlib
from collections.abc import Mapping, Sequence
from typing import Any

import onnx.backend.base
import onnx.checker
import onnx.defs
from onnx import ModelProto, NodeProto

from anydml.errors import ModelError
from anydml.onnx.budget import Budget
from anydml.onnx.checks import check, check_is_model, inline_functions, reason
from anydml.onnx.control import unroll
from anydml.onnx.custom import DOMAIN
from anydml.onnx.graph import MICROSOFT
from anydml.onnx.program import Program
from anydml.onnx.read import read_node, read_nodes
from anydml.onnx.run_node import run_node as _run_node
from anydml.onnx.tensor_protos import Array
from anydml.onnx.walk import plain_domain
from anydml.text import count_noun, escape_controls


class Prepared(onnx.backend.base.BackendRep):
    """A model that is ready to run, as returned by `prepare`."""

    def __init__(self, model: ModelProto) -> None:
        self.program = Program(model)
        self._outputs = onnx.backend.base.namedtupledict("Outputs", self.program.outputs)

    def run(self, inputs: Any, **_: Any) -> tuple[Any, ...]:
        """Run the model.

        Args:
            inputs: a mapping of arrays by name; a sequence of arrays in the graph's order, either for all inputs or for
                those without an initializer; or the array of the only input.

        Returns:
            The outputs in order, as a named tuple that can also be indexed by name: ``outputs["y"]``.

        Raises:
            ModelError: an input is missing or does not match the graph, or a node refuses its inputs.
        """
        return self._outputs(*self.program.run(self._by_name(inputs)))

    def _by_name(self, inputs: Any) -> Mapping[str, Any]:
        if isinstance(inputs, Mapping):
            return inputs
        values = list(inputs) if isinstance(inputs, Sequence) and not isinstance(inputs, str) else [inputs]
        names = list(self.program.inputs)
        required = [name for name in names if name not in self.program.defaults]
        if len(values) not in (len(names), len(required)):
            message = (
                f"the graph has {count_noun(len(required), 'input')} ({', '.join(map(escape_controls, required))}), "
                f"but got {len(values)}"
            )
            raise ModelError(message, rule="one value per input")
        return dict(zip(names if len(values) == len(names) else required, values, strict=True))


class AnydmlBackend(onnx.backend.base.Backend):
    """Graphs of the operators in `anydml.onnx.table`, on the CPU."""

    @classmethod
    def is_compatible(cls, model: ModelProto, device: str = "CPU", **_: Any) -> bool:
        """Return whether anydml implements the operators of all nodes of a model."""
        check_is_model("is_compatible", model)
        try:
            check(model)
            read_nodes(unroll(inline_functions(model)))
        except ModelError:
            return False
        return cls.supports_device(device)

    @classmethod
    def prepare(cls, model: ModelProto, device: str = "CPU", **_: Any) -> Prepared:
        """Check a model and prepare it for running.

        Args:
            model: a model with its external data loaded; it is not modified.
            device: ``"CPU"``.

        Raises:
            ModelError: the model is not valid, anydml does not implement one of its operators, or `device` is not the
                CPU.
            TypeError: `model` is not a ModelProto.
        """
        check_is_model("prepare", model)
        _check_device(device)
        return Prepared(model)

    @classmethod
    def run_node(
        cls, node: NodeProto, inputs: Any, device: str = "CPU", outputs_info: Any = None, **options: Any
    ) -> tuple[Array, ...]:
        """Run one node.

        Args:
            node: the node.
            inputs: its inputs in order, None for omitted ones.
            device: ``"CPU"``.
            outputs_info: ignored.
            options: ``opset_version``; default: the newest that onnx supports.

        Raises:
            ModelError: the node is not valid, anydml does not implement its operator, or the node refuses its inputs.
            TypeError: `node` is not a NodeProto.
        """
        if not isinstance(node, NodeProto):
            raise TypeError(f"run_node takes a NodeProto, not {reprlib.repr(node)}")
        _check_device(device)
        opset = int(options.get("opset_version", onnx.defs.onnx_opset_version()))
        opsets = {"": opset, MICROSOFT: 1, DOMAIN: 1}
        context = onnx.checker.C.CheckerContext()
        context.ir_version, context.opset_imports = onnx.IR_VERSION, opsets
        try:
            onnx.checker.check_node(node, context)
        except Exception as error:
            raise ModelError(f"the node breaks a rule of ONNX: {reason(error)}") from None
        read = read_node(node, opsets, node.name or node.op_type)
        values = list(inputs) if isinstance(inputs, Sequence) else [inputs]
        results = _run_node(read, values, Budget())
        return tuple(results[: len(node.output)]) if plain_domain(node.domain) else results

    @classmethod
    def supports_device(cls, device: str) -> bool:
        """Return whether `device` is ``"CPU"``, with or without a device number."""
        return device.partition(":")[0] == "CPU"


def _check_device(device: str) -> None:
    if not AnydmlBackend.supports_device(device):
        raise ModelError(f"there is no device {device!r}; the backend runs on CPU", rule="the device must be CPU")


is_compatible = AnydmlBackend.is_compatible
prepare = AnydmlBackend.prepare
run_model = AnydmlBackend.run_model
run_node = AnydmlBackend.run_node
supports_device = AnydmlBackend.supports_device
