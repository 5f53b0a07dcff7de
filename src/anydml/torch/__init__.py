"""The operators in PyTorch's own registry: ``torch.ops.anydml.*``, once this package is imported.

They run eagerly, under ``torch.compile(fullgraph=True)``, in ``torch.export``, under autograd (any number of times) and
under ``torch.vmap``. On the CPU and on GPUs they move memory as `anydml.split` and the others do. The functions here
have the same names, take the arguments of those, call the operators, and work under all of ``torch.func`` and in
forward mode too, outside of ``torch.compile``:

    split, split_training    a gradient is joined
    join, concat_training    a gradient is split
    slice, slice1            a gradient is laid into zeros
    gather                   a gradient is added up by index, as often as an element was read
"""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from typing import Any, Literal

if importlib.util.find_spec("torch") is None:
    raise ImportError('anydml.torch needs the package torch: pip install "anydml[torch]"', name="torch")

import torch

from anydml import infer
from anydml.arrays.pytorch import MOVED, TorchAdapter
from anydml.torch import batching, gradients, operators, shapes
from anydml.torch.transforms import RULES, Rules, call

for _name, _operator in operators.OPERATORS.items():
    _rules = Rules(gradients.SETUP[_name], getattr(gradients, f"{_name}_backward"), getattr(batching, _name))
    _operator.register_fake(getattr(shapes, _name))
    _operator.register_autograd(_rules.backward, setup_context=_rules.setup)
    _operator.register_vmap(_rules.batch)
    RULES[_name] = _rules


def split(x: Any, sizes_or_sections: int | Sequence[int], axis: int = 0) -> list[Any]:
    """Split a tensor along an axis.

    Args:
        x: tensor with at least one dimension.
        sizes_or_sections: a number of equal parts, or their sizes along `axis`.
        axis: −rank to rank − 1.

    Raises:
        DescError: as `anydml.split`.
    """
    sizes = sizes_or_sections
    if isinstance(sizes, int):
        TorchAdapter(x).check_kind("split", "x", (*MOVED, "meta"))
        axis = infer.axis_of("split", x.ndim, axis)
        sizes = infer.part_sizes("split", sizes, x.shape[axis], axis)
    parts: list[Any] = call("split", x, sizes, axis)
    return parts


def split_training(x: Any, split: Any, axis: int = 0, num_outputs: int | None = None) -> list[Any]:
    """com.microsoft SplitTraining, version 1: split by sizes that are data.

    Args:
        x: tensor with at least one dimension.
        split: the parts' sizes: a 1-D list or tensor of integers in host memory. Empty or None: equal parts.
        axis: −rank to rank − 1.
        num_outputs: number of parts; needed where `split` is empty.

    Raises:
        DescError: as `anydml.split_training`.
    """
    if not isinstance(split, torch.Tensor):
        split = torch.as_tensor([] if split is None else split, device="cpu")
    parts: list[Any] = call("split_training", x, split, axis, num_outputs)
    return parts


def join(arrays: Sequence[Any], axis: int = 0) -> Any:
    """Join tensors of one dtype along an axis.

    Raises:
        DescError: as `anydml.join`.
    """
    return call("join", arrays, axis)


def concat_training(arrays: Sequence[Any], axis: int = 0) -> tuple[Any, Any]:
    """com.microsoft ConcatTraining, version 1: join, and say how long each input was (INT64, 1-D, in host memory).

    Raises:
        DescError: as `anydml.concat_training`.
    """
    joined, lengths = call("concat_training", arrays, axis)
    return joined, lengths


def slice(x: Any, offsets: Sequence[int], sizes: Sequence[int], strides: Sequence[int] | None = None) -> Any:
    """``result[c] = x[offsets + strides · c]``.

    Raises:
        DescError: as `anydml.slice`.
    """
    return call("slice", x, offsets, sizes, [1] * x.ndim if strides is None else strides)


def slice1(
    x: Any,
    window_offsets: Sequence[int],
    window_sizes: Sequence[int],
    window_strides: Sequence[int],
    output_sizes: Sequence[int] | None = None,
) -> Any:
    """A strided window of a tensor, forwards or backwards.

    Raises:
        DescError: as `anydml.slice1`.
    """
    return call("slice1", x, window_offsets, window_sizes, window_strides, output_sizes)


def gather(x: Any, indices: Any, axis: int = 0, *, out_of_range: Literal["clamp", "error"] = "clamp") -> Any:
    """Elements along an axis picked by indices: a tensor on x's device, or a list.

    Raises:
        DescError, IndexError: as `anydml.gather`.
    """
    if not isinstance(indices, torch.Tensor):
        indices = torch.as_tensor(indices, device=x.device)
    return call("gather", x, indices, axis, out_of_range)


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
    """
    from anydml.stores.resharding import consolidate

    consolidate(input_dir, output_dir, fqn_to_index_mapping).run()


__all__ = [
    "concat_training",
    "consolidate_safetensors_files",
    "gather",
    "join",
    "slice",
    "slice1",
    "split",
    "split_training",
]
