"""`plan_load`: the bytes of files that become the tensors of a rank."""

from __future__ import annotations

import os
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from itertools import repeat

from anydml.errors import ModelError
from anydml.moves import Fill, Move
from anydml.moves.compose import Composer
from anydml.stores.checkpoints.composed import ComposedTensor as Made
from anydml.stores.checkpoints.output_files import Change, input_of
from anydml.stores.checkpoints.placements import Placed, Placement, part_of
from anydml.stores.checkpoints.sources import StoredTensors, read_sources
from anydml.stores.converting import conversion
from anydml.stores.formats.store import Checkpoint, Store
from anydml.stores.load_plan import LoadPlan, TensorMoves
from anydml.stores.planning.identities import identities_of
from anydml.stores.resharding import change_of
from anydml.tracing.ndarray import TracedNdarray
from anydml.tracing.trace import Trace


def plan_load(
    model: str | os.PathLike[str] | Checkpoint | Sequence[str | os.PathLike[str]],
    rank: int = 0,
    ranks: int | Mapping[str, int] = 1,
    layout: str | os.PathLike[str] | None = None,
    to: str | None = None,
    follow: bool = True,
) -> LoadPlan:
    """Plan the bytes of a checkpoint that a rank loads.

    Args:
        model: a checkpoint, as in `anydml.stores.reshard`, or an open one; or several, one per rank that wrote it.
        rank: that loads, from 0.
        ranks: the number of tensor-parallel ranks that share the tensors, or of ranks of each kind by name, as in
            `anydml.stores.reshard`; those of ``tp`` are consecutive, then those of ``ep``, ``fsdp``, ``pp``.
        layout: rules and axes, as in `anydml.stores.reshard`.
        to: as in `anydml.stores.convert`, for a folder, instead of a layout.
        follow: as in `anydml.stores.open`.

    Returns:
        The plan.

    Raises:
        ModelError: the checkpoint or the layout is broken, or an axis is unknown or cannot be shared.

    Examples:
        >>> from anydml import stores
        >>> np.save("w.npy", np.ones((4, 2), "f4"))
        >>> files = stores.create("whole.safetensors", shape={"lm_head.weight": [4, 2]}, dtype="float32")
        >>> dml.fuse(lambda w: {"lm_head.weight": w}).plan(stores.open("w.npy"), files).run()
        >>> plan = stores.plan_load("whole.safetensors", rank=1, ranks=2)
        >>> [(run.tensor, run.start, run.length) for run in plan.descriptors()]
        [('lm_head.weight', 0, 16)]
    """
    placement = Placement.of("plan_load", ranks)
    if not 0 <= rank < placement.ranks:
        raise ModelError(f"plan_load: rank is {rank}, where 0 to {placement.ranks - 1} are expected")
    if to is not None and (layout is not None or not isinstance(model, (str, os.PathLike))):
        raise ModelError("plan_load: to is of the folder of a model, without a layout")
    change: Change | None
    if to is not None and isinstance(model, (str, os.PathLike)):
        trace, change, _, axes = conversion(model, to, placement.tp > 1)
    else:
        trace = Trace("plan_load", TracedNdarray)
        change, axes = change_of(trace, layout)
    found: StoredTensors
    if isinstance(model, Checkpoint):
        where, found = str(model.path), model.stores
    else:
        paths = [model] if isinstance(model, (str, os.PathLike)) else [*model]
        where, (found, _) = str(paths[0]), read_sources(paths, axes, follow)

    def shared(composer: Composer, name: str, whole: Made) -> Made:
        return part_of(composer, whole, placed.cuts(name, whole.shape, rank))

    made: dict[str, tuple[TensorMoves, Sequence[Store]]]
    if change is not None:
        composer, inputs = trace.composer, list[Store]()
        changed = change({name: input_of(composer, tensor, inputs) for name, tensor in found.items()})
        placed = Placed(changed, axes, placement, where)
        own = [name for name in changed if placed.holds(name, rank)]
        kinds = _kinds(composer, [shared(composer, name, changed[name]) for name in own])
        made = {name: (kind, inputs) for name, kind in zip(own, kinds, strict=True)}
    else:
        placed = Placed(found, axes, placement, where)
        if placement.pp * placement.ep > 1:
            found = {name: each for name, each in found.items() if placed.holds(name, rank)}
        made = _unchanged(found, repeat("", len(found)) if placement.ranks == 1 else axes.alike(found), shared)
        inputs = [store for _, stores in made.values() for store in stores]
    tensors = {name: kind.described for name, (kind, _) in made.items()}
    # By id, because hashing a path is slow.
    return LoadPlan(tensors, [*made.values()], identities_of({id(each.path): each.path for each in inputs}.values()))


def _unchanged(
    tensors: StoredTensors, alike: Iterable[str], shared: Callable[[Composer, str, Made], Made]
) -> dict[str, tuple[TensorMoves, Sequence[Store]]]:
    """The part of a rank of each tensor, planned once for tensors that differ only in their stores."""
    made: dict[str, tuple[TensorMoves, Sequence[Store]]] = {}
    known: dict[Hashable, TensorMoves] = {}
    for (name, tensor), key in zip(tensors.items(), alike, strict=True):
        stores: Sequence[Store]
        own: Hashable
        if isinstance(tensor, Store):
            stores, own = (tensor,), (key, tensor.shape, tensor.dtype, tensor.fortran_order)
        else:
            stores, own = [*{id(piece.store): piece.store for piece in tensor.pieces}.values()], name
        kind = known.get(own)
        if kind is None:
            composer = Composer("plan_load")
            (kind,) = _kinds(composer, [shared(composer, name, input_of(composer, tensor, []))])
            known[own] = kind
        made[name] = kind, stores
    return made


def _kinds(composer: Composer, tensors: Sequence[Made]) -> list[TensorMoves]:
    """The moves from the inputs to each tensor.

    Raises:
        ModelError: a tensor needs more than moves of runs.
    """
    for each in tensors:
        composer.output("", each.value)
    program = composer.program()
    if program.scratch_bytes or any(isinstance(move.source, Fill) or move.has_lookups for move in program.moves):
        raise ModelError("plan_load: the layout picks rows in an order that is no few slices, or makes elements itself")
    by_output: dict[int, list[Move]] = {}
    for move in program.moves:
        by_output.setdefault(move.destination.operand, []).append(move)
    first = program.count("input")
    return [
        TensorMoves(tuple(by_output.get(first + k, ())), (each.shape, each.dtype)) for k, each in enumerate(tensors)
    ]
