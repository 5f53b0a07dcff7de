"""Outputs of plans over chunked arrays are apart from inputs, and from each other."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from anydml.errors import BindingError
from anydml.stores.store import Store
from anydml.stores.targets import Target
from anydml.stores.zarr_format import ZarrStore
from anydml.stores.zarr_target import ZarrTarget


def check_apart(name: str, inputs: Sequence[Store | ZarrStore], outputs: Sequence[Target | ZarrTarget]) -> None:
    """Outputs are no inputs, and none is written twice or lies in another.

    Raises:
        BindingError: one is, or does.
    """
    sources = [os.path.realpath(store.path) for store in inputs]
    paths = [os.path.realpath(path) for path in {id(each): each for each in map(path_of, outputs)}.values()]
    for path in paths:
        if any(_is_within(path, source) or _is_within(source, path) for source in sources):
            raise BindingError(f"{name}: {path} is an input, too: write to another place", name)
    twice = next((path for path in paths if paths.count(path) > 1), None)
    if twice is not None:
        raise BindingError(f"{name}: {twice} is written twice", name)
    zarrs = [os.path.realpath(each.path) for each in outputs if isinstance(each, ZarrTarget)]
    for path in zarrs:
        if sum(_is_within(other, path) for other in (*zarrs, *(p for p in paths if p not in zarrs))) > 1:
            raise BindingError(f"{name}: {path} is written twice", name)


def path_of(target: Target | ZarrTarget) -> Path:
    """Where an output gets its name: the folder of an array, or a file."""
    return target.path if isinstance(target, ZarrTarget) else target.file.path


def _is_within(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder.rstrip(os.sep) + os.sep)
