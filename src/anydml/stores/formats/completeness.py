"""Checks that no file of a checkpoint is missing, by names and metadata."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path

from anydml.files.location import Location, names, show
from anydml.stores.formats.store import Checkpoint
from anydml.text import count_noun, escape_controls

RANK = "anydml_rank"
"""Key of a file's rank in ``__metadata__``."""

RANKS = "anydml_ranks"
"""Key of the number of ranks in ``__metadata__``."""

PARTS = "anydml_parts"
"""Key of the rank's part of each tensor in ``__metadata__``."""

SHARDING = "DCP_SHARDING_INFO"
"""Key of ``__metadata__`` in files of ``HuggingFaceStorageWriter``, with the offsets of pieces."""

_NUMBERED = re.compile(
    r"(?P<head>.*?)(?P<number>\d{1,18})(?P<of>[-_.]of[-_.])(?P<count>\d{1,18})(?P<tail>(\.[\w-]+)+)", re.IGNORECASE
)
"""Names such as ``model-00001-of-00003.safetensors`` and ``model_00001_of_00003.fp16.safetensors``."""

_WHOLE = re.compile(r"(model|(adapter|pytorch|diffusion_pytorch)_model|consolidated)(\.[\w-]+)+", re.IGNORECASE)
"""Names of files that contain a whole checkpoint."""

_DIGITS = re.compile(r"\d+")

_OWN_NUMBER = re.compile(r"(?<![^\W_])\d+(?![^\W_])")
"""A number that is a separate part of a name, as in ``consolidated.00``, but not in ``fp16``."""

_RANK = re.compile(r"-rank-$")
"""Matches the end of a rank file's name before its number; such files are only read together."""

_SHARD = re.compile(r"shard-(?P<number>\d{1,18})-")
"""The prefix of the names of files of ``HuggingFaceStorageWriter``."""


def check_numbers(files: Iterable[Path], location: Location) -> None:
    """Check that no file is missing by the counts in names, such as ``model-00001-of-00003.safetensors``.

    Numbers begin at 0 or 1.

    Raises:
        ModelError: files are missing, or there are more than the names count.
    """
    sets: dict[tuple[str, str, int, str], dict[int, int]] = {}
    shards = set[int]()
    for file in files:
        if match := _NUMBERED.fullmatch(file.name):
            name_parts = match["head"], match["of"], int(match["count"]), match["tail"]
            sets.setdefault(name_parts, {})[int(match["number"])] = len(match["number"])
            if shard := _SHARD.match(file.name):
                shards.add(int(shard["number"]))
    for (head, of, count, tail), numbers in sets.items():
        first = 0 if 0 in numbers else 1
        if (last := max(numbers)) >= first + count:
            raise location.error(
                f"has number {last} of {count_noun(count, 'file')} {head}…{tail} that begin with {first}: "
                "files of several sets are mixed"
            )
        missing = (file_number for file_number in range(first, first + count) if file_number not in numbers)
        if first_missing := [*islice(missing, 10)]:
            digits, width = next(iter(numbers.values())), len(str(count))
            lost = (
                f"{head}{file_number:0{digits}}{of}{count:0{max(digits, width)}}{tail}" for file_number in first_missing
            )
            is_of_ranks = _RANK.search(head) is not None
            what_to_do = "add them" if is_of_ranks else "name a single file to read it without the others"
            raise location.error(
                f"has {len(numbers)} of {count_noun(count, 'file')} that their names count, and lacks {names(lost)}: "
                f"{what_to_do}"
            )
    # The number of shards is not recorded, but their numbers have no gaps.
    if gaps := sorted({*range(1, max(shards, default=0))} - shards):
        raise location.error(f"has files of shard {max(shards)}, but none of {', '.join(map(str, gaps[:10]))}")


def check_one(files: Iterable[Path], location: Location) -> None:
    """Check, by names, that the files of a folder without an index do not belong to several checkpoints.

    Raises:
        ModelError: a file is a whole checkpoint or belongs to a counted set, and there are further files.
    """
    sets = dict[tuple[str, ...], Path]()
    for key, file in _with_sets([*files]):
        sets.setdefault(key, file)
    whole_model = next((file for key, file in sets.items() if len(key) > 1 or _WHOLE.fullmatch(file.name)), None)
    if len(sets) > 1 and whole_model is not None:
        other_names = [file.name for file in sets.values() if file != whole_model]
        raise location.error(
            f"has {show(whole_model.name)} beside {names(other_names)}, which may be several checkpoints, and no index "
            "that says what belongs together: name the files of one, in any order; config.json and the tokenizer then "
            "come by --extras-from FOLDER (extras=) of reshard"
        )


def _with_sets(files: Sequence[Path]) -> Iterator[tuple[tuple[str, ...], Path]]:
    """Yield files with the common part of the names in their set; names that differ in one number form a set."""
    files_by_pattern: dict[str, list[Path]] = {}
    for file in files:
        if len(key := set_of(file)) > 1:
            yield key, file
        else:
            files_by_pattern.setdefault(_OWN_NUMBER.sub("0", file.name), []).append(file)
    for name, of_name in files_by_pattern.items():
        numbers = zip(*(_OWN_NUMBER.findall(file.name) for file in of_name), strict=True)
        is_one = sum(len({*column}) > 1 for column in numbers) < 2
        for file in of_name:
            yield (name,) if is_one else (file.name,), file


def remarks_on_names(files: Iterable[Path]) -> list[str]:
    """Return a remark on files that are read as one checkpoint although their names differ in more than digits."""
    all_names = sorted(file.name for file in files)
    if len({_DIGITS.sub("0", name) for name in all_names}) < 2:
        return []
    return [f"reads {len(all_names)} files of different names as parts of one checkpoint: {names(all_names)}"]


def remarks_on_counts(checkpoints: Iterable[Checkpoint]) -> Iterator[str]:
    """Yield a remark for each counted set of files of which some were not named."""
    counts = Counter[tuple[str, ...]]()
    for checkpoint in checkpoints:
        if (count := _count_of(checkpoint)) > 1 and checkpoint.path.is_file():
            counts[str(count), *(set_of(checkpoint.path) if count_in_name(checkpoint.path) > 1 else ())] += 1
    for (count_text, *_), own_count in counts.items():
        if own_count < int(count_text):
            number = "one" if own_count == 1 else own_count
            yield f"reads {number} of {count_text} files of a checkpoint, without the tensors of the others"


def _count_of(opened: Checkpoint) -> int:
    """Return the number of files in a file's set, from its name or, in a GGUF file, from metadata; else 1."""
    count_text = opened.metadata.get("split.count", "")
    return max(count_in_name(opened.path), int(count_text) if count_text.isdecimal() and len(count_text) < 10 else 1)


def count_in_name(file: Path) -> int:
    """Return the number of files by the count in a file's name, or 1."""
    match = _NUMBERED.fullmatch(file.name)
    return int(match["count"]) if match else 1


def set_of(file: Path) -> tuple[str, ...]:
    """Return the common part of the names of a set's files: everything except the number."""
    match = _NUMBERED.fullmatch(file.name)
    return match.group("head", "of", "count", "tail") if match else (file.name,)


def check_order(ranks: Sequence[Path]) -> None:
    """Check that ranks whose paths differ in one number, such as those of a shell's ``rank_*``, are in its order.

    Raises:
        ModelError: they are not, as ``rank_10`` before ``rank_2``.
    """
    if len({_DIGITS.sub("0", str(path)) for path in ranks}) == 1:
        columns = zip(*(map(int, _DIGITS.findall(str(path))) for path in ranks), strict=True)
        if len(differing := [column for column in columns if len({*column}) > 1]) == 1:
            later = next((k for k in range(1, len(ranks)) if differing[0][k] < differing[0][k - 1]), None)
            if later is not None:
                raise Location(str(ranks[later])).error(
                    f"comes after {ranks[later - 1]}: name the inputs in the order of the numbers in their names; if "
                    "the given order is that of the ranks, rename the inputs, or name links to them"
                )


def ranks_in_order(files: Sequence[Checkpoint], location: Location) -> list[Checkpoint]:
    """Return the files of ranks, by rank.

    Raises:
        ModelError: some are not files of ranks, differ in the number of ranks, are missing, or occur twice.
    """
    unranked_files = [file for file in files if RANK not in file.metadata]
    if unranked_files:
        raise location.error(
            f"has files of ranks, and {unranked_files[0].path.name}, which is none: name only the ranks' files"
        )
    counts = {file.metadata.get(RANKS) for file in files}
    (count,) = counts if len(counts) == 1 else (None,)
    by_rank = {file.metadata[RANK]: file for file in files}
    if count != str(len(files)) or {*by_rank} != {str(k) for k in range(len(files))}:
        all_ranks = sorted((file.metadata[RANK] for file in files), key=lambda rank: (len(rank), rank))
        numbers = escape_controls(", ".join(all_ranks)[:200])
        noun = "rank" if len(files) == 1 else "ranks"
        if count is None:
            raise location.error(
                f"has files of {noun} {numbers} of different numbers of ranks: name the files of one set"
            )
        of = f"{noun} {numbers} of {escape_controls(count[:20])}"
        raise location.error(
            f"{'is' if len(files) == 1 else 'has'} {of}: name the files of all ranks, each once, or their folder"
        )
    return [by_rank[str(k)] for k in range(len(files))]
