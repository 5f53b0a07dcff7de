"""Draws the pictures of what moves where, from the moves themselves: ``python docs/pictures.py``.

Each picture is one example, explained by `anydml.explain`: every line in it is one run of bytes that a move names, and
every number in an output has come along that line. The numbers are compared with what the reference device answers, so
that a picture cannot show what does not happen.
"""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

import anydml as dml
from anydml import dxdispatch, stores
from anydml.explain.journeys import follow

Array = np.ndarray[Any, Any]

ROOT = Path(__file__).parents[1]
PICTURES = Path(__file__).parent / "pictures"
EXAMPLES = (
    "split",
    "split_axis3",
    "join",
    "slice",
    "slice1",
    "slice1_negative",
    "gather_1",
    "gather_2",
    "gather_3",
    "gather_4",
    "gather_5",
    "split_training",
    "concat_training",
    "tile",
    "padding_reflection",
    "gather_elements",
    "gather_nd",
    "scatter",
    "scatter_nd",
    "slice_grad",
    "depth_to_space",
    "space_to_depth",
    "reverse_subsequences",
    "diagonal_matrix1",
    "one_hot",
    "fill_value_sequence",
    "element_wise_if",
    "upsample_2d",
    "padding1",
    "gather_nd1",
    "depth_to_space1",
    "space_to_depth1",
    "diagonal_matrix",
    "fill_value_constant",
    "element_wise_identity",
    "resample",
    "resample1",
    "resample2",
    "resample3",
    "unfold",
    "scatter_elements",
)


def joined(shard_0: Array, shard_1: Array) -> Array:
    """Two shards of a matrix become one."""
    return np.concatenate([shard_0, shard_1], axis=1)


def padded(rows: list[Array]) -> Array:
    """Rows become a batch, as wide as the longest."""
    longest = max(len(row) for row in rows)
    return np.stack([np.pad(row, (0, longest - len(row)), constant_values=-1) for row in rows])


def prepared(image: Array) -> Array:
    """A crop of an image, mirrored, channel by channel."""
    return np.moveaxis(image[:, 1:3][:, ::-1], -1, 0)


def with_alpha(image: Array) -> Array:
    """RGB becomes BGRA."""
    return np.concatenate([image[..., ::-1], np.full_like(image[..., :1], 255)], -1)


FUSED: dict[str, tuple[Any, list[Any]]] = {
    "shards": (joined, [np.arange(6).reshape(3, 2), np.arange(6, 12).reshape(3, 2)]),
    "ragged": (padded, [[np.arange(1, 4), np.arange(4, 5), np.arange(5, 7)]]),
    "image": (prepared, [np.arange(24).reshape(2, 4, 3)]),
    "alpha": (with_alpha, [np.arange(10, 22, dtype=np.uint8).reshape(2, 2, 3)]),
}
"""Functions that are fused, by the names of their pictures, and what they are called with."""


def picture(desc: dml.OperatorDesc, inputs: Sequence[np.ndarray[Any, Any]]) -> str:
    """An SVG of an operator at work, whose numbers are those that the document's formula gives."""
    outputs = [np.empty(tensor.sizes, tensor.data_type.dtype) for _, tensor in desc.outputs]
    dml.Device("reference").compile_operator(desc).bind(inputs=list(inputs), outputs=outputs).dispatch()
    explained = dml.explain(desc, *inputs)
    labels = follow(explained.sections[0]).labels
    for operand, output in enumerate(outputs, len(inputs)):
        for cell, value in enumerate(output.reshape(-1)):
            assert float(labels[operand, cell]) == value, f"{desc}: element {cell} of output {operand}"
    return explained.svg()


def example(name: str) -> str:
    """The picture of ``examples/<name>.json``."""
    model = dxdispatch.load(ROOT / "examples" / f"{name}.json")
    contents = dxdispatch.run(model, device="reference", log=lambda line: None)
    command = next(command for command in model.commands if hasattr(command, "dispatchable"))
    desc = command.dispatchable.desc
    bound = [binding for field in desc.INPUTS for binding in command.bindings[field.title().replace("_", "")]]
    inputs = []
    for binding, (_, tensor) in zip(bound, desc.inputs, strict=True):
        dtype, values = tensor.data_type.dtype, np.asarray(contents[binding.resource.name])
        start = binding.offset_in_bytes // dtype.itemsize
        flat = np.ascontiguousarray(values.reshape(-1)[start:].astype(dtype))
        steps = [dtype.itemsize * stride for stride in tensor.element_strides]
        inputs.append(np.lib.stride_tricks.as_strided(flat, tensor.sizes, steps))
    return picture(desc, inputs)


def gather_outside() -> str:
    """Indices below 0, and beyond the end."""
    desc = dml.GatherOperatorDesc(
        input_tensor=dml.TensorDesc("FLOAT32", [3]),
        indices_tensor=dml.TensorDesc("INT64", [5]),
        output_tensor=dml.TensorDesc("FLOAT32", [5]),
        axis=0,
        index_dimensions=1,
    )
    return picture(desc, [np.array([10, 11, 12], np.float32), np.array([0, -1, 2, 99, -99], np.int64)])


def fused(name: str) -> str:
    """The picture of a fused function, whose numbers are those that NumPy gives."""
    function, arguments = FUSED[name]
    explained = dml.explain(dml.fuse(function), *arguments)
    results = function(*arguments)
    inputs = sum(len(each) if isinstance(each, list) else 1 for each in arguments)
    labels = follow(explained.sections[0]).labels
    for operand, result in enumerate(results if isinstance(results, list) else [results], inputs):
        for cell, value in enumerate(result.reshape(-1)):
            assert float(labels[operand, cell]) == value, f"{name}: element {cell} of result {operand - inputs}"
    return explained.svg()


def rechunk() -> str:
    """The plan of docs/rechunk.md: maps become time series."""
    import zarr

    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        zarr.create_array("maps.zarr", shape=(60, 24, 48), chunks=(1, 24, 48), dtype="float32")
        return dml.explain(stores.rechunk("maps.zarr", "series.zarr", chunks=[-1, 6, 12])).svg()


def pictures() -> dict[str, str]:
    """Every picture, by the name of its file."""
    drawn = {f"{name}.svg": example(name) for name in EXAMPLES}
    drawn |= {"gather_outside.svg": gather_outside(), "rechunk.svg": rechunk()}
    return drawn | {f"{name}.svg": fused(name) for name in FUSED}


if __name__ == "__main__":
    PICTURES.mkdir(exist_ok=True)
    for file, text in pictures().items():
        (PICTURES / file).write_text(text, encoding="utf-8")
        print(file)
