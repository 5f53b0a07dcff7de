"""Files of ``torch.save``: tensors in nested dicts and lists, named by their keys with dots in between.

The pickle in such a file is read as data and runs no code. Elements lie uncompressed in the file: in entries of a zip
file, or, before PyTorch 1.6, one storage after the other behind the pickles.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np

from anydml.errors import ModelError
from anydml.files.location import Location, show
from anydml.stores.formats.block_types import DTYPES_OF_BLOCKS, is_of_blocks
from anydml.stores.formats.npz import ZipEntry, entries
from anydml.stores.formats.pickle_reader import (
    PickledCall,
    PickledDict,
    PickledName,
    PickledReference,
    dict_of,
    read_pickle,
)
from anydml.stores.formats.safetensors import DTYPES
from anydml.stores.formats.store import FileContent, Store, file_state
from anydml.stores.formats.torch_legacy import read_legacy

MAX_DEPTH = 64
"""Maximum depth of nesting."""

MAX_VALUES = 1 << 22
"""Maximum number of values; a value that occurs twice counts twice."""

BY_TORCH = {
    "float64": "F64", "float32": "F32", "float16": "F16", "bfloat16": "BF16", "int64": "I64", "int32": "I32",
    "int16": "I16", "int8": "I8", "uint8": "U8", "uint16": "U16", "uint32": "U32", "uint64": "U64", "bool": "BOOL",
    "complex64": "C64", "float8_e4m3fn": "F8_E4M3", "float8_e5m2": "F8_E5M2", "float8_e4m3fnuz": "F8_E4M3FNUZ",
    "float8_e5m2fnuz": "F8_E5M2FNUZ", "float8_e8m0fnu": "F8_E8M0",
}  # fmt: skip
_STORAGES = {
    "Double": "float64", "Float": "float32", "Half": "float16", "BFloat16": "bfloat16", "Long": "int64",
    "Int": "int32", "Short": "int16", "Char": "int8", "Byte": "uint8", "Bool": "bool", "ComplexFloat": "complex64",
    "ComplexDouble": "complex128", "ComplexHalf": "complex32",
}  # fmt: skip
DTYPES_OF_TORCH: Mapping[str, np.dtype[Any]] = {
    **{name: DTYPES[key] for name, key in BY_TORCH.items()}, "complex128": np.dtype("<c16"),
    "float4_e2m1fn_x2": DTYPES_OF_BLOCKS["F4"], "complex32": DTYPES_OF_BLOCKS["complex32"],
}  # fmt: skip
"""Data types by PyTorch's names."""

_UTILS = "torch._utils"
_OF_TYPE = PickledName("torch._tensor", "_rebuild_from_type_v2")
_PLAIN = (("torch", "Tensor"), ("torch.nn.parameter", "Parameter"), ("torch.nn.parameter", "Buffer"))
"""Classes of tensors whose elements are all that they have."""

_REFUSED_REBUILDERS = {
    "_rebuild_qtensor": "is quantized", "_rebuild_sparse_tensor": "is sparse", "_rebuild_nested_tensor": "is nested",
    "_rebuild_meta_tensor_no_storage": "is of the device meta, and has no elements",
    "_rebuild_wrapper_subclass": "is of a subclass that wraps others",
    "_rebuild_device_tensor_from_numpy": "is of a device whose tensors are saved as NumPy's arrays",
    "_rebuild_device_tensor_from_cpu_tensor": "is of a device whose tensors are saved as others",
}  # fmt: skip
"""Functions that rebuild tensors that are not dense."""


def read_torch(path: Path, location: Location, start: int = 0, length: int | None = None) -> FileContent:
    """Read the tensors of a file of ``torch.save``; a tensor that was saved alone has an empty name.

    Args:
        path: the file, or a file that contains it.
        location: the location that errors name.
        start: offset in that file.
        length: the size in bytes; None if it extends to the end of the file.

    Raises:
        ModelError: the file is broken, or of a machine of another byte order.
    """
    return open_torch(path, location, start, length).tensors(location)


def open_torch(path: Path, location: Location, start: int = 0, length: int | None = None) -> TorchFile:
    """Read the pickle of a file of ``torch.save``; as `read_torch`.

    Raises:
        ModelError: the file is broken, or of a machine of another byte order.
    """
    with location.reading(), path.open("rb") as file:
        file.seek(start)
        if file.read(4) != b"PK\x03\x04":
            file.seek(start)
            return TorchFile(path, *read_legacy(file, location))
        return TorchFile(path, *_zipped(path, file, location, start, length))


class TorchDict(NamedTuple):
    """A dict in a file of ``torch.save``.

    Attributes:
        path: the path of the file.
        items: the items of the dict; empty if the file holds something else.
        tensors: all tensors.
        seen: the state of the file when it was read.
    """

    path: Path
    items: dict[str, Any]
    tensors: FileContent
    seen: tuple[Any, ...]

    def under(self, key: str) -> dict[str, Store]:
        """Return the tensors below a key, by the rest of their names."""
        items = self.tensors.stores.items()
        return {name.removeprefix(f"{key}."): store for name, store in items if name.startswith(f"{key}.")}


def read_torch_dict(path: Path) -> TorchDict:
    """Read a saved dict with its tensors and all other entries.

    Raises:
        ModelError: as in `read_torch`.
    """
    location = Location(str(path))
    with location.reading():
        state = file_state(path)
    opened = open_torch(path, location)
    tensors = opened.tensors(location)
    for store in tensors.stores.values():
        store.seen = state
    return TorchDict(path, dict_of(opened.content), tensors, state)


class TorchFile(NamedTuple):
    """A file of ``torch.save``.

    Attributes:
        path: the path of the file.
        content: the content of its pickle.
        storages: their places, by key.
    """

    path: Path
    content: Any
    storages: Mapping[str, ZipEntry]

    def tensors(self, location: Location) -> FileContent:
        """Return all tensors, as in `read_torch`.

        Raises:
            ModelError: two have one name.
        """
        stores, other_objects, refused = dict[str, Store](), list[str](), dict[str, ModelError]()
        for name, call in _named(self.content, "", location, (), count()):
            if call is None:
                other_objects.append(name)
                continue
            if name in stores or name in refused:
                raise location.error(f"has {show(name)} twice")
            try:
                stores[name] = _store(self.path, self.storages, name, call, location / name)
            except ModelError as error:
                refused[name] = error
        return FileContent(stores, {}, other_objects, refused)


def _zipped(
    path: Path, file: BinaryIO, location: Location, start: int, length: int | None
) -> tuple[Any, dict[str, ZipEntry]]:
    """Return the content of a zip file, and the places of its storages."""
    zip_entries = entries(path, location, start, length)
    name = next((entry for entry in zip_entries if entry.endswith("/data.pkl")), None)
    if name is None:
        raise location.error("has no data.pkl, which files of torch.save have")
    file.seek(zip_entries[name].offset)
    content = read_pickle(file.read(zip_entries[name].size), location)
    root = name.removesuffix("data.pkl")
    if order := zip_entries.get(f"{root}byteorder"):
        file.seek(order.offset)
        if file.read(order.size) != b"little":
            raise location.error("is of a machine whose byte order is big-endian")
    data = f"{root}data/"
    return content, {key.removeprefix(data): entry for key, entry in zip_entries.items() if key.startswith(data)}


def _named(
    value: Any, name: str, location: Location, around: tuple[int, ...], counter: Iterator[int]
) -> Iterator[tuple[str, PickledCall | None]]:
    """Yield tensors of nested dicts, lists and modules, and None for objects without tensors.

    Args:
        value: a dict, list, module or tensor.
        name: the name of the value.
        location: the location that errors name.
        around: ids of the objects that contain the value; an object in two places has two names, as in a state_dict.
        counter: counts values.
    """
    value = _plain_tensor(value)
    if (
        isinstance(value, PickledCall)
        and isinstance(value.function, PickledName)
        and value.function.name.startswith("_rebuild_")
    ):
        yield name, value
        return
    if isinstance(value, PickledDict):
        items: list[tuple[Any, Any]] = value
    elif isinstance(value, PickledCall):
        items = value.items or _of_module(value)
    elif isinstance(value, (list, tuple)) and not isinstance(value, (PickledName, PickledReference)):
        items = [*enumerate(value)]
    else:
        items = []
    if items and id(value) in around:
        raise location.error(f"has {show(name)}, which contains itself")
    if items and len(around) > MAX_DEPTH:
        raise location.error(f"has {show(name)}, which is nested more than {MAX_DEPTH} levels deep")
    if next(counter) >= MAX_VALUES:
        raise location.error(f"has more than {MAX_VALUES} values")
    named = [
        item
        for key, inner in items
        for item in _named(inner, f"{name}.{_key(key)}" if name else _key(key), location, (*around, id(value)), counter)
    ]
    if any(call for _, call in named):
        yield from named
        for attribute in _attributes_with_tensors(value, location, around, counter):
            yield f"{name or 'the dict'}, attribute {attribute}", None
    else:
        yield name, None


def _attributes_with_tensors(
    value: Any, location: Location, around: tuple[int, ...], counter: Iterator[int]
) -> Iterator[str]:
    """Yield the attributes of a dict that have tensors, which are no part of a state_dict."""
    if isinstance(value, PickledCall) and value.items and isinstance(value.state, PickledDict):
        for key, attribute in value.state:
            with suppress(ModelError):  # It contains itself.
                if any(call for _, call in _named(attribute, "", location, (*around, id(value)), counter)):
                    yield _key(key)


def _plain_tensor(value: Any) -> Any:
    """Unwrap a parameter, or a tensor with attributes; return any other value unchanged."""
    while isinstance(value, PickledCall) and isinstance(value.arguments, tuple) and value.arguments:
        name, arguments = value.function, value.arguments
        if name in (PickledName(_UTILS, "_rebuild_parameter"), PickledName(_UTILS, "_rebuild_parameter_with_state")):
            value = arguments[0]
        elif name == _OF_TYPE and len(arguments) > 2 and arguments[1] in _PLAIN:
            value = PickledCall(arguments[0], arguments[2])
        else:
            break
    return value


def _of_module(value: PickledCall) -> list[tuple[Any, Any]]:
    """Return the parameters, buffers and modules of a module of ``torch.nn``, as in its state_dict."""
    state = dict(value.state) if isinstance(value.state, PickledDict) else {}
    state_items = list[tuple[Any, Any]]()
    if not {"_parameters", "_buffers", "_modules"} <= {*state}:
        return state_items
    non_persistent = state.get("_non_persistent_buffers_set")
    if (
        isinstance(non_persistent, PickledCall)
        and isinstance(non_persistent.arguments, tuple)
        and non_persistent.arguments
    ):
        # Pickles of protocol 2 call set with a list.
        (non_persistent,) = non_persistent.arguments[:1]
    passing = non_persistent if isinstance(non_persistent, list) else []
    for attribute in ("_parameters", "_buffers", "_modules"):
        part = state[attribute]
        part = part.items if isinstance(part, PickledCall) else part
        if isinstance(part, PickledDict) or type(part) is list:
            state_items += [(key, item) for key, item in part if item is not None and key not in passing]
    return state_items


def _key(key: Any) -> str:
    return key if isinstance(key, str) else str(key)[:60]


def _store(path: Path, storages: Mapping[str, ZipEntry], name: str, call: PickledCall, location: Location) -> Store:
    """Return the store of a tensor."""
    function = call.function.name
    if call.function.module != _UTILS or function not in (
        "_rebuild_tensor",
        "_rebuild_tensor_v2",
        "_rebuild_tensor_v3",
    ):
        refused_kind = _REFUSED_REBUILDERS.get(function)
        if call.function == _OF_TYPE and isinstance(call.arguments, tuple) and len(call.arguments) > 1:
            refused_kind = f"is of the class {str(call.arguments[1])[:100]}"
        message = refused_kind or f"is rebuilt by {str(call.function)[:100]}, which is not known"
        raise location.error(f"{message}: only dense tensors can be read")
    arguments = call.arguments if isinstance(call.arguments, tuple) else ()
    storage = arguments[0].identity if arguments and isinstance(arguments[0], PickledReference) else None
    fewest = 4 if function == "_rebuild_tensor" else 6
    if len(arguments) < fewest or not isinstance(storage, tuple) or len(storage) < 5 or storage[0] != "storage":
        raise location.error("is not a tensor that torch.save writes")
    start, shape, stride = arguments[1:4]
    storage_class, key = storage[1], storage[2]
    if has_explicit_dtype := function == "_rebuild_tensor_v3":
        storage_type = arguments[6] if len(arguments) > 6 else None
    else:
        kind_name = storage_class.name.removesuffix("Storage") if isinstance(storage_class, PickledName) else ""
        storage_type = PickledName("torch", _STORAGES.get(kind_name, kind_name))
    # The last argument says whether elements are conjugated or negated.
    bits = dict(
        item
        for extra in arguments[7 if has_explicit_dtype else 6 :]
        if isinstance(extra, PickledDict)
        for item in extra
    )
    lazy = sorted(str(bit) for bit, is_set in bits.items() if is_set)
    if unknown := [bit for bit in lazy if bit not in ("conj", "neg")]:
        raise location.error(f"is lazily changed by {unknown[0][:60]}, which is not known")
    dtype_name = storage_type.name if isinstance(storage_type, PickledName) and storage_type.module == "torch" else ""
    if dtype_name not in DTYPES_OF_TORCH:
        raise location.error(f"is of dtype {show(str(storage_type)[:60])}, which NumPy and ml_dtypes do not have")
    dtype = DTYPES_OF_TORCH[dtype_name]
    numbers = [
        start,
        *(shape if isinstance(shape, tuple) else (-1,)),
        *(stride if isinstance(stride, tuple) else (-1,)),
    ]
    if any(type(number) is not int or not 0 <= number < 1 << 48 for number in numbers) or len(shape) != len(stride):
        raise location.error("has an offset, shape or strides that are not integers from 0 to 2⁴⁸ − 1")
    entry = storages.get(str(key), ZipEntry(0, 0))
    if len(storage) > 5 and isinstance(storage[5], tuple):
        # Before version 0.4, PyTorch had storages that are views of others.
        raise location.error(
            "is a view of a storage, which old versions of PyTorch wrote: load it there, and save it again"
        )
    offset = entry.offset + start * dtype.itemsize
    # From the largest stride to the smallest, such as (0, 2, 3, 1) of channels_last.
    order = tuple(sorted(range(len(shape)), key=lambda axis: -stride[axis] if shape[axis] > 1 else -(1 << 48)))
    if lazy and is_of_blocks(dtype):
        raise location.error(
            f"is {dtype_name} of which signs are left for later: save its resolve_conj().resolve_neg()"
        )
    stored = np.dtype([("_".join(lazy), dtype)]) if lazy else None
    store = Store(path, name, shape, dtype, offset, None if _is_rising(order) else order, stored)
    if not _is_like(store, stride):
        raise location.error(
            f"has shape {[*shape]} and strides {[*stride]}, which skip or repeat elements of its storage: save a "
            "contiguous copy"
        )
    if store.offset + store.nbytes > entry.offset + entry.size:
        raise location.error(
            f"has {store.size} elements from {start} on, which its storage, {str(key)[:40]}, does not hold"
        )
    return store


def _is_rising(order: tuple[int, ...]) -> bool:
    return order == tuple(range(len(order)))


def _is_like(store: Store, stride: tuple[int, ...]) -> bool:
    """Whether strides, in elements, are those of a store; strides of dimensions of size 1 do not matter."""
    steps = zip(store.shape, store.strides, stride, strict=True)
    return not store.size or all(size == 1 or stride == step * store.dtype.itemsize for size, stride, step in steps)
