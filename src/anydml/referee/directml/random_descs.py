"""The functions that draw a random desc of each operator, and the contents of its inputs.

Start here to add an operator of DirectML.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np
from numpy.random import Generator

from anydml import operators
from anydml.operators import OperatorDesc
from anydml.referee.directml import cutting, filling, moving_descs

FAMILY: Mapping[str, Callable[[Generator], OperatorDesc]] = {
    make.__name__: make
    for make in (
        *(
            moving_descs.tile,
            moving_descs.padding,
            moving_descs.padding1,
            moving_descs.gather_elements,
            moving_descs.gather_nd,
            moving_descs.gather_nd1,
        ),
        *(
            moving_descs.scatter,
            moving_descs.scatter_nd,
            moving_descs.slice_grad,
            moving_descs.space_to_depth,
            moving_descs.space_to_depth1,
        ),
        *(moving_descs.depth_to_space, moving_descs.depth_to_space1, filling.diagonal_matrix, filling.diagonal_matrix1),
        *(filling.fill_value_constant, filling.fill_value_sequence, filling.element_wise_identity),
        *(filling.reverse_subsequences, filling.one_hot, filling.element_wise_if, filling.upsample_2d),
        *(filling.resample, filling.resample1, filling.resample2, filling.resample3, filling.unfold),
        filling.nonzero_coordinates,
    )
}
"""Functions that draw a desc that every rule of the latest level allows, by the operator's name in lower case."""

DRAWS: Mapping[str, Callable[[Generator], OperatorDesc]] = {
    **{name: partial(cutting.random_desc, operator=name) for name in cutting.OPERATORS},
    **FAMILY,
}
"""The same, of every operator."""


def axis_of_parts(desc: Any) -> int:
    """Return the axis of a desc of parts, counted from the front."""
    return int(desc.axis % len(desc.outputs[0][1].sizes))


def fill_inputs(rng: Generator, desc: Any, inputs: list[Any]) -> None:
    """Write indices that are often in range, sometimes hostile, and `split` as the desc has it."""
    for input_number, ((name, tensor), array) in enumerate(zip(desc.inputs, inputs, strict=True)):
        if name == "IndicesTensor":
            low, high = np.iinfo(array.dtype).min, np.iinfo(array.dtype).max
            size = desc.input_tensor.sizes[desc.axis]
            edge_indices = [
                0,
                size - 1,
                size,
                size + 1,
                low,
                low + 1,
                high,
                high - 1,
                -1 if low else 1,
                -size if low else 2,
            ]
            near = np.array(edge_indices, object)[rng.integers(0, len(edge_indices), tensor.sizes)]
            good = rng.integers(0, size, tensor.sizes)
            array[...] = np.where(rng.random(tensor.sizes) < 0.4, near, good).astype(array.dtype)
        elif input_number and isinstance(desc, operators.SplitTrainingOperatorDesc):
            array[...] = [part.sizes[axis_of_parts(desc)] for part in desc.output_tensors]
