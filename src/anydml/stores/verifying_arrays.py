"""`verify` of Zarr arrays, Zarr groups and .npy files: elements, fill values, names of axes and attributes."""

from __future__ import annotations

import filecmp
import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from anydml.errors import PATH_NOT_FOUND, BindingError, ModelError
from anydml.files.addresses import Address
from anydml.files.location import Location, names, show
from anydml.moves.composer import Composer
from anydml.progress import progress_bar
from anydml.stores.differences import Comparison, Difference
from anydml.stores.formats.block_types import name_of
from anydml.stores.formats.columns import content_bytes
from anydml.stores.formats.inside_files import PathInFile, locate_inside, lost_of
from anydml.stores.formats.npz import npz_array
from anydml.stores.formats.opening import open as open_store
from anydml.stores.formats.store import Store
from anydml.stores.formats.zarr_array import ZarrStore, open_zarr
from anydml.stores.formats.zarr_groups import ZarrGroup
from anydml.stores.formats.zarr_metadata import attributes_of, axes_of, is_zarr, is_zarr_group
from anydml.stores.planning.base_plan import BasePlan
from anydml.stores.running.compared_blocks import Unequal, compare
from anydml.stores.streaming import memory_of

Arrays = Mapping[str, Store | ZarrStore]

MAX_ATTRIBUTE_TEXT = 200
"""Maximum number of characters of an attribute in a message."""


def is_of_arrays(path: str | os.PathLike[str]) -> bool:
    """Whether a path is a Zarr array or group, a .npy file, or an array of a .npz file."""
    location = locate_inside("verify", path)
    return (
        isinstance(location, PathInFile)
        or is_zarr(location)
        or (location.suffix.lower() == ".npy" and location.is_file())
        or npz_array(location) is not None
    )


def compare_arrays(
    first: str | os.PathLike[str],
    second: str | os.PathLike[str],
    memory: int | str,
    progress: bool | Callable[[int], None] = False,
) -> Comparison:
    """Compare two arrays, or two groups of arrays.

    Chunks, shards, codecs and the version of Zarr may differ. Fill values, names of axes and attributes are compared
    where both are Zarr.

    Args:
        first: a Zarr array or group, or a .npy file.
        second: the other array or group.
        memory: as in `anydml.stores.verify`.
        progress: as in `verify`.

    Raises:
        ModelError: an array cannot be read, or only one of the two is a group.
        BindingError: the memory is too small.
    """
    sides = [locate_inside("verify", path) for path in (first, second)]
    for side, other_side in (sides, sides[::-1]):
        if not is_of_arrays(other_side):
            if not other_side.exists():
                raise Location(str(other_side)).error(PATH_NOT_FOUND)
            raise Location(str(other_side)).error(
                f"is not an array or group as {side} is: name two Zarr arrays or groups, .npy files or arrays of .npz "
                "files, such as x.npz/a"
            )
        if is_zarr_group(side) and not is_zarr_group(other_side):
            raise Location(str(side)).error(
                f"is a group of arrays, and {other_side} is one array: name one of them in it"
            )
    (arrays, attributes, remarks, closed, refused), (
        other_arrays, other_attributes, other_remarks, other_closed, other_refused
    ) = (_open(path) for path in sides)  # fmt: skip
    differences = [
        Difference(name, "unread", f"{show(name)} is not compared, because {reason}")
        for name, reason in {**other_refused, **refused}.items()
    ]
    differences += [
        *_describe({**arrays, **closed, **refused}, {**other_arrays, **other_closed, **other_refused}),
        *_unreadable_arrays(sides, closed, other_closed),
    ]
    differences += [*_metadata(attributes, other_attributes), *_kept_with(arrays, other_arrays)]
    in_both = [
        name
        for name in {**closed, **other_closed}
        if name in {**arrays, **closed} and name in {**other_arrays, **other_closed}
    ]
    remarks += [
        f"{side}: attributes that JSON cannot hold are not compared: {names(lost)}"
        for side in sides
        if (lost := lost_of(side))
    ]
    remarks += [f"{show(name)} is compared file by file: {closed.get(name) or other_closed[name]}" for name in in_both]
    alike_names = [name for name in arrays if name in other_arrays and _is_alike(arrays[name], other_arrays[name])]
    total = sum(arrays[name].nbytes for name in alike_names)
    size = memory_of("verify", memory)
    with progress_bar(total, 0, progress) as advance:
        for name in alike_names:
            unequal = _elements(arrays[name], other_arrays[name], size, advance)
            if unequal is not None:
                differences.append(_difference(name, _subject(name), unequal))
    return Comparison(differences, len(alike_names), [*remarks, *other_remarks])


def _difference(name: str, subject: str, unequal: Unequal) -> Difference:
    """Return a difference of elements."""
    text = f"{subject} differs at {[*unequal.index]}: {' and '.join(unequal.values)}"
    return Difference(name, "elements", text, unequal.count)


def _open(path: Path) -> tuple[Arrays, dict[str, Any], list[str], dict[str, str], dict[str, str]]:
    """Return the arrays of a path, the attributes of its groups, remarks, and what cannot be compared.

    Returns:
        Arrays and attributes, by relative path; remarks; why arrays cannot be read, of which the files are compared;
        and why others cannot be read, of which nothing is compared.
    """
    if not is_zarr_group(path):
        return {"": open_store(path)}, {}, [], {}, {}
    group = ZarrGroup(path)
    remarks = [f"{path}: these are not compared: {names(group.left)}"] if group.left else []
    arrays, closed = dict[str, Store | ZarrStore](), dict[str, str]()
    for name in group.arrays:
        try:
            arrays[name] = open_zarr(path / name)
        except ModelError as error:
            closed[name] = str(error)
    refused = {name: f"in {path} it {reason}" for name, reason in group.refused.items()}
    return arrays, {name: group.attributes(name) for name in group.groups}, remarks, closed, refused


def _unreadable_arrays(sides: Sequence[Path], closed: Mapping[str, str], also: Mapping[str, str]) -> list[Difference]:
    """Return differences of arrays that cannot be read on some side, and have other files on each side."""
    differences = list[Difference]()
    for name in {**closed, **also}:
        files = [{str(path.relative_to(side / name)): path for path in _files(side / name)} for side in sides]
        if all(files) and not (
            files[0].keys() == files[1].keys()
            and all(_is_same_file(path, files[1][key]) for key, path in files[0].items())
        ):
            reason = closed.get(name) or also[name]
            text = f"{show(name)} has other files in each, and is not compared by elements: {reason}"
            differences.append(Difference(name, "elements", text))
    return differences


def _files(folder: Path) -> Iterator[Path]:
    if isinstance(folder, Address):
        yield from folder.files()
    else:
        yield from (path for path in folder.rglob("*") if path.is_file())


def _is_same_file(first: Path, second: Path) -> bool:
    if isinstance(first, Address) or isinstance(second, Address):
        return first.read_bytes() == second.read_bytes()
    return filecmp.cmp(first, second, False)


def _describe(
    first: Mapping[str, Store | ZarrStore | str], second: Mapping[str, Store | ZarrStore | str]
) -> list[Difference]:
    """Return differences of names, dtypes and shapes."""
    differences = [
        Difference(name, "missing", f"{show(name)} is only in the first") for name in first if name not in second
    ]
    differences += [
        Difference(name, "added", f"{show(name)} is only in the second") for name in second if name not in first
    ]
    for name, store in first.items():
        another = second.get(name)
        if not (isinstance(store, str) or another is None or isinstance(another, str) or _is_alike(store, another)):
            kinds = " and ".join(f"{name_of(array.dtype)} {[*array.shape]}" for array in (store, another))
            differences.append(Difference(name, "kind", f"{_subject(name)} differs: {kinds}"))
    return differences


def _is_alike(x: Store | ZarrStore, y: Store | ZarrStore) -> bool:
    """Whether dtypes and shapes are equal; the byte order of chunks may differ."""
    # Each field of a record may have its own byte order.
    return x.shape == y.shape and x.dtype.newbyteorder("<") == y.dtype.newbyteorder("<")


def _subject(name: str) -> str:
    return show(name) if name else "the array"


def _kept_with(first: Arrays, second: Arrays) -> list[Difference]:
    """Return differences of fill values, names of axes and attributes of arrays."""
    differences = list[Difference]()
    for name, store in first.items():
        another = second.get(name)
        if not (isinstance(store, ZarrStore) and isinstance(another, ZarrStore)):
            continue
        pairs = list[tuple[str, str, str]]()
        if _is_alike(store, another):
            fills = [np.frombuffer(array.layout.fill, array.dtype)[0] for array in (store, another)]
            if fills[0].astype(another.dtype).tobytes() != fills[1].tobytes():
                pairs.append(("fill values", str(fills[0]), str(fills[1])))
        axes = [[*axes_of(array.metadata)] or None for array in (store, another)]
        if axes[0] != axes[1]:
            pairs.append(("names of axes", json.dumps(axes[0]), json.dumps(axes[1])))
        differences += [
            Difference(name, "metadata", f"{noun} of {_subject(name)} differ: {a} and {b}") for noun, a, b in pairs
        ]
        differences += _metadata({name: attributes_of(store.metadata)}, {name: attributes_of(another.metadata)}, True)
    return differences


def _show_both(first: str, second: str) -> str:
    """Return two texts for a message, from shortly before their first difference on."""
    if max(len(first), len(second)) <= MAX_ATTRIBUTE_TEXT:
        return f": {first} and {second}"
    pairs = enumerate(zip(first, second, strict=False))
    position = next((k for k, (x, y) in pairs if x != y), min(len(first), len(second)))
    begin = max(0, position - MAX_ATTRIBUTE_TEXT // 4)
    shown = (f"…{text[begin : begin + MAX_ATTRIBUTE_TEXT]}…" for text in (first, second))
    return f" from character {position} on: {' and '.join(shown)}"


def _metadata(first: Mapping[str, Any], second: Mapping[str, Any], is_array: bool = False) -> list[Difference]:
    """Return differences of attributes."""
    differences = list[Difference]()
    for name in {**first, **second}:
        if name not in first or name not in second:
            side = "second" if name not in first else "first"
            differences.append(Difference(name, "metadata", f"group {show(name)} is in the {side} alone"))
            continue
        of = _subject(name) if is_array else f"group {show(name)}" if name else "the group"
        for key in {**first[name], **second[name]}:
            texts = [
                json.dumps(document[name][key], sort_keys=True) if key in document[name] else "none"
                for document in (first, second)
            ]
            if texts[0] != texts[1]:
                text = f"attribute {show(key)} of {of} differs{_show_both(*texts)}"
                differences.append(Difference(name, "metadata", text))
    return differences


def _elements(
    first: Store | ZarrStore, second: Store | ZarrStore, memory: int, advance: Callable[[int], None]
) -> Unequal | None:
    if not first.nbytes:
        return None
    if (
        isinstance(second, Store)
        and second.order is not None
        and not (isinstance(first, Store) and first.order is not None)
    ):
        swapped = _elements(second, first, memory, advance)
        return swapped and replace(swapped, values=(swapped.values[1], swapped.values[0]))
    if isinstance(first, Store) and isinstance(second, Store) and first.order == second.order is not None:
        as_stored, other_as_stored = (replace(store, shape=store.layout.shape, order=None) for store in (first, second))
        unequal = _elements(as_stored, other_as_stored, memory, advance)
        return unequal and replace(unequal, index=tuple(unequal.index[axis] for axis in np.argsort(second.order)))
    composer = Composer("verify")
    value = composer.input("first", first.shape, first.strides, first.dtype.itemsize)
    composer.output("second", value)
    (unequal,) = compare(composer.program(is_simple=False), [first], [second], [first.dtype], memory, advance)
    return unequal


COMPARED_METADATA = (
    "node_type", "shape", "data_type", "chunk_grid", "chunk_key_encoding", "fill_value", "codecs", "attributes",
    "dimension_names",
)  # fmt: skip
"""The part of Zarr 3's metadata that is compared."""


def _is_icechunk(path: Path) -> bool:
    return isinstance(path, PathInFile) and bool(path.references.version)


def _is_same_node(first: bytes, second: bytes) -> bool:
    """Whether two nodes have equal metadata; Icechunk writes its own text, without consolidated metadata."""
    node, other_node = json.loads(first), json.loads(second)
    return all(node.get(key) == other_node.get(key) for key in COMPARED_METADATA)


def compare_outputs(plan: BasePlan, progress: bool | Callable[[int], None] = False) -> list[Difference]:
    """Read the inputs and the outputs of a plan that was run, and compare them.

    The outputs are opened anew by what their own metadata say. Copied files are compared byte by byte.

    Args:
        plan: as in `anydml.stores.rechunk`.
        progress: as in `anydml.stores.Plan.run`.

    Raises:
        ModelError: an output cannot be read.
        BindingError: something has changed meanwhile.
    """
    if plan.program_between_arrays is None:
        raise BindingError(f"{plan.name}: outputs of this plan are compared by anydml.stores.verify")
    differences = list[Difference]()
    described = {target.path / name: text for target in plan.arrays for name, text in target.metadata.items()}
    for path, content in {**plan.other_files, **described}.items():
        output_path = locate_inside(plan.name, path)
        if isinstance(content, Path) and output_path.name != "zarr.json":
            is_same = _is_same_file(content, output_path)
        else:
            text = content.read_bytes() if isinstance(content, Path) else content_bytes(content)
            is_same = output_path.read_bytes() == text or (
                _is_icechunk(output_path) and _is_same_node(output_path.read_bytes(), text)
            )
        if not is_same:
            differences.append(Difference(str(path), "elements", f"{path} has other bytes than were written"))
    stores = [open_store(target.path) for target in plan.outputs]
    for target, store in zip(plan.outputs, stores, strict=True):
        if not _is_alike(target, store):
            kinds = " and ".join(f"{name_of(array.dtype)} {[*array.shape]}" for array in (target, store))
            differences.append(Difference(str(target.path), "kind", f"{target.path} differs: {kinds}"))
    if differences:
        return differences
    dtypes = [target.dtype for target in plan.outputs]
    with progress_bar(plan.totals.bytes_written, 0, progress) as advance:
        unequal = compare(plan.program_between_arrays, plan.inputs, stores, dtypes, plan.memory, advance)
    return [
        _difference(str(store.path), str(store.path), difference)
        for store, difference in zip(stores, unequal, strict=True)
        if difference is not None
    ]
