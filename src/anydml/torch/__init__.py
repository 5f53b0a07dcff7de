"""The operators in PyTorch's own registry: ``torch.ops.anydml.*``, once this package is imported.

They run eagerly, under ``torch.compile(fullgraph=True)``, in ``torch.export``, under autograd (any number of times) and
under ``torch.vmap``. On the CPU and on GPUs they move memory as `anydml.split` and the others do. The functions here
have the same names, take the arguments of those but for ``out``, call the operators, and work under all of
``torch.func`` and in forward mode too, outside of ``torch.compile``. All are derived from the operators' files. A
gradient is made of the operators, too: see `gradients` for those of the first, and `generic` for all others.
"""

from __future__ import annotations

import importlib.util
from typing import TYPE_CHECKING

if importlib.util.find_spec("torch") is None:
    raise ImportError('anydml.torch needs the package torch: pip install "anydml[torch]"', name="torch")

from anydml.operators.registry import FUNCTIONS
from anydml.torch import batching, generic, gradients, operators, shapes, transforms
from anydml.torch.calls import called

for _name, _operator in operators.OPERATORS.items():
    _function = operators.EVERY[_name]
    if _name in gradients.SETUP:
        _backward, _batch = getattr(gradients, f"{_name}_backward"), getattr(batching, _name)
        _rules = transforms.Rules(gradients.SETUP[_name], _backward, _batch)
    else:
        _rules = generic.rules(_function)
    _operator.register_fake(shapes.fake(_function))
    _operator.register_autograd(_rules.backward, setup_context=_rules.setup)
    _operator.register_vmap(_rules.batch)
    transforms.RULES[_name], transforms.FUNCTIONS[_name] = _rules, _function

if TYPE_CHECKING:
    from anydml.operators.registry import *  # noqa: F403
else:
    globals().update({_name: called(_function) for _name, _function in FUNCTIONS.items()})

__all__ = [*FUNCTIONS]  # noqa: PLE0604  # its keys are names
