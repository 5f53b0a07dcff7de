"""Plans: what was decided, and its run."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from anydml.stores.grid import GridPlanned
from anydml.stores.planning import Planned
from anydml.stores.staging import Staging
from anydml.stores.zarr_staging import Stagings
from anydml.stores.zarr_target import ZarrTarget

if TYPE_CHECKING:
    from anydml.stores.grid_running import GridBlocks
    from anydml.stores.running import FileBlocks


class Plan(Planned):
    """A program over files, ready to run. ``print(plan)`` says what it will read and write.

    Args:
        program: inputs and outputs are in the order of the stores and targets; its scratch has to be nothing.
        inputs: what the inputs are.
        outputs: where the outputs go, in C order.
        memory: bytes for all buffers together, or a text such as ``"256MB"``.
        overwrite: whether files that exist may be replaced.
        folder: which the outputs' files are in, if they are to appear together, as a folder.
        others: small files that are to lie beside the outputs, such as an index, by their paths: their contents, or the
            paths of files that are copied.

    Attributes:
        blocks: in the order in which they are begun.
        totals: what they will do.
        buffers: how many blocks are in memory at once.
        resumed: after `run`, blocks that an earlier run had finished.
        was_there: after `run`, whether the same plan had written all before, and nothing was left to do.
        remarks: what users are told beside that, a line each.

    Raises:
        BindingError: stores do not fit the program, the memory is too small, or an output exists or is an input.

    Examples:
        >>> from anydml import stores
        >>> np.save("x.npy", np.arange(4))
        >>> x = stores.open("x.npy")
        >>> half = stores.create("y.npy", shape=[2], dtype=x.dtype)
        >>> desc = dml.SliceOperatorDesc(dml.TensorDesc("INT64", [4]), dml.TensorDesc("INT64", [2]), [2], [2], [1])
        >>> plan = stores.plan(desc, [x], [half], memory="1MB")
        >>> plan.run()
        >>> np.load("y.npy")
        array([2, 3])
    """

    def staging(self) -> Staging:
        """Where files lie until they have their names."""
        return Staging(self.files, self.others, self.folder, self.overwrite)

    def blocks_writer(self) -> FileBlocks:
        """What writes blocks of outputs that were begun."""
        from anydml.stores.running import FileBlocks

        return FileBlocks(self, self.staging().part)

    def run(self, progress: bool | Callable[[int], None] = False, scheduler: str | None = None) -> None:
        """Read, move and write all blocks, and give the files their names.

        What was begun under the same plan and then stopped goes on where it was; no finished block is read again. Where
        the same plan has written the outputs already, and neither they nor the inputs have changed since, nothing is
        done, unless `overwrite` is given.

        Args:
            progress: whether to show on stderr how far it is: a bar on a terminal, a line every ten seconds elsewhere;
                or a function that is called with the bytes of every block that was written.
            scheduler: the address of a Dask scheduler, such as ``"tcp://10.0.0.1:8786"``, whose workers then read, move
                and write the blocks, each within `memory`; they find all files under the same paths.

        Raises:
            ModelError: a file cannot be read or written, an input has changed, another process writes the same, or the
                cluster does not work. What has the final names is whole or as it was before.
        """
        from anydml.stores.whole import run

        run(self, progress, scheduler)


class GridPlan(GridPlanned):
    """A program over arrays of which at least one lies in chunks; as `Plan`.

    Args:
        name: what errors call it.
        composer: that made the values.
        values: of the outputs, over inputs with far strides.
        inputs: stores.
        outputs: targets, in the order of the values.
        memory: bytes for all buffers together.
        overwrite: whether outputs that exist may be replaced.
        folder: which the outputs are in, if they are to appear together.
        others: small files that are to lie beside the outputs, as `Plan` has them.

    Attributes:
        blocks: in the order in which they are begun.
        totals: what they will do; requests are chunks, or runs of a plain file.
        threads: that read, move and write at once.
        kept: numbers of the inputs whose decoded chunks are kept in a file meanwhile.
        resumed: after `run`, blocks that an earlier run had finished.
        was_there: after `run`, whether the same plan had written all before, and nothing was left to do.
        remarks: what users are told beside that, a line each.

    Raises:
        BindingError: the memory is too small, or an output exists or is an input.

    Examples:
        >>> from anydml import stores
        >>> np.save("x.npy", np.arange(6).reshape(2, 3))
        >>> plan = stores.rechunk("x.npy", "x.zarr", chunks=[1, 3], permute=[0, 1])
        >>> type(plan).__name__
        'GridPlan'
    """

    def staging(self) -> Stagings:
        """Where files and arrays lie until they have their names."""
        arrays = [each for each in self.outputs if isinstance(each, ZarrTarget)]
        return Stagings(self.files, arrays, self.overwrite, self.folder, self.others)

    def blocks_writer(self) -> GridBlocks:
        """What writes blocks of outputs that were begun."""
        from anydml.stores.grid_running import GridBlocks

        return GridBlocks(self, self.staging())

    def run(self, progress: bool | Callable[[int], None] = False, scheduler: str | None = None) -> None:
        """As `Plan.run`."""
        from anydml.stores.whole import run

        run(self, progress, scheduler)
