"""What Numba does to a kernel before LLVM begins: its own passes, but for those that find nothing to do in kernels.

They are a tenth of the time that a kernel takes to compile; its machine code is the same. Importing this imports Numba.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from numba.core.compiler import CompilerBase, DefaultPassBuilder
from numba.core.compiler_machinery import PassManager

IDLE = {
    *("WithLifting", "InlineClosureLikes", "RewriteDynamicRaises", "MakeFunctionToJitFunction", "InlineInlinables"),
    *("FindLiterallyCalls", "LiteralUnroll", "InlineOverloads", "LiteralPropagationSubPipelinePass"),
    *("GenericRewrites", "NopythonRewrites", "DumpParforDiagnostics"),
}
"""Passes by the names of their classes: for closures, contexts, exceptions, arrays and functions that ask for it."""


class KernelCompiler(CompilerBase):
    """Compiles functions of words that call others of their kind."""

    def define_pipelines(self) -> list[Any]:
        """The passes."""
        all_passes = DefaultPassBuilder.define_nopython_pipeline(self.state)
        # Where a Numba of another version has other insides, all are run.
        with suppress(Exception):
            passes = PassManager("anydml_kernel")
            for each, description in all_passes.passes:
                if each.__name__ not in IDLE:
                    passes.add_pass(each, description)
            passes.finalize()
            return [passes]
        return [all_passes]
