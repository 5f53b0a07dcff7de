"""Casts of a checkpoint's tensors to one dtype when they are read: the only step that computes, and only on request.

Bytes of big-endian tensors are swapped in the same way.
"""

from __future__ import annotations

import json
import re
from codecs import BOM_UTF8
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from anydml.errors import ModelError
from anydml.files.location import Location, show
from anydml.files.location import names as names_of
from anydml.stores.checkpoints.composed import StoredTensors
from anydml.stores.checkpoints.vocabulary import set_rows
from anydml.stores.formats.block_types import is_of_blocks, name_of
from anydml.stores.formats.safetensors import DTYPES, NAMES, is_numpy_dtype, parse_json, unique
from anydml.stores.formats.store import Store
from anydml.text import count_noun

FROM = ("F64", "F32", "F16", "BF16")
"""The dtypes that are cast."""

TO = ("F64", "F32", "F16", "BF16", "F8_E4M3", "F8_E5M2")
"""The dtypes that tensors are cast to."""


SHORT = {
    "bf16": "BF16", "fp16": "F16", "f16": "F16", "half": "F16", "fp32": "F32", "f32": "F32",
    "float": "F32", "single": "F32", "fp64": "F64", "f64": "F64", "double": "F64", "fp8_e4m3": "F8_E4M3",
    "f8_e4m3": "F8_E4M3", "float8_e4m3": "F8_E4M3", "e4m3": "F8_E4M3", "fp8_e4m3fn": "F8_E4M3", "fp8_e5m2": "F8_E5M2",
    "f8_e5m2": "F8_E5M2", "e5m2": "F8_E5M2",
}  # fmt: skip
"""Further names of dtypes; as in PyTorch, float has 32 bits."""

_PACKED = ("qweight", "weight_packed", "W_q")
"""Last parts of names that only the integers of a quantized weight have."""

_CODES = re.compile(r"(?:(.+?)_)??(?:q?weight|(?:weight_)?packed|W_q|codes|B|trellis|Qidxs(?:_\d+)?|indices)")
"""Last parts of names of integers into which GPTQ, MLX, HQQ, AQLM, Marlin, EXL3, QuIP#, VPTQ and others pack numbers of
a weight, and the weight's own name, such as ``w13`` of ``w13_qweight``, if a module has several."""

_BESIDE = re.compile(
    r"(?P<of>.*?)(?:^|_)(?:(?P<scale>scales?(?:_(?:inv|max|\d+|bias))?|absmax|SCB|s|codebooks|su|sv|suh|svh)"
    r"|q?zeros?|zero_points?|biases|shift)"
)
"""Last parts of the names of tensors beside such integers; integers without a scale are not a quantized weight."""

_TABLE = re.compile(r"(?:|res_|outlier_)centroids")
"""Names of the modules in a module of VPTQ whose weights are the numbers that its integers stand for."""

_OF_SCALE = re.compile(r"(?:^|_)(?:weight|input|output|global|nested)$")
"""Endings of a scale's name that do not belong to the name of its weight."""

_DATA = re.compile(r"(.+?)(?:\._data)+")
"""Names of Quanto's integers, and that of the weight."""

_STATE = re.compile(r"(.+)\.quant_state\.bitsandbytes__\w+")
"""Names of bitsandbytes' tensors beside a weight, whose integers may be stored as floats."""

_QUANTIZED = re.compile(r"(i?q|tq|u?int|nf|fp|mxfp|nvfp|w)\d+.*|awq|gptq|gguf|bnb.*", re.IGNORECASE)
"""Names of parameters for the later quantization of an unquantized model."""


def dtype_of(name: str, dtype_name: Any) -> np.dtype[Any]:
    """Return the dtype of a cast by name; names of NumPy, PyTorch, safetensors and other tools are accepted.

    Raises:
        ModelError: tensors are not cast to it.
    """
    dtypes = {str(DTYPES[key]): DTYPES[key] for key in TO}
    if isinstance(dtype_name, (type, np.dtype)):
        try:
            dtype_name = str(np.dtype(dtype_name))
        except TypeError:
            dtype_name = str(dtype_name)
    text = str(dtype_name).removeprefix("torch.")
    short = text.lower().replace("-", "_")
    if (dtype := dtypes.get(short) or DTYPES.get(SHORT.get(short, ""))) is not None:
        return dtype
    hint = ""
    if short in ("fp8", "float8", "f8"):
        hint = ": there are two of 8 bits, fp8_e4m3 for weights, and fp8_e5m2"
    elif _QUANTIZED.fullmatch(short):
        hint = "; anydml does not quantize: cast to bfloat16, and quantize the result with another tool"
    elif short == "auto":
        hint = ": without it, dtypes stay as they are"
    raise ModelError(f"{name}: dtype must be one of {', '.join(dtypes)}, not {show(str(dtype_name))}{hint}")


def array_as(name: str, store: Any, dtype_name: Any) -> tuple[Store, list[str]]:
    """Return an array of a .npy file with another dtype or byte order when it is read, and remarks.

    Args:
        name: the name of the command, for errors.
        store: the array.
        dtype_name: the dtype that floating-point numbers are cast to, or the array's dtype in either byte order.

    Raises:
        ModelError: the file is not an array of a .npy file, or its elements are not cast to this dtype.
    """
    location = Location(str(store.path))
    if not isinstance(store, Store):
        raise location.error("is a Zarr array, whose dtype is kept: leave dtype out, or cast after writing a .npy file")
    try:
        # As in PyTorch, float has 32 bits.
        order = None if str(dtype_name).lower() in SHORT else np.dtype(dtype_name)
    except TypeError:
        order = None
    # "<f4" and "float32" are one dtype.
    if order is None or order.newbyteorder("<") != store.dtype.newbyteorder("<"):
        to = dtype_of(name, dtype_name if order is None or order.byteorder == ">" else order)
        if NAMES.get(store.dtype.newbyteorder("<"), "") not in FROM:
            raise location.error(
                f"has elements of {store.dtype}, but only floating-point numbers are cast: for others, dtype can only "
                f"set the order of bytes, such as {store.dtype.newbyteorder('<').str}"
            )
        cast, remarks = _cast(name, {"": store}, to)
    elif order == store.dtype:
        return store, []
    else:
        cast, remarks = (
            _read_as({"": store}, {"": order}),
            [f"swaps the bytes of elements, {store.dtype} to {order.str}"],
        )
    (own_store,) = cast.values()
    assert isinstance(own_store, Store)
    return own_store, remarks


def changed_dtypes(
    name: str, tensors: StoredTensors, dtype: np.dtype[Any] | None, is_little: bool
) -> tuple[StoredTensors, list[str]]:
    """Return the tensors with casts and byte swaps for when they are read, and remarks.

    Args:
        name: the name of the command, for errors.
        tensors: the tensors of a checkpoint.
        dtype: the dtype that floating-point numbers are cast to; None for no cast.
        is_little: whether all tensors must become little-endian.

    Raises:
        ModelError: a tensor has numbers of 8 bits, which mean nothing without their scales.
    """
    remarks = list[str]()
    if is_little:
        tensors, remarks = _swap(tensors)
    if dtype is None:
        return tensors, remarks
    tensors, casts = _cast(name, tensors, dtype)
    return tensors, remarks + casts


def _cast(name: str, tensors: StoredTensors, dtype: np.dtype[Any]) -> tuple[StoredTensors, list[str]]:
    """Return the tensors with floating-point numbers of another dtype, and remarks on the casts.

    Raises:
        ModelError: a tensor has numbers of 8 bits, which mean nothing without their scales.
    """
    counts, kinds = Counter[int](), dict[str, np.dtype[Any]]()
    quantized, uncast = _QuantizedTensors.of(tensors), list[str]()
    # By id, because hashing a dtype is slow.
    old_dtypes = {id(tensor.dtype): tensor.dtype for tensor in tensors.values()}
    names = {number: NAMES.get(old.newbyteorder("<"), "") for number, old in old_dtypes.items() if old != dtype}
    for key, tensor in tensors.items():
        type_name = names.get(id(tensor.dtype), "")
        if type_name.startswith("F8"):
            raise ModelError(f"{name}: {show(key)} is {tensor.dtype}, whose scales are other tensors: it is not cast")
        if type_name in FROM and quantized is not None and quantized.has(key):
            uncast.append(key)
        elif type_name in FROM:
            counts[id(tensor.dtype)] += 1
            kinds[key] = dtype
    by = "NumPy" if is_numpy_dtype(dtype) else "ml_dtypes"
    texts = Counter[np.dtype[Any]]()
    for number, count in counts.items():
        texts[old_dtypes[number].newbyteorder("=")] += count
    remarks = [
        f"casts {count_noun(n, 'tensor')} from {old} to {dtype} by {by}{_lost(old, dtype)}"
        for old, n in texts.items()
        if old != dtype
    ]
    if uncast:
        remarks.append(
            f"keeps the dtypes of {count_noun(len(uncast), 'tensor')} of quantized weights: {names_of(uncast)}"
        )
    blocks = {number: name_of(old) for number, old in old_dtypes.items() if is_of_blocks(old)}
    if in_blocks := sum(id(tensor.dtype) in blocks for tensor in tensors.values()):
        types = ", ".join(sorted({*blocks.values()}))
        remarks.append(f"keeps the dtypes of {count_noun(in_blocks, 'tensor')} in blocks, which are not cast: {types}")
    if swapped := texts[dtype]:
        remarks.append(f"swaps the bytes of {count_noun(swapped, 'big-endian tensor')}")
    return _read_as(tensors, kinds), remarks


class _QuantizedTensors(NamedTuple):
    """The quantized weights of a checkpoint: integers with scales beside them.

    Attributes:
        modules: modules in which all floating-point numbers except a bias belong to a quantized weight.
        parts: modules, and the names of weights in them: "" for the only one, ``w13`` for ``w13_qweight``.
        wholes: names of the weights; names of their scales may begin with these, as in ``weight.absmax``.
    """

    modules: Set[str]
    parts: Set[tuple[str, str]]
    wholes: Set[str]

    @classmethod
    def of(cls, tensors: StoredTensors) -> _QuantizedTensors | None:
        """Return the quantized tensors of a checkpoint; None if it has none."""
        # By id, because hashing a dtype is slow.
        integers = {id(tensor.dtype) for tensor in tensors.values() if tensor.dtype.kind in "iu"}
        weights, parts = dict[str, tuple[str, str]](), set[tuple[str, str]]()
        for key in (key for key, tensor in tensors.items() if id(tensor.dtype) in integers) if integers else ():
            state = _STATE.fullmatch(key)
            tensor_name = match[1] if (match := state or _DATA.fullmatch(key)) else key
            module, _, last = tensor_name.rpartition(".")
            weights[tensor_name] = module, (match[1] or "") if (match := _CODES.fullmatch(last)) else last
            if state or last in _PACKED:
                parts.add(weights[tensor_name])
        if not weights:
            return None
        of_modules = dict[str, set[str]]()
        for module, part in weights.values():
            of_modules.setdefault(module, set()).add(part)
        for key in tensors:
            module, _, last = key.rpartition(".")
            module_parts = of_modules.get(module, ())
            if (owner := _owner(module)) is not None and "" in of_modules.get(owner, ()):
                parts.add((owner, ""))
            if "" in module_parts and module and "scal" in last:
                parts.add((module, ""))
            elif (module_parts or module in weights) and (match := _BESIDE.fullmatch(last)) and match["scale"]:
                parts |= {(module, part) for part in _weights_of_scale(match["of"]) if part in module_parts}
                if module in weights:
                    parts.add(weights[module])
        # A name without dots belongs to no module, and tells nothing about other tensors.
        modules = {module for module, part in parts if not part} - {""}
        return (
            cls(modules, parts, {tensor_name for tensor_name, part in weights.items() if part in parts})
            if parts
            else None
        )

    def has(self, name: str) -> bool:
        """Whether a tensor belongs to a quantized weight, as scales do; a bias does not, but MLX's ``biases`` do."""
        module, _, last = name.rpartition(".")
        if last == "bias":
            return False
        if module in self.modules or module in self.wholes or name in self.wholes or _owner(module) in self.modules:
            return True
        match = _BESIDE.fullmatch(last)
        return match is not None and any((module, part) in self.parts for part in _weights_of_scale(match["of"]))


def _owner(module: str) -> str | None:
    """Return the module whose integers use another module's table of numbers; None if there is no such table."""
    owner, _, last = module.rpartition(".")
    return owner if _TABLE.fullmatch(last) else None


def _weights_of_scale(of: str) -> Iterator[str]:
    """Yield the weights that a scale may belong to: for ``w13_weight_scale``, ``w13_weight`` or ``w13``."""
    yield of
    while match := _OF_SCALE.search(of):
        of = of[: match.start()]
        yield of


def _lost(before: np.dtype[Any], after: np.dtype[Any]) -> str:
    """Describe the numbers that become infinite or nan in a cast to a dtype of narrower range; empty if none do."""
    max_after, max_before = _largest(after), _largest(before)
    if max_before <= 2 * max_after:
        return ""
    beyond = np.array([2 * max_after, -2 * max_after], before)
    with np.errstate(all="ignore"):
        is_nan = np.isnan(beyond.astype(after).astype(np.float64)).all()
    return f": numbers beyond ±{max_after:g} become {'nan' if is_nan else 'infinite'}"


def _largest(dtype: np.dtype[Any]) -> float:
    """Return the largest finite number of a floating-point dtype, of NumPy or of ml_dtypes."""
    if is_numpy_dtype(dtype):
        return float(np.finfo(dtype).max)
    import ml_dtypes

    return float(ml_dtypes.finfo(dtype).max)  # type: ignore[no-untyped-call]


def _swap(tensors: StoredTensors) -> tuple[StoredTensors, list[str]]:
    """Return the tensors in little-endian order, and a remark on tensors whose files have another byte order."""
    big_endian = {
        key: tensor.dtype.newbyteorder("<") for key, tensor in tensors.items() if tensor.dtype.byteorder == ">"
    }
    return _read_as(tensors, big_endian), [
        f"swaps the bytes of {count_noun(len(big_endian), 'big-endian tensor')}"
    ] if big_endian else []


def _read_as(tensors: StoredTensors, dtypes: Mapping[str, np.dtype[Any]]) -> StoredTensors:
    """Return the tensors, some of which get another dtype when they are read."""
    sources, stores = {**tensors}, dict[int, Store]()
    for key, dtype in dtypes.items():
        tensor = tensors[key]
        for store in [tensor] if isinstance(tensor, Store) else [piece.store for piece in tensor.pieces]:
            if id(store) not in stores:
                stored = store.dtype if store.stored is None else store.stored
                # dataclasses.replace and copy.copy take several times as long.
                stores[id(store)] = Store(
                    store.path, store.name, store.shape, dtype, store.offset, store.order, stored,
                    store.seen, store.packed, store.described_by,
                )  # fmt: skip
        if isinstance(tensor, Store):
            sources[key] = stores[id(tensor)]
        else:
            pieces = tuple(piece._replace(store=stores[id(piece.store)]) for piece in tensor.pieces)
            sources[key] = replace(tensor, dtype=dtype, pieces=pieces)
    return sources


def config_of(path: Path, dtype: np.dtype[Any] | None, new_rows: Mapping[int, int]) -> tuple[bytes, list[str]]:
    """Return the content of a config.json with another dtype of the tensors, and other sizes of vocabularies.

    Also return remarks on the sizes.
    """

    def made_of(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
        config = unique(pairs, location, "text")
        if dtype is not None:
            config |= {key: str(dtype) for key in ("dtype", "torch_dtype") if isinstance(config.get(key), str)}
        return config

    location = Location(str(path))
    content = parse_json(path.read_bytes().removeprefix(BOM_UTF8), location, "text", made_of)
    remarks = set_rows(content, new_rows)
    try:
        return (json.dumps(content, indent=2, ensure_ascii=False) + "\n").encode(), remarks
    except RecursionError:
        # Python's parser may accept more levels than its writer.
        raise location.error("has a text that is nested too deep") from None
