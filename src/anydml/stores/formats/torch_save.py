"""Files of ``torch.save``: tensors in nested dicts and lists, named by their keys with dots in between.

The pickle in such a file is read as data and runs no code. Elements lie uncompressed in the file.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from anydml.files.json_path import JsonPath, show
from anydml.stores.formats.npz import ZipEntry, entries
from anydml.stores.formats.pickle_reader import PickledCall, PickledDict, PickledName, PickledReference, read_pickle
from anydml.stores.formats.safetensors import DTYPES
from anydml.stores.formats.store import FileContent, Store

MOST_DEPTH = 64
"""Most nested dicts and lists."""

BY_TORCH = {
    "float64": "F64", "float32": "F32", "float16": "F16", "bfloat16": "BF16", "int64": "I64", "int32": "I32",
    "int16": "I16", "int8": "I8", "uint8": "U8", "uint16": "U16", "uint32": "U32", "uint64": "U64", "bool": "BOOL",
    "complex64": "C64", "float8_e4m3fn": "F8_E4M3", "float8_e5m2": "F8_E5M2", "float8_e4m3fnuz": "F8_E4M3FNUZ",
    "float8_e5m2fnuz": "F8_E5M2FNUZ", "float8_e8m0fnu": "F8_E8M0",
}  # fmt: skip
_STORAGES = {
    "Double": "float64", "Float": "float32", "Half": "float16", "BFloat16": "bfloat16", "Long": "int64",
    "Int": "int32", "Short": "int16", "Char": "int8", "Byte": "uint8", "Bool": "bool", "ComplexFloat": "complex64",
}  # fmt: skip
_UTILS = "torch._utils"


def read_torch(path: Path, place: JsonPath, start: int = 0, length: int | None = None) -> FileContent:
    """Read the tensors of a file of ``torch.save``; a tensor that was saved alone has an empty name.

    Args:
        path: the file, or a file that contains it.
        place: for errors.
        start: offset in that file.
        length: its bytes; None if it extends to the end of the file.

    Raises:
        ModelError: the file is broken, of the format before PyTorch 1.6, or has a tensor that is not contiguous.
    """
    with path.open("rb") as file:
        file.seek(start)
        if file.read(4) != b"PK\x03\x04":
            raise place.error("is no zip file, as torch.save writes: load files older than PyTorch 1.6, and save again")
        found = entries(path, place, start, length)
        name = next((each for each in found if each.endswith("/data.pkl")), None)
        if name is None:
            raise place.error("has no data.pkl, which files of torch.save have")
        file.seek(found[name].offset)
        content = read_pickle(file.read(found[name].size), place)
        root = name.removesuffix("data.pkl")
        if order := found.get(f"{root}byteorder"):
            file.seek(order.offset)
            if file.read(order.size) != b"little":
                raise place.error("is of a machine whose byte order is big-endian")
    stores, others = dict[str, Store](), list[str]()
    for name_in_file, call in _named(content, "", place, 0, set()):
        if call is None:
            others.append(name_in_file)
            continue
        if name_in_file in stores:
            raise place.error(f"has {show(name_in_file)} twice")
        stores[name_in_file] = _store(path, root, found, name_in_file, call, place / name_in_file)
    return FileContent(stores, {}, others)


def _named(
    value: Any, name: str, place: JsonPath, depth: int, seen: set[int]
) -> Iterator[tuple[str, PickledCall | None]]:
    """Tensors of nested dicts and lists, and None for what contains no tensor."""
    if isinstance(value, PickledCall) and value.function == PickledName(_UTILS, "_rebuild_parameter"):
        value = value.arguments[0] if isinstance(value.arguments, tuple) and value.arguments else None
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
        items = value.items
    elif isinstance(value, (list, tuple)) and not isinstance(value, (PickledName, PickledReference)):
        items = [*enumerate(value)]
    else:
        items = []
    if items and (id(value) in seen or depth > MOST_DEPTH):
        raise place.error(f"has {show(name)} inside itself, twice, or too deep")
    seen.add(id(value))
    found = [
        each
        for key, inner in items
        for each in _named(inner, f"{name}.{_key(key)}" if name else _key(key), place, depth + 1, seen)
    ]
    if any(call for _, call in found):
        yield from found
    else:
        yield name, None


def _key(key: Any) -> str:
    return key if isinstance(key, str) else str(key)[:60]


def _store(
    path: Path, root: str, found: Mapping[str, ZipEntry], name: str, call: PickledCall, place: JsonPath
) -> Store:
    """The store of a tensor."""
    which = call.function.name
    if call.function.module != _UTILS or which not in ("_rebuild_tensor_v2", "_rebuild_tensor_v3"):
        raise place.error(f"is rebuilt by {str(call.function)[:100]}, which is not known: dense tensors are read alone")
    arguments = call.arguments if isinstance(call.arguments, tuple) else ()
    storage = arguments[0].identity if arguments and isinstance(arguments[0], PickledReference) else None
    if len(arguments) < 6 or not isinstance(storage, tuple) or len(storage) != 5 or storage[0] != "storage":
        raise place.error("is no tensor that torch.save writes")
    start, shape, stride = arguments[1:4]
    kind, key = storage[1], storage[2]
    if asked_is_given := which == "_rebuild_tensor_v3":
        asked = arguments[6] if len(arguments) > 6 else None
    else:
        kind_name = kind.name.removesuffix("Storage") if isinstance(kind, PickledName) else ""
        asked = PickledName("torch", _STORAGES.get(kind_name, kind_name))
    # The last argument says how elements differ from those in the file.
    bits = dict(
        each for more in arguments[7 if asked_is_given else 6 :] if isinstance(more, PickledDict) for each in more
    )
    if lazy := sorted(str(bit) for bit, is_set in bits.items() if is_set):
        how = {"conj": "conjugated: save x.resolve_conj()", "neg": "negated: save x.resolve_neg()"}
        raise place.error(f"is lazily {' and '.join(how.get(bit, f'changed by {bit[:60]}') for bit in lazy)} instead")
    dtype_name = asked.name if isinstance(asked, PickledName) and asked.module == "torch" else ""
    if dtype_name not in BY_TORCH:
        raise place.error(f"is of dtype {show(str(asked)[:60])}, which is not known")
    dtype = DTYPES[BY_TORCH[dtype_name]]
    numbers = [
        start,
        *(shape if isinstance(shape, tuple) else (-1,)),
        *(stride if isinstance(stride, tuple) else (-1,)),
    ]
    if any(type(each) is not int or not 0 <= each < 1 << 48 for each in numbers) or len(shape) != len(stride):
        raise place.error("has a place, shape or strides that are no counts")
    entry = found.get(f"{root}data/{key}", ZipEntry(0, 0))
    offset = entry.offset + start * dtype.itemsize
    # From the largest stride to the smallest, such as (0, 2, 3, 1) of channels_last.
    order = tuple(sorted(range(len(shape)), key=lambda axis: -stride[axis] if shape[axis] > 1 else -(1 << 48)))
    store = Store(path, name, shape, dtype, offset, None if _is_rising(order) else order)
    if not _is_like(store, stride):
        raise place.error(
            f"has shape {[*shape]} and strides {[*stride]}, which skip or repeat elements of its storage: save a "
            "contiguous copy"
        )
    if store.offset + store.nbytes > entry.offset + entry.size:
        raise place.error(f"has {store.size} elements from {start} on, which data/{str(key)[:40]} does not hold")
    return store


def _is_rising(order: tuple[int, ...]) -> bool:
    return order == tuple(range(len(order)))


def _is_like(store: Store, stride: tuple[int, ...]) -> bool:
    """Whether strides, in elements, are those of a store, in dimensions where they matter."""
    steps = zip(store.shape, store.strides, stride, strict=True)
    return not store.size or all(size == 1 or own == each * store.dtype.itemsize for size, own, each in steps)
