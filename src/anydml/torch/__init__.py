"""The operators in PyTorch's own registry: ``torch.ops.anydml.*``, once this package is imported.

They run eagerly, under ``torch.compile(fullgraph=True)``, in ``torch.export``, under autograd (any number of times), in
forward mode and under ``torch.vmap``. On the CPU and on GPUs they move memory as `anydml.split` and the others do. The
functions here have the same names, take the arguments of those but for ``out``, call the operators, and work under all
of ``torch.func`` too, outside of ``torch.compile``. All are derived from the operators' files. A gradient is made of
the operators, too: see `gradients` for those of the first, and `generic` for all others.
"""

from __future__ import annotations

import importlib.util
from typing import TYPE_CHECKING

if importlib.util.find_spec("torch") is None:
    raise ImportError('anydml.torch needs the package torch: pip install "anydml[torch]"', name="torch")

from anydml.operators.registry import FUNCTIONS
from anydml.torch import batching, generic, gradients, operators, picking, shapes, transforms
from anydml.torch.calls import called

for _name, _operator in operators.OPERATORS.items():
    _function = operators.EVERY[_name]
    if _name == picking.NAME:
        _rules = picking.RULES
    elif _name in gradients.SETUP:
        _backward, _batch = getattr(gradients, f"{_name}_backward"), getattr(batching, _name)
        _rules = transforms.Rules(gradients.SETUP[_name], _backward, _batch)
    else:
        _rules = generic.rules(_function)
    _operator.register_fake(shapes.fake(_function))
    _operator.register_autograd(_rules.backward, setup_context=_rules.setup)
    _operator.register_vmap(_rules.batch)
    operators.quicken(_function)
    transforms.RULES[_name], transforms.FUNCTIONS[_name] = _rules, _function

if TYPE_CHECKING:
    from anydml.operators.registry import *  # noqa: F403
else:
    globals().update({_name: called(_function) for _name, _function in FUNCTIONS.items()})


def consolidate_safetensors_files(
    input_dir: str, output_dir: str, fqn_to_index_mapping: dict[str, int], num_threads: int = 1
) -> None:
    """Write the tensors of a sharded checkpoint whole, as PyTorch's function of this name does.

    It is ``torch.distributed.checkpoint._consolidate_hf_safetensors.consolidate_safetensors_files`` with at most 256 MB
    of buffers; what is stopped goes on when it is called again, and no file is seen before it is whole.

    Args:
        input_dir: folder with the shards that ``HuggingFaceStorageWriter`` wrote.
        output_dir: folder for the files and their index; files of the same names are replaced.
        fqn_to_index_mapping: numbers of the files, from 1, by the tensors' names; other tensors are left out.
        num_threads: is not needed: several blocks are read and written at once in any case.

    Raises:
        ModelError: a file is broken or cannot be written, or has no tensor of a name.

    Examples:
        >>> from pathlib import Path
        >>> from anydml import stores
        >>> from anydml.torch import consolidate_safetensors_files
        >>> Path("shards").mkdir()
        >>> Path("whole").mkdir()
        >>> np.save("x.npy", np.arange(6))
        >>> saved = stores.create("shards/shard.safetensors", {"weight": (6,)}, np.int64)
        >>> dml.fuse(np.copy).plan(stores.open("x.npy"), saved["weight"]).run()
        >>> consolidate_safetensors_files("shards", "whole", {"weight": 1})
        >>> stores.open("whole")["weight"].read()
        array([0, 1, 2, 3, 4, 5])
    """
    from anydml.stores.resharding import consolidate

    consolidate(input_dir, output_dir, fqn_to_index_mapping).run()


__all__ = ["consolidate_safetensors_files", *FUNCTIONS]  # noqa: PLE0604  # its keys are names
