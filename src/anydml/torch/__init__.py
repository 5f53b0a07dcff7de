"""PyTorch custom operators: importing this package registers ``torch.ops.anydml.*``.

The operators run eagerly, under ``torch.compile(fullgraph=True)``, in ``torch.export``, under autograd of any order, in
forward mode and under ``torch.vmap``. On CPUs and GPUs they run the engines that `anydml.split` and the other functions
run. The functions of this module call the operators. They have the names and arguments of anydml's functions, except
``out``, and also support ``torch.func`` outside ``torch.compile``, except for gradients inside ``functionalize``, which
PyTorch refuses; `compress` and `nonzero_coordinates`, whose shapes depend on elements, are not among them.

Schemas, fake kernels and functions are derived from the operators' files. Gradients are themselves composed of these
operators: see `gradients` for those written by hand, and `derived_rules` for all others.
"""

from __future__ import annotations

import importlib.util
from typing import TYPE_CHECKING

if importlib.util.find_spec("torch") is None:
    raise ImportError('anydml.torch needs the package torch: pip install "anydml[torch]"', name="torch")

import torch

from anydml.operators.registry import FUNCTIONS
from anydml.torch import batching, derived_rules, gather_gradient, gradients, registration, shapes, transforms
from anydml.torch.torch_functions import tensor_function

for _name, _operator in registration.OPERATORS.items():
    _function = registration.REGISTERED[_name]
    if _name == gather_gradient.NAME:
        _rules = gather_gradient.RULES
    elif _name in gradients.SETUP:
        _backward, _batch = getattr(gradients, f"{_name}_backward"), getattr(batching, _name)
        _rules = transforms.Rules(gradients.SETUP[_name], _backward, _batch)
    else:
        _rules = derived_rules.derive_rules(_function)
    _operator.register_fake(shapes.fake_kernel(_function))
    _operator.register_autograd(_rules.backward, setup_context=_rules.setup)
    _operator.register_vmap(_rules.batch)
    registration.register_fast_path(_function)
    transforms.RULES[_name], transforms.FUNCTIONS[_name] = _rules, _function

if TYPE_CHECKING:
    from anydml.operators.names import *  # noqa: F403
else:
    globals().update({_name: tensor_function(_function) for _name, _function in FUNCTIONS.items()})


def copy(x: torch.Tensor) -> torch.Tensor:
    """Copy a tensor by PyTorch's own operator, which it can trace while it compiles or records."""
    return x.contiguous().clone()


def consolidate_safetensors_files(
    input_dir: str, output_dir: str, fqn_to_index_mapping: dict[str, int], num_threads: int = 1
) -> None:
    """Consolidate the shards of a checkpoint into files of whole tensors.

    A replacement for ``torch.distributed.checkpoint._consolidate_hf_safetensors.consolidate_safetensors_files`` that
    uses at most 256 MB of buffers. An interrupted call resumes when it is repeated, and files appear only once they are
    complete.

    Args:
        input_dir: folder with the shards that ``HuggingFaceStorageWriter`` wrote.
        output_dir: folder for the files and their index; existing files are overwritten.
        fqn_to_index_mapping: file numbers, starting at 1, by tensor name; other tensors are left out.
        num_threads: ignored; blocks are always read and written concurrently.

    Raises:
        ModelError: a file is broken or cannot be written, or a tensor is missing.

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
