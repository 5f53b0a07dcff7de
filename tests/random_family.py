"""The referee's random descs of the operators that came after the first seven, and hostile contents for them."""

import numpy as np

from anydml.referee.directml.random_descs import FAMILY

__all__ = ["FAMILY", "fill_indices"]


def fill_indices(rng, inputs):
    """Indices and lengths near what exists, some hostile, and zeros; `inputs` are names and arrays of a desc."""
    for name, array in inputs:
        if name in ("IndicesTensor", "SequenceLengthsTensor"):
            bounds = np.iinfo(array.dtype)
            near = rng.integers(-7 if bounds.min else 0, 8, array.shape)
            some = np.array([bounds.min, bounds.min + 1, bounds.max, bounds.max - 1], object)
            hostile = some[rng.integers(0, len(some), array.shape)]
            array[...] = np.where(rng.random(array.shape) < 0.1, hostile, near.astype(object)).astype(array.dtype)
        elif name == "ConditionTensor":
            array[...] = rng.integers(0, 256, array.shape) * rng.integers(0, 2, array.shape)
        elif name == "InputTensor" and rng.random() < 0.5:
            # Zeros of either sign, for who looks for them.
            array[rng.random(array.shape) < 0.5] = -0.0 if array.dtype.kind == "f" else 0
            array[rng.random(array.shape) < 0.2] = 0
