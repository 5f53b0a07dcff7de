"""`verify` and `compare`: whether two checkpoints contain the same tensors, or two groups the same arrays."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from typing import Any

import numpy as np

from anydml.errors import ModelError
from anydml.files.location import show
from anydml.progress import progress_bar
from anydml.stores.argument_checks import FLAG, checked
from anydml.stores.checkpoints.casting import dtype_of
from anydml.stores.checkpoints.presets import LayoutName
from anydml.stores.checkpoints.selecting import EVERYTHING, Selection, Strings
from anydml.stores.checkpoints.small_file_differences import differences_beside
from anydml.stores.differences import Comparison, Difference
from anydml.stores.formats.block_types import elements_of, is_of_blocks, name_of, shape_in_elements
from anydml.stores.formats.store import Array, uncollected
from anydml.stores.manifests import Manifest, hashes_of, is_manifest, read_manifest
from anydml.stores.ordered_tensors import ReadTensors, read_tensors
from anydml.stores.planning.identities import check_unchanged, identities_of_stores
from anydml.stores.streaming import Part, TensorStream, ahead, memory_of, parts_of
from anydml.stores.verifying_arrays import compare_arrays, is_of_arrays

Shapes = Mapping[str, tuple[tuple[int, ...], np.dtype[Any]]]


@checked()
def verify(
    first: str | os.PathLike[str],
    second: str | os.PathLike[str],
    layout: str | os.PathLike[str] | None = None,
    to: LayoutName | None = None,
    memory: int | str = "256MB",
    follow: bool = True,
    progress: bool | Callable[[int], None] = False,
) -> str | None:
    """Compare two checkpoints, bit for bit, however their tensors are divided into files and ranks.

    Zarr arrays, Zarr groups, .npy files and arrays of .npz files (``x.npz/a``) are compared, too, however they are
    divided into chunks: their elements, and Zarr's fill values, names of axes and attributes.

    Args:
        first: a checkpoint, as in `anydml.stores.reshard`, or a manifest; or a Zarr array or group, or a .npy file.
        second: the other checkpoint.
        layout: rules for the first, as in `anydml.stores.reshard`; the second must contain their results.
        to: as in `anydml.stores.convert`, instead of a layout.
        memory: bytes of all buffers together, or a string such as ``"256MB"``.
        follow: as in `anydml.stores.open`.
        progress: as in `anydml.stores.Plan.run`.

    Returns:
        None if all names, dtypes, shapes and bytes are equal, otherwise the first difference; `compare` returns all.

    Raises:
        ModelError: a checkpoint or the layout is broken.
        BindingError: the memory is too small.

    Examples:
        >>> from anydml import stores
        >>> for name, value in ("a", 1), ("b", 2):
        ...     np.save("w.npy", np.array([[1, 1], [1, value]], "f4"))
        ...     files = stores.create(f"{name}.safetensors", shape={"w": [2, 2]}, dtype="float32")
        ...     dml.fuse(lambda w: {"w": w}).plan(stores.open("w.npy"), files).run()
        >>> stores.verify("a.safetensors", "b.safetensors")
        '"w" differs at [1, 1]: 1.0 and 2.0'
    """
    comparison = _compare(first, second, (layout, None), to, memory, follow, progress, None, EVERYTHING, False, False)
    return comparison.differences[0].text if comparison.differences else None


@checked(metadata=FLAG)
def compare(
    first: str | os.PathLike[str],
    second: str | os.PathLike[str],
    layout: str | os.PathLike[str] | None = None,
    to: LayoutName | None = None,
    memory: int | str = "256MB",
    follow: bool = True,
    progress: bool | Callable[[int], None] = False,
    dtype: Any = None,
    metadata: bool = False,
    only: Strings = (),
    drop: Strings = (),
    strip: Strings = (),
    rename: Mapping[str, str] | Sequence[tuple[str, str]] = (),
    second_layout: str | os.PathLike[str] | None = None,
) -> Comparison:
    """Find all differences of two checkpoints.

    Args:
        first: as in `verify`.
        second: as in `verify`.
        layout: as in `verify`.
        to: as in `verify`.
        memory: as in `verify`.
        follow: as in `verify`.
        progress: as in `verify`.
        dtype: to which the first is cast, as in `anydml.stores.reshard`.
        metadata: whether keys and values of the files' metadata must be equal, too.
        only: as in `anydml.stores.reshard`, of the first.
        drop: as in `anydml.stores.reshard`, of the first.
        strip: as in `anydml.stores.reshard`, of the first.
        rename: as in `anydml.stores.reshard`, of the first.
        second_layout: rules for the second.

    Returns:
        All differences.

    Raises:
        ModelError: a checkpoint or a layout is broken.
        BindingError: the memory is too small.

    Examples:
        >>> from anydml import stores
        >>> np.save("w.npy", np.ones(3, "f4"))
        >>> files = stores.create("a.safetensors", shape={"w": [3]}, dtype="float32")
        >>> dml.fuse(lambda w: {"w": w}).plan(stores.open("w.npy"), files).run()
        >>> stores.reshard(["a.safetensors"], "b.safetensors", dtype="bf16", rename={"w": "v"}).run()
        >>> stores.compare("a.safetensors", "b.safetensors", dtype="bf16").differences[0].text
        '"w" is only in the first'
    """
    selection = Selection.of(only, drop, strip, rename)
    layouts = layout, second_layout
    return _compare(first, second, layouts, to, memory, follow, progress, dtype, selection, metadata, True)


@uncollected()
def _compare(
    first: str | os.PathLike[str],
    second: str | os.PathLike[str],
    layouts: tuple[str | os.PathLike[str] | None, str | os.PathLike[str] | None],
    to: str | None,
    memory: int | str,
    follow: bool,
    progress: bool | Callable[[int], None],
    dtype: Any,
    selection: Selection,
    with_metadata: bool,
    is_whole: bool,
) -> Comparison:
    """Like `compare`, or up to the first difference."""
    if is_of_arrays(first) or is_of_arrays(second):
        if (
            any(layout is not None for layout in layouts)
            or to is not None
            or dtype is not None
            or selection != EVERYTHING
        ):
            raise ModelError("verify: layouts, dtypes and choices of tensors are for checkpoints, and not for arrays")
        return compare_arrays(first, second, memory, progress)
    if layouts[0] is not None and to is not None:
        raise ModelError("verify: layout and to are both given: one of them says what the second checkpoint holds")
    first_side = _side(first, layouts[0], to, follow, dtype, selection)
    second_side = _side(second, layouts[1], None, follow, None, EVERYTHING)
    remarks = [
        f"{path}: {remark}"
        for path, checkpoint in ((first, first_side), (second, second_side))
        for remark in checkpoint.remarks
    ]
    known_sums = [side.files if isinstance(side, Manifest) else None for side in (first_side, second_side)]
    remarks += differences_beside(first, second, known_sums)
    differences = [*_describe(first_side.described, second_side.described)]
    cast_to = None if dtype is None else dtype_of("verify", dtype)
    if cast_to is not None and not any(other == cast_to for _, other in second_side.described.values()):
        remarks.append(f"{second}: has no tensor of {cast_to}, to which {first} is cast: name the uncast one first")
    if with_metadata:
        differences += _metadata(first_side.metadata, second_side.metadata)
    if differences and not is_whole:
        return Comparison(differences, 0, remarks)
    shared = {
        name: tensor_dtype
        for name, tensor_dtype in first_side.described.items()
        if second_side.described.get(name) == tensor_dtype
    }
    total = sum(math.prod(shape) * tensor_dtype.itemsize for shape, tensor_dtype in shared.values())
    # Each side has an eighth of the memory for parts that are compared, one for those read ahead, and a quarter for its
    # buffers.
    size = memory_of("verify", memory)
    with progress_bar(total, 0, progress) as advance:
        if isinstance(first_side, Manifest) or isinstance(second_side, Manifest):
            sums = [side.hashes if isinstance(side, Manifest) else hashes_of(side, shared, size, advance)
                    for side in (first_side, second_side)]  # fmt: skip
            differences += _compare_checksums(shared, *sums)
        else:
            differences += _compare_elements(first_side, second_side, shared, size, advance, is_whole)
    return Comparison(differences, len(shared), remarks)


def _side(
    path: str | os.PathLike[str],
    layout: str | os.PathLike[str] | None,
    to: str | None,
    follow: bool,
    dtype: Any,
    selection: Selection,
) -> ReadTensors | Manifest:
    if not is_manifest(path):
        return read_tensors("verify", path, layout, to, follow, dtype, selection)
    if layout is not None or to is not None or dtype is not None or selection != EVERYTHING:
        raise ModelError(f"verify: {path} is a manifest, whose checksums are of tensors as they are: name it second")
    return read_manifest(path)


def _describe(first: Shapes, second: Shapes) -> Iterator[Difference]:
    """Yield differences of names, dtypes and shapes."""
    for name in first:
        if name not in second:
            yield Difference(name, "missing", f"{show(name)} is only in the first")
    for name in second:
        if name not in first:
            yield Difference(name, "added", f"{show(name)} is only in the second")
    for name, (shape, dtype) in first.items():
        if name in second and second[name] != (shape, dtype):
            kinds_text = (
                f"{name_of(tensor_dtype)} {[*shape_in_elements(sizes, tensor_dtype)]}"
                for sizes, tensor_dtype in ((shape, dtype), second[name])
            )
            yield Difference(name, "kind", f"{show(name)} differs: {' and '.join(kinds_text)}")


def _metadata(first: Mapping[str, str], second: Mapping[str, str]) -> Iterator[Difference]:
    """Yield differences of metadata."""
    for key in {**first, **second}:
        if first.get(key) != second.get(key):
            texts = " and ".join(
                "none" if metadata.get(key) is None else show(metadata[key]) for metadata in (first, second)
            )
            yield Difference(key, "metadata", f"metadata {show(key)} differ: {texts}")


def _compare_checksums(shared: Shapes, first: Mapping[str, str], second: Mapping[str, str]) -> Iterator[Difference]:
    """Yield differences of checksums."""
    for name in shared:
        if first[name] != second[name]:
            yield Difference(name, "checksum", f"{show(name)} differs: SHA-256 {first[name]} and {second[name]}")


def _compare_elements(
    first: ReadTensors,
    second: ReadTensors,
    shared: Shapes,
    memory: int,
    advance: Callable[[int], None],
    is_whole: bool,
) -> list[Difference]:
    """Return the first difference of elements, or the first one of each tensor."""
    sides = [TensorStream(side.composer, side.tensors, memory // 4) for side in (first, second)]
    identities = identities_of_stores("verify", [store for side in sides for store in side.sources])
    differences: dict[str, Difference] = {}
    with ExitStack() as opened:
        pairs = list[Iterator[tuple[list[Part], list[Array]]]]()
        for side in sides:
            readings = opened.enter_context(closing(side.read(parts_of(shared, memory // 8))))
            pairs.append(ahead(readings, opened.enter_context(ThreadPoolExecutor(1))))
        for (parts, ours), (_, theirs) in zip(*pairs, strict=True):
            for part, our_bytes, their_bytes in zip(parts, ours, theirs, strict=True):
                advance(our_bytes.size)
                if _is_equal(our_bytes, their_bytes):
                    continue
                location, count = _describe_first(part, shared[part.name], our_bytes, their_bytes)
                difference = differences.get(part.name, Difference(part.name, "elements", location))
                differences[part.name] = difference._replace(elements=difference.elements + count)
                if not is_whole:
                    check_unchanged("verify", identities)
                    return [*differences.values()]
    check_unchanged("verify", identities)
    return [*differences.values()]


def _is_equal(x: Array, y: Array) -> bool:
    """Whether bytes are equal, compared as words."""
    end = x.size - x.size % 8
    return np.array_equal(x[:end].view(np.uint64), y[:end].view(np.uint64)) and np.array_equal(x[end:], y[end:])


def _describe_first(
    part: Part, kind: tuple[tuple[int, ...], np.dtype[Any]], ours: Array, theirs: Array
) -> tuple[str, int]:
    """Describe the first element that differs, and the number of elements that differ."""
    shape, dtype = kind
    differing = (ours != theirs).reshape(-1, dtype.itemsize).any(1)
    first = int(differing.argmax())
    index = [*map(int, np.unravel_index(part.first + first, shape))]
    elements = [side[first * dtype.itemsize :][: dtype.itemsize] for side in (ours, theirs)]
    is_kept = is_of_blocks(dtype)
    values = [] if is_kept else [str(element.view(dtype)[0]) for element in elements]
    if is_kept or values[0] == values[1]:
        values = [element.tobytes().hex()[:80] for element in elements]
    noun = "block " if elements_of(dtype) > 1 else ""
    return f"{show(part.name)} differs at {noun}{index}: {' and '.join(values)}", int(differing.sum())
