"""The libraries whose arrays the functions take, as the tests need them: one `Library` a library that is installed."""

import importlib.util

import ml_dtypes
import numpy as np

DTYPES = (
    "bool",
    "uint8",
    "int16",
    "int64",
    "float16",
    "float32",
    "complex64",
    "bfloat16",
    "float8_e4m3fn",
    "float8_e5m2",
)


def numpy_dtype(name):
    """NumPy's dtype of this name, or that of ml_dtypes."""
    return np.dtype(getattr(ml_dtypes, name, name))


class Library:
    """A library: how its arrays are made from NumPy's, read back, and where they lie."""

    name = "numpy"
    dtypes = DTYPES
    can_write = True
    why_not = "out is read-only"
    results_are_numpys = True

    def make(self, array):
        return array

    def read(self, array):
        return np.asarray(array)

    def is_own(self, array):
        return type(array) is np.ndarray

    def address(self, array):
        return array.__array_interface__["data"][0]

    def ones(self, *shape):
        """Made without another array of that size."""
        return np.ones(shape, np.float32)

    def zeros(self, array):
        return self.make(np.zeros_like(array))


class Torch(Library):
    name = "torch"
    results_are_numpys = False

    def __init__(self):
        import torch

        self.torch = torch

    def make(self, array):
        name = array.dtype.name
        if hasattr(ml_dtypes, name):
            raw = np.ascontiguousarray(array).view(f"u{array.itemsize}").view(f"i{array.itemsize}")
            return self.torch.from_numpy(raw.copy()).view(getattr(self.torch, name))
        return self.torch.from_numpy(array.copy())

    def read(self, array):
        if not self.has_numpy_dtype(array):
            bits = {1: self.torch.uint8, 2: self.torch.int16}[array.dtype.itemsize]
            return array.view(bits).numpy().view(numpy_dtype(str(array.dtype).removeprefix("torch.")))
        return array.numpy()

    def ones(self, *shape):
        return self.torch.ones(shape)

    def has_numpy_dtype(self, array):
        return not hasattr(ml_dtypes, str(array.dtype).removeprefix("torch."))

    def is_own(self, array):
        return type(array) is self.torch.Tensor and array.device.type == "cpu"

    def address(self, array):
        return array.data_ptr()


class Jax(Library):
    name = "jax"
    # 64-bit types are off unless the caller turns them on.
    dtypes = tuple(name for name in DTYPES if name != "int64")
    can_write = False
    why_not = "out is a JAX array that is immutable: omit out"

    def __init__(self):
        import jax

        self.jax = jax

    def make(self, array):
        return self.jax.numpy.array(array).block_until_ready()

    def ones(self, *shape):
        return self.jax.numpy.ones(shape, np.float32).block_until_ready()

    def is_own(self, array):
        return isinstance(array, self.jax.Array) and array.devices() == {self.jax.devices("cpu")[0]}

    def address(self, array):
        return array.unsafe_buffer_pointer()


TAKES_TO_WRITE = np.from_dlpack(np.zeros(1)).flags.writeable
"""Whether this NumPy may write to arrays that come by DLPack."""


class Strict(Library):
    """The array API standard's own test library: nothing but what the standard has."""

    name = "array_api_strict"
    dtypes = ("bool", "uint8", "int16", "int64", "float32", "complex64")
    can_write = TAKES_TO_WRITE

    def __init__(self):
        import array_api_strict

        self.library = array_api_strict

    def make(self, array):
        return self.library.asarray(array.copy())

    def is_own(self, array):
        return type(array) is type(self.library.empty(0))

    def read(self, array):
        return np.from_dlpack(array)

    def address(self, array):
        return self.read(array).__array_interface__["data"][0]


class Speaker:
    """An array that speaks DLPack and nothing else."""

    def __init__(self, array):
        self.array = array

    def __dlpack__(self, **arguments):
        return self.array.__dlpack__(**arguments)

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()


def from_dlpack(array):
    """What a library of `Speaker`s takes arrays of others by."""
    return Speaker(np.from_dlpack(array))


class Speakers(Library):
    name = __name__
    dtypes = ("uint8", "float32")
    can_write = TAKES_TO_WRITE

    def make(self, array):
        return Speaker(array.copy())

    def is_own(self, array):
        return type(array) is Speaker

    def read(self, array):
        return array.array

    def address(self, array):
        return array.array.__array_interface__["data"][0]


_EVERY = {library.name: library for library in (Library, Torch, Jax, Strict, Speakers)}

LIBRARIES = {name: library for name, library in _EVERY.items() if importlib.util.find_spec(name)}
"""Those that can be asked here, by name; the summary of a run names those that cannot."""


def open_library(name):
    """A library."""
    return LIBRARIES[name]()


GUESTS = [name for name in LIBRARIES if name != "numpy"]
"""Every library but NumPy."""

GUEST_DTYPES = [(name, dtype) for name in GUESTS for dtype in LIBRARIES[name].dtypes]
"""Each of them with each dtype that it has."""
