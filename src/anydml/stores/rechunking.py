"""`rechunk`: an array with other chunks, and sliced, reversed or transposed axes."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from anydml.errors import BindingError
from anydml.files.addresses import Address, check_written
from anydml.files.located import locate, map_concurrently
from anydml.files.location import Location, names, show
from anydml.stores.argument_checks import SIZES, checked
from anydml.stores.checkpoints.casting import array_as
from anydml.stores.formats.inside_files import PathInFile, locate_inside, remarks_on_reading
from anydml.stores.formats.npz import npz_array
from anydml.stores.formats.opening import open as open_store
from anydml.stores.formats.packing import check_packed
from anydml.stores.formats.store import Checkpoint, Store
from anydml.stores.formats.target import Target, new_npy, remarks_on_folder
from anydml.stores.formats.zarr_array import ZarrStore
from anydml.stores.formats.zarr_metadata import attribute_remarks, axes_of, is_same, is_zarr_array, is_zarr_group
from anydml.stores.formats.zarr_target import ZarrTarget, new_zarr
from anydml.stores.functions import MEMORY, plan_function
from anydml.stores.plans import Plan
from anydml.stores.rechunking_groups import SAME, GroupSizes, array_remarks, like, rechunk_group
from anydml.text import count_noun

UNWRITABLE_SUFFIXES = (
    *(".safetensors", ".gguf", ".npz", ".bin", ".ckpt", ".pt", ".pth", ".onnx", ".json"),
    *(".h5", ".hdf5", ".nc", ".nc4", ".n5", ".tif", ".tiff"),
)
"""Suffixes of formats that are not written, so that such names are not taken for folders."""

_PART = re.compile(r"(?P<one>-?\d{1,18})|(?P<start>-?\d{1,18})?:(?P<stop>-?\d{1,18})?(?::(?P<step>-?\d{1,18})?)?")


@checked(shards=SIZES)
def rechunk(
    source: str | os.PathLike[str],
    target: str | os.PathLike[str],
    chunks: GroupSizes | None = None,
    permute: Sequence[int] | None = None,
    slices: str | None = None,
    flip: Sequence[int] = (),
    codec: str | None = None,
    memory: int | str = MEMORY,
    overwrite: bool = False,
    shards: Sequence[int] | None = None,
    zarr_format: Literal[2, 3] | None = None,
    dtype: Any = None,
) -> Plan:
    """Plan to rewrite a Zarr array or a .npy file as either of them, or a Zarr group as another one.

    Slices are taken first, then axes are reversed and transposed. From Zarr to Zarr, all metadata are kept unless an
    argument changes them: version, codecs, filters, shards, fill value, names of axes and attributes. The remarks of
    the plan list what cannot be kept. Some arrays of a group get other chunks; the others, such as coordinates, are
    copied file by file, and consolidated metadata are updated.

    Args:
        source: the folder of a Zarr array or group, or a .npy file; each of them may lie at an address, such as
            ``s3://bucket/x.zarr``, which obstore reads by its own settings.
        target: a .npy file, a zip store (.zip) or a new repository of Icechunk (.icechunk), by its suffix; otherwise
            the folder of a Zarr array, which may lie at an address, too.
        chunks: sizes of a chunk of the result, −1 for a whole axis, or a list of all sizes along an axis, such as
            ``[[10, 10, 5], 20]``, which only some readers of Zarr know; by default those of the source. They may
            exceed the array's sizes, which may grow later. For a group, sizes for all arrays with as many axes that
            are not coordinates, or sizes by the names of arrays.
        permute: axis k of the result is axis ``permute[k]`` of the source.
        slices: one per axis, as in Python: ``"0:10,:,::2"``; a single number removes its axis, and an empty slice is
            refused. Or by the names of axes: ``"time=0:10,x=::2"``, of a group for every array that has them.
        flip: axes of the source that are reversed.
        codec: as in `create`.
        memory: bytes of all buffers together, or a string such as ``"256MB"``.
        overwrite: whether an existing output may be replaced.
        shards: sizes of a shard, −1 for a whole axis, empty for one file per chunk; by default those of the source,
            rounded up to whole chunks.
        zarr_format: version of Zarr's format, 2 or 3; by default that of the source, or 3. Names of axes are kept; of a
            group all arrays are written anew.
        dtype: of a .npy file: one to which floating-point numbers are cast when read, or its own in another order of
            bytes, such as ``"<f4"``; by default that of the source, and its order.

    Returns:
        The plan; nothing is read or written before its `run`.

    Raises:
        ModelError: the source is broken, or the target cannot be made.
        BindingError: an argument does not fit the source, or the memory is too small.

    Examples:
        >>> from anydml import stores
        >>> np.save("x.npy", np.arange(6).reshape(2, 3))
        >>> stores.rechunk("x.npy", "x.zarr", chunks=[1, 3]).run()
        >>> stores.open("x.zarr").shape
        (2, 3)
    """
    path, output = locate_inside("rechunk", source), locate("rechunk", target)
    location = Location(str(path))
    _check_target(output, locate_inside("rechunk", target))
    if is_zarr_group(path):
        if dtype is not None:
            raise location.error("is a group: dtype can only change a .npy file, so leave it out")
        if permute is not None or flip:
            raise location.error("is a group, but permute and flip apply to one array: name an array of it as IN")
        if output.suffix.lower() in (".npy", *UNWRITABLE_SUFFIXES):
            raise location.error(
                f"is a group, but {output.name} would hold one array: name a group as OUT, or an array as IN"
            )
        check_packed(output, zarr_format or (3 if (path / "zarr.json").is_file() else 2), Location(str(output)))
        slices_by_name = None if slices is None else _slices_by_name(slices, location)
        return rechunk_group(path, output, chunks, shards, codec, memory, overwrite, zarr_format, slices_by_name)
    store = open_store(path)
    if isinstance(chunks, Mapping):
        raise location.error(
            "is one array, but chunks are given by name, which is for groups: write chunks without a name"
        )
    if isinstance(store, Checkpoint):
        is_npz = path.suffix.lower() == ".npz"
        advice = "name one of them, such as x.npz/a, or" if is_npz else "to write it in other files,"
        raise location.error(f"is a checkpoint, but rechunk takes arrays: {advice} use anydml reshard")
    store, casts = (store, []) if dtype is None else array_as("rechunk", store, dtype)
    index = _index(_by_axes(slices, store, location), store.shape, location)
    flipped = [_axis(axis, store.ndim, "flip", location) for axis in flip]
    output_axes = [k for k, entry in enumerate(index) if isinstance(entry, slice)]
    if any(axis not in output_axes for axis in flipped):
        raise BindingError(
            f"rechunk: {location}: flip names an axis from which slice takes one element, and which OUT does not have: "
            "leave it out of flip"
        )
    flips = tuple(slice(None, None, -1) if axis in flipped else slice(None) for axis in output_axes)
    order = (
        [*range(len(output_axes))]
        if permute is None
        else [_axis(axis, len(output_axes), "permute", location) for axis in permute]
    )
    if sorted(order) != [*range(len(output_axes))]:
        raise BindingError(
            f"rechunk: {location}: permute must name each of its {len(output_axes)} axes once, not {order}"
        )

    def function(x: Any) -> Any:
        # With an ellipsis, a single element keeps its byte order.
        return x[(*index, ...)][(*flips, ...)].transpose(order)

    shape = tuple(
        len(range(*entry.indices(store.shape[k]))) for k, entry in enumerate(index) if isinstance(entry, slice)
    )
    shape = tuple(shape[k] for k in order)
    new: Any
    if output.suffix.lower() == ".npy":
        if chunks is not None or codec is not None or shards is not None or zarr_format is not None:
            raise Location(str(output)).error(
                "is a .npy file, which has no chunks and no codecs: name a folder such as x.zarr, or "
                "leave these options out"
            )
        new = new_npy(output, shape, store.dtype)
    elif output.suffix.lower() in UNWRITABLE_SUFFIXES:
        raise Location(str(output)).error(
            f"would be a {output.suffix} file, which is not written: name a .npy file, or a folder such as x.zarr"
        )
    else:
        origin = like(store) if isinstance(store, ZarrStore) else None
        new = new_zarr(
            output, shape, store.dtype, chunks, origin, codec, [output_axes[k] for k in order], shards, zarr_format
        )
    plan = plan_function(function, "rechunk", store, new, memory, overwrite)
    keeps_all_elements = order == [*range(store.ndim)] and all(flip == slice(None) for flip in flips)
    keeps_all_elements &= all(_is_whole(entry, size) for entry, size in zip(index, store.shape, strict=True))
    plan.remarks = [*casts, *_remarks(store, new, shards, keeps_all_elements and not casts)]
    plan.remarks += [] if isinstance(new, Target) else remarks_on_folder(output)
    return plan


def _is_whole(entry: Any, size: int) -> bool:
    """Whether a slice selects a whole axis unchanged."""
    return isinstance(entry, slice) and range(size)[entry] == range(size)


def _check_target(output: Path, source: Path) -> None:
    """Refuse addresses that cannot have a Zarr array, and names inside files and repositories that are read-only."""
    of_npz = npz_array(source)
    file = source.file if isinstance(source, PathInFile) and source.key else of_npz and of_npz[0]
    if file is not None:
        raise Location(str(output)).error(f"would be in {file}, which is only read: name a folder beside it")
    if isinstance(output, Address):
        check_written(output)
        if output.suffix.lower() == ".npy":
            raise Location(str(output)).error("is a .npy file, which is not written at an address: name one of Zarr")
    ask = map_concurrently if isinstance(output, Address) else map
    if any(ask(is_zarr_array, (path for path in output.parents if not isinstance(path, Address) or path.key))):
        raise Location(str(output)).error("would be in a Zarr array, which only has chunks: name a folder beside it")


def _remarks(
    store: Store | ZarrStore, new: Target | ZarrTarget, shards: Sequence[int] | None, keeps_all_elements: bool
) -> list[str]:
    """Return remarks on properties of the source that are not kept, and on a plan that changes nothing."""
    if not isinstance(store, ZarrStore):
        is_copy = keeps_all_elements and store.order is None and isinstance(new, Target)
        return ["changes nothing: this writes the same elements in the same order"] if is_copy else []
    if isinstance(new, Target):
        lost = attribute_remarks(store.metadata)
        return [f"leaves out what a .npy file cannot store: {', '.join(lost[:10])}"
                + f" and {len(lost) - 10} more" * (len(lost) > 10)] if lost else []  # fmt: skip
    remarks = [*array_remarks(store, new, shards), *remarks_on_reading(store.path)]
    if isinstance(store.path, Address) and not store.path.is_listed:
        remarks.append(f"reads {store.path}, which cannot be listed: that a chunk changes meanwhile is not noticed")
    if keeps_all_elements and is_same(store.metadata, new.metadata):
        remarks.append(f"changes nothing: {SAME}")
    return remarks


def _by_axes(slices: str | None, store: Store | ZarrStore, location: Location) -> str | None:
    """Return one slice per axis, in order, from slices by axis name."""
    if slices is None or "=" not in slices:
        return slices
    slices_by_name = _slices_by_name(slices, location)
    axes = axes_of(store.metadata) if isinstance(store, ZarrStore) else []
    if unknown := [name for name in slices_by_name if axes.count(name) != 1]:
        hint = (
            f"its axes are {names(map(str, axes))}" if any(axes) else "its axes have no names; write a slice per axis"
        )
        count = axes.count(unknown[0])
        finding = "no axis" if not count else f"{count} axes called"
        raise location.error(f"has {finding} {show(unknown[0])}: {hint}")
    texts = {name: ":".join("" if part is None else str(part) for part in (entry.start, entry.stop, entry.step))
             for name, entry in slices_by_name.items()}  # fmt: skip
    return ",".join(texts.get(axis, ":") for axis in axes)


def _slices_by_name(slices: str, location: Location) -> dict[str, slice]:
    """Return slices by the names of axes."""
    index_slices: dict[str, slice] = {}
    for text in slices.split(","):
        before, sign, written = text.rpartition("=")
        name = before.strip()
        match = _PART.fullmatch(written.strip())
        if (
            not sign
            or match is None
            or match["one"] is not None
            or match["step"] in ("0", "-0")
            or name in index_slices
        ):
            raise BindingError(
                f"rechunk: {location}: slice is {text[:40]!r}, but must be a slice of a named axis, such as time=0:10, "
                "or time=5:6 for one element, with each axis once; for a single array, it may also be a slice for "
                "each axis, such as 0:10,::2"
            )
        index_slices[name] = _slice(match)
    return index_slices


def _slice(match: re.Match[str]) -> slice:
    return slice(*(None if part is None else int(part) for part in match.group("start", "stop", "step")))


def _axis(axis: int, rank: int, option: str, location: Location) -> int:
    if not -rank <= axis < rank:
        limits = f": use {-rank} to {rank - 1}" if rank else ""
        raise BindingError(
            f"rechunk: {location}: {option} names axis {axis}, but the array has {count_noun(rank, 'axis')}{limits}"
        )
    return axis % rank


def _index(slices: str | None, shape: Sequence[int], location: Location) -> tuple[Any, ...]:
    """Return slices and integers, one per axis."""
    rank = len(shape)
    texts = [] if slices is None else slices.split(",")
    if len(texts) > rank:
        raise BindingError(
            f"rechunk: {location}: slice has {len(texts)} entries, but the array has {count_noun(rank, 'axis')}: give "
            "at most one entry per axis"
        )
    entries: list[Any] = []
    for text in texts:
        match = _PART.fullmatch(text.strip())
        if match is None or match["step"] in ("0", "-0"):
            raise BindingError(
                f"rechunk: {text[:40]!r} is not a slice: write a slice such as 0:10, ::2 or :, or an index such as 5"
            )
        if match["one"] is not None:
            entries.append(int(match["one"]))
        else:
            entries.append(_slice(match))
    for axis, (entry, size) in enumerate(zip(entries, shape, strict=False)):
        if isinstance(entry, int) and not -size <= entry < size:
            raise BindingError(
                f"rechunk: {location}: slice takes element {entry} of axis {axis}, whose size is {size}: "
                f"it must be {-size} to {size - 1}"
            )
        if isinstance(entry, slice) and size and not range(size)[entry]:
            raise BindingError(
                f"rechunk: {location}: slice {texts[axis].strip()} selects no element of axis {axis}, whose elements "
                f"are 0 to {size - 1}: start and stop must enclose some of them"
            )
    return (*entries, *[slice(None)] * (rank - len(texts)))
