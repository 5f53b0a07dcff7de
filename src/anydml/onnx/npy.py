"""Arrays of a graph's types in .npy files, which know neither ONNX's small floats nor its strings.

Types that NumPy does not have (bfloat16, float8, the 4-bit types) are stored as their bytes, as NumPy itself stores
them; strings as NumPy's fixed-length ones. Nothing is ever unpickled.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.lib import format as npy_format

from anydml.dxdispatch.files import write_whole
from anydml.dxdispatch.place import Place
from anydml.onnx.tensors import Array


def read(path: Path, dtype: np.dtype[Any], place: Place) -> Array:
    """The array in a .npy file, mapped into memory rather than read.

    Args:
        path: the file.
        dtype: what the graph's input has; bytes of the same size are taken for it where NumPy has no such type.
        place: for errors.

    Raises:
        ModelError: it is no .npy file, is shorter than its header says, or holds Python objects.
    """
    try:
        array: Array = np.load(path, mmap_mode="r", allow_pickle=False)
    except OSError as error:
        raise place.error(f"{path} cannot be read: {error.strerror or error}") from None
    except Exception as error:
        # NumPy lets the errors of every parser that it uses pass through; whatever they are, the file is to blame.
        reason = (str(error) or repr(error)).splitlines()[0]
        raise place.error(f"{path} is not a .npy file of numbers or strings: {reason}") from None
    if not isinstance(array, np.ndarray):
        raise place.error(f"{path} is not a .npy file")
    plain = np.asarray(array)
    if not plain.dtype.isnative:
        plain = plain.astype(plain.dtype.newbyteorder("="))
    if dtype.kind == "V" and plain.dtype != dtype and plain.itemsize == dtype.itemsize and plain.dtype.kind in "Vu":
        return plain.view(dtype)
    return plain


def write(path: Path, array: Array, place: Place) -> None:
    """Write an array as a .npy file, whole or not at all.

    Raises:
        ModelError: the file cannot be written.
    """
    if array.dtype.hasobject:
        array = array.astype(np.str_)
    elif array.dtype.kind == "V":
        array = array.view(np.dtype((np.void, array.itemsize)))
    write_whole(path, lambda file: npy_format.write_array(file, array, allow_pickle=False), place)
