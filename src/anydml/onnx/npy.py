"""Read and write arrays of ONNX's element types as .npy files.

Types that NumPy does not have (bfloat16, float8, the 4-bit types) are stored as raw bytes, as NumPy itself does, and
strings as fixed-length ones. Nothing is ever unpickled.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from anydml.files import npy
from anydml.files.folder import write_whole
from anydml.files.location import Location
from anydml.memory import limits
from anydml.onnx.tensor_protos import Array
from anydml.text import bytes_text


def read(path: Path, dtype: np.dtype[Any], location: Location) -> Array:
    """Memory-map the array of a .npy file; copy it if it is not in native byte order.

    Args:
        path: the file.
        dtype: dtype of the graph's input; if NumPy lacks it, raw bytes of this size are viewed as that dtype.
        location: prefix of errors.

    Raises:
        ModelError: the file is not a .npy file, is shorter or longer than its header says, contains Python objects, or
            does not fit into memory.
    """
    header = npy.read_header(path, location)
    plain: Array = npy.map_elements(header, location)
    if not plain.dtype.isnative:
        available = limits.available_memory()
        if available is not None and header.byte_count > available:
            available_text = f"{bytes_text(available)} of memory are available"
            raise location.error(
                f"{path} takes {bytes_text(header.byte_count)} in native byte order, but {available_text}"
            )
        plain = plain.astype(plain.dtype.newbyteorder("="))
    if dtype.kind == "V" and plain.dtype != dtype and plain.itemsize == dtype.itemsize and plain.dtype.kind in "Vu":
        return plain.view(dtype)
    return plain


def write(path: Path, array: Array, location: Location, sources: Iterable[Path] = ()) -> None:
    """Write an array as a .npy file, atomically; `sources` as for `write_whole`.

    Raises:
        ModelError: the file cannot be written.
    """
    if array.dtype.hasobject:
        array = array.astype(np.str_)
    elif array.dtype.kind == "V":
        array = array.view(np.dtype((np.void, array.itemsize)))
    write_whole(path, lambda file: npy.write(file, array), location, sources)
