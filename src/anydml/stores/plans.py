"""Plans: what was decided, and its run."""

from __future__ import annotations

from anydml.stores.planning import Planned


class Plan(Planned):
    """A program over files, ready to run. ``print(plan)`` says what it will read and write.

    Args:
        program: inputs and outputs are in the order of the stores and targets; its scratch has to be nothing.
        inputs: what the inputs are.
        outputs: where the outputs go, in C order.
        memory: bytes for all buffers together, or a text such as ``"256MB"``.
        overwrite: whether files that exist may be replaced.
        folder: which the outputs' files are in, if they are to appear together, as a folder.
        others: small files that are to lie beside the outputs, such as an index, by their paths.

    Attributes:
        blocks: in the order in which they are begun.
        totals: what they will do.
        buffers: how many blocks are in memory at once.
        resumed: after `run`, blocks that an earlier run had finished.

    Raises:
        BindingError: stores do not fit the program, the memory is too small, or an output exists or is an input.
    """

    def run(self) -> None:
        """Read, move and write all blocks, and give the files their names.

        What was begun under the same plan and then stopped goes on where it was; no finished block is read again.

        Raises:
            ModelError: a file cannot be read or written, an input has changed, or another process writes the same. What
                has the final names is whole or as it was before.
        """
        from anydml.stores.running import run

        run(self)
