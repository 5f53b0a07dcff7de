"""The choice of a folder's files that are read as one checkpoint."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from anydml.errors import ModelError
from anydml.files.addresses import Address
from anydml.files.location import Location, names, show

INDEX = ".safetensors.index.json"
"""Suffix of indexes of safetensors files; those of Hugging Face are called model.safetensors.index.json."""

BIN_INDEX = ".bin.index.json"
"""Suffix of indexes of files of ``torch.save``."""

METADATA = ".metadata"
"""The file that describes a checkpoint of torch.distributed.checkpoint, in its folder."""

PIPELINE = "model_index.json"
"""The file that describes a pipeline of diffusers, whose models lie in folders beside it."""

_FIRST = re.compile(r"(diffusion_pytorch_)?model\.safetensors(\.index\.json)?")
"""File names that transformers and diffusers look for first."""

_SECOND = re.compile(r"(diffusion_)?pytorch_model\.bin(\.index\.json)?")
"""File names that they look for next."""

_VARIANT = re.compile(r"(diffusion_pytorch_)?model(\.[\w-]+)\.safetensors")
"""Names of files of variants, such as fp16, for which these look before those of ``torch.save`` of the variant."""

_OF_MODELS = ("model", "diffusion_pytorch_model", "pytorch_model", "consolidated")
"""Prefixes of the file names of models, also where a variant, a number or a rank follows."""

_OF_TORCH = re.compile(r"(diffusion_)?(pytorch_)?model\b.*\.bin(\.index\.json)?")
"""Names of files of ``torch.save`` that have models, and of their indexes."""

_WHOLE = ("pytorch_model.bin", "diffusion_pytorch_model.bin")
"""Files of ``torch.save`` that have a whole model."""

_OF_ADAPTERS = ("adapter_model", "pytorch_lora_weights")
"""Prefixes of the file names that PEFT and diffusers look for."""

_ADAPTERS = ("adapter_model.bin", "pytorch_lora_weights.bin")
"""File names of these that ``torch.save`` writes."""

_OF_TRAINING = re.compile(r"consolidated\.\d{1,9}\.pth|.*_model_states\.pt")
"""Names of files of Meta's Llama and of DeepSpeed."""


WEIGHTS = (
    *(".safetensors", ".bin", ".pt", ".pth", ".ckpt", ".distcp", ".gguf", ".ggml", ".onnx", ".onnx_data", ".h5"),
    *(".msgpack", ".npy", ".npz", ".pkl", ".ot", ".tflite", ".mlpackage", ".zip", ".tar", ".gz", ".index.json"),
)
"""Suffixes of files with weights or states, and of their indexes."""


class ChosenFiles(NamedTuple):
    """The files of a folder that are read as one checkpoint.

    Attributes:
        index_file: the index that names the files; None if there is no index.
        files: all of them, by name, without an index. None are those of torch.distributed.checkpoint, of training
            programs and of GGUF.
    """

    index_file: Path | None
    files: list[Path]


def choose_files(folder: Path, follow: bool) -> ChosenFiles:
    """Choose as transformers, diffusers and PEFT do: models before adapters, and safetensors files before others.

    Args:
        folder: the folder of the files.
        follow: whether .safetensors files may be links that lead out of the folder.

    Raises:
        ModelError: other programs would read other files of the folder; one is a link that leads out of it; or it is a
            pipeline of several models.
    """
    location = Location(str(folder))
    with location.reading():
        entries = sorted(folder.iterdir())
        _check_not_pipeline(entries, location)
        # A dangling link is a file that cannot be read.
        files = [entry for entry in entries if entry.name.endswith(".safetensors") and _is_file_or_missing(entry)]
        indexes = [entry for entry in entries if entry.name.endswith(INDEX)]
        if not indexes and not any(file.name.startswith(_OF_MODELS) for file in files):
            indexes = [entry for entry in entries if entry.name.endswith(BIN_INDEX)]
            model_files, adapters = (
                [file_in_folder(folder, entry.name, location) for entry in entries if entry.name in usual]
                for usual in (_WHOLE, _ADAPTERS)
            )
            files = model_files or files or adapters
    index = _usual(indexes, location) if indexes else None
    if index is not None:
        files = []
    elif not follow:
        files = [file_in_folder(folder, file.name, Location(str(file))) for file in files]
    first = index or min(files, key=_rank, default=None)
    _check_alone(None if first is None else first.name, [entry.name for entry in entries], location)
    return ChosenFiles(index, files)


def _check_alone(chosen: str | None, others_here: Sequence[str], location: Location) -> None:
    """Refuse a folder with several checkpoints, because programs differ in which checkpoint they read.

    Args:
        chosen: name of the file or index; None if those of a training program are read, where there are some.
        others_here: names of all entries of the folder.
        location: the folder, for errors.

    Raises:
        ModelError: the folder has files of another checkpoint.
    """
    rivals = [name for name in others_here if name == METADATA]
    if chosen is None or not (_FIRST.fullmatch(chosen) or _SECOND.fullmatch(chosen)):
        rivals += [name for name in others_here if _OF_TRAINING.fullmatch(name)][:1]
        # If an index of such files exists, the others may belong to the index.
        is_rival = _SECOND.fullmatch if chosen is not None and chosen.endswith(BIN_INDEX) else _OF_TORCH.fullmatch
        if chosen is not None or rivals:
            rivals += [name for name in others_here if is_rival(name) and name != _same_variant(chosen)]
        if chosen is not None and not chosen.startswith(_OF_ADAPTERS):
            rivals += [name for name in others_here if name in _ADAPTERS]
    all_names = [*([] if chosen is None else [chosen]), *rivals]
    if len(all_names) > 1:
        raise location.error(
            f"has {show(all_names[0])} beside {names(all_names[1:])}, which may be several checkpoints: name the files "
            "of one"
        )


def _rank(file: Path) -> tuple[bool, bool]:
    """Return a sort key by which the file that other programs read comes first."""
    return not _FIRST.fullmatch(file.name), not file.name.startswith(_OF_MODELS)


def _same_variant(name: str | None) -> str | None:
    """Return the file of ``torch.save`` that has the same variant of a model as a safetensors file."""
    match = _VARIANT.fullmatch(name or "")
    return match and f"{match[1] or 'pytorch_'}model{match[2]}.bin"


def _is_file_or_missing(path: Path) -> bool:
    # At an address, the first test is one request, and the second may be several.
    return path.is_file() or not path.is_dir()


def _check_not_pipeline(entries: Sequence[Path], location: Location) -> None:
    if not any(entry.name == PIPELINE for entry in entries):
        return
    models = [entry for entry in entries if entry.is_dir() and any(map(_is_of_model, entry.iterdir()))]
    if models:
        raise location.error(
            f"has {PIPELINE} of a pipeline of several models: name one of "
            f"{names(f'{model.name}/' for model in models)}, or a file"
        )


def _is_of_model(file: Path) -> bool:
    return file.name.startswith(_OF_MODELS) and file.suffix in (".safetensors", ".bin")


def _usual(indexes: Sequence[Path], location: Location) -> Path:
    """Return the index of a folder: that of ``model``, or else the only one without a variant such as fp16 in its name.

    Raises:
        ModelError: there are several.
    """
    plain = [index for index in indexes if index.name.partition(".")[2] in (INDEX[1:], BIN_INDEX[1:])]
    for candidates in ([index for index in plain if index.name == f"model{INDEX}"], plain, indexes):
        if len(candidates) == 1:
            return candidates[0]
    raise location.error(f"has several indexes, {names(index.name for index in indexes)}: name one of them")


def file_in_folder(folder: Path, written: str, location: Location) -> Path:
    """Return a file of a folder; only links into the cache of Hugging Face's hub may lead out of the folder."""
    if isinstance(folder, Address):
        if any(part in ("", ".", "..") for part in written.split("/")) or not (folder / written).is_file():
            raise location.error(f"is {show(written)}, which is not a file of {folder}")
        return folder / written
    try:
        root, path = folder.resolve(), folder / written
        real = path.resolve()
        cache = root.parents[1] / "blobs" if len(root.parents) > 1 else root
        is_cached = Path(written).name == written and path.is_symlink() and real.parent == cache
        if not is_cached and not real.is_relative_to(root):
            raise location.error(f"is {show(written)}, which leaves the folder {root}")
        if not real.is_file():
            raise location.error(f"is {show(written)}, which is not a file in {root}")
    except ModelError:
        raise
    except (OSError, ValueError, RuntimeError) as error:
        raise location.error(f"is {show(written)}, which is not a path: {error}") from None
    return path
