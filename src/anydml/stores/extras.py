"""Small files that lie beside the weights of a model, such as config.json and what its tokenizer needs."""

from __future__ import annotations

import os
from pathlib import Path

from anydml.errors import ModelError
from anydml.files.json_path import JsonPath, names
from anydml.stores.opening import INDEX, inside

MOST_BYTES = 64 << 20
"""Of a small file; tokenizers have tens of millions."""

WEIGHTS = (".safetensors", ".bin", ".pt", ".pth", ".ckpt", ".gguf", ".ggml", ".onnx", ".onnx_data", ".h5", ".msgpack",
           ".npy", ".npz", ".pkl", ".ot", ".tflite", ".mlpackage", ".zip", ".tar", ".gz", ".index.json")  # fmt: skip
"""What names of files with weights end with, and those of their indexes."""


def extras_beside(path: str | os.PathLike[str]) -> tuple[list[Path], list[str]]:
    """The small files of a checkpoint, and the names of what else is there.

    Hidden files are neither. What a link leads to lies in the folder too, or in the cache of Hugging Face's hub:
    nobody may publish a file of somebody's machine because a model that he took has a link to it.

    Args:
        path: the folder, or an index in it; other files are checkpoints of their own, beside which nothing belongs to
            them.

    Raises:
        ModelError: the folder cannot be read.
    """
    folder = Path(path)
    if folder.name.endswith(INDEX):
        folder = folder.parent
    elif not folder.is_dir():
        return [], []
    copied, left = list[Path](), list[str]()
    try:
        for each in sorted(folder.iterdir()):
            if each.name.startswith(".") or each.name.endswith((".safetensors", INDEX)):
                continue
            if each.is_dir():
                left.append(f"{each.name}/")
            elif each.name.lower().endswith(WEIGHTS) or not _is_small(folder, each):
                left.append(each.name)
            else:
                copied.append(each)
    except OSError as error:
        raise JsonPath(str(folder)).error(f"cannot be read: {error.strerror or error}") from None
    return copied, left


def _is_small(folder: Path, path: Path) -> bool:
    try:
        return inside(folder, path.name, JsonPath(str(path))).stat().st_size <= MOST_BYTES
    except ModelError:
        return False


def said_of(what: str, files: list[str], more: str = "") -> list[str]:
    """A remark about files, if there are any."""
    return [f"{what} {names(files)}{more}"] if files else []
