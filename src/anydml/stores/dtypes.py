"""The data types of safetensors files, and NumPy's for them.

The document: https://github.com/huggingface/safetensors, "Format".
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import ml_dtypes
import numpy as np

DTYPES: Mapping[str, np.dtype[Any]] = {
    "BOOL": np.dtype("?"),
    "U8": np.dtype("u1"),
    "I8": np.dtype("i1"),
    "F8_E5M2": np.dtype(ml_dtypes.float8_e5m2),
    "F8_E4M3": np.dtype(ml_dtypes.float8_e4m3fn),
    "F8_E8M0": np.dtype(ml_dtypes.float8_e8m0fnu),
    "F8_E4M3FNUZ": np.dtype(ml_dtypes.float8_e4m3fnuz),
    "F8_E5M2FNUZ": np.dtype(ml_dtypes.float8_e5m2fnuz),
    "I16": np.dtype("<i2"),
    "U16": np.dtype("<u2"),
    "F16": np.dtype("<f2"),
    "BF16": np.dtype(ml_dtypes.bfloat16),
    "I32": np.dtype("<i4"),
    "U32": np.dtype("<u4"),
    "F32": np.dtype("<f4"),
    "I64": np.dtype("<i8"),
    "U64": np.dtype("<u8"),
    "F64": np.dtype("<f8"),
    "C64": np.dtype("<c8"),
}
"""By the names of the format; elements are little-endian."""

NAMES = {dtype: name for name, dtype in DTYPES.items()}

PARTS_OF_BYTES = {"F4": 4, "F6_E2M3": 6, "F6_E3M2": 6}
"""Types whose elements are no whole bytes, and how many bits they have."""


def is_own_dtype(dtype: np.dtype[Any]) -> bool:
    """Whether NumPy alone knows this dtype by name, so that a .npy file can say it."""
    return dtype.kind != "V" and not dtype.hasobject and np.dtype(dtype.str) == dtype
