"""`reshard`: a checkpoint as another one, consolidated, sharded again, or laid out in another way."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from anydml.errors import ModelError
from anydml.files.json_path import JsonPath, show
from anydml.moves.compose import Composer
from anydml.moves.value import Value
from anydml.stores.applying import Described, Tensors, apply_rule, for_none
from anydml.stores.axes import Axes, Axis
from anydml.stores.extras import extras_beside, said_of
from anydml.stores.layout import Action, Layout, Rule, read_layout
from anydml.stores.layout_in_python import Function, apply_python, read_python
from anydml.stores.opening import INDEX
from anydml.stores.plans import Plan
from anydml.stores.sizes import parse_size
from anydml.stores.sources import RANK, RANK_AXES, RANKS, Tensor, read_sources, recorded
from anydml.stores.staging import Content
from anydml.stores.store import Store
from anydml.stores.targets import Target, new_safetensors
from anydml.text import bytes_text, counted
from anydml.tracing.ndarray import TracedNdarray
from anydml.tracing.trace import Trace

MOST_RANKS = 4096
"""Ranks that a checkpoint is written for at most."""

OF_OTHERS = (".npy", ".npz", ".zarr", ".bin", ".pt", ".pth", ".ckpt", ".gguf", ".onnx", ".json", ".toml", ".h5")
"""What names of files end with that are not written; a folder of such a name would be a surprise."""

Part = tuple[Path, Tensors, dict[str, str]]
"""A file, its tensors and its metadata."""


def reshard(
    inputs: Sequence[str | os.PathLike[str]],
    output: str | os.PathLike[str],
    layout: str | os.PathLike[str] | None = None,
    tp: int | None = None,
    memory: int | str = "256MB",
    shard_size: int | str = "5GB",
    overwrite: bool = False,
    extras: bool = True,
    follow: bool = True,
) -> Plan:
    """Plan to write a safetensors checkpoint as another one.

    Args:
        inputs: a .safetensors file, an index or a folder: of whole tensors, of pieces of PyTorch's distributed
            checkpoints, or of ranks as this function writes them; or several, one for each tensor-parallel rank, in
            their order.
        output: a .safetensors file, or a folder, in which there will be an index if there is more than one file.
        layout: a TOML file with rules for the tensors, and axes for ranks; or a Python file (.py), which is run, whose
            function ``layout`` is traced: it is given all tensors in a dict by name, and gives the new ones in one.
        tp: how many tensor-parallel ranks to write for, each of which gets a file; None for whole tensors.
        memory: bytes for all buffers together, or a text such as ``"256MB"``.
        shard_size: bytes of tensors in a file at most, but for single tensors that have more.
        overwrite: whether an output that exists may be replaced.
        extras: whether small files beside the tensors, such as config.json and a tokenizer's, are copied where input
            and output are folders.
        follow: as `anydml.stores.open`.

    Returns:
        The plan; nothing is written before its `run`.

    Raises:
        ModelError: an input or the layout is broken, rules do not fit, or an axis cannot be shared.
        BindingError: the memory is too small, or the output is an input.

    Examples:
        >>> from anydml import stores
        >>> np.save("w.npy", np.ones((4, 2), "f4"))
        >>> files = stores.create("whole.safetensors", shape={"w": [4, 2]}, dtype="float32")
        >>> dml.fuse(lambda w: {"w": w}).plan(stores.open("w.npy"), files).run()
        >>> plan = stores.reshard(["whole.safetensors"], "parts", shard_size="1MB")
        >>> plan.run()
        >>> list(stores.open("parts"))
        ['w']
    """
    if not inputs:
        raise ModelError("reshard: name a checkpoint")
    out = Path(output)
    is_file = _check_output(out, tp)
    most = parse_size(shard_size)
    if not most:
        raise ModelError("reshard: shard_size is 0, where bytes of a file are expected, such as 5GB")
    path = None if layout is None else Path(layout)
    function: Function | None = None
    if path is not None and path.suffix.lower() == ".py":
        function, own_axes = read_python(path)
        found = Layout((), Axes(own_axes))
    else:
        found = read_layout(path)
    tensors, metadata = read_sources(inputs, found.axes, follow)
    trace = Trace("reshard", TracedNdarray)
    composer = trace.composer
    stores: list[Store] = []
    described = {name: _described(composer, tensor, stores) for name, tensor in tensors.items()}
    if function is not None and path is not None:
        described = apply_python(trace, described, function, path)
    for rule in found.rules:
        is_drop = rule.action is Action.DROP
        described = _dropped(described, rule) if is_drop else apply_rule(composer, described, rule)
    if not described:
        raise JsonPath(str(out)).error("would have no tensor")
    metadata.setdefault("format", "pt")
    others: dict[Path, Content] = {}
    if tp is not None:
        parts = [*_ranks(composer, described, found.axes, tp, out, metadata)]
    elif is_file:
        parts = [(out, described, metadata)]
    else:
        parts = [*_shards(described, out, metadata, most)]
        if len(parts) > 1:
            others[out / f"model{INDEX}"] = _index(parts)
    copied, left = extras_beside(inputs[0]) if extras else ([], [])
    if is_file:
        copied, left = [], [*(each.name for each in copied), *left]
    others |= {out / each.name: each for each in copied}
    targets = _outputs(composer, parts)
    plan = Plan(composer.program(), stores, targets, memory, overwrite, None if is_file else out, others)
    size = f", {bytes_text(sum(each.stat().st_size for each in copied))}"
    plan.remarks = said_of("copies", [each.name for each in copied], size) + said_of("leaves behind", left)
    return plan


def consolidate(
    folder: str | os.PathLike[str],
    output: str | os.PathLike[str],
    numbers: Mapping[str, int],
    memory: int | str = "256MB",
) -> Plan:
    """Plan to write the tensors of a checkpoint into numbered files of a folder, as PyTorch names them.

    Args:
        folder: a distributed checkpoint of PyTorch's, or any that `reshard` reads.
        output: a folder, in which files of the same names are replaced.
        numbers: the numbers of the files, from 1, by the tensors' names; the other tensors are left out.
        memory: bytes for all buffers together, or a text such as ``"256MB"``.

    Returns:
        The plan.

    Raises:
        ModelError: a file is broken, or has no tensor of a name.
        BindingError: the memory is too small, or an output is an input.
    """
    tensors, _ = read_sources([folder], Axes())
    if missing := [name for name in numbers if name not in tensors]:
        raise JsonPath(str(folder)).error(f"has no tensor {show(missing[0])}")
    if not numbers:
        raise JsonPath(str(output)).error("would have no tensor")
    composer, stores = Composer("consolidate"), list[Store]()
    most = max(numbers.values())
    groups: dict[int, Tensors] = {}
    for name, number in numbers.items():
        groups.setdefault(number, {})[name] = _described(composer, tensors[name], stores)
    out = Path(output)
    parts: list[Part] = [
        (out / f"model-{number:05}-of-{most:05}.safetensors", own, {"format": "pt"})
        for number, own in sorted(groups.items())
    ]
    targets = _outputs(composer, parts)
    return Plan(composer.program(), stores, targets, memory, True, None, {out / f"model{INDEX}": _index(parts)})


def _outputs(composer: Composer, parts: Sequence[Part]) -> list[Target]:
    """Targets for all tensors of files, which are outputs of the program from here on."""
    targets: list[Target] = []
    for path, own, said in parts:
        made = new_safetensors(path, {name: (each.shape, each.dtype) for name, each in own.items()}, said)
        for name, each in own.items():
            composer.output(f"{path.name}: {name}", each.value)
            targets.append(made[name])
    return targets


def _check_output(out: Path, tp: int | None) -> bool:
    """Whether the output is one file."""
    is_file = out.name.endswith(".safetensors")
    if tp is not None and not 1 <= tp <= MOST_RANKS:
        raise ModelError(f"reshard: tp is {tp}, where 1 to {MOST_RANKS} ranks are possible")
    if out.suffix.lower() in OF_OTHERS:
        raise JsonPath(str(out)).error("would be a file of another kind: name a .safetensors file, or a folder")
    if tp is not None and is_file:
        raise JsonPath(str(out)).error("is one file, but every rank gets one: name a folder")
    return is_file


def _described(composer: Composer, tensor: Tensor, stores: list[Store]) -> Described:
    """A tensor over new inputs of the program, one for each of its pieces."""
    pieces = []
    for piece in tensor.pieces:
        store = piece.store
        value = composer.input(f"{store.path.name}: {store.name}", store.shape, store.strides, store.dtype.itemsize)
        stores.append(store)
        pieces += [
            each._replace(start=tuple(map(sum, zip(each.start, piece.start, strict=True)))) for each in value.pieces
        ]
    return Described(Value(tensor.shape, tensor.dtype.itemsize, tuple(pieces)), tensor.dtype)


def _dropped(tensors: Tensors, rule: Rule) -> Tensors:
    kept = {name: each for name, each in tensors.items() if rule.match.match(name) is None}
    if len(kept) == len(tensors):
        raise for_none(rule, tensors)
    return kept


def _shards(tensors: Tensors, out: Path, metadata: dict[str, str], most: int) -> Iterator[Part]:
    """Files of whole tensors, in order, named as Hugging Face does."""
    groups: list[Tensors] = [{}]
    size = 0
    for name, each in tensors.items():
        own = math.prod(each.shape) * each.dtype.itemsize
        if groups[-1] and size + own > most:
            groups.append({})
            size = 0
        groups[-1][name] = each
        size += own
    for k, group in enumerate(groups):
        name = "model.safetensors" if len(groups) == 1 else f"model-{k + 1:05}-of-{len(groups):05}.safetensors"
        yield out / name, group, metadata


def _index(parts: Sequence[Part]) -> bytes:
    total = sum(math.prod(each.shape) * each.dtype.itemsize for _, own, _ in parts for each in own.values())
    weight_map = {name: path.name for path, own, _ in parts for name in own}
    content = {"metadata": {"total_size": total}, "weight_map": dict(sorted(weight_map.items()))}
    return (json.dumps(content, indent=2, ensure_ascii=False) + "\n").encode("utf-8")


def _ranks(
    composer: Composer, tensors: Tensors, axes: Axes, count: int, out: Path, metadata: Mapping[str, str]
) -> Iterator[Part]:
    """A file for each rank."""
    known = {name: axes.of(name, len(each.shape), str(out)) for name, each in tensors.items()}
    for rank in range(count):
        own = {name: _share(composer, name, each, known[name], rank, count) for name, each in tensors.items()}
        said = {RANK: str(rank), RANKS: str(count), RANK_AXES: recorded(known)}
        yield out / f"model-rank-{rank:05}-of-{count:05}.safetensors", own, {**metadata, **said}


def _share(composer: Composer, name: str, tensor: Described, axis: Axis, rank: int, count: int) -> Described:
    """A rank's part of a tensor."""
    if axis.axis is None or count == 1:
        return tensor
    size = tensor.shape[axis.axis]
    copies = axis.copies(count, name)
    ranks = count // copies
    if axis.heads is not None and size % axis.heads:
        raise ModelError(
            f"{show(name)} has {counted(size, 'row')} along axis {axis.axis}, which {axis.heads} heads do not divide"
        )
    if size % ranks:
        raise ModelError(
            f"{show(name)} has shape {list(tensor.shape)}, whose axis {axis.axis} "
            f"{counted(ranks, 'rank')} cannot share evenly: slices of a layout cut it to a size that they can, and "
            "replicate gives all of it to each"
        )
    starts, sizes = [0] * len(tensor.shape), [*tensor.shape]
    sizes[axis.axis] = size // ranks
    starts[axis.axis] = rank // copies * sizes[axis.axis]
    return Described(composer.slice(tensor.value, starts, sizes, [1] * len(sizes)), tensor.dtype)
