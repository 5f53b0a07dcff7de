"""Device → CompiledOperator → BoundOperator: check and compile once, bind buffers once, dispatch many times."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NoReturn, SupportsIndex

import numpy as np

from anydml.binding import bind_tensors, check_host_values, check_output, has_host_values
from anydml.engines import CompiledProgram, open_engine
from anydml.feature_level import FeatureLevel
from anydml.graph.desc import GraphDesc
from anydml.graph.structs import ExecutionFlags
from anydml.hooks import HOOKS
from anydml.operators.base import OperatorDesc
from anydml.tensor import Layout
from anydml.text import count_noun


class Device:
    """An engine that runs operators, with the feature level that they are checked against.

    Args:
        name: ``"cpu"``; ``"numpy"``, which compiles nothing; ``"reference"``, which evaluates the documents' formulas
            element by element; ``"cuda"``, ``"cuda:1"`` … for a GPU.
        feature_level: a `FeatureLevel` or its name, such as ``"3_0"``.

    Raises:
        ValueError: there is no such device or level, or the device's driver or library is missing.

    Examples:
        >>> T = dml.TensorDesc
        >>> desc = dml.SplitOperatorDesc(T("FLOAT32", [6]), [T("FLOAT32", [4]), T("FLOAT32", [2])], axis=0)
        >>> operator = dml.Device("cpu").compile_operator(desc)
        >>> parts = [np.empty(4, "f4"), np.empty(2, "f4")]
        >>> operator.bind([np.arange(6, dtype="f4")], parts).dispatch()
        >>> parts
        [array([0., 1., 2., 3.], dtype=float32), array([4., 5.], dtype=float32)]
    """

    def __init__(self, name: str = "cpu", feature_level: FeatureLevel | str = FeatureLevel.LATEST) -> None:
        self.name = str(name)
        self.feature_level = FeatureLevel.parse(feature_level)
        self._engine = open_engine(self.name)

    def compile_operator(self, desc: OperatorDesc) -> CompiledOperator:
        """Check a desc, lower it to moves, and choose kernels (IDMLDevice::CompileOperator).

        Raises:
            DescError: the desc breaks a rule at this device's feature level.
            TypeError: `desc` is not an operator desc.
        """
        if isinstance(desc, GraphDesc):
            raise TypeError("compile_operator takes an operator's desc: compile_graph takes a GraphDesc")
        if not isinstance(desc, OperatorDesc):
            raise TypeError(f"compile_operator takes an operator's desc, such as SplitOperatorDesc, not {desc!r:.80}")
        desc.check(self.feature_level)
        return CompiledOperator(self, desc)

    def compile_graph(self, desc: GraphDesc, flags: ExecutionFlags = ExecutionFlags.NONE) -> CompiledGraph:
        """Check a graph and compile it to one program (IDMLDevice1::CompileGraph).

        Args:
            desc: the graph.
            flags: `ExecutionFlags`, accepted and without effect.

        Returns:
            The compiled graph; bind one buffer to each of the graph's inputs and outputs, in index order.

        Raises:
            DescError: the graph, or an operator in it, breaks a rule at this device's feature level.
            TypeError: `desc` is not a `GraphDesc`.
            ValueError: `flags` has unknown bits.
        """
        if not isinstance(desc, GraphDesc):
            raise TypeError(f"compile_graph takes a GraphDesc, not {desc!r:.80}")
        ExecutionFlags(flags)
        desc.check(self.feature_level)
        return CompiledGraph(self, desc)

    def __reduce__(self) -> tuple[Any, ...]:
        return Device, (self.name, self.feature_level)

    def __repr__(self) -> str:
        return f"Device({self.name!r}, feature_level={self.feature_level!s})"


class CompiledOperator:
    """A compiled operator, ready to be bound. ``print(operator)`` explains the compiled program.

    Copying and unpickling compile the desc again.

    Examples:
        >>> T = dml.TensorDesc
        >>> desc = dml.SplitOperatorDesc(T("FLOAT32", [6]), [T("FLOAT32", [4]), T("FLOAT32", [2])], axis=0)
        >>> operator = dml.Device("cpu").compile_operator(desc)
        >>> operator.bind([np.ones(6, "f4")], [np.empty(4, "f4"), np.empty(2, "f4")]).dispatch()
    """

    def __init__(self, device: Device, desc: OperatorDesc) -> None:
        self.device = device
        self.desc = desc
        self._layouts = desc.layouts()
        self._program = device._engine.compile(desc.program(self._layouts))

    def bind(self, inputs: Sequence[Any], outputs: Sequence[Any]) -> BoundOperator:
        """Check buffers against the desc's tensors and prepare the dispatch.

        Args:
            inputs: one per tensor, in the desc's order: a NumPy array of the tensor's sizes and type, with any strides,
                or a flat contiguous buffer (array, bytes, memoryview …) of at least TotalTensorSizeInBytes bytes, to
                which the desc's strides apply. A contiguous array of one dimension is flat if the desc has Strides
                other than 1, whatever its length. On a GPU: arrays of PyTorch or CuPy, or any with DLPack or
                ``__cuda_array_interface__``; SplitTensor and PerInputLengthTensor stay in host memory.
            outputs: one per output tensor, as `inputs`, and writeable.

        Raises:
            BindingError: a count, type, shape or size does not fit, or an output overlaps an input or another output.
                Nothing was written.
        """
        desc = self.desc
        operands, layouts = bind_tensors(desc, inputs, outputs, getattr(self.device._engine, "view", None))
        program = self._program
        if layouts != self._layouts:
            program = self.device._engine.compile(desc.program(layouts))
        run = program.bind(operands)
        if has_host_values(desc):
            run = _with_host_checks(desc, operands, layouts, run)
        return BoundOperator(desc, run, operands, tuple(outputs), program)

    def __str__(self) -> str:
        return str(self._program)

    def __reduce__(self) -> tuple[Any, ...]:
        # Compiled programs contain addresses, which mean nothing in another process.
        return _compile, (self.device, self.desc)

    def _repr_html_(self) -> str | None:
        return HOOKS["explain"](self)._repr_html_()  # type: ignore[no-any-return]

    def __repr__(self) -> str:
        return f"CompiledOperator({self.desc.OPERATOR} on {self.device.name!r})"


class CompiledGraph(CompiledOperator):
    """A compiled graph, ready to be bound. ``print(graph)`` lists its moves, and its scratch memory with reasons.

    Copying and unpickling compile the desc again.

    Examples:
        >>> T = dml.TensorDesc
        >>> flip = dml.Slice1OperatorDesc(T("FLOAT32", [4]), T("FLOAT32", [4]), [0], [4], [-1])
        >>> ends = [dml.InputGraphEdgeDesc(0, 0, 0)], [dml.OutputGraphEdgeDesc(0, 0, 0)]
        >>> graph = dml.GraphDesc(1, 1, [dml.OperatorGraphNodeDesc(flip)], *ends)
        >>> y = np.empty(4, "f4")
        >>> dml.Device("cpu").compile_graph(graph).bind([np.arange(4, dtype="f4")], [y]).dispatch()
        >>> y
        array([3., 2., 1., 0.], dtype=float32)
    """

    def __str__(self) -> str:
        return f"{self.desc.program()}\n{self._program}"

    def __repr__(self) -> str:
        return f"CompiledGraph({count_noun(len(self.desc.program().moves), 'move')} on {self.device.name!r})"


def _with_host_checks(
    desc: OperatorDesc, operands: Sequence[Any], layouts: Sequence[Layout], dispatch: Callable[[], object]
) -> Callable[[], None]:
    """Wrap a dispatch so that host inputs are checked against the desc again whenever they have changed."""
    watched = [operands[operand_number] for operand_number, (name, _) in enumerate(desc.inputs) if name in desc.HOST]
    checked = [operand.tobytes() for operand in watched]

    def run() -> None:
        if [operand.tobytes() for operand in watched] != checked:
            check_host_values(desc, operands, layouts)
        dispatch()

    return run


def _refuse_pickling() -> NoReturn:
    message = "a BoundOperator holds the addresses of its buffers, so it can be neither pickled nor copied"
    raise TypeError(f"{message}; pickle its CompiledOperator or its desc, and bind where the buffers are")


class _Dispatch(partial[None]):
    """The type of `BoundOperator.dispatch`: a function that can be neither pickled nor copied."""

    def __reduce_ex__(self, protocol: SupportsIndex) -> NoReturn:
        _refuse_pickling()


class BoundOperator:
    """An operator with its buffers. ``print(bound)`` explains the program with the buffers' actual strides.

    It holds the buffers' addresses, so it can be neither pickled nor copied (TypeError). Pickle the `CompiledOperator`
    or the desc instead, and bind in the process that has the buffers.

    Examples:
        >>> T = dml.TensorDesc
        >>> flip = dml.Slice1OperatorDesc(T("FLOAT32", [4]), T("FLOAT32", [4]), [0], [4], [-1])
        >>> x, y = np.arange(4, dtype="f4"), np.empty(4, "f4")
        >>> bound = dml.Device("cpu").compile_operator(flip).bind([x], [y])
        >>> x[0] = 9
        >>> bound.dispatch()
        >>> y
        array([3., 2., 1., 9.], dtype=float32)
    """

    __slots__ = {
        "_operands": "",
        "_program": "",
        "_run": "",
        "desc": "The operator's desc.",
        "dispatch": """Run the operator on the buffers' present contents; may be called any number of times.

        Raises:
            BindingError: an output was made read-only after binding, or host inputs (SplitTensor) no longer agree with
                the desc. Nothing was written.
        """,
    }

    dispatch: Callable[[], None]

    def __init__(
        self,
        desc: OperatorDesc,
        run: Callable[[], object],
        operands: tuple[np.ndarray[Any, Any], ...],
        outputs: Sequence[Any],
        program: CompiledProgram,
    ) -> None:
        self.desc = desc
        self._program = program
        self._run = run
        self._operands = operands
        # Only NumPy arrays can become read-only later.
        arrays = tuple([output for output in outputs if isinstance(output, np.ndarray)])
        refuse = partial(_refuse, desc, outputs)
        # The compiled core checks the flags itself, faster than a Python call.
        guarded = getattr(run, "requiring_writable", None)
        # An attribute, not a method: looking up a method takes as long as checking the outputs.
        self.dispatch = _Dispatch(
            guarded(arrays, refuse) if guarded else partial(_run_if_writeable, run, arrays, refuse)
        )

    def __reduce_ex__(self, protocol: SupportsIndex) -> NoReturn:
        _refuse_pickling()

    def __str__(self) -> str:
        # A bound program may know more than the program, such as the buffers' alignment.
        describe: object = type(self._run).__str__
        return str(self._program if describe is object.__str__ else self._run)

    def _repr_html_(self) -> str | None:
        return HOOKS["explain"](self)._repr_html_()  # type: ignore[no-any-return]

    def __repr__(self) -> str:
        return f"BoundOperator({self.desc.OPERATOR}, {count_noun(len(self._operands), 'tensor')})"


def _run_if_writeable(
    run: Callable[[], object], arrays: Sequence[np.ndarray[Any, Any]], refuse: Callable[[], None]
) -> None:
    """Call `run` if all arrays are writeable, else `refuse`."""
    for array in arrays:
        if not array.flags.writeable:
            refuse()
    run()


def _refuse(desc: OperatorDesc, outputs: Sequence[Any]) -> None:
    """Report an output that became read-only.

    Raises:
        BindingError: the message names the output.
    """
    for (name, _), output in zip(desc.outputs, outputs, strict=True):
        if isinstance(output, np.ndarray):
            check_output(desc.OPERATOR, name, output)


def _compile(device: Device, desc: OperatorDesc) -> CompiledOperator:
    return device.compile_graph(desc) if isinstance(desc, GraphDesc) else device.compile_operator(desc)


__all__ = ["BoundOperator", "CompiledGraph", "CompiledOperator", "Device"]
