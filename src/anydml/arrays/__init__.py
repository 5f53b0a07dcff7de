"""Adapters for arrays of other libraries: arrays are read in place, and results are of the same library.

An `ArrayAdapter` wraps one array of another library than NumPy. The engines see its memory as a NumPy array (a
`DeviceArray` on a GPU), without a copy; results become arrays of its library and device, without a copy either.
No array library is imported that the caller has not imported.

    pytorch   PyTorch: host memory and GPUs
    jax       JAX: host memory, and GPUs through DLPack
    dlpack    CuPy: GPUs; any other library with DLPack or ``__cuda_array_interface__``
"""

from __future__ import annotations

from anydml.arrays.adapter import ONE_PLACE, ArrayAdapter
from anydml.arrays.receive import read_argument, read_arrays, target_array

__all__ = ["ONE_PLACE", "ArrayAdapter", "read_argument", "read_arrays", "target_array"]
