"""Plans: what was decided, and its run."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from anydml.hooks import HOOKS
from anydml.progress import waiting
from anydml.stores.planning.planned import Planned

if TYPE_CHECKING:
    from anydml.stores.running.uploading import Upload


class Plan(Planned):
    """A program over files, ready to run. ``print(plan)`` shows what it will read and write.

    Args:
        program: whose inputs and outputs are in the order of the stores and targets, and which needs no scratch; where
            an array lies in chunks, composed values.
        inputs: the arrays that are read.
        outputs: the arrays that are written, in C order.
        memory: bytes of all buffers together, or a text such as ``"256MB"``.
        overwrite: whether existing outputs may be replaced.
        folder: that contains all outputs and appears at once; None where each output appears on its own.
        others: small files beside the outputs, such as an index, by their paths: their contents, or the paths of files
            that are copied.
        changed: files of which `others` has the contents, after a change.

    Attributes:
        blocks: in the order in which they are begun.
        totals: what they read and write; requests are runs of a plain file, or chunks.
        threads: that read, move and write at once.
        resumed: after `run`, the number of blocks that an earlier run had finished.
        moved: the program as it was given; None where it is one of many alike tensors.
        was_there: after `run`, whether the same plan had written everything before, and nothing was left to do.
        remarks: further lines for users.
        upload: where the outputs go when they are complete, if that is not a file or folder on this machine.

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

    upload: Upload | None = None

    def run(self, progress: bool | Callable[[int], None] = False, scheduler: str | None = None) -> None:
        """Read, move and write all blocks, and give the outputs their names.

        A run of the same plan that was interrupted is resumed; no finished block is read again. Where the same plan has
        written the outputs already, and neither they nor the inputs have changed since, nothing is done, unless
        `overwrite` is given.

        Args:
            progress: whether to show the progress on stderr, as a bar on a terminal and a line every ten seconds
                elsewhere; or a function that is called with the bytes of every block that was written.
            scheduler: the address of a Dask scheduler, such as ``"tcp://10.0.0.1:8786"``, whose workers then read, move
                and write the blocks, each within `memory`; they must find all files under the same paths.

        Raises:
            ModelError: a file cannot be read or written, an input has changed, another process writes the same output,
                or the cluster does not work. Outputs under their final names are complete or as they were before.
        """
        if self.upload is not None:
            self.upload.check_free()
        if scheduler is None:
            from anydml.stores.running.run import run

            run(self, progress)
        else:
            from anydml.stores.running.cluster import run_on

            run_on(scheduler, self, progress)
        if self.upload is not None:
            with waiting(f"{self.name}: sending files to {self.upload.to}", progress is True):
                self.upload.send()
            self.was_there = False

    def _repr_html_(self) -> str | None:
        return HOOKS["explain"](self)._repr_html_()  # type: ignore[no-any-return]

    def verify(self, progress: bool | Callable[[int], None] = False) -> str | None:
        """After `run`, read inputs and outputs again and compare them, bit for bit.

        Args:
            progress: as in `run`.

        Returns:
            None if the outputs hold what they must, otherwise the first difference.

        Raises:
            ModelError: an output cannot be read.
            BindingError: an input has changed, or the plan is one of a checkpoint, for which there is
                `anydml.stores.verify`.

        Examples:
            >>> from anydml import stores
            >>> np.save("x.npy", np.arange(6).reshape(2, 3))
            >>> plan = stores.rechunk("x.npy", "y.npy", permute=[1, 0])
            >>> plan.run()
            >>> plan.verify() is None
            True
        """
        from anydml.stores.verifying_arrays import compare_outputs

        differences = compare_outputs(self, progress)
        return differences[0].text if differences else None
