"""References of kerchunk and VirtualiZarr: a JSON file with the places of Zarr's objects."""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from anydml.files.located import locate
from anydml.files.location import Location, show
from anydml.stores.formats.references import Range, References
from anydml.stores.formats.safetensors import parse_json
from anydml.stores.formats.zarr_metadata import METADATA

HEAD_CHARACTERS = 4096
"""Number of characters of a file that are searched for the first key of references."""

_TEMPLATE = re.compile(r"\{\{\s*(\w+)\s*\}\}")


def is_kerchunk(path: Path) -> bool:
    """Whether a JSON file has references: in ``refs``, or objects of Zarr as its keys."""
    with path.open("rb") as file:
        start = file.read(HEAD_CHARACTERS)
    names = re.findall(rb'"([^"\\]{1,200})"\s*:', start)
    if b"refs" in names or (b"version" in names and b"templates" in names):
        return True
    return any(name.rpartition(b"/")[2].decode("latin-1") in METADATA for name in names)


def references_of_kerchunk(path: Path, location: Location) -> References:
    """Return the references of a file.

    Paths of files that are not whole are those of the folder of the file.

    Raises:
        ModelError: the file is broken, or has references that are computed.
    """
    with location.reading():
        document = parse_json(path.read_bytes(), location, "text")
    refs = document.get("refs", document) if isinstance(document, dict) else None
    if not isinstance(refs, dict):
        raise location.error("has no object of references")
    if document.get("gen"):
        raise location.error("has references that are computed (gen): let kerchunk write them out")
    templates = document.get("templates") or {}
    if refs is document:
        templates = {}
    file_paths = dict[str, Path]()
    objects = dict[str, bytes | Range]()
    for name, reference in refs.items():
        objects[name] = _object(reference, path, templates, file_paths, location / name)
    return References(objects)


def _object(
    reference: Any, path: Path, templates: Mapping[str, Any], file_paths: dict[str, Path], location: Location
) -> bytes | Range:
    """Return the bytes of an object, or the path, offset and length of the bytes."""
    if isinstance(reference, dict):
        return json.dumps(reference).encode()
    if isinstance(reference, str):
        if not reference.startswith("base64:"):
            return reference.encode()
        try:
            return base64.b64decode(reference[7:], validate=True)
        except binascii.Error as error:
            raise location.error(f"is not base64: {error}") from None
    is_range = isinstance(reference, list) and len(reference) in (1, 3) and isinstance(reference[0], str)
    if not is_range or any(
        isinstance(number, bool) or not isinstance(number, int) or number < 0 for number in reference[1:]
    ):
        raise location.error(f"must be a string, or a path with an offset and a size, not {show(reference)}")
    if reference[0] not in file_paths:
        file_paths[reference[0]] = _path(reference[0], path, templates, location)
    return Range(file_paths[reference[0]], *(reference[1:] or (0, None)))


def _path(written: str, path: Path, templates: Mapping[str, Any], location: Location) -> Path:
    def text(match: re.Match[str]) -> str:
        template = templates.get(match[1])
        if not isinstance(template, str) or "{{" in template:
            raise location.error(f"uses the template {show(match[1])}, which is not in templates")
        return template

    expanded = _TEMPLATE.sub(text, written)
    if "{{" in expanded or "{%" in expanded:
        raise location.error(f"is {show(expanded)}, a template that computes: let kerchunk write it out")
    target = locate("references", expanded)
    return target if "://" in expanded else path.parent / target
