"""Tasks: each builds one chunk of a result from chunks of the inputs, or a part of it, on any thread or machine."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from collections.abc import Mapping as AnyMapping
from typing import Any

import numpy as np

from anydml.dask.chunk_bounds import Bounds
from anydml.dask.chunk_needs import Chunk, box_of_chunk, operand_of
from anydml.dask.chunk_reads import ChunkGrid, ChunkIndex, ChunkRead
from anydml.errors import BindingError
from anydml.moves import Access, Move
from anydml.moves.simplify import simplify
from anydml.stores.formats.chunk_grid import Box
from anydml.stores.planning.block_shapes import sizes_of
from anydml.stores.planning.picks import Pick
from anydml.stores.planning.regions import RegionMap, access_in_box, run_moves
from anydml.tensor import Layout
from anydml.text import a

Array = np.ndarray[Any, np.dtype[Any]]


class ChunkBuilder:
    """Builds chunks of a result.

    Args:
        name: the function's name in error messages.
        mapping: the map from the result to the inputs.
        output_bounds: chunk bounds of the result, by axis.
        grids: chunks of the inputs.
        inputs: names and dtypes of the inputs.
        dtype: the dtype of the result.
        constants: bytes of constant operands, by operand number.
    """

    def __init__(
        self,
        name: str,
        mapping: RegionMap,
        output_bounds: Sequence[Bounds],
        grids: Sequence[ChunkGrid],
        inputs: Sequence[tuple[str, np.dtype[Any]]],
        dtype: np.dtype[Any],
        constants: AnyMapping[int, Any],
    ) -> None:
        self.name, self.mapping, self.output_bounds, self.grids = name, mapping, output_bounds, grids
        self.inputs, self.dtype, self.constants = inputs, dtype, constants

    def chunk(self, chunk_index: ChunkIndex, chunks: Sequence[Chunk], arrays: Sequence[Any]) -> Array:
        """Build a chunk of the result.

        Args:
            chunk_index: index of the chunk along each axis.
            chunks: the chunks of inputs that it reads.
            arrays: their elements, in the order of `chunks`.

        Raises:
            BindingError: an array does not have the type, dtype or shape that the Dask array declares.
        """
        result = self._empty(chunk_index)
        chunk_arrays = [self._check(*chunk, array) for chunk, array in zip(chunks, arrays, strict=True)]
        moves, constants = self._moves(chunk_index, {chunk: k for k, chunk in enumerate(chunks)}, len(chunk_arrays))
        _run(moves, [*chunk_arrays, result, *constants])
        return result

    def piece(self, chunk_index: ChunkIndex, chunks: Sequence[Chunk], arrays: Sequence[Any]) -> Array:
        """Pick the elements of some chunks that a chunk of the result reads, in the order in which it reads them.

        Arguments and errors are those of `chunk`.
        """
        chunk_arrays = [self._check(*chunk, array) for chunk, array in zip(chunks, arrays, strict=True)]
        moves, constants = self._moves(
            chunk_index, {chunk: k for k, chunk in enumerate(chunks)}, len(chunk_arrays), are_all=False
        )
        packed, size = [], 0
        for move in moves:
            packed.append(move._replace(destination=_pack(move, len(chunk_arrays), size)))
            size += _size(move)
        piece = np.empty(size, np.uint8)
        _run(packed, [*chunk_arrays, piece, *constants])
        return piece

    def assemble(self, chunk_index: ChunkIndex, groups: Sequence[Sequence[Chunk]], pieces: Sequence[Array]) -> Array:
        """Build a chunk of the result from pieces.

        Args:
            chunk_index: index of the chunk along each axis.
            groups: the chunks that each piece was picked from.
            pieces: as `piece` returns them.
        """
        result = self._empty(chunk_index)
        place_of = {chunk: k for k, group in enumerate(groups) for chunk in group}
        moves, constants = self._moves(chunk_index, place_of, len(groups))
        packed, ends = list[Move](), [0] * len(groups)
        for move in moves:
            if isinstance(move.source, Access) and (group_number := move.source.operand) < len(groups):
                packed.append(move._replace(source=_pack(move, group_number, ends[group_number])))
                ends[group_number] += _size(move)
            else:
                packed.append(move)
        _run(packed, [*pieces, result, *constants])
        return result

    def _empty(self, chunk_index: ChunkIndex) -> Array:
        return np.empty(sizes_of(box_of_chunk(self.output_bounds, chunk_index)), self.dtype)

    def _moves(
        self, chunk_index: ChunkIndex, place_of: AnyMapping[Chunk, int], count: int, are_all: bool = True
    ) -> tuple[list[Move], list[Array]]:
        """Return the moves from chunks to a chunk of the result.

        Args:
            chunk_index: the number of the result's chunk.
            place_of: the operand number of each chunk.
            count: the number of these operands; the result is the next one.
            are_all: whether these are all chunks that are read; if not, moves from other chunks are left out.

        Returns:
            The moves, in order, and their operands after the result.
        """
        box = box_of_chunk(self.output_bounds, chunk_index)
        strides = Layout.packed(sizes_of(box), self.mapping.output.element_size).strides
        wanted_chunks: list[set[ChunkIndex]] = [set() for _ in self.grids]
        for k, chunk in place_of:
            wanted_chunks[k].add(chunk)
        moves, constant_arrays, constants = list[Move](), list[Array](), dict[int, int]()

        def added(array: Array) -> int:
            constant_arrays.append(array)
            return count + len(constant_arrays)

        for part in self.mapping.parts_writing(box) if all(low < high for low, high in box) else ():
            operand = operand_of(part, len(self.grids))
            if operand is not None:
                chunks = wanted_chunks[operand] if not are_all else None
                for chunk_read in self.grids[operand].inside(part, chunks):
                    chunk_operand = place_of[operand, chunk_read.low]
                    moves.append(self._move(operand, chunk_read, chunk_operand, box, strides, count, added))
            elif are_all and isinstance(part, Move):
                source = part.source
                if isinstance(source, Access):
                    if source.operand not in constants:
                        constants[source.operand] = added(np.asarray(self.constants[source.operand]))
                    source = source._replace(operand=constants[source.operand])
                to = access_in_box(part.destination, part.sizes, self.mapping.output, box, strides, count)
                moves.append(part._replace(destination=to, source=source))
        return moves, constant_arrays

    def _move(
        self,
        operand: int,
        chunk_read: ChunkRead,
        chunk_operand: int,
        box: Box,
        strides: Sequence[int],
        count: int,
        added: Callable[[Array], int],
    ) -> Move:
        """Return the move that reads a chunk in memory."""
        grids, move, picked = self.grids[operand], chunk_read.move, chunk_read.picked
        chunk = grids.box(chunk_read.low)
        pitches = Layout.packed(sizes_of(chunk), grids.layout.element_size).strides
        to = access_in_box(move.destination, move.sizes, self.mapping.output, box, strides, count)
        source = access_in_box(move.reads, move.sizes, grids.layout, chunk, pitches, chunk_operand)
        if isinstance(chunk_read.part, Pick) and picked:
            return chunk_read.part.cell_move(picked, to, chunk, pitches, source._replace(offset=0), added)
        return move._replace(destination=to, source=source)

    def _check(self, operand: int, chunk: ChunkIndex, array: Any) -> Array:
        """Check a chunk against its Dask array's metadata, which functions such as map_blocks can violate."""
        name, dtype = self.inputs[operand]
        shape = sizes_of(self.grids[operand].box(chunk))
        is_numpys = isinstance(array, (np.ndarray, np.generic)) and not isinstance(array, np.ma.MaskedArray)
        if is_numpys and array.dtype == dtype and array.shape == shape:
            return np.asarray(array)
        class_ = type(array)
        actual = f"{array.dtype} {array.shape}" if is_numpys else a(f"{class_.__module__}.{class_.__qualname__}")
        raise BindingError(
            f"{self.name}: chunk {chunk} of {name} is {actual}, but its Dask array declares {dtype} {shape}: pass the "
            f"right dtype, chunks or meta where {name} is created, for example to map_blocks",
            self.name, name, "chunks must be NumPy arrays of the dtype and shape that the Dask array declares",
        )  # fmt: skip


def _size(move: Move) -> int:
    return math.prod(move.sizes) * move.element_size


def _pack(move: Move, operand: int, offset: int) -> Access:
    """Return the access of a move to packed elements."""
    strides = Layout.packed(move.sizes, move.element_size).strides
    return move.destination._replace(operand=operand, offset=offset, strides=strides, lookups=())


def _run(moves: Sequence[Move], operands: Sequence[Array]) -> None:
    simple = [move for move in simplify(moves) if 0 not in move.sizes]
    run_moves(simple, [np.ascontiguousarray(array).reshape(-1).view(np.uint8) for array in operands])
