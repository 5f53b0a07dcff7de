"""Plans over files, and their runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from anydml.hooks import HOOKS
from anydml.progress import waiting
from anydml.stores.planning.base_plan import BasePlan

if TYPE_CHECKING:
    from anydml.stores.running.uploading import Upload


class Plan(BasePlan):
    """A program over files, ready to run. ``print(plan)`` shows what it will read and write.

    Args:
        program: whose inputs and outputs are in the order of the stores and targets, and which needs no scratch; where
            an array lies in chunks, composed values.
        inputs: the arrays that are read.
        outputs: the arrays that are written, in C order.
        memory: bytes of all buffers together, or a string such as ``"256MB"``.
        overwrite: whether existing outputs may be replaced.
        folder: the folder of all outputs, which appears at once; None if each output appears separately.
        other_files: small files beside the outputs, such as an index, by path: their contents, or the paths of files
            that are copied.
        changed: files whose changed contents are in `other_files`.

    Attributes:
        blocks: the blocks in the order in which they begin.
        totals: the bytes and requests of all blocks; a request is a run of a plain file, or a chunk.
        threads: the number of threads that read, move and write.
        resumed: after `run`, the number of blocks that an earlier run had finished.
        moved: the program as it was given; None if it is compact, for many alike tensors.
        already_complete: after `run`, whether an earlier run of the same plan had written all outputs.
        remarks: further lines for users.
        upload: the upload of the complete outputs; None if they are local.

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
            self.already_complete = False

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
