"""Memory for tests of the GPU engine: a GPU's through PyTorch, or the host's where kernels are interpreted.

A `Memory` is a run of bytes; windows of any offset and strides lie in it, and its bytes can be read back as a whole.
"""

import importlib.util

import numpy as np
import pytest

from anydml.engines.cuda.available import is_interpreted

ON_GPU = not is_interpreted()

needs_functions = pytest.mark.skipif(
    importlib.util.find_spec("array_api_compat") is None,
    reason="array-api-compat is not installed: the functions on arrays are not tested",
)
"""For tests of functions, which ask that package whose an array is; machines with a GPU may lack it."""


class Window:
    """A strided array on the device, for whoever reads ``__cuda_array_interface__``."""

    def __init__(self, memory, offset, shape, strides, dtype):
        self._memory = memory
        self.__cuda_array_interface__ = {
            "version": 3,
            "shape": tuple(shape),
            "typestr": np.dtype(dtype).str,
            "data": (memory.address + offset, False),
            "strides": tuple(strides),
        }


class Memory:
    """Bytes on the device, a copy of `content` (an array of bytes)."""

    def __init__(self, content):
        self._bytes = np.array(content, np.uint8)
        if ON_GPU:
            import torch

            self._bytes = torch.from_numpy(self._bytes).cuda()
            self.address = self._bytes.data_ptr()

    def window(self, offset, shape, strides, dtype):
        if ON_GPU:
            return Window(self, offset, shape, strides, dtype)
        return np.ndarray(shape, dtype, self._bytes, offset, strides)

    def read(self):
        return self._bytes.cpu().numpy() if ON_GPU else self._bytes


def put(array):
    """A copy of a NumPy array on the device, aligned as its library likes: PyTorch's where it knows the dtype."""
    if not ON_GPU:
        return np.array(array, order="C")
    import torch

    try:
        return torch.from_numpy(np.array(array, order="C")).cuda()
    except TypeError:
        memory = Memory(np.frombuffer(np.ascontiguousarray(array).tobytes(), np.uint8))
        return Window(memory, 0, array.shape, np.ascontiguousarray(array).strides, array.dtype)


def get(array):
    """A device array of `put`'s or of a result, in host memory."""
    return array.cpu().numpy() if ON_GPU else np.asarray(array)
