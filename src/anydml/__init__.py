"""anydml: DirectML's data-movement operators, described, checked, explained and run anywhere Python runs.

Descs (`SplitOperatorDesc` …) say what an operator is; `desc.check` holds it against a feature level; `Device` compiles
it, binds buffers and dispatches. Functions (`split`, `join` …; `anydml.functions` has all) do the same to arrays in one
call; `copy` moves the elements of any view; `fuse` makes a chain of moves one pass.
"""

from typing import TYPE_CHECKING

from anydml._version import __version__
from anydml.device import BoundOperator, CompiledOperator, Device
from anydml.engines.cpu.pool import get_num_threads, set_num_threads
from anydml.errors import BindingError, DescError, FuseError, ModelError
from anydml.feature_level import FeatureLevel
from anydml.functions.copying import copy
from anydml.graph import fuse
from anydml.operators import OperatorDesc, Problem
from anydml.operators.enums import DepthSpaceOrder, InterpolationMode, PaddingMode, ScaleBias, Size2D
from anydml.operators.registry import DESCS, FUNCTIONS
from anydml.tensor import DataType, TensorDesc, TensorFlags

if TYPE_CHECKING:
    from anydml.operators.registry import *  # noqa: F403
else:
    from anydml import functions, operators

    globals().update({name: getattr(operators, name) for name in DESCS})

    def __getattr__(name):  # noqa: ANN001, ANN202  # type checkers see the names above
        """A function, made when it is first asked for."""
        if name not in FUNCTIONS:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return globals().setdefault(name, getattr(functions, name))

    def __dir__():  # noqa: ANN202  # as above
        return sorted({*globals(), *FUNCTIONS})


__all__ = [  # noqa: PLE0604  # the registry's keys are names
    "BindingError",
    "BoundOperator",
    "CompiledOperator",
    "DataType",
    "DepthSpaceOrder",
    "DescError",
    "Device",
    "FeatureLevel",
    "FuseError",
    "InterpolationMode",
    "ModelError",
    "OperatorDesc",
    "PaddingMode",
    "Problem",
    "ScaleBias",
    "Size2D",
    "TensorDesc",
    "TensorFlags",
    "__version__",
    "copy",
    "fuse",
    "get_num_threads",
    "set_num_threads",
    *DESCS,
    *FUNCTIONS,
]
