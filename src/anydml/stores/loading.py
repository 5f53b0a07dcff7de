"""`plan_load`: the bytes of files that become the tensors of a rank."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

from anydml.errors import ModelError
from anydml.moves import Fill
from anydml.stores.argument_checks import PATHS, Kind, checked
from anydml.stores.checkpoints.composed import WholeTensors, compose_stored, program_of
from anydml.stores.checkpoints.model_config import config_beside
from anydml.stores.checkpoints.output_files import Change
from anydml.stores.checkpoints.placements import Placement, RankTensors
from anydml.stores.checkpoints.presets import LayoutName
from anydml.stores.checkpoints.sources import read_sources, sources_of
from anydml.stores.converting import conversion
from anydml.stores.formats.store import Checkpoint, uncollected
from anydml.stores.load_plan import LoadPlan
from anydml.stores.planning.identities import identities_of_stores
from anydml.stores.resharding import change_of
from anydml.tracing.trace import Trace
from anydml.tracing.traced_ndarray import TracedNdarray


@checked(
    model=Kind(
        lambda value: isinstance(value, Checkpoint) or PATHS.fits(value), "pass a path, an open checkpoint, or paths"
    )
)
@uncollected()
def plan_load(
    model: str | os.PathLike[str] | Checkpoint | Sequence[str | os.PathLike[str]],
    rank: int = 0,
    ranks: int | Mapping[str, int] = 1,
    layout: str | os.PathLike[str] | None = None,
    to: LayoutName | None = None,
    follow: bool = True,
) -> LoadPlan:
    """Plan the bytes of a checkpoint that a rank loads.

    Args:
        model: a checkpoint, as in `anydml.stores.reshard`, or an open one; or several, as there.
        rank: the rank that loads, from 0.
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
        raise ModelError(f"plan_load: rank must be from 0 to {placement.ranks - 1}, not {rank}")
    if to is not None and (layout is not None or not isinstance(model, (str, os.PathLike))):
        raise ModelError("plan_load: to= needs the folder of a model, and cannot be combined with layout=")
    change: Change | None
    if to is not None and isinstance(model, (str, os.PathLike)):
        composer, change, _, axes = conversion(model, to, placement.tp > 1)
    else:
        trace = Trace("plan_load", TracedNdarray)
        composer, (change, axes) = trace.composer, change_of(trace, layout)
    if isinstance(model, Checkpoint):
        model_path, (tensors, _, remarks) = str(model.path), sources_of([model], axes)
    else:
        paths = [model] if isinstance(model, (str, os.PathLike)) else [*model]
        if not paths:
            raise ModelError("plan_load: name a checkpoint")
        model_path, (tensors, _, remarks) = str(paths[0]), read_sources(paths, axes, follow)
    composed = compose_stored(tensors) if change is None else change(compose_stored(tensors))
    if placement.ranks > 1:
        rank_tensors = RankTensors(composed, axes, placement, model_path, config_beside(model_path))
        parts, _ = rank_tensors.parts(composer, rank)
        remarks += rank_tensors.remarks
    else:
        parts = WholeTensors([*composed.items()]).as_parts
        remarks += axes.remarks
    program, inputs = program_of(composer, parts)
    moves = (move for repeated in program.repeated_moves for move in repeated.moves)
    if program.program.scratch_bytes or any(isinstance(move.source, Fill) or move.has_lookups for move in moves):
        raise ModelError("plan_load: the layout picks rows in an order that takes too many slices, or creates elements")
    identities = identities_of_stores("plan_load", inputs)
    return LoadPlan(dict(parts.file_tensors.items()), program, inputs, identities, remarks)
