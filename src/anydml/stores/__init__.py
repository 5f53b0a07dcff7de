"""Arrays in files, larger than memory: opened without being read, and moved by plans.

Everything here is an instance of one model:

- A *source* is a named array whose elements lie in a file or folder: all of them in row-major order, as in .npy,
  safetensors, GGUF, .npz and torch.save files, or in chunks of a grid, each a file of its own, as in Zarr. A *target*
  is the same for an array that does not exist yet. `formats` has one module per format.
- A *program* moves elements of sources to elements of targets. `fuse`, a desc, the rules of a layout, the mappings of
  transformers and the placement of ranks (`checkpoints`) are ways to write one.
- A plan cuts a program into *blocks*, each of which fits in a budget of memory: it reads parts of sources, moves them,
  and writes a part of a target that no other block writes. `planning` decides the blocks: intervals and rectangles of
  bytes between plain files, boxes of whole chunks where an array lies in chunks.
- A *runner* reads, moves and writes blocks in threads, or on a cluster. Targets are staged under hidden names; a
  *journal* lists the finished blocks, so that an interrupted run resumes, and all targets get their names at the end.
  `running` has these.
"""

from anydml.stores.converting import convert
from anydml.stores.formats.opening import open  # read as anydml.stores.open
from anydml.stores.formats.store import Checkpoint, Store
from anydml.stores.formats.target import Target, create
from anydml.stores.formats.zarr_array import ZarrStore
from anydml.stores.formats.zarr_target import ZarrTarget
from anydml.stores.functions import plan
from anydml.stores.load_plan import LoadPlan
from anydml.stores.loading import plan_load
from anydml.stores.plans import Plan
from anydml.stores.rechunking import rechunk
from anydml.stores.resharding import reshard
from anydml.stores.verifying import verify

__all__ = [
    "Checkpoint",
    "LoadPlan",
    "Plan",
    "Store",
    "Target",
    "ZarrStore",
    "ZarrTarget",
    "convert",
    "create",
    "open",
    "plan",
    "plan_load",
    "rechunk",
    "reshard",
    "verify",
]
