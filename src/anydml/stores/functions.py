"""Plans of fused functions and of descs over stores."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from anydml.errors import BindingError
from anydml.operators.base import OperatorDesc
from anydml.stores.argument_checks import LIST, Kind, argument_error, checked
from anydml.stores.formats.block_types import name_of
from anydml.stores.formats.store import Checkpoint, Store
from anydml.stores.formats.target import Content, Target
from anydml.stores.formats.zarr_array import ZarrStore
from anydml.stores.formats.zarr_target import ZarrTarget
from anydml.stores.plans import Plan
from anydml.tensor import Layout
from anydml.text import count_noun
from anydml.tracing.executed_instructions import ExecutedInstructions
from anydml.tracing.open_builtins import FunctionCopier, traced_again
from anydml.tracing.structure import leaves, map_leaves, pair_leaves
from anydml.tracing.trace import Trace, check_dtype
from anydml.tracing.traced_ndarray import TracedNdarray
from anydml.tracing.traced_results import Result, results_of

MEMORY = "256MB"


@traced_again(is_kept=False)
def plan_function(
    copier: FunctionCopier,
    function: Callable[..., Any],
    name: str,
    inputs: Any,
    outputs: Any,
    memory: int | str,
    overwrite: bool,
    folder: Path | None = None,
    other_files: dict[Path, Content] | None = None,
) -> Plan:
    """Trace a function of stores, and plan it.

    Args:
        copier: makes the copy of the function that runs on traced arrays.
        function: the function, called with a traced array for each store.
        name: the function's name in errors.
        inputs: as for `Fused.plan`.
        outputs: as for `Fused.plan`.
        memory: as for `Fused.plan`.
        overwrite: as for `Fused.plan`.
        folder: as for `Plan`.
        other_files: as for `Plan`.

    Raises:
        BindingError: there is no store, a target does not fit its result, or the structures differ.
    """
    stores: list[Any] = []
    trace = Trace(name, TracedNdarray)

    def traced(leaf: Any, path: str) -> Any:
        if not isinstance(leaf, (Store, ZarrStore)):
            return leaf
        check_dtype(leaf.dtype, path)
        stores.append(leaf)
        value = trace.composer.input(path, leaf.shape, leaf.strides, leaf.dtype.itemsize)
        return trace.new_array(value, leaf.dtype, len(stores) - 1)

    arguments = inputs if isinstance(inputs, (tuple, list)) else (inputs,)
    traced_arguments = [map_leaves(argument, traced, f"inputs[{k}]") for k, argument in enumerate(arguments)]
    if not stores:
        raise _no_store(name, inputs)
    like = [np.empty(0, store.dtype) for store in stores]
    try:
        traced_function_copy = copier.copy_for_trace(function, trace)
        with ExecutedInstructions(function).watched(copier.follow):
            returned = traced_function_copy(*traced_arguments)
        tree, results = results_of(trace, returned, [None] * len(stores), like)
    finally:
        trace.is_over = True
        copier.end()
    targets: list[Any] = []
    try:
        for leaf, field, target in pair_leaves(tree, outputs, Result, "outputs"):
            _check_target(name, field, target, leaf.array.shape, leaf.array.dtype)
            targets.append(target)
    except ValueError as error:
        if isinstance(error, BindingError):
            raise
        shapes = map_leaves(tree, lambda leaf, _: leaf.array.shape if isinstance(leaf, Result) else leaf, "")
        raise BindingError(
            f"{name}: {error} must have the structure of the results, whose shapes are {shapes}, but outputs have that "
            f"of {str(map_leaves(outputs, lambda leaf, _: getattr(leaf, 'shape', leaf), ''))[:200]}",
            name,
            "outputs",
        ) from None
    for result in results:
        trace.composer.output(f"result {result.number}", result.array.value)
    return Plan(trace.composer.program(is_simple=False), stores, targets, memory, overwrite, folder, other_files)


def _no_store(name: str, inputs: Any) -> BindingError:
    """Return the error for inputs without a store."""
    checkpoint = next((leaf for leaf in leaves(inputs) if isinstance(leaf, Checkpoint)), None)
    for path in leaves(inputs):
        if isinstance(path, (str, os.PathLike)):
            return argument_error(name, "inputs", path, f"pass stores.open({str(path)[:80]!r})")
    if checkpoint is None:
        return BindingError(f"{name}: inputs have no store: open one by anydml.stores.open", name, "inputs")
    advice = f"pick one by its name, such as [{min(checkpoint)!r}]" if checkpoint else "it has none"
    message = f"{name}: inputs is a checkpoint of {count_noun(len(checkpoint), 'tensor')}: {advice}"
    return BindingError(message, name, "inputs")


def _check_target(name: str, field: str, target: Any, shape: tuple[int, ...], dtype: np.dtype[Any]) -> None:
    if not isinstance(target, (Target, ZarrTarget)):
        raise BindingError(f"{name}: {field} is {target!r:.80}: describe a file by anydml.stores.create", name, field)
    if target.shape != shape or target.dtype != dtype:
        message = (
            f"{name}: {field} is {name_of(target.dtype)} {target.shape}, but the result is {name_of(dtype)} {shape}"
        )
        raise BindingError(message, name, field, "outputs must have the results' shapes and dtypes")


@checked(
    desc=Kind(lambda value: isinstance(value, OperatorDesc), "pass an operator's desc, as of dml.Slice1OperatorDesc"),
    inputs=LIST,
    outputs=LIST,
)
def plan(
    desc: OperatorDesc,
    inputs: Sequence[Store],
    outputs: Sequence[Target],
    memory: int | str = MEMORY,
    overwrite: bool = False,
) -> Plan:
    """Plan an operator over files.

    Args:
        desc: the operator.
        inputs: one store per input tensor of the desc, with its sizes and data type.
        outputs: one target per output tensor, with its sizes and data type.
        memory: bytes of all buffers together, or a string such as ``"256MB"``.
        overwrite: whether existing files may be replaced.

    Returns:
        The plan; nothing is read or written before its `run`.

    Raises:
        DescError: the desc breaks a rule.
        BindingError: a count, size or data type does not fit, an output is an input, or the operator reads host values.

    Examples:
        >>> from anydml import stores
        >>> np.save("x.npy", np.arange(4))
        >>> sizes = dml.TensorDesc("INT64", [4])
        >>> flip = dml.Slice1OperatorDesc(sizes, sizes, [0], [4], [-1])
        >>> plan = stores.plan(flip, [stores.open("x.npy")], [stores.create("flipped.npy", [4], "int64")])
        >>> plan.run()
        >>> np.load("flipped.npy")
        array([3, 2, 1, 0])
    """
    desc.check()
    name = desc.OPERATOR
    tensors = (*desc.inputs, *desc.outputs)
    if desc.HOST:
        raise BindingError(f"{name}: {sorted(desc.HOST)[0]} is a host input, which plans do not support", name)
    bindings = (*inputs, *outputs)
    if len(inputs) != len(desc.inputs) or len(outputs) != len(desc.outputs):
        message = f"{name}: {count_noun(len(inputs), 'input')} and {count_noun(len(outputs), 'output')} were given"
        needed = f"{count_noun(len(desc.inputs), 'input')} and {count_noun(len(desc.outputs), 'output')}"
        raise BindingError(f"{message}, but it needs {needed}", name)
    layouts = []
    for tensor_number, ((field, tensor), file) in enumerate(zip(tensors, bindings, strict=True)):
        array_class = Store if tensor_number < len(inputs) else Target
        if not isinstance(file, array_class):
            raise BindingError(f"{name}: {field} must be a {array_class.__name__}, not {file!r:.80}", name, field)
        dtype = tensor.data_type.dtype
        if file.shape != tuple(tensor.sizes) or file.dtype != dtype:
            message = f"{name}: {field} is {file.dtype} {file.shape}, but the tensor is {dtype} {tuple(tensor.sizes)}"
            raise BindingError(message, name, field, "files must have the tensors' sizes and types")
        layouts.append(Layout(file.shape, file.strides, dtype.itemsize))
    return Plan(desc.program(layouts), inputs, outputs, memory, overwrite)
