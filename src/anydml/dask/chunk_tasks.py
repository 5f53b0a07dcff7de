"""Tasks: each builds one chunk of a result from chunks of the inputs, on any thread or machine."""

from __future__ import annotations

from collections.abc import Mapping as AnyMapping
from collections.abc import Sequence
from typing import Any

import numpy as np

from anydml.errors import BindingError
from anydml.moves.simplify import simplify
from anydml.stores.formats.chunk_grid import Box
from anydml.stores.planning.block_shapes import sizes_of, word
from anydml.stores.planning.regions import InputBox, RegionMap, run_moves
from anydml.text import a

Array = np.ndarray[Any, np.dtype[Any]]


class ChunkBuilder:
    """Builds chunks of a result.

    Args:
        name: the function's name in error messages.
        mapping: from the result to the inputs.
        output_bounds: chunk bounds of the result, by axis.
        bounds: chunk bounds of the inputs, by input and axis.
        inputs: names and dtypes of the inputs.
        dtype: of the result.
        constants: bytes of constant operands, by operand number.
    """

    def __init__(
        self,
        name: str,
        mapping: RegionMap,
        output_bounds: Sequence[tuple[int, ...]],
        bounds: Sequence[Sequence[tuple[int, ...]]],
        inputs: Sequence[tuple[str, np.dtype[Any]]],
        dtype: np.dtype[Any],
        constants: AnyMapping[int, Any],
    ) -> None:
        self.name, self.mapping, self.output_bounds, self.bounds, self.inputs = (
            name,
            mapping,
            output_bounds,
            bounds,
            inputs,
        )
        self.dtype, self.constants = dtype, dict(constants)

    def __call__(
        self, number: tuple[int, ...], chunks: Sequence[tuple[int, tuple[int, ...]]], arrays: Sequence[Any]
    ) -> Array:
        """Build a chunk of the result.

        Args:
            number: index of the chunk along each axis.
            chunks: the (input, chunk) pairs that it reads.
            arrays: their elements, in the order of `chunks`.

        Raises:
            BindingError: an array does not have the type, dtype or shape that the Dask array declares.
        """
        box = tuple(
            (axis[k], axis[k + 1]) if len(axis) > 1 else (0, 0)
            for axis, k in zip(self.output_bounds, number, strict=True)
        )
        result = np.empty([high - low for low, high in box], self.dtype)
        if not result.size:
            return result
        parts = self.mapping.within(box)
        pieces = {
            (operand, self._box(operand, chunk)): self._checked(operand, chunk, array)
            for (operand, chunk), array in zip(chunks, arrays, strict=True)
        }
        regions, held = [], []
        for region in self.mapping.regions(parts):
            whole, array = self._held(region, pieces)
            if whole not in regions:
                regions.append(whole)
                held.append(array)
        part_moves, more = self.mapping.between(parts, box, result.strides, regions, held, self.constants)
        moves = [move for move in simplify(part_moves) if 0 not in move.sizes]
        flat = [array.reshape(-1).view(np.uint8) for array in (*held, result)]
        run_moves(moves, [*flat, *more])
        return result

    def _box(self, operand: int, chunk: tuple[int, ...]) -> Box:
        return tuple((axis[k], axis[k + 1]) for axis, k in zip(self.bounds[operand], chunk, strict=True))

    def _checked(self, operand: int, chunk: tuple[int, ...], array: Any) -> Array:
        """Check a chunk against its Dask array's metadata, which functions such as map_blocks can violate."""
        name, dtype = self.inputs[operand]
        shape = tuple([high - low for low, high in self._box(operand, chunk)])
        is_numpys = isinstance(array, (np.ndarray, np.generic)) and not isinstance(array, np.ma.MaskedArray)
        if is_numpys and array.dtype == dtype and array.shape == shape:
            return np.asarray(array)
        kind = type(array)
        actual = f"{array.dtype} {array.shape}" if is_numpys else a(f"{kind.__module__}.{kind.__qualname__}")
        raise BindingError(
            f"{self.name}: chunk {chunk} of {name} is {actual}, but its Dask array declares {dtype} {shape}: pass the "
            f"right dtype, chunks or meta where {name} is created, for example to map_blocks",
            self.name, name, "chunks must be NumPy arrays of the dtype and shape that the Dask array declares",
        )  # fmt: skip

    def _held(self, region: InputBox, pieces: AnyMapping[tuple[int, Box], Any]) -> tuple[InputBox, Array]:
        """Return the chunk that contains a region, or the region assembled from several chunks.

        Elements of the region that no piece reads may be left uninitialized.
        """
        near = [
            (box, array)
            for (operand, box), array in pieces.items()
            if operand == region.operand
            and all(a < high and b > low for (a, b), (low, high) in zip(box, region.box, strict=True))
        ]
        if len(near) == 1:
            box, array = near[0]
            # ascontiguousarray returns one dimension for an array of none.
            whole = np.ascontiguousarray(array).reshape(array.shape)
            return InputBox(region.operand, box), whole.view(word(whole.itemsize)) if whole.ndim else whole
        out = np.empty(sizes_of(region.box), word(near[0][1].itemsize))
        for box, array in near:
            common = [(max(a, low), min(b, high)) for (a, b), (low, high) in zip(box, region.box, strict=True)]
            overlap = array[tuple(slice(a - low, b - low) for (a, b), (low, _) in zip(common, box, strict=True))]
            to = out[tuple(slice(a - low, b - low) for (a, b), (low, _) in zip(common, region.box, strict=True))]
            np.copyto(to.view(overlap.dtype) if to.ndim else to, overlap)
        return region, out
