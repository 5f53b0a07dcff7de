"""Groups of similar outputs, and how they are written: by moves, or by copying runs of their inputs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from anydml.moves import Access, Move
from anydml.stores.formats.store import Array, Numbers
from anydml.stores.planning.intervals import Places
from anydml.stores.planning.repeated_moves import RepeatedMoves


class Writers(NamedTuple):
    """The writers of outputs that are alike: each output is written by moves in order, or by runs alone.

    Attributes:
        moves: the moves; none if there are runs.
        runs: of inputs, by their places in the output: that place, the input's number in a set, the place in it, and
            bytes.
        sets: as in `RepeatedMoves`.
        output: number of the output in a set.
    """

    moves: tuple[Move, ...]
    runs: tuple[tuple[int, int, int, int], ...]
    sets: Numbers
    output: int

    @property
    def outputs(self) -> Numbers:
        """The numbers of the outputs."""
        return self.sets[:, self.output]

    @property
    def all_moves(self) -> tuple[Move, ...]:
        """All moves, also those that run by run make."""
        of_runs = (
            Move((), Access(self.output, to, ()), Access(from_input, inside, ()), length)
            for to, from_input, inside, length in self.runs
        )
        return *self.moves, *of_runs

    @property
    def are_copies(self) -> bool:
        """Whether nothing is a fill, or from a constant."""
        return all(isinstance(move.source, Access) and move.source.operand < self.sets.shape[1] for move in self.moves)

    @property
    def inputs(self) -> Numbers:
        """The numbers of the inputs, a row for each output."""
        columns = sorted({move.reads.operand for move in self.moves} | {run[1] for run in self.runs})
        return self.sets[:, columns]

    def of_outputs(self, are_selected: Array) -> Writers:
        """Return the writers of some outputs."""
        return self if are_selected.all() else self._replace(sets=self.sets[are_selected])


def writers_of(alike: Sequence[RepeatedMoves], places: Places) -> Iterator[tuple[Writers, bool]]:
    """Yield the writers of outputs, and whether all bytes are read from inputs."""
    for moves, sets in alike:
        by_output: dict[int, list[Move]] = {}
        for move in moves:
            by_output.setdefault(move.destination.operand, []).append(move)
        for output, output_moves in by_output.items():
            are_read = [
                isinstance(move.source, Access) and move.source.operand < sets.shape[1] for move in output_moves
            ]
            is_sound = all(
                sets[0, move.reads.operand] < places.inputs
                for move, is_read in zip(output_moves, are_read, strict=True)
                if is_read
            )
            runs = [(move.destination.offset, move.reads.operand, move.reads.offset, move.element_size)
                    for move, is_read in zip(output_moves, are_read, strict=True)
                    if is_read and not move.sizes]  # fmt: skip
            runs.sort()
            if len(runs) < len(output_moves) or not _are_whole(runs, int(places.size(sets[0, output]))):
                runs = []
            yield Writers(() if runs else tuple(output_moves), tuple(runs), sets, output), is_sound


def _are_whole(runs: Sequence[tuple[int, int, int, int]], size: int) -> bool:
    """Whether sorted runs write every byte exactly once."""
    end = 0
    for to, _, _, length in runs:
        if to != end:
            return False
        end += length
    return end == size
