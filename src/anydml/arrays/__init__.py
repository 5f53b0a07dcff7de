"""Arrays of other libraries: read where they lie, and answered in kind.

An `ArrayAdapter` holds one array of a caller who does not use NumPy. The engines see its memory as a NumPy array (a
`DeviceArray` on a GPU), without a copy; results are made for its library and device, without a copy either.
`array_api_compat` says whose array it is; no library is imported that the caller has not imported.

    pytorch   PyTorch: host memory and GPUs
    jax       JAX: host memory, and GPUs through DLPack
    cupy      CuPy: GPUs
    dlpack    whatever else speaks DLPack, or has ``__cuda_array_interface__``
"""

from __future__ import annotations

from anydml.arrays.adapter import ONE_PLACE, ArrayAdapter
from anydml.arrays.receive import host_values, received, received_all, received_indices, target_array

__all__ = ["ONE_PLACE", "ArrayAdapter", "host_values", "received", "received_all", "received_indices", "target_array"]
