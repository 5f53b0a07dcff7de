"""The functions that draw a random desc of each operator.

Start here to add an operator of DirectML.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

from numpy.random import Generator

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
