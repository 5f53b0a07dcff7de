"""Arrays of a graph's types in .npy files, which know neither ONNX's small floats nor its strings.

Types that NumPy does not have (bfloat16, float8, the 4-bit types) are stored as their bytes, as NumPy itself stores
them; strings as NumPy's fixed-length ones. Nothing is ever unpickled.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from anydml.files import npy
from anydml.files.folder import write_whole
from anydml.files.json_path import JsonPath
from anydml.memory import limits
from anydml.onnx.tensors import Array
from anydml.text import bytes_text


def read(path: Path, dtype: np.dtype[Any], place: JsonPath) -> Array:
    """The array in a .npy file, mapped into memory rather than read; copied where its bytes are in foreign order.

    Args:
        path: the file.
        dtype: what the graph's input has; bytes of the same size are taken for it where NumPy has no such type.
        place: for errors.

    Raises:
        ModelError: it is no .npy file, is not as long as its header says, holds Python objects, or does not fit.
    """
    found = npy.read_header(path, place)
    plain: Array = npy.mapped(found, place)
    if not plain.dtype.isnative:
        available = limits.available_memory()
        if available is not None and found.byte_count > available:
            have = f"{bytes_text(available)} of memory are available"
            raise place.error(f"{path} takes {bytes_text(found.byte_count)} in native byte order, but {have}")
        plain = plain.astype(plain.dtype.newbyteorder("="))
    if dtype.kind == "V" and plain.dtype != dtype and plain.itemsize == dtype.itemsize and plain.dtype.kind in "Vu":
        return plain.view(dtype)
    return plain


def write(path: Path, array: Array, place: JsonPath) -> None:
    """Write an array as a .npy file, whole or not at all.

    Raises:
        ModelError: the file cannot be written.
    """
    if array.dtype.hasobject:
        array = array.astype(np.str_)
    elif array.dtype.kind == "V":
        array = array.view(np.dtype((np.void, array.itemsize)))
    write_whole(path, lambda file: npy.write(file, array), place)
