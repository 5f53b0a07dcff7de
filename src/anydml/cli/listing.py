"""Output of `anydml stores` for a file or checkpoint: a report, and its lines."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from anydml import stores
from anydml.cli.plan_output import array_as_json
from anydml.errors import ModelError
from anydml.files.addresses import Address
from anydml.stores.checkpoints.parallel_axes import Axes
from anydml.stores.checkpoints.remarks import remarks_on
from anydml.stores.checkpoints.sources import is_in_pieces, read_sources
from anydml.stores.formats.block_types import name_of, shape_in_elements
from anydml.stores.formats.inside_files import locate_inside
from anydml.stores.formats.joined_metadata import last_values
from anydml.stores.formats.zarr_array import open_zarr
from anydml.stores.formats.zarr_groups import ZarrGroup
from anydml.stores.formats.zarr_metadata import is_zarr_group
from anydml.text import bytes_text, count_noun, escape_controls


def list_arrays(model: str, follow: bool) -> dict[str, Any]:
    """Return the arrays of a file or checkpoint, and notes about it.

    Args:
        model: as in `anydml stores`.
        follow: whether links are followed.

    Returns:
        `model`, `arrays` (each with `name`, `dtype`, `shape`, `bytes`, and `file` or `pieces`), `remarks`, `metadata`,
        and of a Zarr array `zarr` (its `version`, `chunks`, `shards`, which may be null, and `codec`).

    Raises:
        ModelError: the file cannot be read.
    """
    report: dict[str, Any] = {"model": model, "arrays": [], "remarks": [], "metadata": {}}
    path = locate_inside("stores", model)
    if not isinstance(path, Address) and is_in_pieces(path, follow):
        tensors, _, report["remarks"] = read_sources([path], Axes(), follow)
        for name, tensor in tensors.items():
            shape = [*shape_in_elements(tensor.shape, tensor.dtype)]
            described = {"dtype": name_of(tensor.dtype), "shape": shape, "bytes": tensor.nbytes}
            report["arrays"].append({"name": name, **described, "pieces": len(tensor.pieces)})
        return report
    if is_zarr_group(path):
        report |= _describe_group(ZarrGroup(path))
        return report
    opened = stores.open(path, follow=follow)
    arrays = [opened]
    if isinstance(opened, stores.Checkpoint):
        arrays, report["remarks"] = [*opened.stores.values()], remarks_on(opened)
        report["metadata"] = last_values(opened.file_metadata.values())
    report["arrays"] = [{**array_as_json(tensor), "file": tensor.path.name} for tensor in arrays]
    if isinstance(opened, stores.ZarrStore):
        codec = "none" if opened.layout.is_plain else (opened.layout.codec or {}).get("id", "of zarr-python's")
        shards = [*opened.layout.file] if opened.layout.is_sharded else None
        chunks = [*(opened.layout.inner if shards else opened.chunks)]
        report["zarr"] = {"version": opened.layout.version, "chunks": chunks, "shards": shards, "codec": str(codec)}
    return report


def _describe_group(group: ZarrGroup) -> dict[str, Any]:
    """Return the arrays of a Zarr group, with remarks on those that cannot be read."""
    arrays, remarks = (
        list[dict[str, Any]](),
        [f"{name} cannot be read: it {reason}" for name, reason in group.refused.items()],
    )
    for name in group.arrays:
        try:
            array = array_as_json(open_zarr(group.path / name))
            arrays.append({**array, "name": name, "file": (group.path / name).name})
        except ModelError as error:
            remarks.append(str(error))
    return {"arrays": arrays, "remarks": [*remarks, *(f"{name} is not a Zarr array" for name in group.left)]}


def lines_of(report: dict[str, Any]) -> Iterator[str]:
    """Yield a report as text."""
    rows = []
    for array in report["arrays"]:
        location = array["file"] if "file" in array else count_noun(array["pieces"], "piece")
        cells = array["name"], array["dtype"], array["shape"], bytes_text(array["bytes"]), location
        rows.append([escape_controls(str(cell)) for cell in cells])
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        yield "  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).strip()
    total = bytes_text(sum(array["bytes"] for array in report["arrays"]))
    yield escape_controls(f"{report['model']}: {count_noun(len(rows), 'array')}, {total}")
    if (zarr := report.get("zarr")) is not None:
        shards = "" if zarr["shards"] is None else f" in shards {zarr['shards']}"
        yield escape_controls(f"  Zarr {zarr['version']}, chunks {zarr['chunks']}{shards}, codec {zarr['codec']}")
    for remark in report["remarks"]:
        yield escape_controls(f"  {remark}")
    for key, value in report["metadata"].items():
        yield escape_controls(f"  {key}: {value[:200]}")
