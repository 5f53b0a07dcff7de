"""The code of a block of pixels: each vector of the destination is a permutation of one or two of the source."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache
from typing import Any, NamedTuple

from llvmlite import binding, ir

from anydml.engines.cpu.kernels import language
from anydml.engines.cpu.kernels.blanks import Filling
from anydml.engines.cpu.kernels.ir import I1, I32, I64, LINE, load_as, store_as, stream_as

LANE = 16
"""Bytes that every processor permutes at once."""

PERMUTES = {1: "avx512vbmi", 2: "avx512bw", 4: "avx512f", 8: "avx512f"}
"""By bytes of a word, what a processor needs that permutes the words of a whole line at once."""

MASKS = "avx512bw"
"""What a processor needs that stores some bytes of a line at once, and leaves the others alone."""


class Spec(NamedTuple):
    """A pattern, written ``"word to_step from_step block to:from:run,…"``; all but the block in bytes.

    Attributes:
        word: bytes of a word, 8 at most; all others are multiples.
        to_step, from_step: from pixel to pixel, on either side.
        block: pixels of a block; those of the destination are whole lines.
        runs: of each run, where it begins in the destination's pixel and in the source's, and how long it is.
    """

    word: int
    to_step: int
    from_step: int
    block: int
    runs: tuple[tuple[int, int, int], ...]

    @property
    def few(self) -> int:
        """Pixels of a block of a short line."""
        count = LANE // math.gcd(LANE, self.to_step)
        while count * abs(self.from_step) < 2 * LANE:
            count *= 2
        return count

    @property
    def has_gaps(self) -> bool:
        """Whether some bytes of the destination must stay as they are."""
        return sum(run for _, _, run in self.runs) < self.to_step


def parse_spec(text: str) -> Spec:
    """The parts of a pattern."""
    *numbers, runs = text.split(" ")
    pairs = (run.split(":") for run in runs.split(","))
    word_bytes, to_step, from_step, block = map(int, numbers)
    return Spec(word_bytes, to_step, from_step, block, tuple((int(a), int(b), int(c)) for a, b, c in pairs))


def block_code(spec: Spec, streamed: bool, most: int = LINE) -> Filling:
    """The code of `move_block`, in vectors of so many bytes at most."""

    def write(builder: Any, arguments: list[Any]) -> None:
        to, source = arguments
        if spec.has_gaps and not _has(MASKS):
            _one_by_one(spec, builder, to, source)
            return
        needed, lowest = _needed(spec)
        source = builder.add(source, ir.Constant(I64, lowest))
        lanes = min(_lanes(needed, spec.word), most // spec.word)
        for first in range(0, len(needed), lanes):
            order = needed[first : first + lanes]
            value = _permuted(builder, source, order, max(_known(needed)) + 1, spec.word)
            at = builder.add(to, ir.Constant(I64, first * spec.word))
            if None in order:
                _store_some(builder, value, at, order)
            elif streamed:
                stream_as(builder, value, at)
            else:
                store_as(builder, value, at)

    return write


def _needed(spec: Spec) -> tuple[list[int | None], int]:
    """Of each word of a block's destination, which word of the source it takes, from the first on that any does.

    Returns:
        those, and where that first one lies from the block's first pixel on, in bytes.
    """
    bytes_of: dict[int, int] = {}
    for pixel in range(spec.block):
        for to, source, run in spec.runs:
            for k in range(0, run, spec.word):
                bytes_of[pixel * spec.to_step + to + k] = pixel * spec.from_step + source + k
    lowest = min(bytes_of.values())
    places = range(0, spec.block * spec.to_step, spec.word)
    return [(bytes_of[at] - lowest) // spec.word if at in bytes_of else None for at in places], lowest


def _known(needed: Sequence[int | None]) -> list[int]:
    return [at for at in needed if at is not None]


@cache
def _has(feature: str) -> bool:
    """Whether this machine's processor has a feature, as LLVM names it."""
    try:
        return bool(binding.get_host_cpu_features().get(feature))
    except RuntimeError:
        return False


def _lanes(needed: Sequence[int | None], word: int) -> int:
    """Words of a vector: of a line, where this processor permutes lines at once, else of fewer bytes."""
    part = LANE // word
    stays = all(at is None or at // part == place // part for place, at in enumerate(needed))
    return (LINE if stays or _has(PERMUTES[word]) else LANE) // word


def _permuted(builder: Any, source: Any, order: Sequence[int | None], span: int, word: int) -> Any:
    """A vector of words of the source, of which there are `span`; what is None may be anything."""
    lanes, left = len(order), set(_known(order))
    kind = ir.VectorType(ir.IntType(8 * word), lanes)
    value = ir.Constant(kind, ir.Undefined)
    while left:
        start = min(*left, span - lanes)
        loaded = load_as(builder, builder.add(source, ir.Constant(I64, start * word)), kind)
        here = {at for at in left if at < start + lanes}
        places = [lanes + at - start if at in here else place for place, at in enumerate(order)]
        value = builder.shuffle_vector(value, loaded, ir.Constant(ir.VectorType(I32, lanes), places))
        left -= here
    return value


def _store_some(builder: Any, value: Any, to: Any, order: Sequence[int | None]) -> None:
    """Store the lanes that are known."""
    lanes, bits = value.type.count, value.type.element.width
    mask = ir.VectorType(I1, lanes)
    pointer = value.type.as_pointer()
    kind = ir.FunctionType(ir.VoidType(), [value.type, pointer, I32, mask])
    function = language.cgutils.get_or_insert_function(builder.module, kind, f"llvm.masked.store.v{lanes}i{bits}.p0")
    flags = ir.Constant(mask, [int(at is not None) for at in order])
    builder.call(function, [value, builder.inttoptr(to, pointer), ir.Constant(I32, 1), flags])


def _one_by_one(spec: Spec, builder: Any, to: Any, source: Any) -> None:
    """Move each run of a block by itself."""
    for pixel in range(spec.block):
        for to_at, from_at, run in spec.runs:
            at = builder.add(source, ir.Constant(I64, pixel * spec.from_step + from_at))
            value = load_as(builder, at, ir.VectorType(ir.IntType(8 * spec.word), run // spec.word))
            store_as(builder, value, builder.add(to, ir.Constant(I64, pixel * spec.to_step + to_at)))
