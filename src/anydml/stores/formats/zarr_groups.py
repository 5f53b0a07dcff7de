"""Groups of Zarr arrays, such as datasets of xarray: their members, and their metadata after members changed."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from anydml.files.addresses import Address
from anydml.files.location import Location
from anydml.stores.formats.inside_files import PathInFile
from anydml.stores.formats.safetensors import parse_json
from anydml.stores.formats.target import Content
from anydml.stores.formats.zarr_array import metadata_of
from anydml.stores.formats.zarr_metadata import DIMENSIONS, GROUP_FILES, is_zarr, is_zarr_array
from anydml.stores.formats.zarr_shards import Json


@dataclass(frozen=True)
class ZarrMember:
    """An array of a group.

    Attributes:
        rank: dimensions.
        axes: names of the dimensions, if they have any.
        attributes: the attributes by name.
    """

    rank: int
    axes: tuple[Any, ...]
    attributes: Mapping[str, Any]


class ZarrGroup:
    """The members of a group.

    Args:
        path: the folder of the group.

    Attributes:
        version: the version of the format.
        groups: relative paths of all groups, the first of which is this one, empty.
        arrays: members by relative path.
        left: relative paths of everything else, links included.
        refused: why arrays of HDF5 cannot be read, by relative path.

    Raises:
        ModelError: something in it cannot be read.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.version = 2 if (path / ".zgroup").is_file() else 3
        self.groups, self.left = [""], list[str]()
        start = f"{path.key}/".lstrip("/") if isinstance(path, PathInFile) else ""
        refused = path.references.refused if isinstance(path, PathInFile) else {}
        self.refused = {name.removeprefix(start): reason for name, reason in refused.items() if name.startswith(start)}
        self.arrays: dict[str, ZarrMember] = {}
        try:
            for name in self.groups:
                # Subgroups are appended while iterating.
                self._look(name)
        except OSError as error:
            raise Location(str(path)).error(f"cannot be read: {error.strerror or error}") from None

    def _look(self, group: str) -> None:
        for entry in sorted((self.path / group).iterdir()):
            name = f"{group}/{entry.name}" if group else entry.name
            if entry.is_symlink() or not entry.is_dir() or not is_zarr(entry):
                if entry.name not in GROUP_FILES:
                    self.left.append(name)
            elif is_zarr_array(entry):
                self.arrays[name] = _member(entry)
            else:
                self.groups.append(name)

    def coordinates(self) -> set[str]:
        """The coordinates: arrays that are named like their axis, or listed by an attribute."""
        listed_names = {
            coordinate
            for member in self.arrays.values()
            for coordinate in str(member.attributes.get("coordinates", "")).split()
        }
        short_names = {name: name.rpartition("/")[2] for name in self.arrays}
        return {name for name, last in short_names.items() if last in listed_names or self.arrays[name].axes == (last,)}

    def files_of(self, name: str) -> Iterator[Path]:
        """Yield all files of an array."""
        if isinstance(self.path, Address):
            yield from (self.path / name).files()
            return
        for folder, _, files in os.walk(self.path / name):
            yield from (Path(folder) / file_name for file_name in sorted(files))

    def metadata(self, changed: Mapping[str, Mapping[str, bytes]]) -> dict[str, Content]:
        """Return the files that describe the groups, by relative path, updated for new metadata of arrays.

        Raises:
            ModelError: consolidated metadata are broken.
        """
        new = {f"{name}/{file}": json.loads(text) for name, texts in changed.items() for file, text in texts.items()}
        contents: dict[str, Content] = {}
        for group in self.groups:
            for file in GROUP_FILES:
                path, name = self.path / group / file, f"{group}/{file}".lstrip("/")
                if path.is_file():
                    contents[name] = path
                    if file in ("zarr.json", ".zmetadata"):
                        document = _json(path)
                        if _consolidate(document, f"{group}/".lstrip("/"), new):
                            contents[name] = _json_bytes(document)
        return contents

    def metadata_in(self, version: int, arrays: Mapping[str, Mapping[str, bytes]]) -> dict[str, Content]:
        """Return the files that describe the groups in another version of the format, by relative path.

        Args:
            version: 2 or 3.
            arrays: metadata of all arrays, by relative path.

        Raises:
            ModelError: a group's metadata are broken.
        """
        group_attributes = {name: self._attributes(name) for name in self.groups}
        files = {name: dict(texts) for name, texts in arrays.items()}
        for name, (attributes, _) in group_attributes.items():
            if version == 3:
                document: Json = {"zarr_format": 3, "node_type": "group", "attributes": attributes}
                files[name] = {"zarr.json": _json_bytes(document)}
            else:
                files[name] = {".zgroup": _json_bytes({"zarr_format": 2})}
                files[name] |= {".zattrs": _json_bytes(attributes)} if attributes else {}
        contents: dict[str, Content] = {}
        for name, (_, is_consolidated) in group_attributes.items():
            document = dict(files[name])
            if is_consolidated:
                start = f"{name}/".lstrip("/")
                inside = {key.removeprefix(start): texts for key, texts in files.items() if key.startswith(start)}
                document |= _consolidated(version, inside, document)
            contents |= {f"{name}/{file}".lstrip("/"): text for file, text in document.items()}
        return contents

    def attributes(self, group: str) -> Json:
        """Return the attributes of a group, by its relative path."""
        return self._attributes(group)[0]

    def _attributes(self, group: str) -> tuple[Json, bool]:
        """Return attributes of a group, and whether it has consolidated metadata."""
        folder = self.path / group
        if self.version == 3:
            document = _json(folder / "zarr.json")
            return document.get("attributes") or {}, bool(document.get("consolidated_metadata"))
        attributes = _json(folder / ".zattrs") if (folder / ".zattrs").is_file() else {}
        return attributes, (folder / ".zmetadata").is_file()


def _consolidated(
    version: int, inside: Mapping[str, Mapping[str, bytes]], own_metadata: Mapping[str, bytes]
) -> dict[str, bytes]:
    """Return the file with consolidated metadata of a group.

    Args:
        version: the version of the format.
        inside: metadata of the group's members, by relative path.
        own_metadata: metadata of the group itself.
    """
    if version == 2:
        all_documents = {
            f"{name}/{file}".lstrip("/"): text for name, texts in inside.items() for file, text in texts.items()
        }
        documents = {name: json.loads(text) for name, text in sorted(all_documents.items())}
        return {".zmetadata": _json_bytes({"metadata": documents, "zarr_consolidated_format": 1})}
    documents = {name: json.loads(texts["zarr.json"]) for name, texts in inside.items() if name}
    consolidated = {"kind": "inline", "must_understand": False, "metadata": documents}
    return {"zarr.json": _json_bytes({**json.loads(own_metadata["zarr.json"]), "consolidated_metadata": consolidated})}


def _json_bytes(document: Json) -> bytes:
    return json.dumps(document, indent=2).encode()


def _member(path: Path) -> ZarrMember:
    documents = {name: _json(path / name) for name in metadata_of(path)}
    document = documents.get("zarr.json") or documents.get(".zarray") or {}
    attributes = document.get("attributes") or documents.get(".zattrs") or {}
    dimension_names = attributes.get(DIMENSIONS) if isinstance(attributes, dict) else None
    axes = document.get("dimension_names") or dimension_names or ()
    if not (
        isinstance(document.get("shape"), list) and isinstance(attributes, dict) and isinstance(axes, list | tuple)
    ):
        raise Location(str(path)).error(
            "has metadata that are not those of an array: they must have shape, attributes and names of axes"
        )
    return ZarrMember(len(document["shape"]), tuple(axes), attributes)


def _json(path: Path) -> Json:
    with Location(str(path)).reading():
        document = parse_json(path.read_bytes(), Location(str(path)), "text")
    if not isinstance(document, dict):
        raise Location(str(path)).error("is not a JSON object")
    return document


def _consolidate(document: Any, prefix: str, new: Mapping[str, Json]) -> bool:
    """Update the consolidated metadata of a group; return whether the group has any."""
    consolidated = document.get("consolidated_metadata", document) if isinstance(document, dict) else None
    consolidated = consolidated.get("metadata") if isinstance(consolidated, dict) else None
    if not isinstance(consolidated, dict):
        return False
    for key in consolidated:
        # Version 2 names files, version 3 arrays and groups.
        for name in (f"{prefix}{key}", f"{prefix}{key}/zarr.json"):
            if name in new:
                consolidated[key] = new[name]
        _consolidate(consolidated[key], f"{prefix}{key}/", new)
    return True
