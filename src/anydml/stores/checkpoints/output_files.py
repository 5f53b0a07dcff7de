"""Checkpoints that a plan writes: safetensors files, their index, and the small files beside them."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from anydml.errors import ModelError
from anydml.files.addresses import Address
from anydml.files.located import locate
from anydml.files.location import Location
from anydml.moves.composer import Composer
from anydml.moves.value import Value
from anydml.paths import path_text
from anydml.stores.checkpoints.casting import changed_dtypes, dtype_of
from anydml.stores.checkpoints.composed import ComposedTensors, Parts, compose_stored, joined, program_of
from anydml.stores.checkpoints.extras import Extras, check_extras, extras_for, remark_on_files
from anydml.stores.checkpoints.model_config import config_beside
from anydml.stores.checkpoints.parallel_axes import Axes
from anydml.stores.checkpoints.placements import Placement, RankTensors
from anydml.stores.checkpoints.selecting import EVERYTHING, Selection
from anydml.stores.checkpoints.shards import NewIndex, OutputFile, check_shards, files_of_shards, stem_of
from anydml.stores.checkpoints.sources import check_apart, read_sources
from anydml.stores.checkpoints.vocabulary import without_padding
from anydml.stores.formats.completeness import PARTS, RANK, RANKS
from anydml.stores.formats.distributed_target import NewPiece, new_distributed
from anydml.stores.formats.gguf import ARCHITECTURE, KeyText, with_file_type
from anydml.stores.formats.model_files import INDEX
from anydml.stores.formats.new_header import RankParts
from anydml.stores.formats.store import Numbers, uncollected
from anydml.stores.formats.target import Content, NewFile, new_file, remarks_on_folder
from anydml.stores.formats.targets import Targets
from anydml.stores.plans import Plan
from anydml.stores.running.uploading import Upload
from anydml.text import bytes_text, parse_size

SUFFIXES_OF_OTHER_TOOLS = (
    ".npy",
    ".zarr",
    ".zip",
    ".bin",
    ".pt",
    ".pth",
    ".ckpt",
    ".distcp",
    ".onnx",
    ".json",
    ".toml",
    ".h5",
)
"""Suffixes of formats that are not written, so that such names are not taken for folders."""

Change = Callable[[ComposedTensors], ComposedTensors]
"""A function from the tensors of a checkpoint to new tensors."""


@uncollected()
def plan_checkpoint(
    composer: Composer,
    inputs: Sequence[str | os.PathLike[str]],
    output: str | os.PathLike[str],
    change: Change | None,
    axes: Axes,
    placement: Placement | None,
    memory: int | str,
    shard_size: int | str,
    overwrite: bool,
    extras: Extras,
    follow: bool,
    dtype: Any = None,
    dcp: bool = False,
    shards: int | None = None,
    selection: Selection = EVERYTHING,
    vocab_size: int | None = None,
    scratch: str | os.PathLike[str] | None = None,
) -> Plan:
    """Plan to write a checkpoint with changed tensors.

    Args:
        composer: the composer of the program, whose name is used in errors.
        inputs: as in `anydml.stores.reshard`.
        output: as in `anydml.stores.reshard`.
        change: a function from all tensors, as values of the composer, to the new ones; None for no change.
        axes: the axes along which ranks share tensors.
        placement: the placement of ranks, each of which gets a file; None for whole tensors.
        memory: bytes of all buffers.
        shard_size: bytes of tensors per file.
        overwrite: whether an existing output may be replaced.
        extras: whether small files are copied, or the folder that they are copied from.
        follow: whether links are followed.
        dtype: the dtype that floating-point numbers are cast to; None for no cast.
        dcp: whether the output is a distributed checkpoint of PyTorch.
        shards: number of files of about equal size, instead of `shard_size`.
        selection: the selection of tensors.
        vocab_size: number of rows of tensors with a row for each word; None to keep all.
        scratch: the folder for the temporary copy of an output at an address.
    """
    name = composer.name
    out, upload = _place_of(name, output, scratch)
    check_output(out, placement is not None or dcp, inputs)
    is_file, max_bytes = is_one_file(out), parse_size(shard_size, f"{name}: shard_size")
    if not max_bytes:
        raise ModelError(f"{name}: shard_size must be the bytes of a file, such as 5GB, not 0")
    check_shards(name, shards, out, is_whole=not (is_file or dcp or placement is not None))
    check_extras(name, extras, out, is_file)
    extras_source, cast_dtype = (
        inputs[0] if isinstance(extras, bool) else extras,
        None if dtype is None else dtype_of(name, dtype),
    )
    tensors, metadata, remarks = read_sources(inputs, axes, follow, selection, name)
    tensors, casts = changed_dtypes(name, tensors, cast_dtype, out.suffix.lower() != ".npz")
    unpadded, new_rows, uncut = without_padding(composer, compose_stored(tensors), vocab_size)
    composed, remarks = _changed(unpadded, change, out), remarks + casts + uncut
    stem = stem_of(tensors, composed)
    extra_files, changed_files = dict[Path, Content](), list[Path]()
    rank_tensors = RankTensors(composed, axes, placement or Placement(), str(inputs[0]), config_beside(extras_source))
    if dcp:
        parts, piece, sizes, pieces = _pieces(composer, rank_tensors)
        targets, other_files = new_distributed(
            out, rank_tensors.whole_tensors.names, pieces, parts.tensor, piece, sizes
        )
        extra_files |= other_files
    else:
        metadata, more_remarks = _metadata_for(out, metadata, bool(extras), cast_dtype)
        remarks += more_remarks
        if placement is not None:
            files, parts = _ranks(composer, rank_tensors, out / stem, metadata)
        elif is_file:
            parts = rank_tensors.whole_tensors.as_parts
            files = [OutputFile(out, parts, metadata)]
        else:
            parts = rank_tensors.whole_tensors.as_parts
            files = files_of_shards(name, parts, out, stem, metadata, max_bytes, shards)
            extra_files |= {out / f"{stem}{INDEX}": NewIndex(files)} if len(files) > 1 else {}
        targets = outputs_of(files, parts)
        del files
    program, stores = program_of(composer, parts)
    remarks += rank_tensors.remarks
    # There may be a hundred thousand tensors, and planning blocks needs as much memory.
    del tensors, unpadded, composed, rank_tensors, parts
    if extras:
        read = {path.name for path in {id(store.path): store.path for store in stores}.values()}
        small, changed_files, remarks_on_extras = extras_for(out, extras_source, read, is_file, cast_dtype, new_rows)
        extra_files |= small
        remarks += remarks_on_extras
    folder = None if is_file else out
    plan = Plan(program, stores, targets, memory, overwrite, folder, extra_files, changed=changed_files)
    plan.remarks, plan.upload = remarks + ([] if is_file else remarks_on_folder(out)), upload
    if upload is not None:
        upload.check_free()
        file_sizes = [file.size for file in plan.files]
        plan.remarks += [
            f"makes {bytes_text(sum(file_sizes))} in {upload.local_path.parent}, and sends them to {upload.to}",
            *upload.remarks(max(file_sizes)),
        ]
    return plan


def _changed(composed: ComposedTensors, change: Change | None, out: Path) -> ComposedTensors:
    """Return the tensors of an output.

    Raises:
        ModelError: there is none.
    """
    changed = composed if change is None else change(composed)
    if not changed:
        raise Location(str(out)).error("would have no tensor")
    return changed


def _place_of(
    name: str, output: str | os.PathLike[str], scratch: str | os.PathLike[str] | None
) -> tuple[Path, Upload | None]:
    """Return the path at which an output is written first, and its final path.

    Raises:
        ModelError: the output is an address without a `scratch`, or outputs cannot be written there.
    """
    out = locate(name, output)
    if not isinstance(out, Address):
        return Path(path_text(name, output)), None
    if scratch is None:
        raise Location(str(out)).error("is an address: name a folder with room for it by --scratch DIR (scratch=)")
    upload = Upload(out, Path(path_text(f"{name}: scratch", scratch)))
    return upload.local_path, upload


def _metadata_for(
    out: Path, metadata: Mapping[str, str], is_whole: bool, to: np.dtype[Any] | None
) -> tuple[dict[str, str], list[str]]:
    """Return the metadata of an output, and a remark on metadata that its format cannot store.

    Raises:
        ModelError: a GGUF file `is_whole`, with what programs need to run it, which is not known.
    """
    if out.suffix.lower() == ".gguf":
        if is_whole and ARCHITECTURE not in metadata:
            raise Location(str(out)).error(
                f"would lack {ARCHITECTURE}, sizes and the tokenizer, without which llama.cpp does not load it: "
                "use llama.cpp's convert_hf_to_gguf.py, or write the tensors alone by --no-extras (extras=False)"
            )
        return with_file_type(metadata, to), []
    remaining = dict[str, str]()
    array_keys = [key for key, value in metadata.items() if isinstance(value, KeyText) and value.is_array]
    if out.suffix.lower() != ".npz":
        remaining = {key: value for key, value in metadata.items() if key not in array_keys}
        remaining.setdefault("format", "pt")
    return remaining, remark_on_files("leaves out the keys with arrays", array_keys)


def outputs_of(files: Sequence[OutputFile], parts: Parts) -> Targets:
    """Return targets of all parts of files, in order."""
    new_files, offsets = list[NewFile](), list[Numbers]()
    for path, parts_of_file, metadata, ranks in files:
        file, offset_in_file = new_file(path, parts_of_file.file_tensors, metadata, ranks)
        new_files.append(file)
        offsets.append(offset_in_file)
    file_number = np.repeat(np.arange(len(files), dtype=np.int32), [offset.size for offset in offsets])
    tensors, tensor, value = parts
    return Targets(new_files, file_number, tensors.names, tensor, tensors.kinds, value, np.concatenate(offsets))


def is_one_file(out: Path) -> bool:
    """Whether an output is a file by its suffix, and not a folder."""
    return out.name.lower().endswith((".safetensors", ".gguf", ".npz"))


def check_output(out: Path, is_for_ranks: bool, inputs: Sequence[str | os.PathLike[str]]) -> None:
    """Check the name of an output.

    Raises:
        ModelError: the output has an unsupported format, would be part of an input, or must be a folder for ranks.
    """
    if out.suffix.lower() in SUFFIXES_OF_OTHER_TOOLS:
        raise Location(str(out)).error(
            f"would be a {out.suffix} file, which is not written: name a .safetensors, .gguf or .npz file, or a folder"
        )
    if is_for_ranks and is_one_file(out):
        raise Location(str(out)).error("is one file, but every rank gets one: name a folder")
    check_apart(inputs, out)


def _ranks(
    composer: Composer, rank_tensors: RankTensors, stem: Path, metadata: Mapping[str, str]
) -> tuple[list[OutputFile], Parts]:
    """Return one file per rank, and the parts of all, whose memory they share."""
    count, tensors, files = rank_tensors.placement.ranks, rank_tensors.whole_tensors, list[OutputFile]()
    parts_of_ranks = [rank_tensors.parts(composer, rank) for rank in range(count)]
    parts, parts_of_files = joined([parts_of_rank for parts_of_rank, _ in parts_of_ranks])
    for rank, (own, (_, cuts)) in enumerate(zip(parts_of_files, parts_of_ranks, strict=True)):
        rank_metadata = {**metadata, RANK: str(rank), RANKS: str(count)}
        texts = {number: json.dumps(cut) for number, cut in cuts.items()}
        path = stem.with_name(f"{stem.name}-rank-{rank:05}-of-{count:05}.safetensors")
        intervals = RankParts(PARTS, tensors.names, own.tensor, texts, own.value)
        files.append(OutputFile(path, own, rank_metadata, intervals))
    return files, parts


def _pieces(composer: Composer, rank_tensors: RankTensors) -> tuple[Parts, Numbers, Numbers, list[NewPiece]]:
    """Return the pieces that all ranks write.

    Of equal pieces, the first rank's is kept.

    Returns:
        The parts by rank, the number of each part's piece, the number of pieces of each rank, and the different pieces.
    """
    numbers: dict[tuple[int, tuple[int, ...]], int] = {}
    values, all_pieces = list[int](), list[NewPiece]()
    value_by_box: dict[tuple[int, tuple[int, ...], tuple[int, ...]], Value] = {}
    made_tensors, files = rank_tensors.whole_tensors, list[tuple[Numbers, Numbers]]()
    counts = [0] * (int(np.max(rank_tensors.kinds)) + 1)
    for rank in range(rank_tensors.placement.ranks):
        of_kinds: list[list[int]] = [[] for _ in counts]
        for kind, cuts in rank_tensors.shares(rank).items():
            tensor = rank_tensors.first(kind)
            for box in product(*cuts):
                start, shape = tuple(low for low, _ in box), tuple(size for _, size in box)
                if (kind, start) in numbers or (0 in shape and 0 not in tensor.shape):
                    continue
                key = id(tensor.value), start, shape
                if key not in value_by_box:
                    value_by_box[key] = composer.slice(tensor.value, start, shape, [1] * len(shape))
                numbers[kind, start] = len(all_pieces)
                of_kinds[kind].append(len(all_pieces))
                all_pieces.append(NewPiece(kind, tensor.shape, start, shape, tensor.dtype, counts[kind]))
                values.append(made_tensors.number(value_by_box[key], tensor.dtype))
                counts[kind] += 1
        firsts = np.cumsum([0, *map(len, of_kinds)])
        piece_counts = np.array([len(of_kind) for of_kind in of_kinds])[rank_tensors.kinds]
        tensors = np.repeat(np.arange(piece_counts.size, dtype=np.int32), piece_counts)
        within = np.arange(tensors.size) - np.repeat(np.cumsum(piece_counts) - piece_counts, piece_counts)
        flat = np.array([number for of_kind in of_kinds for number in of_kind], np.int32)
        piece = flat[firsts[rank_tensors.kinds[tensors]] + within] if flat.size else flat
        files.append((tensors, piece))
    sizes = np.array([piece.size for _, piece in files])
    tensors, piece = map(np.concatenate, zip(*files, strict=True))
    return Parts(made_tensors, tensors, np.array(values, np.int32)[piece]), piece, sizes, all_pieces
